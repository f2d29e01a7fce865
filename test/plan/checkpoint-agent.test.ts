/** Agents under a key: what holds for plans holds for them, and what they did is not done again. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Equal, Fiber, Layer, Option, Ref, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, type Run, VersionedStore } from "effect-emissary"
import { Checkpoint, Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { counting, head, layer, service } from "./checkpoints.ts"
import { pluck } from "../pluck.ts"
import { testWith } from "../test.ts"

const testStored = testWith(layer())

const key = "order/42"

const Look = Tool.make("look", { parameters: Schema.Struct({ id: Schema.String }), success: Schema.String })
const Pay = Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
const toolkit = Toolkit.make(Look, Pay)
const clerk = Agent.make("clerk", { toolkit })

const looks = (id: string): ScriptedModel.Turn => ({ toolCalls: [{ id, name: "look", params: { id } }] })
const pays: ScriptedModel.Turn = { toolCalls: [{ id: "p", name: "pay", params: { amount: 5 } }] }

/** Handlers that note each call; `hook` runs inside of `look`. */
const shop = Effect.fnUntraced(function* (hook: Effect.Effect<unknown> = Effect.void) {
  const ran = yield* Ref.make<ReadonlyArray<string>>([])
  const note = (name: string) => Ref.update(ran, (names) => [...names, name])
  const handlers = toolkit.toLayer({
    look: ({ id }) => Effect.as(Effect.andThen(note(id), hook), `seen ${id}`),
    pay: () => note("pay")
  })
  const with_ = (...turns: ReadonlyArray<ScriptedModel.Turn>) => Layer.merge(handlers, ScriptedModel.layer(turns))
  return { ran: Ref.get(ran), with: with_ }
})

const down: ScriptedModel.Turn = { fail: { reason: "RateLimitError" } }

const transcript = ({ conversation }: { readonly conversation: Conversation.Conversation }) =>
  Conversation.transcript(conversation)

const tagOf = (error: { readonly _tag: string; readonly reason: { readonly _tag: string } }) =>
  `${error._tag} ${error.reason._tag}`

const failsWith = <A, E extends Parameters<typeof tagOf>[0], R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), tagOf)

