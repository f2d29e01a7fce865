/** The packed package, and a program that uses it. */
import { assert } from "@effect/vitest"
import { join, posix } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { run } from "./run.ts"

export const subpaths = Object.keys(manifest.exports).filter((key) => key !== "./package.json" && !key.includes("*"))

export const specifierOf = (subpath: string) => posix.join(manifest.name, subpath)

/** Packs the build that `npm test` makes before its tests, as `npm pack` would make it. */
export const pack = async (folder: string): Promise<string> => {
  const { code, output } = await run("npm", ["pack", "--ignore-scripts", "--pack-destination", folder])
  assert.strictEqual(code, 0, output)
  return join(folder, `${manifest.name}-${manifest.version}.tgz`)
}

/** The options of TypeScript for the two ways in which programs find a package. */
export const resolutions = {
  NodeNext: { module: "NodeNext" },
  Bundler: { module: "ESNext", moduleResolution: "Bundler" }
}

/** A program that uses each room but `node`, as an application does: out of the rooms, not module by module. */
export const checks = `
import { Effect, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, AgentEvent, Limits, ModelRegistry, ToolResolver, ToolRuntime, ToolResult, VersionedStore } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"
import { Session } from "effect-emissary/session"
import { OpenAiMessages } from "effect-emissary/interop"
import { McpTools, McpToolServer } from "effect-emissary/mcp"
import { Json, JsonSchema } from "effect-emissary/payload"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { Re2 } from "effect-emissary/re2"

const expect = (found, expected) => {
  if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error(JSON.stringify(found) + " is not " + JSON.stringify(expected))
}
const toolkit = Toolkit.make(Tool.make("add", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.Finite }))
const Tools = toolkit.toLayer({ add: ({ n }) => Effect.succeed(n + 1) })
const agent = Agent.make("adder", { model: "demo/small", toolkit })
const plain = Agent.make("plain", { instructions: "s" })
const says = (text) => ScriptedModel.layer([{ text }])
const calls = () => ScriptedModel.layer([{ toolCalls: [{ name: "add", params: { n: 1 } }] }, { text: "2" }])

const all = {
  hello: plain.ask("q").pipe(Effect.provide(says("hi")), Effect.map((text) => expect(text, "hi"))),
  tools: agent.ask("q").pipe(
    Effect.provide([Layer.provide(ModelRegistry.layerContext, calls()), calls(), Tools]),
    Effect.map((text) => expect(text, "2"))
  ),
  stream: AgentEvent.result(plain.stream("q")).pipe(Effect.provide(says("hi")), Effect.map(({ text }) => expect(text, "hi"))),
  definition: Effect.gen(function*() {
    const json = yield* Agent.encodeJson(agent)
    const rebuilt = yield* Agent.decodeJson(json)
    expect(yield* rebuilt.ask("q"), "2")
  }).pipe(Effect.provide([
    Layer.provide(ToolResolver.layerToolkit(toolkit), Tools),
    Layer.provide(ModelRegistry.layerContext, calls()),
    calls()
  ])),
  plan: Effect.gen(function*() {
    const plan = yield* Plan.bind(yield* Plan.make("plan", [Step.make("one", { target: plain })]))
    expect((yield* Plan.run(plan, "q")).output, "hi")
  }).pipe(Effect.provide(says("hi"))),
  session: Session.turn("1", "q").pipe(
    Effect.provide(Session.layer([plain]).pipe(Layer.provide([VersionedStore.layerMemory, says("hi")]))),
    Effect.map(({ text }) => expect(text, "hi"))
  ),
  aiSdk: plain.ask("q").pipe(
    Effect.provide(AiSdk.model({
      specificationVersion: "v4", provider: "p.chat", modelId: "m", supportedUrls: {},
      doGenerate: () => Promise.resolve({
        content: [{ type: "text", text: "hi" }], warnings: [],
        finishReason: { unified: "stop", raw: "stop" }, usage: { inputTokens: {}, outputTokens: {} }
      })
    })),
    Effect.map((text) => expect(text, "hi"))
  ),
  rooms: Effect.sync(() => expect([typeof McpTools.layer, typeof McpToolServer.layer, typeof OpenAiMessages], ["function", "function", "object"])),
  pattern: Effect.gen(function*() {
    const schema = yield* JsonSchema.make({ type: "string", pattern: "^[^@]+@[^@]+$" })
    expect(JsonSchema.validate(schema, "a@b")._tag, "Success")
    expect(JsonSchema.validate(schema, "ab")._tag, "Failure")
  }).pipe(Effect.provide(Re2.layer)),
  limits: Effect.flip(Json.parse("[[1]]", { limits: { maxDepth: 1 } })).pipe(Effect.map(({ reason }) => expect(reason._tag, "TooDeep")))
}

export const main = async () => {
  for (const [name, check] of Object.entries(all)) {
    await Effect.runPromise(check).catch((error) => { throw new Error(name + ": " + error) })
  }
  return Object.keys(all).length + " checks"
}
`

export const main = `import { main } from "./checks.mjs"\nconsole.log(await main())`

export const done = { code: 0, output: "10 checks" }
