/**
 * Drafts: the answers that models are writing in the turn of a session. A draft has the id of the message that it becomes, and no
 * other draft has that id, so a draft is one attempt of a model call. Drafts are not stored.
 *
 * Readers pull. A reader has a place, which has the length of each part that the reader has seen, and what the reader gets follows from
 * its place and from what is written: a slow reader gets longer pieces, and a reader who joins gets all that is written. A draft leaves
 * when its message is stored, when another attempt takes its place, and when its turn ends. A reader who saw a draft that has left, and
 * whose message is not stored, gets the withdrawal of the draft.
 */

import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { AgentEvent } from "../../agent/AgentEvent.ts"
import { plainSchema } from "../../payload/internal/problems.ts"
import { defined } from "../../payload/internal/values.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as cursors from "./cursors.ts"

const place = {
  turn: Schema.String,
  messageId: Schema.String,
  path: Schema.optionalKey(Schema.Array(Schema.String)),
  isSubAgent: Schema.optionalKey(Schema.Literal(true))
}

/** A piece of an answer that a model is writing, or the withdrawal of the answer. */
export const DraftSchema = Schema.TaggedUnion({
  AnswerDelta: {
    ...place,
    part: runParts.Count,
    type: Schema.Literals(["text", "reasoning", "tool-call"]),
    call: Schema.optionalKey(Schema.Struct({ id: Schema.String, name: Schema.String })),
    offset: runParts.Count,
    delta: Schema.String
  },
  OutputDelta: {
    ...place,
    offset: runParts.Count,
    delta: Schema.String
  },
  AnswerWithdrawn: { messageId: Schema.String }
})

export type Draft = typeof DraftSchema.Type

export const Draft: Schema.Codec<Draft, unknown> = plainSchema(DraftSchema)

type Delta = Extract<Draft, { readonly delta: string }>

/** The place of a piece among the lengths of its draft: the structured output is first, and the parts of the message follow. */
export const slotOf = (piece: Delta): number => (piece._tag === "OutputDelta" ? 0 : piece.part + 1)

/** A part of a draft: `pieces` are its text, which has `length` characters. */
interface Part {
  readonly delta: Delta
  readonly pieces: Array<string>
  length: number
}

/** The text of a part from an offset on. A reader is near the end, so the pieces before are not read. */
const textFrom = ({ length, pieces }: Part, offset: number): string => {
  let first = pieces.length
  let start = length
  while (start > offset) {
    first -= 1
    start -= pieces[first]?.length ?? 0
  }
  return pieces
    .slice(first)
    .join("")
    .slice(offset - start)
}

/** The calls and steps around a model. `isSubAgent`: an agent around it, or its own, is a tool. */
interface Around extends Pick<Delta, "isSubAgent"> {
  readonly path: ReadonlyArray<string>
}

/** `parts` are by their {@link slotOf}. `since` is the number of the event before the draft, {@link held} until that is stored. */
interface Written extends Around {
  readonly messageId: string
  since: number
  readonly parts: Map<number, Part>
}

/** The number of an event that is not stored yet: no reader sees a draft before the events that begin it. */
const held = Number.POSITIVE_INFINITY

const types = { TextDelta: "text", ReasoningDelta: "reasoning", CallDelta: "tool-call" } as const

/** Events of an attempt that failed, or that a guard has decided about: what it had written is void. */
const withdrawing: ReadonlySet<runParts.Event["_tag"]> = new Set([
  "AnswerDiscarded",
  "GuardDecided",
  "ModelMistaken",
  "StepRetried"
])
/** A view of a run with a piece of an answer. */
type View = Extract<AgentEvent<unknown>, { readonly delta: string }>

/** A view as the first piece of its part. */
export const pieceOf = (view: View, turn: string, { isSubAgent, path }: Around): Delta => {
  const { delta, index: part, messageId } = view
  const where = path.length === 0 ? undefined : { path, ...defined({ isSubAgent }) }
  const shape = { turn, messageId, ...where, offset: 0, delta }
  if (view._tag === "OutputDelta") return { _tag: "OutputDelta", ...shape }
  const call = view._tag === "CallDelta" ? { id: view.callId, name: view.name } : undefined
  return { _tag: "AnswerDelta", ...shape, part, type: types[view._tag], ...defined({ call }) }
}

/** The id of the message that an event stores, which was a draft before. */
export const answeredIn = (event: runParts.Event): string | undefined => {
  const { event: inner } = runParts.innermost(event)
  return inner._tag === "ModelAnswered" ? inner.message.id : undefined
}

