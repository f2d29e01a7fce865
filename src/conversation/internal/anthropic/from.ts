import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import * as Decode from "../../../payload/Decode.ts"
import * as Json from "../../../payload/Json.ts"
import { checkCount, type Limits } from "../../../payload/Limits.ts"
import * as PayloadError from "../../../payload/PayloadError.ts"
import * as foreign from "../foreign.ts"
import * as received from "../received.ts"
import { noteOf } from "./exact.ts"
import * as read from "./read.ts"
import { split } from "./split.ts"
import * as wire from "./wire.ts"

const what = "Anthropic messages"

interface Options {
  readonly limits?: Partial<Limits> | undefined
  readonly tokenLimit?: number | undefined
}

const receive = Effect.fnUntraced(function* (input: unknown, limits: Partial<Limits> | undefined) {
  const json = yield* Json.checkObject(input, { what, limits })
  const unknown = Object.keys(json).filter((key) => key !== "system" && key !== "messages")
  if (unknown.length > 0) {
    const issues = unknown.map((key) => ({
      path: `/${key}`,
      expected: "no keys but system and messages",
      found: "a key"
    }))
    return yield* new PayloadError.PayloadError({ what, reason: PayloadError.invalid(issues) })
  }
  const raws: ReadonlyArray<Schema.Json> = Array.isArray(json["messages"]) ? json["messages"] : []
  yield* checkCount("messages", raws.length, { what, path: "/messages", limits })
  yield* received.roles(raws, ["user", "assistant"])
  const { messages, system } = yield* Decode.decode(wire.History, { what, limits, onExcessProperty: "ignore" })(json)
  const all: ReadonlyArray<received.Received> = [
    ...instructions(system, json["system"] ?? null),
    ...messages.flatMap((message, index) => {
      const raw = raws[index]
      return Json.isObject(raw) ? split(index, message, raw) : []
    })
  ]
  const top = foreign.diff({ system: null, messages: null }, withoutValues(json))
  return all.map((one, index) => (index > 0 || top === undefined ? one : { ...one, note: { ...one.note, top } }))
})

export const fromHistory = (input: unknown, options: Options) =>
  Effect.flatMap(receive(input, options.limits), (all) => received.conversation("anthropic", all, options.tokenLimit))

/** The same, with what breaks a law repaired. */
export const repaired = (input: unknown, options: Options) =>
  Effect.flatMap(receive(input, options.limits), (all) => received.repaired("anthropic", all, options.tokenLimit))

const instructions = (system: typeof wire.History.Type.system, raw: Schema.Json): ReadonlyArray<received.Received> => {
  if (system === undefined || system === null) return []
  const said = read.system(system)
  return [{ index: 0, said, note: noteOf(raw, said, typeof system === "string" ? undefined : "blocks") }]
}

const withoutValues = (json: Json.JsonObject): Json.JsonObject =>
  Object.fromEntries(Object.keys(json).map((key) => [key, null]))
