/** The versions of a plan as one codec. */
import * as Schema from "effect/Schema"
import * as VersionedCodec from "../../../payload/VersionedCodec.ts"
import * as Definition from "../../PlanDefinition.ts"
import { Draft } from "./draft.ts"

export const drafts: VersionedCodec.VersionedCodec<Draft> = VersionedCodec.make({
  what: "Plan",
  field: "version",
  type: Draft,
  arms: []
})

export const codec: VersionedCodec.VersionedCodec<Definition.PlanDefinition> = VersionedCodec.make({
  what: "Plan",
  field: "version",
  type: Schema.toType(Definition.PlanDefinition),
  arms: []
})
