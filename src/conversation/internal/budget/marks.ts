/** Keys of metadata. They are stored with the message, and no model sees them. */
import type { Message } from "../../Message.ts"

/** On the message that is a summary: how many messages it stands for. */
export const summary = "effect-emissary/summary"

/** On an answer whose request held only a view of the conversation. */
export const view = "effect-emissary/view"

export const has = (message: Message, mark: string): boolean =>
  message.metadata !== undefined && Object.hasOwn(message.metadata, mark)
