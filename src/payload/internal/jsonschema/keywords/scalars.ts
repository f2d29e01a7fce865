import type { Keywords } from "../context.ts"
import { count, invalidKeyword, number, string } from "../context.ts"
import { formatCheck, formats } from "../formats.ts"
import { report, spend } from "../run.ts"
import { codePoints, fingerprint, isArray, isMultipleOf, show, size } from "../values.ts"

const shownMembers = 20

const plural = (n: number, one: string) => (n === 1 ? `${n} ${one}` : `${n} ${one}s`)

/** Keywords about any value, numbers and strings. */
export const scalars: Keywords = [
  [
    "enum",
    (value, context) => {
      if (!isArray(value)) return invalidKeyword(context, "an array", value)
      const members = new Set(value.map(fingerprint))
      const shown = value.slice(0, shownMembers).map((member) => show(member))
      const rest = value.length - shown.length
      const message = `must be one of ${shown.join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`
      return (found, at, run) =>
        (spend(run, size(found)) && members.has(fingerprint(found))) || report(run, at, "enum", message)
    }
  ],
  [
    "const",
    (value) => {
      const print = fingerprint(value)
      const message = `must be ${show(value)}`
      return (found, at, run) =>
        (spend(run, size(found)) && fingerprint(found) === print) || report(run, at, "const", message)
    }
  ],
  [
    "minimum",
    number(
      (limit) => (found, at, run) =>
        typeof found !== "number" || found >= limit || report(run, at, "minimum", `must be at least ${limit}`)
    )
  ],
  [
    "maximum",
    number(
      (limit) => (found, at, run) =>
        typeof found !== "number" || found <= limit || report(run, at, "maximum", `must be at most ${limit}`)
    )
  ],
  [
    "exclusiveMinimum",
    number(
      (limit) => (found, at, run) =>
        typeof found !== "number" ||
        found > limit ||
        report(run, at, "exclusiveMinimum", `must be greater than ${limit}`)
    )
  ],
  [
    "exclusiveMaximum",
    number(
      (limit) => (found, at, run) =>
        typeof found !== "number" || found < limit || report(run, at, "exclusiveMaximum", `must be less than ${limit}`)
    )
  ],
  [
    "multipleOf",
    number((divisor, context) =>
      divisor <= 0
        ? invalidKeyword(context, "a number greater than 0", divisor)
        : (found, at, run) =>
            typeof found !== "number" ||
            isMultipleOf(found, divisor) ||
            report(run, at, "multipleOf", `must be a multiple of ${divisor}`)
    )
  ],
  [
    "minLength",
    count((limit) => (found, at, run) => {
      if (typeof found !== "string" || found.length >= limit * 2) return true
      const length = codePoints(found)
      return (
        length >= limit ||
        report(run, at, "minLength", `must have at least ${plural(limit, "character")}, has ${length}`)
      )
    })
  ],
  [
    "maxLength",
    count((limit) => (found, at, run) => {
      if (typeof found !== "string" || found.length <= limit) return true
      const length = codePoints(found)
      return (
        length <= limit ||
        report(run, at, "maxLength", `must have at most ${plural(limit, "character")}, has ${length}`)
      )
    })
  ],
  [
    "pattern",
    string((source, context) => {
      const pattern = context.pattern(source, "pattern")
      if (pattern === undefined) return undefined
      const message = `must match the pattern ${show(source, 200)}`
      return (found, at, run) =>
        typeof found !== "string" ||
        (spend(run, pattern.cost(found.length)) && pattern.test(found)) ||
        report(run, at, "pattern", message)
    })
  ],
  [
    "format",
    string((name, context) => {
      const check = formatCheck(name)
      if (check === undefined) {
        return context.refuse({ _tag: "UnsupportedFormat", found: name, supported: formats }, "format")
      }
      return (found, at, run) =>
        typeof found !== "string" ||
        (spend(run, 1 + found.length / 256) && check(found)) ||
        report(run, at, "format", `must be a valid ${name}`)
    })
  ]
]
