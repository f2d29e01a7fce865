/**
 * Short scripts, each of another kind, for worlds with trouble at each of their steps. Each of them ends with sessions at rest, whose
 * conversations are known: a call that is not idempotent may be lost with its process, and everything else is as it would be without trouble.
 */
import { Effect, Fiber, Layer, Option } from "effect"
import { Agent, Conversation, Message, ModelRegistry, Run, ToolResolver, type VersionedStore } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { Simulation } from "effect-emissary/testing"
import * as agents from "./agents.ts"
import * as clients from "./clients.ts"
import { verdict } from "./laws.ts"

/** A script, and the end that it has to have. */
interface Short {
  readonly layer: Layer.Layer<Session.Session, unknown, agents.Ledger | VersionedStore.VersionedStore>
  readonly play: (world: clients.World, diary: clients.Diary) => Effect.Effect<unknown, unknown, agents.Ledger>
  /** The conversations of sessions, as `saidBy` shows them. */
  readonly wanted: Readonly<Record<string, RegExp>>
  /** Other problems. With this the model is not asked: it knows no plans. */
  readonly check?: (world: clients.World) => Effect.Effect<ReadonlyArray<string>, unknown, agents.Ledger>
}

const timing = { leaseTime: "500 millis", drainTime: "50 millis", idleTime: "2 seconds" } as const

const worker = Session.layer([agents.worker], timing).pipe(Layer.provide(agents.layer))

const session = "a"

/** The calls of one user of the session. */
const userOf = (world: clients.World, diary: clients.Diary, id = session) => {
  const perform = <E extends Session.SessionError>(
    kind: clients.Operation["kind"],
    use: (sessions: Session.Session["Service"]) => Effect.Effect<unknown, E>,
    about: { readonly message?: string; readonly text?: string } = {}
  ) => clients.perform(world, diary, { kind, session: id, ...about }, use)
  return {
    perform,
    send: (message: string, steps = "", options: Session.SendOptions = {}) => {
      const text = `${message}${steps}`
      return perform("send", (sessions) => sessions.send(id, text, { ...options, messageId: message }), {
        message,
        text
      })
    },
    edit: (earlier: string, message: string) => {
      const options = { messageId: earlier, input: message, newMessageId: message }
      return perform("edit", (sessions) => sessions.edit(id, options), { message, text: message })
    }
  }
}

/** Waits until a session is as wanted. */
const until = (world: clients.World, isWanted: (state: Session.State) => boolean) =>
  clients
    .call(world, "state", (sessions) => sessions.state(session))
    .pipe(Effect.delay(20), Effect.repeat({ until: Option.exists(isWanted) }))

const isIdle = ({ status }: Session.State) => status === "idle"

/** A script of one session of the worker. */
const chat = (wanted: RegExp, play: Short["play"]): Short => ({ layer: worker, play, wanted: { [session]: wanted } })

/** Waits until a tool has been started. A call whose process dies just before that never starts. */
const started = Effect.flatMap(agents.Ledger, (ledger) =>
  Effect.repeat(Effect.sleep(5), { until: () => ledger.started.length > 0, times: 200 })
)

const written = ["first", "left", "right", "last"] as const

const job = Effect.gen(function* () {
  const ledger = yield* agents.Ledger
  const step = (name: (typeof written)[number], parallel = false) =>
    Step.make(name, {
      parallel,
      writes: name,
      target: ({ task }) =>
        Effect.gen(function* () {
          ledger.started.push(`again ${name}`)
          yield* Effect.sleep(20)
          ledger.ended.push(`again ${name}`)
          return `${name}(${task})`
        })
    })
  const plan = yield* Plan.make("build", [step("first"), step("left", true), step("right", true), step("last")])
  return Session.layer([yield* Plan.bind(plan)], timing)
})

const [first, last] = ["first(go)", "last(right(first(go)))"]
const expected = JSON.stringify([last, first, `left(${first})`, `right(${first})`, last])

