/** The annotation of tools whose calls a front end makes, or a person answers. */

import * as Context from "effect/Context"

export const ClientSide = Context.Reference<"call" | "question" | undefined>("effect-emissary/tool/ClientSide", {
  defaultValue: () => undefined
})
