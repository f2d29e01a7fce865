/**
 * The expectation of the specification for a run, with its ADVICE: an interpreter of plans as naive
 * as can be. It notes each advice it took, so that a case whose recording differs is judged
 * by what differs, and expects what the advice asks for.
 */
import { Data, Result, Schema } from "effect"
import { isObject, type Json, list } from "../family.ts"
import { fixtureOf, holds, types, valueOf } from "./fixtures.ts"
import { inputOf } from "./run.ts"
import * as V from "./vocabulary.ts"
import * as planRunParts from "#src/run/internal/planRunParts.ts"

/** Places where the specification advises against the recording. */
export type Advice =
  | "band resumed"
  | "canonical text"
  | "context for tools"
  | "context text"
  | "counter kept"
  | "empty plan"
  | "input task"
  | "loop state kept"
  | "missing member"
  | "output decoded"
  | "plain routing"
  | "recorded result"
  | "rejoin stack"
  | "route chosen anew"

interface Record {
  readonly step: string
  readonly task: string
  readonly context: string | null
  readonly output: Schema.Json
}

/** A route whose branch has not ended: it ends at `rejoin`. */
interface Branch {
  readonly target: string
  readonly rejoin: string
}

interface State {
  readonly input: { readonly task: string; readonly payload: Schema.Json; readonly context: string | null }
  readonly history: Array<Record>
  readonly branches: Array<Branch>
  readonly kv: { [key: string]: Schema.Json }
  /** Members of the band under way that ended well. */
  readonly members: Map<string, Record>
  turns: number
  /** The step to run next; none when the plan has ended. */
  cursor: string | undefined
  /** The step that ran, but has not chosen its route. */
  unrouted: string | undefined
  status: "done" | "failed" | "paused" | "running"
  ended: V.RunResult | undefined
}

/** The end of a run that did not complete: its result, and the status of its checkpoint. */
class Stop extends Data.Class<{ readonly status: State["status"]; readonly result: V.RunResult }> {}

const envelope = ({ history, input }: State): V.Envelope => {
  const last = history.at(-1)
  if (last === undefined) return { ...input, text: planRunParts.payloadText(input.payload) }
  return { task: last.task, context: last.context, payload: last.output, text: planRunParts.payloadText(last.output) }
}

const beginning = (given: Schema.Json | undefined, otherwise: string, noted: Set<Advice>): State => {
  const input = inputOf(given, otherwise)
  const { context = null, payload, task } =
    typeof input === "string" ? { task: input, payload: input } : { payload: null, ...input }
  if ((payload ?? null) === null && task !== undefined) noted.add("input task")
  const whole = { task: task ?? planRunParts.payloadText(payload ?? null), payload: payload ?? task ?? null, context: context ?? null }
  return {
    input: whole,
    history: [],
    branches: [],
    kv: {},
    members: new Map(),
    turns: 0,
    cursor: undefined,
    unrouted: undefined,
    status: "running",
    ended: undefined
  }
}

class Run {
  readonly trace: Array<V.Call> = []
  readonly world: V.World
  readonly state: State
  readonly noted: Set<Advice>
  readonly steps: ReadonlyArray<Json>

  constructor(world: V.World, state: State, noted: Set<Advice>) {
    this.world = world
    this.state = state
    this.noted = noted
    this.steps = V.stepsOf(world.plan)
  }

  text(payload: Schema.Json): string {
    if (typeof payload === "object" && payload !== null) this.noted.add("canonical text")
    return planRunParts.payloadText(payload)
  }

  newest(name: unknown): Record {
    const found = this.state.history.findLast(({ step }) => step === name)
    if (found === undefined) throw new Stop({ status: "failed", result: { RAISED: "PlanRuntimeError" } })
    return found
  }

  /** The members of the band that begins at a step. */
  band(first: number): ReadonlyArray<Json> {
    const rest = this.steps.slice(first)
    const end = rest.findIndex((step) => !V.isParallel(step))
    return end < 0 ? rest : rest.slice(0, Math.max(end, 1))
  }

  aggregate(name: unknown): string {
    const members = this.band(V.position(this.steps, name)).map((step) => step["name"])
    const ran = members.filter((member) => this.state.history.some(({ step }) => step === member))
    if (ran.length < members.length) this.noted.add("missing member")
    return members.map((member) => `[${member}]\n${this.text(this.newest(member).output)}`).join("\n\n")
  }

