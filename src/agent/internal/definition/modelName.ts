/** Names of models. */
import * as Option from "effect/Option"
import * as Names from "../../../payload/Names.ts"

/** `"provider/model"`, split at the first slash. */
export interface ModelName {
  readonly provider: string
  readonly model: string
}

/** What a well-formed model name is, for messages. */
export const expected = `"provider/model", such as "openai/gpt-5.2"`

export const parse = (name: unknown): Option.Option<ModelName> => {
  if (typeof name !== "string") return Option.none()
  const slash = name.indexOf("/")
  const provider = name.slice(0, slash)
  const model = name.slice(slash + 1)
  return slash > 0 && !/\s/u.test(provider) && model !== "" && model.trim() === model
    ? Option.some({ provider, model })
    : Option.none()
}

/** A name found in a definition, in the form in which a message shows it. */
export const show = (name: unknown): string => {
  if (typeof name === "string") return Names.quote(name)
  if (name === undefined) return "nothing"
  if (name === null || typeof name === "number" || typeof name === "boolean") return String(name)
  return Array.isArray(name) ? "array" : typeof name
}
