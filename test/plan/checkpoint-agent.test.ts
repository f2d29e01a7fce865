/** Agents under a key: what holds for plans holds for them, and what they did is not done again. */
import { assert, describe } from "@effect/vitest"
import { Effect, Equal, Fiber, Layer, Option, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Limits, RunContext, VersionedStore } from "effect-emissary"
import { Checkpoint, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import type * as agentTypes from "#src/agent/internal/agentTypes.ts"
import { counting, fails, gate, head, reasonOf, service, testStored } from "./checkpoints.ts"
import { planOf } from "./support.ts"
import { pluck } from "../pluck.ts"
import { decide, decision } from "../decisions.ts"

const key = "order/42"
const begin = { key, input: "Where is a?" }

const Look = Tool.make("look", { parameters: Schema.Struct({ id: Schema.String }), success: Schema.String })
const Pay = Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
const toolkit = Toolkit.make(Look, Pay)
const clerk = Agent.make("clerk", { toolkit })

const looks = (id: string): ScriptedModel.Turn => ({ toolCalls: [{ id, name: "look", params: { id } }] })
const pays: ScriptedModel.Turn = { toolCalls: [{ id: "p", name: "pay", params: { amount: 5 } }] }

type Turns = ReadonlyArray<ScriptedModel.Turn>

interface Begin extends Omit<agentTypes.Options, "decisions"> {
  readonly input?: string
  readonly policy?: "startOrResume"
}

/** A clerk at work under the key: its calls are noted, and `hook` runs inside of `look`. */
const shop = Effect.fnUntraced(function* (hook: Effect.Effect<unknown> = Effect.void) {
  const checkpoint = yield* service
  const ran: Array<string> = []
  const note = (name: string) => Effect.sync(() => void ran.push(name))
  const handlers = toolkit.toLayer({
    look: ({ id }) => Effect.as(Effect.andThen(note(id), hook), `seen ${id}`),
    pay: () => note("pay")
  })
  const layer = (turns: Turns) => Layer.merge(handlers, ScriptedModel.layer(turns))
  return {
    ran,
    layer,
    run: (options: Begin, ...turns: Turns) =>
      Effect.provide(checkpoint.run(clerk, { ...begin, ...options }), layer(turns)),
    resume: (options: Omit<agentTypes.ResumeOptions, "input">, ...turns: Turns) =>
      Effect.provide(checkpoint.resume(clerk, { key, ...options }), layer(turns))
  }
})

const decides = (callId: string) => ({ decisions: [decision(callId)] })

const down: ScriptedModel.Turn = { fail: { reason: "RateLimitError" } }

const transcript = ({ conversation }: { readonly conversation: Conversation.Conversation }) =>
  Conversation.transcript(conversation)

describe("PLAN-6 AGENT-7 an agent under a key", () => {
  testStored("TRUST-4 its conversation has at most maxMessages when it is written and read", function* (checkpoint) {
    const { ran, resume, run } = yield* shop()
    const limited = (maxMessages: number) => Effect.provide(Limits.layer({ maxMessages }))
    const tooLong = run({}, looks("a"), looks("b"), { text: "Here." }).pipe(limited(3))
    assert.strictEqual(yield* fails(tooLong), "CheckpointError Refused")
    assert.deepStrictEqual(ran, ["a"])
    yield* resume({}, looks("b"), { text: "Here." })
    assert.strictEqual(yield* fails(checkpoint.load(clerk, key).pipe(limited(5))), "CheckpointError Unreadable")
    assert.isTrue(Option.isSome(yield* checkpoint.load(clerk, key).pipe(limited(6))))
  })

  testStored("is kept, and returns its result again without running anything", function* (checkpoint) {
    const { ran, resume, run } = yield* shop()
    const first = yield* run({ context: { tenant: "acme" } }, looks("a"), { text: "Here." })
    assert.strictEqual(first.outcome, "Completed")
    assert.strictEqual(first.key, key)
    const found = yield* head(key)
    assert.deepStrictEqual(
      [found.kind, found.name, found.status, found.live, found.iterations, found.digest, found.runId],
      ["agent-run", "clerk", "done", false, 2, first.state.definition, first.state.runId]
    )
    assert.deepStrictEqual(found.outcome, { _tag: "Completed" })
    for (const again of [yield* resume({}), yield* run({ context: { tenant: "acme" }, policy: "startOrResume" })]) {
      assert.isTrue(Equal.equals(again.state, first.state))
      assert.deepStrictEqual([again.text, again.key], [first.text, key])
    }
    const other = run({ input: "Where is b?", policy: "startOrResume" })
    assert.strictEqual(yield* fails(other), "CheckpointError InputDiffers")
    assert.isTrue(Equal.equals(yield* checkpoint.load(clerk, key), Option.some(first.state)))
    assert.deepStrictEqual(first.state.context, { tenant: "acme" })
    assert.strictEqual((yield* head(key)).epoch, 1)
    assert.deepStrictEqual(ran, ["a"])
  })

  testStored("that failed resumes: no call runs again, and no answer is asked for again", function* () {
    const { layer, ran, resume, run } = yield* shop()
    assert.strictEqual(yield* fails(run({}, looks("a"), down)), "AgentError ModelFailed")
    assert.strictEqual((yield* head(key)).status, "failed")
    assert.strictEqual(yield* fails(run({})), "CheckpointError Unfinished")
    const done = yield* resume({}, { text: "Here." })
    const whole = yield* Effect.provide(clerk.run(begin.input), layer([looks("a"), { text: "Here." }]))
    assert.deepStrictEqual(transcript(done), transcript(whole))
    assert.deepStrictEqual(ran, ["a", "a"])
  })

  testStored("resumes with the conversation, the files and the limit that it began with", function* (checkpoint) {
    const { layer, resume } = yield* shop()
    const { conversation } = yield* Effect.provide(clerk.run("Hello"), layer([{ text: "Hi" }]))
    // Nothing of the run was stored but that it was to begin
    const store = yield* VersionedStore.VersionedStore
    let writes = 0
    const dying = {
      ...store,
      compareAndSet: (...args: Parameters<typeof store.compareAndSet>) =>
        Effect.suspend(() => (++writes > 2 ? Effect.die("the process has ended") : store.compareAndSet(...args)))
    }
    const exit = yield* Effect.flatMap(service, (dying) =>
      dying.run(clerk, { ...begin, conversation, maxSteps: 1 })
    ).pipe(
      Effect.provide(Checkpoint.layer().pipe(Layer.provide(Layer.succeed(VersionedStore.VersionedStore, dying)))),
      Effect.provide(layer([looks("a")])),
      Effect.exit
    )
    assert.strictEqual(exit._tag, "Failure")
    yield* TestClock.adjust("1 minute")
    assert.deepStrictEqual(yield* checkpoint.load(clerk, key), Option.none())
    assert.strictEqual(yield* fails(resume(decides("x"))), "AgentError InvalidDecision")
    assert.strictEqual((yield* head(key)).status, "claimed")
    const limited = yield* resume({}, looks("a"))
    assert.strictEqual(limited.outcome, "MaxSteps")
    assert.deepStrictEqual(pluck(transcript(limited), "role"), ["user", "assistant", "user", "assistant"])
    assert.strictEqual((yield* head(key)).status, "failed")
    assert.strictEqual((yield* resume({ maxSteps: 3 }, { text: "Here." })).text, "Here.")
  })

  testStored("waits for approvals, which are decided by a resume", function* () {
    const { ran, resume, run } = yield* shop()
    const waiting = yield* run({}, pays)
    assert(waiting.outcome === "AwaitingApproval")
    const found = yield* head(key)
    assert.deepStrictEqual([found.status, found.outcome?.message], ["paused", `waiting: "pay"`])
    const wrong = resume(decides("x"))
    assert.strictEqual(yield* fails(wrong), "AgentError InvalidDecision")
    assert.strictEqual((yield* head(key)).status, "paused")
    assert.strictEqual((yield* resume({})).outcome, "AwaitingApproval")
    const yes = { decisions: decide(waiting.state) }
    const started = yield* run(Object.assign({ policy: "startOrResume" } as const, yes))
    assert.strictEqual(started.outcome, "AwaitingApproval")
    assert.strictEqual(yield* fails(resume(yes, down)), "AgentError ModelFailed")
    assert.strictEqual(yield* fails(resume({ decisions: decide(waiting.state, false) })), "AgentError InvalidDecision")
    // The same again, as of a process that does not know what became of it
    assert.strictEqual((yield* resume(yes, { text: "Paid." })).text, "Paid.")
    assert.strictEqual((yield* resume(yes)).text, "Paid.")
    assert.deepStrictEqual(ran, ["pay"])
    assert.strictEqual((yield* head(key)).status, "done")
  })

  testStored("is that of one conversation, one context and one agent", function* (checkpoint) {
    const { layer, run } = yield* shop()
    const after = (text: string) => Effect.flatMap(Conversation.make(), Conversation.addUser(text))
    const again = (text: string, tenant: string) =>
      Effect.flatMap(after(text), (conversation) =>
        Effect.provideService(
          run({ conversation, policy: "startOrResume" }, { text: "Here." }),
          RunContext.RunContext,
          {
            tenant
          }
        )
      )
    yield* again("A", "a")
    // Its messages have other ids
    assert.strictEqual((yield* again("A", "a")).text, "Here.")
    for (const other of [
      again("B", "a"),
      again("A", "b"),
      run({ policy: "startOrResume", context: { tenant: "a" } })
    ]) {
      assert.strictEqual(yield* fails(other), "CheckpointError InputDiffers")
    }
    const stranger = Agent.make("stranger", { toolkit })
    assert.strictEqual(yield* fails(checkpoint.load(stranger, key)), "AgentError DefinitionChanged")
    const resumed = Effect.provide(checkpoint.resume(stranger, { key }), layer([]))
    assert.strictEqual(yield* fails(resumed), "AgentError DefinitionChanged")
  })

  testStored("that cannot begin leaves nothing", function* (checkpoint) {
    const { layer, run } = yield* shop()
    const nameless = checkpoint.run(Agent.make(" ", { toolkit }), begin)
    for (const impossible of [run({ input: "" }), Effect.provide(nameless, layer([]))]) {
      assert.match(yield* fails(impossible), /^AgentError/)
      assert.deepStrictEqual(yield* checkpoint.list(), { keys: [], next: Option.none() })
    }
    assert.strictEqual((yield* run({}, { text: "Here." })).text, "Here.")
  })

  testStored("is refused to another definition, failed or done, and stays as it is", function* (checkpoint) {
    const { layer, resume, run } = yield* shop()
    const edited = Agent.make("clerk", { toolkit, instructions: "Be short." })
    const changed = fails(Effect.provide(checkpoint.resume(edited, { key, onChange: "refuse" }), layer([])))
    yield* Effect.flip(run({}, down))
    const none = Effect.provide(checkpoint.resume(clerk, { key: "other" }), layer([]))
    assert.strictEqual(yield* fails(none), "CheckpointError NothingToResume")
    assert.deepStrictEqual(yield* checkpoint.load(clerk, "other"), Option.none())
    yield* Effect.flip(resume({}, down))
    const before = yield* checkpoint.load(clerk, key)
    assert.strictEqual(yield* changed, "AgentError DefinitionChanged")
    assert.strictEqual((yield* head(key)).status, "failed")
    assert.isTrue(Equal.equals(yield* checkpoint.load(clerk, key), before))
    yield* resume({}, { text: "Hi" })
    assert.strictEqual(yield* changed, "AgentError DefinitionChanged")
    assert.strictEqual((yield* head(key)).status, "done")
  })

  testStored("and a plan exclude each other under a key", function* (checkpoint) {
    const { begun, hook, open } = yield* gate
    const { ran, resume, run } = yield* shop(hook)
    const { bound } = yield* counting()
    const running = yield* Effect.forkChild(fails(run({ timeouts: { tool: "1 hour" } }, looks("a"), down)))
    yield* begun
    yield* TestClock.adjust("5 minutes")
    for (const policy of ["start", "startOrResume", "restart"] as const) {
      const taken = checkpoint.run(bound, { key, input: "go", policy })
      assert.strictEqual(yield* fails(taken), "CheckpointError RunActive")
    }
    yield* open
    assert.strictEqual(yield* Fiber.join(running), "AgentError ModelFailed")
    const other = yield* Effect.flip(checkpoint.resume(bound, { key }))
    assert.strictEqual(reasonOf(other), "CheckpointError KindDiffers")
    assert.include(other.message, "expected a run of a plan, got one of an agent")
    assert.strictEqual(yield* fails(checkpoint.load(bound, key)), "CheckpointError KindDiffers")
    yield* checkpoint.run(bound, { key, input: "go", policy: "restart" })
    const plan = yield* head(key)
    assert.deepStrictEqual([plan.kind, plan.status, plan.epoch], ["plan-run", "done", 2])
    assert.strictEqual(yield* fails(resume({})), "CheckpointError KindDiffers")
    assert.deepStrictEqual(ran, ["a"])
  })

  testStored("whose key was taken is stopped, and writes nothing more", function* (checkpoint) {
    const { begun, hook } = yield* gate
    const { ran, run } = yield* shop(hook)
    const victim = yield* Effect.forkChild(fails(run({}, looks("a"))))
    yield* begun
    const store = yield* VersionedStore.VersionedStore
    assert.isTrue(yield* checkpoint.remove(key, { force: true }))
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(yield* Fiber.join(victim), "CheckpointError LeaseLost")
    assert.deepStrictEqual((yield* store.list()).keys, [])
    assert.deepStrictEqual(ran, ["a"])
  })

  testStored("that was interrupted is cancelled; its call is settled and not made again (L6)", function* () {
    const { begun, hook } = yield* gate
    const { ran, resume, run } = yield* shop(hook)
    const fiber = yield* Effect.forkChild(run({}, looks("a")))
    yield* begun
    yield* Fiber.interrupt(fiber)
    assert.strictEqual((yield* head(key)).status, "cancelled")
    const done = yield* resume({}, { expect: { toolResult: "interrupted" }, text: "Lost." })
    assert.strictEqual(done.text, "Lost.")
    assert.deepStrictEqual(ran, ["a"])
  })

  testStored("that was interrupted before it had its message resumes with it", function* (checkpoint) {
    const { resume, run } = yield* shop()
    const { begun, hook } = yield* gate
    const onEvent = ({ event }: Agent.Entry) => (event._tag === "RunStarted" ? Effect.asVoid(hook) : Effect.void)
    const fiber = yield* Effect.forkChild(run({ onEvent }))
    yield* begun
    yield* Fiber.interrupt(fiber)
    // The hook was cut off at the first event, before anything was written.
    assert.deepStrictEqual(yield* checkpoint.load(clerk, key), Option.none())
    const done = yield* resume({}, { text: "Here." })
    assert.deepStrictEqual(pluck(transcript(done), "role"), ["user", "assistant"])
  })

  testStored("streams its events, is cancelled where the reader leaves, resumes as a stream", function* (checkpoint) {
    const { layer, ran } = yield* shop(Effect.never)
    yield* checkpoint.stream(clerk, begin).pipe(
      Stream.takeUntil((event) => event._tag === "ToolStarted"),
      Stream.runDrain,
      Effect.provide(layer([looks("a"), { text: "Never read." }]))
    )
    assert.strictEqual((yield* head(key)).status, "cancelled")
    const resumed = Stream.runCollect(checkpoint.resumeStream(clerk, { key }))
    const last = (yield* Effect.provide(resumed, layer([{ text: "Here." }]))).at(-1)
    assert(last?._tag === "RunFinished")
    assert.strictEqual(last.result.text, "Here.")
    assert.deepStrictEqual(ran, ["a"])
    assert.isTrue(Equal.equals(yield* checkpoint.load(clerk, key), Option.some(last.result.state)))
  })

  testStored("that has agents and plans as tools resumes inside of them", function* (checkpoint) {
    const { layer, ran } = yield* shop()
    const end = Step.make("end", { target: ({ task }) => Effect.succeed(`${task}!`) })
    const plan = yield* planOf({ name: "order" }, Step.make("buy", { target: clerk }), end)
    const desk = Agent.make("desk", {
      toolkit: [
        Agent.asTool(clerk, { name: "ask", description: "Asks" }),
        Agent.asTool(plan, { name: "order", description: "Orders" })
      ]
    })
    const calls = (...names: ReadonlyArray<string>): ScriptedModel.Turn => ({
      toolCalls: names.map((name) => ({ id: name, name, params: { input: "go" } }))
    })
    const model: ScriptedModel.TurnFunction = ({ messages, tools }) => {
      const hasResult = messages.some(({ role }) => role === "tool")
      if (tools.some(({ name }) => name === "pay")) return hasResult ? { text: "paid" } : pays
      return hasResult ? { text: "done" } : calls("ask", "order")
    }
    const layers = Layer.merge(layer([]), ScriptedModel.layer(model))
    const done = yield* Effect.gen(function* () {
      const waiting = yield* checkpoint.run(desk, { key, input: "go" })
      assert(waiting.outcome === "AwaitingApproval")
      assert.deepStrictEqual(pluck(waiting.requests, "path"), [["ask"], ["order", "buy"]])
      const decisions = waiting.requests.map((request) => ({ ...request, approved: true }))
      return yield* checkpoint.resume(desk, { key, decisions })
    }).pipe(Effect.provide(layers))
    assert.strictEqual(done.text, "done")
    assert.deepStrictEqual(ran, ["pay", "pay"])
  })
})
