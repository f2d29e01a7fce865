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

type Section = "front" | "thoughts" | Piece["type"]

/**
 * Reads one block of an answer that arrives in deltas. The pieces are well-formed, and joined they are the same wherever the block is
 * cut: half a character, and the beginning of a tag, is held until the next delta.
 */
export class Reader {
  private section: Section
  private isBehindTag = false
  private half = ""
  /** White space in front. */
  private space = ""
  private tag = ""

  constructor(section: Section) {
    this.section = section
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
    const held = this.section === "front" ? this.space + this.tag : this.tag
    if (this.section === "front") this.section = "text"
    this.half = ""
    this.tag = ""
    return [...pieces, ...this.say(held)]
  }

  get type(): Piece["type"] {
    return this.section === "thoughts" || this.section === "reasoning" ? "reasoning" : "text"
  }

  private read(given: string): ReadonlyArray<Piece> {
    const text = this.section === "front" ? this.readFront(this.tag + given) : this.tag + given
    if (text === undefined) return []
    this.tag = ""
    if (this.section !== "thoughts") return this.say(text)
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
      this.section = "text"
      return this.space + rest
    }
    this.tag = rest
    if (start.length < opening.length) return undefined
    this.enter("thoughts")
    return rest.slice(opening.length)
  }

  private enter(section: Section): void {
    this.section = section
    this.isBehindTag = true
  }

  private say(given: string): ReadonlyArray<Piece> {
    const text = this.isBehindTag ? given.trimStart() : given
    if (text === "") return []
    this.isBehindTag = false
    return [{ type: this.type, text }]
  }
}
