/** The faults of a run, in figures: all of them have to be 0. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as agents from "./agents.ts"
import { DoorError, type Operations, type Said } from "./door.ts"
import * as ledger from "./ledger.ts"
import type * as load from "./load.ts"

export interface Verdict {
  /** Acknowledged messages that are not in the conversation, are in it twice or out of order, or were dropped for a while. */
  readonly lost: ReadonlyArray<string>
  /** Calls of tools that are not idempotent and were started twice. */
  readonly startedTwice: ReadonlyArray<string>
  /** Sessions that did not end their work, or did not answer their last message. */
  readonly stuck: ReadonlyArray<string>
  /** Jobs with another result than they have undisturbed, or with two, and values of steps that no job wrote. */
  readonly wrong: ReadonlyArray<string>
  /** Steps of plans that began again after they were stored as completed. */
  readonly ranAgain: ReadonlyArray<string>
  /** Events that a reader saw twice, out of order, or that were others later. */
  readonly disorder: ReadonlyArray<string>
  /** Work that a runner which was stopped and continued began from an old state. */
  readonly stale: ReadonlyArray<string>
  /** Turns that failed: no work under test fails by itself, but for the trouble that the run made. */
  readonly failed: ReadonlyArray<string>
}

/** The faults of the messages of a user in a conversation. */
const wrongMessages = (
  id: string,
  acknowledged: ReadonlyArray<string>,
  said: ReadonlyArray<Said>
): ReadonlyArray<string> => {
  const found = said.filter(({ role }) => role === "user").map(({ text }) => text)
  const wrong = acknowledged.flatMap((text) => {
    const times = found.filter((other) => other === text).length
    return times === 1 ? [] : [`${text} is in the conversation ${times} times`]
  })
  const kept = found.filter((text) => acknowledged.includes(text))
  const inOrder = kept.every((text, index) => text === acknowledged[index])
  return wrong.length === 0 && !inOrder ? [`${id} has its messages in the order ${kept.join(", ")}`] : wrong
}

const unanswered = ({ acknowledged, interrupted }: load.Record, said: ReadonlyArray<Said>): ReadonlyArray<string> => {
  const last = acknowledged.at(-1)
  if (last === undefined || interrupted || said.some(({ text }) => text.includes(agents.answerTo(last)))) return []
  return [`${last} has no answer`]
}

/** A read that has to end soon. */
const within = <A>(what: string, read: Effect.Effect<A, DoorError>) =>
  Effect.timeoutOrElse(read, {
    duration: "1 minute",
    orElse: () => Effect.fail(new DoorError({ reason: "Timeout", text: `no ${what} in a minute` }))
  })

/** The events of a session, read again from the first one, against what its readers saw. */
const reread = Effect.fnUntraced(function* (door: Operations, { id, readers }: load.Record, sequence: number) {
  const stored = yield* within("events", door.events(id).pipe(Stream.take(sequence), Stream.runCollect))
  const faults = stored.flatMap(({ sequence }, index) =>
    sequence === index + 1 ? [] : [`${id}: stored number ${sequence} came where ${index + 1} was to come`]
  )
  for (const { seen } of readers) {
    seen.forEach((text, index) => {
      const now = stored[index]?.text
      if (now !== text) faults.push(`${id}: number ${index + 1} was ${text}, and is ${now ?? "no more there"}`)
    })
  }
  const expected = ["Interrupted", "PreparationFailed", "DefinitionChanged"].map((reason) => `"reason":"${reason}"`)
  const isFault = (text: string) =>
    text.includes(`"_tag":"MessageDropped"`) ||
    (text.includes(`"_tag":"TurnFailed"`) && !expected.some((reason) => text.includes(reason)))
  const failed = stored.filter(({ text }) => isFault(text)).map(({ text }) => `${id}: ${text}`)
  // A client sends a message again with the same id: the session stores it again only if it was dropped before
  const received = stored.flatMap(
    ({ text }) => /"_tag":"MessageReceived".*?"messageId":"([^"]*)"/.exec(text)?.[1] ?? []
  )
  const again = received.filter((messageId, index) => received.indexOf(messageId) !== index)
  const completed = stored.flatMap(({ text }) => {
    const [, step, at] = /"_tag":"StepFinished".*?"step":"(\w+)".*?"finishedAt":"([^"]*)"/.exec(text) ?? []
    return step === undefined || at === undefined ? [] : [{ key: `${agents.label(id, 1)}/${step}`, at: Date.parse(at) }]
  })
  return { faults, failed, completed, dropped: again.map((messageId) => `${id}: the message ${messageId} was dropped`) }
})

