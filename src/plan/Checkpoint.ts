/**
 * Runs of plans that survive their process.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import * as VersionedStore from "../conversation/VersionedStore.ts"
import type { CheckpointError, Status } from "./CheckpointError.ts"
import * as service from "./internal/checkpoint/service.ts"
import type { Bound } from "./Plan.ts"
import type { PlanError } from "./PlanError.ts"
import type { PlanEvent } from "./PlanEvent.ts"
import type * as PlanInput from "./PlanInput.ts"
import type { PlanOptions } from "./PlanOptions.ts"
import type { PlanResult } from "./PlanResult.ts"
import type { PlanRunState } from "./PlanRunState.ts"

/**
 * What to do about what is under the key.
 *
 * **Details**
 *
 * | under the key | `start` | `startOrResume` | `restart` |
 * |---|---|---|---|
 * | nothing | starts | starts | starts |
 * | `done` | starts anew | gives the recorded result | starts anew |
 * | `cancelled` | starts anew | resumes | starts anew |
 * | `failed`, `paused`, a dead process | `Unfinished` | resumes | starts anew |
 * | a run whose lease holds | `RunActive` | `RunActive` | `RunActive` |
 * | anything else | `Unreadable` | `Unreadable` | `Unreadable` |
 *
 * `fork` starts under a key of its own, `<key>:<unique>`, whatever is there.
 *
 * @category models
 * @since 0.1.0
 */
export type Policy = "start" | "startOrResume" | "restart" | "fork"

/**
 * Options of going on with a run.
 *
 * @category models
 * @since 0.1.0
 */
export interface ResumeOptions extends Omit<PlanOptions, "journal"> {
  readonly key: string
}

/**
 * Options of a run under a key. `policy` is `"start"` unless given.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunOptions extends ResumeOptions {
  readonly input: PlanInput.Input
  readonly policy?: Policy | undefined
}

/**
 * What a run gives, and the key it is kept under (that of the fork, for a fork).
 *
 * @category models
 * @since 0.1.0
 */
export type Result<A> = PlanResult<A> & { readonly key: string }

/**
 * What is known of the run under a key without reading what it did.
 *
 * @category models
 * @since 0.1.0
 */
export interface Inspection {
  readonly key: string
  readonly status: Status
  /** Whether its lease holds now: nobody else can take it. */
  readonly live: boolean
  readonly owner: string
  /** Absent once the run has ended. */
  readonly leaseUntil: DateTime.Utc | undefined
  /** How often somebody took the key. */
  readonly epoch: number
  readonly plan: string
  readonly digest: string
  /** Absent before the run has begun. */
  readonly runId: string | undefined
  readonly fork: boolean
  readonly iterations: number
  /** How many steps are in the history. */
  readonly completed: number
  /** Keys of durable writes that may not be done yet. */
  readonly pendingWrites: ReadonlyArray<string>
  readonly outcome: { readonly _tag: string; readonly message?: string } | undefined
  readonly updatedAt: DateTime.Utc
}

/**
 * A value that a step wrote.
 *
 * @category models
 * @since 0.1.0
 */
export interface Write {
  readonly value: Schema.Json
  /** The run that wrote it, and the place of the step's record in its history. */
  readonly runId: string
  readonly record: number
  readonly step: string
  readonly at: DateTime.Utc
}

/**
 * Keys in the order of their UTF-16 code units.
 *
 * @category models
 * @since 0.1.0
 */
export interface Page {
  readonly keys: ReadonlyArray<string>
  readonly next: Option.Option<string>
}

/**
 * What checkpoints can do. Keys are any text.
 *
 * @category models
 * @since 0.1.0
 */
export interface Service {
  readonly run: <A, R>(
    plan: Bound<A, R>,
    options: RunOptions
  ) => Effect.Effect<Result<A>, PlanError | CheckpointError, R>
  readonly resume: <A, R>(
    plan: Bound<A, R>,
    options: ResumeOptions
  ) => Effect.Effect<Result<A>, PlanError | CheckpointError, R>
  readonly stream: <A, R>(
    plan: Bound<A, R>,
    options: RunOptions
  ) => Stream.Stream<PlanEvent<A>, PlanError | CheckpointError, R>
  readonly resumeStream: <A, R>(
    plan: Bound<A, R>,
    options: ResumeOptions
  ) => Stream.Stream<PlanEvent<A>, PlanError | CheckpointError, R>
  readonly inspect: (key: string) => Effect.Effect<Option.Option<Inspection>, CheckpointError>
  readonly load: <A, R>(
    plan: Bound<A, R>,
    key: string
  ) => Effect.Effect<Option.Option<PlanRunState>, PlanError | CheckpointError>
  readonly list: (options?: VersionedStore.ListOptions) => Effect.Effect<Page, CheckpointError>
  readonly remove: (
    key: string,
    options?: { readonly force?: boolean | undefined }
  ) => Effect.Effect<boolean, CheckpointError>
  readonly read: (
    write: string,
    options?: { readonly fork?: string | undefined }
  ) => Effect.Effect<Option.Option<Write>, CheckpointError>
  readonly isCurrent: (key: string, write: string) => Effect.Effect<boolean, CheckpointError>
}

/**
 * Runs of plans that survive their process.
 *
 * @category services
 * @since 0.1.0
 */
export class Checkpoint extends Context.Service<Checkpoint, Service>()("effect-emissary/plan/Checkpoint") {}

/**
 * @category models
 * @since 0.1.0
 */
export interface Options {
  readonly namespace?: string | undefined
  readonly leaseTime?: Duration.Input | undefined
  readonly heartbeat?: Duration.Input | undefined
}

/**
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<Checkpoint, never, VersionedStore.VersionedStore> =>
  Layer.effect(Checkpoint, service.make(options ?? {}))

/**
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<Checkpoint> = Layer.provide(layer(), VersionedStore.layerMemory)
