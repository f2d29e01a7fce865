import * as Result from "effect/Result"
import { RE2JS } from "re2js"

/** A regular expression that runs in time linear in its input. */
export interface LinearPattern {
  readonly source: string
  /** What compiling it was worth: its length, its instructions, its Unicode classes. */
  readonly weight: number
  /** How many steps a test on this many characters is worth. */
  readonly cost: (length: number) => number
  readonly test: (text: string) => boolean
}

const maxSource = 2048
const maxProgram = 4000
const maxProperties = 100

const whiteSpace = "\\t-\\r \\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}"
const notWhiteSpace =
  "\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}" +
  "\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{FEFE}\\x{FF00}-\\x{10FFFF}"

const generalCategories: Readonly<Record<string, string>> = {
  Letter: "L",
  Cased_Letter: "LC",
  Uppercase_Letter: "Lu",
  Lowercase_Letter: "Ll",
  Titlecase_Letter: "Lt",
  Modifier_Letter: "Lm",
  Other_Letter: "Lo",
  Mark: "M",
  Nonspacing_Mark: "Mn",
  Spacing_Mark: "Mc",
  Enclosing_Mark: "Me",
  Number: "N",
  Decimal_Number: "Nd",
  digit: "Nd",
  Letter_Number: "Nl",
  Other_Number: "No",
  Punctuation: "P",
  punct: "P",
  Connector_Punctuation: "Pc",
  Dash_Punctuation: "Pd",
  Open_Punctuation: "Ps",
  Close_Punctuation: "Pe",
  Initial_Punctuation: "Pi",
  Final_Punctuation: "Pf",
  Other_Punctuation: "Po",
  Symbol: "S",
  Math_Symbol: "Sm",
  Currency_Symbol: "Sc",
  Modifier_Symbol: "Sk",
  Other_Symbol: "So",
  Separator: "Z",
  Space_Separator: "Zs",
  Line_Separator: "Zl",
  Paragraph_Separator: "Zp",
  Other: "C",
  Control: "Cc",
  cntrl: "Cc",
  Format: "Cf",
  Private_Use: "Co"
}

const unicodeProperty = (name: string): string => {
  const value = name.replace(/^(?:General_Category|gc|Script|sc)=/, "")
  return Object.hasOwn(generalCategories, value) ? (generalCategories[value] ?? value) : value
}

const controls: Readonly<Record<string, string>> = {
  t: "\\t",
  n: "\\n",
  r: "\\r",
  v: "\\x{B}",
  f: "\\x{C}",
  "0": "\\x{0}"
}

const codePoint = (value: number) => `\\x{${value.toString(16)}}`

type Piece = { readonly text: string; readonly length: number } | { readonly problem: string }

/** Reads one escape sequence of ECMAScript at `at`, which holds the backslash. */
const escape = (source: string, at: number, inClass: boolean): Piece => {
  const letter = source[at + 1]
  if (letter === undefined) return { problem: "it ends with a backslash" }
  const rest = source.slice(at, at + 64)
  const unit = /^\\u([0-9a-fA-F]{4})/.exec(rest)
  if (unit?.[1] !== undefined) {
    const high = Number.parseInt(unit[1], 16)
    const low = /^\\u[0-9a-fA-F]{4}\\u([dD][c-fC-F][0-9a-fA-F]{2})/.exec(rest)?.[1]
    if (high >= 0xd800 && high <= 0xdbff && low !== undefined) {
      return { text: codePoint((high - 0xd800) * 0x400 + (Number.parseInt(low, 16) - 0xdc00) + 0x10000), length: 12 }
    }
    return { text: codePoint(high), length: 6 }
  }
  const braced = /^\\u\{([0-9a-fA-F]{1,6})\}/.exec(rest)
  if (braced?.[1] !== undefined) return { text: codePoint(Number.parseInt(braced[1], 16)), length: braced[0].length }
  const hex = /^\\x([0-9a-fA-F]{2})/.exec(rest)
  if (hex?.[1] !== undefined) return { text: codePoint(Number.parseInt(hex[1], 16)), length: 4 }
  const control = /^\\c([A-Za-z])/.exec(rest)
  if (control?.[1] !== undefined) return { text: codePoint(control[1].charCodeAt(0) % 32), length: 3 }
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
  const named = controls[letter]
  if (named !== undefined) return { text: named, length: 2 }
  if (/[1-9]/.test(letter) || letter === "k") return { problem: "back references are not supported" }
  if (/[A-Za-z0-9]/.test(letter)) return { problem: `unknown escape \\${letter}` }
  const point = source.codePointAt(at + 1) ?? 0
  return { text: codePoint(point), length: 1 + String.fromCodePoint(point).length }
}

/** Rewrites an ECMAScript regular expression in the syntax of RE2, meaning the same. */
const translate = (source: string): Result.Result<string, string> => {
  let out = ""
  let inClass = false
  for (let at = 0; at < source.length;) {
    const char = source[at] ?? ""
    if (char === "\\") {
      const piece = escape(source, at, inClass)
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

const text = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

/**
 * Compiles a `pattern` of JSON Schema: it must be a valid regular expression of
 * ECMAScript, and one that RE2 can run. It is searched for, not anchored.
 */
export const compilePattern = (source: string): Result.Result<LinearPattern, string> => {
  const properties = source.split(/\\[pP]\{/).length - 1
  if (properties > maxProperties) return Result.fail(`it has more than ${maxProperties} \\p escapes`)
  if (source.length > maxSource) return Result.fail(`it is longer than ${maxSource} characters`)
  return Result.gen(function* () {
    yield* Result.orElse(Result.try({ try: () => new RegExp(source, "u"), catch: text }), () =>
      Result.try({ try: () => new RegExp(source), catch: text })
    )
    const translated = yield* translate(source)
    const compiled = yield* Result.try({ try: () => RE2JS.compile(translated), catch: text })
    const program = compiled.programSize()
    if (program > maxProgram)
      return yield* Result.fail(`it compiles to ${program} instructions, the limit is ${maxProgram}`)
    return {
      source,
      weight: source.length + program + 500 * properties,
      cost: (length) => 1 + Math.ceil((length * Math.max(program, 8)) / 64),
      test: (value) => compiled.test(value)
    } satisfies LinearPattern
  })
}
