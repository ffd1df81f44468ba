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
          // The graph and the editor bring libraries that no other screen loads.
          groups: [{ name: "vendor", test: /node_modules/, entriesAware: true }],
        },
      },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8070" } },
});
