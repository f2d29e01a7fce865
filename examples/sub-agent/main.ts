/**
 * An agent that asks another one.
 *
 * `Agent.asTool` makes an agent a tool. The inner run shares the context and the time limit of the outer one, its events
 * appear in the outer stream under the call that started it, and its usage is counted there.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Layer, Schema, Stream } from "effect"
import { Agent, RunContext, ToolResult, type AgentEvent } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { Tool, Toolkit } from "effect/ai"

const Library = Toolkit.make(
  Tool.make("search", { parameters: Schema.Struct({ words: Schema.String }), success: Schema.Array(Schema.String) })
)

const libraryLayer = Library.toLayer({
  search: ({ words }) => Effect.succeed([`${words}: 4,806 m, measured in 2023`])
})

class Researcher extends Agent.Service<Researcher>()("researcher", {
  instructions: Effect.map(
    RunContext.read(Schema.Struct({ language: Schema.String })),
    ({ language }) => `You find facts and answer in ${language}.`
  ),
  toolkit: Library
}) {}

class Writer extends Agent.Service<Writer>()("writer", {
  instructions: "You write short texts and never guess.",
  toolkit: [Agent.asTool(Researcher, { name: "research", description: "Finds facts and names the source" })]
}) {}

/** One script for both, in the order in which they ask. */
const modelLayer = ScriptedModel.layer([
  {
    expect: { tools: ["research"] },
    toolCalls: [{ name: "research", params: { input: "How high is Mont Blanc?" } }],
    usage: { inputTokens: 100, outputTokens: 10 }
  },
  {
    expect: { tools: ["search"], systemText: "in English" },
    toolCalls: [{ name: "search", params: { words: "Mont Blanc" } }],
    usage: { inputTokens: 50, outputTokens: 5 }
  },
  { text: "4,806 m, as of 2023.", usage: { inputTokens: 60, outputTokens: 8 } },
  {
    expect: { toolResult: "4,806 m" },
    text: "Mont Blanc rises to 4,806 m.",
    usage: { inputTokens: 130, outputTokens: 12 }
  }
])

const print = (event: AgentEvent.AgentEvent<unknown>, indent: string): Effect.Effect<void> => {
  switch (event._tag) {
    case "RunStarted":
      return Console.log(`${indent}${event.agent} starts`)
    case "ToolStarted":
      return Console.log(`${indent}calls ${event.name} ${JSON.stringify(event.arguments)}`)
    case "ToolFinished":
      return Console.log(`${indent}${event.name} says ${ToolResult.text(event.result)}`)
    case "Child":
      return print(event.event, `${indent}    `)
    case "RunFinished":
      return Console.log(`${indent}answer: ${event.result.text} (${JSON.stringify(event.result.usage)})`)
    default:
      return Effect.void
  }
}

Effect.gen(function* () {
  const writer = yield* Writer
  const events = writer.stream("Write a line about Mont Blanc.", {
    context: { language: "English" },
    timeouts: { total: "1 minute" }
  })
  yield* Stream.runForEach(events, (event) => print(event, ""))
}).pipe(
  Effect.provide(
    Writer.layer.pipe(Layer.provide(Researcher.layer), Layer.provide(libraryLayer), Layer.provide(modelLayer))
  ),
  NodeRuntime.runMain
)
