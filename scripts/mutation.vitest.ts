import { defineConfig } from "vitest/config"
import config from "../vitest.config.ts"

// The tests that can notice a change. Tests that start processes or a fleet are left out: they would run for each change. So are
// tests that measure time: the instrumented code is slow.
export default defineConfig({
  resolve: config.resolve ?? {},
  test: {
    include: [process.env["MUTATION_TESTS"] ?? "test/{payload,tool,agent,golden,plan,store,session}/**/*.test.ts"],
    exclude: [
      "test/agent/otlp.test.ts",
      "test/payload/jsonschema/{hostile,suite}.test.ts",
      "test/session/{cluster,fleet,kill,owners}.test.ts",
      "test/tool/remote-process.test.ts"
    ],
    // this one needs a server that answers before it has read the body, and a client that still reads the answer
    testNamePattern: /^(?!.*body that is given up)/,
    // a mutant that hangs is ended by Stryker, and a dry run on a busy machine is slow
    testTimeout: 300_000,
    setupFiles: config.test?.setupFiles ?? [],
    silent: true,
    isolate: false,
    maxWorkers: 1
  }
})
