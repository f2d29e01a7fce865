/**
 * Agents and plans inside a workflow of `effect/workflow`: they survive its crashes.
 *
 * **When to use**
 *
 * Use it where the program has workflows already, or where a run is one step of a longer business process. A chat
 * with a user, and a plan on its own, is a `Session`.
 *
 * **Mental model**
 *
 * The body of a workflow runs again from its beginning whenever it is resumed. {@link layer}, provided in the body, makes each
 * model call, each tool call and each function step of a plan an `Activity`: its result is stored, and the next time the body
 * runs it is found instead of made. Agents and plans are not changed. Ids, times and random numbers of their runs are the
 * same each time.
 *
 * When an agent asks for an approval, or a plan pauses, the run waits for {@link decide}: the workflow is suspended,
 * and no process has to be there.
 *
 * **Example** (A refund that a person approves)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Deferred, Effect, Layer, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Workflow, WorkflowEngine } from "effect/workflow"
 * import { Agent, Run } from "effect-emissary"
 * import { Activities } from "effect-emissary/workflow"
 * import { ScriptedModel } from "effect-emissary/testing"
 *
 * const tools = Toolkit.make(
 *   Tool.make("refund", {
 *     parameters: Schema.Struct({ amount: Schema.Finite }),
 *     success: Schema.String,
 *     needsApproval: true
 *   })
 * )
 *
 * const cashier = Agent.make("cashier", { instructions: "You settle complaints.", toolkit: tools })
 *
 * const Complaint = Workflow.make("Complaint", {
 *   payload: { id: Schema.String, text: Schema.String },
 *   success: Schema.String,
 *   idempotencyKey: ({ id }) => id
 * })
 *
 * const program = Effect.gen(function* () {
 *   const asked = yield* Deferred.make<Activities.Pending>()
 *
 *   const complaints = Complaint.toLayer(({ text }) =>
 *     cashier.ask(text).pipe(
 *       Effect.provide(Activities.layer({ onApproval: (pending) => Deferred.succeed(asked, pending) })),
 *       Effect.orDie
 *     )
 *   )
 *
 *   // in any process, days later
 *   const decision = Effect.gen(function* () {
 *     const { request, token } = yield* Deferred.await(asked)
 *     if (Run.isApprovable(request)) yield* Activities.decide(token, Run.approve(request))
 *   })
 *
 *   const [answer] = yield* Effect.all(
 *     [Complaint.execute({ id: "1", text: "I want my 25 EUR back." }), decision],
 *     { concurrency: "unbounded" }
 *   ).pipe(Effect.provide(complaints))
 *   assert.strictEqual(answer, "You have your money.")
 * })
 *
 * const model = ScriptedModel.layer([
 *   { toolCalls: [{ name: "refund", params: { amount: 25 } }] },
 *   { text: "You have your money.", expect: { toolResult: "paid" } }
 * ])
 *
 * await Effect.runPromise(program.pipe(
 *   Effect.provide(Layer.mergeAll(WorkflowEngine.layerMemory, model, tools.toLayer({ refund: () => Effect.succeed("paid") })))
 * ))
 * ```
 *
 * @since 0.1.0
 */

import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Activity from "effect/workflow/Activity"
import * as DurableClock from "effect/workflow/DurableClock"
import * as DurableDeferred from "effect/workflow/DurableDeferred"
import * as Workflow from "effect/workflow/Workflow"
import * as WorkflowEngine from "effect/workflow/WorkflowEngine"
import * as callOptions from "../payload/internal/options.ts"
import * as Run from "../agent/Run.ts"
import * as Message from "../conversation/Message.ts"
import * as Json from "../payload/Json.ts"
import * as base from "../payload/internal/base.ts"
import { unlimited } from "../payload/internal/limits.ts"
import { defined } from "../payload/internal/values.ts"
import * as durability from "../run/internal/durability.ts"
import * as runRequests from "../run/internal/runRequests.ts"
import * as runTransition from "../run/internal/runTransition.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as callContext from "../tool/internal/callContext.ts"
import * as toolCall from "../tool/internal/toolCall.ts"
import * as modelRecord from "./internal/modelRecord.ts"

