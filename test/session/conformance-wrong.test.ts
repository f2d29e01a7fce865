/** The suite of sessions refuses what is wrong: sessions in memory with one mistake each. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Ref, Result, Semaphore, Stream } from "effect"
import { Conversation, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import type { Conformance } from "effect-emissary/testing"
import * as t from "./sessions.ts"
import * as suite from "./suite.ts"

type Service = Session.Service

type Change = (right: Service) => Partial<Service>

const withService = (change: Change) =>
  Layer.effect(
    Session.Session,
    Effect.map(Session.Session, (right) => ({ ...right, ...change(right) }))
  )

const busy = (id: string) => new Session.SessionError({ id, reason: { _tag: "Busy", status: "running" } })

/** The receipt of a command that does nothing. */
const receipt: Session.Receipt = { sequence: 1, cursor: "a.1" }

const isBusy = (right: Service, id: string) =>
  Effect.map(
    right.state(id),
    Option.exists(({ status }) => status === "running")
  )

const withId =
  (f: (id: string) => string): Change =>
  (right) => ({
    send: (id, input, options) => right.send(f(id), input, options),
    decide: (id, decisions) => right.decide(f(id), decisions),
    resume: (id) => right.resume(f(id)),
    interrupt: (id) => right.interrupt(f(id)),
    events: (id, options) => right.events(f(id), options),
    state: (id) => right.state(f(id)),
    history: (id) => right.history(f(id)),
    remove: (id) => right.remove(f(id))
  })

const changedState =
  (f: (state: Session.State) => Session.State): Change =>
  (right) => ({ state: (id) => Effect.map(right.state(id), Option.map(f)) })

const changedEvents =
  (f: (events: ReturnType<Service["events"]>) => ReturnType<Service["events"]>): Change =>
  (right) => ({ events: (id, options) => f(right.events(id, options)) })

