/** HOUSE-1: numbers and times among the options of the public API that cannot be meant are refused, with the name of the option. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Redacted, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { Agent, ContextWindow, Conversation, ToolContract, ToolRuntime, VersionedStore } from "effect-emissary"
import { SessionHttp } from "effect-emissary/http"
import { McpTools } from "effect-emissary/mcp"
import { SqliteClient } from "effect-emissary/node"
import { Plan, Step } from "effect-emissary/plan"
import { ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { RemoteTools } from "effect-emissary/tool"
import { Activities } from "effect-emissary/workflow"

/** A value of any type: the types of an option refuse most of them. */
type Use = (value: never) => Effect.Effect<unknown, unknown>

/** The values around the least one, the only kinds there are. */
const kinds = {
  "a number from 0 on": [
    [Number.NaN, -1, Number.NEGATIVE_INFINITY, "many", true],
    [0, 7]
  ],
  "a number from 1 on": [
    [Number.NaN, 0, -3, Number.NEGATIVE_INFINITY, "many", true],
    [1, 7]
  ],
  "a number from 256 on": [
    [Number.NaN, 0, 255, "many", true],
    [256, 1000]
  ],
  "a time from 0 on": [
    [Number.NaN, -1, "-1 second", "soon", true],
    [0, "1 second"]
  ],
  "a time of more than 0": [
    [Number.NaN, 0, -1, "-1 second", "soon", true],
    [1, "2 minutes"]
  ],
  "a time of more than 0 that ends": [
    [Number.NaN, 0, -1, "Infinity", "soon", true],
    [60_000, "2 minutes"]
  ]
} as const

type Kind = keyof typeof kinds

const agent = Agent.make("a")
const model = ScriptedModel.layer(() => ({ text: "done" }))

const run = (options: Agent.Options) => Effect.provide(agent.run("go", options), model)

/** Builds a layer. An option is looked at before any service: a service that is not there is another defect. */
const build = <A, E>(layer: Layer.Layer<A, E, never>): Effect.Effect<unknown, E> => Effect.scoped(Layer.build(layer))
const withoutServices = <A, E, R>(layer: Layer.Layer<A, E, R>) => build(layer as Layer.Layer<A, E>)

const sessions = (options: Session.LayerOptions) =>
  Session.layer([agent], options).pipe(Layer.provide([VersionedStore.layerMemory, model]))

const inSession = <A, E>(use: Effect.Effect<A, E, Session.Session>) => Effect.provide(use, sessions({}))

const plan = Effect.flatMap(Plan.make("p", [Step.make("s", { target: () => Effect.succeed(1) })]), Plan.bind)

const fit = (policy: ReturnType<typeof ContextWindow.truncate>) =>
  Effect.gen(function* () {
    const conversation = yield* Conversation.make({ system: "x" })
    return yield* Effect.provide(Agent.make("a", { contextWindow: policy }).run("go", { conversation }), model)
  })

const server = (options: Parameters<typeof SessionHttp.layerServer>[0]) =>
  withoutServices(SessionHttp.layerServer(options).pipe(Layer.provide(HttpRouter.layer)))

const remote = { url: "http://127.0.0.1:1", token: Redacted.make("secret") }

