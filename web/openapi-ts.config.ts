import { defineConfig } from "@hey-api/openapi-ts";

export default defineConfig({
  input: "./openapi.json",
  // The page speaks no dialect but headway's own.
  parser: { filters: { tags: { exclude: ["v1"] } } },
  output: { path: "src/client" },
  plugins: ["@hey-api/typescript", { name: "@hey-api/sdk", auth: false }, "@hey-api/client-fetch"],
});