const ofSession = Effect.fnUntraced(function* (door: Operations, record: load.Record) {
  const { acknowledged, id, readers, settled } = record
  const faults = readers.flatMap(({ faults }) => faults)
  if (!settled) {
    const errors = [...record.errors].map(([reason, { text, times }]) => `${times} times ${reason} (${text})`)
    const state = yield* Effect.result(door.state(id))
    const now = state._tag === "Success" ? JSON.stringify(state.success) : state.failure.message
    const messages = `${acknowledged.length} messages acknowledged, errors: ${errors.join(", ") || "none"}`
    const stuck = [`${id} (${record.agent}) is ${now}; ${messages}`]
    return { lost: [], stuck, disorder: faults, failed: [], wrong: [], completed: [] }
  }
  const said = yield* within("history", door.history(id))
  const state = yield* within("state", door.state(id))
  const { completed, dropped, failed, faults: stored } = yield* reread(door, record, state?.sequence ?? 0)
  return {
    lost: [...wrongMessages(id, acknowledged, said), ...dropped],
    stuck: unanswered(record, said),
    disorder: [...faults, ...stored],
    failed,
    wrong: yield* wrongResults(record),
    completed: record.job === undefined ? [] : completed
  }
})

const wrongResults = Effect.fnUntraced(function* ({ acknowledged: [message = ""], agent, id, job }: load.Record) {
  if (job === undefined) return []
  const expected = yield* agents.expected(agent, message)
  const found = [...job.results]
  return found.length === 1 && found[0] === expected
    ? []
    : [`${id} (${agent}) has ${found.join(" and ")} instead of ${expected}`]
})

/** The value that all runs of the plan of jobs write comes from one of them. */
const wrongWrite = Effect.fnUntraced(function* (door: Operations, records: ReadonlyArray<load.Record>) {
  const builds = records.filter(({ agent, job, settled }) => job !== undefined && agent === agents.job && settled)
  const found = yield* within("value of a step", door.read(agents.written))
  if (builds.length === 0) return []
  const writer = records.find(({ agent, id }) => id === found?.id && agent === agents.job)
  if (found === undefined || writer === undefined) return [`${agents.written} is ${JSON.stringify(found ?? null)}`]
  const expected = yield* agents.expected(agents.job, agents.label(writer.id, 1))
  return found.value === expected ? [] : [`${agents.written} is ${String(found.value)} instead of ${expected}`]
})

const describe = (lines: ReadonlyArray<ledger.Line>): string =>
  `${lines[0]?.key}: ${lines.map(({ at, phase, pid, runner }) => `${phase} by ${runner} (${pid}) at ${at}`).join(", ")}`

export const of = Effect.fnUntraced(function* (
  door: Operations,
  records: ReadonlyArray<load.Record>,
  lines: ReadonlyArray<ledger.Line>,
  stops: ReadonlyArray<ledger.Stop>
) {
  const found = yield* Effect.forEach(
    records,
    (record) =>
      ofSession(door, record).pipe(
        Effect.retry({ times: 2 }),
        Effect.catch((error) =>
          Effect.succeed({
            lost: [],
            stuck: [`${record.id} cannot be read: ${error.message}`],
            disorder: [],
            failed: [],
            wrong: [],
            completed: []
          })
        )
      ),
    { concurrency: 8 }
  )
  const verdict: Verdict = {
    lost: found.flatMap(({ lost }) => lost),
    startedTwice: ledger.startedTwice(lines, "once").map(describe),
    stuck: found.flatMap(({ stuck }) => stuck),
    wrong: [
      ...found.flatMap(({ wrong }) => wrong),
      ...(yield* wrongWrite(door, records).pipe(
        Effect.retry({ times: 2 }),
        Effect.catch(({ message }) => Effect.succeed([message]))
      ))
    ],
    ranAgain: ledger
      .ranAgain(
        lines,
        found.flatMap(({ completed }) => completed)
      )
      .map((line) => describe([line])),
    disorder: found.flatMap(({ disorder }) => disorder),
    stale: ledger.begunFromOldState(lines, stops).map((line) => describe([line])),
    failed: found.flatMap(({ failed }) => failed)
  }
  return verdict
})
