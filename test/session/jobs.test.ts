/** KEEP-3: jobs are sessions: they run once under an id, and return the typed result of an agent or a plan. */
import { assert, describe } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Option, Result, Schema, Scope, Stream } from "effect"
import { AiError } from "effect/ai"
import { Agent, VersionedStore, Run } from "effect-emissary"
import { SqliteRunner } from "effect-emissary/node"
import { Plan, Step } from "effect-emissary/plan"
import { ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const Report = Schema.Struct({ topic: Schema.String, at: Schema.DateTimeUtcFromString })

const reporter = Agent.make("reporter", { output: Report })

const report = (topic: string): ScriptedModel.Turn => ({
  text: JSON.stringify({ topic, at: "2026-01-02T03:04:05.000Z" })
})

const job = { id: "job/1", input: "whales" }

const hosting = (script: ScriptedModel.Script) =>
  Session.layer([reporter, t.support]).pipe(
    Layer.provideMerge(VersionedStore.layerMemory),
    Layer.provideMerge(ScriptedModel.layer(script))
  )

const modelCalls = Effect.map(ScriptedModel.requests, (all) => all.length)

const failure = (effect: Effect.Effect<unknown, Session.SessionError, Session.Session>) =>
  Effect.map(Effect.flip(effect), ({ reason }) => reason)

const output = <A>(result: Session.RunResult<A>): A => {
  assert(result.outcome === "Completed", `expected Completed, got ${result.outcome}`)
  return result.output
}

describe("KEEP-3 the result", () => {
  test(
    "of an agent is its decoded output, and the same job again runs nothing",
    hosting([report("whales")]),
    function* () {
      const result = yield* Session.run(reporter, job)
      assert.strictEqual(output(result).topic, "whales")
      assert.strictEqual(output(result).at.epochMilliseconds, Date.UTC(2026, 0, 2, 3, 4, 5))
      assert.strictEqual(result.steps, 1)
      assert.deepStrictEqual(yield* Session.run(reporter, { ...job, ifExists: "resume" }), result)
      assert.deepStrictEqual(yield* Session.result(reporter, job.id), result)
      assert.strictEqual(yield* modelCalls, 1)
    }
  )

  test("of an agent without output is its text", hosting([{ text: "Hello." }]), function* () {
    assert.strictEqual(output(yield* Session.run(t.support, job)), "Hello.")
    assert.strictEqual(output(yield* Session.result(t.support, job.id)), "Hello.")
  })

  class Critic extends Agent.Service<Critic>()("critic", { output: Report }) {}

  test(
    "of the class of an agent is decoded where its layer is not",
    Session.layer([Critic]).pipe(
      Layer.provide(Critic.layer),
      Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer([report("film")])])
    ),
    function* () {
      assert.strictEqual(output(yield* Session.run(Critic, job)).topic, "film")
    }
  )

  test("of a plan is its decoded output, after a pause the decision's", function* () {
    const plan = yield* Effect.flatMap(
      Plan.make(
        "count",
        [
          Step.make("ask", {
            target: ({ decision, task }) => (decision === undefined ? Step.pause("Continue?") : Effect.succeed(task))
          }),
          Step.make("count", { target: ({ task }) => Effect.succeed(`${task.length}`) })
        ],
        { output: Schema.FiniteFromString }
      ),
      Plan.bind
    )
    const layer = Session.layer([plan]).pipe(Layer.provide(VersionedStore.layerMemory))
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const asked = yield* Session.run(plan, job)
      assert(asked.outcome === "AwaitingApproval")
      // The step is asked again, and pauses again (RIGHT-21)
      const again = yield* Session.run(plan, { ...job, ifExists: "resume" })
      assert.deepStrictEqual({ ...again, cursor: "" }, { ...asked, cursor: "" })
      yield* sessions.decide(job.id, asked.requests.filter(Run.isApprovable).map(Run.approve))
      assert.strictEqual(output(yield* Session.result(plan, job.id)), 6)
    }).pipe(Effect.provide(layer))
  })

  test("HOUSE-6 of a plan that an Effect makes with services: they are in the layer, and a plan that cannot be made fails it", function* () {
    class Greeting extends Context.Service<Greeting, string>()("test/jobs/Greeting") {}
    const makePlan = (options: { readonly afterBranches?: string }) => {
      const target = ({ task }: Step.Input) => Effect.map(Greeting, (greeting) => `${greeting}, ${task}`)
      const plan = Plan.make("greet", [Step.make("greet", { ...options, target })])
      return Effect.andThen(
        Greeting,
        Effect.flatMap(plan, (plan) => Plan.bind(plan))
      )
    }
    const plan = makePlan({})
    const wrong = makePlan({ afterBranches: "nowhere" })
    const services = Layer.merge(VersionedStore.layerMemory, Layer.succeed(Greeting, "Hello"))
    const { text } = yield* Effect.provide(Session.turn("a", "Ada"), Layer.provide(Session.layer([plan]), services))
    assert.strictEqual(text, "Hello, Ada")
    const failing = Layer.provide(Session.layer([t.support, wrong]), [services, ScriptedModel.layer([])])
    const error = yield* Effect.flip(Effect.scoped(Layer.build(failing)))
    assert.strictEqual(error._tag, "PlanInvalid")
    const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })
    const fleet = Layer.provide(ClusterSession.layer([wrong]), [services, runner])
    assert.strictEqual((yield* Effect.flip(Effect.scoped(Layer.build(fleet))))._tag, "PlanInvalid")
  })

  const { agent: worker, handlers } = t.withTool("worker", { needsApproval: true })

  const working = (store: Layer.Layer<VersionedStore.VersionedStore>, script: ScriptedModel.Script) =>
    Session.layer([worker]).pipe(
      Layer.provide(store),
      Layer.provide(handlers((n) => Effect.succeed(`${n}`))),
      Layer.provide(ScriptedModel.layer(script))
    )

  test("waits for all decisions, and a process that opens the session later takes them", function* () {
    const store = yield* t.store
    yield* Effect.gen(function* () {
      const asked = yield* Session.run(worker, job)
      assert(asked.outcome === "AwaitingApproval")
      assert.strictEqual(asked.requests.length, 2)
    }).pipe(Effect.provide(working(store, [t.call(1, 2)])))
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const asked = yield* Session.run(worker, { ...job, ifExists: "resume" })
      assert(asked.outcome === "AwaitingApproval")
      const [first, second] = asked.requests
      yield* sessions.decide(job.id, [{ ...first, approved: true }])
      yield* Effect.forEach(second === undefined ? [] : [second], (request) =>
        sessions.decide(job.id, [{ ...request, approved: false }])
      )
      assert.strictEqual(output(yield* Session.result(worker, job.id)), "Done.")
    }).pipe(Effect.provide(working(store, [{ text: "Done." }])))
  })

  test("is Interrupted for a job that was stopped, and `resume` continues it", function* () {
    const isAsked = yield* Deferred.make<void>()
    let calls = 0
    const model = () =>
      Effect.suspend(() =>
        ++calls > 1
          ? Effect.succeed(report("whales"))
          : Effect.andThen(Deferred.succeed(isAsked, undefined), Effect.never)
      )
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const running = yield* Effect.forkChild(Session.run(reporter, job))
      yield* Deferred.await(isAsked)
      yield* sessions.interrupt(job.id)
      assert.strictEqual((yield* Fiber.join(running)).outcome, "Interrupted")
      assert.strictEqual((yield* Session.result(reporter, job.id)).outcome, "Interrupted")
      assert.strictEqual(output(yield* Session.run(reporter, { ...job, ifExists: "resume" })).topic, "whales")
    }).pipe(Effect.provide(hosting(model)))
  })

  test(
    "is InvalidOutput for one that does not fit the Schema of the caller",
    hosting([report("whales")]),
    function* () {
      yield* Session.run(reporter, job)
      const other = Agent.make("reporter", { output: Schema.Struct({ pages: Schema.Finite, words: Schema.Finite }) })
      const result = yield* Session.result(other, job.id)
      assert(result.outcome === "InvalidOutput")
      assert.deepStrictEqual(
        result.issues.map(({ path }) => path),
        ["/pages", "/words"]
      )
    }
  )
})