/** The output of the job, which is the text of its answer, and the values that its steps have written. */
const valuesOf = Effect.fnUntraced(function* (world: clients.World) {
  const state = Option.getOrThrow(yield* clients.call(world, "state", (sessions) => sessions.state(session)))
  const answer = Conversation.messages(
    yield* clients.call(world, "history", (sessions) => sessions.history(session))
  ).findLast(({ role }) => role === "assistant")
  const output = state.outcome !== "Completed" ? state.outcome : answer && Message.text(answer)
  const values: Array<unknown> = []
  for (const name of written) {
    const found = yield* clients.call(world, `read ${name}`, (sessions) => sessions.read(name))
    values.push(Option.getOrUndefined(found)?.value)
  }
  return JSON.stringify([output, ...values])
})

const registry = ModelRegistry.layer({
  demo: ModelRegistry.provider({ options: ModelRegistry.Sampling, model: () => agents.model })
})

const definitions = Session.layer([], { ...timing, definitions: Agent.decode }).pipe(
  Layer.provide([registry, Layer.provide(ToolResolver.layerToolkit(agents.toolkit), agents.handlers)])
)

const call = /tool once (?:success|interrupted)/.source
const answer = /assistant 1/.source

/** The scripts, by name. */
export const scripts = {
  chat: chat(new RegExp(`^user m1, ${answer}, user m2, ${answer}$`), (world, diary) => {
    const { send } = userOf(world, diary)
    return Effect.andThen(send("m1"), send("m2"))
  }),
  tool: chat(new RegExp(`^user m1, ${answer}, ${call}, ${answer}$`), (world, diary) =>
    userOf(world, diary).send("m1", "|once")
  ),
  approval: chat(/^user m1, assistant 1, tool pay (?:success|interrupted), assistant 1$/, (world, diary) =>
    Effect.gen(function* () {
      const { perform, send } = userOf(world, diary)
      yield* send("m1", "|pay")
      const found = yield* until(world, ({ status }) => status === "waiting")
      const decisions = Option.getOrThrow(found).requests.filter(Run.isApprovable).map(Run.approve)
      diary.operations.push({ kind: "decide", session, decisions, began: diary.ticks++ })
      yield* perform("decide", (sessions) => sessions.decide(session, decisions))
    })
  ),
  edit: chat(new RegExp(`^user m1, ${answer}, ${call}, ${answer}, user m3, ${answer}$`), (world, diary) =>
    Effect.gen(function* () {
      const { edit, send } = userOf(world, diary)
      yield* send("m1", "|once")
      yield* send("m2")
      yield* edit("m2", "m3")
    })
  ),
  fork: {
    layer: worker,
    play: (world, diary) =>
      Effect.gen(function* () {
        const { perform, send } = userOf(world, diary)
        yield* send("m1")
        yield* until(world, isIdle)
        yield* perform("fork", (sessions) => sessions.fork(session, { to: "b" }), { message: "b" })
        yield* userOf(world, diary, "b").send("m2")
      }),
    wanted: {
      [session]: new RegExp(`^user m1, ${answer}$`),
      b: new RegExp(`^user m1, ${answer}, user m2, ${answer}$`)
    }
  },
  job: {
    layer: Layer.unwrap(job),
    play: (world) =>
      clients.call(world, "send", (sessions) => sessions.send(session, "go", { messageId: "m1", agent: "build" })),
    wanted: {},
    check: (world) =>
      Effect.gen(function* () {
        const { ended } = yield* agents.Ledger
        const missing = written.filter((name) => !ended.includes(`again ${name}`))
        const found = yield* valuesOf(world)
        return [
          ...missing.map((name) => `the step ${name} never ran to its end`),
          ...(found === expected ? [] : [`expected ${expected}, got ${found}`])
        ]
      })
  },
  definition: {
    layer: definitions,
    play: (world, diary) =>
      Effect.gen(function* () {
        const agent = Agent.make("worker", { model: "demo/small", instructions: "You work.", toolkit: agents.toolkit })
        const definition = yield* Agent.encode(agent)
        const { send } = userOf(world, diary)
        yield* send("m1", "|once", { definition })
        yield* until(world, isIdle)
        yield* send("m2")
      }),
    wanted: { [session]: new RegExp(`^user m1, ${answer}, ${call}, ${answer}, user m2, ${answer}$`) }
  },
  remove: chat(new RegExp(`^user m2, ${answer}$`), (world, diary) =>
    Effect.gen(function* () {
      const { perform, send } = userOf(world, diary)
      yield* send("m1", "|again")
      yield* perform("remove", (sessions) => sessions.remove(session))
      yield* send("m2")
      yield* until(world, isIdle)
    })
  ),
  // Where the process dies twice, the user stops waiting for the call and interrupts the turn before it
  interrupt: chat(
    new RegExp(`^user m1(?:, ${answer}(?:, ${call}(?:, ${answer})?)?)?, user m2, ${answer}$`),
    (world, diary) =>
      Effect.gen(function* () {
        const { perform, send } = userOf(world, diary)
        yield* send("m1", "|once")
        yield* started
        yield* perform("interrupt", (sessions) => sessions.interrupt(session))
        yield* send("m2")
        yield* until(world, isIdle)
      })
  ),
  withdraw: chat(new RegExp(`^user m1, ${answer}, ${call}, ${answer}(?:, user m2, ${answer})?$`), (world, diary) =>
    Effect.gen(function* () {
      const { perform, send } = userOf(world, diary)
      yield* send("m1", "|once")
      yield* send("m2")
      yield* perform("withdraw", (sessions) => sessions.withdraw(session, "m2"), { message: "m2" })
    })
  )
} satisfies Record<string, Short>

