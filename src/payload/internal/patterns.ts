/**
 * Regular expressions that run in linear time, and the formats of JSON Schema.
 */

import * as Context from "effect/Context"
import * as Result from "effect/Result"
import * as fuel from "./fuel.ts"
import { maxUnits, stepsPerCharacter } from "./linearPattern.ts"

/** A regular expression that runs in time linear in its input. */
export interface CompiledPattern {
  readonly source: string
  /** The units that compiling it takes. */
  readonly weight: number
  /** The units that a test on this many characters takes. */
  readonly cost: (length: number) => number
  readonly test: (text: string) => boolean
}

const maxSourceLength = 2048

const maxProgramSize = 4000

const maxUnicodeProperties = 100

/** The units for a class of Unicode, which V8 and RE2 each build. */
const propertyWeight = 2000

/** The engine of the platform can run out of stack on longer texts. */
const maxTextLength = 4 * 1024 * 1024

/** An engine that runs every pattern without look-around and back references in linear time. */
export interface PatternEngine {
  /** Compiles a pattern in the syntax of RE2. It may throw. */
  readonly compile: (translated: string) => {
    readonly test: (text: string) => boolean
    /** The units for one character. */
    readonly perCharacter: number
  }
}

/** The engine for patterns that the platform may not run in linear time; they are refused without one. */
export const PatternEngine = Context.Reference<PatternEngine | undefined>("effect-emissary/payload/PatternEngine", {
  defaultValue: () => undefined
})

const countProperties = (source: string): number => source.split(/\\[pP]\{/).length - 1

const whiteSpace = "\\t-\\r \\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}"

const notWhiteSpace =
  "\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}" +
  "\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{FEFE}\\x{FF00}-\\x{10FFFF}"

/** The long names that patterns use; RE2 knows the short ones. */
const generalCategories: ReadonlyMap<string, string> = new Map([
  ["Letter", "L"],
  ["Uppercase_Letter", "Lu"],
  ["Lowercase_Letter", "Ll"],
  ["Mark", "M"],
  ["Number", "N"],
  ["Decimal_Number", "Nd"],
  ["digit", "Nd"],
  ["Punctuation", "P"],
  ["punct", "P"],
  ["Symbol", "S"],
  ["Separator", "Z"],
  ["Control", "Cc"]
])

const unicodeProperty = (name: string): string => {
  const value = name.replace(/^(?:General_Category|gc|Script|sc)=/, "")
  return generalCategories.get(value) ?? value
}

const controlEscapes: Readonly<Record<string, string>> = {
  t: "\\t",
  n: "\\n",
  r: "\\r",
  v: "\\x{B}",
  f: "\\x{C}",
  "0": "\\x{0}"
}

const escapeCodePoint = (value: number) => `\\x{${value.toString(16)}}`

type Escape = { readonly text: string; readonly length: number } | { readonly problem: string }

/** Reads one escape sequence of ECMAScript at `at`, which holds the backslash. */
const translateEscape = (source: string, at: number, inClass: boolean): Escape => {
  const letter = source[at + 1]
  if (letter === undefined) return { problem: "it ends with a backslash" }
  const rest = source.slice(at, at + 64)
  const pair = /^\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})/.exec(rest)
  if (pair?.[1] !== undefined && pair[2] !== undefined) {
    const high = Number.parseInt(pair[1], 16) - 0xd800
    return { text: escapeCodePoint(high * 0x400 + Number.parseInt(pair[2], 16) - 0xdc00 + 0x10000), length: 12 }
  }
  const hex = /^\\(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2}))/.exec(rest)
  const digits = hex?.[1] ?? hex?.[2] ?? hex?.[3]
  if (hex !== null && digits !== undefined) {
    return { text: escapeCodePoint(Number.parseInt(digits, 16)), length: hex[0].length }
  }
  const control = /^\\c([A-Za-z])/.exec(rest)
  if (control?.[1] !== undefined) return { text: escapeCodePoint(control[1].charCodeAt(0) % 32), length: 3 }
  const property = /^\\([pP])\{([A-Za-z0-9_=]+)\}/.exec(rest)
  if (property?.[1] !== undefined && property[2] !== undefined) {
    const name = unicodeProperty(property[2])
    if (name === "ASCII") {
      const range = property[1] === "p" ? "\\x{0}-\\x{7F}" : "\\x{80}-\\x{10FFFF}"
      return { text: inClass ? range : `[${range}]`, length: property[0].length }
    }
    return { text: `\\${property[1]}{${name}}`, length: property[0].length }
  }
  if (letter === "s") return { text: inClass ? whiteSpace : `[${whiteSpace}]`, length: 2 }
  if (letter === "S") return { text: inClass ? notWhiteSpace : `[^${whiteSpace}]`, length: 2 }
  if ("dDwW".includes(letter)) return { text: `\\${letter}`, length: 2 }
  if (letter === "b") return { text: inClass ? "\\x{8}" : "\\b", length: 2 }
  if (letter === "B" && !inClass) return { text: "\\B", length: 2 }
  if (letter === "0" && /^\\0[0-9]/.test(rest)) return { problem: "octal escapes are not supported" }
  const named = controlEscapes[letter]
  if (named !== undefined) return { text: named, length: 2 }
  if (/[1-9]/.test(letter) || letter === "k") return { problem: "back references are not supported" }
  if (/[A-Za-z0-9]/.test(letter)) return { problem: `unknown escape \\${letter}` }
  const point = source.codePointAt(at + 1) ?? 0
  return { text: escapeCodePoint(point), length: 1 + String.fromCodePoint(point).length }
}

