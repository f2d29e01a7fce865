import { tokens } from "./pointer.ts"

/**
 * A JSON Pointer in which the token `*` stands for any one token and `**` for
 * any number of them.
 *
 * Patterns are followed token by token: the state is what is left of each
 * pattern that still fits.
 */
export type State = ReadonlyArray<ReadonlyArray<string>>

export const start = (patterns: ReadonlyArray<string>): State => close(patterns.map(tokens))

/** `**` may also stand for nothing. */
const close = (state: State): State =>
  state.flatMap((rest) => {
    const skipped = [rest]
    let at = rest
    while (at[0] === "**") {
      at = at.slice(1)
      skipped.push(at)
    }
    return skipped
  })

export const advance = (state: State, token: string): State =>
  state.length === 0
    ? state
    : close(
        state.flatMap((rest) => {
          if (rest[0] === "**") return [rest]
          return rest[0] === "*" || rest[0] === token ? [rest.slice(1)] : []
        })
      )

/** Whether the tokens up to here are all of some pattern. */
export const matches = (state: State): boolean => state.some((rest) => rest.length === 0)

/** Equal states have equal ids. */
export const id = (state: State): string => state.map((rest) => rest.map((token) => `/${token}`).join("")).join(" ")

export const test = (pattern: string, path: string): boolean => matches(tokens(path).reduce(advance, start([pattern])))