export type Name = keyof typeof scripts

export const names = Object.keys(scripts) as ReadonlyArray<Name>

/** Where the sessions are: in a process whose store knows nothing of processes, or which of them live. */
export const homes = ["leases", "processes"] as const

export type Home = (typeof homes)[number]

/** Runs a script with trouble at these places. */
export const run = (
  name: Name,
  at: ReadonlyArray<Simulation.TroubleAt>,
  options: { readonly home?: Home; readonly compare?: boolean } = {}
): Effect.Effect<Simulation.Report, Simulation.SimulationError> => {
  const { check, layer, play, wanted }: Short = scripts[name]
  const { compare = false, home = "leases" } = options
  return Simulation.run(layer, {
    processes: 1,
    trouble: { at, store: { knowsProcesses: home === "processes" } },
    seeds: [1],
    compare,
    maxTurns: 50_000,
    outside: agents.Ledger.layer,
    script: (world) =>
      Effect.gen(function* () {
        const diary = clients.emptyDiary()
        const reading = yield* Effect.forkChild(clients.follow(world, diary, session))
        yield* play(world, diary)
        const states = yield* clients.rest(world, diary)
        for (const [id, { sequence }] of states) yield* clients.readAll(world, diary, { session: id, sequence })
        const problems = yield* check === undefined ? Effect.succeed([]) : check(world)
        for (const [id, pattern] of Object.entries(wanted)) {
          const history = yield* clients.call(world, "history", (sessions) => sessions.history(id))
          const said = clients.saidBy(history).slice(1).join(", ")
          if (!pattern.test(said))
            diary.problems.push(`${id}: expected the conversation ${pattern.source}, got ${said}`)
        }
        yield* Fiber.interrupt(reading)
        const { ended, started } = yield* agents.Ledger
        const effects = { started: [...started], ended: [...ended] }
        const judged = check === undefined ? verdict(diary, effects) : diary.problems
        const all = [...problems, ...judged]
        if (all.length > 0) return yield* Effect.fail(all.join("\n"))
      })
  })
}
