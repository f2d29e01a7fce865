/**
 * A model behind the interface of OpenAI, as Ollama is. It stops in the middle of an answer until the test lets the answer continue, so that a slow
 * browser sees what a fast one sees.
 */
import { assert } from "@effect/vitest"
import { once } from "node:events"
import { createServer, type IncomingMessage } from "node:http"
import { help, story } from "../../examples/web-chat/texts.ts"

interface Message {
  readonly role: string
  readonly content?: string | ReadonlyArray<{ readonly text?: string }>
}

interface Answer {
  readonly text: string
  readonly call?: { readonly name: string; readonly arguments: string }
}

const textOf = ({ content = "" }: Message): string =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("")

/** The rules of the example whose answers the tests hold. */
const answerTo = (last: Message): Answer => {
  const text = textOf(last)
  if (last.role === "tool")
    return {
      text: /unknown|interrupted|not known/i.test(text)
        ? `I did not do it: ${text}`
        : `Done: ${text.replaceAll('"', "")}`
    }
  if (/parcel/i.test(text)) return { text: "Let me look.", call: { name: "find_parcel", arguments: '{"parcel":"7"}' } }
  if (/refund/i.test(text))
    return { text: "I can do that.", call: { name: "refund", arguments: '{"order":"42","amount":25}' } }
  if (/research/i.test(text))
    return {
      text: "I look at the history of tea.",
      call: { name: "look_up", arguments: '{"topic":"tea","side":"history"}' }
    }
  return { text: /story/i.test(text) ? story : /thank/i.test(text) ? "You are welcome." : help }
}

export interface HeldModel {
  /** The environment of a server that asks this model. */
  readonly settings: Readonly<Record<string, string>>
  /** Lets the answers that are held, and all later answers, continue to their ends. */
  readonly go: () => void
  /** Stops later answers at the texts of `openModel`. */
  readonly hold: () => void
  readonly close: () => void
}

const bodyOf = async (request: IncomingMessage): Promise<{ readonly messages: ReadonlyArray<Message> }> => {
  let body = ""
  for await (const chunk of request) body += String(chunk)
  return JSON.parse(body)
}

/** Starts a model that stops each answer behind the first of these texts that the answer has. */
export const openModel = async (...stops: ReadonlyArray<string>): Promise<HeldModel> => {
  let open: () => void = () => undefined
  const closed = (): Promise<void> =>
    new Promise((resolve) => {
      open = resolve
    })
  let gate = closed()
  const server = createServer((request, response) => {
    const write = (delta: object, reason: string | null = null): void => {
      const choices = [{ index: 0, delta, finish_reason: reason }]
      response.write(
        `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 0, model: "held", choices })}\n\n`
      )
    }
    const respond = async (): Promise<void> => {
      const { messages } = await bodyOf(request)
      const last = messages.at(-1)
      assert(last !== undefined)
      const { call, text } = answerTo(last)
      response.writeHead(200, { "content-type": "text/event-stream" })
      const stop = stops.find((stop) => text.includes(stop)) ?? text
      const end = text.indexOf(stop) + stop.length
      const writePieces = (text: string): void => {
        for (const piece of text.match(/[^]{1,20}/g) ?? []) write({ role: "assistant", content: piece })
      }
      writePieces(text.slice(0, end))
      if (stop !== text) await gate
      writePieces(text.slice(end))
      if (call !== undefined) {
        const { name } = call
        write({
          tool_calls: [
            { index: 0, id: `call_${messages.length}`, type: "function", function: { name, arguments: call.arguments } }
          ]
        })
      }
      write({}, call === undefined ? "stop" : "tool_calls")
      response.end("data: [DONE]\n\n")
    }
    respond().catch((error: unknown) => response.destroy(Error(String(error))))
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  assert(typeof address === "object" && address !== null)
  return {
    settings: { EMISSARY_MODEL: "ollama/held", OLLAMA_BASE_URL: `http://127.0.0.1:${address.port}/v1` },
    go: () => open(),
    hold: () => {
      gate = closed()
    },
    close: () => {
      open()
      server.closeAllConnections()
      server.close()
    }
  }
}