/**
 * A request that a run waits with, and the token to decide it by.
 *
 * **Details**
 *
 * `request` is what `Run.requests` returns, of an agent or a plan. Both members are JSON.
 *
 * **Gotchas**
 *
 * The token is no secret: it names the workflow, the execution and the digest of the request, and a caller who knows these can
 * make it. Check who is asking before you call {@link decide}.
 *
 * @category models
 * @since 0.1.0
 */
export interface Pending {
  readonly token: string
  readonly request: Run.Request
}

/**
 * A decision was not taken.
 *
 * **Details**
 *
 * `problem` is the expected and the found value: the token belongs to another request or is no token, or the decision
 * has expired or is too large.
 *
 * @category errors
 * @since 0.1.0
 */
export class DecisionRefused extends Schema.TaggedError<DecisionRefused>("effect-emissary/workflow/DecisionRefused")(
  "DecisionRefused",
  { problem: Schema.String }
) {
  override get message() {
    return `Activities.decide: ${this.problem}`
  }
}

/**
 * The options of {@link layer}.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options<R> {
  /**
   * Receives each request that a run waits with, once, as an activity: send it to the person who decides. If its
   * process dies between the message and the record of it, the next process sends the message again. None by default.
   */
  readonly onApproval?: ((pending: Pending) => Effect.Effect<unknown, never, R>) | undefined
  /** The most bytes of JSON that one activity stores, at least 256; default 1 MiB. */
  readonly maxBytes?: number | undefined
}

/**
 * An answer of a model with all its output tokens is half a megabyte at most. A row of a cluster's tables is read whole each time
 * that the body runs again, so what is much larger belongs in a store of files, with its name in the result.
 */
const defaultMaxBytes = 1024 * 1024

/** The records of the library itself have fewer bytes. */
const leastMaxBytes = 256

/** One run of the body of a workflow. */
interface BodyRun {
  /** Differs from the incarnation of every other run of the body. */
  readonly incarnation: string
  /** The number of uses of each name. */
  readonly used: Map<string, number>
  /** Done when something in the body has to wait for the world outside. */
  readonly parked: Deferred.Deferred<void>
  /** The time of the newest record, in milliseconds. */
  now: number
}

const bodyRuns = new WeakMap<WorkflowEngine.WorkflowInstance["Service"], BodyRun>()

let bodyRunCount = 0

/** The run of the body of an instance. Layers of one body share its names. */
const bodyRunOf = (
  instance: WorkflowEngine.WorkflowInstance["Service"],
  clock: Clock.Clock,
  random: Context.Service.Shape<typeof Random.Random>
): BodyRun => {
  const known = bodyRuns.get(instance)
  if (known !== undefined) return known
  const made: BodyRun = {
    // Another one in this process, and in any other one, also where random numbers are the same each time
    incarnation: [bodyRunCount++, clock.currentTimeNanosUnsafe(), random.nextIntUnsafe()].join("-"),
    used: new Map(),
    parked: Deferred.makeUnsafe(),
    now: 0
  }
  bodyRuns.set(instance, made)
  return made
}

/** The name with its count from the second use on. A run uses one name for one thing at a time, so the count is the same each time. */
const countUse = ({ used }: BodyRun, name: string): number => {
  const count = (used.get(name) ?? 0) + 1
  used.set(name, count)
  return count
}

const nameOf = (body: BodyRun, name: string): string => {
  const count = countUse(body, name)
  return count === 1 ? name : `${name}#${count}`
}

/** The activity's result: version 1. `at` is when it ended, in milliseconds. */
const Stored = Schema.Union([
  Schema.Struct({ version: Schema.Literal(1), at: Schema.Finite, value: Schema.Json }),
  Schema.Struct({ version: Schema.Literal(1), at: Schema.Finite, refused: Schema.String })
])

const decodeStored = Schema.decodeUnknownOption(Stored)

/** The decision as the deferred has it: version 1. */
const StoredDecision = Schema.Struct({ version: Schema.Literal(1), at: Schema.Finite, decision: Run.Decision })

const encodeDecision = Schema.encodeEffect(Schema.toCodecJson(StoredDecision))

