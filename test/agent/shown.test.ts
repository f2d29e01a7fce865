/** MEND-5, L13: shown is digested is received, over Schemas with defaults, transformations and optional keys. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Result, Schema, SchemaGetter } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { FetchHttpClient, HttpRouter, HttpServer } from "effect/http"
import { Agent, AgentDefinition, ModelRegistry, Run, ToolContract, ToolResolver, VersionedStore } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { Session } from "effect-emissary/session"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import * as runParts from "#src/run/internal/runParts.ts"

import { throughJson, toolResults } from "./fixtures.ts"
import { decide } from "../decisions.ts"
import { stateOf } from "../session/sessions.ts"
import { endsAs } from "../outcomes.ts"
import { pluck } from "../pluck.ts"
import { token } from "../tool/fixtures/remote-serve.ts"

const stubs = ToolResolver.layerStubs({ approval: "payload" })

/** A field, with what a model may write for it, what a person then has to read, and what the handler has to receive. */
interface Field {
  readonly schema: Schema.Codec<unknown, unknown>
  readonly cases: ReadonlyArray<{
    readonly written?: Schema.Json
    readonly shown?: Schema.Json
    readonly received?: Schema.Json
  }>
}

const same = (...values: ReadonlyArray<Schema.Json>) =>
  values.map((one) => ({ written: one, shown: one, received: one }))

const absent = {}

const usd = { shown: "USD", received: "USD" }

const omitted = { encodingStrategy: "omit" } as const

const oneWayTrim = Schema.String.pipe(
  Schema.decodeTo(Schema.String, {
    decode: SchemaGetter.transform((text) => text.trim()),
    encode: SchemaGetter.forbidden(() => "one way")
  })
)

const fields: Readonly<Record<string, Field>> = {
  count: { schema: Schema.Finite, cases: same(1, -2.5) },
  text: { schema: Schema.String, cases: same("a", " b ") },
  optional: { schema: Schema.optionalKey(Schema.String), cases: [absent, ...same("a"), { written: null }] },
  annotated: { schema: Schema.optionalKey(Schema.String.annotate({ default: "USD" })), cases: [usd, ...same("EUR")] },
  trimmed: { schema: Schema.Trim, cases: [...same("a"), { written: "  alice ", shown: "alice", received: "alice" }] },
  number: {
    schema: Schema.FiniteFromString,
    cases: [
      { written: "5", shown: "5", received: 5 },
      { written: "1e3", shown: "1000", received: 1000 }
    ]
  },
  key: {
    schema: Schema.String.pipe(Schema.withDecodingDefaultKey(Effect.succeed("USD"))),
    cases: [usd, ...same("EUR")]
  },
  value: {
    schema: Schema.String.pipe(Schema.withDecodingDefault(Effect.succeed("USD"))),
    cases: [usd, ...same("EUR")]
  },
  omitted: {
    schema: Schema.String.pipe(Schema.withDecodingDefaultKey(Effect.succeed("USD"), omitted)),
    cases: [usd, ...same("EUR")]
  },
  numberOmitted: {
    schema: Schema.Finite.pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed(7), omitted)),
    cases: [{ shown: 7, received: 7 }, ...same(8)]
  },
  nested: {
    schema: Schema.Struct({
      to: Schema.Trim,
      force: Schema.Boolean.pipe(Schema.withDecodingDefaultKey(Effect.succeed(true), omitted))
    }),
    cases: [
      { written: { to: " a" }, shown: { to: "a", force: true }, received: { to: "a", force: true } },
      ...same({ to: "a", force: false })
    ]
  },
  list: {
    schema: Schema.Array(Schema.Trim),
    cases: [{ written: [" a", "b "], shown: ["a", "b"], received: ["a", "b"] }, ...same([])]
  }
}

const names = Object.keys(fields)

type Chosen = ReadonlyArray<readonly [string, number]>

const choice = Schema.Array(Schema.Tuple([Schema.Literals(names), Schema.Literals([0, 1, 2])])).check(
  Schema.isMinLength(1),
  Schema.isMaxLength(8)
)

/** Each field once. */
const once = (chosen: Chosen): Chosen => Array.from(new Map(chosen))

