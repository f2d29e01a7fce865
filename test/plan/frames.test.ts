/** HOUSE-5: the state of a plan is a tree of frames. The tests write the items of steps themselves, because no plan makes items. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Equal, HashMap, Option, Result, Schema } from "effect"
import * as planTransition from "#src/run/internal/planTransition.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import * as runParts from "#src/run/internal/runParts.ts"
import { Conversation, Run } from "effect-emissary"
import type { VersionedCodec } from "effect-emissary/payload"
import { Plan, PlanRun } from "effect-emissary/plan"

import { makeRules, plan, step, type Rules } from "./definitions.ts"
import { applyAll, log, planOf } from "./support.ts"
import { decide } from "../decisions.ts"
import { someRuns } from "../full.ts"
import { failsFor } from "../outcomes.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

const at = DateTime.makeUnsafe("2026-01-01T00:00:00Z")

const band = (name: string) => step(name, { parallel: true })

const again = makeRules(plan(step("try", { routes: [{ to: "try", when: { _tag: "Text", value: "more" } }] })))
const order = makeRules(
  plan(step("read"), band("check"), band("price"), step("again"), step("sum")),
  new Map([["again", again]])
)
const rules = makeRules(plan(step("find"), band("orders"), band("other"), step("report")), new Map([["orders", order]]))

type Path = runParts.Path
type Json = { readonly [key: string]: Schema.Json }

/** An event of a step, in the frame at a path. */
type StepEvent = Exclude<
  PlanRun.Event,
  { readonly _tag: "PlanStarted" | "PlanInterrupted" | "PlanFinished" | "PlanResumed" }
>

const begin = (rules: Rules) =>
  runTransition.plans.start({
    _tag: "PlanStarted",
    at,
    runId: "run",
    plan: "plan",
    digest: "sha256:0",
    depth: 0,
    maxIterations: 40,
    input: { task: "go", payload: "the input" },
    context: {},
    basis: rules.basis
  })

const go = (step: string): StepEvent => ({ _tag: "StepStarted", at, step })
const done = (step: string): StepEvent => ({
  _tag: "StepFinished",
  at,
  record: { step, task: "", output: step, usage: {}, attempts: 1, startedAt: at, finishedAt: at }
})
const failure = { type: "Boom", message: "it failed", retryable: false }
const failed = (step: string): StepEvent => ({ _tag: "StepFailed", at, step, failure })
const pausedFor = (step: string, question: { readonly digest: string; readonly contract?: string }): StepEvent => ({
  _tag: "StepPaused",
  at,
  step,
  asked: 1,
  question: { reason: "go on?", ...question }
})
const paused = (step: string) => pausedFor(step, { digest: `sha256:${step}` })
const resumed: PlanRun.Event = { _tag: "PlanResumed", at }

const placed = (event: StepEvent, path: Path): StepEvent => (path.length === 0 ? event : { ...event, in: path })

const after = (rules: Rules, events: ReadonlyArray<PlanRun.Event>, state = begin(rules)) =>
  Result.getOrThrow(applyAll(state, events))

const throughJson = <A>(codec: VersionedCodec.VersionedCodec<A>, value: A) =>
  Effect.flatMap(codec.encodeJson(value), (json) => codec.decodeJson(json))

const asObject = Schema.decodeUnknownSync(Schema.Record(Schema.String, Schema.Json))
const asMembers = Schema.decodeUnknownSync(Schema.Array(Schema.Record(Schema.String, Schema.Json)))

/** The wire of a state. */
const wireOf = (state: PlanRun.State) =>
  Effect.map(PlanRun.stateCodec.encode(state), ({ state }): Json => asObject(state))
const frameFields = new Set(["cursor", "turn", "choosing", "rejoins", "iterations", "history"])
const frameOf = (wire: Json): Json => Object.fromEntries(Object.entries(wire).filter(([key]) => frameFields.has(key)))

/** A state, or a frame, whose running step has these items. */
const withItems = (wire: Json, step: string, items: ReadonlyArray<Json>): Json => {
  const members = asMembers(asObject(wire["turn"])["members"]).map((member) =>
    member["step"] === step
      ? { ...member, status: { ...asObject(member["status"]), child: { _tag: "Block", items } } }
      : member
  )
  return { ...wire, turn: { members } }
}

const read = (wire: Json) => PlanRun.stateCodec.decode({ version: 1, state: wire })
const open = (wire: Json): Json => ({ _tag: "Open", frame: frameOf(wire) })

