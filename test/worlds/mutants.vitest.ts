import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import config from "../../vitest.config.ts"
import { mutated, mutants } from "./mutants.ts"

const names = (process.env["MUTANT"] ?? "").split("; ")

const chosen = mutants.filter(({ name }) => names.includes(name))

// The tests of sessions that start no process, with mutants in the code
export default defineConfig({
  root: fileURLToPath(new URL("../..", import.meta.url)),
  resolve: config.resolve ?? {},
  plugins: [
    {
      name: "mutant",
      enforce: "pre",
      transform: (code, id) =>
        chosen.reduce((code, mutant) => (id.endsWith(mutant.file) ? mutated(mutant, code) : code), code)
    }
  ],
  test: {
    include: ["test/session/*.test.ts"],
    exclude: ["test/session/{conformance,fleet,kill}.test.ts"],
    testTimeout: 120_000,
    setupFiles: config.test?.setupFiles ?? [],
    // the code of another mutant would be there
    fsModuleCache: false,
    silent: true,
    isolate: false,
    maxWorkers: 1
  }
})
