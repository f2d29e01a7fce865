import { assert, beforeAll, describe, it } from "@effect/vitest"
import { globSync } from "node:fs"
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join, posix } from "node:path"
import { afterAll } from "vitest"
import manifest from "../../package.json" with { type: "json" }
import { requireBuild, root, run } from "./run.ts"

/** Imports an entry, and prints what Node loaded for it. */
const counting = `
import { registerHooks } from "node:module"
const loaded = new Set()
let edges = 0
const ours = ${JSON.stringify(`file://${root}`)}
const isOurs = (url) => url?.startsWith(ours) === true && !url.startsWith(ours + "node_modules/")
registerHooks({
  resolve: (specifier, context, next) => {
    if (isOurs(context.parentURL)) edges++
    return next(specifier, context)
  },
  load: (url, context, next) => {
    loaded.add(url)
    return next(url, context)
  }
})
await import(process.argv[2])
const effect = [...loaded].filter((url) => url.includes("/node_modules/effect/dist/")).length
const rooms = ["cluster", "rpc", "http-api", "workflow"].filter((room) => [...loaded].some((url) => url.includes("/effect/dist/" + room + "/")))
console.log(JSON.stringify({ files: [...loaded].filter(isOurs).length, edges, effect, rooms }))
`

/** The most that an entry may load: our files, the import edges in them, and files of Effect. `effect/ai/LanguageModel` is 170. */
const limits = {
  agent: { files: 3, edges: 62, effect: 173 },
  "agent/Agent": { files: 3, edges: 62, effect: 173 },
  session: { files: 4, edges: 95, effect: 178 },
  ".": { files: 4, edges: 96, effect: 178 },
  plan: { files: 5, edges: 122, effect: 178 }
} as const

interface Loaded {
  readonly files: number
  readonly edges: number
  readonly effect: number
  readonly rooms: ReadonlyArray<string>
}

const same = `
import assert from "node:assert"
import { Agent, AgentError, Session, VersionedStore } from "effect-emissary"
import * as agent from "effect-emissary/agent"
import * as session from "effect-emissary/session"
import * as store from "effect-emissary/store"
import * as AgentModule from "effect-emissary/agent/Agent"
import * as AgentErrorModule from "effect-emissary/agent/AgentError"
import * as SessionModule from "effect-emissary/session/Session"
import * as StoreModule from "effect-emissary/store/VersionedStore"
assert.strictEqual(Agent.make, agent.Agent.make)
assert.strictEqual(Agent.make, AgentModule.make)
assert.strictEqual(AgentError.AgentError, AgentErrorModule.AgentError)
assert.strictEqual(Session.Session, session.Session.Session)
assert.strictEqual(Session.Session, SessionModule.Session)
assert.strictEqual(VersionedStore.VersionedStore, store.VersionedStore.VersionedStore)
assert.strictEqual(VersionedStore.VersionedStore, StoreModule.VersionedStore)
`

describe("HOUSE-9 what Node loads", () => {
  requireBuild()

  let consumer = ""
  beforeAll(async () => {
    consumer = await mkdtemp(join(tmpdir(), "loaded-"))
    for (const [name, target] of [
      [manifest.name, root],
      ["effect", join(root, "node_modules/effect")]
    ] as const) {
      const link = join(consumer, "node_modules", name)
      await mkdir(dirname(link), { recursive: true })
      await symlink(target, link)
    }
    await writeFile(join(consumer, "counting.mjs"), counting)
  })
  afterAll(() => rm(consumer, { recursive: true, force: true }))

  const evaluated = async (text: string, ...flags: ReadonlyArray<string>) => {
    await writeFile(join(consumer, "program.mjs"), text)
    return run("node", [...flags, "program.mjs"], consumer)
  }

  it.each(Object.entries(limits))(
    "HOUSE-9 the entry %s is a few files, and loads no more of Effect than it uses",
    async (entry, limit) => {
      const { code, output } = await run("node", ["counting.mjs", posix.join(manifest.name, entry)], consumer)
      assert.strictEqual(code, 0, output)
      const { edges, effect, files, rooms }: Loaded = JSON.parse(output)
      assert.isAtMost(files, limit.files, "files")
      assert.isAtMost(edges, limit.edges, "edges")
      assert.isAtMost(effect, limit.effect, "files of Effect")
      assert.deepStrictEqual(rooms, [])
    }
  )

  it("HOUSE-9 a service is one object, by the root, a room or a module", async () => {
    assert.deepStrictEqual(await evaluated(same), { code: 0, output: "", stdout: "" })
  })

  it("HOUSE-9 each public module exports from the chunks what it exports in dist", async () => {
    const paths = globSync(["index.js", "*/*.js"], { cwd: join(root, "dist") })
    assert.isAbove(paths.length, 60)
    const { code, output } = await evaluated(`
import assert from "node:assert"
for (const path of ${JSON.stringify(paths)}) {
  const [made, module] = await Promise.all(["chunks", "dist"].map((folder) => import(${JSON.stringify(`file://${root}`)} + folder + "/" + path)))
  assert.deepStrictEqual(Object.keys(made), Object.keys(module), path)
  for (const name of Object.keys(module)) assert.strictEqual(typeof made[name], typeof module[name], path + " " + name)
}`)
    assert.strictEqual(code, 0, output)
  })

  it("HOUSE-9 the stack of an error leads to the sources", async () => {
    const text = `
import * as Effect from "effect/Effect"
import { Conversation } from "effect-emissary"
console.log((await Effect.runPromise(Effect.flip(Conversation.codec.decodeJson("{")))).stack)`
    assert.include((await evaluated(text)).stdout, "/chunks/chunk/agent.js:")
    assert.include((await evaluated(text, "--enable-source-maps")).stdout, "/src/payload/internal/")
  })

  it("HOUSE-9 bundlers read the modules, Node the chunks", async () => {
    const text = `console.log(import.meta.resolve("effect-emissary/agent/Agent"))`
    assert.include((await evaluated(text)).stdout, "/chunks/agent/Agent.js")
    assert.include((await evaluated(text, "--conditions", "module")).stdout, "/dist/agent/Agent.js")
  })
})
