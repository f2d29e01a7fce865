/** The common part of the runners of golden cases: how cases are read, compared and judged. */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Schema } from "effect"
import { kinds } from "./errorKinds.ts"

/** A JSON object of a case. */
export interface Json {
  readonly [key: string]: Schema.Json
}

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const list = (value: Schema.Json | undefined): ReadonlyArray<Schema.Json> => (Array.isArray(value) ? value : [])

export const objects = (value: Schema.Json | undefined): ReadonlyArray<Json> => list(value).filter(isObject)

/** The value as JSON: what remains when it is written and read again. */
export const toJson = (value: unknown): Schema.Json => JSON.parse(JSON.stringify(value) ?? "null")

/** Compares as JSON: deep, whatever the order of keys, `-0` is `0`. */
export const equal = (actual: unknown, expected: unknown, what = "value"): void =>
  assert.deepStrictEqual(toJson(actual), toJson(expected), what)

/** A part of a case by its Schema. A key that the Schema does not know is an error that names it. */
export const read =
  <A, I>(schema: Schema.Codec<A, I>) =>
  (part: unknown): Effect.Effect<A, Schema.SchemaError> =>
    Schema.decodeUnknownEffect(schema)(part, { onExcessProperty: "error" })

export const JsonObject = Schema.Record(Schema.String, Schema.Json)

export const optional = Schema.optionalKey

/** An expected error: our name for its kind, and what its message has to mention. */
export const ExpectedError = Schema.Struct({
  kind: Schema.String,
  mentions: Schema.optionalKey(Schema.Array(Schema.Union([Schema.String, Schema.Number, Schema.Null])))
})

/** Checks that an error of the library is the expected one. */
export const matchError = (error: unknown, expected: typeof ExpectedError.Type): void => {
  const message = error instanceof Error ? error.message : String(error)
  assert.include(kinds(error), expected.kind, `the kinds of: ${message}`)
  mentions(message, expected.mentions)
}

/** Each piece is in the message, as it is or as JSON writes it. */
export const mentions = (message: string, pieces: ReadonlyArray<string | number | null> = []): void => {
  for (const piece of pieces.map(String)) {
    const isThere = message.includes(piece) || message.includes(JSON.stringify(piece).slice(1, -1))
    assert(isThere, `${JSON.stringify(piece)} is not in: ${message}`)
  }
}

/** An effect that fails with the expected error, or succeeds with a value to check where none is expected. */
export const checkExit = <A>(
  effect: Effect.Effect<A, unknown>,
  expected: typeof ExpectedError.Type | undefined,
  check: (value: A) => void
): Effect.Effect<void, unknown> =>
  Effect.matchEffect(effect, {
    onFailure: (error) =>
      expected === undefined ? Effect.fail(error) : Effect.sync(() => matchError(error, expected)),
    onSuccess: (value) =>
      Effect.sync(() => {
        if (expected !== undefined) assert.fail(`expected the error ${JSON.stringify(expected)}, found a value`)
        check(value)
      })
  })

/** One case of a golden file. The keys besides these are for people: `title`, `note`, `reason`, `recorded`. */
export const Case = Schema.Struct({
  id: Schema.String,
  title: Schema.String,
  given: JsonObject,
  expect: JsonObject,
  /** The adapter of a riffer case. */
  group: Schema.optionalKey(Schema.String),
  era: Schema.optionalKey(Schema.Literals(["older", "documented", "newest"])),
  /** The behaviour of a strict library in place of a poor recording. */
  deviation: Schema.optionalKey(Schema.Struct({ expect: JsonObject, reason: Schema.String })),
  /** True if a conversation case records a history that a provider accepts; `strict` allows other ways if not. */
  lawful: Schema.optionalKey(Schema.Boolean),
  strict: Schema.optionalKey(
    Schema.Struct({ refuse: Schema.optionalKey(Schema.Array(Schema.String)), repair: Schema.optionalKey(JsonObject) })
  ),
  note: Schema.optionalKey(Schema.Json),
  recorded: Schema.optionalKey(Schema.Json)
})
export type Case = typeof Case.Type

/** A reviewed judgement about cases of one kind. */
interface Review {
  readonly reason: string
  /** The cases of our own file that it is about, each of them reviewed. An unseen case is judged by the same rule. */
  readonly cases?: string
}

/** An operation or a value of the vocabulary that the library does not have. */
export interface Omission extends Review {
  readonly covers: (golden: Case) => boolean
}

/** A difference on purpose: what cases of its kind expect instead of what was recorded, nothing for other cases. */
export interface Deviation extends Review {
  readonly expect: (golden: Case) => Json | undefined
}

export interface Runner {
  /** Names `<name>-cases.json`; `EMISSARY_GOLDEN_<NAME>` names another file to read instead. */
  readonly name: "conversation" | "plan" | "riffer"
  /** Runs a case against the library, and fails or dies with an assertion error if it is not met. */
  readonly check: (golden: Case) => Effect.Effect<void, unknown>
  readonly omissions: ReadonlyArray<Omission>
  readonly deviations: ReadonlyArray<Deviation>
  /** Cases that count as not applicable if neither the recording nor a deviation is met. */
  readonly inapplicable?: ReadonlyArray<Omission>
  /** More files of cases: not recorded, but derived from a specification. */
  readonly more?: ReadonlyArray<string>
  /** Puts a case that is described in prose into the vocabulary. */
  readonly inVocabulary?: (golden: Case) => Case
}

