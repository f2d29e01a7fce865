/** The events of a run of 100 steps with one call each. */
import { DateTime, Effect, Result } from "effect"
import { Conversation, Run, ToolResult } from "effect-emissary"

const at = DateTime.makeUnsafe(0)

const eventsOf = (step: number): ReadonlyArray<Run.Event> => {
  const callId = `c${step}`
  return [
    { _tag: "StepStarted", at, step, purpose: "answer" },
    {
      _tag: "ModelAnswered",
      at,
      message: {
        role: "assistant",
        id: `a${step}`,
        createdAt: at,
        content: [{ type: "tool-call", id: callId, name: "lookup_weather", arguments: { city: "Oslo", days: 3 } }],
        usage: { inputTokens: 10, outputTokens: 5 }
      }
    },
    { _tag: "ToolStarted", at, callId },
    {
      _tag: "ToolFinished",
      at,
      message: {
        role: "tool",
        id: `r${step}`,
        createdAt: at,
        callId,
        name: "lookup_weather",
        result: ToolResult.success({ city: "Oslo", temperature: 21.5 })
      }
    }
  ]
}

const events: ReadonlyArray<Run.Event> = [
  {
    _tag: "RunStarted",
    at,
    runId: "run",
    agent: "bench",
    definition: "sha256:0",
    depth: 0,
    maxSteps: "unlimited",
    structured: "never",
    context: {},
    conversation: Conversation.empty
  },
  {
    _tag: "InputAdded",
    at,
    message: { role: "user", id: "u", createdAt: at, content: [{ type: "text", text: "go" }] },
    maxSteps: "unlimited"
  },
  ...Array.from({ length: 100 }, (_, index) => eventsOf(index + 1)).flat()
]

export const count = events.length

type Operation = "encode" | "decode" | "fold"

/** `JSON` of the engine, and a fold that keeps messages and open calls without checking anything. */
export const bare = async (operation: Operation): Promise<() => unknown> => {
  const texts = events.slice(2).map((event) => JSON.stringify(event))
  switch (operation) {
    case "encode":
      return () => events.slice(2).map((event) => JSON.stringify(event))
    case "decode":
      return () => texts.map((text): unknown => JSON.parse(text))
    case "fold":
      return () => {
        const [messages, open] = [[] as Array<unknown>, new Set<string>()]
        for (const event of events) {
          if ("message" in event) messages.push(event.message)
          if (event._tag === "ToolStarted") open.add(event.callId)
          if (event._tag === "ToolFinished") open.delete(event.message.callId)
        }
        return { messages, open }
      }
  }
}

export const emissary = async (operation: Operation): Promise<() => unknown> => {
  const encode = () => events.slice(2).map((event) => Effect.runSync(Run.eventCodec.encodeJson(event)))
  const texts = encode()
  switch (operation) {
    case "encode":
      return encode
    case "decode":
      return () => texts.map((text) => Effect.runSync(Run.eventCodec.decodeJson(text)))
    case "fold":
      return () => Result.getOrThrow(Run.fold(events))
  }
}