describe("KEEP-3 policies", () => {
  test("`fail` names what is there, and stores nothing", hosting([report("whales")]), function* () {
    const sessions = yield* Session.Session
    yield* Session.run(reporter, job)
    const { sequence } = yield* t.stateOf(sessions, job.id)
    assert.deepStrictEqual(yield* failure(Session.run(reporter, job)), {
      _tag: "Exists",
      agent: "reporter",
      status: "idle",
      outcome: "Completed"
    })
    assert.strictEqual((yield* t.stateOf(sessions, job.id)).sequence, sequence)
    assert.strictEqual(yield* modelCalls, 1)
  })

  test("`resume` refuses another input, and another context", hosting([report("whales")]), function* () {
    yield* Session.run(reporter, { ...job, context: { tenant: "a" } })
    const again = { ...job, context: { tenant: "a" }, ifExists: "resume" } as const
    yield* Session.run(reporter, again)
    for (const other of [{ input: "cats" }, { context: { tenant: "b" } }, { context: undefined }]) {
      assert.deepStrictEqual(yield* failure(Session.run(reporter, { ...again, ...other })), { _tag: "InputDiffers" })
    }
    assert.strictEqual(yield* modelCalls, 1)
  })

  test("`resume` begins a job that is not there", hosting([report("whales")]), function* () {
    assert.strictEqual(output(yield* Session.run(reporter, { ...job, ifExists: "resume" })).topic, "whales")
  })

  test("`restart` begins again under the id, with another input or agent", function* () {
    const isAsked = yield* Deferred.make<void>()
    const model = (request: ScriptedModel.Request) =>
      t.asked(request) === "never"
        ? Effect.andThen(Deferred.succeed(isAsked, undefined), Effect.never)
        : Effect.succeed(report(t.asked(request)))
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const abandoned = yield* Effect.forkChild(Effect.result(Session.run(reporter, { id: job.id, input: "never" })))
      yield* Deferred.await(isAsked)
      const restart = { ...job, ifExists: "restart" } as const
      assert.strictEqual(output(yield* Session.run(reporter, restart)).topic, "whales")
      const ended = yield* Fiber.join(abandoned)
      const tag = Result.isSuccess(ended) ? ended.success.outcome : ended.failure.reason._tag
      assert.include(["Interrupted", "NotFound", "EventsUnknown"], tag)
      assert.strictEqual((yield* Session.run(t.support, { ...restart, input: "cats" })).outcome, "Completed")
      assert.strictEqual((yield* t.stateOf(sessions, job.id)).agent, "support")
    }).pipe(Effect.provide(hosting(model)))
  })

  test(
    "a job that was removed while its caller waited is not the next one under the id",
    hosting(t.echo),
    function* () {
      const sessions = yield* Session.Session
      const { cursor } = yield* Session.run(t.support, job)
      let isBegun = false
      const late: Session.Service = {
        ...sessions,
        state: (id) =>
          Effect.suspend(() => {
            if (isBegun) return sessions.state(id)
            isBegun = true
            return Effect.map(
              sessions.state(id),
              Option.map((state) => ({
                ...state,
                status: "running" as const,
                cursor: `${cursor.split(".")[0]}.1`,
                sequence: 1
              }))
            )
          }),
        events: (id, options) =>
          Stream.concat(
            Stream.fromEffectDrain(
              Effect.andThen(sessions.remove(id), Session.run(t.support, { id, input: "cats" })).pipe(
                Effect.provideService(Session.Session, sessions)
              )
            ),
            sessions.events(id, options)
          ).pipe(Stream.catchCause(() => Stream.empty))
      }
      const result = Session.result(t.support, job.id).pipe(Effect.provideService(Session.Session, late))
      assert.strictEqual((yield* failure(result))._tag, "EventsUnknown")
    }
  )

  test("`restart` with an agent that is not there removes nothing", hosting([report("whales")]), function* () {
    const result = yield* Session.run(reporter, job)
    const unknown = Agent.make("unknown", {})
    const { _tag } = yield* failure(Session.run(unknown, { ...job, ifExists: "restart" }))
    assert.strictEqual(_tag, "AgentUnknown")
    assert.deepStrictEqual(yield* Session.result(reporter, job.id), result)
  })

  test("a restart that is delivered twice begins once", hosting(t.echo), function* () {
    const sessions = yield* Session.Session
    yield* Session.run(t.support, job)
    const send = sessions.send(job.id, "cats", { agent: "support", messageId: "m1", ifExists: "restart" })
    const receipt = yield* send
    yield* Session.result(t.support, job.id)
    assert.deepStrictEqual(yield* send, receipt)
    assert.strictEqual(yield* modelCalls, 2)
  })

  test("a first message that is delivered twice is no other one", hosting(t.echo), function* () {
    const sessions = yield* Session.Session
    const send = sessions.send(job.id, "cats", { agent: "support", messageId: "m1", ifExists: "fail" })
    assert.deepStrictEqual(yield* send, yield* send)
  })

  test("a failed turn is the reason, and `resume` continues it", function* () {
    let calls = 0
    const model = () =>
      Effect.suspend(() =>
        ++calls > 1
          ? Effect.succeed(report("whales"))
          : Effect.fail(AiError.make({ module: "test", method: "test", reason: new AiError.InvalidRequestError({}) }))
      )
    yield* Effect.gen(function* () {
      const reason = yield* failure(Session.run(reporter, job))
      assert(reason._tag === "TurnFailed")
      assert.strictEqual(reason.failure.reason, "ModelFailed")
      assert.deepStrictEqual(yield* failure(Session.result(reporter, job.id)), reason)
      assert.deepInclude(yield* failure(Session.run(reporter, job)), { _tag: "Exists", outcome: "ModelFailed" })
      assert.strictEqual(output(yield* Session.run(reporter, { ...job, ifExists: "resume" })).topic, "whales")
    }).pipe(Effect.provide(hosting(model)))
  })
})

