/**
 * L15: the tools, the system text and each message of a request are the first ones of the next request, each encoded by itself, on
 * the encoding of each provider. Exceptions are the points that the events of a run report.
 */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Result, Schema, Stream } from "effect"
import { LanguageModel, type Tool } from "effect/ai"
import { Agent, Conversation, type Message, Run, VersionedStore } from "effect-emissary"
import { Arbitraries, ScriptedModel } from "effect-emissary/testing"
import { decide } from "../decisions.ts"
import { Session } from "effect-emissary/session"
import { call, handlers, Probe, toolkit } from "../agent/fixtures.ts"
import * as sessionTests from "../session/sessions.ts"
import { test } from "../test.ts"
import { encoding, providers, reasoning, type Provider } from "./providers.ts"
import { listOf, type Json } from "./server.ts"

const all: Readonly<Record<string, Provider>> = { ...providers, ...reasoning }

/** One request as a provider caches it: three lists, each of whose members is encoded by itself. */
interface Sent {
  readonly tools: ReadonlyArray<string>
  readonly system: ReadonlyArray<string>
  readonly messages: ReadonlyArray<string>
}

/** The blocks of a message, each with the rest of the message: providers join messages of one role. */
const blocksOf = (message: Json): ReadonlyArray<Json> => {
  const key = Array.isArray(message["parts"]) ? "parts" : "content"
  const blocks = message[key]
  return Array.isArray(blocks) ? blocks.map((block) => ({ ...message, [key]: block })) : [message]
}

const encoded = (values: ReadonlyArray<unknown>): ReadonlyArray<string> => values.map((value) => JSON.stringify(value))

const sent = (body: Json): Sent => {
  const { contents, input, messages, system, systemInstruction, tools } = body
  const declared = listOf(tools).flatMap((tool) =>
    Array.isArray(tool["functionDeclarations"]) ? listOf(tool["functionDeclarations"]) : [tool]
  )
  const front = system ?? systemInstruction
  return {
    tools: encoded(declared),
    system: encoded(Array.isArray(front) ? front : front === undefined ? [] : [front]),
    messages: encoded(listOf(input ?? contents ?? messages).flatMap(blocksOf))
  }
}

const parts = ["tools", "system", "messages"] as const

/** The first place where the later request differs from the earlier one, before the end of the earlier one. */
const difference = (before: Sent, after: Sent, compared: ReadonlyArray<(typeof parts)[number]> = parts) =>
  compared.flatMap((part) => {
    const at = before[part].findIndex((one, index) => one !== after[part][index])
    return at < 0 ? [] : [{ part, at, was: before[part][at], now: after[part][at] ?? "nothing" }]
  })[0]

describe("MONEY-6 L15 generated conversations grow at their end", () => {
  /** A model can be asked here: nothing is open, and the last message is no answer, unless the answer paused. */
  const isRequest = (conversation: Conversation.Conversation, last: Message.Message | undefined): boolean =>
    last !== undefined &&
    last.role !== "system" &&
    Conversation.openCalls(conversation).length === 0 &&
    (last.role !== "assistant" || last.finishReason === "pause")

  for (const [name, provider] of Object.entries(all)) {
    test.prop(
      name,
      [Arbitraries.messages({ sendable: true, open: false })],
      function* ([messages]) {
        const { bodies, model } = encoding(provider)
        const { generateText } = yield* model
        let conversation = Conversation.empty
        for (const [index, message] of messages.entries()) {
          conversation = Result.getOrThrow(Conversation.append(conversation, message))
          // A later system message is added together with the question before it
          if (messages[index + 1]?.role === "system" || !isRequest(conversation, messages[index])) continue
          yield* Effect.option(generateText({ prompt: Conversation.toPrompt(conversation) }))
        }
        for (const [index, body] of bodies.slice(1).entries()) {
          assert.isUndefined(difference(sent(bodies[index] ?? {}), sent(body)))
        }
      },
      { arbitrary: { runs: 40 } }
    )
  }
})

const Step = Schema.Union([
  Schema.Literals(["answer", "not json", "empty", "mistake", "failure", "pause", "length"]),
  Schema.NonEmptyArray(Schema.Literals(["echo", "echo more", "fail", "delete", "invented", "wrong arguments"])).check(
    Schema.isMaxLength(3)
  )
])

