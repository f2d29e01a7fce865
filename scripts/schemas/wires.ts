/** Every released version of the JSON of the package, with its Schema. */
import { Schema } from "effect"
import * as AgentDefinition from "#src/agent/AgentDefinition.ts"
import * as Run from "#src/agent/Run.ts"
import * as agentData from "#src/agent/internal/agentData.ts"
import * as agentV1 from "#src/agent/wire/agentV1.ts"
import * as Conversation from "#src/conversation/Conversation.ts"
import * as conversationCodec from "#src/conversation/internal/conversationCodec.ts"
import type * as VersionedCodec from "#src/payload/VersionedCodec.ts"
import * as Plan from "#src/plan/Plan.ts"
import * as PlanRun from "#src/plan/PlanRun.ts"
import * as planDraft from "#src/plan/internal/planDraft.ts"
import * as lazyBridge from "#src/plan/wire/lazyBridge.ts"
import * as runParts from "#src/run/internal/runParts.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"

export interface Wire {
  /** The name of the file, without its extension. */
  readonly name: string
  readonly title: string
  /** The codec that reads the version, without its type. An envelope of a signature has none. */
  readonly codec: Pick<VersionedCodec.VersionedCodec<unknown>, "what" | "versions" | "decode"> | undefined
  readonly version: number
  readonly schema: Schema.Constraint
  /** True for a version whose reader leaves out keys that it does not know. */
  readonly isOpen: boolean
}

const text = Schema.optionalKey(Schema.NullOr(Schema.String))

/**
 * Version 1 of agents, as Riffer writes it. Its reader takes the members by hand, so the Schema of the reader has their names
 * alone.
 */
const AgentV1 = Schema.Struct({
  ...agentV1.Wire.fields,
  identifier: text,
  model: Schema.String,
  instructions: text,
  model_options: Schema.optionalKey(Schema.NullOr(Schema.Record(Schema.String, Schema.Json))),
  max_steps: Schema.optionalKey(Schema.NullOr(Schema.Int)),
  structured_output: Schema.optionalKey(Schema.NullOr(Schema.Record(Schema.String, Schema.Json))),
  structured_output_strategy: Schema.optionalKey(Schema.NullOr(Schema.Literals(["native", "prompted"]))),
  reasoning: Schema.optionalKey(Schema.NullOr(agentData.ReasoningLevel)),
  tools: Schema.optionalKey(
    Schema.NullOr(
      Schema.Array(
        Schema.Struct({
          name: Schema.String,
          description: Schema.String,
          parameters_schema: Schema.Record(Schema.String, Schema.Json),
          timeout: Schema.optionalKey(Schema.NullOr(Schema.Finite))
        })
      )
    )
  )
})

/** The JSON of `VersionedCodec.single` for a value under a member. */
const under = (member: string, value: Schema.Constraint) =>
  Schema.Struct({ version: Schema.Literal(1), [member]: value })

const Envelope = Schema.Struct({ payload: Schema.Json, signature: Schema.String })

const events = (event: Schema.Codec<unknown, unknown>) => Schema.Array(event)

const closed = { isOpen: false }

export const wires: ReadonlyArray<Wire> = [
  {
    name: "agent-1",
    title: "Definition of an agent, version 1 (Riffer)",
    codec: AgentDefinition.codec,
    version: 1,
    schema: AgentV1,
    isOpen: true
  },
  {
    name: "agent-2",
    title: "Definition of an agent, version 2",
    codec: AgentDefinition.codec,
    version: 2,
    schema: agentData.Wire,
    ...closed
  },
  {
    name: "plan-1",
    title: "Definition of a plan, version 1 (LazyBridge)",
    codec: Plan.codec,
    version: 1,
    schema: lazyBridge.wireOf(1),
    isOpen: true
  },
  {
    name: "plan-2",
    title: "Definition of a plan, version 2 (LazyBridge)",
    codec: Plan.codec,
    version: 2,
    // a plan without a version is of version 2
    schema: Schema.Struct({ ...lazyBridge.wireOf(2).fields, version: Schema.optionalKey(Schema.Literal(2)) }),
    isOpen: true
  },
  {
    name: "plan-3",
    title: "Definition of a plan, version 3",
    codec: Plan.codec,
    version: 3,
    schema: planDraft.WirePlan,
    ...closed
  },
  {
    name: "conversation-1",
    title: "Conversation, version 1",
    codec: Conversation.codec,
    version: 1,
    schema: conversationCodec.Wire,
    ...closed
  },
  {
    name: "run-state-1",
    title: "State of a run of an agent, version 1",
    codec: Run.stateCodec,
    version: 1,
    schema: under("state", runTransition.StateSchema),
    ...closed
  },
  {
    name: "run-event-1",
    title: "Event of a run of an agent, version 1",
    codec: Run.eventCodec,
    version: 1,
    schema: under("event", runParts.Event),
    ...closed
  },
  {
    name: "run-events-1",
    title: "Events of a run of an agent, version 1",
    codec: Run.eventsCodec,
    version: 1,
    schema: under("events", events(runParts.Event)),
    ...closed
  },
  {
    name: "plan-run-state-1",
    title: "State of a run of a plan, version 1",
    codec: PlanRun.stateCodec,
    version: 1,
    schema: under("state", runTransition.PlanStateSchema),
    ...closed
  },
  {
    name: "plan-run-event-1",
    title: "Event of a run of a plan, version 1",
    codec: PlanRun.eventCodec,
    version: 1,
    schema: under("event", runParts.PlanRunEvent),
    ...closed
  },
  {
    name: "plan-run-events-1",
    title: "Events of a run of a plan, version 1",
    codec: PlanRun.eventsCodec,
    version: 1,
    schema: under("events", events(runParts.PlanRunEvent)),
    ...closed
  },
  {
    name: "signed-1",
    title: "JSON with its signature: `payload` is a document of another schema",
    codec: undefined,
    version: 1,
    schema: Envelope,
    ...closed
  }
]
