import * as Option from "effect/Option"

/** A version, or its absence, as messages show it. */
export const versionText = (version: Option.Option<string>): string =>
  Option.match(version, { onNone: () => "no value", onSome: (text) => `version ${text}` })
