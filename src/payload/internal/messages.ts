import type { LossyEncoding } from "../LossyEncoding.ts"
import type * as Reasons from "../PayloadError.ts"

/** How many issues a message spells out; the others are in `issues`. */
const shown = 10

/** Keys come from outside and may be long. */
export const short = (text: string, max: number = 120): string => {
  if (text.length <= max) return text
  const head = text.slice(0, max)
  return /[\uD800-\uDBFF]$/.test(head) ? `${head.slice(0, -1)}…` : `${head}…`
}

const quote = (text: string): string => JSON.stringify(short(text))

export const place = (path: string): string => (path === "" ? "at the root" : `at ${short(path, 200)}`)

const units = {
  bytes: ["bytes", "maxBytes"],
  nodes: ["values", "maxNodes"],
  string: ["UTF-16 code units in one string", "maxStringLength"],
  array: ["items in one array", "maxArrayLength"],
  tools: ["tools", "maxTools"],
  messages: ["messages", "maxMessages"]
} as const

export const tooLarge = (reason: Pick<Reasons.TooLarge, "what" | "limit" | "found" | "path">): string => {
  const [unit, option] = units[reason.what]
  return (
    `too large ${place(reason.path)}: expected at most ${reason.limit} ${unit}, found at least ${reason.found}. ` +
    `Send less, or raise ${option} in the limits of this call`
  )
}

export const tooDeep = (reason: Pick<Reasons.TooDeep, "limit" | "path">): string =>
  `nested too deep ${place(reason.path)}: expected at most ${reason.limit} levels of arrays and objects. ` +
  `Send flatter data, or raise maxDepth in the limits of this call`

export const forbiddenKey = (reason: Pick<Reasons.ForbiddenKey, "path" | "key">): string =>
  `the key ${quote(reason.key)} is not allowed ${place(reason.path)}: ` +
  (reason.key === "__proto__"
    ? "it would change an object's prototype in careless code. Remove it"
    : reason.key === "constructor"
      ? `here it may not be a name or hold a "prototype". Rename it`
      : "every object inherits a member of that name. Rename it")

export const unsupportedVersion = (
  reason: Pick<Reasons.UnsupportedVersion, "field" | "found" | "kind" | "supported">
): string => {
  const found =
    reason.kind === "nothing"
      ? "nothing"
      : reason.kind === "string" || reason.kind === "number" || reason.kind === "boolean" || reason.kind === "null"
        ? JSON.stringify(reason.found)
        : reason.kind === "array" || reason.kind === "object"
          ? `an ${reason.kind}`
          : reason.kind
  const supported = reason.supported.join(", ")
  const newest = Math.max(...reason.supported)
  const advice =
    typeof reason.found === "number" && reason.found > newest
      ? "Use a release that knows it, or write an older version"
      : `Write one of ${supported} there, as a number`
  return `unsupported ${reason.field}: expected one of ${supported}, found ${found}. ${advice}`
}

export const invalid = (reason: Pick<Reasons.Invalid, "issues" | "omitted">): string => {
  const lines = reason.issues
    .slice(0, shown)
    .map((issue) => `${place(issue.path)}: expected ${issue.expected}, found ${issue.found}`)
  const rest = reason.issues.length - lines.length + reason.omitted
  return `${lines.join("; ")}${rest > 0 ? `; and ${rest} more` : ""}`
}

export const lossy = (error: Pick<LossyEncoding, "what" | "version" | "losses">): string => {
  const losses = error.losses.slice(0, shown).map((loss) => `${loss.what} (${place(loss.path)})`)
  const rest = error.losses.length - losses.length
  return (
    `${error.what}: version ${error.version} cannot hold ${losses.join("; ")}${rest > 0 ? `; and ${rest} more` : ""}. ` +
    "List what may be lost in allowLoss, or write a newer version"
  )
}

export const secret = (reason: Pick<Reasons.Secret, "path" | "key" | "kind">): string =>
  `${reason.kind === "redacted" ? "a Redacted value" : `the secret key ${quote(reason.key)}`} ${place(reason.path)} ` +
  "may not be written. Refer to the secret by name, and provide it where it is used"
