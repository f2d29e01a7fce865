/** SCREEN-6: reports of users of other libraries, whose plans and agents ask from inside a chat. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { UIMessage } from "ai"
import { VersionedStore } from "effect-emissary"
import { as, serve, url } from "../http/serve.ts"
import { test } from "../test.ts"
import { Attempts, scripts, sessionsOf } from "../worlds/scripts.ts"
import { missing, peers, sayMissing } from "./peers.ts"

sayMissing("SCREEN-6")

const script = scripts.find(({ name }) => name === "plans that ask")

/** Servers over one store, each with the sessions of a process of its own. */
const servers = Effect.gen(function* () {
  assert(script !== undefined)
  const outside = Layer.succeedContext(yield* Layer.build(Layer.merge(VersionedStore.layerMemory, Attempts.layer)))
  const sessions = Layer.provide(sessionsOf(script), outside)
  return Layer.fresh(serve({ chat: script.chat }, { sessions }))
})

const headers = { authorization: "Bearer ada" }

/** A page that is loaded: it has the messages that are stored. */
const page = (id: string) =>
  Effect.gen(function* () {
    const { ai, react } = peers()
    const base = yield* url
    const messages: Array<UIMessage> = (yield* as("ada").get(`chat/ui?id=${encodeURIComponent(id)}`)).body
    return new react.Chat({ id, messages, transport: new ai.DefaultChatTransport({ api: `${base}/chat/ui`, headers }) })
  })

type Chat = Effect.Success<ReturnType<typeof page>>

/** The requests that a page shows: the tool, its input, and the id. */
const askedBy = ({ messages }: Chat) =>
  (messages.at(-1)?.parts ?? []).flatMap((part) =>
    "approval" in part && part.state === "approval-requested"
      ? [{ tool: peers().ai.getToolName(part), input: JSON.stringify(part.input), id: part.approval.id }]
      : []
  )

const answer = (chat: Chat, approved = true) =>
  Effect.promise(async () => {
    for (const { id } of askedBy(chat)) await chat.addToolApprovalResponse({ id, approved, reason: "I say so." })
    await chat.sendMessage()
  })

const say = (chat: Chat, text: string) => Effect.promise(() => chat.sendMessage({ text }))

const textOf = ({ messages }: Pick<Chat, "messages">) =>
  (messages.at(-1)?.parts ?? []).flatMap((part) => (part.type === "text" ? [part.text] : [])).join(" ")

const statusOf = (id: string) =>
  Effect.map(as("ada").get(`chat/state?id=${encodeURIComponent(id)}`), ({ body }) => body.status)

/** The page shows what a page shows that is loaded now. */
const isStored = (chat: Chat, id: string) =>
  Effect.gen(function* () {
    const shown = ({ messages }: Pick<Chat, "messages">) =>
      messages.map(({ id, parts }) => [
        id,
        parts.flatMap((part) =>
          part.type.startsWith("data-") || part.type === "dynamic-tool"
            ? []
            : [[part.type, "state" in part && part.state, "output" in part && part.output, "text" in part && part.text]]
        )
      ])
    assert.deepStrictEqual(shown(chat).slice(1), shown(yield* page(id)).slice(1))
  })

