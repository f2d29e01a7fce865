/**
 * The storage of sessions: a journal of their events, and snapshots of their states.
 *
 * A snapshot is the value that a generation of the journal begins with, so a session opens from its newest snapshot and the
 * events after it. A new one is made when these have become more than half of the events before, so each event is read and
 * written a bounded number of times, however long the session is. Older generations stay for readers of their events,
 * as long as they are to be kept.
 */

import * as Arr from "effect/Array"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as VersionedStore from "../../store/VersionedStore.ts"
import * as leases from "../../store/internal/leases.ts"
import * as documents from "../../store/internal/documents.ts"
import * as journal from "../../store/internal/journal.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import { Limits, unlimited } from "../../payload/internal/limits.ts"
import { defined } from "../../payload/internal/values.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as cursors from "./cursors.ts"
import * as events from "./events.ts"
import * as fold from "./fold.ts"
import type { Event } from "./events.ts"
import type { SessionState } from "./fold.ts"
import * as listIndex from "./listIndex.ts"

/**
 * The value under the id of a session. `lease` is absent while no process runs a turn. `life` stays until the session
 * is removed, and no other session under its id has it. `summary` is the summary after the newest event: a list reads
 * heads alone. `listed` names its row in the index of sessions.
 */
const Head = Schema.Struct({
  kind: Schema.Literal("session"),
  agent: Schema.String,
  life: Schema.String,
  sequence: runParts.Count,
  summary: Schema.Struct(events.summary),
  listed: Schema.optionalKey(runParts.Count),
  ...leases.headFields
})

export type Head = typeof Head.Type

const headCodec = VersionedCodec.single({ what: "session", value: Head })

/** Events that were written together. `first` is the number of the first one. */
const Batch = Schema.Struct({ first: runParts.Count, events: Schema.NonEmptyArray(events.EventSchema) })

type Batch = typeof Batch.Type

const batchCodec = journal.batchCodec({ what: "events of a session", kind: "session-events", events: Batch })

/** A generation that a snapshot replaced. `first` is the number of its first event. */
const Older = Schema.Struct({ generation: Schema.String, segments: journal.logFields.segments, first: runParts.Count })

type Older = typeof Older.Type

/** The state that a generation begins with. */
const Snapshot = Schema.Struct({
  generation: Schema.String,
  state: fold.SessionState,
  older: Schema.Array(Older)
})

type Snapshot = typeof Snapshot.Type

const snapshotCodec = VersionedCodec.single({
  what: "snapshot of a session",
  value: Snapshot,
  header: { kind: "session-snapshot" },
  data: runParts.userData
})

export type StoredHead = journal.StoredHead<Head>

export type Conflict = journal.Conflict<Head>

/**
 * A session as it is stored.
 *
 * - `base`: the number of the last event before this generation.
 * - `firsts`: the number of the first event of each batch of this generation.
 * - `row`: its row in the index, where this process has written it. `oldRow`: the row before, which is deleted at the end of the turn.
 */
export interface Stored {
  readonly at: StoredHead
  readonly state: SessionState
  readonly base: number
  readonly firsts: Array<number>
  readonly older: ReadonlyArray<Older>
  readonly row?: journal.Row | undefined
  readonly oldRow?: journal.Row | undefined
}

/** Events to append, the state after them, and the mark that is set or removed with them. */
export interface Addition {
  readonly events: ReadonlyArray<Event>
  readonly state: SessionState
  readonly marking?: journal.Marking | undefined
}

/** The events of a tail that need no snapshot, however short the session is. */
const shortTail = 256

/** A batch is read at a time where the place of the first event that is wanted is known. */
const pageSize = 64

/** The letters of a first generation that are the `life` of a session: 51 bits, on each event that is read. */
const lifeLength = 10

/** The `life` of a session that begins with a generation. */
export const lifeOf = (generation: string): string => generation.slice(0, lifeLength)

export type SessionLog = ReturnType<typeof make>

/** The place of the batch that has an event, among batches that begin with these. */
const batchOf = (firsts: ReadonlyArray<number>, sequence: number): number => {
  let low = 0
  let high = firsts.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((firsts[middle] ?? 0) <= sequence) low = middle + 1
    else high = middle
  }
  return Math.max(0, low - 1)
}