/** Rewrites an ECMAScript regular expression in the syntax of RE2, meaning the same. */
const translatePattern = (source: string): Result.Result<string, string> => {
  let out = ""
  let inClass = false
  for (let at = 0; at < source.length;) {
    const char = source[at] ?? ""
    if (char === "\\") {
      const piece = translateEscape(source, at, inClass)
      if ("problem" in piece) return Result.fail(piece.problem)
      out += piece.text
      at += piece.length
      continue
    }
    if (inClass) {
      if (char === "]") inClass = false
      out += char === "[" ? "\\[" : char
    } else if (source.startsWith("[^]", at)) {
      out += "[\\x{0}-\\x{10FFFF}]"
      at += 2
    } else if (source.startsWith("[]", at)) {
      out += "[^\\x{0}-\\x{10FFFF}]"
      at += 1
    } else if (char === "[") {
      inClass = true
      out += char
      if (source[at + 1] === "^") {
        out += "^"
        at++
      }
    } else if (source.startsWith("(?", at) && !/^\(\?(?::|<[A-Za-z_$])/.test(source.slice(at, at + 4))) {
      return Result.fail(`${source.slice(at, at + 3)} groups are not supported`)
    } else if (char === ".") out += "[^\\n\\r\\x{2028}\\x{2029}]"
    else if (char === "{" && !/^\{\d+(?:,\d*)?\}/.test(source.slice(at, at + 24))) out += "\\{"
    else if (char === "}" && !/\{\d+(?:,\d*)?$/.test(source.slice(Math.max(0, at - 24), at))) out += "\\}"
    else if (char === "]") out += "\\]"
    else out += char
    at++
  }
  return Result.succeed(out)
}

/** One character, escape or class of RE2, or the beginning of a group. Only capturing groups add instructions. */
const atomPattern = /\\[xpP]\{[^}]*\}?|\\.|\[(?:\\.|[^\]\\])*\]?|\((?:\?(?::|P?<[^>]*>?))?|\{\d+(?:,\d*)?\}|[^]/gu

/**
 * A group that is being read: its instructions so far, and the instructions of its last atom, which a repeat
 * multiplies.
 */
interface Group {
  size: number
  last: number
  readonly captures: number
}

const repeatSize = (size: number, repeat: string): number => {
  const [least = "0", most] = repeat.slice(1, -1).split(",")
  const min = Number(least)
  if (most === undefined) return Math.max(1, size * min)
  return most === "" ? size * Math.max(1, min) + 1 : Math.max(1, size * min + (size + 1) * (Number(most) - min))
}

/** At least the instructions that RE2 compiles a pattern of its syntax to, known before it does. */
export const boundProgramSize = (translated: string): number => {
  const groups: Array<Group> = [{ size: 0, last: 0, captures: 0 }]
  for (const [token] of translated.matchAll(atomPattern)) {
    const group = groups[groups.length - 1]
    if (group === undefined) break
    const settle = (last: number) => {
      group.size += group.last
      group.last = last
    }
    if (token.startsWith("(")) groups.push({ size: 0, last: 0, captures: token === "(?:" ? 0 : 2 })
    else if (token === ")") {
      groups.pop()
      const outer = groups[groups.length - 1]
      if (outer === undefined) break
      outer.size += outer.last
      outer.last = Math.max(1, group.size + group.last) + group.captures
    } else if (token === "|") settle(2)
    else if (token === "+" || token === "?") group.last += 1
    else if (token === "*") group.last += 2
    else if (token.length > 1 && token.startsWith("{")) group.last = repeatSize(group.last, token)
    else settle(1)
  }
  return 3 + groups.reduce((sum, { captures, last, size }) => sum + size + last + captures, 0)
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

/**
 * Compiles a `pattern` of JSON Schema: it must be a valid regular expression of
 * ECMAScript that the platform runs in linear time, or that `engine` can run. It is searched for, not anchored.
 * Its size is known, and taken from the fuel, before it is compiled.
 */
export const compilePattern = (
  source: string,
  tank: fuel.Fuel,
  engine: PatternEngine | undefined
): Result.Result<CompiledPattern, string> => {
  const properties = countProperties(source)
  if (properties > maxUnicodeProperties) return Result.fail(`it has more than ${maxUnicodeProperties} \\p escapes`)
  if (source.length > maxSourceLength) return Result.fail(`it is longer than ${maxSourceLength} characters`)
  const size = 300 + 4 * source.length + propertyWeight * properties
  if (!fuel.spend(tank, size)) return Result.fail("there is no fuel left")
  const withFlag = Result.try({ try: () => new RegExp(source, "u"), catch: messageOf })
  const valid = Result.orElse(withFlag, () => Result.try({ try: () => new RegExp(source), catch: messageOf }))
  const translated = Result.flatMap(valid, () => translatePattern(source))
  if (Result.isFailure(translated)) return Result.fail(translated.failure)
  const search = fuel.make(maxUnits)
  const steps = Result.isSuccess(withFlag) ? stepsPerCharacter(source, search) : undefined
  const weight = size + search.spent
  if (!fuel.spend(tank, search.spent)) return Result.fail("there is no fuel left")
  if (Result.isFailure(withFlag) || steps === undefined)
    return compileElsewhere(source, translated.success, weight, tank, engine)
  return Result.succeed({
    source,
    weight,
    cost: (length) => (length > maxTextLength ? Number.POSITIVE_INFINITY : 8 + (length * steps) / 50),
    test: (text) => withFlag.success.test(text)
  })
}

const compileElsewhere = (
  source: string,
  translated: string,
  sourceWeight: number,
  tank: fuel.Fuel,
  engine: PatternEngine | undefined
): Result.Result<CompiledPattern, string> => {
  const bound = boundProgramSize(translated)
  if (bound > maxProgramSize) {
    return Result.fail(`it compiles to ${bound} instructions, the limit is ${maxProgramSize}`)
  }
  if (engine === undefined) {
    return Result.fail(
      'it may take more than linear time on this platform. Provide Re2.layer of "effect-emissary/re2" to run such patterns on RE2'
    )
  }
  if (!fuel.spend(tank, 20 * bound)) return Result.fail("there is no fuel left")
  return Result.map(
    Result.try({ try: () => engine.compile(translated), catch: messageOf }),
    ({ perCharacter, test }) => ({
      source,
      weight: sourceWeight + 20 * bound,
      cost: (length) => 8 + length * perCharacter,
      test
    })
  )
}

/** In place of a pattern that no engine runs, where the text is a key. */
export const everyText: CompiledPattern = { source: "", weight: 0, cost: () => 1, test: () => true }

type FormatCheck = (text: string) => boolean

/** A day that does not exist is read as another one, or not at all. */
const isDate: FormatCheck = (text) => {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false
  const date = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text)
}

const isTime: FormatCheck = (text) => {
  const parts = /^(\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[zZ]|([+-])(\d{2}):(\d{2}))$/.exec(text)
  if (parts === null) return false
  const [hour, minute, second] = [Number(parts[1]), Number(parts[2]), Number(parts[3])]
  const [offsetHour, offsetMinute] = [Number(parts[5] ?? 0), Number(parts[6] ?? 0)]
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59) return false
  if (second < 60) return true
  const offset = (offsetHour * 60 + offsetMinute) * (parts[4] === "-" ? -1 : 1)
  const utc = (hour * 60 + minute - offset + 2 * 1440) % 1440
  return utc === 1439
}

