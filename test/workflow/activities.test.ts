import { assert, describe, it } from "@effect/vitest"
import { Cause, DateTime, Deferred, Duration, Effect, Exit, Layer, Queue, Random, Ref, Schema } from "effect"
import { TestClock } from "effect/testing"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { Workflow, WorkflowEngine } from "effect/workflow"
import {
  Agent,
  AgentEvent,
  ContextWindow,
  Conversation,
  Guard,
  Message,
  Run,
  ToolRuntime,
  ToolSettings
} from "effect-emissary"
import { Activities } from "effect-emissary/workflow"
import { Plan, Step, When } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { engines } from "../session/engines.ts"

const Body = Workflow.make("Body", {
  payload: { id: Schema.String },
  success: Schema.Json,
  idempotencyKey: ({ id }) => id
})

type Decide = (pending: Activities.Pending) => Omit<Activities.Pending["request"], "name" | "arguments"> & {
  readonly approved: boolean
  readonly reason?: string
}

const approve: Decide = ({ request }) => ({ ...request, approved: true })

/** Runs a body in a workflow, with a person who decides; `bodies` counts how often it began. */
const inWorkflow = <R>(
  body: Effect.Effect<Schema.Json, unknown, R | WorkflowEngine.WorkflowEngine | WorkflowEngine.WorkflowInstance>,
  options: { readonly decide?: Decide; readonly maxBytes?: number } = {}
) =>
  Effect.gen(function* () {
    const asked = yield* Queue.unbounded<Activities.Pending>()
    const seen: Array<Activities.Pending> = []
    let bodies = 0
    const counted = Effect.suspend(() => {
      bodies += 1
      return body
    })
    const durable = Activities.layer({
      onApproval: (pending) => Queue.offer(asked, pending),
      maxBytes: options.maxBytes
    })
    const registered = Body.toLayer(() => counted.pipe(Effect.provide(durable), Effect.orDie))
    const decide = Effect.gen(function* () {
      const pending = yield* Queue.take(asked)
      seen.push(pending)
      yield* Activities.decide(pending.token, (options.decide ?? approve)(pending))
    })
    const value = yield* Effect.raceFirst(Body.execute({ id: "1" }), Effect.forever(decide)).pipe(
      Effect.provide(registered)
    )
    return { value, bodies, seen }
  })

const parameters = Schema.Struct({ text: Schema.String })

const Look = Tool.make("look", { parameters, success: Schema.String }).annotate(Tool.Idempotent, true)
const Pay = Tool.make("pay", { parameters, success: Schema.String, needsApproval: true })
const Note = Tool.make("note", { parameters, success: Schema.String })
const Tools = Toolkit.make(Look, Pay, Note)

const Signing = Toolkit.make(Tool.make("sign", { success: Schema.String, needsApproval: true }))

/** The tools that ran, in order. */
const makeLog = Effect.map(Ref.make<ReadonlyArray<string>>([]), (ref) => ({
  add: (what: string) => Ref.update(ref, (all) => [...all, what]),
  read: Ref.get(ref)
}))

type Log = Effect.Success<typeof makeLog>

const handlersOf = (log: Log) =>
  Tools.toLayer({
    // Slower than the others when it is called, and not when its result is found
    look: ({ text }) =>
      log.add(`look ${text}`).pipe(Effect.andThen(Effect.sleep("20 millis")), Effect.as(`saw ${text}`)),
    pay: ({ text }) => Effect.as(log.add(`pay ${text}`), `paid ${text}`),
    note: ({ text }) => Effect.as(log.add(`note ${text}`), `noted ${text}`)
  })

const call = (id: string, name: string, text: string) => ({ id, name, params: { text } })

/** The ids of the messages, each with the call that it answers. */
const idsOf = (conversation: Conversation.Conversation) =>
  Conversation.messages(conversation).map((message) =>
    message.role === "tool" ? `${message.callId} ${message.id}` : message.id
  )

const toolModel: ScriptedModel.Script = [
  { toolCalls: [call("a", "look", "1"), call("b", "note", "2"), call("c", "pay", "3")], text: "I look." },
  { toolCalls: [call("d", "pay", "4")] },
  { text: "Done." }
]

const clerk = Agent.make("clerk", { instructions: "Be brief.", toolkit: Tools })

