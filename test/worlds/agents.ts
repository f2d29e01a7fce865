/**
 * The agents of the worlds. The text of a message names the calls that are made for it: `a/1|once again|pay` are the calls of `once` and
 * `again` in one answer, then one of `pay`, and then an answer in words. So the answer to a conversation follows from its messages.
 */
import { Context, Effect, Layer, Random, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ToolFailure } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

/** A message as far as the answer depends on it. */
export interface Said {
  readonly role: string
  readonly text: string
}

export type Answer =
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Calls"; readonly calls: ReadonlyArray<{ readonly name: string; readonly key: string }> }
  | { readonly _tag: "Failure" }

/** The answer of the model to a conversation. */
export const answerTo = (messages: ReadonlyArray<Said>): Answer => {
  const last = messages.findLastIndex(({ role }) => role === "user")
  const text = messages[last]?.text ?? ""
  const [key, ...steps] = text.split("|")
  const answered = messages.slice(last).filter(({ role }) => role === "assistant").length
  const step = steps[answered]
  if (step === undefined) return { _tag: "Text", text: `re: ${text}` }
  if (step === "fails") return { _tag: "Failure" }
  return { _tag: "Calls", calls: step.split(" ").map((name, index) => ({ name, key: `${key}/${answered}/${index}` })) }
}

/** The text of the result of a call that ran to its end. */
export const resultOf = (name: string, key: string): string => (name === "broken" ? `no ${key}` : `did ${key}`)

/** The calls that had an effect outside: `started`, and of these `ended`. */
export class Ledger extends Context.Service<
  Ledger,
  { readonly started: Array<string>; readonly ended: Array<string> }
>()("worlds/Ledger") {
  static readonly layer = Layer.sync(Ledger, () => ({ started: [], ended: [] }))
}

const parts = { parameters: Schema.Struct({ key: Schema.String }), success: Schema.String, failure: ToolFailure }

export const toolkit = Toolkit.make(
  Tool.make("once", parts),
  Tool.make("again", parts).annotate(Tool.Idempotent, true),
  Tool.make("pay", { ...parts, needsApproval: true }),
  Tool.make("broken", parts)
)

/** The names of the tools. */
export const tools = ["once", "again", "pay", "broken"] as const

export const handlers = toolkit.toLayer(
  Effect.map(Ledger, ({ ended, started }) => {
    const work = (name: string) =>
      Effect.fnUntraced(function* ({ key }: { readonly key: string }) {
        started.push(`${name} ${key}`)
        // Longer than a lease
        yield* key.startsWith("lone") ? Effect.sleep(900) : Effect.flatMap(Random.nextIntBetween(0, 150), Effect.sleep)
        ended.push(`${name} ${key}`)
        return resultOf(name, key)
      })
    const broken = (input: { readonly key: string }) =>
      Effect.flatMap(work("broken")(input), (message) => Effect.fail(new ToolFailure({ message })))
    return { once: work("once"), again: work("again"), pay: work("pay"), broken }
  })
)

export const model = ScriptedModel.layer(({ messages }) =>
  Effect.gen(function* () {
    yield* Effect.flatMap(Random.nextIntBetween(1, 80), Effect.sleep)
    const answer = answerTo(messages)
    if (answer._tag === "Failure") return { fail: { reason: "AuthenticationError" } }
    if (answer._tag === "Text") return { text: answer.text }
    return { toolCalls: answer.calls.map(({ key, name }) => ({ name, params: { key } })) }
  })
)

export const worker = Agent.make("worker", { instructions: "You work.", toolkit, maxSteps: 8 })

export const other = Agent.make("other", { instructions: "You do something else.", toolkit })

/** The services of the agents, in each process. */
export const layer = Layer.merge(handlers, model)
