import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

// Every process that the tests start, the workers of vitest among them, compiles what it loads once and not each time
process.env["NODE_COMPILE_CACHE"] ??= here(".generated/compile-cache")

/** The tests that start processes, open sockets, write files or build. All others are pure. */
const processTests = [
  "test/{cases,examples,package}/*.test.ts",
  "test/ai-sdk/env.test.ts",
  "test/http/*.test.ts",
  "test/agent/otlp.test.ts",
  "test/session/conformance.test.ts",
  "test/session/{fleet,kill}.test.ts",
  "test/store/*.test.ts",
  "test/mcp/*.test.ts",
  "test/screen/*.test.ts",
  "test/node/*.test.ts",
  "test/tool/remote-{client,http,outcomes,process}.test.ts",
  "test/wire/*.test.ts",
  "test/workflow/processes.test.ts",
  "test/worlds/mutants.test.ts"
]

/** The tests that drive a browser. */
const pageTests = ["test/screen/{web-chat,docs-chat}.test.ts"]

/** The longest files, longest first: one that starts last would run alone at the end. */
const longest = [
  "session/conformance",
  "examples/examples",
  "package/tarball",
  "package/doc-examples",
  "session/fleet",
  "session/kill",
  "examples/quickstart",
  "package/runtimes",
  "session/turns",
  "session/readers"
].map((name) => here(`test/${name}.test.ts`))

class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    const rank = ({ moduleId }: TestSpecification) => {
      const index = longest.indexOf(moduleId)
      return index < 0 ? longest.length : index
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  resolve: {
    alias: [
      { find: /^effect-emissary$/, replacement: here("src/index.ts") },
      { find: /^effect-emissary\/([^/]+)$/, replacement: here("src/$1/index.ts") },
      { find: /^effect-emissary\/([^/]+\/[^/]+)$/, replacement: here("src/$1.ts") }
    ]
  },
  test: {
    // one more than there are cores, because tests with processes and databases wait a good part of their time
    maxWorkers: availableParallelism() + 1,
    // time for a machine with ten times the work that its cores can do: a timeout is there for what hangs, and no test waits
    // for it
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // the tests that are concurrent wait for pages that are written slowly
    maxConcurrency: 8,
    // the output of passing tests is noise: failures under test, examples that print
    silent: "passed-only",
    sequence: { sequencer: LongestFirst },
    setupFiles: [here("test/setup.ts")],
    projects: [
      {
        extends: true,
        test: { name: "process", include: processTests, exclude: ["**/node_modules/**", ...pageTests] }
      },
      // after all others: a browser and its servers are many processes, and a person who looks at a page has a machine that is free.
      // A test that fails is run again: a browser that a busy machine stops for seconds may do the steps of a page in another order
      { extends: true, test: { name: "pages", include: pageTests, retry: 2, sequence: { groupOrder: 1 } } },
      // the modules of a worker are loaded once for all its files
      {
        extends: true,
        test: {
          name: "pure",
          include: ["test/**/*.test.ts"],
          exclude: ["**/node_modules/**", ...processTests, ...pageTests],
          isolate: false
        }
      }
    ]
  }
})
