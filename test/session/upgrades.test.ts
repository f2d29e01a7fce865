/** WORLD-8: sessions as each release has stored them are opened and continued by today's code. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, SchemaAST } from "effect"
import { TestClock } from "effect/testing"
import { VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { EventSchema } from "#src/session/internal/events.ts"
import * as fold from "#src/session/internal/fold.ts"
import * as runParts from "#src/run/internal/runParts.ts"
import { readdirSync } from "node:fs"
import { basename, join } from "node:path"
import { nextSet, readFromRoot, setOf } from "../../scripts/golden.ts"
import { root } from "../../scripts/sources.ts"
import { test } from "../test.ts"
import { callsOf, isIdle, reasonOf, until } from "./upgrade/continue.ts"
import { proceed, type Fleet } from "./upgrade/fleet.ts"
import * as golden from "./upgrade/golden.ts"
import { missing } from "./upgrade/members.ts"
import { recordings } from "./upgrade/recordings.ts"
import { scenarios } from "./upgrade/scenarios.ts"

const read = (path: string): golden.Golden => JSON.parse(readFromRoot(path) ?? "null")

const pathOf = ({ name }: { readonly name: string }) => `${nextSet}/${name}.json`

/** `next`, and the releases. */
const sets = readdirSync(join(root, nextSet, ".."))

const stores = [
  ["memory", VersionedStore.layerMemory],
  ["SQLite", Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))]
] as const

const filled = Effect.fnUntraced(function* (
  layer: Layer.Layer<VersionedStore.VersionedStore>,
  stored: Pick<golden.Golden, "rows">
) {
  const context = yield* Layer.build(Layer.fresh(layer))
  const store = Context.get(context, VersionedStore.VersionedStore)
  yield* golden.load(store, stored)
  return store
})

/** The tags of a union. */
const tagsIn = (ast: SchemaAST.AST): ReadonlyArray<string> => {
  if (SchemaAST.isUnion(ast)) return ast.types.flatMap(tagsIn)
  if (!SchemaAST.isObjects(ast)) return []
  return ast.propertySignatures.flatMap(({ name, type }) =>
    name === "_tag" && SchemaAST.isLiteral(type) ? [String(type.literal)] : []
  )
}

/** Members that no golden session has. Each is a gap: a new member belongs into a scenario, and not into this list. No step begins items yet, so no event is `in` one. A plan in a session has no budget of its own. Nothing makes a `Question` or a `Call` yet, so no decision has an answer. */
const unwritten: ReadonlyArray<string> = [
  "(agent title run).definition",
  "(agent title run).isInstructed",
  "(agent title run).model",
  "(approved answer expiresAt).answer",
  "(approved answer expiresAt).approved",
  "(approved answer expiresAt).decidedBy",
  "(approved answer expiresAt).digest",
  "(approved answer expiresAt).expiresAt",
  "(approved answer expiresAt).reason",
  "(basis changes cursor).basis",
  "(basis changes cursor).changes",
  "(basis changes cursor).cursor",
  "(before after summary).summary",
  "(cursor turn history).choosing",
  "(cursor turn history).cursor",
  "(cursor turn history).history",
  "(cursor turn history).iterations",
  "(cursor turn history).rejoins",
  "(cursor turn history).turn",
  "(definition parts changes).structured",
  "(id callId after).after",
  "(id callId after).before",
  "(id callId after).callId",
  "(id callId after).id",
  "(id callId after).name",
  "(id createdAt metadata).metadata",
  "(id digest handoff).handoff",
  "(id tokens).id",
  "(id tokens).tokens",
  "(inputTokens outputTokens estimated).estimated",
  "(inputTokens outputTokens millis).micros",
  "(inputTokens outputTokens millis).totalTokens",
  "(inputTokens outputTokens onExceeded).micros",
  "(message maxSteps instructions).instructions",
  "(message maxSteps instructions).maxSteps",
  "(message maxSteps instructions).message",
  "(messageId input budget).budget",
  "(messageId input budget).definition",
  "(messageId input budget).plan",
  "(messageId input error).budget",
  "(messageId input error).definition",
  "(messageId input error).model",
  "(messageId input error).pending",
  "(messageId input error).plan",
  "(name parallel digest).items",
  "(name parallel items).afterBranches",
  "(name parallel items).items",
  "(name parallel items).name",
  "(name parallel items).parallel",
  "(name parallel items).routes",
  "(name parallel items).writes",
  "(purpose finishReason repeatedCalls).empty",
  "(purpose finishReason repeatedCalls).maxEmpty",
  "(purpose finishReason repeatedCalls).repeatedCalls",
  "(router rejoin).rejoin",
  "(router rejoin).router",
  "(runId agent revision).model",
  "(runId plan revision).account",
  "(runId plan revision).choosing",
  "(runId plan revision).exceeded",
  "(runId plan revision).interrupted",
  "(scope unit used).limit",
  "(scope unit used).scope",
  "(scope unit used).unit",
  "(scope unit used).used",
  "(step purpose reserved).reserved",
  "(step usage status).input",
  "(version tokenLimit messages).beside",
  "AgentChanged.in",
  "ApprovalRequested.contract",
  "Approved.answers",
  "Approved.decidedBy",
  "Approved.expiresAt",
  "Approved.reason",
  "Block._tag",
  "Block.items",
  "Call.path",
  "ConversationFitted.beside",
  "Done._tag",
  "Done.output",
  "Failed.child",
  "Failure.content",
  "Finished._tag",
  "Finished.record",
  "ModelAnswered.maxEmpty",
  "ModelAnswered.outputCall",
  "NestedChanged.in",
  "Open._tag",
  "Open.frame",
  "Paused.decision",
  "PlanResumed.budgets",
  "PlanResumed.change",
  "PlanResumed.maxIterations",
  "PlanStarted.budgets",
  "Requested.answers",
  "RouteTaken.in",
  "RunResumed.lost",
  "RunResumed.maxSteps",
  "RunStarted.contracts",
  "Running._tag",
  "Running.attempt",
  "Running.child",
  "Running.decision",
  "Running.startedAt",
  "Settled._tag",
  "Settled.result",
  "Started.answers",
  "Started.approved",
  "Started.idempotent",
  "StepConcluded.in",
  "StepDecided.in",
  "StepFailed.in",
  "StepFinished.in",
  "StepPaused.in",
  "StepPaused.input",
  "StepRetried.in",
  "StepStarted.in",
  "ToolCalled.in",
  "ToolStarted.contract",
  "Waiting._tag",
  "Waiting.attempt",
  "Waiting.child",
  "Waiting.decision",
  "assistant.options",
  "source.options",
  "system.metadata",
  "system.options",
  "system.usage",
  "tool-call.options",
  "tool-call.providerExecuted",
  "tool-call.text",
  "tool-result.id",
  "tool-result.name",
  "tool-result.options",
  "tool-result.result",
  "tool-result.type",
  "tool.metadata",
  "tool.options",
  "tool.usage",
  "user.options",
  "user.usage"
]

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