const anySize: Limits = {
  ...unlimited,
  maxMessages: Number.POSITIVE_INFINITY,
  maxFuel: Number.POSITIVE_INFINITY
}

/** Each event of a session was within the limits. Their fold, which is its snapshot, may be larger. */
const ofAnySize = Effect.provideService(Limits, anySize)

/** So may a batch of events, also where the limits are lower now than they were. */
const asStored = Effect.updateService(Limits, ({ maxDepth }) => ({ ...anySize, maxDepth }))

/** Each of so many events may be as large as the limits allow. */
const eachWithin = ({ length }: ReadonlyArray<Event>) =>
  Effect.updateService(Limits, (limits) => {
    const { maxBytes, maxFuel, maxNodes } = limits
    const count = Math.max(1, length)
    return { ...limits, maxBytes: maxBytes * count, maxNodes: maxNodes * count, maxFuel: maxFuel * count }
  })

const firstsOf = (batches: ReadonlyArray<Pick<Batch, "first">>) => batches.map(({ first }) => first)

const logOf = (store: VersionedStore.Service, namespace: string) =>
  journal.make({
    store,
    namespace,
    head: headCodec,
    batch: batchCodec,
    input: snapshotCodec,
    keepsGenerations: true
  })

/** Reads sessions and their events. */
const readerOf = (log: ReturnType<typeof logOf>) => {
  const damaged = (id: string, problem: string) => documents.damaged(log.journalKey(id), problem)

  const read = Effect.fnUntraced(function* (at: StoredHead) {
    const { state: before, older } = yield* ofAnySize(log.input(at))
    const batches = yield* asStored(log.batches(at))
    const folded = fold.applyAll(
      before,
      batches.flatMap(({ events }) => events)
    )
    const state = yield* Effect.mapError(Effect.fromResult(folded), (problem) =>
      damaged(at.key, `expected events that follow each other, got ${problem}`)
    )
    if (state.sequence !== at.head.sequence) {
      return yield* Effect.fail(damaged(at.key, `expected event ${at.head.sequence}, got ${state.sequence}`))
    }
    const stored: Stored = { at, state, base: before.sequence, firsts: firstsOf(batches), older }
    return stored
  })

  const load = (id: string): Effect.Effect<Option.Option<Stored>, documents.Reason> =>
    Effect.gen(function* () {
      const found = yield* log.head(id)
      return Option.isNone(found) ? Option.none() : Option.some(yield* read(found.value))
      // A new generation began since the head was read
    }).pipe(Effect.catch((error) => (error._tag === "Conflict" ? load(id) : Effect.fail(error))))

  /** The state before the first event that cannot be read. */
  const readable = Effect.fnUntraced(function* (id: string) {
    const at = yield* log.head(id)
    if (Option.isNone(at)) return Option.none()
    let { state } = yield* ofAnySize(log.input(at.value))
    for (let from = 0; ; from++) {
      const read = yield* Effect.result(asStored(log.batches(at.value, { from, count: 1 })))
      const [batch] = Result.getOrElse(read, () => [])
      const folded = batch === undefined ? undefined : fold.applyAll(state, batch.events)
      if (folded === undefined || Result.isFailure(folded)) return Option.some(state)
      state = folded.success
    }
  })

  /** The events from a number on of a generation whose batches are not in memory. */
  const readOlder = Effect.fnUntraced(function* (at: StoredHead, { generation, segments }: Older, from: number) {
    const there = { ...at, head: { ...at.head, generation, segments } }
    const firstOf = (batch: number) =>
      Effect.map(asStored(log.batches(there, { from: batch, count: 1 })), ([found]) => found?.first ?? 0)
    let low = 0
    let high = segments.reduce((count, { batches }) => count + batches, 0)
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((yield* firstOf(middle)) <= from) low = middle + 1
      else high = middle
    }
    return yield* asStored(log.batches(there, { from: Math.max(0, low - 1), count: pageSize }))
  })

  /**
   * Some of the events from a number on, at least one if there are any. The number is not below the number of the first
   * kept event.
   */
  const entries = Effect.fnUntraced(function* ({ at, base, firsts, older }: Stored, from: number) {
    const old = from > base ? undefined : older.findLast(({ first }) => first <= from)
    const batches =
      old === undefined
        ? yield* asStored(log.batches(at, { from: batchOf(firsts, from), count: pageSize }))
        : yield* readOlder(at, old, from)
    const entries = batches.flatMap(({ events, first }) => cursors.entriesFrom(at.head.life, first, events))
    return entries.filter(({ sequence }) => sequence >= from)
  })

  /** The state right after an event, from the snapshot of a generation before it. */
  const foldTo = Effect.fnUntraced(function* (
    stored: Stored,
    { generation, segments }: Pick<Older, "generation" | "segments">,
    sequence: number
  ) {
    const { at } = stored
    let { state } = yield* ofAnySize(log.input({ ...at, head: { ...at.head, generation, segments } }))
    while (state.sequence < sequence) {
      const found = (yield* entries(stored, state.sequence + 1)).filter((entry) => entry.sequence <= sequence)
      if (found.length === 0) return yield* Effect.fail(damaged(at.key, `expected event ${sequence}, got nothing`))
      const events = found.map(({ event }) => event)
      const folded = fold.applyAll(state, events)
      state = yield* Effect.mapError(Effect.fromResult(folded), (problem) => damaged(at.key, problem))
    }
    return state
  })

  /** The state right after an event. `undefined` if the events before it are no longer kept. */
  const stateAt = (
    stored: Stored,
    sequence: number
  ): Effect.Effect<SessionState | undefined, Conflict | documents.Reason> => {
    const { at, base, state: newest, older } = stored
    if (sequence === newest.sequence) return Effect.succeed(newest)
    if (sequence >= base) return foldTo(stored, at.head, sequence)
    const [oldest] = older
    // Where all events are kept, only the first generation has its snapshot
    const from = oldest?.first === 1 ? oldest : older.findLast(({ first }) => first <= sequence + 1)
    if (from === undefined) return Effect.undefined
    // They were deleted meanwhile
    return Effect.catchTag(foldTo(stored, from, sequence), "Conflict", () => Effect.undefined)
  }

  return { load, readable, entries, stateAt }
}

