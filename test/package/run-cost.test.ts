/** The cost of runs, counted and not timed (FAST-5): nothing grows with the steps, the tools or the messages before. */
import { countCalls, type Calls } from "../calls.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit, type Response } from "effect/ai"
import { Agent, Conversation, Message } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"

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
    { name: "plan", maxIterations: 1000 },
    Step.make("first", { target }),
    ...Array.from({ length: steps }, (_, index) => Step.make(`step_${index}`, { target, parallel }))
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

/** A few calls more or less come from limits and caches. */
const some = 3

/** Counts for sizes of equal distance: more than in proportion. */
const isCurved = ([a = 0, b = 0, c = 0]: ReadonlyArray<number>) => c - b > 1.25 * Math.max(0, b - a) + some

describe("FAST-5 what runs cost", () => {
  it.effect("FAST-5 a step costs the same, however many steps came before it", () =>
    Effect.gen(function* () {
      const calls = yield* Effect.forEach([10, 30, 50], (steps) => countRun({ steps }))
      assert.deepStrictEqual(excess(calls, isCurved), [])
    })
  )

  it.effect("FAST-5 a run costs the same, however many tools the model is offered", () =>
    Effect.gen(function* () {
      const calls = yield* Effect.forEach([1, 40], (tools) => countRun({ steps: 3, tools }))
      const isMore = ([few = 0, many = 0]: ReadonlyArray<number>) => many > few + some
      assert.deepStrictEqual(excess(calls, isMore), [])
    })
  )

  it.effect("FAST-5 a step costs the same, however long the conversation was before the run", () =>
    Effect.gen(function* () {
      const sizes = [2, 200].flatMap((messages) => [5, 10].map((steps) => ({ messages, steps })))
      const calls = yield* Effect.forEach(sizes, countRun)
      const isMore = ([a = 0, b = 0, c = 0, d = 0]: ReadonlyArray<number>) => d - c > Math.max(0, b - a) + some
      assert.deepStrictEqual(excess(calls, isMore), [])
    })
  )

  it.effect("FAST-5 a step of a plan costs the same, one after the other and in a parallel group", () =>
    Effect.gen(function* () {
      for (const parallel of [false, true]) {
        const calls = yield* Effect.forEach([20, 60, 100], (steps) => countPlan(steps, parallel))
        assert.deepStrictEqual(excess(calls, isCurved), [])
      }
    })
  )

  it.effect(
    "FAST-5 a step makes two spans and one fiber, converts two messages, and compiles and encodes nothing",
    () =>
      Effect.gen(function* () {
        const [few, many] = yield* Effect.all([countRun({ steps: 10 }), countRun({ steps: 20 })])
        const perStep = (file: string, name: string) => (many.named(file, name) - few.named(file, name)) / 10
        assert.strictEqual(perStep("effect/internal/effect.js", "makeSpanUnsafe"), 2)
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
