import * as Option from "effect/Option"

const longest = 120

/** A key as messages show it. */
export const quote = (key: string): string => JSON.stringify(key.length > longest ? `${key.slice(0, longest)}…` : key)

export const versionText = (version: Option.Option<string>): string =>
  Option.match(version, { onNone: () => "no value", onSome: (text) => `version ${text}` })