/** The values of a kind in the golden sessions. */
const stored = (kind: string) =>
  scenarios.flatMap((scenario) =>
    read(pathOf(scenario)).rows.flatMap(({ value }) => (isObject(value) && value["kind"] === kind ? [value] : []))
  )

describe("WORLD-8 what today's code stores", () => {
  for (const { name, record } of recordings) {
    test(`WORLD-8 ${name} has the layout of the golden sessions, and the same bytes in each run`, function* () {
      const found = yield* record
      const path = pathOf({ name })
      const expected = readFromRoot(path)
      const advice = [
        "Where the layout is to change: npm run golden:sessions, then say in the commit and in CHANGELOG.md what changes.",
        "Sessions of the releases in test/golden/sessions have to be read and continued even so."
      ].join("\n")
      const differs = golden.difference(
        expected === undefined ? "" : golden.layoutOf(JSON.parse(expected)),
        golden.layoutOf(found)
      )
      assert.isUndefined(differs, `${path} is not what today's code writes, at ${differs}\n${advice}`)
      assert.strictEqual(golden.textOf(yield* record), golden.textOf(found))
    })
  }

  it("WORLD-8 the golden sessions have each kind of event, of sessions, of runs and of plans", () => {
    const written = new Set<string>()
    for (const scenario of scenarios) {
      JSON.stringify(read(pathOf(scenario)), (key, value: unknown) => {
        if (key === "_tag" && typeof value === "string") written.add(value)
        return value
      })
    }
    const kinds = [EventSchema, runParts.Event, runParts.PlanRunEvent].flatMap(({ ast }) => tagsIn(ast))
    assert.isAbove(kinds.length, 35)
    assert.deepStrictEqual(
      kinds.filter((kind) => !written.has(kind)),
      [],
      "events without a golden session: add them to a scenario"
    )
  })

  it("WORLD-8 the golden sessions have each member of events and of states, apart from known gaps", () => {
    const events = stored("session-events").flatMap(({ events }) =>
      isObject(events) && Array.isArray(events["events"]) ? events["events"] : []
    )
    const states = stored("session-snapshot").map(({ state }) => state)
    assert.isAbove(Math.min(events.length, states.length), 10)
    assert.deepStrictEqual(
      missing([
        [EventSchema, events],
        [fold.SessionState, states]
      ]),
      unwritten,
      "members without a golden session: write them in a scenario of test/session/upgrade, then npm run golden:sessions"
    )
  })
})