describe("PLAN-6 AGENT-7 an agent under a key", () => {
  testStored("is kept, and returns its result again without running anything", function* () {
    const checkpoint = yield* service
    const { ran, ...shopping } = yield* shop()
    const model = shopping.with(looks("a"), { text: "Here." })
    yield* Effect.gen(function* () {
      const first = yield* checkpoint.run(clerk, { key, input: "Where is a?", context: { tenant: "acme" } })
      assert.strictEqual(first.outcome, "Completed")
      assert.strictEqual(first.key, key)
      const found = yield* head(key)
      assert.deepStrictEqual(
        [found.kind, found.name, found.status, found.live, found.iterations, found.digest, found.runId],
        ["agent-run", "clerk", "done", false, 2, first.state.definition, first.state.runId]
      )
      assert.deepStrictEqual(found.outcome, { _tag: "Completed" })
      const input = "Where is a?"
      for (const again of [
        yield* checkpoint.resume(clerk, { key }),
        yield* checkpoint.run(clerk, { key, input, policy: "startOrResume" })
      ]) {
        assert.isTrue(Equal.equals(again.state, first.state))
        assert.deepStrictEqual([again.text, again.key], [first.text, key])
      }
      const other = checkpoint.run(clerk, { key, input: "Where is b?", policy: "startOrResume" })
      assert.strictEqual(yield* failsWith(other), "CheckpointError InputDiffers")
      assert.isTrue(Equal.equals(yield* checkpoint.load(clerk, key), Option.some(first.state)))
      assert.deepStrictEqual(first.state.context, { tenant: "acme" })
      assert.strictEqual((yield* head(key)).epoch, 1)
    }).pipe(Effect.provide(model))
    assert.deepStrictEqual(yield* ran, ["a"])
  })

  testStored("that failed resumes: no call runs again, and no answer is asked for again", function* () {
    const checkpoint = yield* service
    const { ran, ...shopping } = yield* shop()
    const failed = checkpoint.run(clerk, { key, input: "Where is a?" })
    assert.strictEqual(
      yield* failsWith(Effect.provide(failed, shopping.with(looks("a"), down))),
      "AgentError ModelFailed"
    )
    assert.strictEqual((yield* head(key)).status, "failed")
    const again = Effect.provide(failed, shopping.with())
    assert.strictEqual(yield* failsWith(again), "CheckpointError Unfinished")
    const done = yield* Effect.provide(checkpoint.resume(clerk, { key }), shopping.with({ text: "Here." }))
    const whole = yield* Effect.provide(clerk.run("Where is a?"), shopping.with(looks("a"), { text: "Here." }))
    assert.deepStrictEqual(transcript(done), transcript(whole))
    assert.deepStrictEqual(yield* ran, ["a", "a"])
  })

  testStored("resumes with the conversation, the files and the limit that it began with", function* () {
    const checkpoint = yield* service
    const { with: model } = yield* shop()
    const { conversation } = yield* Effect.provide(clerk.run("Hello"), model({ text: "Hi" }))
    // Nothing of the run was stored but that it was to begin
    const store = yield* VersionedStore.VersionedStore
    let writes = 0
    const dying = {
      ...store,
      compareAndSet: (...args: Parameters<typeof store.compareAndSet>) =>
        Effect.suspend(() => (++writes > 2 ? Effect.die("the process has ended") : store.compareAndSet(...args)))
    }
    const exit = yield* Effect.flatMap(service, (dying) =>
      dying.run(clerk, { key, input: "Where is a?", conversation, maxSteps: 1 })
    ).pipe(
      Effect.provide(Checkpoint.layer().pipe(Layer.provide(Layer.succeed(VersionedStore.VersionedStore, dying)))),
      Effect.provide(model(looks("a"))),
      Effect.exit
    )
    assert.strictEqual(exit._tag, "Failure")
    yield* TestClock.adjust("1 minute")
    assert.deepStrictEqual(yield* checkpoint.load(clerk, key), Option.none())
    const limited = yield* Effect.provide(checkpoint.resume(clerk, { key }), model(looks("a")))
    assert.strictEqual(limited.outcome, "MaxSteps")
    assert.deepStrictEqual(pluck(transcript(limited), "role"), ["user", "assistant", "user", "assistant"])
    assert.strictEqual((yield* head(key)).status, "failed")
    const done = yield* Effect.provide(checkpoint.resume(clerk, { key, maxSteps: 3 }), model({ text: "Here." }))
    assert.strictEqual(done.text, "Here.")
  })

  testStored("waits for approvals, which are decided by a resume", function* () {
    const checkpoint = yield* service
    const { ran, ...shopping } = yield* shop()
    const waiting = yield* Effect.provide(checkpoint.run(clerk, { key, input: "Pay" }), shopping.with(pays))
    assert(waiting.outcome === "AwaitingApproval")
    const found = yield* head(key)
    assert.deepStrictEqual([found.status, found.outcome?.message], ["paused", `waiting: "pay"`])
    const wrong = checkpoint.resume(clerk, { key, decisions: [{ callId: "x", approved: true }] })
    assert.strictEqual(yield* failsWith(Effect.provide(wrong, shopping.with())), "AgentError InvalidDecision")
    assert.strictEqual((yield* head(key)).status, "paused")
    const same = yield* Effect.provide(checkpoint.resume(clerk, { key }), shopping.with())
    assert.strictEqual(same.outcome, "AwaitingApproval")
    const decisions = [{ callId: "p", approved: true }]
    const done = yield* Effect.provide(checkpoint.resume(clerk, { key, decisions }), shopping.with({ text: "Paid." }))
    assert.strictEqual(done.text, "Paid.")
    assert.deepStrictEqual(yield* ran, ["pay"])
    assert.strictEqual((yield* head(key)).status, "done")
  })

  testStored("is refused to another definition, failed or done, and stays as it is", function* () {
    const checkpoint = yield* service
    const { with: model } = yield* shop()
    const edited = Agent.make("clerk", { toolkit, instructions: "Be short." })
    const resume = failsWith(Effect.provide(checkpoint.resume(edited, { key }), model()))
    yield* Effect.flip(Effect.provide(checkpoint.run(clerk, { key, input: "Hello" }), model(down)))
    const none = Effect.provide(checkpoint.resume(clerk, { key: "other" }), model())
    assert.strictEqual(yield* failsWith(none), "CheckpointError NothingToResume")
    assert.deepStrictEqual(yield* checkpoint.load(clerk, "other"), Option.none())
    yield* Effect.flip(Effect.provide(checkpoint.resume(clerk, { key }), model(down)))
    const before = yield* checkpoint.load(clerk, key)
    assert.strictEqual(yield* resume, "AgentError DefinitionChanged")
    assert.strictEqual((yield* head(key)).status, "failed")
    assert.isTrue(Equal.equals(yield* checkpoint.load(clerk, key), before))
    yield* Effect.provide(checkpoint.resume(clerk, { key }), model({ text: "Hi" }))
    assert.strictEqual(yield* resume, "AgentError DefinitionChanged")
    assert.strictEqual((yield* head(key)).status, "done")
  })

  testStored("and a plan exclude each other under a key", function* () {
    const checkpoint = yield* service
    const begun = yield* Deferred.make<void>()
    const open = yield* Deferred.make<void>()
    const hook = Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(open))
    const { ran, ...shopping } = yield* shop(hook)
    const { bound } = yield* counting()
    const running = yield* checkpoint
      .run(clerk, { key, input: "Where is a?", timeouts: { tool: "1 hour" } })
      .pipe(Effect.provide(shopping.with(looks("a"), down)), Effect.flip, Effect.forkChild)
    yield* Deferred.await(begun)
    yield* TestClock.adjust("5 minutes")
    for (const policy of ["start", "startOrResume", "restart"] as const) {
      const taken = checkpoint.run(bound, { key, input: "go", policy })
      assert.strictEqual(yield* failsWith(taken), "CheckpointError RunActive")
    }
    yield* Deferred.succeed(open, undefined)
    assert.strictEqual(tagOf(yield* Fiber.join(running)), "AgentError ModelFailed")
    const other = yield* Effect.flip(checkpoint.resume(bound, { key }))
    assert.strictEqual(tagOf(other), "CheckpointError KindDiffers")
    assert.include(other.message, "expected a run of a plan, got one of an agent")
    assert.strictEqual(yield* failsWith(checkpoint.load(bound, key)), "CheckpointError KindDiffers")
    yield* checkpoint.run(bound, { key, input: "go", policy: "restart" })
    const plan = yield* head(key)
    assert.deepStrictEqual([plan.kind, plan.status, plan.epoch], ["plan-run", "done", 2])
    const wrong = Effect.provide(checkpoint.resume(clerk, { key }), shopping.with())
    assert.strictEqual(yield* failsWith(wrong), "CheckpointError KindDiffers")
    assert.deepStrictEqual(yield* ran, ["a"])
  })

  testStored("whose key was taken is stopped, and writes nothing more", function* () {
    const checkpoint = yield* service
    const begun = yield* Deferred.make<void>()
    const { ran, ...shopping } = yield* shop(Effect.andThen(Deferred.succeed(begun, undefined), Effect.never))
    const victim = yield* checkpoint
      .run(clerk, { key, input: "Where is a?" })
      .pipe(Effect.provide(shopping.with(looks("a"))), Effect.flip, Effect.forkChild)
    yield* Deferred.await(begun)
    const store = yield* VersionedStore.VersionedStore
    assert.isTrue(yield* checkpoint.remove(key, { force: true }))
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(tagOf(yield* Fiber.join(victim)), "CheckpointError LeaseLost")
    assert.deepStrictEqual((yield* store.list()).keys, [])
    assert.deepStrictEqual(yield* ran, ["a"])
  })

  testStored("that was interrupted is cancelled; its call is settled and not made again (L6)", function* () {
    const checkpoint = yield* service
    const begun = yield* Deferred.make<void>()
    const { ran, ...shopping } = yield* shop(Effect.andThen(Deferred.succeed(begun, undefined), Effect.never))
    const fiber = yield* checkpoint
      .run(clerk, { key, input: "Where is a?" })
      .pipe(Effect.provide(shopping.with(looks("a"))), Effect.forkChild)
    yield* Deferred.await(begun)
    yield* Fiber.interrupt(fiber)
    assert.strictEqual((yield* head(key)).status, "cancelled")
    const done = yield* Effect.provide(
      checkpoint.resume(clerk, { key }),
      shopping.with({ expect: { toolResult: "interrupted" }, text: "Lost." })
    )
    assert.strictEqual(done.text, "Lost.")
    assert.deepStrictEqual(yield* ran, ["a"])
  })

  testStored("that was interrupted before it had its message resumes with it", function* () {
    const checkpoint = yield* service
    const { with: model } = yield* shop()
    const begun = yield* Deferred.make<void>()
    const onState = (_: unknown, { _tag }: Run.Event) =>
      _tag === "RunStarted" ? Effect.andThen(Deferred.succeed(begun, undefined), Effect.never) : Effect.void
    const fiber = yield* checkpoint
      .run(clerk, { key, input: "Where is a?", onState })
      .pipe(Effect.provide(model()), Effect.forkChild)
    yield* Deferred.await(begun)
    yield* Fiber.interrupt(fiber)
    const state = Option.getOrThrow(yield* checkpoint.load(clerk, key))
    assert.deepStrictEqual([state.revision, Conversation.messageCount(state.conversation)], [3, 0])
    const done = yield* Effect.provide(checkpoint.resume(clerk, { key }), model({ text: "Here." }))
    assert.deepStrictEqual(pluck(transcript(done), "role"), ["user", "assistant"])
  })

  testStored("streams its events, is cancelled where the reader leaves, and resumes as a stream", function* () {
    const checkpoint = yield* service
    const { ran, ...shopping } = yield* shop(Effect.never)
    yield* checkpoint.stream(clerk, { key, input: "Where is a?" }).pipe(
      Stream.takeUntil((event) => event._tag === "ToolStarted"),
      Stream.runDrain,
      Effect.provide(shopping.with(looks("a"), { text: "Never read." }))
    )
    assert.strictEqual((yield* head(key)).status, "cancelled")
    const events = yield* Effect.provide(
      Stream.runCollect(checkpoint.resumeStream(clerk, { key })),
      shopping.with({ text: "Here." })
    )
    const last = events.at(-1)
    assert(last?._tag === "RunFinished")
    assert.strictEqual(last.result.text, "Here.")
    assert.deepStrictEqual(yield* ran, ["a"])
    assert.isTrue(Equal.equals(yield* checkpoint.load(clerk, key), Option.some(last.result.state)))
  })

  testStored("that has agents and plans as tools resumes inside of them", function* () {
    const checkpoint = yield* service
    const { ran, ...shopping } = yield* shop()
    const plan = yield* Effect.flatMap(
      Plan.make(
        { name: "order" },
        Step.make("buy", { target: clerk }),
        Step.make("end", { target: ({ task }) => Effect.succeed(`${task}!`) })
      ),
      (plan) => Plan.bind(plan)
    )
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
    const layers = Layer.merge(shopping.with(), ScriptedModel.layer(model))
    const done = yield* Effect.gen(function* () {
      const waiting = yield* checkpoint.run(desk, { key, input: "go" })
      assert(waiting.outcome === "AwaitingApproval")
      assert.deepStrictEqual(pluck(waiting.requests, "path"), [["ask"], ["order", "buy"]])
      const decisions = waiting.requests.map((request) => ({ ...request, approved: true }))
      return yield* checkpoint.resume(desk, { key, decisions })
    }).pipe(Effect.provide(layers))
    assert.strictEqual(done.text, "done")
    assert.deepStrictEqual(yield* ran, ["pay", "pay"])
  })
})
