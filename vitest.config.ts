import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const src = (path: string) => fileURLToPath(new URL(`./src/${path}`, import.meta.url))

export default defineConfig({
  resolve: {
    alias: [
      { find: /^effect-emissary$/, replacement: src("index.ts") },
      { find: /^effect-emissary\/(.*)$/, replacement: src("$1/index.ts") }
    ]
  },
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 20_000,
    hookTimeout: 60_000,
    // what a passing test logs (failures under test, examples that print) is noise
    silent: "passed-only"
  }
})