for (const [name, engine] of engines) {
  describe(`DUR-6 Durable on the engine: ${name}`, () => {
    it.live("MONEY-4 guards decide once, whatever they decide, and a person decides about what is held", () =>
      Effect.gen(function* () {
        const log = yield* makeLog
        const checks: Array<string> = []
        const noted = <V>(name: string, verdict: V) => Effect.sync(() => (checks.push(name), verdict))
        const guards = [
          Guard.make("mask", {
            on: "input",
            check: ({ text }) => noted("mask", Guard.replace(text.replace("mr ", "")))
          }),
          Guard.make("half", {
            on: "beforeTool",
            check: (seen) => noted("half", seen.tool === "pay" ? Guard.replace({ text: "5" }) : Guard.pass)
          }),
          Guard.make("result", {
            on: "afterTool",
            check: ({ tool }) => noted("result", tool === "note" ? Guard.ask("A note?") : Guard.pass)
          }),
          Guard.make("words", { on: "output", check: () => noted("words", Guard.ask("May it pass?")) })
        ]
        const { bodies, seen, value } = yield* inWorkflow(
          Effect.gen(function* () {
            const { conversation, text } = yield* clerk.run("mr Go", { guards })
            yield* ScriptedModel.assertComplete
            return [
              text,
              ...Conversation.messages(conversation)
                .slice(1, 2)
                .map((message) => Message.text(message))
            ]
          })
        ).pipe(
          Effect.provide([
            handlersOf(log),
            ScriptedModel.layer([{ toolCalls: [call("b", "note", "2"), call("c", "pay", "3")] }, { text: "Done." }]),
            engine
          ])
        )
        assert.deepStrictEqual(value, ["Done.", "Go"])
        assert.isAtLeast(bodies, 2)
        assert.deepStrictEqual([...(yield* log.read)].sort(), ["note 2", "pay 5"])
        assert.deepStrictEqual(seen.map(({ request }) => request._tag).sort(), ["Approval", "Pause", "Pause"])
        assert.deepStrictEqual(checks.toSorted(), ["half", "half", "mask", "result", "result", "words"])
      })
    )

    it.live("MONEY-4 L14 the agent of a guard is asked once, and counts in the usage of each pass", () =>
      Effect.gen(function* () {
        const usage = { inputTokens: 10, outputTokens: 1 }
        const judge = Agent.make("judge")
        const guards = [
          Guard.make("judge", {
            on: "output",
            check: () => Effect.as(Effect.provide(judge.ask("Hm?"), judged), Guard.ask("May it pass?"))
          })
        ]
        const judged = ScriptedModel.layer([{ text: "Yes.", usage }])
        const { bodies, value } = yield* inWorkflow(
          Effect.map(clerk.run("Go", { guards, budget: { modelCalls: 9 } }), ({ state, usage }) => [
            { ...usage },
            state.account?.used.modelCalls ?? 0
          ])
        ).pipe(Effect.provide([handlersOf(yield* makeLog), ScriptedModel.layer([{ text: "Done.", usage }]), engine]))
        assert.isAtLeast(bodies, 2)
        assert.deepStrictEqual(value, [{ inputTokens: 20, outputTokens: 2 }, 2])
      })
    )

    it.live("DUR-6 L5 calls are made once, ids are the same each time, and the transcript is the plain one", () =>
      Effect.gen(function* () {
        const log = yield* makeLog
        const runtime = ToolRuntime.layerConcurrent()
        const plain = yield* Effect.gen(function* () {
          let result = yield* clerk.run("Go")
          while (result.outcome === "AwaitingApproval") {
            const decisions = result.requests.filter(Run.isApprovable).map(Run.approve)
            result = yield* clerk.resume(result.state, { decisions })
          }
          return Conversation.transcript(result.conversation)
        }).pipe(Effect.provide([handlersOf(yield* makeLog), ScriptedModel.layer(toolModel), runtime]))

        const ids: Array<ReadonlyArray<string>> = []
        let transcript: unknown
        const { bodies, seen, value } = yield* inWorkflow(
          Effect.gen(function* () {
            const result = yield* clerk.run("Go", {
              onEvent: ({ event, state }) =>
                Effect.sync(() => {
                  if (event._tag !== "RunFinished") return
                  ids.push([state.runId, ...idsOf(state.conversation)])
                })
            })
            transcript = Conversation.transcript(result.conversation)
            yield* ScriptedModel.assertComplete
            return result.text
          })
        ).pipe(Effect.provide([handlersOf(log), ScriptedModel.layer(toolModel), runtime, engine]))
        assert.strictEqual(value, "Done.")
        assert.isAtLeast(bodies, 2)
        assert.deepStrictEqual(transcript, plain)
        assert.deepStrictEqual([...(yield* log.read)].sort(), ["look 1", "note 2", "pay 3", "pay 4"])
        assert.deepStrictEqual(
          seen.map(({ request }) => request.callId),
          ["c", "d"]
        )
        const last = ids.at(-1) ?? []
        assert.strictEqual(new Set(last).size, last.length)
        for (const id of ids.flat()) assert.include(last, id)
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 MONEY-7 L5 a conversation is passed on as without a workflow, once", () =>
      Effect.gen(function* () {
        const cashier = Agent.make("cashier", { instructions: "Pay.", toolkit: Tools })
        const door = Agent.make("door", { instructions: "Open.", toolkit: [Agent.handoff(cashier)] })
        const script: ReadonlyArray<ScriptedModel.Turn> = [
          { toolCalls: [{ id: "h", name: "transfer_to_cashier", params: {} }] },
          { toolCalls: [call("p", "pay", "1")], expect: { systemText: "Pay." } },
          { text: "Paid." }
        ]
        const asked = yield* door
          .run("Go")
          .pipe(Effect.provide([handlersOf(yield* makeLog), ScriptedModel.layer(script.slice(0, 2))]))
        assert(asked.outcome === "AwaitingApproval")
        const decisions = Run.approveAll(asked.requests)
        const plain = yield* door
          .resume(asked.state, { decisions })
          .pipe(Effect.provide([handlersOf(yield* makeLog), ScriptedModel.layer(script.slice(2))]))
        const log = yield* makeLog
        let transcript: unknown
        const { bodies, value } = yield* inWorkflow(
          Effect.gen(function* () {
            const { activeAgent, conversation } = yield* door.run("Go")
            transcript = Conversation.transcript(conversation)
            yield* ScriptedModel.assertComplete
            return activeAgent
          })
        ).pipe(Effect.provide([handlersOf(log), ScriptedModel.layer(script), engine]))
        assert.strictEqual(value, "cashier")
        assert.isAtLeast(bodies, 2)
        assert.deepStrictEqual(transcript, Conversation.transcript(plain.conversation))
        assert.deepStrictEqual(yield* log.read, ["pay 1"])
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 an agent inside an agent, several at once: each call is made once", () =>
      Effect.gen(function* () {
        const log = yield* makeLog
        const inner = Agent.make("inner", { instructions: "Inner.", toolkit: Tools })
        const outer = Agent.make("outer", {
          instructions: "Outer.",
          toolkit: [Agent.asTool(inner, { name: "delegate", description: "Asks another agent" })]
        })
        const asked = yield* Ref.make<ReadonlyArray<string>>([])
        const model: ScriptedModel.TurnFunction = ({ messages }) =>
          Effect.gen(function* () {
            const isInner = messages[0]?.text === "Inner."
            const about = messages[1]?.text ?? ""
            yield* Ref.update(asked, (all) => [...all, `${isInner ? "inner" : "outer"} ${about} ${messages.length}`])
            const isFirst = messages.length === 2
            if (!isInner) {
              const delegate = (input: string) => ({ id: input, name: "delegate", params: { input } })
              return isFirst ? { toolCalls: [delegate("x"), delegate("y")] } : { text: "Both are done." }
            }
            // One of the two is slower, in the first run of the body only
            yield* Effect.sleep(about === "x" ? "30 millis" : "1 millis")
            // The same call id in both
            return isFirst ? { toolCalls: [call("p", "pay", about), call("q", "note", about)] } : { text: "So." }
          })
        const runIds = new Map<string, Set<string>>()
        const { seen, value } = yield* inWorkflow(
          Effect.gen(function* () {
            const result = yield* outer.run("Go", {
              onEvent: ({ event }) =>
                Effect.sync(() => {
                  if (event._tag !== "ChildEvent" || event.event._tag !== "RunStarted") return
                  const known = runIds.get(event.callId) ?? new Set()
                  runIds.set(event.callId, known.add(event.event.runId))
                })
            })
            return result.text
          })
        ).pipe(Effect.provide([handlersOf(log), ScriptedModel.layer(model), ToolRuntime.layerConcurrent(), engine]))
        assert.strictEqual(value, "Both are done.")
        const once = ["note x", "note y", "pay x", "pay y"]
        assert.deepStrictEqual([...(yield* log.read)].sort(), once)
        assert.deepStrictEqual([...(yield* Ref.get(asked))].sort(), [
          "inner x 2",
          "inner x 4",
          "inner y 2",
          "inner y 4",
          "outer Go 2",
          "outer Go 4"
        ])
        assert.lengthOf(seen, 2)
        assert.deepStrictEqual(
          [...runIds.values()].map((ids) => ids.size),
          [1, 1]
        )
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 a decision that comes while the run is asking loses no call", () =>
      Effect.gen(function* () {
        const log = yield* makeLog
        const onApproval = ({ request, token }: Activities.Pending) =>
          Effect.orDie(Activities.decide(token, { ...request, approved: true }))
        const registered = Body.toLayer(() =>
          Effect.map(clerk.run("Go"), ({ text }) => text).pipe(
            Effect.provide(Activities.layer({ onApproval })),
            Effect.orDie
          )
        )
        const slow = Tools.toLayer({
          look: () => Effect.succeed(""),
          note: () => Effect.succeed(""),
          pay: ({ text }) => Effect.as(Effect.andThen(Effect.sleep("50 millis"), log.add(`pay ${text}`)), "paid")
        })
        const value = yield* Body.execute({ id: "1" }).pipe(
          Effect.provide(registered),
          Effect.provide([slow, ScriptedModel.layer(toolModel), engine])
        )
        assert.strictEqual(value, "Done.")
        assert.deepStrictEqual(yield* log.read, ["pay 3", "pay 4"])
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 a runtime inside the layer, and runs of code in a tool: each call is still made once", () =>
      Effect.gen(function* () {
        const log = yield* makeLog
        const seen: Array<string> = []
        const nested = Tools.toLayer(
          Effect.map(LanguageModel.LanguageModel, (model) => ({
            look: ({ text }: typeof parameters.Type) =>
              // An agent in the code of a tool is a part of the tool's activity, which waits for no approval
              Agent.make("helper", { toolkit: Signing })
                .run(text)
                .pipe(
                  Effect.provideService(LanguageModel.LanguageModel, model),
                  Effect.provide(Signing.toLayer({ sign: () => Effect.succeed("signed") })),
                  Effect.orDie,
                  Effect.tap(({ outcome }) => log.add(`look ${text} ${outcome}`)),
                  Effect.as("saw")
                ),
            note: ({ text }: typeof parameters.Type) => Effect.as(log.add(`note ${text}`), "noted"),
            pay: ({ text }: typeof parameters.Type) => Effect.as(log.add(`pay ${text}`), "paid")
          }))
        )
        const inside = ToolRuntime.around((call, next) =>
          Effect.andThen(
            Effect.sync(() => void seen.push(call.id)),
            next
          )
        )
        const model: ScriptedModel.TurnFunction = ({ messages, tools }) => {
          if (tools.length === 1) return Effect.as(log.add("helper"), { toolCalls: [{ name: "sign" }] })
          const answers = messages.filter(({ role }) => role === "assistant").length
          return (
            [
              { toolCalls: [call("a", "look", "1"), call("b", "note", "2")] },
              { toolCalls: [call("c", "pay", "3")] },
              { text: "Done." }
            ][answers] ?? { text: "the end" }
          )
        }
        const { bodies, value } = yield* inWorkflow(
          Effect.map(clerk.run("Go"), ({ text }) => text).pipe(
            Effect.provide(inside),
            Effect.provide(ToolRuntime.layerConcurrent())
          )
        ).pipe(Effect.provide(Layer.provideMerge(nested, ScriptedModel.layer(model))), Effect.provide(engine))
        assert.strictEqual(value, "Done.")
        assert.isAtLeast(bodies, 2)
        assert.deepStrictEqual([...(yield* log.read)].sort(), ["helper", "look 1 AwaitingApproval", "note 2", "pay 3"])
        assert.deepStrictEqual([...seen].sort(), ["a", "b", "c"])
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 two runs at once in one body", () =>
      Effect.gen(function* () {
        const log = yield* makeLog
        const model: ScriptedModel.TurnFunction = ({ messages }) =>
          Effect.gen(function* () {
            const about = messages[1]?.text ?? ""
            yield* log.add(`model ${about} ${messages.length}`)
            yield* Effect.sleep(about === "x" ? "20 millis" : "1 millis")
            return messages.length === 2 ? { toolCalls: [call("n", "note", about)] } : { text: `Noted ${about}.` }
          })
        const { value } = yield* inWorkflow(
          Effect.gen(function* () {
            const both = yield* Effect.all([clerk.run("x"), clerk.run("y")], { concurrency: "unbounded" })
            const asked = yield* Agent.make("last", { instructions: "Last.", toolkit: Tools }).run("z")
            return [...both, asked].map(({ text }) => text)
          })
        ).pipe(Effect.provide([handlersOf(log), ScriptedModel.layer(model), engine]))
        assert.deepStrictEqual(value, ["Noted x.", "Noted y.", "Noted z."])
        const once = ["x", "y", "z"].flatMap((about) => [`model ${about} 2`, `model ${about} 4`, `note ${about}`])
        assert.deepStrictEqual([...(yield* log.read)].sort(), once.sort())
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 a timeout ends the run and not the body; an interrupted workflow stops its tools", () =>
      Effect.gen(function* () {
        const stopped = yield* Deferred.make<void>()
        const started = yield* Deferred.make<void>()
        const hangs = Tools.toLayer({
          look: () => Effect.never,
          note: () =>
            Effect.andThen(Deferred.succeed(started, undefined), Effect.never).pipe(
              Effect.onInterrupt(() => Deferred.succeed(stopped, undefined))
            ),
          pay: () => Effect.never
        })
        const ofTool = (tool: string) => ScriptedModel.layer(() => ({ toolCalls: [call("a", tool, "1")] }))
        const { value } = yield* inWorkflow(
          Effect.map(clerk.run("Go", { timeouts: { total: "100 millis" } }), ({ outcome }) => outcome)
        ).pipe(Effect.provide([hangs, ofTool("look"), engine]))
        assert.strictEqual(value, "Interrupted")

        const registered = Body.toLayer(() =>
          Effect.map(clerk.run("Go"), ({ outcome }) => outcome).pipe(Effect.provide(Activities.layer()), Effect.orDie)
        )
        yield* Effect.gen(function* () {
          const id = yield* Body.execute({ id: "2" }, { discard: true })
          yield* Deferred.await(started)
          const instance = yield* WorkflowEngine.WorkflowEngine
          yield* instance.interruptUnsafe(Body, id)
          yield* Deferred.await(stopped)
        }).pipe(Effect.provide(registered), Effect.provide([hangs, ofTool("note"), engine]))
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 a typed error of the model survives its activity, and the retries read it", () =>
      Effect.gen(function* () {
        const script: ScriptedModel.Script = [
          { fail: { reason: "RateLimitError", retryAfter: 5 } },
          { fail: { reason: "InternalProviderError", description: "overloaded" } },
          { text: "Now." }
        ]
        const attempts: Array<string> = []
        const { value } = yield* inWorkflow(
          Effect.gen(function* () {
            const onEvent = ({ event }: Agent.RecordedEvent) =>
              Effect.sync(() => void (event._tag === "StepRetried" && attempts.push(event.error)))
            const result = yield* clerk.run("Go", { retry: { times: 5, delay: 0 }, onEvent })
            return result.text
          })
        ).pipe(Effect.provide([handlersOf(yield* makeLog), ScriptedModel.layer(script), engine]))
        assert.strictEqual(value, "Now.")
        assert.deepStrictEqual(attempts, ["RateLimitError", "InternalProviderError"])
        const refused = yield* inWorkflow(
          Effect.flip(Effect.mapError(clerk.run("Go"), (error) => error)).pipe(
            Effect.map((error) => ({ ...error.reason }) as Schema.Json)
          )
        ).pipe(
          Effect.provide([
            handlersOf(yield* makeLog),
            ScriptedModel.layer([{ fail: { reason: "AuthenticationError", kind: "InvalidKey" } }]),
            engine
          ])
        )
        assert.deepInclude(refused.value, { _tag: "ModelFailed", error: "AuthenticationError", retryable: false })
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 what is larger than maxBytes is refused before it is written", () =>
      Effect.gen(function* () {
        const log = yield* makeLog
        const large = "x".repeat(5000)
        const script: ScriptedModel.Script = [
          { toolCalls: [call("a", "note", large)] },
          { text: "Too much.", expect: { toolResult: "maxBytes" } }
        ]
        const { value } = yield* inWorkflow(
          Effect.map(clerk.run("Go"), ({ text }) => text),
          { maxBytes: 6000 }
        ).pipe(Effect.provide([handlersOf(log), ScriptedModel.layer(script), engine]))
        assert.strictEqual(value, "Too much.")
        const answer = yield* inWorkflow(
          Effect.map(Effect.flip(clerk.run("Go")), ({ message }) => message),
          { maxBytes: 1000 }
        ).pipe(Effect.provide([handlersOf(log), ScriptedModel.layer([{ text: large }]), engine]))
        assert.match(String(answer.value), /UnknownError: .*1000.*maxBytes/)
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 function steps, predicates and agents of a plan run once; a pause waits for a decision", () =>
      Effect.gen(function* () {
        const log = yield* makeLog
        const plan = yield* Plan.make(
          "plan",
          [
            Step.make("draw", { target: () => Effect.tap(Random.nextIntBetween(1, 1000), () => log.add("draw")) }),
            Step.make("double", {
              target: ({ payload }) => Effect.as(log.add("double"), Number(payload) * 2),
              routes: [["ask", When.custom("even")]]
            }),
            Step.make("never", { target: () => Effect.as(log.add("never"), "no") }),
            Step.make("ask", {
              target: ({ decision, payload }) =>
                Effect.andThen(
                  log.add("ask"),
                  decision === undefined ? Step.pause("go on?") : Effect.succeed(`${payload} ${decision.reason}`)
                )
            }),
            Step.make("tell", { target: clerk })
          ],
          {
            predicates: {
              even: ({ payload }) => Effect.as(log.add("even?"), typeof payload === "number" && payload % 2 === 0)
            }
          }
        )
        const bound = yield* Plan.bind(plan)
        const payloads = new Set<string>()
        const { bodies, value } = yield* inWorkflow(
          Effect.gen(function* () {
            const result = yield* Plan.run(bound, "Go")
            const drawn = [...result.state.history].map(({ output }) => JSON.stringify(output))
            payloads.add(drawn[0] ?? "")
            return result.outcome === "Completed" ? result.text : result.outcome
          }),
          { decide: (pending) => ({ ...approve(pending), reason: "yes" }) }
        ).pipe(Effect.provide([handlersOf(log), ScriptedModel.layer([{ text: "Told." }]), engine]))
        assert.strictEqual(value, "Told.")
        assert.isAtLeast(bodies, 2)
        assert.deepStrictEqual(yield* log.read, ["draw", "double", "even?", "ask", "ask"])
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 two agents at once in a plan, each with an approval", () =>
      Effect.gen(function* () {
        const log = yield* makeLog
        const plan = yield* Plan.make("plan", [
          Step.make("left", { target: clerk, parallel: true }),
          Step.make("right", { target: clerk, parallel: true })
        ])
        const bound = yield* Plan.bind(plan)
        const model: ScriptedModel.TurnFunction = ({ messages }) =>
          messages.at(-1)?.role === "user"
            ? { toolCalls: [call("p", "pay", "it"), call("q", "note", "it")] }
            : { text: "Paid." }
        const { seen, value } = yield* inWorkflow(Effect.map(Plan.run(bound, "Go"), ({ outcome }) => outcome)).pipe(
          Effect.provide([handlersOf(log), ScriptedModel.layer(model), engine])
        )
        assert.strictEqual(value, "Completed")
        assert.lengthOf(seen, 2)
        assert.deepStrictEqual([...(yield* log.read)].sort(), ["note it", "note it", "pay it", "pay it"])
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 a stream in a workflow: found answers come as their whole text", () =>
      Effect.gen(function* () {
        const log = yield* makeLog
        const texts: Array<string> = []
        const { value } = yield* inWorkflow(
          Effect.gen(function* () {
            let text = ""
            const result = yield* AgentEvent.result(clerk.stream("Go").pipe((events) => events))
            text += result.text
            texts.push(text)
            return text
          })
        ).pipe(Effect.provide([handlersOf(log), ScriptedModel.layer(toolModel), engine]))
        assert.strictEqual(value, "Done.")
        assert.lengthOf(yield* log.read, 4)
      }).pipe(Effect.scoped)
    )

    it.live("MEND-8 DUR-6 a stream that its time limit cuts off keeps what the model had written", () =>
      Effect.gen(function* () {
        const said = "one two three four five six seven eight nine ten eleven twelve"
        const { value } = yield* inWorkflow(
          Effect.map(
            AgentEvent.result(clerk.stream("Count", { timeouts: { total: "500 millis" } })),
            ({ conversation, outcome, text }) => {
              const last = Conversation.messages(conversation).at(-1)
              return [outcome, last?.role === "assistant" ? (last.finishReason ?? "") : "", text]
            }
          )
        ).pipe(
          Effect.provide([
            handlersOf(yield* makeLog),
            ScriptedModel.layer([{ text: said, chunkDelay: "200 millis" }]),
            engine
          ])
        )
        assert(Array.isArray(value))
        const [outcome, finishReason, text] = value.map(String)
        assert.deepStrictEqual([outcome, finishReason], ["Interrupted", "interrupted"])
        assert.isTrue(text !== undefined && said.startsWith(text) && text !== "" && text !== said, text)
      }).pipe(Effect.scoped)
    )

    it.live("DUR-6 a summary of old turns is paid once", () =>
      Effect.gen(function* () {
        let summaries = 0
        const brief = Agent.make("brief", {
          toolkit: Tools,
          contextWindow: ContextWindow.summarize({
            above: 600,
            summarize: () =>
              Effect.map(LanguageModel.generateText({ prompt: "Summarize." }), ({ text }) => {
                summaries += 1
                return text
              })
          })
        })
        const { bodies, value } = yield* inWorkflow(
          Effect.gen(function* () {
            const first = yield* brief.run("Tell me a story.")
            const second = yield* brief.run("And now?", { conversation: first.conversation })
            return second.text
          })
        ).pipe(
          Effect.provide([
            handlersOf(yield* makeLog),
            ScriptedModel.layer([
              { text: "story ".repeat(2000) },
              { text: "A dragon." },
              { toolCalls: [call("a", "pay", "1")] },
              { text: "Good." }
            ]),
            engine
          ])
        )
        assert.strictEqual(value, "Good.")
        assert.isAtLeast(bodies, 2)
        assert.strictEqual(summaries, 1)
      }).pipe(Effect.scoped)
    )
  })
}

describe("DUR-6 decisions", () => {
  const ask = (
    script: ScriptedModel.Script,
    decide: (pending: Activities.Pending) => Effect.Effect<void, never, WorkflowEngine.WorkflowEngine>
  ) =>
    Effect.gen(function* () {
      const log = yield* makeLog
      const asked = yield* Queue.unbounded<Activities.Pending>()
      const body = Effect.map(clerk.run("Go"), ({ text }) => text)
      const registered = Body.toLayer(() =>
        body.pipe(
          Effect.provide(Activities.layer({ onApproval: (pending) => Queue.offer(asked, pending) })),
          Effect.orDie
        )
      )
      const decisions = Effect.forever(Effect.flatMap(Queue.take(asked), decide))
      const value = yield* Effect.raceFirst(Body.execute({ id: "1" }), decisions).pipe(
        Effect.provide(Layer.provideMerge(registered, Layer.mergeAll(handlersOf(log), ScriptedModel.layer(script)))),
        Effect.provide(WorkflowEngine.layerMemory)
      )
      return { value, ran: yield* log.read }
    })

  it.effect("DUR-6 one that is not about the request of the token is refused, and does not count", () =>
    Effect.gen(function* () {
      const refused: Array<string> = []
      const { ran, value } = yield* ask(
        [{ toolCalls: [call("a", "pay", "1")] }, { text: "Denied.", expect: { toolResult: "not today" } }],
        ({ request, token }) =>
          Effect.gen(function* () {
            const attempt = (token: string, decision: Parameters<typeof Activities.decide>[1]) =>
              Effect.map(Effect.flip(Activities.decide(token, decision)), ({ message }) => void refused.push(message))
            yield* attempt(token, { ...request, digest: "sha256:0", approved: true })
            yield* attempt("no token", { ...request, approved: true })
            yield* attempt(token.slice(0, -4), { ...request, approved: true })
            yield* attempt(token, { ...request, approved: true, reason: "x".repeat(100_000) })
            yield* Activities.decide(token, { ...request, approved: false, reason: "not today" })
            // The first one counts
            yield* Activities.decide(token, { ...request, approved: true })
          }).pipe(Effect.orDie)
      )
      assert.strictEqual(value, "Denied.")
      assert.deepStrictEqual(ran, [])
      assert.lengthOf(refused, 4)
      assert.match(refused[0] ?? "", /digest of another/)
      assert.match(refused[1] ?? "", /expected the token/)
    })
  )
})

describe("DUR-6 options", () => {
  it.effect("DUR-6 a maxBytes that is no size is refused", () =>
    Effect.gen(function* () {
      for (const maxBytes of [0, -1, Number.NaN]) {
        const registered = Body.toLayer(() => Effect.provide(Effect.succeed(null), Activities.layer({ maxBytes })))
        const exit = yield* Effect.exit(Body.execute({ id: "1" })).pipe(
          Effect.provide(registered),
          Effect.provide(WorkflowEngine.layerMemory)
        )
        assert.isTrue(Exit.isFailure(exit) && Cause.pretty(exit.cause).includes("a number from 256 on as maxBytes"))
      }
    })
  )
})

describe("DUR-6 time", () => {
  it.effect(
    "DUR-6 an agent inside an agent waits for hours before it asks its model again, and no process has to run",
    () =>
      Effect.gen(function* () {
        const log = yield* makeLog
        const inner = Agent.make("inner", { instructions: "Inner.", toolkit: Tools })
        const outer = Agent.make("outer", {
          instructions: "Outer.",
          toolkit: [Agent.asTool(inner, { name: "delegate", description: "Asks another agent" }), Note]
        })
        let isOver = false
        const model: ScriptedModel.TurnFunction = ({ messages }) => {
          const isFirst = messages.length === 2
          if (messages[0]?.text === "Inner.") {
            if (isOver) return { text: "It is over." }
            isOver = true
            return { fail: { reason: "RateLimitError", retryAfter: 1800 } }
          }
          return isFirst
            ? { toolCalls: [{ name: "delegate", params: { input: "Go" } }, call("n", "note", "1")] }
            : { text: messages.map(({ text }) => text).join() }
        }
        const registered = Body.toLayer(() =>
          Effect.map(
            outer.run("Go", { retry: { times: 5, delay: "30 minutes", maxDelay: "1 hour" } }),
            ({ text }) => text
          ).pipe(Effect.provide(Activities.layer()), Effect.orDie)
        )
        const value = yield* Effect.gen(function* () {
          const id = yield* Body.execute({ id: "1" }, { discard: true })
          yield* TestClock.adjust("29 minutes")
          const waiting = yield* Body.poll(id)
          assert.isTrue(waiting._tag === "Some" && waiting.value._tag === "Suspended")
          yield* TestClock.adjust("1 minute")
          return yield* Body.execute({ id: "1" })
        }).pipe(
          Effect.provide(registered),
          Effect.provide([handlersOf(log), ScriptedModel.layer(model), WorkflowEngine.layerMemory])
        )
        assert.match(String(value), /It is over/)
        assert.deepStrictEqual(yield* log.read, ["note 1"])
      })
  )

  it.effect("DUR-6 a decision that held when its call was made holds when the body runs again", () =>
    Effect.gen(function* () {
      const log = yield* makeLog
      const asked = yield* Queue.unbounded<Activities.Pending>()
      const registered = Body.toLayer(() =>
        Effect.map(clerk.run("Go"), ({ text }) => text).pipe(
          Effect.provide(Activities.layer({ onApproval: (pending) => Queue.offer(asked, pending) })),
          Effect.orDie
        )
      )
      const script: ScriptedModel.Script = [
        { toolCalls: [call("a", "pay", "1")] },
        { toolCalls: [call("b", "pay", "2")] },
        { text: "Done." }
      ]
      const value = yield* Effect.gen(function* () {
        yield* Body.execute({ id: "1" }, { discard: true })
        const decideWithin = Effect.fn(function* (hours: number) {
          const { request, token } = yield* Queue.take(asked)
          const expiresAt = DateTime.add(yield* DateTime.now, { hours })
          yield* Activities.decide(token, { ...request, approved: true, expiresAt })
        })
        yield* decideWithin(1)
        // By now the first decision has expired
        const second = yield* Queue.take(asked)
        yield* TestClock.adjust("2 hours")
        const late = { ...second.request, approved: true, expiresAt: yield* DateTime.now }
        assert.match((yield* Effect.flip(Activities.decide(second.token, late))).message, /expired/)
        yield* Activities.decide(second.token, { ...second.request, approved: true })
        return yield* Body.execute({ id: "1" })
      }).pipe(
        Effect.provide(registered),
        Effect.provide([handlersOf(log), ScriptedModel.layer(script), WorkflowEngine.layerMemory])
      )
      assert.strictEqual(value, "Done.")
      assert.deepStrictEqual(yield* log.read, ["pay 1", "pay 2"])
      assert.strictEqual(yield* Queue.size(asked), 0)
    })
  )

  it.effect("PEOPLE-3 a decision about a request that has expired settles it as expired", () =>
    Effect.gen(function* () {
      const log = yield* makeLog
      const asked = yield* Queue.unbounded<Activities.Pending>()
      const bounded = Toolkit.make(Pay.annotate(ToolSettings.Request, { expiresAfter: "1 hour" }))
      const registered = Body.toLayer(() =>
        Effect.map(Agent.make("clerk", { toolkit: bounded }).run("Go"), ({ text }) => text).pipe(
          Effect.provide(Activities.layer({ onApproval: (pending) => Queue.offer(asked, pending) })),
          Effect.orDie
        )
      )
      const value = yield* Effect.gen(function* () {
        yield* Body.execute({ id: "1" }, { discard: true })
        const { request, token } = yield* Queue.take(asked)
        yield* TestClock.adjust("2 hours")
        yield* Activities.decide(token, { ...request, approved: true })
        return yield* Body.execute({ id: "1" })
      }).pipe(
        Effect.provide(registered),
        Effect.provide([
          handlersOf(log),
          ScriptedModel.layer([
            { toolCalls: [call("a", "pay", "1")] },
            { text: "Too late.", expect: { toolResult: "There was no answer in time." } }
          ]),
          WorkflowEngine.layerMemory
        ])
      )
      assert.strictEqual(value, "Too late.")
      assert.deepStrictEqual(yield* log.read, [])
    })
  )

  it.effect("DUR-6 a step that waits before it is tried again waits on a DurableClock", () =>
    Effect.gen(function* () {
      let tries = 0
      let bodies = 0
      const plan = yield* Plan.make("plan", [
        Step.make("send", {
          target: () => Effect.suspend(() => (tries++ === 0 ? Effect.fail("offline") : Effect.succeed("sent"))),
          retry: { times: 3, delay: Duration.hours(2) }
        })
      ])
      const bound = yield* Plan.bind(plan)
      const body = Effect.suspend(() => {
        bodies += 1
        return Effect.map(Plan.run(bound, "Go"), (result) => (result.outcome === "Completed" ? result.text : null))
      })
      const registered = Body.toLayer(() => body.pipe(Effect.provide(Activities.layer()), Effect.orDie))
      const program = Effect.gen(function* () {
        const id = yield* Body.execute({ id: "1" }, { discard: true })
        yield* TestClock.adjust("1 hour")
        const waiting = yield* Body.poll(id)
        assert.isTrue(waiting._tag === "Some" && waiting.value._tag === "Suspended")
        assert.strictEqual(tries, 1)
        yield* TestClock.adjust("1 hour")
        return yield* Body.execute({ id: "1" })
      })
      const value = yield* program.pipe(Effect.provide(registered), Effect.provide(WorkflowEngine.layerMemory))
      assert.strictEqual(value, "sent")
      assert.deepStrictEqual([tries, bodies], [2, 2])
    })
  )
})
