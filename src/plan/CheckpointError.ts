/**
 * Why a run was not begun, kept or found under its key.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import { VersionedStoreError } from "../conversation/VersionedStoreError.ts"
import * as Names from "../payload/Names.ts"
import { PayloadError } from "../payload/PayloadError.ts"

/**
 * How far the run under a key is.
 *
 * **Details**
 *
 * | status | meaning |
 * |---|---|
 * | `claimed` | a process has taken the key and nothing has happened yet |
 * | `running` | it runs, or its process died |
 * | `paused` | steps wait for somebody |
 * | `failed` | a step failed, the iterations were used up, or a write was refused |
 * | `cancelled` | somebody stopped it |
 * | `done` | it has its result, and all writes are done |
 *
 * @category models
 * @since 0.1.0
 */
export const Status = Schema.Literals(["claimed", "running", "paused", "failed", "cancelled", "done"])

/**
 * How far the run under a key is.
 *
 * @category models
 * @since 0.1.0
 */
export type Status = typeof Status.Type

const until = (time: DateTime.Utc): string => DateTime.formatIso(time)

/**
 * Another process runs this key now. Its lease ends at `leaseUntil`, unless it is
 * renewed. Nothing was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class RunActive extends Schema.TaggedError<RunActive>("effect-emissary/plan/RunActive")("RunActive", {
  owner: Schema.String,
  status: Status,
  leaseUntil: Schema.DateTimeUtcFromMillis
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected nobody to run it, found that ${Names.quote(this.owner)} does (status ${this.status}, lease until ${until(this.leaseUntil)}). Wait for it, or try again after the lease: a run whose process died does not renew it`
  }
}

/**
 * There is an unfinished run under the key that nobody works on. Starting would throw
 * away what it has done. Nothing was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Unfinished extends Schema.TaggedError<Unfinished>("effect-emissary/plan/Unfinished")("Unfinished", {
  owner: Schema.String,
  status: Status,
  leaseUntil: Schema.optionalKey(Schema.DateTimeUtcFromMillis)
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const lease = this.leaseUntil === undefined ? "" : `, its lease ended ${until(this.leaseUntil)}`
    return `expected no unfinished run, found one of ${Names.quote(this.owner)} (status ${this.status}${lease}). Resume it, use another key, or throw away what it did with the policy "restart"`
  }
}

/**
 * There is no run under the key.
 *
 * @category reasons
 * @since 0.1.0
 */
export class NothingToResume extends Schema.TaggedError<NothingToResume>("effect-emissary/plan/NothingToResume")(
  "NothingToResume",
  {}
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected a run, found none. Start one, or use the policy "startOrResume"`
  }
}

/**
 * The run under the key began with another input than the one that was given.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InputDiffers extends Schema.TaggedError<InputDiffers>("effect-emissary/plan/InputDiffers")(
  "InputDiffers",
  { status: Status }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected the input that the run (status ${this.status}) began with, found another one. Use a key per input; or start anew with the policy ${this.status === "done" ? `"start"` : `"restart"`}`
  }
}

/**
 * The run was stopped because it does not hold its key any more: its lease had ended and
 * another process has taken the key, or the run was removed. The steps that ran were
 * interrupted, and nothing more was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class LeaseLost extends Schema.TaggedError<LeaseLost>("effect-emissary/plan/LeaseLost")("LeaseLost", {
  owner: Schema.String,
  found: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected the lease of ${Names.quote(this.owner)}, found ${this.found}. The run was stopped and has written nothing since; give it a longer lease if its process was only slow`
  }
}

/**
 * What is stored under the key is nothing that this release can read: it was damaged,
 * somebody else wrote it, or a newer release did. It was left as it is.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Unreadable extends Schema.TaggedError<Unreadable>("effect-emissary/plan/UnreadableCheckpoint")(
  "Unreadable",
  { stored: Schema.String, error: PayloadError }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `what is stored under ${Names.quote(this.stored)} cannot be read and was left as it is: ${this.error.message}. Use another key or namespace, or remove it with { force: true }`
  }
}

/**
 * Part of what the run did is missing, or is not what the run says it did. Nothing was
 * skipped and nothing was written.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Damaged extends Schema.TaggedError<Damaged>("effect-emissary/plan/DamagedCheckpoint")("Damaged", {
  stored: Schema.String,
  problem: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `${Names.quote(this.stored)}: ${this.problem}. Restore it from a backup, or begin anew with the policy "restart"`
  }
}

/**
 * What the run did cannot be stored: beyond the limits, or with a secret inside. The
 * run stopped before it.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Refused extends Schema.TaggedError<Refused>("effect-emissary/plan/RefusedCheckpoint")("Refused", {
  error: PayloadError
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `refused, nothing was written: ${this.error.message}`
  }
}

/**
 * The store failed. What was stored before is complete, and the run can be resumed.
 *
 * @category reasons
 * @since 0.1.0
 */
export class StoreFailed extends Schema.TaggedError<StoreFailed>("effect-emissary/plan/CheckpointStoreFailed")(
  "StoreFailed",
  { error: VersionedStoreError }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `${this.error.message}. What was stored before is complete: resume the run when the store answers again`
  }
}

/**
 * The durable write of a step failed. The step is done and does not run again; the
 * write is done first when the run is resumed.
 *
 * @category reasons
 * @since 0.1.0
 */
export class WriteFailed extends Schema.TaggedError<WriteFailed>("effect-emissary/plan/WriteFailed")("WriteFailed", {
  write: Schema.String,
  step: Schema.String,
  problem: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `step ${Names.quote(this.step)} is done, and its write ${Names.quote(this.write)} failed: ${this.problem}. Resume the run: the write is done first, and the step does not run again`
  }
}

/**
 * Why a run was not begun, kept or found.
 *
 * @category reasons
 * @since 0.1.0
 */
export const Reason = Schema.Union([
  RunActive,
  Unfinished,
  NothingToResume,
  InputDiffers,
  LeaseLost,
  Unreadable,
  Damaged,
  Refused,
  StoreFailed,
  WriteFailed
])

/**
 * Why a run was not begun, kept or found.
 *
 * @category reasons
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * A run was not begun, kept or found under its key.
 *
 * @category errors
 * @since 0.1.0
 */
export class CheckpointError extends Schema.TaggedError<CheckpointError>("effect-emissary/plan/CheckpointError")(
  "CheckpointError",
  { key: Schema.optionalKey(Schema.String), reason: Reason }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const key = this.key === undefined ? "checkpoints" : `checkpoint ${Names.quote(this.key)}`
    return `${key}: ${this.reason.message}`
  }
}
