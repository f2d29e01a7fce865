/**
 * A regular expression whose steps are counted: a backtracking matcher, which tries what the engine of the platform tries
 * when it has no better idea. A step is one visit of a part of the expression.
 */
import type { Random } from "../random.ts"

type Node =
  | { readonly _tag: "Chars"; readonly token: string; readonly has: (char: string) => boolean }
  | { readonly _tag: "Assert"; readonly token: string }
  | { readonly _tag: "Same"; readonly group: number }
  | { readonly _tag: "All"; readonly parts: ReadonlyArray<Node> }
  | { readonly _tag: "Any"; readonly parts: ReadonlyArray<Node> }
  | { readonly _tag: "Group"; readonly body: Node; readonly group: number }
  | { readonly _tag: "Look"; readonly body: Node; readonly isBehind: boolean; readonly isNot: boolean }
  | {
      readonly _tag: "Repeat"
      readonly body: Node
      readonly min: number
      readonly max: number
      readonly isLazy: boolean
    }

/** Characters that fit or break most patterns. */
export const characters = Array.from("aeyJsk0Z9_- \n\t.:/=?&#@*\"'`\\[]{}(),;!%+~$^|<>\u0301\u200bé\u0001")

const parse = (source: string, flags: string): Node => {
  let at = 0
  let groups = 0
  const take = (text: string): boolean => {
    const found = source.startsWith(text, at)
    if (found) at += text.length
    return found
  }
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const found = pattern.exec(source)?.[0]
    if (found !== undefined) at += found.length
    return found
  }
  const chars = (token: string): Node => {
    const one = new RegExp(`^(?:${token})$`, flags.replace(/[gym]/g, ""))
    const known = new Map<string, boolean>()
    const has = (char: string) => {
      const before = known.get(char)
      if (before !== undefined) return before
      const is = one.test(char)
      known.set(char, is)
      return is
    }
    return { _tag: "Chars", token, has }
  }
  const look = (isBehind: boolean, isNot: boolean): Node => ({ _tag: "Look", body: close(any()), isBehind, isNot })
  const close = (body: Node): Node => {
    if (!take(")")) throw new Error(`no ) at ${at} of ${source}`)
    return body
  }
  const atom = (): Node | undefined => {
    if (at >= source.length || source[at] === ")" || source[at] === "|") return undefined
    if (take("(?:")) return close(any())
    if (take("(?=")) return look(false, false)
    if (take("(?!")) return look(false, true)
    if (take("(?<=")) return look(true, false)
    if (take("(?<!")) return look(true, true)
    if (match(/\((?:\?<\w+>)?/y) !== undefined) {
      groups += 1
      const group = groups
      return { _tag: "Group", group, body: close(any()) }
    }
    const token = match(/\\[bB]|\^|\$/y)
    if (token !== undefined) return { _tag: "Assert", token }
    const same = match(/\\[1-9]/y)
    if (same !== undefined) return { _tag: "Same", group: Number(same.slice(1)) }
    const one = match(/\\(?:u\{\w+\}|u\w{4}|x\w{2}|c\w|[pP]\{[^}]*\}|[^])|\[(?:\\[^]|[^\]\\])*\]|[^]/y)
    if (one === undefined) throw new Error(`unread at ${at} of ${source}`)
    return chars(one)
  }
  const all = (): Node => {
    const parts: Array<Node> = []
    for (let one = atom(); one !== undefined; one = atom()) {
      const repeat = match(/(?:[*+?]|\{\d+(?:,\d*)?\})\??/y)
      if (repeat === undefined) {
        parts.push(one)
        continue
      }
      const [, least, range, most] = /^\{(\d+)(,(\d*))?\}/.exec(repeat) ?? []
      const min = least === undefined ? (repeat.startsWith("+") ? 1 : 0) : Number(least)
      const plain = repeat.startsWith("?") ? 1 : Infinity
      const max = least === undefined ? plain : range === undefined ? min : Number(most || "Infinity")
      parts.push({ _tag: "Repeat", body: one, min, max, isLazy: repeat.length > 1 && repeat.endsWith("?") })
    }
    return { _tag: "All", parts }
  }
  const any = (): Node => {
    const parts = [all()]
    while (take("|")) parts.push(all())
    const [first] = parts
    return parts.length === 1 && first !== undefined ? first : { _tag: "Any", parts }
  }
  const whole = any()
  if (at !== source.length) throw new Error(`unread at ${at} of ${source}`)
  return whole
}