const options: ReadonlyArray<readonly [name: string, kind: Kind, use: Use]> = [
  ["maxSteps", "a number from 1 on", (maxSteps) => run({ maxSteps })],
  ["maxSteps", "a number from 1 on", (maxSteps) => Effect.provide(Agent.make("a", { maxSteps }).run("go"), model)],
  ["modelMistakes", "a number from 0 on", (modelMistakes) => run({ modelMistakes })],
  ["emptyAnswers", "a number from 0 on", (emptyAnswers) => run({ emptyAnswers })],
  ["maxDepth", "a number from 0 on", (maxDepth) => run({ maxDepth })],
  ["concurrency", "a number from 1 on", (concurrency) => run({ concurrency })],
  ["timeouts.model", "a time of more than 0", (model) => run({ timeouts: { model } })],
  ["timeouts.firstChunk", "a time of more than 0", (firstChunk) => run({ timeouts: { firstChunk } })],
  ["timeouts.chunk", "a time of more than 0", (chunk) => run({ timeouts: { chunk } })],
  ["retry", "a number from 0 on", (times) => run({ retry: { times } })],
  ["retry", "a time from 0 on", (delay) => run({ retry: { times: 1, delay } })],
  ["timeouts.total", "a time from 0 on", (total) => run({ timeouts: { total } })],
  ["timeouts.step", "a time from 0 on", (step) => run({ timeouts: { step } })],
  ["timeouts.tool", "a time from 0 on", (tool) => run({ timeouts: { tool } })],
  ["above", "a number from 0 on", (above) => fit(ContextWindow.truncate({ above }))],
  ["to", "a number from 0 on", (to) => fit(ContextWindow.truncate({ above: 1000, to }))],
  ["maxBytes", "a number from 0 on", (maxBytes) => fit(ContextWindow.truncate({ above: 1000, maxBytes }))],
  ["maxFiles", "a number from 0 on", (maxFiles) => fit(ContextWindow.truncate({ above: 1000, maxFiles }))],
  ["keepOutput", "a number from 0 on", (keepOutput) => fit(ContextWindow.truncate({ above: 1000, keepOutput }))],
  [
    "keepRecent",
    "a number from 1 on",
    (keepRecent) => fit(ContextWindow.summarize({ above: 1000, keepRecent, summarize: () => Effect.succeed("s") }))
  ],
  ["maxIterations", "a number from 0 on", (maxIterations) => Plan.make("p", [], { maxIterations })],
  [
    "maxIterations",
    "a number from 0 on",
    (max) => Effect.flatMap(plan, (p) => Plan.run(p, "x", { maxIterations: max }))
  ],
  ["concurrency", "a number from 1 on", (most) => Effect.flatMap(plan, (p) => Plan.run(p, "x", { concurrency: most }))],
  [
    "timeouts.total",
    "a time from 0 on",
    (total) => Effect.flatMap(plan, (p) => Plan.run(p, "x", { timeouts: { total } }))
  ],
  [
    "timeout",
    "a time from 0 on",
    (timeout) => Plan.make("p", [Step.make("s", { target: () => Effect.succeed(1), timeout })])
  ],
  ...(["concurrency", "bands"] as const).map((name): readonly [string, Kind, Use] => [
    name,
    "a number from 1 on",
    (value) =>
      Effect.flatMap(plan, (p) => Plan.runMany(p, ["x"], { [name]: value })).pipe(
        Effect.flatMap(([first]) => (first === undefined ? Effect.void : Effect.fromResult(first)))
      )
  ]),
  ["leaseTime", "a time of more than 0 that ends", (leaseTime) => build(sessions({ leaseTime }))],
  ["idleTime", "a time from 0 on", (idleTime) => build(sessions({ idleTime }))],
  ["drainTime", "a time from 0 on", (drainTime) => build(sessions({ drainTime }))],
  ["keepEvents", "a number from 0 on", (keepEvents) => build(sessions({ keepEvents }))],
  ["maxQueue", "a number from 1 on", (maxQueue) => build(sessions({ maxQueue }))],
  ["run.maxSteps", "a number from 1 on", (maxSteps) => build(sessions({ run: { maxSteps } }))],
  ["run.timeouts.total", "a time from 0 on", (total) => build(sessions({ run: { timeouts: { total } } }))],
  ["timeout", "a time of more than 0 that ends", (timeout) => inSession(Session.send("a", "x", { timeout }))],
  ["limit", "a number from 1 on", (limit) => inSession(Session.list({ limit }))],
  ["limit", "a number from 1 on", (limit) => inSession(Session.shared({ limit }))],
  [
    "concurrency",
    "a number from 1 on",
    (concurrency) =>
      inSession(Session.askMany([{ id: "a", input: "x" }], { concurrency })).pipe(
        Effect.flatMap(([first]) => (first === undefined ? Effect.void : Effect.fromResult(first)))
      )
  ],
  [
    "retention",
    "a time of more than 0 that ends",
    (retention) =>
      withoutServices(
        ClusterSession.layer([agent], { retention }).pipe(Layer.provide([VersionedStore.layerMemory, model]))
      )
  ],
  ["timeout", "a time of more than 0 that ends", (timeout) => withoutServices(ClusterSession.layerClient({ timeout }))],
  ["bodyTimeout", "a time of more than 0", (bodyTimeout) => server({ bodyTimeout })],
  ["readTimeout", "a time of more than 0", (readTimeout) => server({ readTimeout })],
  ["maxStreams", "a number from 1 on", (maxStreams) => server({ maxStreams })],
  ["maxAllStreams", "a number from 1 on", (maxAllStreams) => server({ maxAllStreams })],
  ["maxRequests", "a number from 1 on", (maxRequests) => server({ maxRequests })],
  ["maxAllRequests", "a number from 1 on", (maxAllRequests) => server({ maxAllRequests })],
  [
    "timeout",
    "a time of more than 0 that ends",
    (timeout) => withoutServices(SessionHttp.layerClient({ ...remote, timeout }))
  ],
  ["maxConcurrency", "a number from 1 on", (maxConcurrency) => build(ToolRuntime.layerConcurrent({ maxConcurrency }))],
  [
    "concurrency",
    "a number from 1 on",
    (concurrency) => build(ToolRuntime.layer({ dispatch: (_, local) => local, concurrency }))
  ],
  ["margin", "a time from 0 on", (margin) => build(ToolRuntime.layer({ dispatch: (_, local) => local, margin }))],
  ["margin", "a time from 0 on", (margin) => withoutServices(RemoteTools.layerRuntime({ ...remote, margin }))],
  [
    "timeout",
    "a time of more than 0",
    (timeout) => ToolContract.make({ name: "t", parameters: { type: "object" }, timeout })
  ],
  ...(["timeout", "connectTimeout"] as const).map((name): readonly [string, Kind, Use] => [
    name,
    "a time of more than 0",
    (value) => withoutServices(McpTools.layer({ one: { url: "http://127.0.0.1:1", [name]: value } }))
  ]),
  [
    "busyTimeout",
    "a time from 0 on",
    (busyTimeout) => build(SqliteClient.layer({ filename: ":memory:", busyTimeout }))
  ],
  ["maxBytes", "a number from 256 on", (maxBytes) => withoutServices(Activities.layer({ maxBytes }))]
]