describe.runIf(missing === undefined)("SCREEN-6 reports of peers", () => {
  test.live(
    "SCREEN-6 a chat whose tool is a plan that asks waits as a whole, and continues after a restart and a reload (mastra 11485)",
    function* () {
      const server = yield* servers
      const id = "ada/1"
      yield* Effect.gen(function* () {
        const chat = yield* page(id)
        yield* say(chat, "a|find flow(ask)")
        assert.strictEqual(chat.error, undefined)
        assert.deepStrictEqual(
          askedBy(chat).map(({ tool }) => tool),
          ["gate"]
        )
        assert.strictEqual(yield* statusOf(id), "waiting")
        assert.strictEqual(textOf(chat), "Step 0 of a.")
      }).pipe(Effect.provide(server))
      yield* Effect.gen(function* () {
        const chat = yield* page(id)
        assert.strictEqual(askedBy(chat).length, 1)
        yield* answer(chat)
        assert.strictEqual(chat.error, undefined)
        assert.strictEqual(yield* statusOf(id), "idle")
        assert.strictEqual(textOf(chat), "Step 0 of a. Step 1 of a.")
        yield* isStored(chat, id)
      }).pipe(Effect.provide(server))
    }
  )

  test.live(
    "SCREEN-6 a plan asks twice in a row inside a chat, each time before a restart, and the page has one request at a time (mastra 11485)",
    function* () {
      const server = yield* servers
      const id = "ada/2"
      const asked: Array<string> = []
      yield* Effect.flatMap(page(id), (chat) => say(chat, "a|flow(ask pay)")).pipe(Effect.provide(server))
      for (let time = 0; time < 2; time++) {
        yield* Effect.gen(function* () {
          const chat = yield* page(id)
          asked.push(...askedBy(chat).map(({ tool }) => tool))
          yield* answer(chat)
          assert.strictEqual(chat.error, undefined)
          if (time === 1) yield* isStored(chat, id)
        }).pipe(Effect.provide(server))
      }
      assert.deepStrictEqual(asked, ["gate", "pay"])
      yield* Effect.gen(function* () {
        assert.strictEqual(yield* statusOf(id), "idle")
        assert.include(textOf(yield* page(id)), "Step 1 of a.")
      }).pipe(Effect.provide(server))
    }
  )

  test.live(
    "SCREEN-6 a call of an agent three agents deep asks in the chat, with its own name and arguments, over both protocols (mastra 12552)",
    function* () {
      const server = yield* servers
      const id = "ada/3"
      yield* Effect.gen(function* () {
        const chat = yield* page(id)
        yield* say(chat, "a|boss(pay;pay)")
        const [first, ...others] = askedBy(chat)
        assert.deepStrictEqual([first?.tool, first?.input, others.length], ["pay", `{"name":"a/0/0/0/0/0/0"}`, 0])
        const agent = new (peers().agui.HttpAgent)({ url: `${yield* url}/chat/agui`, headers, threadId: id })
        agent.addMessage({ id: chat.messages[0]?.id ?? "", role: "user", content: "a|boss(pay;pay)" })
        yield* Effect.promise(() => agent.runAgent())
        assert.deepStrictEqual(
          agent.pendingInterrupts.map(({ id, message }) => [id, message]),
          [[first?.id, `"pay" {"name":"a/0/0/0/0/0/0"}`]]
        )
        yield* answer(chat)
        assert.strictEqual(askedBy(chat).length, 1)
        yield* answer(chat, false)
        assert.deepStrictEqual([askedBy(chat).length, yield* statusOf(id)], [0, "idle"])
        yield* isStored(chat, id)
        // The same message once more shows its whole turn, and none of the requests that were answered
        agent.pendingInterrupts = []
        agent.setMessages(agent.messages.slice(0, 1))
        yield* Effect.promise(() => agent.runAgent())
        assert.deepStrictEqual(agent.pendingInterrupts, [])
        assert.include(JSON.stringify(agent.messages), "Step 1 of a.")
      }).pipe(Effect.provide(server))
    }
  )

  test.live(
    "SCREEN-6 a request of a plan that is answered elsewhere continues the turn of the chat, and its page (mastra 23714)",
    function* () {
      const server = yield* servers
      const id = "ada/4"
      yield* Effect.gen(function* () {
        const chat = yield* page(id)
        yield* say(chat, "a|flow(ask)|slow")
        const { requests } = (yield* as("ada").get(`chat/state?id=${encodeURIComponent(id)}`)).body
        const decisions = requests.map((request: object) => ({ ...request, approved: true }))
        const decided = yield* as("ada").post(`decide?id=${encodeURIComponent(id)}`, { decisions })
        assert.strictEqual(decided.status, 200)
        yield* Effect.promise(() => chat.resumeStream())
        yield* Effect.repeat(statusOf(id), { until: (status) => status === "idle" })
        assert.strictEqual(textOf(yield* page(id)), "Step 0 of a. Step 1 of a. Step 2 of a.")
        // The page joins while the turn continues, and answers too late
        if (askedBy(chat).length === 0) yield* isStored(chat, id)
        else yield* answer(chat)
        assert.deepStrictEqual(askedBy(yield* page(id)), [])
      }).pipe(Effect.provide(server))
    }
  )

  test.live(
    "SCREEN-6 a request is answered after another message was sent, and both messages are answered (mastra 11485)",
    function* () {
      const server = yield* servers
      const id = "ada/5"
      yield* Effect.gen(function* () {
        const chat = yield* page(id)
        yield* say(chat, "a|flow(ask)")
        const [asked] = askedBy(chat)
        yield* say(chat, "b|say")
        const between = yield* page(id)
        assert.deepStrictEqual(
          between.messages.map(({ role }) => role),
          ["user", "assistant", "user"]
        )
        assert.deepStrictEqual(between.messages[2]?.parts, [{ type: "text", text: "b|say" }])
        yield* Effect.promise(async () => chat.addToolApprovalResponse({ id: asked?.id ?? "", approved: true }))
        yield* Effect.promise(() => chat.sendMessage())
        yield* Effect.repeat(statusOf(id), { until: (status) => status === "idle" })
        const loaded = yield* page(id)
        assert.deepStrictEqual(
          loaded.messages.map(({ role }) => role),
          ["user", "assistant", "user", "assistant"]
        )
        assert.strictEqual(textOf(loaded), "Step 0 of b.")
        assert.include(JSON.stringify(loaded.messages[1]), "and that is all")
      }).pipe(Effect.provide(server))
    }
  )

  test.live("SCREEN-4 a page that is loaded during a turn has the message that waits behind it", function* () {
    const server = yield* servers
    const id = "ada/6"
    yield* Effect.gen(function* () {
      assert.strictEqual((yield* as("ada").post(`send?id=${id}`, { input: "a|slow|slow|slow|slow" })).status, 200)
      const more = { input: "b|say", messageId: "later", whenBusy: "queue" }
      assert.strictEqual((yield* as("ada").post(`send?id=${id}`, more)).status, 200)
      const loaded = yield* page(id)
      assert.deepStrictEqual(
        loaded.messages.filter(({ role }) => role === "user").map(({ parts: [first] }) => first),
        ["a|slow|slow|slow|slow", "b|say"].map((text) => ({ type: "text" as const, text }))
      )
      yield* Effect.promise(() => loaded.resumeStream())
      yield* Effect.repeat(statusOf(id), { until: (status) => status === "idle" })
      assert.strictEqual((yield* page(id)).messages.length, 4)
    }).pipe(Effect.provide(server))
  })
})