/** The mistake, the rule that finds it, and the problem that the rule names. */
const wrong: ReadonlyArray<readonly [name: string, rule: string, problem: RegExp, change: Change]> = [
  [
    "send returns when the answer is there",
    "stored before the model answers",
    /expected send to return before the model answers/,
    (right) => ({
      send: (id, input, options) =>
        Effect.tap(right.send(id, input, options), () =>
          Effect.repeat(Effect.delay(isBusy(right, id), "5 millis"), { while: (busy) => busy })
        )
    })
  ],
  [
    "the receipt has the number of another event",
    "stored before the model answers",
    /event 2: expected the message, got RunEvent/,
    (right) => ({
      send: (id, input, options) =>
        Effect.map(right.send(id, input, options), (receipt) => ({ ...receipt, sequence: receipt.sequence + 1 }))
    })
  ],
  [
    "the id of a message is not that of the sender",
    "stored before the model answers",
    /the id in the receipt: expected "m"/,
    (right) => ({
      send: (id, input, options) => right.send(id, input, { ...options, messageId: undefined })
    })
  ],
  [
    "a message that is sent again is another one",
    "is not stored again",
    /expected/,
    (right) => ({
      send: (id, input, options) =>
        Effect.flatMap(right.state(id), (found) =>
          right.send(id, input, {
            ...options,
            messageId: `${options?.messageId}${Option.isSome(found) ? found.value.sequence : 0}`
          })
        )
    })
  ],
  [
    "a message with the id of another one is taken for that",
    "is not stored again",
    /another text: expected InputDiffers, got the success/,
    (right) => ({
      send: (id, input, options) => right.send(id, input === "another text" ? "note a" : input, options)
    })
  ],
  [
    "a message leaves the calls that wait",
    "denied by a message with pending",
    /answer: expected "b"/,
    (right) => ({ send: (id, input, options) => right.send(id, input, { ...options, pending: "keep" }) })
  ],
  [
    "an interruption leaves the calls that wait",
    "denied by a message with pending",
    /interrupt: expected true, got false/,
    (right) => ({
      interrupt: (id) =>
        Effect.flatMap(right.state(id), (found) =>
          Option.exists(found, ({ status }) => status === "waiting") ? Effect.succeed(receipt) : right.interrupt(id)
        )
    })
  ],
  [
    "a caller that does not wait waits",
    'whenBusy: "reject"',
    /the second message: expected Busy, got the success/,
    (right) => ({ send: (id, input, options) => right.send(id, input, { ...options, whenBusy: "queue" }) })
  ],
  [
    "a refused message is stored",
    'whenBusy: "reject"',
    /events and queue: expected/,
    (right) => ({
      send: Effect.fnUntraced(function* (id, input, options) {
        const refused = options?.whenBusy === "reject" && (yield* isBusy(right, id))
        const receipt = yield* right.send(id, input, { ...options, whenBusy: "queue" })
        return yield* refused ? Effect.fail(busy(id)) : Effect.succeed(receipt)
      })
    })
  ],
  [
    "the queue is not shown",
    "one after the other",
    /queue: expected \["b","c"\], got \[\]/,
    changedState((state) => ({ ...state, queue: [] }))
  ],
  [
    "a message in a turn is refused",
    "one after the other",
    /Busy/,
    (right) => ({ send: (id, input, options) => right.send(id, input, { ...options, whenBusy: "reject" }) })
  ],
  [
    "files are left out",
    "the parts of a message",
    /input: expected/,
    (right) => ({
      send: (id, input, options) =>
        right.send(
          id,
          Array.isArray(input) ? input.flatMap((part) => (part.type === "text" ? part.text : [])).join("") : input,
          options
        )
    })
  ],
  [
    "an empty message is taken for another one",
    "the parts of a message",
    /an empty message: expected InputInvalid/,
    (right) => ({ send: (id, input, options) => right.send(id, input === "" ? "reply nothing" : input, options) })
  ],
  [
    "a session changes its agent",
    "the agent of its first message",
    /another agent: expected AgentDiffers/,
    (right) => ({
      send: (id, input, options) =>
        Effect.flatMap(right.state(id), (found) =>
          right.send(id, input, Option.isSome(found) ? { ...options, agent: undefined } : options)
        )
    })
  ],
  [
    "any agent is taken where several are there",
    "the agent of its first message",
    /expected AgentUnknown/,
    (right) => ({
      send: (id, input, options) =>
        Effect.flatMap(right.state(id), (found) =>
          right.send(id, input, Option.isSome(found) ? options : { ...options, agent: options?.agent ?? "conformance" })
        )
    })
  ],
  [
    "the context is lost",
    "each turn has the context",
    /context: expected/,
    (right) => ({ send: (id, input, options) => right.send(id, input, { ...options, context: undefined }) })
  ],
  [
    "a change of the title is lost",
    "a title and metadata",
    /details: expected/,
    (right) => ({
      update: (id, { title, ...rest }) => right.update(id, title === "Order 43" ? rest : { title, ...rest })
    })
  ],
  [
    "a list has no filters",
    "a list has pages",
    /by status: expected/,
    (right) => ({
      list: ({ after, limit, prefix } = {}) => right.list({ after, limit, prefix })
    })
  ],
  ["ids are compared without case", "each id is that of another", /expected/, withId((id) => id.toLowerCase())],
  ["ids are trimmed", "each id is that of another", /expected/, withId((id) => id.trim())],
  ["ids are normalized", "each id is that of another", /expected/, withId((id) => id.normalize("NFC"))],
  [
    "an absent session has an empty history",
    "begins with its first message",
    /history: expected NotFound/,
    (right) => ({
      history: (id) => Effect.catch(right.history(id), () => Effect.succeed(Conversation.empty))
    })
  ],
  [
    "reading a session makes it",
    "begins with its first message",
    /history: expected NotFound|state: expected/,
    (right) => ({
      state: (id) =>
        Effect.andThen(
          Effect.ignore(right.send(id, "reply x", { agent: "conformance", messageId: "x" })),
          right.state(id)
        )
    })
  ],
  [
    "a reader always begins with the first event",
    "a reader continues after any event",
    /the events after 1: expected/,
    (right) => ({ events: (id) => right.events(id) })
  ],
  [
    "a reader gets the event that it names again",
    "a reader continues after any event",
    /the events after 1: expected/,
    (right) => ({
      events: (id, { after = "" } = {}) => {
        const sequence = Number(after.split(".").at(-1))
        return right.events(id, { after: t.cursorAt(after, Math.max(0, sequence - 1)) })
      }
    })
  ],
  [
    "numbers begin with 0",
    "a reader continues after any event",
    /sequence: expected/,
    changedEvents(Stream.map(({ sequence, ...entry }) => ({ ...entry, sequence: sequence - 1 })))
  ],
  [
    "a reader sees what is stored, and nothing that happens",
    "sees every event once",
    /expected the last message at a reader/,
    (right) => ({
      events: (id, options) =>
        Stream.unwrap(
          Effect.map(right.state(id), (found) => {
            const last = Option.match(found, { onNone: () => 0, onSome: ({ sequence }) => sequence })
            const count = Math.max(0, last - Number(options?.after ?? 0))
            const stored = right.events(id, options).pipe(Stream.take(count))
            return options?.after === undefined ? Stream.concat(stored, Stream.never) : right.events(id, options)
          })
        )
    })
  ],
  [
    "a reader misses an event",
    "sees every event once",
    /sequence: expected/,
    changedEvents(Stream.filter(({ sequence }) => sequence !== 15))
  ],
  [
    "a reader sees an event twice",
    "sees every event once",
    /sequence: expected/,
    changedEvents(Stream.flatMap((entry) => Stream.fromIterable(entry.sequence === 15 ? [entry, entry] : [entry])))
  ],
  [
    "a slow reader holds up the session",
    "does not read holds up no turn",
    /expected answers while a reader waits/,
    (right) => {
      const gate = Semaphore.makeUnsafe(1)
      return {
        send: (id, input, options) => gate.withPermit(right.send(id, input, options)),
        events: (id, options) =>
          options?.after !== undefined
            ? right.events(id, options)
            : Stream.unwrap(Effect.as(gate.take(1), right.events(id, options))).pipe(
                Stream.ensuring(Effect.asVoid(gate.release(1)))
              )
      }
    }
  ],
  [
    "a reader that leaves ends the turn",
    "a caller that leaves",
    /history: expected/,
    (right) => ({
      events: (id, options) => Stream.ensuring(right.events(id, options), Effect.ignore(right.interrupt(id)))
    })
  ],
  [
    "the steps are those of the last turn",
    "fold to the history and to the state",
    /state: expected/,
    changedState((state) => ({ ...state, steps: 1 }))
  ],
  [
    "the history is cut off",
    "a long session",
    /messages: expected 120, got/,
    (right) => ({
      history: (id) =>
        Effect.map(right.history(id), (conversation) =>
          Result.getOrElse(
            Conversation.fromMessages(Conversation.messages(conversation).slice(-100)),
            () => Conversation.empty
          )
        )
    })
  ],
  [
    "a decision counts for whatever waits",
    "runs once it is approved",
    /a decision with .*: expected InvalidDecision/,
    (right) => ({
      decide: (id, decisions) =>
        Effect.flatMap(right.state(id), (found) => {
          const [request] = Option.isSome(found) ? found.value.requests : []
          return right.decide(
            id,
            decisions.map((one) => ({ ...one, ...request }))
          )
        })
    })
  ],
  [
    "decisions are stored one by one",
    "runs once it is approved",
    /events: expected/,
    (right) => ({
      decide: (id, decisions) =>
        Effect.as(
          Effect.forEach(decisions, (one) => right.decide(id, [one])),
          receipt
        )
    })
  ],
  [
    "a decision that comes again is refused",
    "runs once it is approved",
    /expected|InvalidDecision/,
    (right) => ({
      decide: (id, decisions) =>
        Effect.flatMap(right.state(id), (found) =>
          Option.exists(found, ({ requests }) => requests.length === 0)
            ? Effect.fail(busy(id))
            : right.decide(id, decisions)
        )
    })
  ],
  [
    "a denial runs the call",
    "denied never runs",
    /calls: expected \[\]/,
    (right) => ({
      decide: (id, decisions) =>
        right.decide(
          id,
          decisions.map((one) => ({ ...one, approved: true }))
        )
    })
  ],
  [
    "the reason of a denial is lost",
    "denied never runs",
    /history: expected/,
    (right) => ({
      decide: (id, decisions) =>
        right.decide(
          id,
          decisions.map((one) => ({ ...one, reason: undefined }))
        )
    })
  ],
  [
    "requests inside of agents have no path",
    "decided by its path",
    /the path of the request: expected 1/,
    changedState((state) => ({ ...state, requests: state.requests.map(({ path: _, ...request }) => request) }))
  ],
  [
    "an interruption is only asked for",
    "an interruption ends the turn",
    /turns that ended when interrupt returned/,
    (right) => ({
      interrupt: (id) =>
        Effect.flatMap(isBusy(right, id), (isBusy) =>
          isBusy
            ? Effect.as(Effect.forkDetach(Effect.delay(right.interrupt(id), "100 millis")), {
                ...receipt,
                isInterrupted: true as const
              })
            : right.interrupt(id)
        )
    })
  ],
  [
    "an interruption without a turn is one",
    "an interruption ends the turn",
    /interrupt without a turn: expected false/,
    (right) => ({
      interrupt: (id) => Effect.map(right.interrupt(id), (receipt) => ({ ...receipt, isInterrupted: true }))
    })
  ],
  [
    "resume does nothing",
    "a turn that fails",
    /expected the resumed turn to end/,
    () => ({ resume: () => Effect.succeed(receipt) })
  ],
  [
    "a failure is not shown",
    "a turn that fails",
    /failure: expected/,
    changedState(({ failure: _, ...state }) => state)
  ],
  [
    "a cursor of a removed session is one of the next session",
    "a removed session is gone",
    /events after a cursor of the removed session: expected EventsUnknown/,
    (right) => ({
      events: (id, { after } = {}) =>
        Stream.unwrap(
          Effect.map(right.state(id), (found) => {
            const sequence = Number((after ?? "0").split(".").at(-1))
            const { cursor } = Option.getOrThrow(found)
            return right.events(id, { after: t.cursorAt(cursor, sequence) })
          })
        )
    })
  ],
  [
    "a removed session is only hidden",
    "a removed session is gone",
    /the number of the first event: expected 1/,
    (right) => {
      const hidden = new Set<string>()
      const unless = <A, E>(id: string, otherwise: A | Effect.Effect<A, E>, effect: Effect.Effect<A, E>) =>
        Effect.suspend(() =>
          hidden.has(id) ? (Effect.isEffect(otherwise) ? otherwise : Effect.succeed(otherwise)) : effect
        )
      const notFound = (id: string) => Effect.fail(new Session.SessionError({ id, reason: { _tag: "NotFound" } }))
      return {
        send: (id, input, options) =>
          Effect.suspend(() => {
            hidden.delete(id)
            return right.send(id, input, { ...options, messageId: undefined })
          }),
        state: (id) => unless(id, Option.none(), right.state(id)),
        history: (id) => unless(id, notFound(id), right.history(id)),
        remove: (id) =>
          unless(
            id,
            false,
            Effect.sync(() => (hidden.add(id), true))
          )
      }
    }
  ]
]