const decodeDecision = Schema.decodeUnknownOption(Schema.toCodecJson(StoredDecision))

const encodeResult = Schema.encodeEffect(Schema.toCodecJson(ToolResult.ToolResult))

const decodeResult = Schema.decodeUnknownOption(Schema.toCodecJson(ToolResult.ToolResult))

const approvalName = (digest: string): string => `approval/${digest}`

/** Any JSON, so that no change of a type makes a stored result unreadable for the engine, which would end the workflow for good. */
const approvalOf = (name: string) => DurableDeferred.make(name, { success: Schema.Json })

/** A clock whose time is the time of the newest record. Its timers run on the clock below. */
const workflowClock = (clock: Clock.Clock, body: BodyRun): Clock.Clock => {
  const nanos = () => BigInt(body.now) * 1_000_000n
  return {
    currentTimeMillisUnsafe: () => body.now,
    currentTimeMillis: Effect.sync(() => body.now),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: clock.monotonicTimeNanos,
    sleep: (duration) => clock.sleep(duration)
  }
}

/** One run of the body with what its activities need. `outside` has the services of everything inside an activity. */
interface Inside {
  readonly engine: WorkflowEngine.WorkflowEngine["Service"]
  readonly instance: WorkflowEngine.WorkflowInstance["Service"]
  readonly body: BodyRun
  readonly outside: Context.Context<never>
  readonly maxBytes: number
  readonly onApproval: ((pending: Pending) => Effect.Effect<unknown>) | undefined
}

type InWorkflow<A> = Effect.Effect<A, never, WorkflowEngine.WorkflowEngine | WorkflowEngine.WorkflowInstance>

/** Inside an activity everything is as it is outside of a workflow: the activity is stored as a whole. */
const asOutside = <A>({ outside }: Inside, code: Effect.Effect<A>): Effect.Effect<A> =>
  Effect.updateContext(code, (context: Context.Context<never>) => Context.merge(context, outside))

/**
 * Waits for something durable. Where it has to wait for the world outside, it interrupts its fiber, which the code around it
 * could take for the end of a tool or of a step; so that happens in a fiber of its own, and the whole run is parked.
 */
const parkable = Effect.fnUntraced(function* <A>(
  { body, engine, instance }: Inside,
  waiting: InWorkflow<A>
): Effect.fn.Return<A> {
  const fiber = yield* waiting.pipe(
    Effect.provideService(WorkflowEngine.WorkflowEngine, engine),
    Effect.provideService(WorkflowEngine.WorkflowInstance, instance),
    Effect.forkChild({ startImmediately: true })
  )
  const exit = yield* Effect.onInterrupt(Fiber.await(fiber), () => Fiber.interrupt(fiber))
  if (Exit.isSuccess(exit)) return exit.value
  if (!instance.suspended || !Cause.hasInterruptsOnly(exit.cause)) return yield* exit
  yield* Deferred.succeed(body.parked, undefined)
  return yield* Effect.interruptible(Effect.never)
})

/**
 * Waits for a deferred. The engine interrupts a body that has ever waited for one when its completion arrives, which can be
 * after its value was read; a tool that runs by then would be lost.
 */
const awaitDeferred = <A>(self: Inside, name: string, waiting: InWorkflow<A>): Effect.Effect<A> =>
  Effect.tap(parkable(self, waiting), () => Effect.sync(() => self.instance.awaitedDeferreds.delete(name)))

/** The result of an activity, which is stored once. */
const perform = (
  self: Inside,
  name: string,
  code: Effect.Effect<Schema.Json>
): Effect.Effect<Schema.Json, durability.NotStored> => {
  const { body, maxBytes } = self
  const what = `the result of ${base.quote(name)}`
  const execute = Effect.gen(function* () {
    const checked = yield* Effect.result(
      Effect.flatMap(code, (value) => Json.check(value, { what, limits: { ...unlimited, maxBytes } }))
    )
    const at = yield* Clock.currentTimeMillis
    return Result.isSuccess(checked)
      ? { version: 1, at, value: checked.success }
      : {
          version: 1,
          at,
          refused: `${checked.failure.message}. Return less, or a reference to it; see maxBytes of Activities.layer`
        }
  })
  const activity = Activity.make({ name, success: Schema.Json, execute: asOutside(self, execute) })
  return Effect.flatMap(parkable(self, activity), (found) => {
    const stored = Option.getOrUndefined(decodeStored(found))
    if (stored === undefined) {
      return new durability.NotStored({ problem: `${what} was stored by another version of this library` })
    }
    body.now = Math.max(body.now, stored.at)
    return "value" in stored
      ? Effect.succeed(stored.value)
      : Effect.fail(new durability.NotStored({ problem: stored.refused }))
  })
}

