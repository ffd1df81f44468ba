import { defineConfig } from "@hey-api/openapi-ts";

export default defineConfig({
  input: "./openapi.json",
  output: { path: "src/client" },
  plugins: ["@hey-api/typescript", { name: "@hey-api/sdk", auth: false }, "@hey-api/client-fetch"],
});
