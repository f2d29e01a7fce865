/**
 * What the library does with each case marked unlawful, reviewed one by one:
 * `refused` with the kind, where the message is added or where it is rendered, or
 * `repaired` as the case's note says.
 *
 * Why refusing is the rule: providers answer each of these with an error, and a
 * history that was mended in silence hides the mistake that made it. The one repair
 * changes nothing that was said.
 */
export const unlawful: { readonly [id: string]: Way } = {
  // A result without a call cannot enter a conversation (L7)
  C06: { refused: "OrphanToolResult" },
  C13: { refused: "OrphanToolResult" },
  C76: { refused: "OrphanToolResult" },
  C55: { refused: "MissingToolCallId" },
  // An open end is lawful while a run lasts, and not to be sent
  C50: { refused: "UnansweredToolCall" },
  C51: { refused: "UnansweredToolCall" },
  C53: { refused: "UnansweredToolCall" },
  C58: { refused: "UnansweredToolCall" },
  // Anthropic wants the user to begin
  C63: { refused: "AssistantFirst" },
  C65: { refused: "AssistantFirst" },
  C66: { refused: "AssistantFirst" },
  C68: { refused: "AssistantFirst" },
  C70: { refused: "AssistantFirst" },
  C71: { refused: "AssistantFirst" },
  C73: { refused: "AssistantFirst" },
  C75: { refused: "AssistantFirst" },
  // A message holds its calls: without any there is no list of them to be empty
  C56: { repaired: true }
}

/** `refused` is the kind of `VOCABULARY.md`. */
export type Way = { readonly refused: string } | { readonly repaired: true }
