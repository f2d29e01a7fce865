/**
 * How many tokens a text is.
 *
 * Conversations are measured with a counter where nobody reported what they are:
 * before the first answer, and after something was removed. The default needs no
 * vocabulary and was within 12 % of one of OpenAI's on every kind of text it was
 * measured on; {@link fromEncoder} counts with a real tokenizer.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import { chunks } from "./internal/budget/chunks.ts"
import * as internal from "./internal/budget/heuristic.ts"

/**
 * Counts the tokens of a text.
 *
 * **Details**
 *
 * `count` is pure. What it said about a message is remembered as long as counter and
 * message live, so make a counter once and keep it.
 *
 * What a conversation weighs beside its text does not depend on the counter:
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

/**
 * Counts by the shape of the text: words and where they break, digits, punctuation,
 * scripts. Linear in the text, whatever stands in it.
 *
 * **Details**
 *
 * The error against o200k_base (OpenAI's newer models), measured on the texts in
 * `test/conversation/corpus`, none of which it was fitted to:
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
 * measured. Leave room in a budget, or rely on reports of the provider, which
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
export const heuristic: TokenCounter = { count: internal.count }

/**
 * What {@link fromEncoder} passes to the encoder besides the text: the option of
 * `gpt-tokenizer` that makes it take `<|endoftext|>` and the like for plain text
 * instead of throwing.
 *
 * @category models
 * @since 0.1.0
 */
export interface EncoderOptions {
  readonly disallowedSpecial: Set<string>
}

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
 * An encoder with other parameters is wrapped, so that text with special tokens
 * counts as text there too: `fromEncoder((text) => tiktoken.encode(text, [], []))`.
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
  encode: (text: string, options: EncoderOptions) => number | { readonly length: number }
): TokenCounter => {
  const options: EncoderOptions = { disallowedSpecial: new Set() }
  return {
    count: (text) => {
      let tokens = 0
      for (const chunk of chunks(text)) {
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
