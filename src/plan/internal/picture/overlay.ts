/** What a run says of the steps of its plan: done, running, failed, waiting. */
import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import type { StepDefinition } from "../../PlanDefinition.ts"
import type { StepRecord } from "../../PlanRunEvent.ts"
import type { Member, PlanRunState } from "../../PlanRunState.ts"
import * as states from "../transition/state.ts"
import type { Mark } from "./drawing.ts"
import { duration, visible } from "./text.ts"

/** How a step is marked by a run: a colour, and a line that says the same in words. */
export interface Status {
  readonly mark?: Mark
  readonly line?: string
}

const millis = (record: StepRecord): number =>
  DateTime.toEpochMillis(record.finishedAt) - DateTime.toEpochMillis(record.startedAt)

/** `, 1.2 s, 3 executions, 5 tries`; what is nothing special is left out. */
const facts = (records: ReadonlyArray<StepRecord>): string => {
  if (records.length === 0) return ""
  const time = records.reduce((sum, record) => sum + Math.max(0, millis(record)), 0)
  const tries = records.reduce((sum, record) => sum + record.attempts, 0)
  const executions = records.length === 1 ? "" : `, ${records.length} executions`
  return `, ${duration(time)}${executions}${tries > records.length ? `, ${tries} tries` : ""}`
}

/** What became of steps that were running: they still are, the run was interrupted, or its process is gone. */
export type Running = "running" | "interrupted" | "cutOff"

const words: { readonly [K in Running]: string } = {
  running: "▶ running",
  interrupted: "◼ interrupted",
  cutOff: "◼ cut off"
}

const ofMember = (member: Member, before: string, running: Running): Status | undefined => {
  const { status } = member
  const earlier = before === "" ? "" : `, before${before}`
  switch (status._tag) {
    case "Waiting":
      return undefined
    case "Running": {
      const tries = status.attempt > 1 ? `, try ${status.attempt}` : ""
      return { mark: running === "running" ? "running" : "interrupted", line: `${words[running]}${tries}${earlier}` }
    }
    case "Finished":
      return { mark: "done", line: `✓ done${facts([status.record])}${earlier}` }
    case "Failed":
      return { mark: "failed", line: `✗ failed, ${visible(status.failure.type, 60)}${earlier}` }
    case "Paused": {
      const reason = status.reason === undefined || status.reason === "" ? "" : `, ${visible(status.reason, 60)}`
      return { mark: "paused", line: `⏸ paused${reason}${earlier}` }
    }
    case "Concluded":
      return { mark: "concluded", line: `■ concluded${earlier}` }
  }
}

/** What became of the steps that a run was at. What ends a run around it, ends it. */
export const runningOf = (run: PlanRunState | undefined, around: Running): Running =>
  run?.interrupted !== undefined || run?.outcome?._tag === "Interrupted" ? "interrupted" : around

/** How a run marks the steps of its plan. */
export const overlay = (run: PlanRunState, running: Running): ((step: StepDefinition) => Status) => {
  const records = new Map<string, Array<StepRecord>>()
  for (const record of Chunk.toReadonlyArray(run.history)) {
    const known = records.get(record.step)
    if (known === undefined) records.set(record.step, [record])
    else known.push(record)
  }
  const members = new Map((run.turn?.members ?? []).map((member) => [member.step, member]))
  const { outcome } = run
  const ended = outcome?._tag === "Completed" || outcome?._tag === "Concluded"

  return ({ name }) => {
    const done = facts(records.get(name) ?? [])
    const member = members.get(name)
    const now = member === undefined ? undefined : ofMember(member, done, running)
    if (now !== undefined) return now
    if (outcome?._tag === "Failed" && outcome.step === name) {
      return { mark: "failed", line: `✗ failed, ${visible(outcome.failure.type, 60)}${done}` }
    }
    if (outcome?._tag === "LimitReached" && outcome.next === name) {
      return { mark: "limit", line: `⊘ limit of ${outcome.limit} reached${done}` }
    }
    if (done !== "") return { mark: "done", line: `✓ done${done}` }
    return ended ? { mark: "skipped", line: "– skipped" } : {}
  }
}

/** The run of the plan that runs in a step, if one does. */
export const childRun = (run: PlanRunState | undefined, step: string): PlanRunState | undefined => {
  const member = run === undefined ? undefined : states.member(run, step)
  const child = member === undefined ? undefined : states.childOf(member)
  return child?._tag === "Plan" ? child.state : undefined
}