const Turn = Schema.Struct({
  steps: Schema.Array(Step).check(Schema.isMaxLength(5)),
  approves: Schema.Boolean
})

const Script = Schema.Struct({
  output: Schema.Literals(["text", "native", "native without tools", "prompted", "tool"]),
  turns: Schema.NonEmptyArray(Turn).check(Schema.isMaxLength(3))
})

type Script = typeof Script.Type

const callOf = (kind: Exclude<typeof Step.Type, string>[number]) => {
  switch (kind) {
    case "echo":
      return { name: "echo", params: { text: "a" } }
    case "echo more":
      return { name: "echo", params: { text: "b ".repeat(20) } }
    case "fail":
      return { name: "fail", params: { reason: "no" } }
    case "delete":
      return { name: "delete", params: { path: "/a" } }
    case "invented":
      return { name: "invented", params: {} }
    case "wrong arguments":
      return { name: "echo", params: { text: 7 } }
  }
}

const turnOf = (step: typeof Step.Type, isTool: boolean): ScriptedModel.Turn => {
  if (typeof step !== "string") return { text: "I look.", toolCalls: step.map(callOf) }
  switch (step) {
    case "answer":
      return isTool ? { toolCalls: [{ name: "final_answer", params: { city: "Rome" } }] } : { text: `{"city":"Rome"}` }
    case "not json":
      return { text: "It is Rome." }
    case "empty":
      return {}
    case "mistake":
      return { fail: { reason: "InvalidOutputError", description: "It cannot be read." } }
    case "failure":
      return { fail: { reason: "AuthenticationError" } }
    case "pause":
      return { text: "Wait.", finishReason: "pause" }
    case "length":
      return { text: "It is R", finishReason: "length" }
  }
}

type Agents = Tool.HandlersFor<typeof toolkit.tools> | LanguageModel.LanguageModel

const Output = Schema.Struct({ city: Schema.String })

const agentOf = (output: Script["output"]): Agent.Agent<unknown, Agents> => {
  const base = { instructions: "You are the helper.", maxSteps: 6, retry: { times: 0 } }
  if (output === "text") return Agent.make("helper", { ...base, toolkit })
  if (output === "native without tools") return Agent.make("helper", { ...base, output: Output })
  return Agent.make("helper", { ...base, toolkit, output: Output, outputStrategy: output })
}

const encodings = Object.entries<Provider>(providers).map(([name, provider]) => ({ name, ...encoding(provider) }))

/** Asks the scripted model, and encodes each request for each provider. */
const watched = (script: ScriptedModel.Script, asked: Array<Asked>) =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.gen(function* () {
      const scripted = yield* LanguageModel.LanguageModel
      const models = yield* Effect.forEach(encodings, ({ model }) => model)
      const encode = (
        isObject: boolean,
        ask: (model: LanguageModel.LanguageModel) => Effect.Effect<unknown, unknown, unknown>
      ) =>
        Effect.gen(function* () {
          yield* Effect.forEach(models, (model) => Effect.exit(ask(model)), { discard: true })
          const bodies = encodings.map(({ bodies, name }) => [name, sent(bodies.at(-1) ?? {})] as const)
          asked.push({ isObject, bodies, isAnswered: true })
        })
      const withdraw = Effect.sync(() => {
        const last = asked.pop()
        if (last !== undefined) asked.push({ ...last, isAnswered: false })
      })
      const watching: Watching = {
        generateText: (options) =>
          Effect.andThen(
            encode(false, (model) => model.generateText(options)),
            Effect.onError(scripted.generateText(options), () => withdraw)
          ),
        generateObject: (options) =>
          Effect.andThen(
            encode(true, (model) => model.generateObject(options)),
            Effect.onError(scripted.generateObject(options), () => withdraw)
          ),
        streamText: (options) =>
          Stream.unwrap(
            Effect.as(
              encode(false, (model) => model.generateText(options)),
              scripted.streamText(options)
            )
          )
      }
      // Sound: each method passes its options on, and its answer back
      return { ...scripted, ...(watching as Partial<LanguageModel.LanguageModel>) }
    })
  ).pipe(Layer.provide(ScriptedModel.layer(script)))

