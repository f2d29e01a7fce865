/** The model, the toolkit and the handlers of the rows that are written with Effect. */
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit, type Response } from "effect/ai"
import * as task from "./task.ts"

export const Parameters = Schema.Struct({
  city: Schema.String,
  days: Schema.Int,
  units: Schema.Literals(task.units)
})

export const Weather = Schema.Struct({ city: Schema.String, temperature: Schema.Finite, ok: Schema.Boolean })

const Lookup = Tool.make(task.toolName, {
  description: task.toolDescription,
  parameters: Parameters,
  success: Weather
})

const extraTool = (_: unknown, index: number) =>
  Tool.make(`extra_tool_${index}`, {
    description: `Extra tool number ${index}`,
    parameters: Schema.Struct({
      a: Schema.String,
      b: Schema.String,
      c: Schema.Int,
      d: Schema.Finite,
      e: Schema.Boolean,
      f: Schema.Literals(["x", "y", "z"]),
      g: Schema.Array(Schema.String),
      h: Schema.NullOr(Schema.String),
      i: Schema.Struct({ street: Schema.String, city: Schema.String, zip: Schema.String }),
      j: Schema.Array(Schema.Struct({ id: Schema.Int, n: Schema.Int }))
    }),
    success: Schema.String
  })

const usage = {
  inputTokens: { total: 10, uncached: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: 5, reasoning: undefined }
}

export const handlerOf = ({ toolMilliseconds }: task.Task) =>
  toolMilliseconds === 0
    ? (parameters: task.Parameters) =>
        Effect.sync(() => {
          task.toolStarted(parameters)
          return task.toolFinished(parameters)
        })
    : Effect.fnUntraced(function* (parameters: task.Parameters) {
        task.toolStarted(parameters)
        yield* Effect.sleep(toolMilliseconds)
        return task.toolFinished(parameters)
      })

const respond = (given: task.Task, messages: number): Array<Response.PartEncoded> => {
  const step = (messages - 2) / 2
  if (step >= given.steps)
    return [
      { type: "text", text: task.answer },
      { type: "finish", reason: "stop", usage, response: undefined }
    ]
  const parts: Array<Response.PartEncoded> = task.callsOf(given, step).map(({ id, json }) => ({
    type: "tool-call",
    id,
    name: task.toolName,
    params: JSON.parse(json)
  }))
  parts.push({ type: "finish", reason: "tool-calls", usage, response: undefined })
  return parts
}

export const makeParts = (given: task.Task) => {
  const extra = Array.from({ length: given.tools - 1 }, extraTool)
  const toolkit = Toolkit.make(Lookup, ...extra)
  const handlers = Object.fromEntries(extra.map(({ name }) => [name, () => Effect.succeed("x")]))
  const toolsLayer = toolkit.toLayer({ ...handlers, [task.toolName]: handlerOf(given) })
  const modelLayer = Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: ({ prompt }) => {
        task.modelCalled(prompt)
        const messages = prompt.content.length
        return given.modelMilliseconds === 0
          ? Effect.sync(() => respond(given, messages))
          : Effect.map(Effect.sleep(given.modelMilliseconds), () => respond(given, messages))
      },
      streamText: () => Stream.empty
    })
  )
  const concurrency = given.concurrency === Infinity ? ("unbounded" as const) : given.concurrency
  return { concurrency, modelLayer, toolkit, toolsLayer }
}
