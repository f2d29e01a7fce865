/**
 * Tool names as every model provider accepts them.
 */
import * as Effect from "effect/Effect"
import * as Digest from "../../payload/Digest.ts"

const longest = 64

const escape = (name: string): string =>
  name
    .replaceAll("/", "__")
    .replaceAll(/[^A-Za-z0-9_-]/gu, (character) => `_x${(character.codePointAt(0) ?? 0).toString(16)}_`)

/** `/` as `__`, other characters by code point, too long a name cut and closed with a digest of the whole. */
export const encode = (name: string): Effect.Effect<string> => {
  const escaped = escape(name)
  if (escaped.length <= longest) return Effect.succeed(escaped)
  // names of contracts are well-formed Unicode, and such a string has a digest
  return Effect.map(Effect.orDie(Digest.sha256(name)), (digest) => {
    const tail = digest.slice(digest.indexOf(":") + 1).slice(0, 12)
    return `${escaped.slice(0, longest - tail.length - 1)}_${tail}`
  })
}
