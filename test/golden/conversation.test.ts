import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Option, Result, type Schema } from "effect"
import { AnthropicMessages, Conversation, OpenAiMessages } from "effect-emissary"
import { unlawful } from "./conversation-unlawful.ts"
import { kinds } from "./errorKinds.ts"
import { equal, type Json } from "./golden.ts"
import { equalMessages, fromGolden, lastAssistant, normal, pick, toGolden } from "./history.ts"

const file =
  process.env["EMISSARY_GOLDEN_CONVERSATION"] ?? fileURLToPath(new URL("./conversation-cases.json", import.meta.url))

interface Golden {
  readonly id: string
  readonly title: string
  readonly given: {
    readonly system_prompt?: string
    readonly token_limit?: number
    readonly ops: ReadonlyArray<readonly [string, ...Array<Schema.Json>]>
  }
  readonly expect: Json & { readonly error?: { readonly op: number; readonly kind: string } }
  readonly lawful: boolean
  readonly strict?: { readonly refuse?: ReadonlyArray<string>; readonly repair?: Json }
}

const cases: ReadonlyArray<Golden> = JSON.parse(readFileSync(file, "utf8"))

/** What became of a case: the conversation, what the operations returned, and the refusal if there was one. */
interface Outcome {
  readonly self: Conversation.Conversation
  readonly returns: ReadonlyArray<unknown>
  readonly refused?: { readonly op: number; readonly error: unknown }
}

const isJson = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

const apply = (self: Conversation.Conversation, [op, ...args]: Golden["given"]["ops"][number]) =>
  Effect.gen(function* () {
    switch (op) {
      case "add": {
        const [role = null, content = null, metadata] = args
        const message = yield* fromGolden(self, { ...(isJson(metadata) ? metadata : {}), role, content })
        const next = yield* Effect.fromResult(Conversation.append(self, message))
        return { self: next, returned: toGolden(message) }
      }
      case "truncate": {
        const options = isJson(args[0]) ? args[0] : {}
        const { keep_recent: keepRecent, keep_system_prompt: keepSystemPrompt } = options
        const { conversation, removed } = yield* Effect.fromResult(
          Conversation.truncate(self, {
            ...(typeof keepRecent === "number" ? { keepRecent } : undefined),
            ...(typeof keepSystemPrompt === "boolean" ? { keepSystemPrompt } : undefined)
          })
        )
        return { self: conversation, returned: removed.length }
      }
      case "clear":
        return { self: Conversation.clear(self), returned: null }
      default:
        return yield* Effect.die(`the vocabulary has no operation "${op}"`)
    }
  })

const run = Effect.fnUntraced(function* ({ given }: Golden) {
  let self = yield* Conversation.make({ system: given.system_prompt, tokenLimit: given.token_limit })
  const returns: Array<unknown> = []
  for (const [op, operation] of given.ops.entries()) {
    const exit = yield* Effect.exit(apply(self, operation))
    if (Exit.isFailure(exit)) {
      const error = Cause.findErrorOption(exit.cause)
      if (Option.isNone(error)) return yield* Effect.die(Cause.squash(exit.cause))
      return { self, returns, refused: { op, error: error.value } } satisfies Outcome
    }
    self = exit.value.self
    returns.push(exit.value.returned)
  }
  return { self, returns } satisfies Outcome
})

const list = (value: Schema.Json | undefined): ReadonlyArray<Schema.Json> => (Array.isArray(value) ? value : [])

/** One key of `expect`. */
const check = ({ returns, self }: Outcome, key: string, expected: Schema.Json | undefined): void => {
  switch (key) {
    case "message_count":
      return equal(Conversation.messageCount(self), expected)
    case "messages":
      return equalMessages(self, list(expected))
    case "last_assistant":
      return equal(pick(lastAssistant(self), expected), normal(expected))
    case "token_count":
      return equal(Conversation.tokenCount(self), expected)
    case "token_remaining":
      return equal(Option.getOrNull(Conversation.tokenRemaining(self)), expected)
    case "approaching_limit":
      for (const one of list(expected)) {
        const { threshold, value } = isJson(one) ? one : {}
        const actual =
          typeof threshold === "number"
            ? Conversation.approachingLimit(self, threshold)
            : Conversation.approachingLimit(self)
        equal(actual, value, `threshold ${threshold ?? "default"}`)
      }
      return
    case "returns":
      for (const one of list(expected)) {
        const [op, value] = list(one)
        const actual = returns[Number(op)]
        equal(isJson(actual) ? pick(actual, value) : actual, normal(value), `operation ${op}`)
      }
      return
    default:
      return assert.fail(`the vocabulary has no expectation "${key}"`)
  }
}

