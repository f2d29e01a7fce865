/**
 * The thoughts of a model in the text of its answer. Some servers send them in front of the text, in `<think>…</think>`: they are
 * reasoning. White space behind a tag belongs to the tag, thoughts without a closing tag reach to the end of the text, and a tag
 * anywhere else is text.
 */

import type * as Response from "effect/ai/Response"

/** A piece of an answer. */
export interface Piece {
  readonly type: "text" | "reasoning"
  readonly text: string
}

const opening = "<think>"

const closing = "</think>"

const closingTag = /<\/think>/iu

/** True for a tag and for a beginning of it. */
const begins = (tag: string, text: string): boolean => text.length <= tag.length && tag.startsWith(text.toLowerCase())

const endsInHalf = (text: string): boolean => (text.charCodeAt(text.length - 1) & 0xfc00) === 0xd800

type Place = "front" | "thoughts" | Piece["type"]

/**
 * Reads one block of an answer that arrives in deltas. The pieces are well-formed, and joined they are the same wherever the block is
 * cut: half a character, and the beginning of a tag, is held until the next delta.
 */
class Reader {
  private place: Place
  private isBehindTag = false
  private half = ""
  /** White space in front. */
  private space = ""
  private tag = ""

  constructor(place: Place) {
    this.place = place
  }

  add(delta: string): ReadonlyArray<Piece> {
    const text = this.half + delta
    const end = endsInHalf(text) ? text.length - 1 : text.length
    this.half = text.slice(end)
    return this.read(text.slice(0, end).toWellFormed())
  }

  /** The pieces that were held. */
  end(): ReadonlyArray<Piece> {
    const pieces = this.read(this.half.toWellFormed())
    return [...pieces, ...this.say(this.place === "front" ? this.space + this.tag : this.tag)]
  }

  private read(given: string): ReadonlyArray<Piece> {
    const text = this.place === "front" ? this.readFront(this.tag + given) : this.tag + given
    if (text === undefined) return []
    this.tag = ""
    if (this.place !== "thoughts") return this.say(text)
    const found = text.search(closingTag)
    if (found === -1) {
      const last = text.lastIndexOf("<")
      const end = last !== -1 && begins(closing, text.slice(last)) ? last : text.length
      this.tag = text.slice(end)
      return this.say(text.slice(0, end))
    }
    const pieces = this.say(text.slice(0, found))
    this.enter("text")
    return [...pieces, ...this.say(text.slice(found + closing.length))]
  }

  /** The text behind the decision what it is, `undefined` before. */
  private readFront(text: string): string | undefined {
    const rest = text.trimStart()
    this.space += text.slice(0, text.length - rest.length)
    const start = rest.slice(0, opening.length)
    if (!begins(opening, start)) {
      this.place = "text"
      return this.space + rest
    }
    this.tag = rest
    if (start.length < opening.length) return undefined
    this.enter("thoughts")
    return rest.slice(opening.length)
  }

  private enter(place: Place): void {
    this.place = place
    this.isBehindTag = true
  }

  private say(given: string): ReadonlyArray<Piece> {
    const text = this.isBehindTag ? given.trimStart() : given
    if (text === "") return []
    this.isBehindTag = false
    return [{ type: this.place === "thoughts" || this.place === "reasoning" ? "reasoning" : "text", text }]
  }
}

/** The thoughts in front of a text, and the rest of it. */
export const split = (text: string): Readonly<Record<Piece["type"], string>> => {
  const reader = new Reader("front")
  const joined = { reasoning: "", text: "" }
  for (const piece of [...reader.add(text), ...reader.end()]) joined[piece.type] += piece.text
  return joined
}

/** Reads the deltas of a streamed answer. Thoughts can be in front of its first text. */
export class LiveReader {
  private readonly open = { text: new Map<string, Reader>(), reasoning: new Map<string, Reader>() }
  private hasText = false

  add(part: Response.AnyPart): ReadonlyArray<Piece> {
    switch (part.type) {
      case "text-delta":
        return this.read("text", part.id, part.delta)
      case "reasoning-delta":
        return this.read("reasoning", part.id, part.delta)
      case "text-end":
        return this.close("text", part.id)
      case "reasoning-end":
        return this.close("reasoning", part.id)
      default:
        return []
    }
  }

  /** The pieces that were held of blocks without an end. */
  end(): ReadonlyArray<Piece> {
    return Object.values(this.open).flatMap((readers) => Array.from(readers.values()).flatMap((reader) => reader.end()))
  }

  private read(type: Piece["type"], id: string, delta: string): ReadonlyArray<Piece> {
    if (delta === "") return []
    const known = this.open[type].get(id)
    const reader = known ?? new Reader(type === "text" && !this.hasText ? "front" : type)
    if (known === undefined) this.open[type].set(id, reader)
    this.hasText ||= type === "text"
    return reader.add(delta)
  }

  private close(type: Piece["type"], id: string): ReadonlyArray<Piece> {
    const pieces = this.open[type].get(id)?.end() ?? []
    this.open[type].delete(id)
    return pieces
  }
}
