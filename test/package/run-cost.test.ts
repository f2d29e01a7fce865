/**
 * The cost of runs and of other work, counted and not timed (FAST-5, L10): nothing grows with the steps, the tools or the
 * messages before, and work over data of others is linear.
 */
import { countCalls, type Calls } from "../calls.ts"
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit, type Response } from "effect/ai"
import { Agent, Conversation, Message, ToolResult } from "effect-emissary"
import { Json, JsonSchema } from "effect-emissary/payload"
import { Picture, Plan, Step, When } from "effect-emissary/plan"
import * as given from "../conversation/given.ts"
import { plan, step } from "../plan/definitions.ts"

const parameters = Schema.Struct({ id: Schema.String, count: Schema.Int })

const toolOf = (_: unknown, index: number) => Tool.make(`look_${index}`, { parameters, success: parameters })

/** A model that calls the first tool once in each of so many steps, and then answers. */
const modelOf = (steps: number) => {
  let step = 0
  const answer = (): Array<Response.PartEncoded> => {
    step += 1
    return step % (steps + 1) === 0
      ? [{ type: "text", text: "done" }]
      : [{ type: "tool-call", id: `call_${step}`, name: "look_0", params: { id: "a", count: step } }]
  }
  return Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({ generateText: () => Effect.sync(answer), streamText: () => Stream.empty })
  )
}

interface Size {
  readonly steps: number
  readonly tools?: number
  readonly messages?: number
}

/** The counts of the second run of an agent: the first one makes what is made once. */
const countRun = Effect.fnUntraced(function* ({ messages = 0, steps, tools = 1 }: Size) {
  const toolkit = Toolkit.make(...Array.from({ length: tools }, toolOf))
  class Bench extends Agent.Service<Bench>()("bench", { toolkit, maxSteps: 1000 }) {}
  const handlers = Object.fromEntries(Object.keys(toolkit.tools).map((name) => [name, Effect.succeed]))
  const world = Bench.layer.pipe(Layer.provide([toolkit.toLayer(handlers), modelOf(steps)]))
  let conversation = yield* Conversation.make({ system: "Look." })
  for (let i = 0; i < messages; i += 2) {
    const before = [yield* Message.user("Look"), yield* Message.assistant([{ type: "text", text: "Looked" }])]
    conversation = yield* Effect.fromResult(Conversation.appendAll(conversation, before))
  }
  const run = Bench.use((bench) => bench.run("go", { conversation }))
  return yield* Effect.provide(Effect.andThen(run, countCalls(run)), world)
})

const countPlan = Effect.fnUntraced(function* (steps: number, parallel: boolean) {
  const target = ({ task }: Step.Input) => Effect.succeed(task)
  const plan = yield* Plan.make(
    "plan",
    [
      Step.make("first", { target }),
      ...Array.from({ length: steps }, (_, index) => Step.make(`step_${index}`, { target, parallel }))
    ],
    { maxIterations: 1000 }
  )
  const run = Plan.run(yield* Plan.bind(plan), "go")
  yield* run
  return yield* countCalls(run)
})

/** The blocks of this library with more calls than they may have. */
const excess = (calls: ReadonlyArray<Calls>, isExcess: (counts: ReadonlyArray<number>) => boolean) =>
  Array.from(new Set(calls.flatMap(({ blocks }) => [...blocks])))
    .filter((block) => !block.startsWith("effect/"))
    .map((block) => ({ block, counts: calls.map(({ of }) => of(block)) }))
    .filter(({ counts }) => isExcess(counts))

const assertNone = <E, R>(measure: Effect.Effect<ReadonlyArray<unknown>, E, R>) =>
  Effect.map(measure, (found) => assert.deepStrictEqual(found, []))

/** A few calls more or less come from limits and caches. */
const some = 3

/** Counts for sizes of equal distance: more than in proportion. */
const isCurved = ([a = 0, b = 0, c = 0]: ReadonlyArray<number>) => c - b > 1.25 * Math.max(0, b - a) + some