/** Three orders: two are under way, the second of them at its second try, and one is done. */
const started = Effect.gen(function* () {
  const reads = [go("read"), done("read"), go("check"), go("price"), done("check"), done("price")]
  const waits = after(order, [...reads, go("again")])
  const inner = withItems(yield* wireOf(waits), "again", [
    { _tag: "Done", output: "one" },
    open(yield* wireOf(begin(again)))
  ])
  const root = yield* wireOf(after(rules, [go("find"), done("find"), go("orders"), go("other")]))
  const first = open(yield* wireOf(begin(order)))
  return yield* read(withItems(root, "orders", [first, { _tag: "Done", output: 7 }, open(inner)]))
})

const paths: ReadonlyArray<Path> = [
  [],
  [["orders", 0]],
  [["orders", 2]],
  [
    ["orders", 2],
    ["again", 1]
  ]
]

const rulesAt = (path: Path) => path.reduce<Rules>((outer, [step]) => outer.items.get(step) ?? outer, rules)

type Frame = Parameters<typeof planTransition.lastRecord>[0]

/** The frame at a path whose steps all run. */
const frameAt = (state: PlanRun.State, path: Path): Frame | undefined =>
  path.reduce<Frame | undefined>((outer, [step, index]) => {
    const status = outer && planTransition.memberOf(outer, step)?.status
    if (status?._tag !== "Running" || status.child?._tag !== "Block") return undefined
    const item = Option.getOrUndefined(HashMap.get(status.child.items, index))
    return item?._tag === "Open" ? item.frame : undefined
  }, state)

/** The steps of the turns of a frame and of the frames inside it. */
const membersBelow = (frame: Frame): ReadonlyArray<runParts.Member> =>
  (frame.turn?.members ?? []).flatMap((member) => {
    const child = runParts.childOf(member.status)
    const items = child?._tag === "Block" ? Array.from(HashMap.values(child.items)) : []
    return [member, ...items.flatMap((item) => (item._tag === "Open" ? membersBelow(item.frame) : []))]
  })

/** The frame as the state of a run of its own. */
const alone = (path: Path, frame: Frame) => new PlanRun.State(begin(rulesAt(path)), frame)

const frameWire = (state: PlanRun.State) => Effect.map(wireOf(state), frameOf)

/** The events that may follow a state. Steps with items end seldom, so that most events find the items. */
const fitting = (state: PlanRun.State, which: number): ReadonlyArray<StepEvent> => {
  const action = runTransition.plans.next(state)
  if (action._tag === "ChooseRoute") {
    const route = { _tag: "RouteTaken", at, step: action.step } as const
    return [route, { ...route, to: action.step }]
  }
  return action._tag === "Finish"
    ? []
    : action.steps.flatMap((name) => {
        const status = planTransition.memberOf(state, name)?.status
        if (status?._tag !== "Running") return [go(name)]
        if (status.child?._tag === "Block" && which > 0) return []
        return [done(name), done(name), done(name), failed(name), paused(name)]
      })
}

const anyEvents = (step: string): ReadonlyArray<StepEvent> => [
  go(step),
  done(step),
  failed(step),
  paused(step),
  { _tag: "StepConcluded", at, step, answer: "no" },
  { _tag: "StepRetried", at, step, attempt: 2, failure },
  { _tag: "RouteTaken", at, step }
]

const Digit = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 19 }))

const pick = <A>(list: ReadonlyArray<A>, digit: number): A | undefined => list[digit % Math.max(1, list.length)]

const isWithin = (outer: Path, inner: Path) => outer.every((place, index) => Equal.equals(place, inner[index]))

