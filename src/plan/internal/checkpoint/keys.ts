/**
 * Where checkpoints keep things. Everything is under the namespace, and no key of a
 * run, of a write or of another namespace is ever the same text as another one: what
 * may hold anything stands last, or with its length before it.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"

export interface Keys {
  readonly heads: string
  readonly head: (key: string) => string
  /** Everything of one run but its head. */
  readonly journal: (key: string) => string
  readonly begun: (key: string, generation: string) => string
  readonly batch: (key: string, generation: string, epoch: number, owner: string, batch: number) => string
  /** The writes of a fork. */
  readonly forked: (fork: string) => string
  /** `fork` is the key of the fork that has the write for itself. */
  readonly write: (write: string, fork: string | undefined) => string
}

const escape = (namespace: string): string => namespace.replaceAll("%", "%25").replaceAll("/", "%2F")

const measured = (text: string): string => `${text.length}:${text}`

export const make = (namespace: string): Keys => {
  const root = escape(namespace)
  const journal = (key: string) => `${root}/journal/${measured(key)}/`
  const forked = (fork: string) => `${root}/forks/${measured(fork)}/`
  return {
    heads: `${root}/head/`,
    head: (key) => `${root}/head/${key}`,
    journal,
    begun: (key, generation) => `${journal(key)}${generation}/input`,
    batch: (key, generation, epoch, owner, batch) => `${journal(key)}${generation}/${epoch}-${owner}/${batch}`,
    forked,
    write: (write, fork) => (fork === undefined ? `${root}/writes/${write}` : `${forked(fork)}${write}`)
  }
}

const letters = "0123456789abcdefghijklmnopqrstuvwxyz"

/** 16 letters and digits, 82 bits. */
export const nonce: Effect.Effect<string> = Effect.gen(function* () {
  let text = ""
  for (let i = 0; i < 16; i++) text += letters.charAt(yield* Random.nextIntBetween(0, letters.length - 1))
  return text
})
