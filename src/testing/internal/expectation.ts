import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Result from "effect/Result"
import type * as Script from "../Script.ts"
import type { Difference } from "../ScriptedModelError.ts"

export const shorten = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}...` : text)
const quote = (value: unknown): string => shorten(JSON.stringify(value) ?? "nothing")

const contains = (what: string, text: string | undefined, piece: string): ReadonlyArray<Difference> =>
  text !== undefined && text.includes(piece)
    ? []
    : [{ what, expected: `text with ${quote(piece)}`, found: text === undefined ? "no such message" : quote(text) }]

const equals = (what: string, found: unknown, expected: unknown): ReadonlyArray<Difference> =>
  Equal.equals(found, expected) ? [] : [{ what, expected: quote(expected), found: quote(found) }]

const resultsSinceAnswer = (messages: ReadonlyArray<Script.RequestMessage>): string | undefined => {
  const answer = messages.findLastIndex((message) => message.role === "assistant")
  const results = messages.slice(answer + 1).filter((message) => message.role === "tool")
  return results.length === 0 ? undefined : results.map((message) => message.text).join("\n")
}

const differences = (request: Script.Request, expected: Script.Expectation): ReadonlyArray<Difference> => {
  const { messages } = request
  const system = messages.filter((message) => message.role === "system").map((message) => message.text)
  return [
    ...(expected.lastUserText === undefined
      ? []
      : contains(
          "newest user message",
          messages.findLast((message) => message.role === "user")?.text,
          expected.lastUserText
        )),
    ...(expected.systemText === undefined
      ? []
      : contains("system message", system.length === 0 ? undefined : system.join("\n"), expected.systemText)),
    ...(expected.toolResult === undefined
      ? []
      : contains("tool results", resultsSinceAnswer(messages), expected.toolResult)),
    ...(expected.roles === undefined
      ? []
      : equals(
          "roles",
          messages.map((message) => message.role),
          [...expected.roles]
        )),
    ...(expected.tools === undefined
      ? []
      : equals("tools offered", request.tools.map((tool) => tool.name).sort(), [...expected.tools].sort())),
    ...(expected.toolChoice === undefined ? [] : equals("tool choice", request.toolChoice, expected.toolChoice)),
    ...(expected.responseFormat === undefined
      ? []
      : equals("response format", request.responseFormat.type, expected.responseFormat))
  ]
}

export const check = (
  request: Script.Request,
  expected: NonNullable<Script.Turn["expect"]>
): Effect.Effect<ReadonlyArray<Difference>> => {
  if (typeof expected !== "function") return Effect.succeed(differences(request, expected))
  return Effect.suspend(() => {
    const answer = expected(request)
    return typeof answer === "boolean" ? Effect.succeed(answer) : answer
  }).pipe(
    Effect.result,
    Effect.map((answer) => {
      if (Result.isSuccess(answer) && answer.success !== false) return []
      const problem = Result.isFailure(answer) ? answer.failure : undefined
      const newest = request.messages.at(-1)
      return [
        {
          what: "expect function",
          expected:
            problem === undefined ? "true" : shorten(problem instanceof Error ? problem.message : quote(problem)),
          found: newest === undefined ? "no message" : `newest message ${newest.role} ${quote(newest.text)}`
        }
      ]
    })
  )
}