/** The problem with an option: a failure or a defect that names it. */
const problemOf = (name: string, use: Use, value: unknown): Effect.Effect<string | undefined> =>
  // Sound: a program without types passes any value
  Effect.map(Effect.exit(use(value as never)), (exit) => {
    if (Exit.isSuccess(exit)) return undefined
    const text = Cause.pretty(exit.cause)
    return text.includes(name) && /expected|must/.test(text) ? text : undefined
  })

describe("HOUSE-1 the values of options", () => {
  for (const [index, [name, kind, use]] of options.entries()) {
    it.effect(`HOUSE-1 ${name} (${index}) is ${kind}`, () =>
      Effect.gen(function* () {
        const [refused, taken] = kinds[kind]
        for (const value of refused) assert.isDefined(yield* problemOf(name, use, value), String(value))
        // Services that are not there are another problem
        for (const value of taken) assert.notInclude((yield* problemOf(name, use, value)) ?? "", `as ${name}`)
      })
    )
  }

  const index = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: options.length - 1 }))
  const negative = Schema.Finite.check(Schema.isLessThanOrEqualTo(-1))
  it.effect.prop("HOUSE-1 no option takes a number below 0", [index, negative], ([index, value]) =>
    Effect.gen(function* () {
      const [name, , use] = options[index] ?? assert.fail()
      assert.isDefined(yield* problemOf(name, use, value), `${name} (${index}): ${value}`)
    })
  )
})

describe("HOUSE-1 the names of options", () => {
  it.effect("HOUSE-1 a name that no option has is refused, as a server refuses it", () =>
    Effect.gen(function* () {
      const wide = { whenBusy: "queue", inptu: "x" } as const
      const sent = yield* Effect.flip(inSession(Session.send("a", "x", wide)))
      assert.strictEqual(sent.reason._tag, "ArgumentInvalid")
      assert.match(sent.message, /expected options among messageId, .*, input, got "inptu"/)
      assert.strictEqual((yield* Effect.flip(inSession(Session.list(wide as object)))).reason._tag, "ArgumentInvalid")
      assert.strictEqual((yield* Effect.flip(run({ maxStpes: 3 } as object))).reason._tag, "OptionsInvalid")
      const planned = Effect.flatMap(plan, (p) => Plan.run(p, "x", { concurency: 3 } as object))
      assert.include(String(yield* Effect.flip(planned)), `got "concurency"`)
      // A name without a value is no mistake
      yield* inSession(Session.send("a", "x", { inptu: undefined } as object))
      yield* run({ maxStpes: undefined } as object)
    })
  )
})