const isDateTime: FormatCheck = (text) =>
  /^[tT]$/.test(text[10] ?? "") && isDate(text.slice(0, 10)) && isTime(text.slice(11))

const isDuration: FormatCheck = (text) =>
  text.length <= 256 &&
  /^P(?:\d+W|(?=[\dT])(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)?(?:T(?=\d)(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?)$/.test(
    text
  )

const hostLabel = /^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$/

/** The encoded form of a label in another script is decoded and checked by the platform's URL parser. */
const isEncodedLabel: FormatCheck = (part) => /^xn--/i.test(part) && URL.canParse(`http://${part}/`)

const isHostname: FormatCheck = (text) =>
  text.length <= 253 &&
  text.split(".").every((part) => hostLabel.test(part) && (part.slice(2, 4) !== "--" || isEncodedLabel(part)))

const isIpv4: FormatCheck = (text) =>
  text.length <= 15 && /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/.test(text)

/** The platform's URL parser reads addresses as RFC 4291 writes them. */
const isIpv6: FormatCheck = (text) =>
  text.length <= 45 && /^[0-9a-fA-F:.]+$/.test(text) && URL.canParse(`http://[${text}]/`)

const isEmail: FormatCheck = (text) => {
  if (text.length > 320) return false
  const at = text.lastIndexOf("@")
  const local = text.slice(0, at)
  const domain = text.slice(at + 1)
  if (at < 1 || local.length > 64) return false
  const quoted = /^"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\[\x20-\x7e])*"$/.test(local)
  if (!quoted && !local.split(".").every((atom) => /^[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+$/.test(atom))) return false
  if (domain.startsWith("[") && domain.endsWith("]")) {
    const address = domain.slice(1, -1)
    return /^ipv6:/i.test(address) ? isIpv6(address.slice(5)) : isIpv4(address)
  }
  return isHostname(domain)
}

const isUuid: FormatCheck = (text) => /^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$/.test(text)

/** Neither a character that is not allowed, nor a percent sign that begins no escape. */
const isEncoded = (text: string, forbidden: RegExp): boolean =>
  !forbidden.test(text) && !/%(?![0-9a-fA-F]{2})/.test(text)

const notUserInfo = /[^A-Za-z0-9._~!$&'()*+,;=:%-]/

const notHost = /[^A-Za-z0-9._~!$&'()*+,;=%-]/

const notPath = /[^A-Za-z0-9._~!$&'()*+,;=:@/%-]/

const notQuery = /[^A-Za-z0-9._~!$&'()*+,;=:@/?%-]/

const isAuthority: FormatCheck = (text) => {
  const at = text.lastIndexOf("@")
  const host = text.slice(at + 1).replace(/:\d*$/, "")
  if (!isEncoded(text.slice(0, Math.max(at, 0)), notUserInfo)) return false
  const literal = /^\[([^\]]*)\]$/.exec(host)?.[1]
  if (literal === undefined) return isEncoded(host, notHost)
  return isIpv6(literal) || /^[vV][0-9a-fA-F]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+$/.test(literal)
}

/** The five parts of RFC 3986, appendix B; every text has them. */
const uriParts = /^(?:([^:/?#]*):)?(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#([^]*))?$/

const isUriReference =
  (absolute: boolean): FormatCheck =>
  (text) => {
    const [, scheme, authority = "", path = "", query = "", fragment = ""] = uriParts.exec(text) ?? []
    if (scheme === undefined ? absolute : !/^[A-Za-z][A-Za-z0-9+.-]*$/.test(scheme)) return false
    return (
      isAuthority(authority) && isEncoded(path, notPath) && isEncoded(query, notQuery) && isEncoded(fragment, notQuery)
    )
  }

const isJsonPointer: FormatCheck = (text) => (text === "" || text.startsWith("/")) && !/~(?![01])/.test(text)

const isRegex: FormatCheck = (text) => Result.isSuccess(Result.try(() => new RegExp(text, "u")))

/** The units that a check of a format takes; V8 builds the classes of a regular expression. */
export const formatCost = (name: string, text: string): number =>
  name === "regex" ? 1 + text.length + propertyWeight * countProperties(text) : 4 + 2 * fuel.ofText(text.length)

/** The formats that are checked; all others are annotations. Every check is linear. */
export const formatChecks: ReadonlyMap<string, FormatCheck> = new Map<string, FormatCheck>([
  ["date-time", isDateTime],
  ["date", isDate],
  ["time", isTime],
  ["duration", isDuration],
  ["email", isEmail],
  ["hostname", isHostname],
  ["ipv4", isIpv4],
  ["ipv6", isIpv6],
  ["uri", isUriReference(true)],
  ["uri-reference", isUriReference(false)],
  ["uuid", isUuid],
  ["json-pointer", isJsonPointer],
  ["regex", isRegex]
])
