/**
 * Regular expressions of ECMAScript that its own engine runs in linear time.
 *
 * The engine backtracks when a match fails. If each character of the text can continue the match in one way at most, every
 * other way fails at its first character, and the steps are proportional to the text. {@link stepsPerCharacter} accepts an
 * expression when that is certain, and refuses every other one, although it may be fast. An expression that can begin
 * anywhere in the text is accepted only if all of its matches are short, because each position of the text is tried.
 *
 * An expression that begins at the start of the text may end in a tail that is read in several ways, as the last
 * character of `^[a-z][a-z-]*[a-z]$` is. What precedes the tail reads each beginning of the text in one way at most, so
 * the tail is begun once at each position at most. Where nothing in it repeats without end, its steps have a bound that
 * no text changes, and all steps are at most the characters of the text times that bound. Alternatives before the tail
 * are taken apart: `^a(?:b|c)d$` is read in the ways of `^abd$` and in the ways of `^acd$`.
 */

import * as fuel from "./fuel.ts"

/** Characters: a bit for each of ASCII, and whether there may be others. */
interface CharSet {
  readonly ascii: bigint
  readonly others: boolean
}

type Node =
  | { readonly _tag: "Set"; readonly set: CharSet }
  | { readonly _tag: "All"; readonly parts: ReadonlyArray<Node> }
  | { readonly _tag: "Any"; readonly parts: ReadonlyArray<Node> }
  | { readonly _tag: "Repeat"; readonly body: Node; readonly min: number; readonly max: number }

/** One top-level alternative. */
interface Alternative {
  readonly parts: ReadonlyArray<Node>
  readonly atStart: boolean
  readonly atEnd: boolean
}

const noChars: CharSet = { ascii: 0n, others: false }

const union = (a: CharSet, b: CharSet): CharSet => ({ ascii: a.ascii | b.ascii, others: a.others || b.others })

const overlaps = (a: CharSet, b: CharSet): boolean => (a.ascii & b.ascii) !== 0n || (a.others && b.others)

/** Tokens that may match characters outside of ASCII. */
const mayMatchOthers = /[^\x20-\x7e]|^\.$|^\[\^|\\[sSDWpPux]/

/** The set of one character, class or escape; the engine itself decides which characters of ASCII are in it. */
const charSetOf = (token: string): CharSet => {
  const others = mayMatchOthers.test(token)
  if (token.length === 1 && token !== ".") return { ascii: others ? 0n : 1n << BigInt(token.charCodeAt(0)), others }
  const one = new RegExp(`^${token}$`, "u")
  let ascii = 0n
  for (let code = 0; code < 128; code++) {
    if (one.test(String.fromCharCode(code))) ascii |= 1n << BigInt(code)
  }
  return { ascii, others }
}

const atomToken =
  /\\(?:u\{[0-9a-fA-F]+\}|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[A-Za-z]|[pP]\{[^}]*\}|[^1-9kbBuxcpP])|\[(?:\\.|[^\]\\])*\]|[^\\[\](){}*+?|^$]/uy

const repeatToken = /(?:[*+?]|\{(\d+)(,(\d*))?\})\??/y

