/** The group dispatch: calls of tools on the runtimes. */
import { assert } from "@effect/vitest"
import { Effect, type Layer, Result, Schema } from "effect"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import * as toolCall from "#src/tool/internal/toolCall.ts"
import { AgentDefinition, RunContext, ToolResolver, ToolResult, ToolRuntime, type ToolContract } from "effect-emissary"
import { type Case, JsonObject, mentions, optional, read, toJson } from "../family.ts"
import * as fixtures from "./fixtures.ts"

const Given = Schema.Struct({
  tools: Schema.Array(fixtures.Fixture),
  calls: Schema.Array(Schema.Struct({ id: Schema.String, name: Schema.String, arguments: Schema.String })),
  runtime: Schema.Struct({
    kind: Schema.Literals(["inline", "concurrent", "remote"]),
    max_concurrency: optional(Schema.Union([Schema.Number, Schema.Literal("unlimited")]))
  }),
  context: optional(JsonObject),
  wire: optional(JsonObject)
})
type Given = typeof Given.Type

const Expected = Schema.Struct({
  results: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      content: optional(Schema.String),
      error_type: optional(Schema.String),
      error: optional(Schema.String),
      mentions: optional(Schema.Array(Schema.String))
    })
  ),
  max_in_flight: optional(Schema.Number)
})
type Expected = typeof Expected.Type

const textOf = (given: Given, id: string | undefined): string =>
  given.calls.find((call) => call.id === id)?.arguments ?? ""

/** The tools of the definition on the wire if there is one, and of the fixtures if not. */
const contractsOf = ({ tools, wire }: Given): Effect.Effect<ReadonlyArray<ToolContract.ToolContract>, unknown> =>
  wire === undefined
    ? fixtures.contractsOf(tools)
    : Effect.map(AgentDefinition.codec.decode(wire), (definition) => definition.tools)

const bind = (given: Given, probe: fixtures.Probe) =>
  Effect.gen(function* () {
    const contracts = yield* contractsOf(given)
    const tools = yield* Effect.forEach(contracts, (contract): Effect.Effect<boundTool.BoundTool, unknown> => {
      const fixture = given.tools.find((tool) => tool.name === contract.name)
      if (fixture === undefined || given.runtime.kind === "remote") {
        return Effect.flatMap(ToolResolver.ToolResolver, (resolver) => resolver.resolve(contract)).pipe(
          Effect.provide(ToolResolver.layerStubs())
        )
      }
      return fixtures.bind(contract, fixture, probe, (id) => textOf(given, id))
    })
    return yield* boundTool.makeSet(tools)
  })

/**
 * The forwarding function of a remote case: it answers by the fixture's behaviour.
 * The margin is nothing, because it is the owner of the tools as well.
 */
const remote = (given: Given, probe: fixtures.Probe) =>
  ToolRuntime.layer({
    margin: 0,
    dispatch: (call) => {
      const fixture = given.tools.find((tool) => tool.name === call.contract.name)
      if (fixture === undefined) return Effect.die(new Error(`no fixture for ${call.contract.name}`))
      if (fixture.behaviour.returns_raw !== undefined) return fixtures.raw(fixture.behaviour.returns_raw)
      return fixtures.body(fixture, call.arguments, textOf(given, call.id), probe).pipe(
        Effect.provideService(RunContext.RunContext, call.context),
        Effect.match({
          onFailure: (failure) => ToolResult.failure(failure.type, failure.message),
          onSuccess: (value) => ToolResult.success(toJson(value))
        })
      )
    }
  })

const layerOf = (given: Given, probe: fixtures.Probe): Layer.Layer<never> => {
  const { kind, max_concurrency: most } = given.runtime
  if (kind === "remote") return remote(given, probe)
  return kind === "inline"
    ? ToolRuntime.layerInline
    : ToolRuntime.layerConcurrent({ maxConcurrency: most === "unlimited" ? "unbounded" : most })
}

const results = (given: Given, probe: fixtures.Probe) =>
  Effect.gen(function* () {
    const set = yield* bind(given, probe)
    const prepared = yield* Effect.forEach(given.calls, (call) =>
      boundTool.prepare(set, call, { runId: "golden", context: given.context })
    )
    const ran = yield* toolCall.run(prepared.filter(Result.isSuccess).map((call) => call.success))
    let next = 0
    return prepared.map((call) => (Result.isSuccess(call) ? ran[next++] : call.failure))
  }).pipe(Effect.provide(layerOf(given, probe)))

const compare = (expected: Expected["results"][number], actual: ToolResult.ToolResult | undefined): void => {
  if (actual === undefined) return assert.fail(`call ${expected.id}: no result`)
  const text = ToolResult.text(actual)
  assert.strictEqual(actual._tag === "Failure" ? actual.type : undefined, expected.error_type, text)
  if (expected.content !== undefined) assert.strictEqual(text, expected.content)
  if (expected.error !== undefined) assert.strictEqual(actual._tag === "Failure" ? actual.message : "", expected.error)
  mentions(text, expected.mentions)
}

export const dispatch = Effect.fnUntraced(function* (golden: Case) {
  const given = yield* read(Given)(golden.given)
  const expect = yield* read(Expected)(golden.expect)
  const probe = fixtures.makeProbe()
  const actual = yield* results(given, probe)
  assert.lengthOf(actual, expect.results.length)
  expect.results.forEach((expected, index) => {
    assert.strictEqual(given.calls[index]?.id, expected.id)
    compare(expected, actual[index])
  })
  if (expect.max_in_flight !== undefined) assert.strictEqual(probe.most, expect.max_in_flight)
})
