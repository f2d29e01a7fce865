/** Random agents and plans that note for whom they work, and what is done with sessions of them. */
import { assert } from "@effect/vitest"
import { Effect, Exit, Layer, Option, Schema, Scope } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, RunContext, Run } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import type { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { random } from "../random.ts"
import * as t from "./sessions.ts"

const pay = Tool.make("pay", {
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String,
  needsApproval: true
})

const look = Tool.make("look", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })

const toolkit = Toolkit.make(pay, look)

/** A call of a tool or a step, with its tenant and its message. The text of a message begins with its tenant. */
interface Done {
  readonly what: string
  readonly ran: string
  readonly text: string
}

export const ownerOf = (text: string): string => text.split("#")[0] ?? ""

const none = "-"

/** A hosted agent or plan, the layers below it, and what it did. */
export const makeWorld = Effect.fnUntraced(function* (seed: number) {
  const r = random(seed)
  const done: Array<Done> = []
  const work = (what: string, text: string) =>
    Effect.gen(function* () {
      const { tenant = none } = yield* RunContext.RunContext
      done.push({ what, ran: String(tenant), text })
      if (r.chance(0.7)) yield* Effect.sleep(r.below(8))
      return text
    })
  const failing = (what: string, text: string) =>
    Effect.flatMap(work(what, text), (text) => (r.chance(0.12) ? Effect.fail("down") : Effect.succeed(text)))
  const worker = Agent.make("worker", { toolkit })
  const step = (
    name: string,
    parallel: boolean,
    depth = 0
  ): Effect.Effect<Step.Step<string, string, unknown>, unknown> =>
    Effect.gen(function* () {
      const options = parallel ? { parallel: true as const } : {}
      switch (r.below(depth === 0 ? 5 : 4)) {
        case 0:
          return Step.make(name, { ...options, target: ({ task }) => failing(name, task) })
        case 1:
          return Step.make(name, {
            ...options,
            target: ({ decision, task }) =>
              decision === undefined ? Step.pause(task) : failing(`${name} approved`, task)
          })
        case 2:
          return Step.make(name, { ...options, target: "pay" })
        case 3:
          return Step.make(name, { ...options, target: worker })
        default: {
          const inner = yield* Plan.make(`in-${name}`, [yield* step("x", false, 1), yield* step("y", false, 1)])
          return Step.make(name, { ...options, target: yield* Plan.bind(inner, { toolkit }) })
        }
      }
    }) as Effect.Effect<Step.Step<string, string, unknown>, unknown>
  const makePlan = Effect.gen(function* () {
    const first = r.below(4)
    const steps: Array<Step.Step<string, string, unknown>> = []
    for (let n = 0; n < 4; n++) steps.push(yield* step(`s${n}`, r.chance(0.4) && n >= first))
    const [a, ...others] = steps
    assert(a !== undefined)
    return yield* Plan.bind(yield* Plan.make("hosted", [a, ...others]), { toolkit })
  })
  const model: ScriptedModel.TurnFunction = ({ messages }) => {
    const at = messages.findLastIndex(({ role }) => role === "user")
    const text = messages[at]?.text ?? ""
    const calls = messages.slice(at).filter(({ role }) => role === "tool").length
    if (calls > 1 || r.chance(0.3)) return { text }
    return { toolCalls: [{ name: r.chance(0.6) ? "pay" : "look", params: { text } }] }
  }
  const handlers = toolkit.toLayer({
    pay: ({ text }) => work("PAY", text),
    look: ({ text }) => work("look", text)
  })
  const below = Layer.mergeAll(handlers, ScriptedModel.layer(model))
  const hosted = r.chance(0.2) ? worker : yield* Effect.provide(makePlan, below)
  // Sound: what the steps require is below the sessions
  return { r, done, hosted: hosted as unknown as Agent.Agent<unknown>, below }
})

type World = Effect.Success<ReturnType<typeof makeWorld>>

const approve = (requests: ReadonlyArray<Run.Request>) => requests.filter(Run.isApprovable).map(Run.approve)

/** The text in what a person approves. */
const textIn = ({ arguments: args }: Run.Request): string => {
  const { text, task } = args as { readonly text?: string; readonly task?: string }
  return text ?? task ?? ""
}