const groupToken = /\((?:\?(?::|<[A-Za-z_$][\w$]*>))?/y

const maxDepth = 32

/** The units for a class of characters, which the engine compiles and runs for each of ASCII. */
const classUnits = 30

/** Reads a valid expression of the `u` flag. Throws nothing; `undefined` is something that is not handled here. */
class Parser {
  readonly source: string
  readonly tank: fuel.Fuel
  at = 0
  depth = 0

  constructor(source: string, tank: fuel.Fuel) {
    this.source = source
    this.tank = tank
  }

  take(token: RegExp): RegExpExecArray | undefined {
    token.lastIndex = this.at
    const found = token.exec(this.source) ?? undefined
    if (found !== undefined) this.at += found[0].length
    return found
  }

  skip(text: string): boolean {
    const found = this.source.startsWith(text, this.at)
    if (found) this.at += text.length
    return found
  }

  alternatives(): ReadonlyArray<Alternative> | undefined {
    const all: Array<Alternative> = []
    do {
      const atStart = this.skip("^")
      const parts = this.parts()
      if (parts === undefined) return undefined
      all.push({ parts, atStart, atEnd: this.skip("$") })
    } while (this.skip("|"))
    return this.at === this.source.length ? all : undefined
  }

  parts(): ReadonlyArray<Node> | undefined {
    const parts: Array<Node> = []
    for (;;) {
      const atom = this.atom()
      if (atom === undefined) return undefined
      if (atom === "none") return parts
      parts.push(this.repeated(atom))
    }
  }

  atom(): Node | "none" | undefined {
    const token = this.take(atomToken)
    if (token !== undefined) {
      const isPaid = fuel.spend(this.tank, token[0].length === 1 ? 1 : classUnits)
      return isPaid ? { _tag: "Set", set: charSetOf(token[0]) } : undefined
    }
    if (this.take(groupToken) === undefined) return "none"
    this.depth += 1
    const parts: Array<Node> = []
    do {
      const inner = this.depth > maxDepth ? undefined : this.parts()
      if (inner === undefined) return undefined
      parts.push({ _tag: "All", parts: inner })
    } while (this.skip("|"))
    this.depth -= 1
    return this.skip(")") ? { _tag: "Any", parts } : undefined
  }

  repeated(body: Node): Node {
    const token = this.take(repeatToken)
    if (token === undefined) return body
    const [text, least, range, most] = token
    if (least === undefined) {
      return { _tag: "Repeat", body, min: text.startsWith("+") ? 1 : 0, max: text.startsWith("?") ? 1 : Infinity }
    }
    return {
      _tag: "Repeat",
      body,
      min: Number(least),
      max: range === undefined ? Number(least) : Number(most || "Infinity")
    }
  }
}

/** A place in an expression that one character is read at, and the characters that may follow it. */
interface Position {
  follow: CharSet
}

/** A part of an expression: the characters that it may begin with, one set for each way, and the places where it may end. */
interface Fragment {
  readonly nullable: boolean
  readonly first: ReadonlyArray<CharSet>
  readonly last: ReadonlyArray<Position>
}

const empty: Fragment = { nullable: true, first: [], last: [] }

/** The start of the text, after which each character has to leave one way on, too. */
const makeStart = (): Fragment => ({ nullable: false, first: [], last: [{ follow: noChars }] })

const maxPositions = 256

/** Finds out if each character leaves one way on at most. What takes too long is unclear. */
class Ways {
  readonly tank: fuel.Fuel
  isUnclear = false
  positions = 0

  constructor(tank: fuel.Fuel) {
    this.tank = tank
  }

  spend(units: number): void {
    this.isUnclear ||= !fuel.spend(this.tank, units)
  }

  follow(last: ReadonlyArray<Position>, first: ReadonlyArray<CharSet>): void {
    this.spend(last.length * first.length)
    if (this.isUnclear) return
    for (const position of last) {
      for (const set of first) {
        this.isUnclear ||= overlaps(position.follow, set)
        position.follow = union(position.follow, set)
      }
    }
  }

  then(a: Fragment, b: Fragment): Fragment {
    this.follow(a.last, b.first)
    return {
      nullable: a.nullable && b.nullable,
      first: a.nullable ? [...a.first, ...b.first] : a.first,
      last: b.nullable ? [...a.last, ...b.last] : b.last
    }
  }

  /** Twice the empty text is two ways. */
  optional(fragment: Fragment): Fragment {
    this.isUnclear ||= fragment.nullable
    return { ...fragment, nullable: true }
  }

  all(parts: ReadonlyArray<Node>): Fragment {
    return parts.reduce<Fragment>((before, part) => (this.isUnclear ? before : this.then(before, this.of(part))), empty)
  }

  of(node: Node): Fragment {
    this.spend(3)
    switch (node._tag) {
      case "Set": {
        this.positions += 1
        this.isUnclear ||= this.positions > maxPositions
        return { nullable: false, first: [node.set], last: [{ follow: noChars }] }
      }
      case "All":
        return this.all(node.parts)
      case "Any":
        return this.any(node.parts)
      case "Repeat":
        return this.repeat(node)
    }
  }

  any(parts: ReadonlyArray<Node>): Fragment {
    const fragments = parts.map((part) => this.of(part))
    this.spend(4 * parts.length ** 2)
    this.isUnclear ||= fragments.filter(({ nullable }) => nullable).length > 1
    const first = fragments.flatMap((fragment) => fragment.first)
    return {
      nullable: fragments.some(({ nullable }) => nullable),
      first: first.length > 1 && !this.isUnclear && areExclusive(parts) ? [first.reduce(union, noChars)] : first,
      last: fragments.flatMap(({ last }) => last)
    }
  }

  repeat({ body, max, min }: Extract<Node, { readonly _tag: "Repeat" }>): Fragment {
    let whole = empty
    for (let count = 0; count < min && !this.isUnclear; count++) {
      const one = this.of(body)
      if (max === Infinity && count === min - 1) this.follow(one.last, one.first)
      whole = this.then(whole, one)
    }
    if (min > 0 && max === Infinity) return whole
    let rest = empty
    for (let count = max === Infinity ? 1 : max - min; count > 0 && !this.isUnclear; count--) {
      const one = this.of(body)
      if (max === Infinity) this.follow(one.last, one.first)
      rest = this.optional(this.then(one, rest))
    }
    return this.then(whole, rest)
  }
}

/** The sets of a text of fixed length. */
const fixedSets = (node: Node): ReadonlyArray<CharSet> | undefined => {
  if (node._tag === "Set") return [node.set]
  const parts =
    node._tag === "All"
      ? node.parts
      : node._tag === "Repeat" && node.min === node.max && node.min <= maxPositions
        ? Array.from({ length: node.min }, () => node.body)
        : undefined
  const sets = parts?.map(fixedSets)
  return sets?.every((one) => one !== undefined) === true ? sets.flat() : undefined
}

/** True when no text can begin with two of the alternatives, which have a fixed length: one of them matches at most. */
const areExclusive = (parts: ReadonlyArray<Node>): boolean => {
  const all = parts.map(fixedSets)
  return (
    parts.length > 1 &&
    parts.length <= 32 &&
    all.every((one, index) =>
      all.every(
        (other, at) =>
          at >= index ||
          (one !== undefined &&
            other !== undefined &&
            one.some((set, place) => place < other.length && !overlaps(set, other[place] ?? noChars)))
      )
    )
  )
}

const isUnbounded = (node: Node): boolean => {
  if (node._tag === "Set") return false
  return node._tag === "Repeat" ? node.max === Infinity || isUnbounded(node.body) : node.parts.some(isUnbounded)
}

/** Without what only makes a match longer. */
const withoutTail = ({ atEnd, parts }: Alternative): ReadonlyArray<Node> => {
  const last = parts.at(-1)
  return atEnd || last?._tag !== "Repeat" ? parts : [...parts.slice(0, -1), { ...last, max: last.min }]
}

/** The ways to read a part to its end, and the steps that all ways take together, at most. */
interface Effort {
  readonly ways: number
  readonly steps: number
}

const inTurn = (a: Effort, b: Effort): Effort => ({ ways: a.ways * b.ways, steps: a.steps + a.ways * b.steps })

const boundEffort = (node: Node): Effort => {
  switch (node._tag) {
    case "Set":
      return { ways: 1, steps: 1 }
    case "All":
      return node.parts.map(boundEffort).reduce(inTurn, { ways: 1, steps: 1 })
    case "Any": {
      const all = node.parts.map(boundEffort)
      return all.reduce((sum, one) => ({ ways: sum.ways + one.ways, steps: sum.steps + one.steps }), {
        ways: 0,
        steps: 1
      })
    }
    case "Repeat": {
      if (node.max > maxTailSteps) return { ways: Infinity, steps: Infinity }
      const body = boundEffort(node.body)
      let whole: Effort = { ways: 1, steps: 1 }
      let ways = node.min === 0 ? 1 : 0
      for (let count = 1; count <= node.max; count++) {
        whole = inTurn(whole, { ...body, steps: body.steps + 1 })
        if (count >= node.min) ways += whole.ways
      }
      return { ways, steps: whole.steps }
    }
  }
}

/** The steps of a tail, at most; a platform's engine takes many in a microsecond. */
const maxTailSteps = 512

/** The steps for each character of an expression that begins at the start of the text. */
const stepsFromStart = (parts: ReadonlyArray<Node>, tank: fuel.Fuel): number | undefined => {
  const ways = new Ways(tank)
  let before = makeStart()
  const end = parts.findIndex((part) => {
    before = ways.then(before, ways.of(part))
    return ways.isUnclear
  })
  if (end === -1) return 1 + ways.positions
  const [next, ...rest] = parts.slice(end)
  if (next === undefined || fuel.isEmpty(tank)) return undefined
  const tail = inTurn(boundEffort(next), boundEffort({ _tag: "All", parts: rest }))
  if (tail.steps + tail.ways <= maxTailSteps) return 1 + ways.positions + tail.steps + tail.ways
  const group = next._tag === "Repeat" && next.max === 1 ? next.body : next
  if (group._tag !== "Any") return undefined
  const endings = next._tag === "Repeat" && next.min === 0 ? [...group.parts, emptyNode] : group.parts
  let steps = 0
  for (const one of endings) {
    const found = stepsFromStart([...parts.slice(0, end), ...partsOf(one), ...rest], tank)
    if (found === undefined) return undefined
    steps += found
  }
  return steps
}

const emptyNode: Node = { _tag: "All", parts: [] }

const partsOf = (node: Node): ReadonlyArray<Node> => (node._tag === "All" ? node.parts : [node])

/** An expression that may begin anywhere is tried at each character of the text. */
const maxSearchSteps = 65

/** The units for one expression, at most: a short one can repeat a group very often. */
export const maxUnits = 20_000

/**
 * The steps that a search takes for one character of the text at most, or `undefined` where they are not known to be a
 * constant. `source` is valid with the flag `u`. The counter gets the units that finding out takes.
 */
export const stepsPerCharacter = (source: string, tank = fuel.make(maxUnits)): number | undefined => {
  const alternatives = new Parser(source, tank).alternatives()
  let steps = 0
  for (const alternative of alternatives ?? []) {
    const parts = withoutTail(alternative)
    const fromStart = stepsFromStart(parts, tank)
    if (fromStart === undefined) return undefined
    if (alternative.atStart) steps += fromStart
    else if (fromStart <= maxSearchSteps && !parts.some(isUnbounded)) steps += fromStart ** 2
    else return undefined
  }
  return alternatives && steps
}
