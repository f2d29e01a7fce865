/**
 * The cost of a step of a run in the library, by the length of the run and by the
 * number of tools (L10).
 *
 * `node bench/agent.ts` runs agents on a model that answers at once with one tool
 * call, and prints microseconds of processor time per step. The ratio of long to short runs is near 1
 * when the cost of a step does not depend on the run. It fails when that ratio is
 * above 3, or when a step with 30 tools costs that much more than one with a single
 * tool. The list of messages that the model is sent is the one thing that grows.
 *
 * It also prints the memory that a run which has ended keeps until a full collection, and fails above 10 KB (FAST-2). All of a
 * run is about 20 KB; a model call of core keeps its prompt.
 */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Response, Tool, Toolkit } from "effect/ai"
import { Agent } from "effect-emissary"

const finish = (reason: Response.FinishReason): Response.FinishPart =>
  Response.makePart("finish", {
    reason,
    usage: new Response.Usage({
      inputTokens: { uncached: undefined, total: 10, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: 5, text: undefined, reasoning: undefined }
    }),
    response: undefined
  })

/**
 * Asks for one call in each step until `steps`. Not made by `LanguageModel.make`, which
 * looks through the whole prompt in each step: what is measured is this library.
 */
const model = (steps: number) =>
  Layer.sync(LanguageModel.LanguageModel, () => {
    let step = 0
    const next = (): Array<Response.AnyPart> => {
      step += 1
      if (step >= steps) return [Response.makePart("text", { text: "done" }), finish("stop")]
      const call = { id: `c${step}`, name: "tool_0", params: { text: "hello" }, providerExecuted: false }
      return [Response.makePart("tool-call", call), finish("tool-calls")]
    }
    const service: unknown = {
      generateText: () => Effect.sync(() => ({ content: next() })),
      streamText: () => Stream.suspend(() => Stream.fromIterable(next())),
      generateObject: () => Effect.die("not asked for")
    }
    return service as LanguageModel.LanguageModel
  })

const agentWith = (count: number) => {
  const tools = Array.from({ length: count }, (_, i) =>
    Tool.make(`tool_${i}`, {
      description: "A tool",
      parameters: Schema.Struct({ text: Schema.String, limit: Schema.optionalKey(Schema.Int) }),
      success: Schema.String
    })
  )
  const toolkit = Toolkit.make(...tools)
  const handlers = Object.fromEntries(
    tools.map(({ name }) => [name, ({ text }: { text: string }) => Effect.succeed(text)])
  )
  return { agent: Agent.make("bench", { toolkit, maxSteps: "unlimited" }), layer: toolkit.toLayer(handlers) }
}

interface Case {
  readonly steps: number
  readonly tools: number
  readonly streaming: boolean
}

/** Microseconds per step, of an agent that has run before. */
const measure = ({ steps, streaming, tools }: Case, times: number): Effect.Effect<ReadonlyArray<number>> => {
  const { agent, layer } = agentWith(tools)
  const run = streaming ? Stream.runDrain(agent.stream("Go")) : Effect.asVoid(agent.run("Go"))
  const once = Effect.gen(function* () {
    const begin = process.cpuUsage()
    yield* run
    const { system, user } = process.cpuUsage(begin)
    return (system + user) / steps
  }).pipe(Effect.provide(model(steps)))
  return Effect.andThen(once, Effect.all(Array.from({ length: times }, () => once))).pipe(
    Effect.provide(layer),
    Effect.orDie
  )
}

const median = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

const repeated = (times: number, one: Case) => Effect.map(measure(one, times), median)

const compare = Effect.fnUntraced(function* (title: string, base: Case, other: Case, times: readonly [number, number]) {
  yield* repeated(10, base)
  const a = yield* repeated(times[0], base)
  const b = yield* repeated(times[1], other)
  const ratio = b / a
  console.log(`${title.padEnd(40)} ${a.toFixed(0)} µs/step   ${b.toFixed(0)} µs/step   ratio ${ratio.toFixed(2)}`)
  return ratio
})

const program = Effect.gen(function* () {
  const ratios: Array<number> = []
  for (const streaming of [false, true]) {
    const how = streaming ? "stream" : "run"
    const base = { steps: 100, tools: 1, streaming }
    ratios.push(yield* compare(`${how}: 100 and 1,000 steps`, base, { ...base, steps: 1000 }, [30, 3]))
    ratios.push(yield* compare(`${how}: 1 tool and 30 tools`, base, { ...base, tools: 30 }, [30, 30]))
  }
  return ratios
})

setFlagsFromString("--expose-gc")
const collect: (options?: { readonly type: "minor" }) => void = runInNewContext("gc")

/** A model that calls the tool in every other answer. */
const asking = Layer.effect(
  LanguageModel.LanguageModel,
  Effect.suspend(() => {
    let answers = 0
    const answer = (): Array<Response.PartEncoded> =>
      answers++ % 2 === 0
        ? [{ type: "tool-call", id: `call_${answers}`, name: "tool_0", params: { text: "a" } }]
        : [{ type: "text", text: "done" }]
    return LanguageModel.make({ generateText: () => Effect.sync(answer), streamText: () => Stream.empty })
  })
)

/** Kilobytes that a run keeps after collections of young objects, the least of three measurements. */
const keptKilobytes = Effect.gen(function* () {
  const { agent, layer } = agentWith(1)
  const count = 300
  const runs = Effect.forEach(Array.from({ length: count }), () => agent.ask("go"), { discard: true })
  const measured = Effect.gen(function* () {
    collect()
    const before = process.memoryUsage().heapUsed
    yield* runs
    collect({ type: "minor" })
    collect({ type: "minor" })
    return (process.memoryUsage().heapUsed - before) / count / 1024
  })
  return yield* Effect.gen(function* () {
    yield* runs
    yield* runs
    return Math.min(yield* measured, yield* measured, yield* measured)
  }).pipe(Effect.provide([layer, asking]), Effect.orDie)
})

const ratios = await Effect.runPromise(program)
const kept = await Effect.runPromise(keptKilobytes)
console.log(`${"memory that an ended run keeps".padEnd(40)} ${kept.toFixed(2)} KB`)
if (ratios.some((ratio) => ratio > 3) || kept > 10) process.exitCode = 1