/**
 * Executes a call as an activity. A tool that is not idempotent has another activity before that, which names the run of the body
 * that it starts in: in any other one it may have run already.
 */
const callOnce = Effect.fnUntraced(function* (
  self: Inside,
  call: toolCall.BoundCall,
  execute: Effect.Effect<ToolResult.ToolResult>
) {
  const { body } = self
  const place = yield* callContext.Place
  const name = nameOf(body, `${place}/tool/${call.id}`)
  const isRepeatable = call.contract.annotations.idempotent === true
  const startedIn = isRepeatable
    ? body.incarnation
    : yield* perform(
        self,
        `${name}/started`,
        Effect.sync(() => body.incarnation)
      )
  let isStarted = startedIn !== body.incarnation
  const started = Effect.suspend(() => {
    if (isStarted) return Effect.succeed<ToolResult.ToolResult>(runTransition.lostCall)
    isStarted = !isRepeatable
    return executeSafely(call, execute)
  })
  const found = yield* perform(self, name, Effect.orDie(Effect.flatMap(started, encodeResult)))
  return Option.getOrElse(decodeResult(found), () => unreadable)
})

const performCall =
  (self: Inside) =>
  (
    call: toolCall.BoundCall,
    dispatch: (call: toolCall.BoundCall) => Effect.Effect<ToolResult.ToolResult>
  ): Effect.Effect<ToolResult.ToolResult> => {
    const execute = Effect.suspend(() => dispatch(call))
    return call.delegates === true
      ? execute
      : Effect.catchTag(callOnce(self, call, execute), "NotStored", ({ problem }) =>
          Effect.succeed(ToolResult.failure("result_not_stored", problem))
        )
  }

/** Asks for a decision, and returns the deferred that will have it. */
const askFor = Effect.fnUntraced(function* (self: Inside, request: Run.Request) {
  const { body, instance, onApproval } = self
  const name = approvalName(request.digest)
  const deferred = approvalOf(`${name}/${countUse(body, name)}`)
  if (onApproval !== undefined) {
    const token = DurableDeferred.tokenFromExecutionId(deferred, instance)
    const asked = Effect.as(onApproval({ token, request }), null)
    yield* Effect.orDie(perform(self, `${deferred.name}/asked`, asked))
  }
  return { deferred, request }
})

const decisionOf = (
  self: Inside,
  { deferred, request }: Effect.Success<ReturnType<typeof askFor>>
): Effect.Effect<Run.Decision> => {
  const { callId, digest, path } = request
  return Effect.flatMap(awaitDeferred(self, deferred.name, DurableDeferred.await(deferred)), (found) => {
    const stored = Option.getOrUndefined(decodeDecision(found))
    if (stored === undefined) return Effect.succeed(Run.deny(request, { reason: "the decision cannot be read" }))
    self.body.now = Math.max(self.body.now, stored.at)
    const decision = { ...stored.decision, ...defined({ callId, digest, path }) }
    return runRequests.problemsOf(request, decision).length === 0
      ? Effect.succeed(decision)
      : Effect.flatMap(askFor(self, request), (again) => decisionOf(self, again))
  })
}