  /** The value of a reference: its text as a task, its payload, and the context that comes with it. */
  resolve(reference: Schema.Json | undefined): { readonly task: string; readonly payload: Schema.Json; readonly context: string | null } {
    const { kind = "from_prev", name, value } = isObject(reference) ? reference : {}
    const { input, history } = this.state
    const ofRecord = ({ context, output }: Record) => ({ task: this.text(output), payload: output, context })
    switch (kind) {
      case "from_prev": {
        const last = history.at(-1)
        return last === undefined ? { ...input, task: this.text(input.payload) } : ofRecord(last)
      }
      case "from_start":
        return input
      case "from_parallel_all": {
        const joined = this.aggregate(name)
        return { task: joined, payload: joined, context: null }
      }
      case "literal":
        return { task: String(value), payload: value ?? null, context: null }
      default:
        return ofRecord(this.newest(name))
    }
  }

  context({ context }: Json): string | null {
    if (context === undefined) return null
    const parts = [context].flat().flatMap((reference) => {
      const { context: own, payload } = this.resolve(reference)
      if (typeof payload !== "string" && payload !== null) this.noted.add("context text")
      return [own ?? "", planRunParts.payloadText(payload)].filter((part) => part !== "")
    })
    return parts.length === 0 ? null : parts.join("\n\n")
  }

  /** Runs a step. What stops it is returned, for a band waits for all its members. */
  call(step: Json): Record | Stop {
    const { kind, name } = V.targetOf(step)
    let input: Omit<Record, "output">
    try {
      input = { step: String(step["name"]), task: this.resolve(step["task"]).task, context: this.context(step) }
    } catch (stop) {
      if (stop instanceof Stop) return stop
      throw stop
    }
    const { context, task } = input
    if (kind === "tool" && context !== null) this.noted.add("context for tools")
    const call: V.Call = kind === "callable" ? [name, task] : [name, task, context]
    const fixture = fixtureOf(this.world.fixtures ?? {}, name, this.trace.filter(([called]) => called === name).length)
    this.trace.push(call)
    const seen = kind === "callable" ? null : context
    const failed = (type: string, message: string): Stop =>
      new Stop({ status: "failed", result: { task, context: seen, payload: null, text: "", error: { type, message, retryable: false } } })
    if (fixture.fail !== undefined) return failed("RuntimeError", fixture.fail)
    if (fixture.conclude !== undefined) return new Stop({ status: "done", result: { RAISED: "ConcludeSignal", message: fixture.conclude } })
    if (fixture.pause !== undefined) {
      const error = { type: "PlanPaused", message: `'${step["name"]}'`, retryable: true }
      return new Stop({ status: "paused", result: { ...envelope(this.state), error } })
    }
    const output = valueOf(fixture, call)
    const type = typeof step["output"] === "string" ? types[step["output"]] : undefined
    if (type !== undefined && Result.isFailure(Schema.decodeUnknownResult(type)(output))) {
      this.noted.add("output decoded")
      return failed("OutputInvalid", `'${step["name"]}'`)
    }
    return { ...input, output }
  }

  /** The step that a route leads to, if one is chosen. */
  chosen(step: Json, { output }: Record): string | undefined {
    const subject = { payload: output, text: planRunParts.payloadText(output) }
    for (const target of list(step["routes"])) {
      const description = this.world.predicates?.[`routes:${step["name"]}:${target}`] ?? "never"
      const found = holds(description, subject, this.trace)
      if (found === undefined) throw new Stop({ status: "failed", result: { RAISED: "PlanRuntimeError", message: `Step '${step["name"]}'` } })
      if (found) return String(target)
    }
    const field = step["routes_by"]
    const value = typeof field === "string" && isObject(output) && Object.hasOwn(output, field) ? output[field] : undefined
    if (typeof value !== "string" || V.position(this.steps, value) < 0) return undefined
    this.noted.add("plain routing")
    return value
  }

  /** The step at which the plan continues after a step. */
  route(step: Json, record: Record): void {
    const { branches } = this.state
    const target = this.chosen(step, record)
    this.state.unrouted = undefined
    if (target !== undefined) {
      const rejoin = step["after_branches"]
      if (typeof rejoin === "string") branches.push({ target, rejoin })
      this.state.cursor = target
      return
    }
    const branch = branches.pop()
    if (branch !== undefined && branch.target !== record.step) this.noted.add("rejoin stack")
    const next = this.steps[V.position(this.steps, record.step) + 1]?.["name"]
    this.state.cursor = branch?.rejoin ?? (next === undefined ? undefined : String(next))
  }

  keep(step: Json, record: Record): void {
    this.state.history.push(record)
    const key = step["writes"]
    if (typeof key === "string" && key !== "") this.state.kv[key] = record.output
  }

