/**
 * The thoughts of a model in the text of its answer. Some servers send them in front of the text, in `<think>…</think>`: they are
 * reasoning. White space behind a tag belongs to the tag, thoughts without a closing tag reach to the end of the text, and a tag
 * anywhere else is text.
 */

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
export class Reader {
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

  /** The pieces that were held. What follows continues them. */
  end(): ReadonlyArray<Piece> {
    const pieces = this.read(this.half.toWellFormed())
    const held = this.place === "front" ? this.space + this.tag : this.tag
    if (this.place === "front") this.place = "text"
    this.half = ""
    this.tag = ""
    return [...pieces, ...this.say(held)]
  }

  get type(): Piece["type"] {
    return this.place === "thoughts" || this.place === "reasoning" ? "reasoning" : "text"
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
    return [{ type: this.type, text }]
  }
}