const durabilityOf = (self: Inside): durability.Durability => {
  const { body, instance } = self
  const once: durability.Durability["once"] = (name, code) =>
    Effect.flatMap(callContext.Place, (place) => perform(self, nameOf(body, `${place}/${name}`), code))
  return {
    host: Effect.fnUntraced(function* (run) {
      const outer = yield* callContext.Place
      const isInside = callContext.runAround(yield* Effect.context<never>()) !== undefined
      const place = `${outer}/${countUse(body, outer)}`
      const placed = Effect.provideService(run, callContext.Place, place)
      if (isInside) return yield* placed
      const parked = Effect.as(Deferred.await(body.parked), Option.none())
      const ended = yield* Effect.raceFirst(Effect.asSome(placed), parked)
      return Option.isSome(ended) ? ended.value : yield* Workflow.suspend(instance)
    }),
    once,
    exchange: (name, ask) =>
      Effect.flatMap(Effect.result(once(name, Effect.flatMap(ask, modelRecord.encode))), modelRecord.decode),
    sleep: Effect.fnUntraced(function* (duration) {
      const name = nameOf(body, `${yield* callContext.Place}/sleep`)
      const { deferred } = DurableClock.make({ name, duration })
      yield* awaitDeferred(self, deferred.name, DurableClock.sleep({ name, duration }))
      body.now += Duration.toMillis(duration)
    }),
    decisions: Effect.fnUntraced(function* (requests) {
      const asked = yield* Effect.forEach(requests, (request) => askFor(self, request))
      const decisions = yield* Effect.forEach(asked, (each) => decisionOf(self, each))
      // the run settles requests that have expired by now
      const now = DateTime.makeUnsafe(body.now)
      return decisions.filter((_, index) => {
        const request = requests[index]
        return request !== undefined && runRequests.expired(request, now) === undefined
      })
    })
  }
}

/** The services that a program has outside of a workflow. */
const outsideServices = Effect.gen(function* () {
  return Context.empty().pipe(
    Context.add(Clock.Clock, yield* Clock.Clock),
    Context.add(Random.Random, yield* Random.Random),
    Context.add(Message.MessageId, yield* Message.MessageId),
    Context.add(toolCall.Performance, undefined),
    Context.add(durability.Durability, undefined),
    Context.add(callContext.Place, "")
  )
})

const make = Effect.fnUntraced(function* <R>({ maxBytes = defaultMaxBytes, onApproval }: Options<R>) {
  yield* callOptions.check("Activities.layer", { maxBytes: callOptions.from(leastMaxBytes) }, { maxBytes })
  const instance = yield* WorkflowEngine.WorkflowInstance
  const services = yield* Effect.context<R>()
  const outside = yield* outsideServices
  const clock = Context.get(outside, Clock.Clock)
  const body = bodyRunOf(instance, clock, Context.get(outside, Random.Random))
  const self: Inside = {
    engine: yield* WorkflowEngine.WorkflowEngine,
    instance,
    body,
    outside,
    maxBytes,
    onApproval: onApproval && ((pending) => Effect.provideContext(onApproval(pending), services))
  }

  yield* Effect.orDie(perform(self, nameOf(body, "/began"), Effect.succeed(null)))

  const seed = instance.executionId
  const random = yield* Random.withSeed(Effect.service(Random.Random), seed)
  const messageId = Effect.map(callContext.Place, (place) => {
    const id = base.hashText(JSON.stringify([seed, place, countUse(body, `${place}/id`)]))
    return `msg_${id.slice("sha256:".length, "sha256:".length + 16)}`
  })
  return Context.empty().pipe(
    Context.add(durability.Durability, durabilityOf(self)),
    Context.add(toolCall.Performance, performCall(self)),
    Context.add(Message.MessageId, messageId),
    Context.add(Clock.Clock, workflowClock(clock, body)),
    Context.add(Random.Random, random)
  )
})

/** A runtime that interrupts itself has failed; the engine would run it again. */
const executeSafely = (
  call: toolCall.BoundCall,
  execute: Effect.Effect<ToolResult.ToolResult>
): Effect.Effect<ToolResult.ToolResult> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(execute, { startImmediately: true })
    const exit = yield* Effect.onInterrupt(Fiber.await(fiber), () => Fiber.interrupt(fiber))
    if (Exit.isSuccess(exit)) return exit.value
    return yield* toolCall.unhandledFailure(call.contract.name, exit.cause, yield* toolCall.CurrentCall)
  })

const unreadable = ToolResult.failure("result_not_stored", "the result was stored by another version of this library")