describe("FAST-5 what runs cost", () => {
  it.effect("FAST-5 a step costs the same, however many steps came before it", () =>
    Effect.gen(function* () {
      const counted = Effect.forEach([10, 30, 50], (steps) => countRun({ steps }))
      yield* assertNone(Effect.map(counted, (calls) => excess(calls, isCurved)))
    })
  )

  it.effect("FAST-5 a run costs the same, however many tools the model is offered", () =>
    Effect.gen(function* () {
      const counted = Effect.forEach([1, 40], (tools) => countRun({ steps: 3, tools }))
      const isMore = ([few = 0, many = 0]: ReadonlyArray<number>) => many > few + some
      yield* assertNone(Effect.map(counted, (calls) => excess(calls, isMore)))
    })
  )

  it.effect("FAST-5 a step costs the same, however long the conversation was before the run", () =>
    Effect.gen(function* () {
      const sizes = [2, 200].flatMap((messages) => [5, 10].map((steps) => ({ messages, steps })))
      const isMore = ([a = 0, b = 0, c = 0, d = 0]: ReadonlyArray<number>) => d - c > Math.max(0, b - a) + some
      yield* assertNone(Effect.map(Effect.forEach(sizes, countRun), (calls) => excess(calls, isMore)))
    })
  )

  it.effect("FAST-5 a step of a plan costs the same, one after the other and in a parallel group", () =>
    Effect.gen(function* () {
      for (const parallel of [false, true]) {
        const counted = Effect.forEach([20, 60, 100], (steps) => countPlan(steps, parallel))
        yield* assertNone(Effect.map(counted, (calls) => excess(calls, isCurved)))
      }
    })
  )

  it.effect("FAST-5 a step makes one span and one fiber, converts two messages, and compiles and encodes nothing", () =>
    Effect.gen(function* () {
      const [few, many] = yield* Effect.all([countRun({ steps: 10 }), countRun({ steps: 20 })])
      const perStep = (file: string, name: string) => (many.named(file, name) - few.named(file, name)) / 10
      assert.strictEqual(perStep("effect/internal/effect.js", "makeSpanUnsafe"), 1)
      assert.isAtMost(perStep("effect/internal/effect.js", "forkUnsafe"), 1)
      assert.strictEqual(perStep("conversation/internal/modelMessages.ts", "promptMessage"), 1)
      assert.strictEqual(perStep("conversation/internal/modelMessages.ts", "promptToolResult"), 1)
      assert.strictEqual(perStep("payload/internal/compileSchema.ts", "compile"), 0)
      const never = ["payload/Digest.ts", "payload/VersionedCodec.ts", "tool/internal/contractDigest.ts"]
      const isMore = ([a = 0, b = 0]: ReadonlyArray<number>) => b > a
      const more = excess([few, many], isMore).filter(({ block }) => never.some((file) => block.startsWith(file)))
      assert.deepStrictEqual(more, [])
    })
  )
})

/** The blocks whose calls grow faster than the size, after a first run that makes what is made once. */
const curved = Effect.fnUntraced(function* <A, E, R>(
  sizes: readonly [number, number, number],
  work: (size: number) => Effect.Effect<A, E, R>
) {
  const ready = sizes.map((size) => work(size))
  yield* Effect.all(ready, { discard: true })
  return excess(yield* Effect.forEach(ready, countCalls), isCurved)
})

const createdAt = DateTime.makeUnsafe(0)

const assistant = (content: ReadonlyArray<Message.AssistantPart>): Message.Message => ({
  role: "assistant",
  id: "a",
  createdAt,
  content
})

const answers = (count: number, callId: (index: number) => string): ReadonlyArray<Message.Message> =>
  Array.from({ length: count }, (_, index) => ({
    role: "tool",
    id: `t${index}`,
    createdAt,
    callId: callId(index),
    name: "f",
    result: ToolResult.success("found")
  }))