const of = (part: "written" | "shown" | "received", chosen: Chosen) => {
  const made: Record<string, Schema.Json> = {}
  for (const [name, index] of chosen) {
    const cases = fields[name]?.cases ?? []
    const value = cases[index % cases.length]?.[part]
    if (value !== undefined) made[name] = value
  }
  return made
}

type Policy = boolean | (() => boolean)

const withParameters = (
  parameters: Schema.Struct<Record<string, Schema.Codec<unknown, unknown>>>,
  needsApproval: Policy = true
) => {
  const toolkit = Toolkit.make(Tool.make("pay", { parameters, success: Schema.Void, needsApproval }))
  const ran: Array<unknown> = []
  const handlers = toolkit.toLayer({ pay: (args) => Effect.sync(() => void ran.push(args)) })
  return { toolkit, ran, handlers }
}

const toolOf = (chosen: Chosen, needsApproval: Policy = true) =>
  withParameters(
    Schema.Struct(Object.fromEntries(chosen.map(([name]) => [name, fields[name]?.schema ?? Schema.String]))),
    needsApproval
  )

const asks = (params: Schema.Json) =>
  ScriptedModel.layer([{ toolCalls: [{ id: "c1", name: "pay", params }] }, { text: "done" }])

const property = (name: string, body: (chosen: Chosen) => Effect.Effect<void, unknown>, runs = 60) =>
  it.effect.prop(name, { chosen: choice }, ({ chosen }) => body(once(chosen)), { arbitrary: { runs } })