describe("HOUSE-5 frames inside of frames", () => {
  test.prop(
    "HOUSE-5 L3 an event in a frame does to the frame what it does to a run of its own, and nothing to other frames, from any written state on",
    [Schema.Array(Schema.Tuple([Digit, Digit, Digit])).check(Schema.isMinLength(10), Schema.isMaxLength(40))],
    function* ([script]) {
      const first = yield* started
      const applied: Array<PlanRun.Event> = []
      let state = first
      for (const [where, kind, which] of script) {
        if (kind === 19) {
          state = yield* throughJson(PlanRun.stateCodec, after(rules, [resumed], state))
          applied.push(resumed)
          for (const { status } of membersBelow(state)) {
            assert.include(["Waiting", "Finished", "Concluded"], status._tag)
          }
          continue
        }
        const path = pick(paths, where) ?? []
        const own = rulesAt(path)
        const frame = frameAt(state, path)
        const fits = frame === undefined ? [] : fitting(alone(path, frame), which)
        const name = pick(own.definition.steps, which)?.name ?? ""
        const event = (kind < 14 ? pick(fits, which) : undefined) ?? pick(anyEvents(name), kind)
        assert(event !== undefined)
        const whole = runTransition.plans.apply(state, placed(event, path))
        if (frame === undefined) {
          assert(Result.isFailure(whole))
          continue
        }
        const single = runTransition.plans.apply(alone(path, frame), event)
        if (Result.isFailure(single)) {
          assert(Result.isFailure(whole))
          assert.deepStrictEqual(whole.failure.reason, single.failure.reason)
          assert.deepStrictEqual(
            whole.failure.path,
            path.flatMap(([step, index]) => [step, `${index}`])
          )
          continue
        }
        const next = Result.getOrThrow(whole)
        const changed = frameAt(next, path)
        assert(changed !== undefined)
        assert.deepStrictEqual(yield* frameWire(alone(path, changed)), yield* frameWire(single.success))
        for (const other of paths.filter((other) => !isWithin(path, other) && !isWithin(other, path))) {
          assert.isTrue(Equal.equals(frameAt(next, other), frameAt(state, other)))
        }
        assert.strictEqual(next.revision, state.revision + 1)
        const recorded = placed(event, path)
        assert.deepStrictEqual(yield* throughJson(PlanRun.eventCodec, recorded), recorded)
        applied.push(recorded)
        // Each event finds the state as another process reads it
        state = yield* throughJson(PlanRun.stateCodec, next)
        assert.isTrue(Equal.equals(state, next))
        assert.strictEqual(yield* PlanRun.stateCodec.encodeJson(state), yield* PlanRun.stateCodec.encodeJson(next))
      }
      assert.isTrue(Equal.equals(after(rules, applied, first), state))
    },
    { arbitrary: { runs: someRuns(150) } }
  )

  test("HOUSE-5 an event whose path leads to no item under way fails as an EventError with its place", function* () {
    const state = yield* started
    for (const [path, step, problem] of [
      [[["report", 0]], "read", `expected one of the steps "orders", "other", found "report"`],
      [[["other", 0]], "read", `expected an item 0 under way in step "other", found none`],
      [[["orders", 3]], "read", `expected an item 3 under way in step "orders", found none`],
      [[["orders", 1]], "read", `expected an item 1 under way in step "orders", found an item that has ended`],
      [[["orders", 0]], "find", `expected one of the steps "read", found "find"`]
    ] as ReadonlyArray<readonly [Path, string, string]>) {
      const refused = Result.getOrThrow(Result.flip(applyAll(state, [placed(go(step), path)])))
      assert.instanceOf(refused, Run.EventError)
      assert.include(refused.message, problem)
      assert.strictEqual(refused.index, 0)
    }
    const deep = placed(go("sum"), [
      ["orders", 2],
      ["again", 0]
    ])
    const refused = Result.getOrThrow(Result.flip(runTransition.plans.apply(state, deep)))
    assert.deepStrictEqual(refused.path, ["orders", "2"])
    assert.include(refused.message, `expected an item 0 under way in step "again", found an item that has ended`)
    // The same items, in a step whose rules know none
    const withoutItems = new PlanRun.State(state, { basis: makeRules(rules.definition).basis })
    const unknown = runTransition.plans.apply(withoutItems, placed(go("read"), [["orders", 0]]))
    assert.include(Result.getOrThrow(Result.flip(unknown)).message, "found none")
    yield* failsFor(
      "Invalid",
      PlanRun.eventCodec.decode({ version: 1, event: { ...deep, at: "2026-01-01", in: [["orders", -1]] } })
    )
  })

  test("HOUSE-5 RIGHT-17 what the steps of items ask has the path of its item, in its digest, too, and is decided there", function* () {
    const asks = Effect.fnUntraced(function* (path: Path, step: string, place: ReadonlyArray<string>) {
      const digest = yield* runParts.requestDigest({ place, contract: "c", arguments: { reason: "go on?" } })
      return placed(pausedFor(step, { digest, contract: "c" }), path)
    })
    const state = yield* started
    const [near, far]: readonly [Path, Path] = [
      [["orders", 0]],
      [
        ["orders", 2],
        ["again", 1]
      ]
    ]
    const running = after(rules, [placed(go("read"), near), placed(go("try"), far)], state)
    const honest = [
      yield* asks(near, "read", ["run", "orders", "0", "read:1"]),
      yield* asks(far, "try", ["run", "orders", "2", "again", "1", "try:1"])
    ]
    const forged = yield* asks(near, "read", ["run", "orders", "2", "read:1"])
    const refused = Result.getOrThrow(Result.flip(runTransition.plans.apply(running, forged)))
    assert.include(refused.message, "the digest of the request as it is shown")

    const ends = [
      placed({ _tag: "StepPaused", at, step: "again" }, [["orders", 2]]),
      { _tag: "StepPaused", at, step: "orders" } as const,
      done("other")
    ]
    const waits = after(rules, [...honest, ...ends], running)
    assert.deepStrictEqual(
      PlanRun.requests(waits).map(({ callId, name, path }) => [callId, path, name]),
      [
        ["read:1", ["orders", "0"], "read"],
        ["try:1", ["orders", "2", "again", "1"], "try"]
      ]
    )
    const json = yield* PlanRun.stateCodec.encodeJson(waits)
    assert.isTrue(Equal.equals(yield* PlanRun.stateCodec.decodeJson(json), waits))
    const edited = json.replace(/"question":\{"digest":"sha256:[0-9a-f]/, `$&0`)
    assert.notStrictEqual(edited, json)
    const error = yield* Effect.flip(PlanRun.stateCodec.decodeJson(edited))
    assert.match(error.message, /digest of the request of the step "read" as it is shown/)

    const action = runTransition.plans.next(waits)
    assert(action._tag === "Finish" && action.outcome._tag === "Paused")
    assert.deepStrictEqual(action.outcome.requests, PlanRun.requests(waits))
    const ended = after(rules, [{ _tag: "PlanFinished", at, outcome: action.outcome }], waits)
    const decided = Result.getOrThrow(runTransition.plans.decide(ended, decide(ended), at))
    assert.deepStrictEqual(pluck(decided, "_tag"), ["StepDecided", "StepDecided"])
    assert.deepStrictEqual(
      decided.map((event) => ("in" in event ? event.in : undefined)),
      [near, far]
    )
    const goesOn = after(
      rules,
      [
        ...decided,
        resumed,
        go("orders"),
        placed(go("read"), near),
        placed(go("again"), [["orders", 2]]),
        placed(go("try"), far)
      ],
      ended
    )
    for (const [path, step] of [
      [near, "read"],
      [far, "try"]
    ] as const) {
      const frame = frameAt(goesOn, path)
      const status = frame && planTransition.memberOf(frame, step)?.status
      assert(status?._tag === "Running" && status.decision?.approved === true)
    }
    assert.isTrue(Result.isFailure(applyAll(ended, [...decided, ...decided])))
  })

  test("HOUSE-5 the tokens of an item count for its step, for the steps around it and for the run", function* () {
    const path: Path = [
      ["orders", 2],
      ["again", 1]
    ]
    const agent = (event: Run.Event) => placed({ _tag: "AgentChanged", at, step: "try", event }, path)
    const events = [
      placed(go("try"), path),
      agent({
        _tag: "RunStarted",
        at,
        runId: "run/try",
        agent: "clerk",
        definition: "sha256:0",
        depth: 1,
        maxSteps: 4,
        structured: "never",
        context: {},
        conversation: Conversation.empty
      }),
      agent({
        _tag: "InputAdded",
        at,
        message: { role: "user", id: "m1", createdAt: at, content: [{ type: "text", text: "go" }] },
        maxSteps: 4
      }),
      agent({ _tag: "StepStarted", at, step: 1, purpose: "answer" }),
      agent({ _tag: "AnswerDiscarded", at, usage: { inputTokens: 3 } })
    ]
    const state = after(rules, events, yield* started)
    const used = { inputTokens: 3 }
    assert.deepStrictEqual(state.usage, used)
    assert.deepStrictEqual(planTransition.memberOf(state, "orders")?.usage, used)
    const steps = paths.flatMap((path) => frameAt(state, path)?.turn?.members ?? [])
    assert.deepStrictEqual(
      steps.map(({ step, usage }) => [step, usage]),
      [
        ["orders", used],
        ["other", {}],
        ["again", used],
        ["try", used]
      ]
    )
    assert.isTrue(Equal.equals(yield* throughJson(PlanRun.stateCodec, state), state))
  })

  test("HOUSE-5 PLAN-6 the laws of a written frame hold for the frames of items", function* () {
    const root = yield* wireOf(after(rules, [go("find"), done("find"), go("orders")]))
    const frame = frameOf(yield* wireOf(after(order, [go("read")])))
    for (const change of [
      { cursor: "sum" },
      { choosing: "read" },
      { turn: { members: [] } },
      { iterations: -1 },
      { runId: "x" }
    ]) {
      const wire = withItems(root, "orders", [{ _tag: "Open", frame: { ...frame, ...change } }])
      yield* failsFor("Invalid", read(wire))
    }
    yield* read(withItems(root, "orders", [{ _tag: "Open", frame }]))
  })

  test("HOUSE-5 a plan whose steps have no items does not continue a state with items", function* () {
    const { fnStep } = log()
    const bound = yield* planOf(
      [fnStep("find"), fnStep("orders", { parallel: true }), fnStep("other", { parallel: true })],
      { name: "plan" }
    )
    const run = yield* Plan.run(bound, "go")
    const wire = yield* wireOf(yield* started)
    const { basis = null } = yield* wireOf(run.state)
    const state = yield* read({ ...wire, basis })
    const error = yield* failsFor("PlanChanged", Plan.resume(bound, state))
    assert.deepStrictEqual(error.reason.changes, [
      { path: "/steps/orders", was: "a block of items", now: "a step without items", breaking: true }
    ])
  })
})
