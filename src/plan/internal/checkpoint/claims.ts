/** Taking keys: who may begin or go on with what, decided by one compare-and-set. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as CanonicalJson from "../../../payload/CanonicalJson.ts"
import type { JsonObject } from "../../../payload/Json.ts"
import {
  CheckpointError,
  Damaged,
  InputDiffers,
  NothingToResume,
  type Reason,
  RunActive,
  Unfinished
} from "../../CheckpointError.ts"
import { PlanChanged, PlanError } from "../../PlanError.ts"
import type { PlanInput } from "../../PlanInput.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import * as PlanTransition from "../../PlanTransition.ts"
import { changedInside, rulesOf } from "../engine/rules.ts"
import type { BoundPlan } from "../live.ts"
import * as heads from "./heads.ts"
import { nonce } from "./keys.ts"
import * as records from "./records.ts"
import type { Claimed, Lease } from "./session.ts"
import type { Found, Storage } from "./storage.ts"

/** What a run begins with. */
export interface Begin {
  readonly input: PlanInput
  readonly context: JsonObject | undefined
  readonly maxIterations: number | undefined
}

/** A key was taken, or what is there has ended and is not to be run. */
export type Taken =
  | { readonly _tag: "Run"; readonly claimed: Claimed; readonly begin: Begin }
  | { readonly _tag: "Resume"; readonly claimed: Claimed; readonly state: PlanRunState }
  | { readonly _tag: "Done"; readonly key: string; readonly state: PlanRunState }

export interface Claims {
  readonly start: (
    plan: BoundPlan,
    key: string,
    begin: Begin,
    options: { readonly policy: "start" | "startOrResume" | "restart"; readonly fork: boolean }
  ) => Effect.Effect<Taken, CheckpointError | PlanError>
  readonly resume: (plan: BoundPlan, key: string) => Effect.Effect<Taken, CheckpointError | PlanError>
  /** What the run under a head did. */
  readonly stateOf: (
    plan: BoundPlan,
    key: string,
    head: records.Head
  ) => Effect.Effect<PlanRunState | undefined, Reason | PlanError>
}

const isSameInput = (a: PlanInput, b: PlanInput): Effect.Effect<boolean, never> =>
  Effect.gen(function* () {
    // Plain JSON, whatever the types of its parts say
    const [x, y] = yield* Effect.all([encodeInput(a), encodeInput(b)])
    return Result.getOrUndefined(CanonicalJson.stringify(x)) === Result.getOrUndefined(CanonicalJson.stringify(y))
  })

const encodeInput = (input: PlanInput) => Effect.orDie(records.Begun.encode({ generation: "", input }))

