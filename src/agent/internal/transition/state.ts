/** The value behind `RunState`, and what is read from it. */
import * as Equal from "effect/Equal"
import * as Hash from "effect/Hash"
import * as HashMap from "effect/HashMap"
import * as Inspectable from "effect/Inspectable"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Conversation from "../../../conversation/Conversation.ts"
import * as Message from "../../../conversation/Message.ts"
import { type ApprovalRequest, toldApart } from "../../Outcome.ts"
import type { OpenCall, RunState, TypeId as TypeIdType } from "../../RunState.ts"

export const TypeId: TypeIdType = "~effect-emissary/agent/RunState"

export type Fields = Omit<RunState, keyof Inspectable.Inspectable | TypeIdType>

export const isRunState = (u: unknown): u is RunState => Predicate.hasProperty(u, TypeId)

// Each field by name: this runs once per event, and a loop over keys takes ten times as long
class State extends Inspectable.Class implements RunState {
  readonly runId: RunState["runId"]
  readonly agent: RunState["agent"]
  readonly definition: RunState["definition"]
  readonly depth: RunState["depth"]
  readonly context: RunState["context"]
  readonly conversation: RunState["conversation"]
  readonly view: RunState["view"]
  readonly maxSteps: RunState["maxSteps"]
  readonly structured: RunState["structured"]
  readonly steps: RunState["steps"]
  readonly totalSteps: RunState["totalSteps"]
  readonly usage: RunState["usage"]
  readonly calls: RunState["calls"]
  readonly pending: RunState["pending"]
  readonly answer: RunState["answer"]
  readonly limited: RunState["limited"]
  readonly step: RunState["step"]
  readonly mistakes: RunState["mistakes"]
  readonly progress: RunState["progress"]
  readonly fresh: RunState["fresh"]
  readonly interrupted: RunState["interrupted"]
  readonly outcome: RunState["outcome"]
  readonly startedAt: RunState["startedAt"]
  readonly updatedAt: RunState["updatedAt"]
  readonly revision: RunState["revision"]

  constructor(fields: Fields) {
    super()
    this.runId = fields.runId
    this.agent = fields.agent
    this.definition = fields.definition
    this.depth = fields.depth
    this.context = fields.context
    this.conversation = fields.conversation
    this.view = fields.view
    this.maxSteps = fields.maxSteps
    this.structured = fields.structured
    this.steps = fields.steps
    this.totalSteps = fields.totalSteps
    this.usage = fields.usage
    this.calls = fields.calls
    this.pending = fields.pending
    this.answer = fields.answer
    this.limited = fields.limited
    this.step = fields.step
    this.mistakes = fields.mistakes
    this.progress = fields.progress
    this.fresh = fields.fresh
    this.interrupted = fields.interrupted
    this.outcome = fields.outcome
    this.startedAt = fields.startedAt
    this.updatedAt = fields.updatedAt
    this.revision = fields.revision
    Object.freeze(this)
  }

  get [TypeId](): typeof TypeId {
    return TypeId
  }

  [Equal.symbol](that: unknown): boolean {
    return (
      isRunState(that) &&
      this.runId === that.runId &&
      this.revision === that.revision &&
      Equal.equals({ ...this }, { ...that })
    )
  }

  [Hash.symbol](): number {
    return Hash.combine(Hash.number(this.revision), Hash.string(this.runId))
  }

  // Where it stands and nothing that anybody said: states hang on errors, and errors are logged
  toJSON() {
    return {
      _id: "RunState",
      runId: this.runId,
      agent: this.agent,
      steps: this.steps,
      totalSteps: this.totalSteps,
      openCalls: HashMap.size(this.calls),
      revision: this.revision,
      ...(this.outcome === undefined ? undefined : { outcome: this.outcome._tag })
    }
  }
}

export const make = (fields: Fields): RunState => new State(fields)

/** The open calls of a conversation, with their places in the answer that asked for them. */
export const openParts = (conversation: Conversation.Conversation): ReadonlyArray<Omit<OpenCall, "status">> => {
  const answer = Option.getOrUndefined(Conversation.lastAssistantMessage(conversation))
  if (answer === undefined) return []
  const open = new Set(Conversation.openCalls(conversation).map((part) => part.id))
  return Message.toolCalls(answer)
    .map((part, order) => ({ part, order }))
    .filter(({ part }) => open.has(part.id))
}

export const inOrder = (calls: HashMap.HashMap<string, OpenCall>): ReadonlyArray<OpenCall> =>
  Array.from(HashMap.values(calls)).sort((a, b) => a.order - b.order)

export const approvalRequests = (self: RunState): ReadonlyArray<ApprovalRequest> => {
  const requests: Array<ApprovalRequest> = []
  collect(self, [], requests)
  return toldApart(requests)
}

const collect = (self: RunState, path: ReadonlyArray<string>, requests: Array<ApprovalRequest>): void => {
  for (const { path: own = [], ...request } of self.progress?.requests ?? []) {
    const whole = [...path, ...own]
    requests.push({ ...request, ...(whole.length === 0 ? undefined : { path: whole }) })
  }
  for (const { part, status } of inOrder(self.calls)) {
    if (status._tag === "AwaitingApproval") {
      requests.push({
        callId: part.id,
        name: part.name,
        arguments: part.arguments,
        ...(path.length === 0 ? undefined : { path })
      })
    } else if (status._tag === "Started" && status.child !== undefined) {
      collect(status.child, [...path, part.id], requests)
    }
  }
}
