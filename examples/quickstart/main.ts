/**
 * One agent in two processes.
 *
 * This process, the origin, has the agent with the code of its tools. It answers a question, writes the agent to a file
 * and serves the tools over HTTP. A second process (receiver.ts), which has none of that code, reads the file and
 * answers the same question by calling the tools back here. Both answers must be equal, because a script answers.
 *
 * A real model answers with `EMISSARY_MODEL=openai/gpt-5.2 OPENAI_API_KEY=... npm start`, or a local one with
 * `EMISSARY_MODEL=ollama/qwen3 npm start`. Its two answers may differ.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Console, Effect, Equal, FileSystem, Layer, Path, Redacted, Schema } from "effect"
import { Agent, Conversation, ToolRuntime } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { SecureRandom } from "effect/crypto"
import { HttpRouter, HttpServer } from "effect/http"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import { createServer } from "node:http"
import { fileURLToPath } from "node:url"
import { context, isScripted, modelsLayer, question } from "./scenario.ts"
import { Support } from "./support.ts"
import * as Timeline from "./timeline.ts"
import { Tools, toolsLayer } from "./tools.ts"

class QuickstartFailed extends Schema.TaggedError<QuickstartFailed>()("QuickstartFailed", { message: Schema.String }) {}

/** The tools over HTTP on a free port, for as long as the layer lives. */
const serverLayer = (token: Redacted.Redacted<string>) =>
  HttpRouter.serve(
    RemoteTools.layerServer(Tools, {
      token,
      // the context of a caller is a claim: this server serves one tenant only
      context: (claimed) =>
        Equal.equals(claimed, context)
          ? Effect.succeed(context)
          : Effect.fail(new RemoteTools.Denied({ message: "not a tenant of this server" }))
    }),
    { disableLogger: true, disableListenLog: true }
  ).pipe(
    Layer.provide(toolsLayer),
    Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 }))
  )

/** Runs the second process to its end. It is killed if this one is interrupted. */
const runReceiver = Effect.fn(function* (env: Record<string, string | Redacted.Redacted<string>>) {
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  const file = fileURLToPath(new URL("receiver.ts", import.meta.url))
  const code = yield* spawner.exitCode(
    ChildProcess.make(process.execPath, [file], { env, extendEnv: true, stdout: "inherit", stderr: "inherit" })
  )
  if (code !== 0) return yield* new QuickstartFailed({ message: `The receiver ended with code ${code}` })
})

const program = Effect.gen(function* () {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path

  const support = yield* Support
  const result = yield* Timeline.print("Origin: the agent with its tools", support.stream(question, { context }))
  const here = Conversation.transcript(result.conversation)

  const directory = yield* files.makeTempDirectory({ prefix: "emissary-quickstart-" })
  const definition = path.join(directory, "support.agent.json")
  const transcript = path.join(directory, "receiver.transcript.json")
  yield* files.writeFileString(definition, yield* Agent.encodeJson(Support, { context, indent: 2 }))
  yield* Console.log(`\nThe agent as data: ${definition}`)

  const random = yield* SecureRandom.SecureRandom
  const token = Redacted.make(yield* random.uuidV4())
  yield* HttpServer.addressFormattedWith((url) =>
    runReceiver({ TOOLS_URL: url, TOOLS_TOKEN: token, DEFINITION_FILE: definition, TRANSCRIPT_FILE: transcript })
  ).pipe(Effect.provide(serverLayer(token)))

  const json = yield* files.readFileString(transcript)
  const there = yield* Schema.decodeEffect(Schema.fromJsonString(Conversation.Transcript))(json)
  if (!(yield* isScripted)) {
    return yield* Console.log(`\nA real model answered twice, with ${here.length} and ${there.length} messages.`)
  }
  if (!Equal.equals(here, there)) {
    return yield* new QuickstartFailed({ message: `The transcripts differ, the receiver's is ${transcript}` })
  }
  yield* Console.log(`\nBoth transcripts are equal, ${here.length} messages.`)
})

program.pipe(
  Effect.provide(Support.layer.pipe(Layer.provide([toolsLayer, modelsLayer]))),
  Effect.provide(ToolRuntime.layerConcurrent()),
  Effect.provide([NodeServices.layer, SecureRandom.layerWebCrypto]),
  // one line for what may go wrong, a stack for what may not
  Effect.tapError((error) => Console.error(`${error._tag}: ${error.message}`)),
  Effect.tapDefect((defect) => Effect.logError(defect)),
  NodeRuntime.runMain({ disableErrorReporting: true })
)