/** A way to meet a case, and the judgements that have it met this way. */
interface Way {
  readonly expect: Json
  readonly by: ReadonlyArray<Review>
}

/** As recorded, by one deviation, or by all that are about the case together, each changing what the last one left. */
const ways = ({ deviations }: Runner, golden: Case): ReadonlyArray<Way> => {
  const single = deviations.flatMap((one): ReadonlyArray<Way> => {
    const expect = one.expect(golden)
    return expect === undefined ? [] : [{ expect, by: [one] }]
  })
  const together = deviations.reduce<Way>(
    (way, one) => {
      const expect = one.expect({ ...golden, expect: way.expect })
      return expect === undefined ? way : { expect, by: [...way.by, one] }
    },
    { expect: golden.expect, by: [] }
  )
  return [{ expect: golden.expect, by: [] }, ...single, ...(together.by.length > 1 ? [together] : [])]
}

interface Outcome {
  readonly word: string
  readonly by: ReadonlyArray<Review>
}

const judge = Effect.fnUntraced(function* (runner: Runner, golden: Case): Effect.fn.Return<Outcome> {
  const omission = runner.omissions.find(({ covers }) => covers(golden))
  if (omission !== undefined) return { word: "left out", by: [omission] }
  const problems: Array<string> = []
  for (const { by, expect } of ways(runner, golden)) {
    const exit = yield* Effect.exit(Effect.suspend(() => runner.check({ ...golden, expect })))
    if (Exit.isSuccess(exit)) return { word: by.length === 0 ? "met" : "deviates", by }
    problems.push(`${by.map(({ reason }) => reason).join("; ") || "as recorded"}: ${Cause.pretty(exit.cause)}`)
  }
  const other = runner.inapplicable?.find(({ covers }) => covers(golden))
  if (other !== undefined) return { word: "not applicable", by: [other] }
  return assert.fail(`${golden.title}\n${problems.join("\n")}`)
})

const casesOf = (runner: Runner, file: string): ReadonlyArray<Case> =>
  Schema.decodeUnknownSync(Schema.Array(Case), { onExcessProperty: "error" })(
    JSON.parse(readFileSync(file, "utf8"))
  ).map(runner.inVocabulary ?? ((golden) => golden))

/** An unknown key of `given` or `expect` is an error that names it. */
const itIsStrict = (runner: Runner, cases: ReadonlyArray<Case>): void => {
  it.live("an unknown key in a case is an error that names it", () =>
    Effect.gen(function* () {
      for (const golden of cases.filter((one) => runner.omissions.every(({ covers }) => !covers(one)))) {
        const { expect, given } = golden
        for (const strange of [
          { ...golden, given: { ...given, strange: 1 } },
          { ...golden, expect: { ...expect, strange: 1 } }
        ]) {
          const exit = yield* Effect.exit(Effect.suspend(() => judge({ ...runner, deviations: [], inapplicable: [] }, strange)))
          assert(Exit.isFailure(exit), `${golden.id} is met with an unknown key`)
          if (strange.expect === expect) assert.include(Cause.pretty(exit.cause), "strange", golden.id)
        }
      }
    })
  )
}

const itJudges = (runner: Runner, cases: ReadonlyArray<Case>, judged: Map<Review, Array<string>>): void => {
  for (const golden of cases) {
    const { group, id, title } = golden
    it.live(`${id} ${group === undefined ? title : `${group}: ${title}`}`, ({ annotate }) =>
      Effect.gen(function* () {
        const { by, word } = yield* judge(runner, golden)
        for (const review of by) judged.set(review, [...(judged.get(review) ?? []), id])
        const reasons = by.map(({ reason }) => reason).join("; ")
        if (word !== "met") yield* Effect.promise(() => annotate(`${word}: ${reasons}`))
      })
    )
  }
}

const itIsReviewed = (runner: Runner, judged: ReadonlyMap<Review, ReadonlyArray<string>>): void => {
  it("each judgement is about the cases it names", ({ skip }) => {
    // Another file, or only some of the tests.
    if (judged.size === 0) return skip()
    for (const review of [...runner.omissions, ...runner.deviations, ...(runner.inapplicable ?? [])]) {
      if (review.cases === undefined) continue
      const named = review.cases.split(" ").filter((id) => id !== "")
      assert.deepStrictEqual((judged.get(review) ?? []).toSorted(), named.toSorted(), review.reason)
    }
  })
}

/**
 * One test per case; that unknown keys are errors; and for the recorded cases that each
 * judgement is about those it names and no others.
 */
export const suite = (runner: Runner): void => {
  const ours = [`${runner.name}-cases.json`, ...(runner.more ?? [])]
  const paths = ours.map((name) => fileURLToPath(new URL(`./${name}`, import.meta.url)))
  const other = process.env[`EMISSARY_GOLDEN_${runner.name.toUpperCase()}`]
  const judged = new Map<Review, Array<string>>()
  for (const [index, path] of (other === undefined ? paths : [other]).entries()) {
    const cases = casesOf(runner, path)
    describe(`golden cases of ${other ?? ours[index]}`, () => {
      itJudges(runner, cases, other === undefined && index === 0 ? judged : new Map())
      itIsStrict(runner, cases)
    })
  }
  itIsReviewed(runner, judged)
}
