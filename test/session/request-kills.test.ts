/** PEOPLE-3: requests that name who decides and that expire, in processes that die after each of their writes. */
import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Option, Schema, Scope, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ClientTool, Conversation, Message, Question, Run, ToolSettings, VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Plan, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { mortal } from "./mortal.ts"
import * as t from "./sessions.ts"

const bounds = { deciders: ["finance"], expiresAfter: "100 millis" } as const
const toolkit = Toolkit.make(
  Tool.make("pay", { success: Schema.String, needsApproval: true }).annotate(ToolSettings.Request, bounds),
  Tool.make("book", { success: Schema.String, failure: Question.Asked }).annotate(Tool.Idempotent, true),
  Tool.make("sign", { success: Schema.String, needsApproval: true })
    .annotate(ToolSettings.Request, { deciders: ["finance"] })
    .annotate(Tool.Idempotent, true)
)
const Locate = ClientTool.make(
  Tool.make("locate", { success: Schema.String }).annotate(ToolSettings.Request, { ...bounds, otherwise: "Oslo" })
)
const desk = Agent.make("desk", { toolkit: [...Object.values(toolkit.tools), Locate] })
const asks = { ...bounds, otherwise: "Rome" }

const handlers = toolkit.toLayer({
  pay: () => Effect.die("A request that has expired pays."),
  book: () => Effect.map(Question.ask("Which town?", Schema.String, asks), (town) => `booked ${town}`),
  sign: () => Effect.succeed("signed")
})
const script: ScriptedModel.TurnFunction = ({ messages }) => {
  const last = messages.at(-1)
  return last?.role === "tool" ? { text: `re: ${last.text}` } : { toolCalls: [{ name: last?.text ?? "" }] }
}
const below = Layer.merge(handlers, ScriptedModel.layer(script))

const ask = Step.make("ask", { target: () => Question.ask("Which town?", Schema.String, asks) })
const survey = Plan.make("survey", [ask])

const processOf = Effect.fnUntraced(function* (store: Layer.Layer<VersionedStore.VersionedStore>, isPlan: boolean) {
  const plan = yield* Plan.bind(yield* survey)
  const layer = Session.layer([isPlan ? plan : desk], { leaseTime: "50 millis", drainTime: 0 }).pipe(
    Layer.provide([below, store])
  )
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(Layer.fresh(layer), scope)
  const run = <A, E>(effect: Effect.Effect<A, E, Session.Session>) => Effect.provideContext(effect, context)
  return { run, scope, stop: Scope.close(scope, Exit.void) }
})

const stateOf = Effect.map(Session.state("a"), Option.getOrThrow)
const decisionOf = (request: Run.Request, by: string): Run.Decision =>
  Run.isApprovable(request) ? Run.approve(request, { decidedBy: by }) : Run.answer(request, "Paris", { decidedBy: by })

/** A turn in which all but the people of finance are refused. Without one of them who decides the request expires, if it ever does. */
const turnOf = Effect.fnUntraced(function* (input: string, by?: string) {
  yield* Session.turn("a", input, { messageId: "m1", ifExists: "resume" })
  const { requests } = yield* stateOf
  for (const request of requests) {
    for (const as of [[], ["support"]]) {
      const refused = yield* Effect.flip(Session.decide("a", [decisionOf(request, "bob")], { as }))
      const { reason } = refused
      const problem = reason._tag === "InvalidDecision" ? reason.error.problem : reason._tag
      assert.include(["decider", "alreadyAnswered"], problem)
    }
    if (by !== undefined) {
      const given = Session.decide("a", [decisionOf(request, by)], { as: ["finance"] })
      yield* Effect.ignore(given)
    }
  }
  yield* t.eventually(Effect.map(stateOf, ({ outcome, status }) => status === "idle" && outcome === "Completed"))
})

const sqlite = Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))

for (const [name, store] of [
  ["memory", VersionedStore.layerMemory],
  ["SQLite", sqlite]
] as const) {
  describe(`PEOPLE-3 requests of processes that die, on ${name}`, () => {
    for (const [input, answer, by, otherwise] of [
      ["pay", "There was no answer in time."],
      ["locate", "Oslo"],
      ["book", "booked Rome"],
      ["survey", "Rome"],
      ["sign", "signed", "ada"],
      ["locate", "Paris", "ada", "Oslo"],
      ["survey", "Paris", "ada", "Rome"]
    ] as const) {
      const title = `after any write of the turn "${input}" ${by ?? "nobody"} decides its request once`
      t.passing(`PEOPLE-3 ${title}`, () =>
        Effect.gen(function* () {
          const end = Effect.fnUntraced(function* (at: number) {
            const base = Layer.succeedContext(yield* Layer.build(Layer.fresh(store)))
            const dying = mortal(base, at)
            const first = yield* processOf(dying.layer, input === "survey")
            yield* dying.arm
            const running = yield* Effect.forkIn(Effect.exit(first.run(turnOf(input, by))), first.scope)
            yield* Effect.raceFirst(t.eventually(Effect.sync(dying.isDead)), Fiber.await(running))
            yield* Effect.forkIn(first.stop, yield* Scope.make())
            // A decision that is stored counts, also where the next process begins after the end
            if (otherwise !== undefined) yield* Effect.sleep("150 millis")
            const second = yield* processOf(base, input === "survey")
            const [texts, entries] = yield* second.run(
              Effect.gen(function* () {
                yield* turnOf(input, by)
                const { sequence } = yield* stateOf
                const entries = Session.events("a").pipe(Stream.takeUntil((entry) => entry.sequence >= sequence))
                const texts = Conversation.messages(yield* Session.history("a")).map((one) => Message.text(one))
                return [texts.join("\n"), yield* Stream.runCollect(entries)] as const
              })
            )
            yield* second.stop
            const decisions = entries.flatMap(({ event }) =>
              event._tag === "DecisionsReceived" ? event.decisions : []
            )
            const verdicts = decisions.map(({ answer, approved, decidedBy, reason }) => ({
              answer,
              approved,
              decidedBy,
              reason
            }))
            return { texts, verdicts, writes: dying.writes.length }
          })
          const whole = yield* end(Number.POSITIVE_INFINITY)
          assert.include(whole.texts, answer)
          assert.strictEqual(whole.verdicts.length, 1)
          const isAdas = ({ verdicts: [one] }: { readonly verdicts: typeof whole.verdicts }) => one?.decidedBy === "ada"
          assert.strictEqual(isAdas(whole), by === "ada")
          if (by === undefined) assert.strictEqual(whole.verdicts[0]?.reason, "There was no answer in time.")
          assert.isAbove(whole.writes, 3)
          const kept: Array<number> = []
          for (let at = 1; at <= whole.writes; at++) {
            const { texts, verdicts } = yield* end(at)
            assert.strictEqual(verdicts.length, 1, `${at}`)
            if (isAdas({ verdicts })) kept.push(at)
            if (otherwise !== undefined && !isAdas({ verdicts })) assert.include(texts, otherwise)
            else assert.deepStrictEqual({ texts, verdicts }, { texts: whole.texts, verdicts: whole.verdicts }, `${at}`)
          }
          // The next process asks, or the request has expired, or the decision is stored
          const gaps = kept.filter((at, index) => index > 0 && kept[index - 1] !== at - 1)
          assert.strictEqual(gaps.length, otherwise === undefined ? 0 : 1)
          assert.strictEqual(kept.at(-1), by && whole.writes)
        })
      )
    }
  })
}
