/**
 * Counters of the tokens of a text.
 *
 * Conversations are measured with a counter where no provider reported their size:
 * before the first answer, and after something was removed. The default needs no
 * vocabulary and was within 12 % of one of OpenAI's on every kind of text it was
 * measured on; {@link fromEncoder} counts with a real tokenizer.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import * as history from "./internal/history.ts"

/**
 * Counts the tokens of a text.
 *
 * **Details**
 *
 * `count` is pure. Its result for a message is cached as long as counter and message
 * live, so make a counter once and keep it.
 *
 * The tokens of a conversation besides its text do not depend on the counter:
 *
 * | what | tokens |
 * |---|---|
 * | a message | 4 |
 * | a tool call | 8, its name and its arguments |
 * | an image | 1,600, an assumption: providers count pixels, each in its own way |
 * | a text file in base64 | one for 4 bytes |
 * | another file in base64 | 2,500 for each 50,000 bytes begun |
 * | another file behind a URL | 2,500 |
 *
 * Provider options (signatures, encrypted reasoning) and ids are not counted.
 *
 * @category models
 * @since 0.1.0
 */
export interface TokenCounter {
  readonly count: (text: string) => number
}

const countHeuristic = (text: string): number => {
  let total = 0
  let index = 0

  const word = (): void => {
    total += 0.767
    let length = 0
    let before: CharacterKind | undefined
    for (let kind = kindAt(text, index); isLetter(kind); kind = kindAt(text, ++index)) {
      if (kind === "upper" && before !== undefined && before !== "upper") {
        total += pieceOf(length) + (length < 3 ? noise : camelCase)
        length = 0
      }
      if (kind === "accented") total += 0.473
      length += 1
      before = kind
    }
    total += pieceOf(length)
  }

  const run = (kind: CharacterKind): number => {
    const start = index
    while (kindAt(text, index) === kind) index += 1
    return index - start
  }

  const spaces = (): void => {
    const length = run("space")
    const next = kindAt(text, index)
    // One space is part of the word behind it
    if (length > 1) total += 1.24
    else if (next === "digit" || next === "break") total += 1.5
  }

  const script = (): void => {
    const found = scriptOf(text.charCodeAt(index))
    const start = index
    do index += 1
    while (kindAt(text, index) === "script" && scriptOf(text.charCodeAt(index)) === found)
    if (found !== undefined) total += (found.run ?? 0) + found.unit * (index - start)
  }

  for (let kind = kindAt(text, index); kind !== undefined; kind = kindAt(text, index)) {
    switch (kind) {
      case "digit":
        total += 1.25 * Math.ceil(run(kind) / 3)
        break
      case "space":
        spaces()
        break
      case "break":
        run(kind)
        total += 0.54
        break
      case "punctuation":
        total += 0.774 + 0.1 * (run(kind) - 1)
        break
      case "script":
        script()
        break
      default:
        word()
    }
  }
  return Math.ceil(total)
}

/**
 * Counts by the shape of the text: words and where they break, digits, punctuation,
 * scripts. Linear in the text, whatever its content.
 *
 * **Details**
 *
 * The error against o200k_base (OpenAI's newer models), measured on the texts in `test/conversation/corpus`, which
 * played no part in fitting it:
 *
 * | text | tokens | error |
 * |---|---|---|
 * | English letter | 205 | -9 % |
 * | German, French, Spanish, Polish | 341 | -9 % |
 * | chat with emoji | 163 | -4 % |
 * | code in four languages | 406 | +2 % |
 * | JSON with ids, numbers, a hash | 494 | +1 % |
 * | logs, a diff, test output | 378 | +2 % |
 * | Russian, Ukrainian, Greek | 300 | -1 % |
 * | Chinese, Japanese, Korean | 422 | +9 % |
 * | Arabic, Persian, Hebrew | 257 | -4 % |
 * | Hindi, Bengali, Thai | 311 | +12 % |
 * | all together | 3,277 | +1 % |
 *
 * **Gotchas**
 *
 * Other models have other vocabularies, and how far their counts are from these was not
 * measured. Leave room in a limit, or rely on reports of the provider, which
 * `Conversation.estimatedSize` does where there are any.
 *
 * **Example** (A quick count)
 *
 * ```ts
 * import { TokenCounter } from "effect-emissary"
 * import assert from "node:assert"
 *
 * assert.strictEqual(TokenCounter.heuristic.count("Where is my order?"), 5)
 * ```
 *
 * @category counters
 * @since 0.1.0
 */
