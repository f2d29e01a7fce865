/**
 * Counts tokens without a vocabulary: one pass over the text and a price for each
 * kind of run. Byte pair encoders cut text at the same places first, so all that has
 * to be guessed is into how many pieces a run breaks. The prices are a least-squares
 * fit to o200k_base over other texts than those the tests measure the error on.
 */
type Kind = "lower" | "upper" | "accented" | "digit" | "space" | "break" | "punctuation" | "script"

const ascii: ReadonlyArray<Kind> = Array.from({ length: 128 }, (_, code): Kind => {
  if (code >= 97 && code <= 122) return "lower"
  if (code >= 65 && code <= 90) return "upper"
  if (code >= 48 && code <= 57) return "digit"
  if (code === 32) return "space"
  return code === 9 || code === 10 || code === 13 ? "break" : "punctuation"
})

const isAccented = (code: number): boolean =>
  (code >= 0xc0 && code < 0x250) || (code >= 0x300 && code < 0x370) || (code >= 0x1e00 && code < 0x1f00)

const kindAt = (text: string, index: number): Kind | undefined => {
  if (index >= text.length) return undefined
  const code = text.charCodeAt(index)
  return ascii[code] ?? (isAccented(code) ? "accented" : "script")
}

/** What a run of a script costs, and each UTF-16 unit of it. */
interface Script {
  readonly to: number
  readonly run: number
  readonly unit: number
}

const free = { run: 0, unit: 0.05 }
const unknown = { run: 0, unit: 0.5 }
const southEastAsian = { run: 2.2, unit: 0.48 }
const hangul = { run: 0, unit: 0.76 }

/** In order; each begins where the one before it ends. */
const scripts: ReadonlyArray<Script> = [
  // typographic signs of Latin text: mostly part of the token beside them
  { to: 0xc0, ...free },
  { to: 0x370, ...unknown },
  // Greek, Cyrillic, Hebrew, Arabic
  { to: 0x400, run: 0, unit: 0.4 },
  { to: 0x530, run: 1.27, unit: 0.105 },
  { to: 0x590, ...unknown },
  { to: 0x600, run: 0, unit: 0.41 },
  { to: 0x780, run: 0, unit: 0.39 },
  { to: 0x900, ...unknown },
  // the scripts of India, then Thai, Lao, Burmese
  { to: 0xe00, run: 0, unit: 0.41 },
  { to: 0x1100, ...southEastAsian },
  { to: 0x1200, ...hangul },
  { to: 0x1780, ...unknown },
  // Khmer
  { to: 0x1800, ...southEastAsian },
  { to: 0x2000, ...unknown },
  { to: 0x2070, ...free },
  { to: 0x3000, run: 0, unit: 1 },
  { to: 0x3040, ...free },
  // kana, Chinese characters, Hangul
  { to: 0x3100, run: 0, unit: 0.83 },
  { to: 0x3400, ...unknown },
  { to: 0xa000, run: 0, unit: 0.88 },
  { to: 0xac00, ...unknown },
  { to: 0xd7b0, ...hangul },
  // both halves of emoji and of rare characters
  { to: 0xe000, run: 0, unit: 1.3 },
  { to: 0xff00, ...unknown },
  { to: 0x10000, ...free }
]

const scriptOf = (code: number): Script | undefined => scripts.find((script) => code < script.to)

const isLetter = (kind: Kind | undefined): boolean => kind === "lower" || kind === "upper" || kind === "accented"

/** A piece of a word without a hump: long ones break. */
const pieceOf = (length: number): number =>
  0.168 * Math.max(0, Math.min(length, 8) - 4) + 0.437 * Math.max(0, length - 8)

const camelCase = 0.5
/** Capitals in the middle of one or two letters: no word, but a key or a hash. */
const noise = 3.6

export const count = (text: string): number => {
  let total = 0
  let index = 0

  const word = (): void => {
    total += 0.767
    let length = 0
    let before: Kind | undefined
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

  const run = (kind: Kind): number => {
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
    if (found !== undefined) total += found.run + found.unit * (index - start)
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