const isWord = (char: string | undefined) => char !== undefined && /\w/.test(char)

/** Continues a match at a place. Returns the place where the whole ends. */
type Next = (at: number) => number | undefined

export interface Match {
  readonly index: number
  readonly end: number
}

/** There are no matches where there were too many steps. */
export interface Found {
  readonly matches: ReadonlyArray<Match> | undefined
  readonly steps: number
}

class TooManySteps extends Error {}

export const make = ({ flags, source }: RegExp) => {
  const root = parse(source, flags)
  const isUnicode = flags.includes("u")

  const run = (text: string, start: number, count: () => void): number | undefined => {
    const groups: Array<string | undefined> = []
    const charAt = (at: number, isBack: boolean): string | undefined => {
      if (isBack ? at <= 0 : at >= text.length) return undefined
      if (!isUnicode) return isBack ? text[at - 1] : text[at]
      const code = isBack ? text.codePointAt(at - 1) : text.codePointAt(at)
      return code === undefined ? undefined : String.fromCodePoint(code)
    }
    const visit = (node: Node, at: number, isBack: boolean, next: Next): number | undefined => {
      count()
      switch (node._tag) {
        case "Chars": {
          const char = charAt(at, isBack)
          return char !== undefined && node.has(char) ? next(at + (isBack ? -char.length : char.length)) : undefined
        }
        case "Assert": {
          const isAt =
            node.token === "^"
              ? at === 0
              : node.token === "$"
                ? at === text.length
                : (isWord(text[at - 1]) !== isWord(text[at])) === (node.token === "\\b")
          return isAt ? next(at) : undefined
        }
        case "Same": {
          const same = groups[node.group] ?? ""
          return text.startsWith(same, at) ? next(at + same.length) : undefined
        }
        case "All": {
          const parts = isBack ? node.parts.toReversed() : node.parts
          const from = (index: number, place: number): number | undefined => {
            const part = parts[index]
            return part === undefined ? next(place) : visit(part, place, isBack, (then) => from(index + 1, then))
          }
          return from(0, at)
        }
        case "Any": {
          for (const part of node.parts) {
            const found = visit(part, at, isBack, next)
            if (found !== undefined) return found
          }
          return undefined
        }
        case "Group": {
          const before = groups[node.group]
          const found = visit(node.body, at, isBack, (end) => {
            groups[node.group] = text.slice(at, end)
            return next(end)
          })
          if (found === undefined) groups[node.group] = before
          return found
        }
        case "Look": {
          const found = visit(node.body, at, node.isBehind, (end) => end)
          return (found !== undefined) === node.isNot ? undefined : next(at)
        }
        case "Repeat":
          return repeat(node, at, isBack, next)
      }
    }
    /** Repeats of one character need no stack. */
    const repeat = (
      { body, isLazy, max, min }: Extract<Node, { readonly _tag: "Repeat" }>,
      at: number,
      isBack: boolean,
      next: Next
    ): number | undefined => {
      if (body._tag === "Chars" && !isLazy) {
        const ends = [at]
        for (let end = at; ends.length <= max; ends.push(end)) {
          count()
          const char = charAt(end, isBack)
          if (char === undefined || !body.has(char)) break
          end += isBack ? -char.length : char.length
        }
        for (let index = ends.length - 1; index >= min; index--) {
          count()
          const found = next(ends[index] ?? at)
          if (found !== undefined) return found
        }
        return undefined
      }
      const more = (times: number, place: number): number | undefined => {
        const again = () =>
          times < max
            ? visit(body, place, isBack, (end) => (end === place && times >= min ? undefined : more(times + 1, end)))
            : undefined
        if (times < min) return again()
        return isLazy ? (next(place) ?? again()) : (again() ?? next(place))
      }
      return more(0, at)
    }
    return visit(root, start, false, (end) => end)
  }

  /**
   * All matches as `replace` finds them, the first one of a pattern without the flag `g`, and the steps of all attempts. It
   * ends at `maxSteps`.
   */
  const search = (text: string, maxSteps: number): Found => {
    let steps = 0
    const count = () => {
      steps++
      if (steps > maxSteps) throw new TooManySteps()
    }
    const matches: Array<Match> = []
    const isOne = !flags.includes("g")
    const last = flags.includes("y") ? 0 : text.length
    try {
      for (let at = 0; at <= last;) {
        const end = run(text, at, count)
        if (end !== undefined) matches.push({ index: at, end })
        if (end !== undefined && isOne) break
        at = end !== undefined && end > at ? end : at + (isUnicode ? (charLength(text, at) ?? 1) : 1)
      }
    } catch (error) {
      if (error instanceof TooManySteps) return { matches: undefined, steps }
      throw error
    }
    return { matches, steps }
  }

  /** A text that a part of the expression matches, or nearly: assertions are not heeded. */
  const sample = (random: Random, node: Node): string => {
    switch (node._tag) {
      case "Chars": {
        const fitting = characters.filter((char) => node.has(char))
        if (fitting.length > 0) return random.pick(fitting)
        return node.token.startsWith("\\u{")
          ? String.fromCodePoint(Number.parseInt(node.token.slice(3), 16))
          : node.token.slice(-1)
      }
      case "Assert":
      case "Same":
        return ""
      case "Look":
        return random.chance(0.5) ? sample(random, node.body) : ""
      case "All":
        return node.parts.map((part) => sample(random, part)).join("")
      case "Any":
        return sample(random, random.pick(node.parts))
      case "Group":
        return sample(random, node.body)
      case "Repeat": {
        const times = Math.min(node.max, node.min + random.below(3))
        return random.times(times, () => sample(random, node.body)).join("")
      }
    }
  }

  /** Pieces to make near-misses of: the whole, a part, or parts that follow each other. */
  const piece = (random: Random, node: Node = root): string => {
    if (random.chance(0.25)) return sample(random, node)
    switch (node._tag) {
      case "All": {
        const from = random.below(node.parts.length)
        const some = node.parts.slice(from, from + 1 + random.below(node.parts.length - from))
        return some.length === 1 && some[0] !== undefined && random.chance(0.5)
          ? piece(random, some[0])
          : some.map((part) => sample(random, part)).join("")
      }
      case "Any":
        return piece(random, random.pick(node.parts))
      case "Group":
      case "Look":
      case "Repeat":
        return piece(random, node.body)
      default:
        return sample(random, node)
    }
  }

  /** A text of a length: one word of pieces again and again, after a beginning that may match. */
  const nearMiss = (random: Random): ((length: number) => string) => {
    const head = random.chance(0.6) ? piece(random) : ""
    const word = random
      .times(1 + random.below(2), () => (random.chance(0.2) ? random.pick(characters) : piece(random)))
      .join("")
    const tail = random.chance(0.7) ? random.pick(characters) : ""
    return (length) => head + (word || "a").repeat(Math.ceil(length / (word || "a").length)) + tail
  }

  return { search, nearMiss }
}

const charLength = (text: string, at: number): number | undefined => {
  const code = text.codePointAt(at)
  return code === undefined ? undefined : String.fromCodePoint(code).length
}