export const make = (storage: Storage, lease: Lease): Claims => {
  const named =
    (key: string) =>
    <A>(effect: Effect.Effect<A, Reason | PlanError>): Effect.Effect<A, CheckpointError | PlanError> =>
      Effect.mapError(effect, (error) =>
        error._tag === "PlanError" ? error : new CheckpointError({ key, reason: error })
      )

  const changed = (plan: BoundPlan, head: records.Head): Effect.Effect<void, PlanError> =>
    head.digest === plan.digest
      ? Effect.void
      : Effect.fail(
          new PlanError({
            plan: plan.definition.name,
            reason: new PlanChanged({ expected: head.digest, found: plan.digest })
          })
        )

  const stateOf = Effect.fnUntraced(function* (plan: BoundPlan, key: string, head: records.Head) {
    yield* changed(plan, head)
    const events = yield* storage.events(key, head)
    const stored = storage.keys.journal(key)
    const damaged = (problem: string) => new Damaged({ stored, problem })
    if (events.length === 0 && head.revision === 0) return undefined
    const rules = yield* rulesOf(plan)
    const edited = changedInside(rules, events)
    if (edited !== undefined) return yield* edited
    const state = yield* Effect.mapError(Effect.fromResult(PlanTransition.fold(rules, events)), (error) =>
      damaged(`expected events that follow each other, found ${error.message}`)
    )
    if (state.revision !== head.revision || state.runId !== head.run) {
      return yield* damaged(
        `expected event ${head.revision} of run ${head.run ?? "unknown"}, found event ${state.revision} of run ${state.runId}`
      )
    }
    return state
  })

  /** Who is refused because somebody works on it. */
  const active = (head: records.Head, now: DateTime.Utc): Effect.Effect<void, RunActive> =>
    head.lease !== undefined && heads.isLive(head, now)
      ? Effect.fail(new RunActive({ owner: head.owner, status: head.status, leaseUntil: head.lease }))
      : Effect.void

  const begin = Effect.fnUntraced(function* (
    plan: BoundPlan,
    key: string,
    given: Begin,
    found: Option.Option<Found>,
    fork: boolean
  ) {
    const generation = yield* nonce
    const owner = yield* nonce
    const before = Option.getOrUndefined(found)?.head
    yield* storage.setBegun(
      { key, generation },
      {
        input: given.input,
        ...(given.context === undefined ? {} : { context: given.context }),
        ...(given.maxIterations === undefined ? {} : { maxIterations: given.maxIterations })
      }
    )
    const now = yield* DateTime.now
    const head: records.Head = {
      status: "claimed",
      plan: plan.definition.name,
      digest: plan.digest,
      fork: before?.fork ?? fork,
      generation,
      epoch: (before?.epoch ?? 0) + 1,
      owner,
      lease: DateTime.addDuration(now, lease.time),
      updated: now,
      segments: [],
      revision: 0,
      iterations: 0,
      completed: 0,
      pending: [],
      retired:
        before === undefined ? [] : [...before.retired, { generation: before.generation, segments: before.segments }]
    }
    const version = yield* Effect.tapError(
      storage.setHead(
        key,
        Option.map(found, ({ version }) => version),
        head
      ),
      // A store that failed can have written even so
      (error) => (error._tag === "VersionConflict" ? storage.sweep(key, { generation, segments: [] }) : Effect.void)
    )
    const { definition } = plan
    const claimed: Claimed = { key, definition, head, version, state: undefined, before: undefined }
    const taken: Taken = { _tag: "Run", claimed, begin: given }
    return taken
  })

  const goOn = Effect.fnUntraced(function* (plan: BoundPlan, key: string, found: Found, given: PlanInput | undefined) {
    const { head } = found
    yield* changed(plan, head)
    const begun = yield* storage.begun({ key, generation: head.generation })
    if (given !== undefined && !(yield* isSameInput(given, begun.input))) {
      return yield* new InputDiffers({ status: head.status })
    }
    const state = yield* stateOf(plan, key, head)
    if (head.status === "done") {
      if (state !== undefined && heads.statusOf(state) === "done") {
        const done: Taken = { _tag: "Done", key, state }
        return done
      }
      return yield* new Damaged({ stored: storage.keys.head(key), problem: "expected events up to the result" })
    }
    const now = yield* DateTime.now
    const next: records.Head = {
      ...head,
      status: state === undefined ? "claimed" : "running",
      epoch: head.epoch + 1,
      owner: yield* nonce,
      lease: DateTime.addDuration(now, lease.time),
      updated: now
    }
    const version = yield* storage.setHead(key, Option.some(found.version), next)
    const { definition } = plan
    const claimed: Claimed = { key, definition, head: next, version, state, before: head }
    const taken: Taken =
      state === undefined
        ? {
            _tag: "Run",
            claimed,
            begin: { input: begun.input, context: begun.context, maxIterations: begun.maxIterations }
          }
        : { _tag: "Resume", claimed, state }
    return taken
  })

  const start = (
    plan: BoundPlan,
    key: string,
    given: Begin,
    options: { readonly policy: "start" | "startOrResume" | "restart"; readonly fork: boolean }
  ): Effect.Effect<Taken, Reason | PlanError> =>
    Effect.gen(function* () {
      const { fork, policy } = options
      const found = yield* storage.head(key)
      if (Option.isNone(found)) return yield* begin(plan, key, given, found, fork)
      const { head } = found.value
      yield* active(head, yield* DateTime.now)
      if (policy === "startOrResume") return yield* goOn(plan, key, found.value, given.input)
      if (policy === "restart" || head.status === "done" || head.status === "cancelled") {
        return yield* begin(plan, key, given, found, fork)
      }
      return yield* new Unfinished({
        owner: head.owner,
        status: head.status,
        ...(head.lease === undefined ? {} : { leaseUntil: head.lease })
      })
      // Somebody was faster: look who
    }).pipe(Effect.catchTag("VersionConflict", () => start(plan, key, given, options)))

  const resume = (plan: BoundPlan, key: string): Effect.Effect<Taken, Reason | PlanError> =>
    Effect.gen(function* () {
      const found = yield* storage.head(key)
      if (Option.isNone(found)) return yield* new NothingToResume()
      yield* active(found.value.head, yield* DateTime.now)
      return yield* goOn(plan, key, found.value, undefined)
    }).pipe(Effect.catchTag("VersionConflict", () => resume(plan, key)))

  return {
    stateOf,
    start: (plan, key, given, options) => named(key)(start(plan, key, given, options)),
    resume: (plan, key) => named(key)(resume(plan, key))
  }
}
