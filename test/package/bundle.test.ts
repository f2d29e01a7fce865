import { assert, beforeAll, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { gzipSync } from "node:zlib"
import { afterAll } from "vitest"
import manifest from "../../package.json" with { type: "json" }
import { requireBuild, root, run } from "./run.ts"

const model = `
const model = LanguageModel.make({
  generateText: ({ prompt }) =>
    Effect.succeed([
      prompt.content.length < 3
        ? { type: "tool-call", id: "c1", name: "weather", params: { city: "Oslo" } }
        : { type: "text", text: "hello" }
    ]),
  streamText: () => Stream.empty
})
const LanguageModelLive = Layer.effect(LanguageModel.LanguageModel, model)
`

const tools = `
const toolkit = Toolkit.make(
  Tool.make("weather", {
    description: "Look up the weather",
    parameters: Schema.Struct({ city: Schema.String }),
    success: Schema.Struct({ city: Schema.String, temperature: Schema.Finite })
  })
)
const ToolsLive = toolkit.toLayer({ weather: ({ city }) => Effect.succeed({ city, temperature: 21 }) })
`

/** A session streams its answers. */
const inSession = `
const agent = Agent.make("a", { instructions: "s", toolkit })
const streaming = LanguageModel.make({
  generateText: () => Effect.succeed([]),
  streamText: ({ prompt }) =>
    Stream.fromIterable(
      prompt.content.length < 3
        ? [{ type: "tool-call", id: "c1", name: "weather", params: { city: "Oslo" } }]
        : [{ type: "text-start", id: "1" }, { type: "text-delta", id: "1", delta: "hello" }, { type: "text-end", id: "1" }]
    )
})
const StreamingLive = Layer.effect(LanguageModel.LanguageModel, streaming)
const Sessions = Session.layer([agent]).pipe(Layer.provide([VersionedStore.layerMemory, StreamingLive, ToolsLive]))
Effect.runPromise(Session.turn("chat/1", "q").pipe(Effect.provide(Sessions))).then(({ text }) => console.log(text))
`

const effect = ["Effect", "Layer", "Schema", "Stream"].map((name) => `import * as ${name} from "effect/${name}"`)
const ai = ["LanguageModel", "Tool", "Toolkit"].map((name) => `import * as ${name} from "effect/ai/${name}"`)

const programOf = (imports: ReadonlyArray<string>, body: string) =>
  [...effect, ...ai, ...imports, model, tools, body].join("\n")

const inCode = `
const agent = Agent.make("a", { instructions: "s", toolkit })
Effect.runPromise(agent.ask("q").pipe(Effect.provide([LanguageModelLive, ToolsLive]))).then(console.log)
`

/** Each module is imported by itself, as from Effect, and not out of the namespaces of a room. */
const modules = (...paths: ReadonlyArray<string>) =>
  paths.map((path) => `import * as ${path.split("/")[1]} from "effect-emissary/${path}"`)

/**
 * The programs, what each prints, and the most that its bundle may have, in KB: minified, and gzipped besides. The comparison of
 * definitions, with which a run outlives edits of its agent, took 12 KB of each agent, and the hooks of a workflow 2. Arguments that
 * are shown as they are received, answers that are cut off, limits of answers and later system messages took 9, and the classes of sessions in the root 2 (gzipped). Edited
 * messages, instructions of today and a model per message took 3. Context windows in bytes that believe no single report, walks that end, well-formed
 * texts, errors that print no content and the form of names took 7, and sessions whose operations check their arguments 4 (gzipped).
 * The transition of plans, which an agent can be, took 4 of an agent (gzipped), and the placeholder of a session that begins half a KB of a session.
 * Settings of model calls as data, and budgets, took 4 (gzipped), and questions, notes about calls that repeat and options that cannot be
 * meant 3. Lists of approvals, remembered answers, values that are held, outputs that are streamed, and contexts with a Schema took 3 of an agent that has none of
 * them (gzipped), and structured output that is shown part by part 2 of a session.
 * Handoffs took 5 (2 gzipped): the transition of a run has them, and so has the check of a definition.
 * Conditions of approvals took 8 (3 gzipped) of a program that reads agents, and 1 of others.
 * Budgets that ask, and budgets of `Plan.run`, took 4 (1 gzipped).
 * Requests that name who decides, and that expire, took 3 (1 gzipped).
 */
const programs = {
  "an agent in code": {
    text: programOf(modules("agent/Agent"), inCode),
    prints: "hello",
    minified: 529,
    gzipped: 184
  },
  "an agent in code that imports the root": {
    text: programOf([`import { Agent } from "effect-emissary"`], inCode),
    prints: "hello",
    minified: 551,
    gzipped: 192
  },
  "an agent in a session": {
    text: programOf(modules("agent/Agent", "session/Session", "store/VersionedStore"), inSession),
    prints: "hello",
    minified: 667,
    gzipped: 234
  },
  "an agent in a session that imports the root": {
    text: programOf([`import { Agent, Session, VersionedStore } from "effect-emissary"`], inSession),
    prints: "hello",
    minified: 703,
    gzipped: 247
  },
  "an agent that is decoded": {
    text: programOf(
      modules("agent/Agent", "agent/ModelRegistry", "tool/ToolResolver"),
      `
const wire = '{"schema_version":2,"instructions":"s","model_options":{},"max_steps":16}'
const program = Effect.flatMap(Agent.decodeJson(wire), (agent) => agent.ask("q")).pipe(
  Effect.provide([
    LanguageModelLive,
    ModelRegistry.layer({}),
    ToolResolver.layerToolkit(toolkit).pipe(Layer.provide(ToolsLive))
  ])
)
Effect.runPromise(program).then(console.log)
`
    ),
    prints: "hello",
    minified: 552,
    gzipped: 193
  },
  "a plan": {
    text: programOf(
      modules("agent/Agent", "plan/Plan", "plan/Step"),
      `
const agent = Agent.make("a", { instructions: "s", toolkit })
const bound = Effect.flatMap(Plan.make("plan", [Step.make("one", { target: agent })]), Plan.bind)
const program = Effect.flatMap(bound, (plan) => Plan.run(plan, "q"))
Effect.runPromise(program.pipe(Effect.provide([LanguageModelLive, ToolsLive]))).then(({ output }) => console.log(output))
`
    ),
    prints: "hello",
    minified: 605,
    gzipped: 211
  },
  "a server of remote tools": {
    text: programOf(
      [
        `import * as HttpRouter from "effect/http/HttpRouter"`,
        `import * as Redacted from "effect/Redacted"`,
        ...modules("tool/RemoteTools")
      ],
      `
const server = RemoteTools.layerServer(toolkit, { token: Redacted.make("t") }).pipe(Layer.provide(ToolsLive))
const { handler } = HttpRouter.toWebHandler(server, { disableLogger: true })
handler(new Request("http://localhost/tools")).then(({ status }) => console.log(status))
`
    ),
    prints: "401",
    minified: 433,
    gzipped: 148
  }
} as const

/** Parts that an agent in code has no use for. */
const unused = [
  "agent/wire/",
  "store/",
  "interop/",
  "mcp/",
  "node/",
  "payload/Signed.js",
  "re2/",
  "plan/",
  "testing/",
  "agent/ContextWindow.js",
  "agent/Guard.js",
  "agent/internal/agentPartial.js",
  "agent/internal/guardChecks.js",
  "payload/internal/partialJson.js",
  "tool/RemoteTools.js",
  "tool/internal/remoteProtocol.js"
]

/** Modules of others that it has no use for: the second engine of patterns, and the import of JSON Schemas. */
const foreign = ["re2js", "fromJsonSchemaDocument.js"]

const bundle = async (consumer: string, text: string) => {
  const { metafile, outputFiles, warnings } = await build({
    stdin: { contents: text, resolveDir: consumer, loader: "js" },
    absWorkingDir: consumer,
    bundle: true,
    minify: true,
    format: "esm",
    platform: "node",
    target: "node22",
    define: { "process.env.NODE_ENV": '"production"' },
    outfile: "out.js",
    write: false,
    metafile: true,
    logLevel: "silent"
  })
  assert.deepStrictEqual(warnings, [])
  const contents = outputFiles[0]?.contents ?? new Uint8Array()
  const used = Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : []))
  )
  return { contents, minified: contents.length / 1024, gzipped: gzipSync(contents, { level: 9 }).length / 1024, used }
}