  /** One turn: a step, or a band as a whole. */
  turn(first: number): void {
    const group = this.band(first)
    const { members } = this.state
    const left = group.filter((step) => !members.has(String(step["name"])))
    if (left.length < group.length) this.noted.add("band resumed")
    const ended = left.map((step) => [step, this.call(step)] as const)
    const stops = ended.flatMap(([, end]) => (end instanceof Stop ? [end] : []))
    for (const [step, end] of ended) if (!(end instanceof Stop)) members.set(String(step["name"]), end)
    const stop = (["done", "paused", "failed"] as const).flatMap((status) => stops.filter((one) => one.status === status))[0]
    if (stop !== undefined) {
      if (!V.isParallel(group[0])) members.clear()
      throw stop
    }
    for (const step of group) {
      const record = members.get(String(step["name"]))
      if (record !== undefined) this.keep(step, record)
    }
    members.clear()
    const last = group.at(-1) ?? {}
    this.state.unrouted = String(last["name"])
    this.routeLast(last)
  }

  routeLast(last: Json): void {
    const record = this.newest(last["name"])
    if (V.isParallel(last)) this.route({ name: record.step }, record)
    else this.route(last, record)
  }

  finish(): V.RunResult {
    const { state } = this
    const max = this.world.plan["max_iterations"]
    if (state.unrouted !== undefined) {
      this.noted.add("route chosen anew")
      this.routeLast(this.steps[V.position(this.steps, state.unrouted)] ?? {})
    }
    while (state.cursor !== undefined) {
      if (state.turns >= (typeof max === "number" ? max : 100)) {
        const error = { type: "MaxIterationsExceeded", message: `'${state.cursor}'`, retryable: false }
        throw new Stop({ status: "failed", result: { ...envelope(state), error } })
      }
      this.turn(V.position(this.steps, state.cursor))
      state.turns += 1
    }
    return envelope(state)
  }

  run(): V.Observed {
    try {
      this.state.status = "running"
      const result = this.finish()
      Object.assign(this.state, { status: "done", ended: result })
      return { trace: this.trace, result }
    } catch (stop) {
      if (!(stop instanceof Stop)) throw stop
      const { result, status } = stop
      Object.assign(this.state, { status, ended: status === "done" ? result : undefined })
      return { trace: this.trace, result }
    }
  }
}

const fresh = (world: V.World, input: Schema.Json | undefined, otherwise: string, noted: Set<Advice>): Run => {
  const state = beginning(input, otherwise, noted)
  const first = V.stepsOf(world.plan)[0]?.["name"]
  state.cursor = first === undefined ? undefined : String(first)
  return new Run(world, state, noted)
}

/** One run: what it comes to, and each advice that was taken. */
export const runOf = (given: V.Running): { readonly expect: V.Observed; readonly noted: ReadonlySet<Advice> } => {
  const noted = new Set<Advice>()
  return { expect: fresh(given, given.input, "seed", noted).run(), noted }
}

/** Runs of many inputs. */
export const manyOf = (given: V.Many) => {
  const noted = new Set<Advice>()
  return { expect: { results: given.run_many.map((input) => fresh(given, input, "", noted).run().result) }, noted }
}

const checkpoint = (state: State): Json => ({
  status: state.status,
  next_step: state.status === "done" ? null : (state.unrouted ?? state.cursor ?? null),
  completed_steps: state.history.map(({ step }) => step),
  // Later phases write to the same object
  kv: { ...state.kv }
})

/** Phases on one key. */
export const phasesOf = (given: V.Phases) => {
  const noted = new Set<Advice>(V.stepsOf(given.plan).length === 0 ? ["empty plan"] : [])
  let state: State | undefined
  const phases = given.phases.map((phase) => {
    const predicates = { ...given.predicates, ...phase.preds }
    const world = { ...given, fixtures: { ...given.fixtures, ...phase.fx }, predicates }
    const resumes = phase.resume === true && state !== undefined
    if (state !== undefined && !resumes && state.status !== "done") {
      return { trace: [], result: { RAISED: "ConcurrentPlanRunError" }, checkpoint: checkpoint(state) }
    }
    if (state !== undefined && resumes && state.status === "done") {
      noted.add("recorded result")
      return { trace: [], result: state.ended ?? envelope(state), checkpoint: checkpoint(state) }
    }
    if (state !== undefined && resumes) {
      if (state.turns > 0 && state.turns >= Number(given.plan["max_iterations"])) noted.add("counter kept")
      if (state.branches.length > 0 || state.history.at(-1)?.step === state.cursor) noted.add("loop state kept")
    }
    const run = state !== undefined && resumes ? new Run(world, state, noted) : fresh(world, phase.input, "go", noted)
    state = run.state
    const { result, trace } = run.run()
    return { trace, result, checkpoint: checkpoint(run.state) }
  })
  return { expect: { phases }, noted }
}