/** Does random things with sessions of the world: `open` makes the service of a process, which a deploy replaces. */
export const play = Effect.fnUntraced(function* <E>(
  world: World,
  open: (world: World) => Layer.Layer<Session.Session, E>,
  options: { readonly actions: number; readonly deploys: boolean; readonly forks: boolean }
) {
  const { done, r } = world
  const ids = ["a"]
  const approvals = new Map<string, { readonly text: string; readonly id: string }>()
  const start = Effect.gen(function* () {
    const scope = yield* Scope.make()
    const sessions = yield* Scope.provide(t.sessionsOf(open(world)), scope)
    return { sessions, stop: Scope.close(scope, Exit.void) }
  })
  let process = yield* start
  let count = 0
  const stateOf = (id: string) => Effect.map(process.sessions.state(id), Option.getOrUndefined)
  const quiet = <A, Err>(effect: Effect.Effect<A, Err>) => Effect.timeoutOption(Effect.exit(effect), "2 seconds")
  const decideSome = Effect.fnUntraced(function* (id: string, approved: boolean) {
    const requests = (yield* stateOf(id))?.requests.filter(() => r.chance(0.8)) ?? []
    if (requests.length === 0) return
    const decisions = requests.map((request) => ({ ...request, approved }))
    const decided = yield* Effect.exit(process.sessions.decide(id, decisions))
    if (!approved || Exit.isFailure(decided)) return
    for (const request of requests) {
      const before = approvals.get(request.digest)
      assert(before === undefined || before.id === id, `one digest in ${before?.id} and ${id}`)
      approvals.set(request.digest, { text: textIn(request), id })
    }
    for (const other of ids.filter((one) => one !== id)) {
      const elsewhere = yield* Effect.exit(process.sessions.decide(other, approve(requests)))
      assert.isTrue(Exit.isFailure(elsewhere), `a decision of ${id} counts in ${other}`)
    }
  })
  const act = (id: string): Effect.Effect<unknown, unknown> => {
    switch (r.below(10)) {
      case 0:
        return process.sessions.interrupt(id)
      case 1:
        return process.sessions.resume(id)
      case 2:
      case 3:
        return decideSome(id, r.chance(0.8))
      case 4:
        if (!options.forks || ids.length > 3) return Effect.void
        return Effect.suspend(() => {
          const to = `f${ids.length}`
          return Effect.map(process.sessions.fork(id, { to }), () => ids.push(to))
        })
      case 5:
        if (!options.deploys || r.chance(0.5)) return Effect.void
        return Effect.gen(function* () {
          yield* process.stop
          process = yield* start
        })
      case 6:
        return Effect.sleep(r.below(20))
      default: {
        const tenants = options.forks ? ["A", "B"] : ["A", "B", none]
        const tenant = r.pick(tenants)
        const context = tenant === none ? {} : { context: { tenant } }
        const pending = r.chance(0.2) ? { pending: "deny" as const } : {}
        return process.sessions.send(id, `${tenant}#${++count}`, { ...context, ...pending, messageId: `m${count}` })
      }
    }
  }
  yield* process.sessions.send("a", "A#0", { context: { tenant: "A" } })
  for (let n = 0; n < options.actions; n++) {
    yield* quiet(act(r.pick(ids)))
    if (r.chance(0.5)) yield* Effect.sleep(r.below(12))
  }
  for (const id of ids) {
    const settled = Effect.gen(function* () {
      const state = yield* stateOf(id)
      if (state?.status === "waiting") {
        yield* Effect.exit(
          process.sessions.decide(
            id,
            state.requests.map((request) => ({ ...request, approved: false }))
          )
        )
      }
      return state?.status === "idle"
    })
    yield* t.eventually(settled)
  }
  yield* process.stop
  for (const { ran, text, what } of done) {
    const isOwn = ran === ownerOf(text) || (options.forks && ran === none)
    assert.isTrue(isOwn, `${what} of ${text} ran for ${ran}`)
  }
  const paid = done.filter(({ what }) => what === "PAY")
  for (const { text } of paid) {
    const allowed = Array.from(approvals.values()).filter((one) => one.text === text).length
    const times = paid.filter((one) => one.text === text).length
    assert.isAtMost(times, allowed, `${text} was paid ${times} times`)
  }
  return { done, ids, approvals }
})