describe("MEND-5 what is shown is what the digest covers and the handler receives", () => {
  for (const [what, needsApproval] of [
    ["always", true],
    ["a policy", () => true]
  ] as const) {
    property(`MEND-5 L13 in the run of an agent that asks by ${what}, over JSON`, (chosen) => {
      const { handlers, ran, toolkit } = toolOf(chosen, needsApproval)
      const agent = Agent.make("payer", { toolkit })
      return Effect.gen(function* () {
        const { requests, state } = yield* endsAs("AwaitingApproval", agent.run("Go"))
        assert.deepStrictEqual(requests[0].arguments, of("shown", chosen))
        const [contract] = state.basis?.contracts ?? []
        const asked = { contract: contract?.digest ?? "", arguments: of("shown", chosen) }
        assert.strictEqual(requests[0].digest, yield* runParts.callDigest(state, "c1", asked))
        yield* endsAs("Completed", agent.resume(yield* throughJson(state), { decisions: decide(state) }))
        assert.deepStrictEqual(ran, [of("received", chosen)])
      }).pipe(Effect.provide([handlers, asks(of("written", chosen))]))
    })
  }

  property("MEND-5 L13 in a plan with the tool as a step", (some) => {
    // With a number the arguments are the output of the step before
    const chosen = [...some.filter(([name]) => name !== "count"), ["count", 0] as const]
    const { handlers, ran, toolkit } = toolOf(chosen)
    return Effect.gen(function* () {
      const plan = yield* Plan.make("plan", [
        Step.make("arguments", { target: () => Effect.succeed(of("written", chosen)) }),
        Step.make("pay", { target: "pay", input: Schema.Record(Schema.String, Schema.Json) })
      ])
      const bound = yield* Plan.bind(plan, { toolkit })
      const first = yield* endsAs("Paused", Plan.run(bound, "Go"))
      assert.deepStrictEqual(pluck(first.requests, "arguments"), [of("shown", chosen)])
      const state = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(first.state))
      yield* endsAs("Completed", Plan.resume(bound, state, { decisions: decide(state) }))
      assert.deepStrictEqual(ran, [of("received", chosen)])
    }).pipe(Effect.provide(handlers))
  })

  property(
    "MEND-5 L13 in a session",
    (chosen) => {
      const { handlers, ran, toolkit } = toolOf(chosen)
      const layer = Session.layer([Agent.make("payer", { toolkit })]).pipe(
        Layer.provide([VersionedStore.layerMemory, handlers, asks(of("written", chosen))])
      )
      return Effect.gen(function* () {
        yield* Session.turn("a", "Go")
        const sessions = yield* Session.Session
        const { requests } = yield* stateOf(sessions, "a")
        assert.deepStrictEqual(pluck(requests, "arguments"), [of("shown", chosen)])
        const decided = yield* sessions.decide("a", requests.filter(Run.isApprovable).map(Run.approve))
        yield* Session.await("a", decided)
        assert.deepStrictEqual(ran, [of("received", chosen)])
      }).pipe(Effect.provide(layer))
    },
    15
  )

  property(
    "MEND-5 L13 with a stub: what the tool server would run as other arguments is refused there",
    (chosen) => {
      const { handlers, ran, toolkit } = toolOf(chosen)
      return Effect.gen(function* () {
        const tools = [yield* ToolContract.fromTool(toolkit.tools.pay)]
        const definition = yield* AgentDefinition.make({ name: "payer", instructions: "Pay.", tools })
        const [shown, written] = [of("shown", chosen), of("written", chosen)]
        const server = RemoteTools.layerServer(toolkit, { token, context: Effect.succeed }).pipe(
          Layer.provide(handlers)
        )
        const { handler } = yield* Effect.acquireRelease(
          Effect.sync(() =>
            HttpRouter.toWebHandler(server.pipe(Layer.provide(HttpServer.layerServices)), { disableLogger: true })
          ),
          ({ dispose }) => Effect.promise(dispose)
        )
        const client = RemoteTools.layerRuntime({ url: "http://tools/", token }).pipe(
          Layer.provide(FetchHttpClient.layer),
          Layer.provide(Layer.succeed(FetchHttpClient.Fetch, (input, init) => handler(new Request(input, init))))
        )
        const turns = [written, shown].map((params, index) => ({
          toolCalls: [{ id: `c${index}`, name: "pay", params }]
        }))
        yield* Effect.gen(function* () {
          const agent = yield* Agent.bind(definition)
          const approved = (result: Agent.Result<unknown>) => {
            assert(result.outcome === "AwaitingApproval")
            const [{ arguments: args }] = result.requests
            return Effect.map(agent.resume(result.state, { decisions: decide(result.state) }), (next) => ({
              args,
              next
            }))
          }
          const first = yield* approved(yield* agent.run("Go"))
          if (ran.length > 0) return assert.deepStrictEqual(first.args, shown)
          const [failure] = toolResults(first.next.conversation)
          assert.strictEqual(failure, "validation_error")
          const second = yield* approved(first.next)
          assert.deepStrictEqual(second.args, shown)
        }).pipe(
          Effect.provide([
            client,
            stubs,
            ModelRegistry.layerContext.pipe(
              Layer.provideMerge(ScriptedModel.layer([...turns, { text: "done" }, { text: "done" }]))
            )
          ])
        )
        assert.deepStrictEqual(ran, [of("received", chosen)])
      }).pipe(Effect.scoped)
    },
    15
  )

  it.effect("MEND-5 a value that changes each time that it is made is made once, and approved as it is", () => {
    let made = 0
    const id = Schema.Finite.pipe(Schema.withDecodingDefaultKey(Effect.sync(() => ++made)))
    const { handlers, ran, toolkit } = withParameters(Schema.Struct({ id }))
    const agent = Agent.make("payer", { toolkit })
    return Effect.gen(function* () {
      const { requests, state } = yield* endsAs("AwaitingApproval", agent.run("Go"))
      yield* endsAs("Completed", agent.resume(yield* throughJson(state), { decisions: decide(state) }))
      assert.deepStrictEqual([requests[0].arguments], ran)
    }).pipe(Effect.provide([handlers, asks({})]))
  })

  const grows = Schema.String.pipe(
    Schema.decodeTo(Schema.String, {
      decode: SchemaGetter.transform((text) => `${text}!`),
      encode: SchemaGetter.passthrough()
    })
  )
  const refused = {
    "change each time that they are decoded": Schema.Struct({ to: grows }),
    "cannot be encoded": Schema.Struct({ to: oneWayTrim, amount: Schema.FiniteFromString })
  } as const
  for (const [what, parameters] of Object.entries(refused)) {
    it.effect(`MEND-5 a call whose arguments ${what} is refused, not shown`, () => {
      const { handlers, ran, toolkit } = withParameters(parameters)
      return Effect.gen(function* () {
        const { conversation } = yield* endsAs("Completed", Agent.make("payer", { toolkit }).run("Go"))
        assert.deepStrictEqual(toolResults(conversation), ["execution_error"])
        assert.deepStrictEqual(ran, [])
      }).pipe(Effect.provide([handlers, asks({ to: " a", amount: "5" })]))
    })
  }

  it.effect(
    "MEND-5 arguments that cannot be encoded are shown as the handler has them, where they decode to that",
    () => {
      const { handlers, ran, toolkit } = withParameters(Schema.Struct({ to: oneWayTrim }))
      const agent = Agent.make("payer", { toolkit })
      return Effect.gen(function* () {
        const { requests, state } = yield* endsAs("AwaitingApproval", agent.run("Go"))
        yield* endsAs("Completed", agent.resume(yield* throughJson(state), { decisions: decide(state) }))
        assert.deepStrictEqual([requests[0].arguments, ...ran], [{ to: "a" }, { to: "a" }])
      }).pipe(Effect.provide([handlers, asks({ to: " a " })]))
    }
  )

  const text = Schema.String
  const dollars = text.pipe(Schema.withDecodingDefaultKey(Effect.succeed("USD")))
  const changes = {
    "a field with a decoding default": [
      Schema.Struct({ amount: text }),
      Schema.Struct({ amount: text, currency: dollars })
    ],
    "a transformation": [Schema.Struct({ amount: text }), Schema.Struct({ amount: Schema.Trim })]
  } as const
  for (const [what, [before, after]] of Object.entries(changes)) {
    for (const when of ["after", "before"]) {
      it.effect(`MEND-5 ${what} that a deploy adds asks again, decided ${when} the deploy`, () => {
        const [old, next] = [withParameters(before), withParameters(after)]
        return Effect.gen(function* () {
          const { state } = yield* endsAs(
            "AwaitingApproval",
            Agent.make("payer", { toolkit: old.toolkit }).run("Go").pipe(Effect.provide(old.handlers))
          )
          const decisions = decide(state)
          const events = Result.getOrThrow(Run.decide(state, decisions, yield* DateTime.now))
          const decided = Result.getOrThrow(Run.applyAll(state, events))
          const agent = Agent.make("payer", { toolkit: next.toolkit })
          const again = yield* endsAs(
            "AwaitingApproval",
            (when === "after" ? agent.resume(state, { decisions }) : agent.resume(yield* throughJson(decided))).pipe(
              Effect.provide(next.handlers)
            )
          )
          assert.deepStrictEqual(next.ran, [])
          assert.notStrictEqual(again.requests[0].digest, decisions[0]?.digest)
          const resumed = agent.resume(again.state, { decisions: decide(again.state) })
          yield* endsAs("Completed", Effect.provide(resumed, next.handlers))
          assert.deepStrictEqual(next.ran, [again.requests[0].arguments])
        }).pipe(Effect.provide(asks({ amount: " 5 " })))
      })
    }
  }

  it.effect("MEND-5 a stored state whose request shows other arguments than its digest covers is refused", () => {
    const { handlers, toolkit } = withParameters(Schema.Struct({ amount: Schema.Finite }))
    return Effect.gen(function* () {
      const { state } = yield* endsAs("AwaitingApproval", Agent.make("payer", { toolkit }).run("Go"))
      const events = Result.getOrThrow(Run.decide(state, decide(state), yield* DateTime.now))
      for (const one of [state, Result.getOrThrow(Run.applyAll(state, events))]) {
        const stored = yield* Run.stateCodec.encodeJson(one)
        yield* Run.stateCodec.decodeJson(stored)
        for (const edited of [
          stored.replaceAll('"arguments":{"amount":5}', '"arguments":{"amount":5,"to":"mallory"}'),
          stored.replace(/("arguments":\{"amount":5)(\},"digest")/, '$1,"to":"mallory"$2'),
          stored.replace(/,"contract":"sha256:[0-9a-f]+"/, "")
        ]) {
          assert.notStrictEqual(edited, stored)
          const { message } = yield* Effect.flip(Run.stateCodec.decodeJson(edited))
          assert.include(message, 'expected the digest of the request for the call "c1", got')
        }
      }
    }).pipe(Effect.provide([handlers, asks({ amount: 5 })]))
  })
})
