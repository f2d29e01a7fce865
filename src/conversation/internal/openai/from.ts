import * as Effect from "effect/Effect"
import * as Decode from "../../../payload/Decode.ts"
import * as Json from "../../../payload/Json.ts"
import { checkCount, type Limits } from "../../../payload/Limits.ts"
import * as received from "../received.ts"
import { noteOf } from "./exact.ts"
import { read } from "./read.ts"
import * as wire from "./wire.ts"

const what = "OpenAI messages"

interface Options {
  readonly limits?: Partial<Limits> | undefined
  readonly tokenLimit?: number | undefined
}

const receive = Effect.fnUntraced(function* (input: unknown, limits: Partial<Limits> | undefined) {
  const json = yield* Json.check(input, { what, limits })
  const items: ReadonlyArray<unknown> = Array.isArray(json) ? json : []
  yield* checkCount("messages", items.length, { what, path: "", limits })
  yield* received.roles(items, ["system", "developer", "user", "assistant", "tool"])
  const messages = yield* Decode.decode(wire.Messages, { what, limits, onExcessProperty: "ignore" })(json)
  return messages.map((message, index): received.Received => {
    const { form, said } = read(message)
    const raw = Array.isArray(json) ? json[index] : undefined
    return { index, said, note: Json.isObject(raw) ? noteOf(raw, said, form) : {} }
  })
})

export const fromMessages = (input: unknown, options: Options) =>
  Effect.flatMap(receive(input, options.limits), (all) => received.conversation("openai", all, options.tokenLimit))

/** The same, with what breaks a law repaired. */
export const repaired = (input: unknown, options: Options) =>
  Effect.flatMap(receive(input, options.limits), (all) => received.repaired("openai", all, options.tokenLimit))
