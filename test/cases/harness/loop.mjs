import { createServer } from "node:http"
import { Effect, Layer, Schema, Stream, Cause, Exit, Result, Schedule } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { createOpenAI } from "@ai-sdk/openai"
import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { createGoogleGenerativeAI } from "@ai-sdk/google"
import { Agent, AgentEvent, AgentError, Conversation, Run } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"
export {
  Effect,
  Layer,
  Schema,
  Stream,
  Cause,
  Exit,
  Result,
  Tool,
  Toolkit,
  Agent,
  AgentEvent,
  AgentError,
  Conversation,
  Run,
  AiSdk,
  Schedule
}

/** replies: [{status, headers, json | sse:[...] | raw}] */
export const serve = (replies) =>
  new Promise((resolve) => {
    const bodies = []
    let n = 0
    const server = createServer(async (req, res) => {
      let text = ""
      for await (const c of req) text += c
      let body
      try {
        body = JSON.parse(text)
      } catch {
        body = text
      }
      bodies.push(body)
      const r = typeof replies === "function" ? replies(body, n++) : replies[n++]
      if (!r) {
        res.writeHead(418, { "content-type": "application/json" })
        return res.end(JSON.stringify({ error: { message: "script ended" } }))
      }
      if (r.json !== undefined) {
        res.writeHead(r.status ?? 200, { "content-type": "application/json", ...r.headers })
        return res.end(JSON.stringify(r.json))
      }
      if (r.raw !== undefined) {
        res.writeHead(r.status ?? 200, { "content-type": r.type ?? "text/event-stream", ...r.headers })
        for (const piece of [].concat(r.raw)) {
          res.write(piece)
          await new Promise((f) => setImmediate(f))
        }
        if (r.destroy) return setTimeout(() => req.socket.destroy(), 20)
        return res.end()
      }
      res.writeHead(r.status ?? 200, { "content-type": "text/event-stream", ...r.headers })
      for (const f of r.sse) {
        res.write(
          typeof f === "string" ? f : `${f.event ? `event: ${f.event}\n` : ""}data: ${JSON.stringify(f.data ?? f)}\n\n`
        )
        await new Promise((x) => setImmediate(x))
      }
      if (r.destroy) return setTimeout(() => req.socket.destroy(), 20)
      if (r.done !== false && r.wire !== "anthropic") res.write("data: [DONE]\n\n")
      res.end()
    })
    server.listen(0, "127.0.0.1", () =>
      resolve({
        url: `http://127.0.0.1:${server.address().port}`,
        bodies,
        close: () => {
          server.close()
          server.closeAllConnections()
        }
      })
    )
  })

export const models = {
  compat: (url, o) => createOpenAICompatible({ name: "local", baseURL: `${url}/v1`, ...o })("m"),
  chat: (url) => createOpenAI({ apiKey: "k", baseURL: `${url}/v1` }).chat("gpt-4.1"),
  responses: (url, m = "gpt-5.2") => createOpenAI({ apiKey: "k", baseURL: `${url}/v1` }).responses(m),
  anthropic: (url) => createAnthropic({ apiKey: "k", baseURL: `${url}/v1` })("claude-sonnet-4-5"),
  google: (url) => createGoogleGenerativeAI({ apiKey: "k", baseURL: `${url}/v1beta` })("gemini-2.5-flash")
}
export const chunk = (delta, finish = null, more = {}) => ({
  id: "c",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...more
})
export const completion = (message, finish = "stop", more = {}) => ({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason: finish }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  ...more
})
export const textStream = (t) => ({ sse: [chunk({ role: "assistant", content: t }), chunk({}, "stop")] })
export const textWhole = (t) => ({ json: completion({ content: t }) })
export const anthropicText = (t) => ({
  json: {
    id: "m1",
    type: "message",
    role: "assistant",
    model: "claude",
    content: [{ type: "text", text: t }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 }
  }
})
export const anthropicWhole = (content, stop = "end_turn") => ({
  json: {
    id: "m1",
    type: "message",
    role: "assistant",
    model: "claude",
    content,
    stop_reason: stop,
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 }
  }
})

/** Runs an agent, streamed or not, and reports what happened, plainly. */
export const go = async ({
  wire = "compat",
  replies,
  agent,
  handlers = Layer.empty,
  stream = false,
  input = "go",
  options = {},
  sdk,
  modelOptions
}) => {
  const server = await serve(replies)
  const model = AiSdk.model(sdk ? sdk(server.url) : models[wire](server.url), modelOptions)
  const events = []
  const program = stream
    ? AgentEvent.result(agent.stream(input, options).pipe(Stream.tap((e) => Effect.sync(() => events.push(e)))))
    : agent.run(input, options)
  const exit = await Effect.runPromiseExit(
    program.pipe(Effect.provide(Layer.mergeAll(handlers, model)), Effect.timeout("15 seconds"))
  )
  server.close()
  return { ...report(exit), events, bodies: server.bodies, exit }
}
export const report = (exit) => {
  if (Exit.isSuccess(exit)) {
    const r = exit.value
    return {
      ok: true,
      outcome: r.outcome,
      text: r.text,
      output: r.output,
      messages: Conversation.messages(r.conversation).map(brief),
      usage: r.usage
    }
  }
  const fail = exit.cause.reasons?.find(Cause.isFailReason)
  const die = Cause.hasDies(exit.cause)
  const e = fail?.error
  return {
    ok: false,
    die,
    tag: e?._tag,
    reason: e?.reason?._tag,
    error: e?.reason?.error,
    retryable: e?.reason?.retryable,
    message: e?.message ?? Cause.pretty(exit.cause).slice(0, 500),
    mistakes: e?.state?.mistakes,
    cause: e?.reason ? String(AgentError.causeOf(e.reason)?.message ?? "").slice(0, 300) : undefined
  }
}
export const brief = (m) => {
  if (m.role === "tool")
    return {
      role: "tool",
      id: m.id ?? m.callId,
      name: m.name,
      result:
        m.result?._tag === "Failure"
          ? { failure: m.result.type, message: m.result.message, value: m.result.value }
          : { value: m.result?.value }
    }
  return {
    role: m.role,
    parts:
      m.parts?.map((p) =>
        p.type === "tool-call" || p._tag === "ToolCall"
          ? { call: p.name, id: p.id, args: p.arguments ?? p.params }
          : p.text !== undefined
            ? { [p.type ?? p._tag ?? "text"]: p.text }
            : p
      ) ??
      m.text ??
      m.content,
    finish: m.finishReason
  }
}
export const tools = (defs) => Toolkit.make(...defs)
