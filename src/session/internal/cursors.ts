/**
 * Cursors: texts that name a place in the events of a session, after which a reader continues.
 */

import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Base64Url from "effect/encoding/Base64Url"

/** The lengths of the parts of drafts that a live reader has seen, by the id of the message. A part that it has not seen has none. */
export type Seen = ReadonlyMap<string, ReadonlyArray<number | undefined>>

export const noneSeen: Seen = new Map()

/**
 * A place after an event. `life` is the name that a session has until it is removed, and no other session under its id has.
 * Only the place before all events has no `life`. `seen` is what a live reader has seen of the drafts after that event.
 */
export interface EventPlace {
  readonly life: string | undefined
  readonly sequence: number
  readonly seen?: Seen | undefined
}

/** The place before the first event of any session. */
export const start: EventPlace = { life: undefined, sequence: 0 }

export const cursorOf = (life: string, sequence: number): string => `${life}.${sequence}`

/** A plain id as it is, any other id behind a `.`, as Base64Url of its JSON. */
const idText = (id: string): string => (/^[\w-]+$/.test(id) ? id : `.${Base64Url.encode(JSON.stringify(id))}`)

/**
 * The cursor of a live reader: behind the place in the events, its place in the drafts, `<id>.<length>.<length>` of each draft. It is
 * written for each piece.
 */
export const liveCursorOf = (cursor: string, seen: Seen): string => {
  let text = cursor
  for (const [id, lengths] of seen) text = `${text}${text === cursor ? "/" : "~"}${idText(id)}.${lengths.join(".")}`
  return text
}

/** The longest text of a place in drafts, in characters. */
const maxLength = 16_384

const readId = Schema.decodeOption(
  Schema.StringFromBase64Url.pipe(Schema.decodeTo(Schema.fromJsonString(Schema.String)))
)

const readDraft = (text: string): readonly [string, ReadonlyArray<number | undefined>] | undefined => {
  const [, id, encoded = "", lengths = ""] = /^(?:([\w-]+)|\.([\w-]+))((?:\.\d{0,15})+)$/.exec(text) ?? []
  const found = id ?? Option.getOrUndefined(readId(encoded))
  if (found === undefined) return undefined
  return [
    found,
    lengths.split(".").flatMap((length, at) => (at === 0 ? [] : [length === "" ? undefined : Number(length)]))
  ]
}

const readSeen = (text: string): Seen | undefined => {
  if (text.length > maxLength) return undefined
  const drafts = text.split("~").map(readDraft)
  return drafts.every(Predicate.isNotUndefined) ? new Map(drafts) : undefined
}

/** The events of a session from this number on. */
export const entriesFrom = <Event>(life: string, first: number, events: ReadonlyArray<Event>) =>
  events.map((event, index) => ({ sequence: first + index, cursor: cursorOf(life, first + index), event }))

export const placeOf = ({ cursor, sequence }: { readonly cursor: string; readonly sequence: number }): EventPlace => ({
  life: cursor.slice(0, cursor.indexOf(".")),
  sequence
})

/** The place after the event with this cursor, `undefined` for a text that is no cursor; without a cursor the place before all events. */
export const readAfter = (after: string | undefined): EventPlace | undefined => {
  if (after === undefined) return start
  const [, life, sequence, text] = /^([0-9a-z]+)\.([1-9]\d{0,14})(?:\/([\w.~-]+))?$/.exec(after) ?? []
  if (life === undefined) return undefined
  if (text === undefined) return { life, sequence: Number(sequence) }
  const seen = readSeen(text)
  return seen && { life, sequence: Number(sequence), seen }
}

/** The cursor of a place, empty for the place before all events. */
export const textOf = ({ life, sequence }: EventPlace): string => (life === undefined ? "" : cursorOf(life, sequence))

/** True if a session with this newest event has a place. */
export const hasPlace = (newest: EventPlace, { life, sequence }: EventPlace): boolean =>
  sequence <= newest.sequence && (life === undefined || life === newest.life)
