/** The JSON that inputs are made from: golden files of every wire, and what real runs write. */
import { Effect, Option, Random, Schema } from "effect"
import { TestClock } from "effect/testing"
import { readdirSync, readFileSync } from "node:fs"
import { Agent, Conversation, Run, VersionedStore } from "effect-emissary"
import { AnthropicMessages, OpenAiMessages } from "effect-emissary/interop"
import { Picture, Plan, PlanRun, Reference, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import type { ScriptedModel } from "effect-emissary/testing"
import { call, inWorld, toolkit } from "../agent/fixtures.ts"
import { planOf } from "../plan/support.ts"

/** Records of a store, by their keys. */
export type Records = ReadonlyArray<readonly [key: string, value: Schema.Json]>

const folder = (path: string, pattern: RegExp): ReadonlyArray<Schema.Json> => {
  const url = new URL(`../${path}/`, import.meta.url)
  return readdirSync(url)
    .filter((name) => pattern.test(name))
    .map((name) => JSON.parse(readFileSync(new URL(name, url), "utf8")))
}

const dump = Effect.gen(function* () {
  const store = yield* VersionedStore.VersionedStore
  const { keys } = yield* store.list({ limit: 1000 })
  return yield* Effect.forEach(keys, (key) =>
    Effect.map(store.get(key), (found) => [key, Option.getOrThrow(found).value] as const)
  )
})

const researcher = Agent.make("researcher", { toolkit })

const lead = Agent.make("lead", {
  instructions: "Ask the researcher.",
  toolkit: [
    Agent.asTool(researcher, { name: "researcher", description: "Researches" }),
    ...Object.values(toolkit.tools)
  ],
  output: Schema.Struct({ answer: Schema.String, sources: Schema.Array(Schema.String) })
})

/** Runs of agents: with tools, waiting for an approval in a child, resumed, with structured output. */
const agentRuns = Effect.gen(function* () {
  const events: Array<Run.Event> = []
  const states: Array<Run.State> = []
  const onEvent = ({ event, state }: Agent.RecordedEvent) =>
    Effect.sync(() => {
      events.push(event)
      states.push(state)
    })
  const first = yield* lead.run("Go", { onEvent, context: { tenant: "acme" } })
  if (first.outcome !== "AwaitingApproval") return yield* Effect.die(`The run ended with ${first.outcome}`)
  const decisions = first.requests.filter(Run.isApprovable).map(Run.approve)
  const second = yield* lead.resume(first.state, { onEvent, decisions })
  return {
    events,
    states: [first.state, second.state, ...states.filter((_, index) => index % 4 === 0)],
    conversation: second.conversation
  }
})

const agentSeeds = Effect.gen(function* () {
  const script: ReadonlyArray<ScriptedModel.Turn> = [
    {
      text: "Let me see.",
      toolCalls: [call("c1", "echo", { text: "x" }), call("c2", "researcher", { input: "Look" })]
    },
    { toolCalls: [call("d1", "delete", { path: "/a" }), call("d2", "fail", { reason: "no" })] },
    { text: "Deleted." },
    { text: `{"answer":"42","sources":["a"]}` }
  ]
  const { conversation, events, states } = yield* agentRuns.pipe(inWorld(script))
  return {
    conversation,
    script: { turns: script },
    definitions: [
      yield* Agent.encode(Agent.make("tester", { model: "openai/gpt-5.2", toolkit, instructions: "Be brief." })),
      yield* Agent.encode(Agent.make("tester", { model: "openai/gpt-5.2", toolkit }), {
        version: 1,
        allowLoss: ["/tools/*/success", "/tools/*/failure", "/tools/*/approval", "/tools/*/annotations"]
      })
    ],
    states: yield* Effect.forEach(states, (state) => Run.stateCodec.encode(state)),
    event: yield* Effect.forEach(events, (event) => Run.eventCodec.encode(event)),
    events: yield* Run.eventsCodec.encode(events),
    conversations: [yield* Conversation.codec.encode(conversation)]
  }
})

/** The plan of the sessions: a step, a band, and one more. */
export const bound = planOf(
  [
    Step.make("a", { target: Step.target("a", ({ task }) => Effect.succeed(`${task} a`)), writes: "first" }),
    Step.make("b", { parallel: true, target: Step.target("b", () => Effect.succeed({ n: 1 })), writes: "second" }),
    Step.make("c", { parallel: true, target: Step.target("c", () => Effect.succeed([1, null])) }),
    Step.make("d", {
      task: Reference.fromParallelAll("b"),
      target: Step.target("d", ({ task }) => Effect.succeed(`${task} d`))
    })
  ],
  { name: "fuzzed", maxIterations: 10 }
)

const planSeeds = Effect.gen(function* () {
  const plan = yield* bound
  const events: Array<PlanRun.Event> = []
  const states: Array<PlanRun.State> = []
  yield* Plan.run(plan, "go", {
    context: { tenant: "acme" },
    journal: (written, state) =>
      Effect.sync(() => {
        events.push(...written)
        states.push(state)
      })
  })
  yield* Effect.provide(Session.run(plan, { id: "k", input: "go" }), Session.layer([plan]))
  return {
    wire: yield* Plan.encode(plan),
    records: yield* dump,
    states: yield* Effect.forEach(states, (state) => PlanRun.stateCodec.encode(state)),
    event: yield* Effect.forEach(events, (event) => PlanRun.eventCodec.encode(event)),
    events: yield* PlanRun.eventsCodec.encode(events)
  }
}).pipe(Effect.provide(VersionedStore.layerMemory))

/** All seeds, by what they are; the same in every process, so that an input can be repeated. */
export const seeds = Effect.gen(function* () {
  const agents = yield* agentSeeds
  const plans = yield* planSeeds
  const planWires = folder("plan/golden-wire", /wire\.json$/)
  const before = yield* Plan.codec.decode(planWires[0])
  const after = { ...before, maxIterations: 7, steps: before.steps.map((step) => ({ ...step, writes: "w" })) }
  const conversations = [...agents.conversations, ...folder("golden/wire", /^conversation.*wire\.json$/)]
  const rendered = [agents.conversation, yield* Conversation.codec.decode(conversations.at(-1))]
  return {
    agents: [...folder("golden/wire", /^agent.*wire\.json$/), ...agents.definitions],
    plans: planWires,
    boundPlans: [plans.wire],
    conversations,
    runStates: [...agents.states, ...folder("agent/golden", /^run-state/)],
    runEvent: agents.event,
    runEvents: [agents.events, ...folder("agent/golden", /^run-events/)],
    planStates: [...plans.states, ...folder("plan/golden-run", /^plan-run-state/)],
    planEvent: plans.event,
    planEvents: [plans.events, ...folder("plan/golden-run", /^plan-run-events/)],
    before,
    diffs: [yield* Schema.encodeEffect(Picture.Diff)(Picture.diff(before, after))],
    openai: rendered.flatMap((conversation) =>
      Option.toArray(Option.getSuccess(OpenAiMessages.fromConversation(conversation)))
    ),
    anthropic: rendered.flatMap((conversation) =>
      Option.toArray(Option.getSuccess(AnthropicMessages.fromConversation(conversation)))
    ),
    scripts: [agents.script],
    records: plans.records
  }
}).pipe(Effect.provide(TestClock.layer()), Random.withSeed("seeds"))