const run = (check: Effect.Effect<void, Conformance.ConformanceError>) =>
  Effect.map(Effect.flip(check), ({ message }) => message)

describe("DUR-1 the suite of sessions refuses sessions where", () => {
  for (const [name, rule, problem, change] of wrong) {
    it.live(name, () =>
      Effect.gen(function* () {
        const checks = suite
          .session(
            "wrong",
            (agents) =>
              withService(change).pipe(Layer.provide(Session.layer(agents)), Layer.provide(VersionedStore.layerMemory)),
            { durable: false, limit: "2 seconds" }
          )
          .filter((check) => check.name.includes(rule))
        assert.strictEqual(checks.length, 1, rule)
        for (const { check } of checks) assert.match(yield* run(check), problem)
      })
    )
  }

  const lasting = (layer: Parameters<typeof suite.session>[1], rule: string): ReadonlyArray<Conformance.Check> =>
    suite.session("wrong", layer, { limit: "4 seconds" }).filter((check) => check.name.includes(rule))

  it.live("they end with their layer", () =>
    Effect.gen(function* () {
      const forgetful = lasting(
        (agents) => Layer.provide(Session.layer(agents), Layer.fresh(VersionedStore.layerMemory)),
        "layer is built again"
      )
      assert.strictEqual(forgetful.length, 1)
      for (const { check } of forgetful) assert.match(yield* run(check), /state: expected a session, got none/)
    })
  )

  it.live("turns are interrupted with their layer", () =>
    Effect.gen(function* () {
      const store = Layer.succeedContext(yield* Layer.build(VersionedStore.layerMemory))
      const impatient = (agents: suite.Agents) =>
        Layer.effect(
          Session.Session,
          Effect.gen(function* () {
            const right = yield* Session.Session
            const used = yield* Ref.make<ReadonlySet<string>>(new Set())
            yield* Effect.addFinalizer(() =>
              Effect.flatMap(Ref.get(used), (ids) =>
                Effect.forEach(ids, (id) => Effect.ignore(right.interrupt(id)), { discard: true })
              )
            )
            return {
              ...right,
              send: (id: string, input: Session.Input, options?: Session.SendOptions) =>
                Effect.andThen(
                  Ref.update(used, (ids) => new Set([...ids, id])),
                  right.send(id, input, options)
                )
            }
          })
        ).pipe(Layer.provide(Session.layer(agents)), Layer.provide(store))
      const checks = lasting(impatient, "cut off by the end of the layer")
      assert.strictEqual(checks.length, 1)
      for (const { check } of checks) assert.match(yield* run(check), /answer: expected "a"/)
    })
  )

  it.live("a tool call runs again in the next layer", () =>
    Effect.gen(function* () {
      const store = Layer.succeedContext(yield* Layer.build(VersionedStore.layerMemory))
      // A client that is not sure sends what it sent again, as another message
      const sent: Array<readonly [string, Session.Input, Session.SendOptions | undefined]> = []
      const eager = (agents: suite.Agents) =>
        Layer.effect(
          Session.Session,
          Effect.gen(function* () {
            const right = yield* Session.Session
            for (const [id, input, options] of sent.splice(0)) {
              yield* Effect.ignore(right.send(id, input, { ...options, messageId: undefined }))
            }
            return {
              ...right,
              send: (id: string, input: Session.Input, options?: Session.SendOptions) =>
                Effect.tap(right.send(id, input, options), () =>
                  Effect.sync(() => void sent.push([id, input, options]))
                )
            }
          })
        ).pipe(Layer.provide(Session.layer(agents)), Layer.provide(store))
      const checks = lasting(eager, "does not run twice")
      assert.strictEqual(checks.length, 1)
      for (const { check } of checks) assert.match(yield* run(check), /calls: expected \["hold a"\]/)
    })
  )
})
