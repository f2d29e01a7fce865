import { tokens } from "./pointer.ts"

/**
 * What is left of each pattern that still fits, after some tokens. A pattern is a JSON
 * Pointer in which the token `*` stands for any one token and `**` for any number of
 * them.
 *
 * Equal states of the same patterns are one object, and each remembers where a token
 * leads: a value is searched on every encode, and mostly it is the same few places.
 */
export interface State {
  /** Whether the tokens up to here are all of some pattern. */
  readonly matches: boolean
  readonly next: (token: string) => State
}

type Rests = ReadonlyArray<ReadonlyArray<string>>

/** `**` may also stand for nothing. */
const close = (rests: Rests): Rests =>
  rests.flatMap((rest) => {
    const skipped = [rest]
    let at = rest
    while (at[0] === "**") {
      at = at.slice(1)
      skipped.push(at)
    }
    return skipped
  })

const advance = (rests: Rests, token: string): Rests =>
  rests.flatMap((rest) => {
    if (rest[0] === "**") return [rest]
    return rest[0] === "*" || rest[0] === token ? [rest.slice(1)] : []
  })

const compile = (patterns: ReadonlyArray<string>): State => {
  const known = new Map<string, State>()
  const make = (open: Rests): State => {
    const rests = new Map(close(open).map((rest) => [JSON.stringify(rest), rest]))
    const id = [...rests.keys()].sort().join()
    const state = known.get(id) ?? stateOf([...rests.values()])
    known.set(id, state)
    return state
  }
  const stateOf = (rests: Rests): State => {
    // Tokens that no pattern names all lead to the same place
    const named = new Set(rests.flatMap(([first]) => (first === undefined ? [] : [first])))
    const after = new Map<string, State>()
    let other: State | undefined
    return {
      matches: rests.some((rest) => rest.length === 0),
      next: (token) => {
        if (!named.has(token)) return (other ??= make(advance(rests, token)))
        const state = after.get(token) ?? make(advance(rests, token))
        after.set(token, state)
        return state
      }
    }
  }
  return make(patterns.map(tokens))
}

const compiled = new WeakMap<ReadonlyArray<string>, State>()

/** The state before the first token. Give the same list again, and nothing is done again. */
export const start = (patterns: ReadonlyArray<string>): State => {
  const state = compiled.get(patterns) ?? compile(patterns)
  compiled.set(patterns, state)
  return state
}

export const test = (pattern: string, path: string): boolean =>
  tokens(path).reduce((state, token) => state.next(token), compile([pattern])).matches
