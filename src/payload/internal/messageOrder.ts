/**
 * System messages behind the first one: messages with new instructions, and the order of messages for providers that
 * take system messages in some places only.
 */

const replacement = "These instructions replace all earlier ones:\n\n"

/** The text of a later system message with new instructions. */
export const replacing = (instructions: string): string => replacement + instructions

/** The instructions of a text that {@link replacing} made. */
export const replacedBy = (text: string): string | undefined =>
  text.startsWith(replacement) ? text.slice(replacement.length) : undefined

/**
 * The key of a part's metadata under which a part of the AI SDK is kept that `effect/ai` has no name for: it returns with
 * the part.
 */
export const kindKey = "ai-sdk"

type Role = "system" | "user" | "assistant" | "tool"

/**
 * Messages with each later system message behind the question that follows it, for providers that take it only there: behind
 * a message of the user or results, before an answer or at the end. `left` has no such place.
 */
export const systemBehindQuestions = <M extends { readonly role: Role }>(messages: ReadonlyArray<M>) => {
  const placed: Array<M> = []
  let left: ReadonlyArray<M> = []
  const place = (): void => {
    const last = placed.findLast(({ role }) => role !== "system")
    if (last === undefined || last.role === "assistant") return
    placed.push(...left)
    left = []
  }
  for (const message of messages) {
    if (message.role === "assistant") place()
    if (message.role === "system" && placed.length > 0) left = [...left, message]
    else placed.push(message)
  }
  place()
  return { placed, left }
}
