/** The service of checkpoints over a versioned store. */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { VersionedStore } from "../../../conversation/VersionedStore.ts"
import type { Inspection, Options, Policy, ResumeOptions, RunOptions, Service } from "../../Checkpoint.ts"
import { CheckpointError, type Reason } from "../../CheckpointError.ts"
import * as Plan from "../../Plan.ts"
import type { PlanError } from "../../PlanError.ts"
import type { ResumeOptions as EngineOptions } from "../../PlanOptions.ts"
import type { PlanResult } from "../../PlanResult.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import { inputOf } from "../engine/input.ts"
import type { BoundPlan } from "../live.ts"
import { boundOf } from "../plan.ts"
import * as claims from "./claims.ts"
import * as heads from "./heads.ts"
import * as keys from "./keys.ts"
import * as sessions from "./session.ts"
import * as storages from "./storage.ts"

const leaseOf = (options: Options): Effect.Effect<sessions.Lease> => {
  const time = Duration.fromInputUnsafe(options.leaseTime ?? "30 seconds")
  const heartbeat =
    options.heartbeat === undefined ? Duration.times(time, 1 / 3) : Duration.fromInputUnsafe(options.heartbeat)
  return Duration.isGreaterThan(heartbeat, Duration.zero) &&
    Duration.isLessThanOrEqualTo(Duration.times(heartbeat, 2), time)
    ? Effect.succeed({ time, heartbeat })
    : Effect.die(
        new Error(
          `Checkpoint.layer: expected a heartbeat of at most half the leaseTime (${Duration.format(time)}), found ${Duration.format(heartbeat)}`
        )
      )
}

type Given = ResumeOptions & { readonly input?: unknown; readonly policy?: unknown }

const policies: ReadonlySet<unknown> = new Set<Policy>(["start", "startOrResume", "restart", "fork"])

/** Whoever configures without types must not start anew what was to be kept. */
const unknownPolicy = (found: unknown): TypeError =>
  new TypeError(
    `Checkpoint: expected the policy "start", "startOrResume", "restart" or "fork", found ${typeof found === "string" ? JSON.stringify(found) : typeof found}`
  )

/** What of the options is for the engine. */
const forEngine = ({ input: _input, key: _key, policy: _policy, ...rest }: Given): EngineOptions => rest

/** The options of this call over those the run was begun with. */
const engineOptions = (options: Given, session: sessions.Session, begin?: claims.Begin): EngineOptions => ({
  ...forEngine(options),
  context: options.context ?? begin?.context,
  maxIterations: options.maxIterations ?? begin?.maxIterations,
  journal: session.journal
})

