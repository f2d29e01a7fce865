import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"

const letters = "0123456789abcdefghijklmnopqrstuvwxyz"

/** 16 letters and digits, 82 bits. */
export const nonce: Effect.Effect<string> = Effect.gen(function* () {
  let text = ""
  for (let i = 0; i < 16; i++) text += letters.charAt(yield* Random.nextIntBetween(0, letters.length - 1))
  return text
})

/** Makes the version that follows another one. */
type Versions = (previous: Option.Option<string>) => string

/**
 * Versions of one writer: the number of the revision, for people, and what no other
 * writer has and this one has once. So a value that was deleted and made again never
 * has an old version.
 */
export const make = (writer: string): Versions => {
  let count = 0
  return (previous) => {
    const revision = Option.match(previous, { onNone: () => 0, onSome: (version) => Number.parseInt(version, 10) || 0 })
    count += 1
    return `${revision + 1}-${writer}-${count.toString(36)}`
  }
}
