import { assert, beforeAll, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { createContext, Script } from "node:vm"
import { afterAll } from "vitest"
import manifest from "../../package.json" with { type: "json" }
import { checks, done, main } from "./packed.ts"
import { requireBuild, root, run } from "./run.ts"

const sqlite = `
import { Effect } from "effect"
import { VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Option } from "effect"
const program = Effect.gen(function*() {
  const store = yield* VersionedStore.VersionedStore
  yield* store.compareAndSet("key", Option.none(), { a: 1 })
  console.log(JSON.stringify((yield* store.get("key")).value.value))
})
await Effect.runPromise(program.pipe(Effect.provide(SqliteClient.layerStore({ filename: "kept.db" }))))
`

/** The globals of every browser and of workerd. A bundle that needs more of Node than this fails. */
const webGlobals = [
  "AbortController",
  "AbortSignal",
  "Blob",
  "Event",
  "EventTarget",
  "FormData",
  "Headers",
  "ReadableStream",
  "Request",
  "Response",
  "TextDecoder",
  "TextDecoderStream",
  "TextEncoder",
  "TransformStream",
  "URL",
  "URLSearchParams",
  "WritableStream",
  "atob",
  "btoa",
  "clearInterval",
  "clearTimeout",
  "console",
  "crypto",
  "fetch",
  "performance",
  "queueMicrotask",
  "setInterval",
  "setTimeout",
  "structuredClone"
] as const

const workerdConfig = `
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (services = [(name = "main", worker = (
  modules = [(name = "worker", esModule = embed "worker.js")], compatibilityDate = "2026-11-01"
))]);
`

describe("MEND-14 runtimes that npm installs", () => {
  requireBuild()

  let consumer = ""
  beforeAll(async () => {
    consumer = await mkdtemp(join(tmpdir(), "runtimes-"))
    for (const [name, target] of [
      [manifest.name, root],
      ["effect", join(root, "node_modules/effect")]
    ] as const) {
      const link = join(consumer, "node_modules", name)
      await mkdir(dirname(link), { recursive: true })
      await symlink(target, link)
    }
    const dependencies = { effect: "*", [manifest.name]: "*" }
    await writeFile(join(consumer, "package.json"), JSON.stringify({ type: "module", dependencies }))
    await writeFile(join(consumer, "checks.mjs"), checks)
    await writeFile(join(consumer, "main.mjs"), main)
    await writeFile(join(consumer, "sqlite.mjs"), sqlite)
  })
  afterAll(() => rm(consumer, { recursive: true, force: true }))

  const runs = async (command: string, ...args: ReadonlyArray<string>) => {
    const { code, output } = await run(command, args, consumer)
    return { code, output: output.trim() }
  }

  const bundle = async (entry: string, format: "esm" | "iife"): Promise<string> => {
    const { outputFiles, warnings } = await build({
      stdin: { contents: entry, resolveDir: consumer, loader: "js" },
      bundle: true,
      format,
      platform: "browser",
      target: "es2023",
      write: false,
      logLevel: "silent",
      logOverride: { "empty-import-meta": "silent" }
    })
    assert.deepStrictEqual(warnings, [])
    return outputFiles[0]?.text ?? ""
  }

  it("Node", async () => {
    assert.deepStrictEqual(await runs("node", "main.mjs"), done)
  })

  it("Bun", async () => {
    assert.deepStrictEqual(await runs("bun", "main.mjs"), done)
  })

  it("Deno, without a permission", async () => {
    assert.deepStrictEqual(await runs("deno", "run", "--no-prompt", "--node-modules-dir=manual", "main.mjs"), done)
  })

  it("a browser, from a bundle", async () => {
    const text = await bundle(`import { main } from "./checks.mjs"\nglobalThis.done = main()`, "iife")
    const globals: Record<string, unknown> = Object.fromEntries(webGlobals.map((name) => [name, globalThis[name]]))
    new Script(text).runInContext(createContext(globals))
    assert.strictEqual(await globals["done"], done.output)
  })

  it("workerd, without the APIs of Node, from a bundle", async () => {
    const entry = `import { main } from "./checks.mjs"\nexport default { test: async () => console.log(await main()) }`
    await writeFile(join(consumer, "worker.js"), await bundle(entry, "esm"))
    await writeFile(join(consumer, "worker.capnp"), workerdConfig)
    const { code, output } = await runs("workerd", "test", "worker.capnp")
    assert.include(output, done.output)
    assert.strictEqual(code, 0)
  })

  it.each([
    ["Node", "node", []],
    ["Bun", "bun", []],
    [
      "Deno",
      "deno",
      ["run", "--no-prompt", "--node-modules-dir=manual", "--allow-env", "--allow-read", "--allow-write"]
    ]
  ] as const)("the room node keeps values in a file on %s", async (_, command, args) => {
    await rm(join(consumer, "kept.db"), { force: true })
    const { code, output } = await runs(command, ...args, "sqlite.mjs")
    assert.deepStrictEqual({ code, last: output.split("\n").at(-1) }, { code: 0, last: `{"a":1}` })
  })
})