/** The journals of sessions under a namespace of a store. */
export const make = (store: VersionedStore.Service, namespace: string, keepEvents: number) => {
  const log = logOf(store, namespace)
  const index = listIndex.make(store, namespace)
  /** They hear of each session in this process that has changed. */
  const listeners = new Set<(id: string) => void>()
  const tell = (id: string) => Effect.sync(() => listeners.forEach((listener) => listener(id)))

  /** Begins a session with its first events, after the state `before`. A session that it replaces is deleted then. */
  const create = Effect.fnUntraced(function* (
    id: string,
    agent: string,
    claim: Pick<Head, "owner" | "updated"> & Partial<Pick<Head, "lease">>,
    { events, marking, state }: Addition = { events: [], state: fold.empty(agent) },
    before?: SessionState,
    replaced?: StoredHead,
    generation?: string
  ): Effect.fn.Return<Stored, Conflict | documents.Reason> {
    const { sequence } = state
    const batches = Arr.isReadonlyArrayNonEmpty(events) ? [{ first: 1, events }] : []
    const listed = index.nextListed(replaced?.head, claim.updated)
    const row = index.rowAt(id, listed)
    const begun = log.begin(id, Option.fromUndefinedOr(replaced), {
      prefix: generation && lifeOf(generation),
      input: (generation) => ({ generation, state: before ?? fold.empty(agent), older: [] }),
      head: (fields) => {
        const life = lifeOf(fields.generation)
        const { updated } = claim
        const summary = fold.summaryOf(state, { created: updated, updated })
        return { ...fields, ...claim, kind: "session", agent, life, sequence, summary, listed }
      },
      batches,
      marking,
      rows: { added: row, removed: replaced && index.rowOf(id, replaced.head) }
    })
    const at = yield* before === undefined ? eachWithin(events)(begun) : ofAnySize(begun)
    yield* tell(id)
    return {
      at: yield* log.sweep(at),
      state,
      base: 0,
      firsts: firstsOf(batches),
      older: [],
      row: { ...row, version: at.version }
    }
  })

  /** Begins a new generation with a snapshot, and deletes older generations that are not to be kept. */
  const compact = Effect.fnUntraced(function* (
    { at, base, state, older, row, oldRow }: Stored,
    updated: DateTime.Utc
  ): Effect.fn.Return<Stored, Conflict | documents.Reason> {
    const { epoch: _, owner: __, retired: ___, generation, segments, ...head } = at.head
    const replaced = [...older, { generation, segments, first: base + 1 }]
    // Of a generation the next one's first event is the end
    const kept = replaced.filter(
      (_, index) => (replaced[index + 1]?.first ?? state.sequence + 1) > state.sequence + 1 - keepEvents
    )
    const begun = log.begin(at.key, Option.some(at), {
      input: (generation) => ({ generation, state, older: kept }),
      head: (fields) => ({ ...head, ...fields, owner: at.head.owner, updated, sequence: state.sequence })
    })
    const next = yield* ofAnySize(begun)
    // The first one is what all events begin with. Where events are deleted, each may become the first one.
    if (base > 0 && keepEvents === Number.POSITIVE_INFINITY) yield* Effect.ignore(log.removeInput(at.key, generation))
    const swept = yield* log.sweep(next, new Set(kept.map(({ generation }) => generation)))
    return { at: swept, state, base: state.sequence, firsts: [], older: kept, row, oldRow }
  })

  return {
    log,
    index,
    listeners,
    tell,
    ...readerOf(log),
    create,

    /** Returns whether there was a session, readable or not. */
    remove: (id: string): Effect.Effect<boolean, documents.Reason> =>
      Effect.gen(function* () {
        const found = Option.flatten(yield* Effect.option(log.head(id)))
        const isRemoved = yield* log.remove(id)
        if (isRemoved) yield* index.leave(id, Option.getOrUndefined(found)?.head)
        yield* tell(id)
        return isRemoved
      }),

    compact,

    needsSnapshot: ({ base, state }: Stored): boolean => state.sequence - base > Math.max(shortTail, base / 2),

    /**
     * Changes the head, and appends events with it, with the state after them. It can be tried again after the store
     * failed: where that had written even so, nothing is written twice.
     */
    append: (
      stored: Stored,
      change: (head: Head) => Head,
      { events, marking, state }: Addition = { events: [], state: stored.state }
    ): Effect.Effect<Stored, Conflict | documents.Reason> =>
      Effect.gen(function* () {
        const first = stored.state.sequence + 1
        const changed = change({ ...stored.at.head, sequence: state.sequence })
        const batches = Arr.isReadonlyArrayNonEmpty(events) ? [{ first, events }] : []
        const { key } = stored.at
        const { created } = stored.at.head.summary
        const summary =
          batches.length === 0 ? stored.at.head.summary : fold.summaryOf(state, { created, updated: changed.updated })
        const before = stored.at.head
        // The end of a turn moves no session
        const isMoved = batches.length > 0 && (before.listed === undefined || before.summary.status !== "running")
        const listed = isMoved ? index.nextListed(before, changed.updated) : before.listed
        const added = isMoved && listed !== undefined ? index.rowAt(key, listed) : undefined
        const oldRow = isMoved ? (stored.row ?? index.rowOf(key, before)) : stored.oldRow
        const isOver = batches.length > 0 && summary.status !== "running"
        const next = { ...changed, summary, ...defined({ listed }) }
        const rows = { added, removed: isOver ? oldRow : undefined }
        const written = eachWithin(events)(log.append(stored.at, () => next, batches, marking, rows))
        const at = yield* Effect.catchTag(written, "Conflict", (conflict) => {
          const found = Option.getOrUndefined(conflict.found)
          const isWritten =
            found?.head.owner === next.owner && found.head.epoch === next.epoch && found.head.sequence === next.sequence
          return isWritten ? Effect.succeed(found) : Effect.fail(conflict)
        })
        if (batches.length > 0) {
          stored.firsts.push(first)
          yield* tell(key)
        }
        const row = added === undefined ? stored.row : { ...added, version: at.version }
        return { ...stored, at, state, row, oldRow: isOver ? undefined : oldRow }
      }),

    /** The number of the oldest event that is kept. */
    firstKept: ({ base, older }: Stored): number => older[0]?.first ?? base + 1
  }
}
