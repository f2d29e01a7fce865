/** The value behind `PlanRunState`, and what is read from it. */
import * as Chunk from "effect/Chunk"
import * as Equal from "effect/Equal"
import * as Hash from "effect/Hash"
import * as HashMap from "effect/HashMap"
import * as Inspectable from "effect/Inspectable"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import { type ApprovalRequest, toldApart } from "../../../agent/Outcome.ts"
import * as RunState from "../../../agent/RunState.ts"
import type { PauseRequest } from "../../PlanOutcome.ts"
import type { StepRecord } from "../../PlanRunEvent.ts"
import type { Child, Member, PlanRunState, TypeId as TypeIdType } from "../../PlanRunState.ts"

export const TypeId: TypeIdType = "~effect-emissary/plan/PlanRunState"

export type Fields = Omit<PlanRunState, keyof Inspectable.Inspectable | TypeIdType>

export const isPlanRunState = (u: unknown): u is PlanRunState => Predicate.hasProperty(u, TypeId)

// Each field by name: this runs once per event, and a loop over keys takes ten times as long
class State extends Inspectable.Class implements PlanRunState {
  readonly runId: PlanRunState["runId"]
  readonly plan: PlanRunState["plan"]
  readonly digest: PlanRunState["digest"]
  readonly depth: PlanRunState["depth"]
  readonly context: PlanRunState["context"]
  readonly input: PlanRunState["input"]
  readonly cursor: PlanRunState["cursor"]
  readonly turn: PlanRunState["turn"]
  readonly choosing: PlanRunState["choosing"]
  readonly rejoins: PlanRunState["rejoins"]
  readonly iterations: PlanRunState["iterations"]
  readonly maxIterations: PlanRunState["maxIterations"]
  readonly history: PlanRunState["history"]
  readonly latest: PlanRunState["latest"]
  readonly writes: PlanRunState["writes"]
  readonly previous: PlanRunState["previous"]
  readonly usage: PlanRunState["usage"]
  readonly interrupted: PlanRunState["interrupted"]
  readonly outcome: PlanRunState["outcome"]
  readonly startedAt: PlanRunState["startedAt"]
  readonly updatedAt: PlanRunState["updatedAt"]
  readonly revision: PlanRunState["revision"]

  constructor(fields: Fields) {
    super()
    this.runId = fields.runId
    this.plan = fields.plan
    this.digest = fields.digest
    this.depth = fields.depth
    this.context = fields.context
    this.input = fields.input
    this.cursor = fields.cursor
    this.turn = fields.turn
    this.choosing = fields.choosing
    this.rejoins = fields.rejoins
    this.iterations = fields.iterations
    this.maxIterations = fields.maxIterations
    this.history = fields.history
    this.latest = fields.latest
    this.writes = fields.writes
    this.previous = fields.previous
    this.usage = fields.usage
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
      isPlanRunState(that) &&
      this.runId === that.runId &&
      this.revision === that.revision &&
      Equal.equals({ ...this }, { ...that })
    )
  }

  [Hash.symbol](): number {
    return Hash.combine(Hash.number(this.revision), Hash.string(this.runId))
  }

  // Where it stands and nothing that any step gave: states hang on errors, and errors are logged
  toJSON() {
    return {
      _id: "PlanRunState",
      runId: this.runId,
      plan: this.plan,
      iterations: this.iterations,
      finished: Chunk.size(this.history),
      revision: this.revision,
      ...(this.cursor === undefined ? undefined : { cursor: this.cursor }),
      ...(this.outcome === undefined ? undefined : { outcome: this.outcome._tag })
    }
  }
}

export const make = (fields: Fields): PlanRunState => new State(fields)

export const recordAt = (self: PlanRunState, index: number | undefined): Option.Option<StepRecord> =>
  index === undefined ? Option.none() : Chunk.get(self.history, index)

export const record = (self: PlanRunState, step: string): Option.Option<StepRecord> =>
  Option.flatMap(HashMap.get(self.latest, step), (index) => Chunk.get(self.history, index))

/** Finds the newest record of each step of a history. */
export const latestOf = (history: Iterable<StepRecord>): HashMap.HashMap<string, number> => {
  let index = 0
  return HashMap.mutate(HashMap.empty<string, number>(), (latest) => {
    for (const { step } of history) {
      HashMap.set(latest, step, index)
      index += 1
    }
  })
}

export const members = (self: PlanRunState): ReadonlyArray<Member> => self.turn?.members ?? []

export const member = (self: PlanRunState, step: string): Member | undefined =>
  members(self).find((member) => member.step === step)

export const childOf = ({ status }: Member): Child | undefined =>
  status._tag === "Finished" || status._tag === "Concluded" ? undefined : status.child

export const pauses = (self: PlanRunState): ReadonlyArray<PauseRequest> => {
  const found: Array<PauseRequest> = []
  collectPauses(self, [], found)
  return found
}

const collectPauses = (self: PlanRunState, path: ReadonlyArray<string>, found: Array<PauseRequest>): void => {
  for (const member of members(self)) {
    const { status, step } = member
    if (status._tag === "Paused" && status.reason !== undefined && status.decision === undefined) {
      found.push({ step, path, reason: status.reason })
    }
    const child = childOf(member)
    if (child?._tag === "Plan") collectPauses(child.state, [...path, step], found)
  }
}

export const approvalRequests = (self: PlanRunState): ReadonlyArray<ApprovalRequest> => {
  const found: Array<ApprovalRequest> = []
  collectRequests(self, [], found)
  return toldApart(found)
}

const collectRequests = (self: PlanRunState, path: ReadonlyArray<string>, found: Array<ApprovalRequest>): void => {
  for (const member of members(self)) {
    const { status, step } = member
    if (status._tag === "Paused" && status.request !== undefined && status.decision === undefined) {
      found.push({ callId: step, ...status.request, ...(path.length === 0 ? undefined : { path }) })
    }
    const child = childOf(member)
    if (child === undefined) continue
    const inside = [...path, step]
    if (child._tag === "Plan") collectRequests(child.state, inside, found)
    else {
      for (const request of RunState.approvalRequests(child.state)) {
        found.push({ ...request, path: [...inside, ...(request.path ?? [])] })
      }
    }
  }
}

export const writes = (self: PlanRunState): ReadonlyMap<string, Schema.Json> => {
  const found = new Map<string, Schema.Json>()
  for (const [key, index] of self.writes) {
    const written = recordAt(self, index)
    if (Option.isSome(written)) found.set(key, written.value.output)
  }
  return found
}
