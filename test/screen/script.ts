/** A conversation with everything that a front end shows, on a model that writes slowly. */
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ToolFailure, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"

const named = { parameters: Schema.Struct({ name: Schema.String }), success: Schema.Json, failure: ToolFailure }

const who = Tool.make("who", named)
const fails = Tool.make("fails", named)
const pay = Tool.make("pay", { ...named, needsApproval: true })
const tools = Toolkit.make(who, fails, pay)

/** Both agents have the same name (openai-agents-python 5141). */
const inner = Agent.make("support", { toolkit: tools })

const outer = Agent.make("support", {
  toolkit: Toolkit.make(who, fails, pay, Agent.asTool(inner, { name: "delegate", description: "Asks another one" }))
})

const slow = { chunkDelay: "3 millis" } as const

/** An attempt that is withdrawn, parallel calls, two of them with a request, one inside of an agent, and an answer with a source and a file. */
export const script: ScriptedModel.Script = [
  { text: "Half an answer", reasoning: "A guess.", chunkDelay: "60 millis", fail: { reason: "RateLimitError" } },
  {
    reasoning: "The user wants a lot.",
    text: "Let me see what can be done.",
    toolCalls: [
      { id: "c1", name: "who", params: { name: "ann" } },
      { id: "c2", name: "fails", params: { name: "dan" } },
      { id: "c3", name: "delegate", params: { input: "Pay cleo." } },
      { id: "c4", name: "pay", params: { name: "bob" } }
    ],
    ...slow
  },
  { text: "I pay.", toolCalls: [{ id: "c1", name: "pay", params: { name: "cleo" } }], ...slow },
  { text: "Cleo is paid.", ...slow },
  {
    reasoning: "Nearly done.",
    text: "That is what I found, and bob waits.",
    parts: [
      { type: "source", sourceType: "url", id: "s1", url: "https://example.com/paper", title: "A paper" },
      { type: "file", mediaType: "text/plain", data: "QUJD" }
    ],
    ...slow
  }
]

/** The calls that have run. */
export const ran: Array<string> = []

const run = ({ name }: { readonly name: string }) => Effect.sync(() => (ran.push(name), { done: name }))

export const layer = () =>
  Session.layer([outer], { run: { retry: { times: 1, delay: "1 millis" } } }).pipe(
    Layer.provide([
      VersionedStore.layerMemory,
      ScriptedModel.layer(script),
      tools.toLayer({
        who: run,
        fails: () => Effect.fail(new ToolFailure({ type: "closed", message: "The shop is closed." })),
        pay: run
      })
    ])
  )
