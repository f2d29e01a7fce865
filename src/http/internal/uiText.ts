/** UI message streams as server-sent events. */

import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as telemetry from "../../tool/internal/telemetry.ts"
import * as eventStream from "./eventStream.ts"
import { hidden } from "./refusal.ts"
import type { Chunk } from "./uiChunks.ts"

export const headers = { "x-vercel-ai-ui-message-stream": "v1" }

const write = (chunk: Chunk): string => eventStream.write(JSON.stringify(chunk))

const done = eventStream.write("[DONE]")

export const encode = <E, R>(chunks: Stream.Stream<Chunk, E, R>): Stream.Stream<string, E, R> =>
  Stream.concat(Stream.map(chunks, write), Stream.succeed(done))

/** The end of a stream that failed. */
export const fail = ({ message }: { readonly message: string }): string =>
  `${write({ type: "error", errorText: message })}${done}`

/** The bytes of a stream that does not fail: a defect of it is in the log alone. */
export const bytes = (chunks: Stream.Stream<Chunk>): Stream.Stream<Uint8Array> =>
  eventStream.bytes(encode(chunks), (cause) =>
    Effect.as(telemetry.logUnexpected("A stream of chunks failed unexpectedly", cause), fail(hidden))
  )
