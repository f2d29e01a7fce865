import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import type { Tracer } from "effect"
import { Clock, Context, Deferred, Effect, Fiber, Layer, LayerMap, Pool, References, Schema } from "effect"
import { type LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import {
  Agent,
  type AgentError,
  Conversation,
  ModelRegistry,
  RunContext,
  ToolResolver,
  ToolResult,
  ToolRuntime
} from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { call } from "./fixtures.ts"
import { pluck } from "../pluck.ts"
import { failsFor } from "../outcomes.ts"
import { test, testWith } from "../test.ts"

/** The context of a piece of the agent's code. */
interface Seen {
  readonly where: string
  readonly context: unknown
  readonly span: string
  readonly clock: number
  readonly level: string
}

class Log extends Context.Service<Log, Array<Seen>>()("test/Log") {
  static readonly layer = Layer.sync(Log, () => [])
}

class Stock extends Context.Service<Stock, { readonly name: string }>()("test/Stock") {}

class Broken extends Schema.TaggedError<Broken>()("Broken", { detail: Schema.String }) {}

const look = (where: string) =>
  Effect.gen(function* () {
    const log = yield* Log
    const span = yield* Effect.currentParentSpan.pipe(Effect.orElseSucceed(() => undefined))
    const root = yield* rootSpan(span)
    log.push({
      where,
      context: yield* RunContext.RunContext,
      span: root,
      clock: yield* Clock.currentTimeMillis,
      level: yield* References.MinimumLogLevel
    })
  })

const rootSpan = (span: Tracer.AnySpan | undefined): Effect.Effect<string> =>
  Effect.sync(() => {
    let current = span
    while (current !== undefined && current._tag === "Span" && current.parent._tag === "Some")
      current = current.parent.value
    return current?._tag === "Span" ? current.name : ""
  })

const Look = Tool.make("look", { success: Schema.String })
const toolkit = Toolkit.make(Look)

class Watcher extends Agent.Service<Watcher>()("watcher", {
  instructions: Effect.as(look("instructions"), "Watch."),
  toolkit
}) {}

const script = () => [{ toolCalls: [call("c1", "look", {})] }, { text: "seen" }]

const handlers = toolkit.toLayer(
  Effect.gen(function* () {
    const { name } = yield* Stock
    const log = yield* Log
    return toolkit.of({ look: () => Effect.as(Effect.provideService(look("handler"), Log, log), name) })
  })
)

/** A clock that does not move. */
const frozen = (millis: number): Clock.Clock =>
  ({
    currentTimeMillisUnsafe: () => millis,
    currentTimeMillis: Effect.succeed(millis),
    currentTimeNanosUnsafe: () => BigInt(millis) * 1_000_000n,
    currentTimeNanos: Effect.succeed(BigInt(millis) * 1_000_000n),
    monotonicTimeNanosUnsafe: () => BigInt(millis) * 1_000_000n,
    monotonicTimeNanos: Effect.succeed(BigInt(millis) * 1_000_000n),
    sleep: () => Effect.never
  }) as unknown as Clock.Clock

/** Builds the layer in surroundings of its own. */
const built = Watcher.layer.pipe(
  Layer.provide(handlers),
  Layer.provide(Layer.succeed(Stock, { name: "from the layer" })),
  Layer.provideMerge(Layer.merge(ScriptedModel.layer([...script(), ...script()]), Log.layer)),
  Layer.provide(Layer.succeed(References.MinimumLogLevel, "Error")),
  Layer.provide(Layer.succeed(Clock.Clock, frozen(1))),
  Layer.provide(Layer.succeed(RunContext.RunContext, { from: "layer" })),
  Layer.provide(ToolRuntime.layer({ dispatch: () => Effect.die("the layer's runtime") })),
  Layer.withSpan("layer build")
)

describe("AGENT-1 the context of the call", () => {
  it.effect("AGENT-1 RunContext, spans, clock, log level and runtime of the run reach instructions and handlers", () =>
    Effect.gen(function* () {
      const watcher = yield* Watcher
      yield* TestClock.adjust("5 seconds")
      let dispatched = 0
      const runtime = ToolRuntime.layer({
        dispatch: (_, local) => {
          dispatched += 1
          return local
        }
      })
      yield* watcher
        .run("Go")
        .pipe(
          Effect.provideService(RunContext.RunContext, { from: "run" }),
          Effect.provideService(References.MinimumLogLevel, "Warn"),
          Effect.provideService(Clock.Clock, frozen(2)),
          Effect.provide(runtime),
          Effect.withSpan("the call")
        )
      const seen = { context: { from: "run" }, span: "the call", clock: 2, level: "Warn" }
      assert.deepStrictEqual(yield* Log, [
        { where: "instructions", ...seen },
        { where: "handler", ...seen }
      ])
      assert.strictEqual(dispatched, 1)
    }).pipe(Effect.provide(built))
  )

  test("AGENT-1 a run without a span of its own is not part of the layer's", built, function* () {
    const watcher = yield* Watcher
    yield* watcher.run("Go").pipe(Effect.provide(ToolRuntime.layerInline))
    assert.deepStrictEqual(pluck(yield* Log, "span"), ["invoke_agent watcher", "invoke_agent watcher"])
  })

  test("AGENT-1 TOOL-5 the option context goes before the RunContext of the caller", built, function* () {
    const watcher = yield* Watcher
    yield* watcher
      .run("Go", { context: { from: "option" } })
      .pipe(Effect.provideService(RunContext.RunContext, { from: "run" }), Effect.provide(ToolRuntime.layerInline))
    assert.deepStrictEqual(pluck(yield* Log, "context"), [{ from: "option" }, { from: "option" }])
  })

  testWith(built)(
    "AGENT-1 handlers of a static toolkit are resolved once, at layer build; later layers do not replace them",
    function* () {
      const watcher = yield* Watcher
      const impostor = toolkit.toLayer({ look: () => Effect.succeed("impostor") })
      yield* watcher.run("Go").pipe(Effect.provide(impostor), Effect.provide(ToolRuntime.layerInline))
      const [, second] = yield* ScriptedModel.requests
      assert.strictEqual(second?.messages.at(-1)?.text, "from the layer")
    }
  )

  it.effect("AGENT-1 a missing handler is found when the layer is built, by name, with what to provide", () =>
    Effect.gen(function* () {
      // A program without types could do this
      const layer = Watcher.layer as unknown as typeof built
      const error = yield* Effect.flip(Effect.provide(Watcher, layer))
      assert(error._tag === "AgentError")
      assert.include(error.message, '"look"')
      assert.include(error.message, "toLayer")
    }).pipe(Effect.provide(Layer.merge(ScriptedModel.layer([]), Log.layer)))
  )

  const looking = ScriptedModel.layer(({ index }) => script()[index % 2] ?? {})
  const stocked = handlers.pipe(
    Layer.provideMerge(Layer.succeed(Stock, { name: "x" })),
    Layer.provideMerge(ModelRegistry.layerContext),
    Layer.provideMerge(Layer.merge(looking, Log.layer))
  )
  test("AGENT-1 model, instructions and toolkit Effects are resolved once per run", stocked, function* () {
    const counts = { model: 0, instructions: 0, toolkit: 0 }
    const count = <A>(what: keyof typeof counts, value: A) =>
      Effect.sync(() => {
        counts[what] += 1
        return value
      })
    const lazy = Agent.make("lazy", {
      model: count("model", "any/model"),
      instructions: count("instructions", "Be lazy."),
      toolkit: count("toolkit", toolkit)
    })
    yield* lazy.run("Go")
    assert.deepStrictEqual(counts, { model: 1, instructions: 1, toolkit: 1 })
    yield* lazy.run("Go")
    assert.deepStrictEqual(counts, { model: 2, instructions: 2, toolkit: 2 })
  })

  test(
    "AGENT-1 a toolkit may be a Toolkit, a list, or an Effect of either; in a service as well",
    stocked,
    function* () {
      const forms = [
        Agent.make("a", { toolkit }),
        Agent.make("a", { toolkit: [Look] }),
        Agent.make("a", { toolkit: Effect.succeed(toolkit) }),
        Agent.make("a", { toolkit: Effect.succeed([Look]) })
      ]
      class Dynamic extends Agent.Service<Dynamic>()("dynamic", { toolkit: Effect.map(Stock, () => [Look]) }) {}
      for (const agent of forms) {
        const definition = yield* Agent.definition(agent)
        assert.deepStrictEqual(pluck(definition.tools, "name"), ["look"])
        assert.strictEqual((yield* agent.run("Go")).text, "seen")
      }
      const dynamic = yield* Effect.provide(Dynamic, Dynamic.layer)
      assert.strictEqual((yield* dynamic.run("Go")).text, "seen")
    }
  )

  testWith(ScriptedModel.layer([]))(
    "AGENT-1 what an Effect of the agent fails with is a typed error, its cause kept out of the message",
    function* () {
      const broken = Agent.make("broken", { instructions: Effect.fail(new Broken({ detail: "sk-SECRET" })) })
      const error = yield* failsFor("PreparationFailed", broken.run("Go"))
      assert.strictEqual(error.reason.part, "instructions")
      assert.strictEqual(error.reason.error, "Broken")
      assert.notInclude(error.message, "SECRET")
    }
  )

  it("AGENT-1 the key of a service names the agent", () => {
    assert.strictEqual(Watcher.key, "effect-emissary/Agent/watcher")
  })
})

/** A model that calls the first tool it is offered once, and answers with the result; without tools, with its instructions. */
const relay = (name: string) =>
  ScriptedModel.layer(({ messages, tools }) => {
    const result = messages.at(-1)?.toolResults?.[0]?.text
    if (result !== undefined) return { text: `${name}: ${result}` }
    const [tool] = tools
    if (tool === undefined) return { text: `${name}: ${messages[0]?.text}` }
    return { toolCalls: [{ name: tool.name, params: tool.name === "ask" ? { input: "q" } : {} }] }
  })

describe("SOUND-2 a layer keeps the services that it was built with", () => {
  class Db extends Context.Service<Db, string>()("test/Db") {}
  const db = (name: string) => Layer.succeed(Db, name)
  const Delete = Tool.make("delete", { success: Schema.String })
  const deleting = (name: string) => {
    const of = Toolkit.make(Delete)
    return { of, live: of.toLayer({ delete: () => Effect.succeed(`deleted ${name}`) }) }
  }
  const drafts = deleting("a draft")
  const accounts = deleting("an account")
  const app = Layer.mergeAll(accounts.live, relay("app"), db("app"))

  class Editor extends Agent.Service<Editor>()("editor", { toolkit: Effect.succeed(drafts.of) }) {}
  const editing = Editor.layer.pipe(Layer.provide([drafts.live, relay("editor")]))

  test("SOUND-2 handlers and model are those of the layer, also those of a toolkit that an Effect finds", function* () {
    const program = Editor.use((editor) => editor.ask("q")).pipe(Effect.provide(editing))
    const expected = "editor: deleted a draft"
    assert.strictEqual(yield* program, expected)
    assert.strictEqual(yield* Effect.provide(program, app), expected)
    const inside = Editor.use((editor) => Effect.provide(editor.ask("q"), app))
    assert.strictEqual(yield* Effect.provide(inside, editing), expected)
  })

  test("SOUND-2 two toolkits with a tool of one name, in agents inside each other", function* () {
    const tool = Agent.asTool(Editor, { name: "ask", description: "Edits" })
    class Clerk extends Agent.Service<Clerk>()("clerk", { toolkit: Effect.succeed([tool, Delete]) }) {}
    const clerking = Clerk.layer.pipe(Layer.provide([editing, accounts.live, relay("clerk")]))
    const program = Clerk.use((clerk) => clerk.ask("q")).pipe(Effect.provide(clerking))
    assert.strictEqual(yield* program, "clerk: editor: deleted a draft")
    assert.strictEqual(yield* Effect.provide(program, app), "clerk: editor: deleted a draft")
  })

  class Reader extends Agent.Service<Reader>()("reader", {
    instructions: Effect.map(Db, (name) => `I read ${name}`)
  }) {}
  const reading = Reader.layer.pipe(Layer.provide([relay("reader"), db("its own")]))
  const own = "reader: I read its own"

  test("SOUND-2 instructions read what the layer was given, whatever is around the call", function* () {
    const program = Reader.use((reader) => reader.ask("q")).pipe(Effect.provide(reading))
    assert.strictEqual(yield* Effect.provide(program, app), own)
    const later = Reader.use((reader) => Effect.provide(reader.ask("q"), app))
    assert.strictEqual(yield* Effect.provide(later, reading), own)
  })

  const AskReader = Toolkit.make(Tool.make("ask_reader", { success: Schema.String }))
  const asking = AskReader.toLayer(
    Effect.gen(function* () {
      const reader = yield* Reader
      const name = yield* Db
      return { ask_reader: () => Effect.map(Effect.orDie(reader.ask("q")), (answer) => `${name}, ${answer}`) }
    })
  ).pipe(Layer.provide([reading, db("the handler's")]))

  test("SOUND-2 an agent that a handler asks keeps its services, and so does the handler", function* () {
    class Outer extends Agent.Service<Outer>()("outer", { toolkit: AskReader }) {}
    const layer = Outer.layer.pipe(Layer.provide([asking, relay("outer")]))
    const program = Outer.use((outer) => outer.ask("q")).pipe(Effect.provide(layer))
    const expected = `outer: the handler's, ${own}`
    assert.strictEqual(yield* program, expected)
    assert.strictEqual(yield* Effect.provide(program, app), expected)
  })

  test("SOUND-2 a plan as a service keeps its services for its functions", function* () {
    class Reading extends Plan.Service<Reading>()(
      "reading",
      Effect.flatMap(Plan.make("plan", [Step.make("read", { target: () => Db })]), (plan) => Plan.bind(plan))
    ) {}
    const program = Reading.use((plan) => Effect.provide(plan.ask("q"), app))
    assert.strictEqual(yield* Effect.provide(program, Reading.layer.pipe(Layer.provide(db("its own")))), "its own")
  })

  test("SOUND-2 a service that the layer was built without comes from the call", function* () {
    const optional = Effect.map(Effect.serviceOption(Db), (found) => (found._tag === "Some" ? found.value : "none"))
    class Curious extends Agent.Service<Curious>()("curious", { instructions: optional }) {}
    const layer = Curious.layer.pipe(Layer.provide(relay("curious")))
    const ask = Curious.use((curious) => Effect.provide(curious.ask("q"), db("the call's")))
    assert.strictEqual(yield* Effect.provide(ask, layer), "curious: the call's")
  })

  test("SOUND-2 references in CallReferences come from the call; others stay those of the layer", function* () {
    const reference = (key: string) => Context.Reference<string>(key, { defaultValue: () => "default" })
    const Locale = reference("test/Locale")
    const Region = reference("test/Region")
    const both = Effect.map(Effect.all([Locale, Region]), (found) => found.join())
    class Local extends Agent.Service<Local>()("local", { instructions: both }) {}
    const set = (value: string) => Layer.mergeAll(Layer.succeed(Locale, value), Layer.succeed(Region, value))
    const layer = Local.layer.pipe(Layer.provide([relay("local"), set("layer")]))
    const ask = Local.use((local) => local.ask("q"))
    const listed = Effect.provideService(RunContext.CallReferences, [Locale])
    const found = yield* Effect.provide(
      Effect.all([listed(ask), listed(Effect.provide(ask, set("call"))), Effect.provide(ask, set("call"))]),
      layer
    )
    assert.deepStrictEqual(found, ["local: layer,layer", "local: call,layer", "local: layer,layer"])
  })

  test("SOUND-2 the references of a layer hold where the call sets none", function* () {
    const level = Effect.map(References.MinimumLogLevel, String)
    class Plain extends Agent.Service<Plain>()("plain", { instructions: level, toolkit: drafts.of }) {}
    const runtime = ToolRuntime.layer({ dispatch: () => Effect.succeed(ToolResult.success("the layer's runtime")) })
    const levels = Layer.succeed(References.MinimumLogLevel, "Fatal")
    const layer = Plain.layer.pipe(Layer.provide([drafts.live, relay("plain"), runtime, levels]))
    const run = yield* Effect.provide(
      Plain.use((plain) => plain.run("q")),
      layer
    )
    assert.strictEqual(run.text, "plain: the layer's runtime")
    assert.deepStrictEqual(Conversation.transcript(run.conversation)[0], { role: "system", text: "Fatal" })
  })
})

describe("SOUND-2 a run reaches nothing that outlives it", () => {
  const total = { context: { tenant: "acme" }, timeouts: { total: "200 millis" } } as const
  const services = Layer.mergeAll(relay("m"), ModelRegistry.layerContext.pipe(Layer.provide(relay("m"))))

  /** An agent with one tool that has this handler, and its layer. */
  const withTool = (handler: () => Effect.Effect<string>) => {
    const of = Toolkit.make(Tool.make("start", { success: Schema.String }))
    return { agent: Agent.make("outer", { toolkit: of }), live: of.toLayer({ start: handler }) }
  }

  const untouched = Effect.fnUntraced(function* (run: Effect.Effect<Agent.Result<unknown>, unknown>) {
    const first = yield* run
    assert.strictEqual(first.outcome, "Completed")
    assert.deepStrictEqual([first.state.context, first.state.depth], [{}, 0])
    yield* TestClock.adjust("1 second")
    assert.strictEqual((yield* run).outcome, "Completed")
  })

  test("SOUND-2 an agent that a handler bound has not the run's deadline, depth or context", services, function* () {
    const json = yield* Agent.encodeJson(Agent.make("inner", { model: "x/y" }))
    const cached = yield* Deferred.make<Agent.Bound>()
    const layer = Layer.merge(ToolResolver.layerStubs(), ModelRegistry.layerContext)
    const bind = Agent.decodeJson(json).pipe(Effect.tap((bound) => Deferred.succeed(cached, bound)))
    const ambient = yield* Effect.context<LanguageModel.LanguageModel>()
    const loading = bind.pipe(Effect.provide(layer), Effect.provideContext(ambient), Effect.orDie)
    const { agent, live } = withTool(() => Effect.as(loading, "loaded"))
    yield* Effect.provide(agent.run("q", total), live)
    yield* untouched((yield* Deferred.await(cached)).run("q"))
  })

  test("SOUND-2 a layer of a LayerMap that a handler built first has not them either", services, function* () {
    class Inner extends Agent.Service<Inner>()("inner", {}) {}
    class Inners extends LayerMap.Service<Inners>()("test/Inners", {
      lookup: (_region: string) => Inner.layer.pipe(Layer.provide(relay("inner"))),
      idleTimeToLive: "1 hour"
    }) {}
    yield* Effect.gen(function* () {
      const inners = yield* Inners
      const inner = Inner.use((inner) => inner.run("q")).pipe(Effect.provide(inners.get("eu")), Effect.orDie)
      const { agent, live } = withTool(() =>
        Effect.map(inner, ({ state }) => `${state.depth} ${state.context["tenant"]}`)
      )
      assert.strictEqual(yield* Effect.provide(agent.ask("q", total), live), "m: 1 acme")
      yield* untouched(inner)
      const other = agent.ask("q", { context: { tenant: "beta" } })
      assert.strictEqual(yield* Effect.provide(other, live), "m: 1 beta")
    }).pipe(Effect.provide(Inners.layer))
  })

  test("SOUND-2 a job in a detached fiber is not ended with the run that started it", services, function* () {
    const open = yield* Deferred.make<void>()
    const waiting = Agent.make("job", { instructions: Effect.as(Deferred.await(open), "x") })
    const job = waiting.run("q").pipe(Effect.provide(relay("job")), Effect.orDie)
    const fibers: Array<Fiber.Fiber<ReadonlyArray<Agent.Result<unknown>>>> = []
    const { agent, live } = withTool(() =>
      Effect.map(Effect.forkDetach(Effect.all([job, job])), (fiber) => `started ${fibers.push(fiber)}`)
    )
    yield* Effect.provide(agent.run("q", total), live)
    yield* TestClock.adjust("1 second")
    yield* Deferred.succeed(open, undefined)
    const [first, second] = yield* Fiber.join(fibers[0] ?? Effect.runFork(Effect.die("no fiber")))
    assert.strictEqual(first?.outcome, "Completed")
    assert.strictEqual(second?.outcome, "Completed")
    assert.deepStrictEqual([second?.state.context, second?.state.depth], [{}, 0])
  })

  test("SOUND-2 a chain of jobs, each started by the one before, is no nest of agents", services, function* () {
    const done = yield* Deferred.make<ReadonlyArray<number>>()
    const depths: Array<number> = []
    const next: Effect.Effect<void> = Effect.suspend(() => {
      const { agent, live } = withTool(() =>
        depths.length === 30
          ? Effect.as(Deferred.succeed(done, depths), "done")
          : Effect.as(Effect.forkDetach(next), "ok")
      )
      return Effect.map(Effect.orDie(Effect.provide(agent.run("q"), Layer.merge(live, relay("m")))), ({ state }) => {
        depths.push(state.depth)
      })
    })
    yield* Effect.forkDetach(next)
    const found = yield* Deferred.await(done)
    assert.isBelow(Math.max(...found), 3)
  })

  test("SOUND-2 agents that code runs inside a run are inside it while it lasts", services, function* () {
    const again: Effect.Effect<string> = Effect.suspend(() =>
      Effect.catch(Effect.provide(agent.ask("q"), world), ({ message }) => Effect.succeed(message))
    )
    const { agent, live } = withTool(() => again)
    const world = Layer.merge(live, relay("m"))
    const answer = yield* Effect.provide(agent.ask("q", { maxDepth: 3 }), world)
    assert.include(answer, "expected agents nested at most 3 deep")
  })
})

describe("SOUND-2 the deadline of a run", () => {
  /** The deadlines of the calls that a program makes at time 0, by tool. */
  const deadlines = Effect.fnUntraced(function* <A, E, R>(program: Effect.Effect<A, E, R>) {
    const found: Record<string, number | undefined> = {}
    const runtime = ToolRuntime.layer({
      dispatch: (call, local) => {
        found[call.contract.name] = call.deadline
        return local
      }
    })
    yield* Effect.provide(program, runtime)
    return found
  })
  const Work = Toolkit.make(Tool.make("work", { success: Schema.String }))
  const Direct = Toolkit.make(Tool.make("direct", { success: Schema.String }))
  const worker = Agent.make("worker", { toolkit: Work })
  const working = Work.toLayer({ work: () => Effect.succeed("done") })
  const services = Layer.merge(working, relay("m"))
  const timeouts = { total: "1 minute" } as const

  test("SOUND-2 holds for agents that are tools, and for the steps of a plan", services, function* () {
    const outer = Agent.make("outer", { toolkit: [Agent.asTool(worker, { name: "ask", description: "Works" })] })
    const nested = yield* deadlines(outer.run("q", { timeouts }))
    assert.deepStrictEqual(Object.keys(nested), ["ask", "work"])
    for (const deadline of Object.values(nested)) assert.isAtLeast(deadline ?? 0, 60_000)
    const plan = yield* Plan.bind(yield* Plan.make("plan", [Step.make("ask", { target: worker })]))
    const { work } = yield* deadlines(Plan.run(plan, "q", { timeouts }))
    assert.isAtLeast(work ?? 0, 60_000)
  })

  test("SOUND-2 is not that of an agent that a handler runs, which ends with the handler", services, function* () {
    const context = yield* Effect.context<Layer.Success<typeof services>>()
    const handler = Direct.toLayer({ direct: () => Effect.orDie(Effect.provideContext(worker.ask("q"), context)) })
    const outer = Agent.make("outer", { toolkit: Direct })
    const found = yield* deadlines(Effect.provide(outer.run("q", { timeouts }), handler))
    assert.deepStrictEqual(Object.keys(found), ["direct", "work"])
    assert.deepStrictEqual([found["work"], found["direct"] === undefined], [undefined, false])
  })
})

describe("SOUND-4 what a run acquires is released when the run ends", () => {
  const opening = () => {
    const count = { open: 0, most: 0 }
    const acquired = Effect.acquireRelease(
      Effect.sync(() => (count.most = Math.max(count.most, ++count.open))),
      () => Effect.sync(() => (count.open -= 1))
    )
    return { count, acquired }
  }
  const thousand = <E>(ask: Effect.Effect<unknown, E>) => Effect.scoped(Effect.repeat(ask, { times: 999 }))

  test("SOUND-4 1,000 runs of a service inside a scope hold one resource at a time", function* () {
    const { acquired, count } = opening()
    class Holder extends Agent.Service<Holder>()("holder", { instructions: Effect.as(acquired, "x") }) {}
    yield* Holder.use((holder) => thousand(holder.ask("q"))).pipe(
      Effect.provide(Holder.layer.pipe(Layer.provide(relay("m"))))
    )
    assert.deepStrictEqual(count, { open: 0, most: 1 })
  })

  test("SOUND-4 runs that each take a connection do not empty a pool of two", function* () {
    const pool = yield* Pool.make({ acquire: Effect.succeed("connection"), size: 2 })
    const value = Agent.make("value", { instructions: Pool.get(pool) })
    const ask = Effect.provide(value.ask("q"), relay("m"))
    expectTypeOf(ask).toEqualTypeOf<Effect.Effect<string, AgentError.AgentError | AgentError.RunIncomplete>>()
    yield* Effect.scoped(Effect.repeat(ask, { times: 9 }))
  })

  test("SOUND-4 functions of a plan, and agents in its steps, acquire for the run only", relay("m"), function* () {
    const { acquired, count } = opening()
    const agent = Agent.make("agent", { instructions: Effect.as(acquired, "x") })
    const plan = yield* Plan.make("plan", [
      Step.make("open", { target: () => Effect.as(acquired, "opened") }),
      Step.make("ask", { target: agent })
    ])
    const bound = yield* Plan.bind(plan)
    yield* Effect.scoped(Effect.repeat(Plan.run(bound, "q"), { times: 9 }))
    assert.deepStrictEqual(count, { open: 0, most: 2 })
  })

  test("SOUND-4 a run that is interrupted, or whose stream is left, releases at once", function* () {
    const { acquired, count } = opening()
    const agent = Agent.make("agent", { instructions: Effect.andThen(acquired, Effect.never) })
    const world = relay("m")
    yield* Effect.scoped(
      Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(Effect.provide(agent.run("q"), world))
        yield* Effect.yieldNow
        yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual(count, { open: 0, most: 1 })
      })
    )
  })
})
