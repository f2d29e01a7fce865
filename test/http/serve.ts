/** A server of sessions on a real socket, and what a page sends to it. */
import { assert } from "@effect/vitest"
import { NodeHttpServer } from "@effect/platform-node"
import { Effect, Layer, Option, Redacted, Schema } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { Tool, Toolkit } from "effect/ai"
import { Agent, RunContext, VersionedStore, ToolSettings } from "effect-emissary"
import { SessionHttp } from "effect-emissary/http"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { createServer } from "node:http"
import * as net from "node:net"

const named = { parameters: Schema.Struct({ name: Schema.String }), success: Schema.Json }

const toolkit = Toolkit.make(
  Tool.make("who", named),
  Tool.make("pay", { ...named, needsApproval: true }).annotate(ToolSettings.Request, { deciders: ["finance"] })
)

/** Answers a text with the same text in capitals, and calls a tool for `/tool name`. */
const model = ScriptedModel.layer(({ messages }) => {
  const last = messages.at(-1)
  const [, tool, name] = /^\/(\w+) (\w+)/.exec(last?.text ?? "") ?? []
  if (last?.role === "user" && tool !== undefined && name !== undefined) {
    return { toolCalls: [{ name: tool, params: { name } }] }
  }
  return { text: last?.text.toUpperCase() ?? "", reasoning: "secret thought" }
})

export const agent = Agent.make("support", { instructions: "instructions-7f3a", toolkit })

export const sessions = Session.layer([agent]).pipe(
  Layer.provide([
    VersionedStore.layerMemory,
    model,
    toolkit.toLayer({ who: () => RunContext.RunContext, pay: ({ name }) => Effect.succeed(name) })
  ])
)

export const typed = "What a model writes, piece by piece."

/** Writes a text, slowly. */
export const typing = Session.layer([Agent.make("writer")]).pipe(
  Layer.provide([
    VersionedStore.layerMemory,
    ScriptedModel.layer(() => ({ reasoning: "secret thought", text: typed, chunkDelay: "30 millis" }))
  ])
)

/** The answer that the pieces of a stream add up to. None of them is lost, doubled or withdrawn. */
export const written = (events: ReadonlyArray<object>): string =>
  events
    .filter((event) => "_tag" in event && event._tag === "AnswerDelta" && "type" in event && event.type === "text")
    .reduce((text, piece) => {
      assert.strictEqual("offset" in piece && piece.offset, text.length)
      return text + ("delta" in piece ? String(piece.delta) : "")
    }, "")

/** Tokens are names: `ada` is a user with a chat, `root` may do everything, `some` has the sessions that end with `1`. */
const callers: Record<string, Omit<SessionHttp.Caller, "name">> = {
  ada: { prefix: "ada/", access: "chat", context: { user: "context-ada" }, decidesAs: ["staff", "finance"] },
  bob: { prefix: "bob/", access: "chat" },
  some: { prefix: "ada/", access: "full", allows: (id) => id.endsWith("1") },
  root: { prefix: "", access: "full" },
  host: { prefix: "", access: "full", decidesAs: ["staff"] }
}

export const authorize = (more: (name: string) => Partial<SessionHttp.Caller> = () => ({})) =>
  Layer.succeed(SessionHttp.Authorize, ({ token }) => {
    const name = Option.getOrElse(Option.map(token, Redacted.value), () => "")
    const caller = Object.hasOwn(callers, name) ? callers[name] : undefined
    return caller === undefined
      ? Effect.fail(SessionHttp.refuse("unauthorized", "Sign in first."))
      : Effect.succeed({ name, ...caller, ...more(name) })
  })

export const serve = <E>(
  options?: SessionHttp.ServerOptions,
  parts: {
    readonly sessions?: Layer.Layer<Session.Session, E>
    readonly caller?: (name: string) => Partial<SessionHttp.Caller>
  } = {}
) =>
  HttpRouter.serve(SessionHttp.layerServer(options), { disableLogger: true, disableListenLog: true }).pipe(
    Layer.provide(authorize(parts.caller)),
    Layer.provideMerge(parts.sessions ?? sessions),
    Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0, gracefulShutdownTimeout: 0 }))
  )

export const url = Effect.map(
  HttpServer.HttpServer,
  ({ address }) => `http://127.0.0.1:${"port" in address ? address.port : 0}/sessions`
)

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  // the tests look into answers of every shape
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const send = (path: string, init?: RequestInit) =>
  Effect.flatMap(url, (url) =>
    Effect.promise(async (signal): Promise<Answer> => {
      const response = await fetch(`${url}/${path}`, { signal, ...init })
      const text = await response.text()
      return { status: response.status, headers: response.headers, text, body: parse(text) }
    })
  )

export const as = (token: string) => ({
  get: (path: string, headers?: Record<string, string>) =>
    send(path, { headers: { authorization: `Bearer ${token}`, ...headers } }),
  post: (path: string, body: unknown = {}, headers?: Record<string, string>) =>
    send(path, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body)
    })
})

/** A stream of events, which is read until its text passes. */
export const read = (path: string, headers: Record<string, string>) =>
  Effect.gen(function* () {
    const base = yield* url
    const abort = new AbortController()
    yield* Effect.addFinalizer(() => Effect.sync(() => abort.abort()))
    const response = yield* Effect.promise(() => fetch(`${base}/${path}`, { headers, signal: abort.signal }))
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = ""
    return {
      response,
      text: () => text,
      /** Reads on until the text has a part, or ends. */
      until: (part: string | ((text: string) => boolean)) =>
        Effect.promise(async () => {
          while (typeof part === "string" ? !text.includes(part) : !part(text)) {
            const next = await reader?.read()
            if (next === undefined || next.done) return `${text}<end>`
            text += next.value
          }
          return text
        })
    }
  })

/** The events of a text. */
export const eventsOf = (text: string) =>
  text
    .split("\n\n")
    .filter((block) => block.includes("data: "))
    .map((block) => {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1]
      // the tests look into events of every shape
      // oxlint-disable-next-line typescript/no-explicit-any
      return { id: field("id"), event: field("event"), data: JSON.parse(field("data") ?? "") as any }
    })

/** A way to the server that can be cut. */
export const way = Effect.gen(function* () {
  const { address } = yield* HttpServer.HttpServer
  const port = "port" in address ? address.port : 0
  const sockets = new Set<net.Socket>()
  const proxy = net.createServer((socket) => {
    const next = net.connect(port, "127.0.0.1")
    for (const end of [socket, next]) {
      sockets.add(end)
      end.on("error", () => undefined)
      end.on("close", () => {
        sockets.delete(end)
        socket.destroy()
        next.destroy()
      })
    }
    socket.pipe(next).pipe(socket)
  })
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  yield* Effect.acquireRelease(
    Effect.promise(() => new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve))),
    () => Effect.promise(() => new Promise<void>((resolve) => (cut(), proxy.close(() => resolve()))))
  )
  const found = proxy.address()
  return { cut, url: `http://127.0.0.1:${typeof found === "object" ? found?.port : 0}/sessions` }
})
