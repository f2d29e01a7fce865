/** Bearer tokens: named on the server, compared without telling by time how much of one is right. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Digest from "../../../payload/Digest.ts"
import * as RemoteToolsError from "../../RemoteToolsError.ts"

/** One token, or several by the name of who holds them. */
type Tokens = Redacted.Redacted<string> | { readonly [name: string]: Redacted.Redacted<string> }

/** Finds the name under which a token is known. */
export type Match = (candidate: Redacted.Redacted<string>) => Effect.Effect<string | undefined>

/** A text without a digest (it is no well-formed Unicode) equals no token. */
const digest = (text: string): Effect.Effect<string> => Effect.orElseSucceed(Digest.sha256(text), () => "")

/**
 * Compares two digests of equal length to the last character.
 *
 * Digests, because equal lengths say nothing about the token, and because what
 * the loop reveals about a digest is of no use for guessing its origin.
 */
const equalDigests = (a: string, b: string): boolean => {
  let difference = a.length ^ b.length
  for (let index = 0; index < a.length; index++) {
    difference |= a.charCodeAt(index) ^ b.charCodeAt(index % b.length)
  }
  return difference === 0 && a !== ""
}

const isOne = (tokens: Tokens): tokens is Redacted.Redacted<string> => Redacted.isRedacted(tokens)

/** Refuses tokens that would let anybody in. */
export const nonEmpty = (
  token: Redacted.Redacted<string>,
  option: string
): Effect.Effect<string, RemoteToolsError.InvalidOption> => {
  const value = Redacted.value(token)
  return value.trim() === "" || /[^\x20-\x7e]/.test(value)
    ? Effect.fail(
        new RemoteToolsError.InvalidOption({
          option,
          message: `"${option}" must be a non-empty text of printable ASCII characters, which is what a header can hold`
        })
      )
    : Effect.succeed(value)
}

/** Prepares the comparison; the tokens themselves are not kept. */
export const matcher = Effect.fnUntraced(function* (tokens: Tokens) {
  const entries = isOne(tokens) ? ([["default", tokens]] as const) : Object.entries(tokens)
  if (entries.length === 0) {
    return yield* new RemoteToolsError.InvalidOption({ option: "token", message: `"token" names no token` })
  }
  const known = yield* Effect.forEach(entries, ([name, token]) =>
    nonEmpty(token, isOne(tokens) ? "token" : `token.${name}`).pipe(
      Effect.flatMap(digest),
      Effect.map((digest) => ({ name, digest }))
    )
  )
  const match: Match = (candidate) =>
    Effect.map(digest(Redacted.value(candidate)), (candidate) => {
      let found: string | undefined
      for (const { digest, name } of known) if (equalDigests(digest, candidate)) found = name
      return found
    })
  return match
})
