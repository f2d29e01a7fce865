/** Whether a condition holds. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { LinearPattern } from "../../../payload/LinearPattern.ts"
import type { Path, Subject, When } from "../../When.ts"
import { equals } from "../json.ts"
import { check } from "./check.ts"
import { compare, isEmpty, lookUp } from "./values.ts"

type Patterns = ReadonlyMap<string, LinearPattern>

type Leaf = Exclude<When, { readonly _tag: "And" | "Or" | "Not" | "Custom" }>

const at = (subject: Subject, path: Path): Schema.Json => lookUp(subject.payload, path)

const leaf = (when: Leaf, subject: Subject, patterns: Patterns): boolean => {
  switch (when._tag) {
    case "Equals":
      return equals(at(subject, when.path), when.value)
    case "Empty":
      return isEmpty(at(subject, when.path))
    case "In": {
      const value = at(subject, when.path)
      return when.values.some((other) => equals(value, other))
    }
    case "GreaterThan":
      return compare(at(subject, when.path), when.value) === 1
    case "LessThan":
      return compare(at(subject, when.path), when.value) === -1
    case "Matches": {
      const value = at(subject, when.path)
      return typeof value === "string" && patterns.get(when.pattern)?.test(value) === true
    }
    case "Text":
      return subject.text === when.value
  }
}

export const test = (when: When, subject: Subject, custom: (name: string) => boolean): boolean => {
  const { patterns, problems } = check(when)
  const go = (when: When): boolean => {
    switch (when._tag) {
      case "And":
        return when.all.every(go)
      case "Or":
        return when.any.some(go)
      case "Not":
        return !go(when.when)
      case "Custom":
        return custom(when.name)
      default:
        return leaf(when, subject, patterns)
    }
  }
  return problems.length === 0 && go(when)
}

export const evaluate = <E, R>(
  when: When,
  subject: Subject,
  custom: (name: string) => Effect.Effect<boolean, E, R>
): Effect.Effect<boolean, E, R> =>
  Effect.suspend(() => {
    const { customs, patterns, problems } = check(when)
    if (problems.length > 0) return Effect.succeed(false)
    if (customs.length === 0) return Effect.succeed(test(when, subject, () => false))

    /** Whether one of them gives `stop`; those after it are not asked. */
    const any = (whens: ReadonlyArray<When>, stop: boolean): Effect.Effect<boolean, E, R> =>
      Effect.gen(function* () {
        for (const when of whens) {
          if ((yield* go(when)) === stop) return true
        }
        return false
      })

    const go = (when: When): Effect.Effect<boolean, E, R> => {
      switch (when._tag) {
        case "And":
          return Effect.map(any(when.all, false), (found) => !found)
        case "Or":
          return any(when.any, true)
        case "Not":
          return Effect.map(go(when.when), (holds) => !holds)
        case "Custom":
          return custom(when.name)
        default:
          return Effect.succeed(leaf(when, subject, patterns))
      }
    }
    return go(when)
  })
