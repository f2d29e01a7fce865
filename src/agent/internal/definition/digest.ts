/** The digest of a definition. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Digest from "../../../payload/Digest.ts"
import { PayloadError, Secret } from "../../../payload/PayloadError.ts"
import * as SecretKeys from "../../../payload/SecretKeys.ts"
import type { ToolContract } from "../../../tool/ToolContract.ts"
import type { AgentDefinition } from "../../AgentDefinition.ts"
import * as V2 from "../../wire/v2.ts"
import { what } from "./invariants.ts"

// every run of an agent asks for its digest, and nearly all of it is tools that stay the same objects
const digests = new WeakMap<ToolContract, string>()

const ofTool = (tool: ToolContract): Effect.Effect<string, PayloadError> => {
  const known = digests.get(tool)
  return known === undefined
    ? Effect.tap(Digest.sha256(V2.writeTool(tool)), (digest) => Effect.sync(() => digests.set(tool, digest)))
    : Effect.succeed(known)
}

const noSecrets = (definition: AgentDefinition): Effect.Effect<void, PayloadError> =>
  Option.match(SecretKeys.find(definition.modelOptions), {
    onNone: () => Effect.void,
    onSome: ({ key, kind, path }) =>
      Effect.fail(new PayloadError({ what, reason: new Secret({ path: `/modelOptions${path}`, key, kind }) }))
  })

/** The digest of the definition's head and of the digests of its tools. */
export const digest = Effect.fnUntraced(function* (
  definition: AgentDefinition
): Effect.fn.Return<string, PayloadError> {
  yield* noSecrets(definition)
  const tools = yield* Effect.forEach(definition.tools, ofTool)
  return yield* Digest.sha256({ ...V2.writeHead(definition), tools })
})