const list = <A>(count: number, of: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, index) => of(index))

describe("L10 work over long histories is linear", () => {
  const histories: Record<string, (n: number) => ReadonlyArray<Message.Message>> = {
    "results without a call": (n) => [
      assistant(list(n, (index) => given.call(`c${index}`))),
      ...answers(n, (index) => `x${index}`)
    ],
    "calls of one id": (n) => [assistant(list(n, () => given.call("c"))), ...answers(n, () => "c")],
    "answers beside calls of the provider": (n) => [
      assistant(list(n, (index) => given.own(`w${index}`))),
      ...list(n, () => assistant([]))
    ],
    "parts of one id": (n) => [
      assistant([...list(n, () => given.own("w")), ...list(n, () => given.ownResult("w", "found", "x"))])
    ],
    "parts without a call": (n) => [
      assistant(list(n, (index) => given.own(`w${index}`))),
      assistant(list(n, (index) => given.ownResult(`x${index}`, "found")))
    ]
  }

  it.effect.each(Object.keys(histories))("L10 a repair of %s", (name) =>
    Effect.gen(function* () {
      const user = yield* Message.user("u")
      const repair = (n: number) => Conversation.repair([user, ...(histories[name]?.(n) ?? assert.fail(name))])
      // Copies of containers beyond the first thousand of a message are found again, so the sizes begin beyond them
      yield* assertNone(curved([300, 400, 500], repair))
      for (const one of (yield* repair(1000)).repairs) {
        if ("reason" in one && "open" in one.reason) assert.isAtMost(one.reason.open.length, 20)
      }
    })
  )
})

describe("L10 other work is linear", () => {
  it.effect.each(["{", "[", '{"', "{}x", "[[", '{"a":', '"{', "\\{", "<think>", "</think>", '{"</think>', "{<think>}"])(
    "DESIGN 5.10 a search for JSON in texts of %s",
    (part) =>
      Effect.gen(function* () {
        const extract = (n: number) => Effect.sync(() => Json.extract(part.repeat(n)))
        yield* assertNone(curved([1000, 2000, 3000], extract))
      })
  )

  it.effect("PAY-C the import of a large Schema", () =>
    Effect.gen(function* () {
      const schema = (n: number) =>
        Schema.Struct(Object.fromEntries(list(n, (index) => [`f${index}`, Schema.optionalKey(Schema.Int)])))
      yield* assertNone(curved([100, 200, 300], (n) => JsonSchema.fromSchema(schema(n))))
    })
  )

  it.effect("PLAN-9 a drawing of a parallel group that is read again and again", () =>
    Effect.gen(function* () {
      const many = (n: number, readers: number) => {
        const context = list(n, () => ({ _tag: "FromParallelAll" as const, step: "p0" }))
        return plan(
          ...list(n, (index) => step(`p${index}`, { parallel: true })),
          ...list(readers, (index) => step(`s${index}`, { context }))
        )
      }
      const draw = (n: number) => Effect.sync(() => Picture.toMermaid(many(20, n), { data: true }))
      yield* assertNone(curved([20, 40, 60], draw))
      assert.strictEqual((yield* draw(30)).split("-.-o").length - 1, 20 * 30)
    })
  )

  it.effect("PLAN-9 a drawing of a large plan with many branches", () =>
    Effect.gen(function* () {
      const to = (name: string) => ({ to: name, when: When.field(name).is(true) })
      const draw = (n: number) =>
        Effect.sync(() =>
          Picture.toMermaid(
            plan(
              ...list(n, (index) =>
                step(`s${index}`, {
                  routes: [7, 11].map((factor) => to(`s${index - (index % 40) + ((index * factor + 3) % 40)}`)),
                  afterBranches: `s${Math.min(n - 1, index + 5)}`
                })
              )
            )
          )
        )
      yield* assertNone(curved([80, 160, 240], draw))
    })
  )
})
