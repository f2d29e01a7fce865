/** Opens inputs one after the other. Each is made of the seed and its number alone, so each can be repeated alone. */
import { Cause, Effect, Exit, Result } from "effect"
import { Limits } from "effect-emissary"
import { inspect } from "node:util"
import { random } from "../random.ts"
import { makeDoors, type Door } from "./doors.ts"
import * as fuel from "#src/payload/internal/fuel.ts"
import { counts, isName, mutate, secret, type Input } from "./mutate.ts"
import { seeds } from "./seeds.ts"

/** Something that must never happen. */
export interface Finding {
  readonly door: string
  readonly seed: number
  readonly index: number
  readonly problem: string
  readonly input: Input
}

export interface Report {
  readonly findings: ReadonlyArray<Finding>
  /** The findings of each kind; `findings` has the first one of it. */
  readonly kinds: ReadonlyMap<string, number>
  readonly inputs: number
  /** Of each door: the numbers of inputs that it took and refused. */
  readonly doors: ReadonlyMap<string, { readonly taken: number; readonly refused: number; readonly millis: number }>
  /** The inputs that took most time, and most fuel. */
  readonly slowest: { readonly door: string; readonly index: number; readonly millis: number }
  readonly dearest: { readonly door: string; readonly index: number; readonly spent: number }
}

const watched: ReadonlyArray<object> = [Object.prototype, Array.prototype, Function.prototype, String.prototype]

const shapeOf = () => watched.map((object) => Reflect.ownKeys(object).length).join(" ")

/** The texts of an error wherever it may be shown. */
const shown = (error: unknown): ReadonlyArray<string> => [
  String(error),
  error instanceof Error ? error.message : "",
  JSON.stringify(error) ?? "",
  inspect(error, { depth: 12 })
]

const repeats = "it repeats a planted secret"

/** True if the input has the secret in the place of a name. */
const mayRepeat = (input: Input): boolean => {
  const json = Result.try((): unknown =>
    input._tag === "Value"
      ? input.value
      : JSON.parse(typeof input.text === "string" ? input.text : new TextDecoder().decode(input.text))
  )
  return Result.getOrElse(
    Result.map(json, (value) => isName(value)),
    () => false
  )
}

/** The problem of an exit, if there is one. */
const problemOf = (exit: Exit.Exit<unknown, unknown>, planted: boolean): string | undefined => {
  if (counts.getters > 0) return "a getter of the input was called"
  if (Exit.isSuccess(exit)) return undefined
  const defect = exit.cause.reasons.find((reason) => !Cause.isFailReason(reason))
  if (defect !== undefined) return `it dies: ${Cause.pretty(exit.cause)}`
  const errors = exit.cause.reasons.flatMap((reason) => (Cause.isFailReason(reason) ? [reason.error].flat() : []))
  for (const error of errors) {
    const isTagged = typeof error === "object" && error !== null && "_tag" in error && "message" in error
    if (!isTagged || typeof error.message !== "string") return `it fails without a tag: ${inspect(error)}`
    if (planted && shown(error).some((text) => text.includes(secret))) return `${repeats}: ${error.message}`
  }
  return undefined
}

const salt = 0x9e3779b1

const sizes = new Map<unknown, number>()

const sizeOf = (seed: unknown): number => {
  const known = sizes.get(seed)
  if (known !== undefined) return known
  const size = JSON.stringify(seed)?.length ?? 0
  sizes.set(seed, size)
  return size
}

/** Makes the doors, and returns how to open them. */
export const makeFuzzer = Effect.gen(function* () {
  const from = yield* seeds
  const doors = yield* makeDoors(from)
  const turns = doors.flatMap((door) => (door.isSlow === true ? [door] : [door, door, door, door]))
  const { maxFuel } = yield* Limits.Limits

  const open = Effect.fnUntraced(function* (seed: number, index: number) {
    const choices = random(Math.imul(seed, salt) + index)
    // Sound: the index is inside the list
    const door = turns[index % turns.length] as Door
    counts.planted = 0
    counts.getters = 0
    // The smaller one of two: most problems show in little data, which takes less time
    const [one, other] = [choices.below(door.seeds.length), choices.below(door.seeds.length)]
    const place = sizeOf(door.seeds[one]) < sizeOf(door.seeds[other]) ? one : other
    const input = mutate(door.seeds[place], choices.pick(doors).seeds, choices)
    const planted = counts.planted > 0
    const start = performance.now()
    const measured = fuel.measure(door.open(input, choices, place))
    const { exit, spent } = door.isAsync === true ? yield* measured : Effect.runSync(measured)
    const millis = performance.now() - start
    const found = problemOf(exit, planted)
    const isAllowed = found?.startsWith(repeats) === true && mayRepeat(input)
    const isOver = Exit.isSuccess(exit) && spent > maxFuel
    const problem = isOver ? `it spends ${spent} units of fuel` : isAllowed ? undefined : found
    return { door, input, exit, millis, spent, problem }
  })

  /** Opens `count` inputs from the number `first` on. */
  const run = Effect.fnUntraced(function* (options: {
    readonly seed: number
    readonly first?: number
    readonly count: number
    readonly onProgress?: (index: number) => void
    /** Is called for the first finding of each kind. */
    readonly onFinding?: (finding: Finding) => void
  }) {
    const { count, first = 0, onFinding, onProgress, seed } = options
    const tallies = new Map(doors.map(({ name }) => [name, { taken: 0, refused: 0, millis: 0 }]))
    const findings: Array<Finding> = []
    const kinds = new Map<string, number>()
    let slowest = { door: "", index: 0, millis: 0 }
    let dearest = { door: "", index: 0, spent: 0 }
    let shape = shapeOf()
    for (let index = first; index < first + count; index++) {
      if (index % 1000 === 0) onProgress?.(index)
      const { door, exit, input, millis, problem, spent } = yield* open(seed, index)
      const tally = tallies.get(door.name)
      if (tally !== undefined) {
        tally[Exit.isSuccess(exit) ? "taken" : "refused"]++
        tally.millis += millis
      }
      if (millis > slowest.millis) slowest = { door: door.name, index, millis }
      if (spent > dearest.spent) dearest = { door: door.name, index, spent }
      const after = shapeOf()
      const found = after === shape ? problem : "a prototype was changed"
      shape = after
      if (found === undefined) continue
      // One of each kind is enough to look at
      const kind = `${door.name} ${found.replace(/\d+/g, "").slice(0, 80)}`
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
      if (kinds.get(kind) !== 1) continue
      const finding = { door: door.name, seed, index, problem: found, input }
      findings.push(finding)
      onFinding?.(finding)
    }
    const report: Report = { findings, kinds, inputs: count, doors: tallies, slowest, dearest }
    return report
  })

  return { doors, run }
})

/** Bytes as text, each as the character of its number. */
const readable = (input: Input): unknown =>
  input._tag === "Text" && typeof input.text !== "string"
    ? { bytes: Buffer.from(input.text).toString("latin1") }
    : input

/** A finding as people read it, with the command that repeats it. */
export const describeFinding = ({ door, index, input, problem, seed }: Finding): string =>
  [
    `${door}, input ${index} of seed ${seed}: ${problem}`,
    `Repeat it with: npm run fuzz -- --seed ${seed} --first ${index} --inputs 1`,
    inspect(readable(input), { depth: 30, maxStringLength: 2000, maxArrayLength: 200 }).slice(0, 20_000)
  ].join("\n")
