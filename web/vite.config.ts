import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./", // It works under any prefix.
  plugins: [react()],
  worker: { format: "es" },
  build: {
    outDir: "../src/headway/_ui",
    emptyOutDir: true,
    assetsInlineLimit: 0, // Nothing inline: the content policy forbids it.
    chunkSizeWarningLimit: 1_000,
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [{ name: "vendor", test: /node_modules/ }],
        },
      },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8070" } },
});
