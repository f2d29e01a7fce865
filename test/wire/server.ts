import { Deferred, Effect } from "effect"
import type { LanguageModelConformance } from "effect-emissary/testing"
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export type Json = { readonly [key: string]: unknown }

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** False for half a character in any text or key. */
export const isWellFormed = (value: unknown): boolean => {
  if (typeof value === "string") return value.isWellFormed()
  if (typeof value !== "object" || value === null) return true
  return Object.entries(value).every(([key, member]) => key.isWellFormed() && isWellFormed(member))
}

export const objectOf = (value: unknown): Json => (isObject(value) ? value : {})

export const listOf = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value.map(objectOf) : [])

export const textOf = (value: unknown): string => (typeof value === "string" ? value : "")

export const parse = (text: unknown): unknown => {
  try {
    return JSON.parse(textOf(text))
  } catch {
    return text
  }
}

/** Deltas of a text, without half characters. */
export const deltas = (text: string): ReadonlyArray<string> =>
  Array.from({ length: Math.ceil(Array.from(text).length / 9) }, (_, n) =>
    Array.from(text)
      .slice(n * 9, n * 9 + 9)
      .join("")
  )

/** A reply, with other headers, and an error in the middle of a stream. */
export type Reply =
  | (LanguageModelConformance.Reply & { readonly headers?: Readonly<Record<string, string>> })
  | { readonly _tag: "StreamError"; readonly content: Content; readonly message: string }

export type Content = ReadonlyArray<LanguageModelConformance.AnswerPart>

export type Answer = Extract<LanguageModelConformance.Reply, { _tag: "Answer" }>

/** Why a provider does not answer. */
export interface Refusal {
  readonly status: number
  readonly body: unknown
}

/** One request as a provider of some kind reads it, with the conversation that the provider may have stored. */
export interface Turn {
  readonly index: number
  readonly body: Json
  readonly stored: Map<string, Json>
}

/** The protocol of a kind of provider. */
export interface Dialect {
  readonly path: string
  /** The path of streams, if it is another one. */
  readonly streamPath?: string
  readonly authorize: (headers: IncomingHttpHeaders, key: string) => Refusal | undefined
  /** The refusal of a request, in the words of the provider. */
  readonly refuse: (turn: Turn) => Refusal | undefined
  readonly request: (turn: Turn) => LanguageModelConformance.Request
  readonly whole: (answer: Answer, turn: Turn) => unknown
  /** The frames of a stream. Without an end where the stream does not get there. */
  readonly frames: (content: Content, turn: Turn, end?: Answer) => ReadonlyArray<string>
  readonly error: (status: number, message: string) => unknown
  /** The frame of an error in the middle of a stream. */
  readonly errorFrame: (message: string) => string
}

export type Script = ReadonlyArray<Reply> | ((request: LanguageModelConformance.Request, index: number) => Reply)

export interface Server {
  readonly url: string
  readonly requests: Array<LanguageModelConformance.Request>
  readonly bodies: Array<Json>
  readonly refusals: Array<Refusal>
  /** Ends when a client has closed a connection before the answer was complete. */
  readonly aborted: Deferred.Deferred<void>
}

export const theKey = "sk-abcdefghijklmnopqrstuvwxyz0123456789"

const readBody = async (message: IncomingMessage): Promise<string> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of message) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks).toString("utf8")
}

/** A provider on loopback, with a reply for each request that it does not refuse. */
export const serve = (dialect: Dialect, script: Script) =>
  Effect.gen(function* () {
    const aborted = yield* Deferred.make<void>()
    const state: Omit<Server, "url"> = { requests: [], bodies: [], refusals: [], aborted }
    const stored = new Map<string, Json>()

    const answer = async (message: IncomingMessage, response: ServerResponse): Promise<void> => {
      const send = (status: number, body: unknown, headers?: Readonly<Record<string, string>>) => {
        response.writeHead(status, { "content-type": "application/json", ...headers })
        response.end(JSON.stringify(body))
      }
      const refuse = (refusal: Refusal) => {
        state.refusals.push(refusal)
        send(refusal.status, refusal.body)
      }
      const { path, streamPath } = dialect
      if (message.method !== "POST" || (message.url !== path && message.url !== streamPath)) {
        return refuse({
          status: 404,
          body: dialect.error(404, `Unknown request URL: ${message.method} ${message.url}`)
        })
      }
      const unauthorized = dialect.authorize(message.headers, theKey)
      if (unauthorized !== undefined) return refuse(unauthorized)
      const body = parse(await readBody(message))
      if (!isObject(body)) return refuse({ status: 400, body: dialect.error(400, "The request is no JSON object") })
      state.bodies.push(body)
      // The real ones refuse a body with half a character as no JSON
      if (!isWellFormed(body)) return refuse({ status: 400, body: dialect.error(400, "no low surrogate in string") })
      const turn: Turn = { index: state.requests.length, body, stored }
      const refusal = dialect.refuse(turn)
      if (refusal !== undefined) return refuse(refusal)
      const request = dialect.request(turn)
      state.requests.push(request)
      const reply = typeof script === "function" ? script(request, turn.index) : script[turn.index]
      response.on("close", () => {
        if (!response.writableFinished) Deferred.doneUnsafe(aborted, Effect.void)
      })
      if (reply === undefined) return refuse({ status: 418, body: dialect.error(418, "The script has ended") })
      if (reply._tag === "Failure") {
        const retry = reply.retryAfter === undefined ? {} : { "retry-after": String(reply.retryAfter) }
        return send(reply.status, dialect.error(reply.status, reply.message), { ...retry, ...reply.headers })
      }
      if (message.url !== streamPath && body["stream"] !== true) {
        if (reply._tag === "Answer") return send(200, dialect.whole(reply, turn))
        if (reply._tag === "StreamError") return send(500, dialect.error(500, reply.message))
        if (reply._tag === "Break") message.socket.destroy()
        return
      }
      response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" })
      for (const frame of dialect.frames(reply.content, turn, reply._tag === "Answer" ? reply : undefined)) {
        response.write(frame)
        await new Promise((resolve) => setImmediate(resolve))
      }
      if (reply._tag === "Answer") response.end()
      if (reply._tag === "StreamError") response.end(dialect.errorFrame(reply.message))
      if (reply._tag === "Break") setTimeout(() => message.socket.destroy(), 20)
    }

    const server = yield* Effect.acquireRelease(
      Effect.callback<ReturnType<typeof createServer>>((resume) => {
        const made = createServer((message, response) => {
          answer(message, response).catch((error) => response.destroy(error))
        })
        made.listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
      }),
      (made) =>
        Effect.sync(() => {
          made.close()
          made.closeAllConnections()
        })
    )
    const { port } = server.address() as AddressInfo
    return { ...state, url: `http://127.0.0.1:${port}` } satisfies Server
  })