/** The methods of a model, with options of a type that no test makes. */
interface Watching {
  readonly generateText: (options: never) => unknown
  readonly generateObject: (options: never) => unknown
  readonly streamText: (options: never) => unknown
}

interface Asked {
  readonly isObject: boolean
  readonly isAnswered: boolean
  readonly bodies: ReadonlyArray<readonly [provider: string, sent: Sent]>
}

/** A request that was answered is compared with the next one. A request for JSON alone offers no tools. */
const compare = (
  asked: ReadonlyArray<Asked>,
  isExpected: (provider: string, index: number) => boolean = () => true
) => {
  let last: Asked | undefined
  for (const [request, one] of asked.entries()) {
    for (const [index, [name, body]] of (last?.bodies ?? []).entries()) {
      const [, after] = one.bodies[index] ?? [name, body]
      if (!isExpected(name, request)) continue
      const compared = last?.isObject === one.isObject ? parts : (["system", "messages"] as const)
      assert.isUndefined(difference(body, after, compared), name)
    }
    if (one.isAnswered) last = one
  }
}

describe("MONEY-6 L15 generated runs grow at their end", () => {
  test.prop(
    "over turns with calls, mistakes, empty answers, pauses, failures, approvals and outputs of each strategy",
    [Script],
    function* ([{ output, turns }]) {
      const asked: Array<Asked> = []
      const agent = agentOf(output)
      const steps: Array<typeof Step.Type> = []
      const next = () => turnOf(steps.shift() ?? "answer", output === "tool")
      const run = Effect.gen(function* () {
        let state: Run.State | undefined
        for (const [index, turn] of turns.entries()) {
          steps.splice(0, steps.length, ...turn.steps)
          const input = `Question ${index}`
          let going = state === undefined ? agent.run(input) : agent.resume(state, { input })
          for (let tries = 0; tries < 4; tries++) {
            const result = yield* Effect.result(going)
            if (Result.isFailure(result)) {
              state = result.failure.state ?? state
              break
            }
            state = result.success.state
            if (result.success.outcome !== "AwaitingApproval") break
            going = agent.resume(state, { decisions: decide(state, turn.approves) })
          }
        }
      })
      yield* run.pipe(Effect.provide(Layer.provideMerge(Layer.merge(handlers, watched(next, asked)), Probe.layer)))
      assert.isAbove(asked.length, 0)
      compare(asked)
    },
    { arbitrary: { runs: 25 } }
  )
})

test.live("MONEY-6 L15 the messages of a session, with new instructions and a decision", function* () {
  const asked: Array<Asked> = []
  let instructions = "Be brief."
  const agent = Agent.make("desk", { instructions: Effect.sync(() => instructions), toolkit })
  const turns: Array<ScriptedModel.Turn> = [
    { text: "One." },
    { toolCalls: [call("c1", "echo", { text: "x" }), call("c2", "delete", { path: "/a" })] },
    { text: "Done." },
    {},
    { text: "Three." },
    { text: "Four." }
  ]
  const layer = Session.layer([agent]).pipe(
    Layer.provide([VersionedStore.layerMemory, watched(() => turns.shift() ?? { text: "Well." }, asked)]),
    Layer.provide(Layer.provideMerge(handlers, Probe.layer))
  )
  const sessions = yield* sessionTests.sessionsOf(layer)
  const said = (text: string) => Effect.provideService(Session.turn("a", text), Session.Session, sessions)
  yield* said("one")
  yield* said("two")
  yield* sessionTests.until(sessions, "a", "waiting")
  const { requests } = yield* sessionTests.stateOf(sessions, "a")
  yield* sessions.decide("a", requests.filter(Run.isApprovable).map(Run.approve))
  yield* sessionTests.until(sessions, "a", "idle")
  yield* said("three")
  instructions = "Be kind."
  yield* said("four")
  yield* said("five")
  assert.lengthOf(asked, 7)
  // Where no later system message is taken, new instructions take the place of the first one
  const replaces = new Set(["google", "openai compatible"])
  compare(asked, (provider, request) => !(replaces.has(provider) && request === 5))
})
