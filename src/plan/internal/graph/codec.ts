/** The versions of a graph as one codec. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import * as Json from "../../../payload/Json.ts"
import type { PayloadError } from "../../../payload/PayloadError.ts"
import * as VersionedCodec from "../../../payload/VersionedCodec.ts"
import { AgentGraph } from "./model.ts"
import * as V1 from "../../wire/agent-graph-v1.ts"
import * as V2 from "../../wire/agent-graph-v2.ts"

const what = "agent graph"

export const codec: VersionedCodec.VersionedCodec<AgentGraph> = VersionedCodec.make({
  what,
  field: "version",
  type: AgentGraph,
  arms: [V1.arm, V2.arm],
  data: ["/nodes/*/routes"]
})

/** Version 1 was written without a version. */
const tagged = (json: Schema.Json): Schema.Json =>
  Json.isObject(json) && !Object.hasOwn(json, "version") ? { ...json, version: 1 } : json

export const decode = (
  input: unknown,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<AgentGraph, PayloadError> =>
  Effect.flatMap(Json.check(input, { what, limits: options?.limits }), (json) => codec.decode(tagged(json), options))

export const decodeJson = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<AgentGraph, PayloadError> =>
  Effect.flatMap(Json.parse(input, { what, limits: options?.limits }), (json) => codec.decode(tagged(json), options))