describe("WORLD-8 what a release has stored", () => {
  for (const set of sets) {
    for (const path of setOf(set)) {
      const name = basename(path, ".json")
      if (name === "fleet") {
        test(`WORLD-8 ${set}, fleet: a runner continues what another one left, and makes the calls that wait`, function* () {
          const recorded: Fleet = JSON.parse(readFromRoot(path) ?? "null")
          yield* proceed(recorded)
        })
        continue
      }
      const scenario = scenarios.find((one) => one.name === name)
      for (const [store, layer] of stores) {
        test(`WORLD-8 ${set}, ${name}, ${store}: shows what it showed, and is continued to the right end`, function* () {
          assert(scenario !== undefined, `${path}: expected a scenario with this name`)
          const recorded = read(path)
          const shown = yield* golden.showAgain(scenario, yield* filled(layer, recorded))
          assert.isUndefined(golden.lacks(shown, { list: recorded.list, sessions: recorded.sessions }), path)
          yield* golden.continued(yield* filled(layer, recorded), scenario, scenario.proceed)
        })
      }
    }
  }
})

const scenarioOf = (name: string) => {
  const scenario = scenarios.find((one) => one.name === name)
  assert(scenario !== undefined)
  return scenario
}

/** Changes of a value that a newer release may make. */
const newer: ReadonlyArray<readonly [string, object]> = [
  ["another version", { version: 2 }],
  ["another member", { newer: true }]
]

/** The sessions of a set, in which a newer release has written the values under these keys. */
const withNewer = (scenario: golden.Scenario, isNewer: (key: string) => boolean, members: object) => {
  const { rows } = read(pathOf(scenario))
  assert.isTrue(rows.some(({ key }) => isNewer(key)))
  return rows.map(({ key, value }) =>
    isNewer(key) ? { key, value: Object.assign({}, value, members) } : { key, value }
  )
}

/** Turns that are due have had their time. */
const aMinute = Effect.gen(function* () {
  const settled = Effect.repeat(Effect.yieldNow, { times: 200 })
  yield* settled
  yield* TestClock.adjust("1 minute")
  yield* settled
})

describe("WORLD-8 a process of an older release, where a newer one has written", () => {
  for (const [change, members] of newer) {
    for (const part of ["head/call", "journal/4:call/"]) {
      test(`WORLD-8 refuses a session with ${change} in ${part}, leaves it as it was, and continues others`, function* () {
        const scenario = scenarioOf("cut-off")
        const rows = withNewer(scenario, (key) => key.startsWith(`session/${part}`), members)
        const store = yield* filled(VersionedStore.layerMemory, { rows })
        yield* golden.continued(
          store,
          scenario,
          Effect.fnUntraced(function* (sessions, stage) {
            yield* aMinute
            assert.strictEqual(yield* reasonOf(sessions.state("call")), "Unreadable")
            assert.strictEqual(yield* reasonOf(sessions.history("call")), "Unreadable")
            assert.strictEqual(yield* reasonOf(sessions.send("call", "x")), "Unreadable")
            const page = yield* sessions.list()
            assert.deepStrictEqual(page.unreadable, part === "head/call" ? ["call"] : [])
            assert.deepStrictEqual(callsOf(stage), ["pay 5", "print c"])
          })
        )
        const ofSession = ({ key }: { readonly key: string }) => /head\/call|:call\/|busy\/call/.test(key)
        assert.deepStrictEqual((yield* golden.dump(store)).filter(ofSession), rows.filter(ofSession))
      })
    }

    test(`WORLD-8 holds messages whose definition has ${change}, until a newer release is there`, function* () {
      const scenario = scenarioOf("definitions")
      const isDefinition = (key: string) => key.startsWith("session/definitions/")
      const store = yield* filled(VersionedStore.layerMemory, { rows: withNewer(scenario, isDefinition, members) })
      yield* golden.continued(
        store,
        scenario,
        Effect.fnUntraced(function* (sessions) {
          yield* aMinute
          const { failure, queue } = yield* until(sessions, "queued", isIdle)
          assert.deepStrictEqual([failure?.reason, queue.length], ["Unreadable", 2])
        })
      )
      const rows = (yield* golden.dump(store)).map(({ key, value }) =>
        isDefinition(key)
          ? (read(pathOf(scenario)).rows.find((row) => row.key === key) ?? { key, value })
          : { key, value }
      )
      yield* golden.continued(yield* filled(VersionedStore.layerMemory, { rows }), scenario, scenario.proceed)
    })
  }
})