export const make = (options: Options): Effect.Effect<Service, never, VersionedStore> =>
  Effect.gen(function* () {
    const lease = yield* leaseOf(options)
    const storage = storages.make(yield* VersionedStore, keys.make(options.namespace ?? "plan"))
    const claiming = claims.make(storage, lease)

    const fail = (key: string | undefined) => (reason: Reason) =>
      new CheckpointError({ ...(key === undefined ? {} : { key }), reason })

    const start = Effect.fnUntraced(function* <A, R>(
      plan: Plan.Bound<A, R>,
      { context, input, key, maxIterations, policy = "start" }: RunOptions
    ) {
      if (!policies.has(policy)) return yield* Effect.die(unknownPolicy(policy))
      const begin: claims.Begin = {
        input: yield* inputOf(boundOf(plan).definition.name, input),
        context,
        maxIterations
      }
      const bound = boundOf(plan)
      return policy === "fork"
        ? yield* claiming.start(bound, `${key}:${yield* keys.nonce}`, begin, { policy: "start", fork: true })
        : yield* claiming.start(bound, key, begin, { policy, fork: false })
    })

    const goOn = <A, R>(plan: Plan.Bound<A, R>, { key }: ResumeOptions) => claiming.resume(boundOf(plan), key)

    /** The error that stopped the run instead of the one that the engine made of it. */
    const explain =
      (session: sessions.Session) =>
      (error: PlanError | CheckpointError): PlanError | CheckpointError =>
        session.failure() ?? error

    const withKey = <A>(key: string, result: PlanResult<A>) => ({ ...result, key })

    const perform = <A, R>(
      plan: Plan.Bound<A, R>,
      options: ResumeOptions,
      taking: Effect.Effect<claims.Taken, PlanError | CheckpointError>
    ) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const taken = yield* taking
          if (taken._tag === "Done") {
            return withKey(taken.key, yield* restore(Plan.resume(plan, taken.state, forEngine(options))))
          }
          const session = sessions.open(storage, lease, taken.claimed)
          const engine = Effect.suspend(() =>
            taken._tag === "Run"
              ? Plan.run(plan, taken.begin.input, engineOptions(options, session, taken.begin))
              : Plan.resume(plan, taken.state, engineOptions(options, session))
          )
          const running = Effect.scoped(
            Effect.andThen(
              Effect.forkScoped(session.beat),
              Effect.raceFirst(Effect.andThen(session.tidy, engine), session.stopped)
            )
          )
          const exit = yield* Effect.exit(Effect.mapError(restore(running), explain(session)))
          yield* session.settle(exit)
          return withKey(session.key, yield* exit)
        })
      )

    const told = <A, R>(
      plan: Plan.Bound<A, R>,
      options: ResumeOptions,
      taking: Effect.Effect<claims.Taken, PlanError | CheckpointError>
    ) =>
      Stream.unwrap(
        Effect.uninterruptible(
          Effect.gen(function* () {
            const taken = yield* taking
            if (taken._tag === "Done") return Plan.resumeStream(plan, taken.state, forEngine(options))
            const session = sessions.open(storage, lease, taken.claimed)
            // A failure of the last write has nowhere to go once the stream has ended
            yield* Effect.addFinalizer((exit) =>
              Effect.catch(session.settle(Exit.asVoid(exit)), (error) => Effect.logWarning(error.message))
            )
            yield* Effect.forkScoped(Effect.interruptible(session.beat))
            const engine =
              taken._tag === "Run"
                ? Plan.stream(plan, taken.begin.input, engineOptions(options, session, taken.begin))
                : Plan.resumeStream(plan, taken.state, engineOptions(options, session))
            return Stream.unwrap(Effect.as(session.tidy, engine)).pipe(
              Stream.interruptWhen(session.stopped),
              Stream.mapError(explain(session))
            )
          })
        )
      )

    const inspect = Effect.fn("Checkpoint.inspect")(function* (key: string) {
      const found = yield* Effect.mapError(storage.head(key), fail(key))
      if (Option.isNone(found)) return Option.none()
      const { head } = found.value
      const { outcome } = head
      return Option.some<Inspection>({
        key,
        status: head.status,
        live: heads.isLive(head, yield* DateTime.now),
        owner: head.owner,
        leaseUntil: head.lease,
        epoch: head.epoch,
        plan: head.plan,
        digest: head.digest,
        runId: head.run,
        fork: head.fork,
        iterations: head.iterations,
        completed: head.completed,
        pendingWrites: head.pending.map(({ write }) => write),
        outcome:
          outcome === undefined
            ? undefined
            : { _tag: outcome.type, ...(outcome.message === undefined ? {} : { message: outcome.message }) },
        updatedAt: head.updated
      })
    })

    /** What is missing can be that of a run that somebody began anew since the head was read. */
    const load = Effect.fnUntraced(function* (
      plan: BoundPlan,
      key: string
    ): Effect.fn.Return<Option.Option<PlanRunState>, Reason | PlanError> {
      for (;;) {
        const found = yield* storage.head(key)
        if (Option.isNone(found)) return Option.none()
        const { head } = found.value
        const state = yield* Effect.result(claiming.stateOf(plan, key, head))
        if (Result.isSuccess(state)) return Option.fromUndefinedOr(state.success)
        if (state.failure._tag !== "Damaged") return yield* Effect.fail(state.failure)
        const now = yield* storage.head(key)
        if (Option.isSome(now) && now.value.head.generation === head.generation) return yield* state.failure
      }
    })

    const remove = Effect.fn("Checkpoint.remove")(function* (
      key: string,
      options?: { readonly force?: boolean | undefined }
    ) {
      const force = options?.force ?? false
      return yield* storage.remove(key, force).pipe(Effect.mapError(fail(key)))
    })

    return {
      run: (plan, options) => perform(plan, options, start(plan, options)).pipe(Effect.withSpan("Checkpoint.run")),
      resume: (plan, options) => perform(plan, options, goOn(plan, options)).pipe(Effect.withSpan("Checkpoint.resume")),
      stream: (plan, options) => told(plan, options, start(plan, options)),
      resumeStream: (plan, options) => told(plan, options, goOn(plan, options)),
      inspect,
      load: Effect.fn("Checkpoint.load")((plan, key) =>
        Effect.mapError(load(boundOf(plan), key), (error) => (error._tag === "PlanError" ? error : fail(key)(error)))
      ),
      list: Effect.fn("Checkpoint.list")((options) => Effect.mapError(storage.list(options), fail(undefined))),
      remove,
      read: Effect.fn("Checkpoint.read")(function* (write, options) {
        const found = yield* Effect.mapError(storage.write(write, options?.fork), fail(options?.fork))
        return Option.map(found, ({ write: { at, record, run, step, value } }) => ({
          value,
          runId: run,
          record,
          step,
          at
        }))
      }),
      isCurrent: Effect.fn("Checkpoint.isCurrent")(function* (key, write) {
        const head = yield* Effect.mapError(storage.head(key), fail(key))
        if (Option.isNone(head) || head.value.head.run === undefined) return false
        const { fork, run } = head.value.head
        const found = yield* Effect.mapError(storage.write(write, fork ? key : undefined), fail(key))
        return Option.isSome(found) && found.value.write.run === run
      })
    } satisfies Service
  })