export const heuristic: TokenCounter = { count: countHeuristic }

/**
 * Counts with a byte pair encoder.
 *
 * **When to use**
 *
 * Use it where the error of {@link heuristic} matters. `gpt-tokenizer` 4 is an optional peer dependency:
 * install it, import the encoding of your model and pass its `encode` or
 * `countTokens`. Nothing here imports it.
 *
 * **Details**
 *
 * Long text is encoded in pieces of at most 2,048 characters, cut at white space,
 * because the cost of these encoders grows with the square of a run without one (a
 * tool may answer with 200,000 equal letters). A piece may count one token more.
 *
 * `disallowedSpecial` is the option of `gpt-tokenizer` that makes it take
 * `<|endoftext|>` and the like for plain text instead of throwing. An encoder with
 * other parameters is wrapped: `fromEncoder((text) => tiktoken.encode(text, [], []))`.
 *
 * **Example** (Counting as OpenAI does)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, TokenCounter } from "effect-emissary"
 * import { encode } from "gpt-tokenizer/encoding/o200k_base"
 * import assert from "node:assert"
 *
 * const counter = TokenCounter.fromEncoder(encode)
 * assert.strictEqual(counter.count("Where is my order?"), 5)
 *
 * const size = Conversation.empty.pipe(
 *   Conversation.addUser("Where is my order?"),
 *   Effect.flatMap(Conversation.estimatedSize),
 *   Effect.provide(TokenCounter.layer(counter))
 * )
 * assert.strictEqual(Effect.runSync(size), 9)
 * ```
 *
 * @category counters
 * @since 0.1.0
 */
export const fromEncoder = (
  encode: (text: string, options: { readonly disallowedSpecial: Set<string> }) => number | { readonly length: number }
): TokenCounter => {
  const options = { disallowedSpecial: new Set<string>() }
  return {
    count: (text) => {
      let tokens = 0
      for (const chunk of splitText(text)) {
        const encoded = encode(chunk, options)
        tokens += typeof encoded === "number" ? encoded : encoded.length
      }
      return tokens
    }
  }
}

/**
 * The counter in use; default {@link heuristic}.
 *
 * @category services
 * @since 0.1.0
 */
export const TokenCounter: Context.Reference<TokenCounter> = Context.Reference<TokenCounter>(
  "effect-emissary/conversation/TokenCounter",
  { defaultValue: () => heuristic }
)

/**
 * Uses a counter.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (counter: TokenCounter): Layer.Layer<never> => Layer.succeed(TokenCounter, counter)

const chunkSize = 2048

const lookBack = 256

/**
 * Cuts long text at white space, and where there is none within reach, anywhere but
 * inside a character: the cost of an encoder grows with the square of a run.
 */
const splitText = (text: string): ReadonlyArray<string> => {
  if (text.length <= chunkSize) return [text]
  const pieces: Array<string> = []
  let start = 0
  while (text.length - start > chunkSize) {
    const end = cutBefore(text, start + chunkSize)
    pieces.push(text.slice(start, end))
    start = end
  }
  pieces.push(text.slice(start))
  return pieces
}

const cutBefore = (text: string, end: number): number => {
  for (let index = end; index > end - lookBack; index--) {
    if (isSpace(text.charCodeAt(index)) && !isSpace(text.charCodeAt(index - 1))) return index
  }
  return history.characterBoundary(text, end)
}

