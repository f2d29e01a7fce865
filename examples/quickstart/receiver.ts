/**
 * The second process. It knows a file, an address and a token; no code of a tool or of the agent is in its imports.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Config, Effect, FileSystem, Layer } from "effect"
import { Agent, Conversation, ToolResolver } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { FetchHttpClient } from "effect/http"
import { context, modelsLayer, question } from "./scenario.ts"
import * as Timeline from "./timeline.ts"

/** Calls go back to the origin. */
const remoteLayer = Layer.unwrap(
  Effect.gen(function* () {
    const url = yield* Config.String("TOOLS_URL")
    const token = yield* Config.Redacted("TOOLS_TOKEN")
    return RemoteTools.layerRuntime({ url, token })
  })
).pipe(Layer.provide(FetchHttpClient.layer))

const program = Effect.gen(function* () {
  const files = yield* FileSystem.FileSystem
  const definition = yield* files.readFile(yield* Config.String("DEFINITION_FILE"))
  const agent = yield* Agent.decodeJson(definition)
  const result = yield* Timeline.print("Receiver: the agent from the file", agent.stream(question, { context }))
  const transcript = Conversation.transcript(result.conversation)
  yield* files.writeFileString(yield* Config.String("TRANSCRIPT_FILE"), JSON.stringify(transcript))
})

program.pipe(
  Effect.provide([ToolResolver.layerStubs(), modelsLayer, remoteLayer]),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain
)