const renderers: { readonly [key: string]: (self: Conversation.Conversation) => Result.Result<unknown, Error> } = {
  openai: OpenAiMessages.toOpenAiMessages,
  anthropic: AnthropicMessages.toAnthropicMessages
}

const rendererOf = (key: string) => (Object.hasOwn(renderers, key) ? renderers[key] : undefined)

/** What a renderer refused, of the formats that the case asks for. */
const refusedToRender = ({ self }: Outcome, expect: Golden["expect"]): ReadonlyArray<Error> =>
  Object.keys(expect).flatMap((key) => {
    const rendered = rendererOf(key)?.(self)
    return rendered !== undefined && Result.isFailure(rendered) ? [rendered.failure] : []
  })

/** The case as recorded, or with the keys of `strict.repair` in place of its own. */
const meets = (outcome: Outcome, expect: Golden["expect"]): void => {
  const { refused } = outcome
  if (expect.error === undefined && refused !== undefined) {
    assert.fail(`operation ${refused.op} was refused: ${String(refused.error)}`)
  }
  if (expect.error !== undefined) {
    assert.strictEqual(refused?.op, expect.error.op)
    assert.include(kinds(refused?.error), expect.error.kind)
  }
  for (const [key, expected] of Object.entries(expect)) {
    const render = rendererOf(key)
    if (render !== undefined) {
      const rendered = render(outcome.self)
      if (Result.isFailure(rendered)) assert.fail(`${key} was refused: ${rendered.failure.message}`)
      equal(rendered.success, expected, key)
    } else if (key !== "error") check(outcome, key, expected)
  }
}

/** `expect` without the formats. */
const withoutFormats = (expect: Golden["expect"]): Golden["expect"] =>
  Object.fromEntries(Object.entries(expect).filter(([key]) => rendererOf(key) === undefined))

/** The kinds of the refusal that `strict` allows, if there was one. */
const refusal = (outcome: Outcome, { expect, strict }: Golden): ReadonlyArray<string> => {
  const allowed = (errors: ReadonlyArray<unknown>) =>
    errors.flatMap(kinds).filter((kind) => strict?.refuse?.includes(kind) === true)
  if (outcome.refused !== undefined) return allowed([outcome.refused.error])
  const found = allowed(refusedToRender(outcome, expect))
  if (found.length > 0) meets(outcome, withoutFormats(expect))
  return found
}

/** An unlawful case passes as it was recorded, refused, or repaired; and as it was reviewed, if it was. */
const meetsUnlawful = (outcome: Outcome, golden: Golden): string => {
  const reviewed = Object.hasOwn(unlawful, golden.id) ? unlawful[golden.id] : undefined
  const found = refusal(outcome, golden)
  if (found.length > 0) {
    if (reviewed !== undefined) assert.isTrue("refused" in reviewed && found.includes(reviewed.refused), `${found}`)
    return `refused: ${found.join(", ")}`
  }
  const { expect, strict } = golden
  const asRecorded = Result.try({ try: () => meets(outcome, expect), catch: (error) => error })
  if (Result.isSuccess(asRecorded)) {
    assert.isUndefined(reviewed, "reviewed as refused or repaired, but is as it was recorded")
    return "as recorded"
  }
  if (strict?.repair === undefined) throw asRecorded.failure
  meets(outcome, { ...expect, ...strict.repair })
  if (reviewed !== undefined) assert.isTrue("repaired" in reviewed, "reviewed as refused, but is repaired")
  return "repaired"
}

describe(`golden cases of ${file}`, () => {
  for (const golden of cases) {
    it.effect(`${golden.id} ${golden.title}`, ({ annotate }) =>
      Effect.gen(function* () {
        const outcome = yield* run(golden)
        if (golden.lawful) return meets(outcome, golden.expect)
        const way = meetsUnlawful(outcome, golden)
        yield* Effect.promise(() => annotate(way))
      })
    )
  }

  it.skipIf(process.env["EMISSARY_GOLDEN_CONVERSATION"] !== undefined)("CONV-4 every unlawful case was reviewed", () => {
    const ids = cases.filter(({ lawful }) => !lawful).map(({ id }) => id)
    assert.deepStrictEqual(Object.keys(unlawful).toSorted(), ids.toSorted())
  })
})