/** A reader that is behind by more answers than these gets withdrawals of the older answers, and then their messages. */
const maxAnswered = 256

/**
 * The place of a reader who has read the stored events up to the number `sequence`, with the cursor `event`, and has seen this of the
 * drafts. `cursor` has all of that.
 */
export interface Place {
  readonly sequence: number
  readonly event: string
  readonly seen: cursors.Seen
  readonly cursor: string
}

export const placeAt = (event: string, sequence: number, seen: cursors.Seen): Place => ({
  sequence,
  event,
  seen,
  cursor: cursors.liveCursorOf(event, seen)
})

/** A piece or a withdrawal as an entry of a live reader. */
interface Shown {
  readonly sequence: number
  readonly cursor: string
  readonly event: Draft
}

/** The entries for a reader, and the place of the reader after them. */
interface Found {
  readonly entries: ReadonlyArray<Shown>
  readonly place: Place
}

/** Readers who wait to look together. */
interface Round {
  readers: Array<() => void>
}

const end = (round: Round): void => {
  const { readers } = round
  if (readers.length === 0) return
  // A reader who has looked waits for the next round
  round.readers = []
  for (const look of readers) look()
}

/** The drafts of a session in its process. */
export class Drafts {
  private readonly byPath = new Map<string, Written>()
  private readonly answered = new Set<string>()
  private life = ""
  private turn = ""
  private store: Effect.Effect<void> = Effect.void
  private changing = Deferred.makeUnsafe<void>()
  private readonly atOnce: Round = { readers: [] }
  /** By the milliseconds between two looks. */
  private readonly rounds = new Map([[0, this.atOnce]])
  /** The newest entries that were found, for readers at this cursor, since the last change. */
  private last: (Found & { readonly cursor: string }) | undefined

  /** A turn of this life of the session begins, which stores its events with `store`. */
  open(life: string, store: Effect.Effect<void>): void {
    this.life = life
    this.store = store
  }

  /** The drafts that follow answer this message of the user. */
  begin(turn: string): void {
    this.turn = turn
  }

  /** Takes what a model wrote from a view of the run, after the event of this number, `undefined` if that is not stored yet. */
  add(view: AgentEvent<unknown>, since: number = held, around: Around = { path: [] }): void {
    switch (view._tag) {
      case "Child": {
        // An agent in a step of a plan is a child, too: the state around it has the state of the plan
        const isCalled = around.isSubAgent === true || view.state.plan === undefined
        const path = [...around.path, view.callId]
        return this.add(view.event, since, { path, ...defined({ isSubAgent: isCalled || undefined }) })
      }
      case "TextDelta":
      case "ReasoningDelta":
      case "CallDelta":
      case "OutputDelta": {
        const { delta, messageId } = view
        const { parts } = this.draftOf(messageId, since, around)
        const piece = pieceOf(view, this.turn, around)
        const slot = slotOf(piece)
        const part = parts.get(slot)
        if (part === undefined) parts.set(slot, { delta: piece, pieces: [delta], length: delta.length })
        else {
          part.pieces.push(delta)
          part.length += delta.length
        }
        return this.wake()
      }
    }
  }

  /** Another attempt takes the place of the draft with the same path. */
  private draftOf(messageId: string, since: number, around: Around): Written {
    const key = JSON.stringify(around.path)
    const before = this.byPath.get(key)
    if (before?.messageId === messageId) return before
    const draft = { messageId, ...around, since, parts: new Map() }
    this.byPath.set(key, draft)
    return draft
  }

  /** All events are stored up to the one of this number. */
  settled(sequence: number): void {
    const waiting = Array.from(this.byPath.values()).filter(({ since }) => since === held)
    for (const draft of waiting) draft.since = sequence
    if (waiting.length > 0) this.wake()
  }

  /** Stores the events before a draft that a reader waits for. */
  readonly settle: Effect.Effect<void> = Effect.suspend(() =>
    Array.from(this.byPath.values()).some(({ since }) => since === held) ? this.store : Effect.void
  )

  /** An event is stored: a draft has become its message, or is withdrawn. */
  stored(event: runParts.Event): void {
    const { event: inner, path } = runParts.innermost(event)
    const key = JSON.stringify(path)
    if (withdrawing.has(inner._tag) && this.byPath.delete(key)) return this.wake()
    const id = answeredIn(event)
    if (id === undefined) return
    if (this.byPath.get(key)?.messageId === id) this.byPath.delete(key)
    this.last = undefined
    this.answered.add(id)
    const [oldest] = this.answered
    if (oldest !== undefined && this.answered.size > maxAnswered) this.answered.delete(oldest)
  }