const isSpace = (code: number): boolean => code === 32 || (code >= 9 && code <= 13)

/**
 * Counts tokens without a vocabulary: one pass over the text and a price for each
 * kind of run. Byte pair encoders cut text at the same places first, so all that has
 * to be guessed is into how many pieces a run breaks. The prices are a least-squares
 * fit to o200k_base over other texts than those the tests measure the error on.
 */
type CharacterKind = "lower" | "upper" | "accented" | "digit" | "space" | "break" | "punctuation" | "script"

const asciiKinds: ReadonlyArray<CharacterKind> = Array.from({ length: 128 }, (_, code): CharacterKind => {
  if (code >= 97 && code <= 122) return "lower"
  if (code >= 65 && code <= 90) return "upper"
  if (code >= 48 && code <= 57) return "digit"
  if (code === 32) return "space"
  return code === 9 || code === 10 || code === 13 ? "break" : "punctuation"
})

const isAccented = (code: number): boolean =>
  (code >= 0xc0 && code < 0x250) || (code >= 0x300 && code < 0x370) || (code >= 0x1e00 && code < 0x1f00)

const kindAt = (text: string, index: number): CharacterKind | undefined => {
  if (index >= text.length) return undefined
  const code = text.charCodeAt(index)
  return asciiKinds[code] ?? (isAccented(code) ? "accented" : "script")
}

/** The price of a run of a script, and of each UTF-16 unit of it. */
interface Script {
  readonly to: number
  readonly unit: number
  readonly run?: number
}

/** In order; each begins at the end of the one before it. */
const scripts: ReadonlyArray<Script> = [
  // typographic signs of Latin text: mostly part of the token beside them
  { to: 0xc0, unit: 0.05 },
  { to: 0x370, unit: 0.5 },
  // Greek, Cyrillic, Hebrew, Arabic
  { to: 0x400, unit: 0.4 },
  { to: 0x530, unit: 0.105, run: 1.27 },
  { to: 0x590, unit: 0.5 },
  { to: 0x600, unit: 0.41 },
  { to: 0x780, unit: 0.39 },
  { to: 0x900, unit: 0.5 },
  // the scripts of India, then Thai, Lao, Burmese
  { to: 0xe00, unit: 0.41 },
  { to: 0x1100, unit: 0.48, run: 2.2 },
  { to: 0x1200, unit: 0.76 },
  { to: 0x1780, unit: 0.5 },
  // Khmer
  { to: 0x1800, unit: 0.48, run: 2.2 },
  { to: 0x2000, unit: 0.5 },
  { to: 0x2070, unit: 0.05 },
  { to: 0x3000, unit: 1 },
  { to: 0x3040, unit: 0.05 },
  // kana, Chinese characters, Hangul
  { to: 0x3100, unit: 0.83 },
  { to: 0x3400, unit: 0.5 },
  { to: 0xa000, unit: 0.88 },
  { to: 0xac00, unit: 0.5 },
  { to: 0xd7b0, unit: 0.76 },
  // both halves of emoji and of rare characters
  { to: 0xe000, unit: 1.3 },
  { to: 0xff00, unit: 0.5 },
  { to: 0x10000, unit: 0.05 }
]

const scriptOf = (code: number): Script | undefined => scripts.find((script) => code < script.to)

const isLetter = (kind: CharacterKind | undefined): boolean =>
  kind === "lower" || kind === "upper" || kind === "accented"

/** A piece of a word without a hump: long ones break. */
const pieceOf = (length: number): number =>
  0.168 * Math.max(0, Math.min(length, 8) - 4) + 0.437 * Math.max(0, length - 8)

const camelCase = 0.5

/** Capitals in the middle of one or two letters: no word, but a key or a hash. */
const noise = 3.6
