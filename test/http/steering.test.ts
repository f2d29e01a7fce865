/** SCREEN-2: messages of chats over HTTP steer, unless the body or the server names another fate. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, VersionedStore } from "effect-emissary"
import type { SessionHttp } from "effect-emissary/http"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import { as, serve } from "./serve.ts"

const toolkit = Toolkit.make(Tool.make("work", { parameters: Schema.Struct({}), success: Schema.String }))

/** Calls a tool for the first message, which takes a while. */
const worker = Session.layer([Agent.make("worker", { toolkit })]).pipe(
  Layer.provide([
    VersionedStore.layerMemory,
    toolkit.toLayer({ work: () => Effect.as(Effect.sleep("300 millis"), "worked") }),
    ScriptedModel.layer(({ messages }) => {
      const last = messages.at(-1)
      return last?.text === "one" ? { toolCalls: [{ name: "work", params: {} }] } : { text: "done" }
    })
  ])
)

const world = (options?: SessionHttp.ServerOptions) => serve(options, { sessions: worker })

/** The roles of the messages after a second message during the first turn, and the status of its response. */
const talk = Effect.fnUntraced(function* (token: string, body: object) {
  const caller = as(token)
  const id = `ada/${token}`
  yield* caller.post(`send?id=${id}`, { input: "one" })
  const running = Effect.map(caller.get(`chat/state?id=${id}`), ({ body }) => body.status === "running")
  assert.isTrue(yield* running)
  const { status } = yield* caller.post(`send?id=${id}`, { input: "two", ...body })
  yield* Effect.repeat(Effect.delay(running, "20 millis"), { until: (isRunning) => !isRunning })
  const { messages } = (yield* caller.get(`chat/history?id=${id}`)).body
  return [status, messages.map(({ role }: { role: string }) => role).join(" ")]
})

const entered = "user assistant tool user assistant"
const queued = "user assistant tool assistant user assistant"

describe("SCREEN-2 messages over HTTP", () => {
  test.live("a message of a chat enters the turn under way", world(), function* () {
    assert.deepStrictEqual(yield* talk("ada", {}), [200, entered])
  })

  test.live("a message of a chat can wait for its turn", world(), function* () {
    assert.deepStrictEqual(yield* talk("ada", { whenBusy: "queue" }), [200, queued])
  })

  test.live("a message of a caller with full access waits, as with Session.send", world(), function* () {
    assert.deepStrictEqual(yield* talk("root", {}), [200, queued])
  })

  test.live("the server decides about messages that do not name it", world({ whenBusy: "reject" }), function* () {
    assert.deepStrictEqual(yield* talk("ada", {}), [429, "user assistant tool assistant"])
  })
})