  /** Withdraws all drafts: the turn has ended. */
  clear(): void {
    if (this.byPath.size === 0) return
    this.byPath.clear()
    this.wake()
  }

  /** The pieces and withdrawals for a reader. Readers at one place share them. */
  after(place: Place): Found {
    if (this.last?.cursor === place.cursor) return this.last
    const found = this.find(place)
    if (found.entries.length > 0) this.last = { ...found, cursor: place.cursor }
    return found
  }

  private find(start: Place): Found {
    const { event, seen: before, sequence } = start
    let { cursor, seen } = start
    const entries: Array<Shown> = []
    const show = (draft: Draft): void => {
      seen = seenAfter(seen, draft) ?? seen
      cursor = cursors.liveCursorOf(event, seen)
      entries.push({ sequence, cursor, event: draft })
    }
    for (const messageId of before.keys()) {
      if (!this.answered.has(messageId) && !this.isWritten(messageId, sequence)) {
        show({ _tag: "AnswerWithdrawn", messageId })
      }
    }
    // A reader of a session that was removed does not see the session that began after it
    const isOfLife = cursors.placeOf(start).life === this.life
    for (const { messageId, parts, since } of isOfLife ? this.byPath.values() : []) {
      if (since > sequence) continue
      const lengths = before.get(messageId)
      for (const [slot, part] of parts) {
        const length = lengths?.[slot]
        if (length !== undefined && length >= part.length) continue
        const offset = length ?? 0
        show({ ...part.delta, offset, delta: textFrom(part, offset) })
      }
    }
    return { entries, place: { sequence, event, seen, cursor } }
  }

  /** True for a draft that a reader of the stored events up to this number sees. */
  private isWritten(messageId: string, sequence: number): boolean {
    return Array.from(this.byPath.values()).some((draft) => draft.messageId === messageId && draft.since <= sequence)
  }

  /** Done with the next change. */
  get change(): Deferred.Deferred<void> {
    return this.changing
  }

  /**
   * Begins the rounds of the readers who look this often, unless they have begun. These readers look together, so long after a change. The
   * rounds are in the scope of the reader who begins them, and end when that reader leaves.
   */
  beginRounds(every: number, scope: Scope.Scope): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.rounds.has(every)) return Effect.void
      const round: Round = { readers: [] }
      this.rounds.set(every, round)
      const due = Effect.andThen(
        Effect.suspend(() => Deferred.await(this.changing)),
        Effect.sleep(every)
      )
      const rounds: Effect.Effect<void> = Effect.flatMap(due, () => {
        end(round)
        return round.readers.length === 0 ? Effect.void : rounds
      })
      const ended = Effect.sync(() => {
        this.rounds.delete(every)
        end(round)
      })
      return Effect.asVoid(Effect.forkIn(Effect.ensuring(rounds, ended), scope, { startImmediately: true }))
    })
  }

  /**
   * Calls a reader at the end of the round, and at once where there are no rounds, or where the change came before the reader did. The
   * Effect leaves the round.
   */
  joinRound(every: number, change: Deferred.Deferred<void>, look: () => void): Effect.Effect<void> | undefined {
    const round = Deferred.isDoneUnsafe(change) ? undefined : this.rounds.get(every)
    if (round === undefined) return void look()
    round.readers.push(look)
    return Effect.sync(() => {
      round.readers = round.readers.filter((reader) => reader !== look)
    })
  }

  private wake(): void {
    const { changing } = this
    this.last = undefined
    this.changing = Deferred.makeUnsafe()
    Deferred.doneUnsafe(changing, Exit.void)
    end(this.atOnce)
  }
}

/** The place in drafts after one more of them, `undefined` for a draft that does not follow. */
export const seenAfter = (seen: cursors.Seen, draft: Draft): cursors.Seen | undefined => {
  const after = new Map(seen)
  if (draft._tag === "AnswerWithdrawn") return after.delete(draft.messageId) ? after : undefined
  const { delta, messageId, offset } = draft
  const slot = slotOf(draft)
  const lengths = [...(seen.get(messageId) ?? [])]
  if ((lengths[slot] ?? 0) !== offset) return undefined
  lengths[slot] = offset + delta.length
  return after.set(messageId, lengths)
}
