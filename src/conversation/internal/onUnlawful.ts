import type * as Effect from "effect/Effect"
import type { Conversation } from "../Conversation.ts"
import type { OnUnlawful, Reader, Repaired } from "../Repair.ts"

/** Two readers as one function: `onUnlawful` says which. */
export const onUnlawful = <I, O, E>(
  refuse: (input: I, options?: O) => Effect.Effect<Conversation, E>,
  repair: (input: I, options?: O) => Effect.Effect<Repaired, E>
): Reader<I, O, E> => {
  function read(input: I, options: O & { readonly onUnlawful: "repair" }): Effect.Effect<Repaired, E>
  function read(input: I, options?: O & { readonly onUnlawful?: "refuse" | undefined }): Effect.Effect<Conversation, E>
  function read(input: I, options?: O & { readonly onUnlawful?: OnUnlawful | undefined }) {
    return options?.onUnlawful === "repair" ? repair(input, options) : refuse(input, options)
  }
  return read
}