/**
 * Makes each model call, each tool call and each function step an activity of the workflow around it.
 *
 * **When to use**
 *
 * Provide it in the body of a workflow, around the agents and plans that the body runs.
 *
 * **Details**
 *
 * | what | in the workflow |
 * |---|---|
 * | model call, retry of it, summary of `ContextWindow.summarize` | an activity each |
 * | tool call | an activity under the id of the call, with all that wraps the `ToolRuntime`; without `Tool.Idempotent` another activity before it, which names the process that starts it |
 * | function step, predicate, `save` of a memory | an activity each |
 * | agent as a tool or as a step, plan as a step | its own calls are activities |
 * | request for an approval, pause of a plan | a `DurableDeferred`, see {@link decide} |
 * | pause before a retry of a step or of a model call | a `DurableClock` |
 *
 * A tool that was executing when its process died has an `interrupted` result with `outcome: "unknown"`, unless it is
 * `Tool.Idempotent`: then it runs again. A model call and a function step run again.
 *
 * A result of more than `maxBytes` is not stored: a tool result becomes a failure `result_not_stored`, a model answer
 * an error `UnknownError`, and a step fails with `NotStored`.
 *
 * **Gotchas**
 *
 * Code that is not in the table runs each time that the body does: instructions and toolkits that are Effects, policies of
 * approvals, hooks. It has to come to the same again.
 *
 * `timeouts.step`, `timeouts.total` and the timeout of a step that is an agent are not stored: a call that they cut off
 * is made again when the body runs again. The timeouts of tools and of functions are stored.
 *
 * Start a workflow of its own for each run: a decision about one of two runs in a body interrupts the calls of the other.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <R = never>(
  options: Options<R> = {}
): Layer.Layer<never, never, WorkflowEngine.WorkflowEngine | WorkflowEngine.WorkflowInstance | R> =>
  // fresh, because layers are shared by reference and each run of the body has its own
  Layer.fresh(Layer.effectContext(make(options)))

const maxDecisionBytes = 64 * 1024

const refuse = (problem: string) => Effect.fail(new DecisionRefused({ problem }))

/**
 * Decides a request that a run waits with, from any process that has the engine.
 *
 * **Details**
 *
 * The decision carries the digest of the request, as in `agent.resume`: it counts for that call with those arguments, and for no
 * other. The first decision about a request counts. The run resumes when all requests that it waits with are decided; a request that has
 * expired by then (`bounds.expiresAt`) is settled as expired. A decision
 * with `expiresAt` has to be taken before that; the run asks again where it was not, and where an answer does not fit the JSON Schema
 * of the request.
 *
 * **Gotchas**
 *
 * The token is no secret, see {@link Pending}. A token of an execution that does not exist is stored for it.
 *
 * @category running
 * @since 0.1.0
 */
export const decide = Effect.fn("Activities.decide")(function* (
  token: string,
  decision: Run.Decision
): Effect.fn.Return<void, DecisionRefused, WorkflowEngine.WorkflowEngine> {
  const parsed = yield* Effect.result(Schema.decodeEffect(DurableDeferred.TokenParsed.FromString)(token))
  if (Result.isFailure(parsed)) return yield* refuse("expected the token of a request that waits, got another text")
  const { deferredName } = parsed.success
  if (!deferredName.startsWith(`${approvalName(decision.digest)}/`)) {
    return yield* refuse("expected a decision about the request of the token, got the digest of another request")
  }
  const now = yield* DateTime.now
  if (decision.expiresAt !== undefined && DateTime.isLessThanOrEqualTo(decision.expiresAt, now)) {
    return yield* refuse("expected a decision that holds, got a decision that has expired")
  }
  const stored = yield* Effect.mapError(
    encodeDecision({ version: 1, at: DateTime.toEpochMillis(now), decision }),
    ({ message }) => new DecisionRefused({ problem: message })
  )
  const json = yield* Effect.mapError(
    Json.check(stored, { what: "the decision", limits: { maxBytes: maxDecisionBytes } }),
    ({ message }) => new DecisionRefused({ problem: message })
  )
  yield* DurableDeferred.succeed(approvalOf(deferredName), { token: DurableDeferred.Token.make(token), value: json })
})