describe("KEEP-3 callers", () => {
  test("two at once: with `fail` one begins, with `resume` both get the result", hosting(t.echo), function* () {
    const both = (options: Session.RunOptions) =>
      Effect.all([Effect.result(Session.run(t.support, options)), Effect.result(Session.run(t.support, options))], {
        concurrency: 2
      })
    const failing = yield* both(job)
    assert.sameMembers(
      failing.map((one) => (Result.isSuccess(one) ? one.success.outcome : one.failure.reason._tag)),
      ["Completed", "Exists"]
    )
    const [first, second] = yield* both({ ...job, id: "job/2", ifExists: "resume" })
    assert.deepStrictEqual(Result.getOrThrow(first), Result.getOrThrow(second))
    assert.strictEqual(yield* modelCalls, 2)
  })

  test("an agent that is not hosted, and one of another session, are errors", hosting(t.echo), function* () {
    const unknown = yield* failure(Session.run(Agent.make("unknown", {}), job))
    assert.deepStrictEqual(unknown, { _tag: "AgentUnknown", agent: "unknown", known: ["reporter", "support"] })
    yield* Session.run(t.support, job)
    const differs = { _tag: "AgentDiffers" as const, agent: "reporter", found: "support" }
    assert.deepStrictEqual(yield* failure(Session.run(reporter, { ...job, ifExists: "resume" })), differs)
    assert.deepStrictEqual(yield* failure(Session.result(reporter, job.id)), differs)
    assert.strictEqual((yield* failure(Session.result(reporter, "none")))._tag, "NotFound")
  })

  test("a crash: the next process continues the job, and the same call gets its result", function* () {
    const store = yield* t.store
    const { agent: worker, handlers } = t.withTool("worker")
    const isStarted = yield* Deferred.make<void>()
    const ran: Array<number> = []
    const process = (script: ScriptedModel.Script) =>
      Session.layer([worker]).pipe(
        Layer.provide(store),
        Layer.provide(handlers((n) => Effect.sync(() => `${ran.push(n)}`))),
        Layer.provide(ScriptedModel.layer(script))
      )
    const scope = yield* Scope.make()
    const waits: ScriptedModel.TurnFunction = ({ messages }) =>
      messages.at(-1)?.role === "user"
        ? t.call(7)
        : Effect.andThen(Deferred.succeed(isStarted, undefined), Effect.never)
    const first = yield* Layer.buildWithScope(process(waits), scope)
    yield* Effect.forkChild(Effect.provideContext(Effect.exit(Session.run(worker, job)), first))
    yield* Deferred.await(isStarted)
    yield* Scope.close(scope, Exit.void)
    yield* Effect.gen(function* () {
      const { reason } = yield* Effect.flip(Session.run(worker, job))
      assert.strictEqual(reason._tag, "Exists")
      assert.strictEqual(output(yield* Session.run(worker, { ...job, ifExists: "resume" })), "Done.")
    }).pipe(Effect.provide(process([{ text: "Done." }])))
    assert.deepStrictEqual(ran, [7])
  })

  test("readers see the job as any session", hosting([report("whales")]), function* () {
    const sessions = yield* Session.Session
    const reading = yield* sessions
      .events(job.id)
      .pipe(Stream.takeUntil(t.endsTurn), Stream.runCollect, Effect.forkChild)
    const { cursor } = yield* Session.run(reporter, job)
    assert.strictEqual((yield* Fiber.join(reading)).at(-1)?.cursor, cursor)
    assert.isTrue(Option.isSome(yield* sessions.state(job.id)))
    assert.isTrue(yield* sessions.remove(job.id))
  })

  test.live("on a fleet: policies, decisions, and the output decoded by the caller", Layer.empty, function* () {
    const { handlers, toolkit } = t.withTool("worker", { needsApproval: true })
    const worker = Agent.make("worker", { toolkit, output: Report })
    const script: ScriptedModel.TurnFunction = ({ messages }) =>
      messages.at(-1)?.role === "user" ? t.call(1) : report("whales")
    const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })
    const fleet = ClusterSession.layer([worker]).pipe(
      Layer.provide(runner),
      Layer.provide(handlers((n) => Effect.succeed(`${n}`))),
      Layer.provide(ScriptedModel.layer(script))
    )
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      const asked = yield* Session.run(worker, job)
      assert(asked.outcome === "AwaitingApproval")
      assert.strictEqual((yield* failure(Session.run(worker, job)))._tag, "Exists")
      const decisions = asked.requests.filter(Run.isApprovable).map(Run.approve)
      yield* sessions.decide(job.id, decisions)
      const result = yield* Session.result(worker, job.id)
      assert.strictEqual(output(result).at.epochMilliseconds, Date.UTC(2026, 0, 2, 3, 4, 5))
      assert.deepStrictEqual(yield* Session.run(worker, { ...job, ifExists: "resume" }), result)
      const other = yield* failure(Session.run(worker, { ...job, input: "cats", ifExists: "resume" }))
      assert.deepStrictEqual(other, { _tag: "InputDiffers" })
      const begun = yield* Session.run(worker, { ...job, input: "cats", ifExists: "restart" })
      assert.strictEqual(begun.outcome, "AwaitingApproval")
      const unknown = yield* failure(Session.run(Agent.make("unknown", {}), { id: "other", input: "x" }))
      assert.strictEqual(unknown._tag, "AgentUnknown")
    }).pipe(Effect.provide(fleet))
  })
})