describe("FAST-3 bundles hold what a program uses", () => {
  requireBuild()

  let consumer = ""
  beforeAll(async () => {
    consumer = await mkdtemp(join(tmpdir(), "bundle-"))
    for (const [name, target] of [
      [manifest.name, root],
      ["effect", join(root, "node_modules/effect")]
    ] as const) {
      const link = join(consumer, "node_modules", name)
      await mkdir(dirname(link), { recursive: true })
      await symlink(target, link)
    }
  })
  afterAll(() => rm(consumer, { recursive: true, force: true }))

  it.each(Object.entries(programs))("%s works and stays small", async (name, { gzipped, minified, prints, text }) => {
    const bundled = await bundle(consumer, text)
    const path = join(consumer, `${name.replaceAll(" ", "-")}.mjs`)
    await writeFile(path, bundled.contents)
    const { code, output } = await run(process.execPath, [path])
    assert.deepStrictEqual({ code, output: output.trim() }, { code: 0, output: prints })
    assert.isAtMost(bundled.minified, minified, "KB minified")
    assert.isAtMost(bundled.gzipped, gzipped, "KB gzipped")
  })

  it("an agent in code holds no wires, stores, context windows, guards, outputs part by part, remote tools, plans, foreign messages, second engine of patterns or import of JSON Schemas", async () => {
    const { used } = await bundle(consumer, programs["an agent in code"].text)
    assert.isTrue(used.some((path) => path.endsWith("dist/agent/Agent.js")))
    assert.deepStrictEqual(
      used.filter((path) => [...unused.map((part) => `/dist/${part}`), ...foreign].some((part) => path.includes(part))),
      []
    )
  })

  it.each(["an agent in a session", "an agent in a session that imports the root"] as const)(
    "HOUSE-9 %s has nothing of effect/cluster, effect/rpc or effect/http",
    async (name) => {
      const { used } = await bundle(consumer, programs[name].text)
      assert.isTrue(used.some((path) => path.endsWith("dist/session/Session.js")))
      assert.deepStrictEqual(
        used.filter((path) => /effect\/dist\/(cluster|rpc|http|http-api)\//.test(path)),
        []
      )
    }
  )
})
