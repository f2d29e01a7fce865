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
    // time for two busy cores: a timeout is there for what hangs, and no test waits for it
    testTimeout: 60_000,
    hookTimeout: 180_000,
    // what a passing test logs (failures under test, examples that print) is noise
    silent: "passed-only"
  }
})
