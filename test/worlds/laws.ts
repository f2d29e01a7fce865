/** The verdict on a world: what its clients saw is what the model shows, and each call of theirs is explained. */
import { Message, type Run } from "effect-emissary"
import type { Session } from "effect-emissary/session"
import { type Diary, lifeOf, type Look, type Operation } from "./clients.ts"
import * as jobs from "./jobs.ts"
import { empty, type Model, next, placeOf, type Rules, rules, shown } from "./model.ts"

/** The calls that had an effect outside of the world. */
export interface Effects {
  readonly started: ReadonlyArray<string>
  readonly ended: ReadonlyArray<string>
}

interface Judged {
  readonly session: string
  readonly entries: ReadonlyArray<Session.Entry>
  /** The states of the model, from the empty one on. They end before an event that does not fit. */
  readonly models: ReadonlyArray<Model>
}

/** The results of calls whose tool has another name or contract in a release. */
const refusedIn: Readonly<Record<string, ReadonlyArray<string>>> = {
  renamed: ["once unknown_tool"],
  changed: ["again validation_error"]
}

/** The lives of sessions with the states of the model. A fork needs the session that it continues. */
const judgeAll = ({ lives, releases }: Diary, rules: Rules, problems: Array<string>): ReadonlyMap<string, Judged> => {
  const refused = releases.flatMap((release) => refusedIn[release] ?? [])
  const judged = new Map<string, Judged>()
  const judge = (life: string): Judged | undefined => {
    const found = lives.get(life)
    const before = judged.get(life)
    if (before !== undefined || found === undefined) return before
    const models: Array<Model> = [{ ...empty, refused }]
    const { entries, session } = found
    judged.set(life, { session, entries, models })
    for (const { cursor, event } of entries) {
      const place = event._tag === "SessionForked" ? event.cursor : undefined
      const origin =
        place === undefined ? undefined : judge(lifeOf(place))?.models[Number(place.slice(place.indexOf(".") + 1))]
      // The part of a session that was removed before it was read
      if (place !== undefined && origin === undefined) break
      const after = next(models.at(-1) ?? empty, event, rules, origin)
      if (typeof after === "string") {
        const tag = event._tag === "RunEvent" ? event.event._tag : event._tag
        problems.push(`${session}, ${cursor}, ${tag}: ${after}`)
        break
      }
      models.push(after)
    }
    return judged.get(life)
  }
  for (const [life, { session }] of lives) if (session !== jobs.session) judge(life)
  return judged
}

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)

const saidOf = ({ said }: Model): ReadonlyArray<string> =>
  said.map(({ id, role, text }) => {
    if (role === "user") return `user ${id}`
    if (role === "system") return `system ${text}`
    return role
  })

/** The part of a look that the model knows: an answer as such, and the result of a call as such. */
const brief = (said: ReadonlyArray<string>): ReadonlyArray<string> =>
  said.map((line) => (/^(assistant|tool) /.test(line) ? line.slice(0, line.indexOf(" ")) : line))

/** A turn has taken the first message, or messages that steer, and that is not stored yet. */
const areQueued = (
  queue: ReadonlyArray<string>,
  expected: ReadonlyArray<string>,
  steers: ReadonlyArray<string>
): boolean => {
  const left = expected.filter((id) => queue.includes(id))
  const taken = expected.slice(1).filter((id) => !queue.includes(id))
  return isSame(queue, left) && taken.every((id) => steers.includes(id))
}

const checkLook = (look: Look, judged: ReadonlyMap<string, Judged>, rules: Rules): string | undefined => {
  if (look._tag === "State") {
    const { activeAgent, cursor, failure, messages, outcome, queue, requests, sequence, status } = look.state
    const model = judged.get(lifeOf(cursor))?.models[sequence]
    if (model === undefined) return undefined
    const { queue: expected, steers, ...rest } = shown(model, rules)
    const found = {
      status,
      messages,
      isMates: activeAgent === "mate",
      requests: requests.map(placeOf),
      outcome,
      failure: failure?.reason
    }
    const isRight = isSame({ ...found }, { ...rest }) && areQueued(queue, expected, steers)
    return isRight
      ? undefined
      : `the state at ${cursor}: expected ${JSON.stringify({ ...rest, queue: expected })}, got ${JSON.stringify({ ...found, queue })}`
  }
  if (look._tag === "History") {
    const models = judged.get(look.life)?.models ?? []
    if (models[look.to] === undefined) return undefined
    const said = brief(look.said)
    const among = look.from === undefined ? models : models.slice(look.from, look.to + 1)
    const isRight = among.some((model) => isSame(saidOf(model), said))
    return isRight ? undefined : `the history of ${look.life} from ${look.from} to ${look.to}: ${said.join("; ")}`
  }
  const { id, messages, sequence, status } = look.listed
  const all = [...judged.values()].filter(({ session }) => session === id)
  const isKnown = all.length > 0 && all.every(({ models }) => models[sequence] !== undefined)
  const isRight = all.some(({ models }) => {
    const model = models[sequence]
    const { messages: expected, status: expectedStatus } = shown(model ?? empty, rules)
    return messages === expected && status === expectedStatus
  })
  return isRight || !isKnown ? undefined : `${id} at ${sequence} is listed as ${status} with ${messages} messages`
}

/** The operations that may be behind an event that a client asked for. Without any the event has no reason. */
const causes: Partial<Record<Session.Event["_tag"], (operation: Operation, event: Session.Event) => boolean>> = {
  MessageReceived: ({ kind, message, text }, event) =>
    (kind === "send" || kind === "edit") &&
    event._tag === "MessageReceived" &&
    event.messageId === message &&
    isSame(event.input, [{ type: "text", text }]),
  DecisionsReceived: ({ decisions = [] }, event) =>
    event._tag === "DecisionsReceived" &&
    event.decisions.every(({ approved, callId, digest }) =>
      decisions.some((one) => one.callId === callId && one.digest === digest && one.approved === approved)
    ),
  // A message or a decision that is sent again, and the next process, let what is held be tried again
  ResumeReceived: () => true,
  SessionForked: ({ kind }) => kind === "fork",
  MessageDropped: ({ kind }, event) =>
    event._tag === "MessageDropped" && kind === (event.error.reason === "Withdrawn" ? "withdraw" : "edit"),
  // Only a stop and a release drop decisions
  DecisionsDropped: () => false,
  // Nothing but the model fails
  TurnFailed: ({ text = "" }, event) =>
    event._tag === "TurnFailed" && event.error.reason === "ModelFailed" && text.includes("|fails")
}

const stops = new Set(["interrupt", "edit", "remove", "withdraw"])

const isStop = (event: Session.Event): boolean =>
  event._tag === "RunEvent"
    ? event.event._tag === "RunInterrupted"
    : (event._tag === "TurnFailed" || event._tag === "DecisionsDropped") && event.error.reason === "Interrupted"

/** The tool that a release has no more, or with another contract. */
const replacedIn: Readonly<Record<string, string>> = { renamed: "once", changed: "again" }

/** True for a call that cannot run without this tool. A call that has started does not run again without it. */
const needs =
  (tool: string) =>
  ({ child, name, status }: Model["calls"][number]): boolean =>
    child === undefined ? name === tool && status !== "started" : child.calls.some(needs(tool))

/** A release cannot prepare the agent, or replaced the tool of a call that the model shows as open before the event. */
const isOfRelease = (releases: ReadonlyArray<string>, event: Session.Event, { calls }: Model): boolean => {
  const reason = event._tag === "TurnFailed" || event._tag === "DecisionsDropped" ? event.error.reason : undefined
  return releases.some((release) => {
    const tool = replacedIn[release]
    if (reason === "DefinitionChanged") return tool !== undefined && calls.some(needs(tool))
    return reason === "PreparationFailed" && event._tag === "TurnFailed" && release === "unprepared"
  })
}

const checkCauses = (
  { operations, releases, rested }: Diary,
  { entries, models, session }: Judged
): ReadonlyArray<string> =>
  entries.flatMap(({ cursor, event }, index) => {
    const isCause = isStop(event) ? ({ kind }: Operation) => stops.has(kind) : causes[event._tag]
    const isOf = (one: Operation) =>
      one.began < rested && (one.session === session || (one.kind === "fork" && one.message === session))
    // The model ends before an event that does not fit, which is a problem of its own
    const before = models[index]
    const isKnown = isCause === undefined || before === undefined || isOfRelease(releases, event, before)
    const isExplained = isKnown || operations.some((one) => isOf(one) && isCause(one, event))
    return isExplained ? [] : [`${session}, ${cursor}: no client asked for ${event._tag}`]
  })

const countOf = (entries: Judged["entries"], tag: Run.Event["_tag"]): number =>
  entries.filter(({ event }) => event._tag === "RunEvent" && event.event._tag === tag).length

/** Where no user stops a turn but by an edit, the conversation is cut as often. An edit whose message another edit cut may have stopped a turn. */
const checkStops = ({ isHealthy, operations }: Diary, { entries, session }: Judged): ReadonlyArray<string> => {
  const failed = operations.filter(
    (one) => one.kind === "edit" && one.session === session && one.answer?.error !== undefined
  )
  const stops = countOf(entries, "RunInterrupted")
  const cuts = countOf(entries, "ConversationRewound") + failed.length
  return isHealthy && stops > 2 * cuts ? [`${session}: ${stops} turns are stopped for ${cuts} edits`] : []
}

const receivedAt = ({ entries }: Judged, message: string | undefined): number =>
  entries.findIndex(({ event }) => event._tag === "MessageReceived" && event.messageId === message)

/** A message that was acknowledged is in the log, behind each message that was acknowledged before it was sent. */
const checkAnswers = ({ operations }: Diary, judged: ReadonlyMap<string, Judged>): ReadonlyArray<string> => {
  const stored = operations.flatMap((operation) => {
    const { answer, kind, message } = operation
    const life = judged.get(answer?.life ?? "")
    const isKnown = life !== undefined && (answer?.sequence ?? Infinity) <= life.entries.length
    return (kind === "send" || kind === "edit") && isKnown && answer !== undefined
      ? [{ operation, answer, life, message, place: receivedAt(life, message) }]
      : []
  })
  const lost = stored
    .filter(({ place }) => place < 0)
    .map(({ message }) => `${message} was acknowledged, and is not in the log`)
  const swapped = stored.flatMap((first) =>
    stored
      .filter(
        ({ life, operation, place }) =>
          life === first.life &&
          operation.began > first.answer.at &&
          place < first.place &&
          isFirst(operations, operation)
      )
      .map(({ message }) => `${message} was sent after ${first.message} was acknowledged, and is before it`)
  )
  const misnamed = stored.flatMap(({ answer: { sequence = 0 }, life, message }) => {
    const event = life.entries[sequence - 1]?.event
    const isRight = event?._tag === "MessageReceived" ? event.messageId === message : again.has(event?._tag)
    return isRight ? [] : [`the receipt of ${message} names the event ${sequence}, ${event?._tag}`]
  })
  const nameless = operations
    .filter(({ answer, kind }) => answer?.life === "" && kind !== "remove")
    .map(({ kind, message }) => `the receipt of ${kind} ${message} names no session`)
  const early = operations.flatMap(({ answer, kind, session }) => {
    const { isInterrupted = false, life = "", sequence = 0 } = answer ?? {}
    const event = judged.get(life)?.entries[sequence - 1]?.event
    // Calls that wait in a run which is over are denied
    const isEarly = isInterrupted && event?._tag === "RunEvent" && !ends.has(event.event._tag)
    return isEarly ? [`the receipt of ${kind} in ${session} names ${event.event._tag}, which ends no turn`] : []
  })
  // A process that has nothing to stop has no turn under way, here or left by another one
  const missed = operations.flatMap(({ answer, kind, session }) => {
    const { isInterrupted = false, life = "", sequence = 0 } = answer ?? {}
    const model = kind === "interrupt" && !isInterrupted ? judged.get(life)?.models[sequence] : undefined
    const isMissed = model?.isBegun === true && model.outcome === undefined && model.failure === undefined
    return isMissed ? [`the receipt of ${kind} in ${session} names ${life}.${sequence}, and a turn is under way`] : []
  })
  return [...lost, ...swapped, ...misnamed, ...nameless, ...early, ...missed]
}

const ends: ReadonlySet<Run.Event["_tag"]> = new Set(["RunFinished", "ApprovalDecided"])

/** A client that waits for a turn has its end. */
const checkWaits = ({ waits }: Diary, judged: ReadonlyMap<string, Judged>): ReadonlyArray<string> =>
  waits.flatMap(({ end, message }) => {
    if (end === undefined) return [`who waits for ${message} still waits`]
    if (!("text" in end)) {
      return waitErrors.has(end.reason._tag) ? [] : [`who waits for ${message} gets ${end.reason._tag}`]
    }
    const { cursor, outcome, sequence, text } = end
    const entries = judged.get(lifeOf(cursor))?.entries.slice(0, sequence) ?? []
    const last = entries[sequence - 1]
    if (last === undefined || "waitsBehind" in end) return []
    const isEnd = outcomeOf(last.event) === outcome
    const said = entries.flatMap(({ event }) =>
      event._tag === "RunEvent" && event.event._tag === "ModelAnswered" ? [Message.text(event.event.message)] : []
    )
    const isSaid = outcome !== "Completed" || said.at(-1) === text
    return isEnd && isSaid ? [] : [`who waits for ${message} gets ${outcome} ${text} at ${cursor}`]
  })

/** A message that is given up, a turn that failed, and a session that is removed. */
const waitErrors: ReadonlySet<string> = new Set(["TurnFailed", "NotFound", "EventsUnknown"])

const outcomeOf = (event: Session.Event): string | undefined => {
  if (event._tag === "TurnFailed") return event.error.reason
  return event._tag === "RunEvent" && event.event._tag === "RunFinished" ? event.event.outcome._tag : undefined
}

/** The events that the receipt of a message names which was received before, and waits. */
const again: ReadonlySet<string | undefined> = new Set(["ResumeReceived", "TurnFailed"])

/** The errors of operations that races between users explain. */
const refusals: Readonly<Record<Operation["kind"], ReadonlyArray<string>>> = {
  send: [],
  edit: ["MessageUnknown", "NotFound"],
  withdraw: ["NotFound"],
  interrupt: ["NotFound"],
  resume: ["NotFound"],
  fork: ["NotFound", "Exists"],
  remove: [],
  decide: ["InvalidDecision", "NotFound"]
}

const checkErrors = ({ isCalm, isHealthy, operations, rested }: Diary): ReadonlyArray<string> =>
  operations.flatMap(({ answer, began, kind, session }) =>
    answer?.error === undefined ||
    (refusals[kind].includes(answer.error) && (!isCalm || (isHealthy && kind !== "fork") || began > rested))
      ? []
      : [`${kind} in ${session} fails with ${answer.error}`]
  )

const isFirst = (operations: ReadonlyArray<Operation>, { began, message }: Operation): boolean =>
  !operations.some((one) => one.message === message && one.began < began)

/**
 * Tools: nothing starts twice that is not idempotent, and what the log shows as done was done. A message that is sent again after its session
 * was removed is a new one.
 */
const checkEffects = (
  { isHealthy, operations }: Diary,
  { ended, started }: Effects,
  judged: ReadonlyMap<string, Judged>
): ReadonlyArray<string> => {
  const removals = (session: string) =>
    operations.filter((one) => one.kind === "remove" && one.session === session).length
  const twice = [...new Set(started)].filter((call) => {
    const [name, key = ""] = call.split(" ")
    const most = 1 + removals(key.slice(0, key.indexOf("/")))
    return (isHealthy || name !== "again") && started.filter((one) => one === call).length > most
  })
  const said = [...judged.values()].flatMap(({ models }) => models.at(-1)?.said ?? [])
  const done = said.flatMap(({ role, text }) => (role === "tool" ? [/^(\w+) (?:did|no) (.*)$/.exec(text)] : []))
  const missing = done.flatMap((found) => {
    const call = found === null ? "" : `${found[1]} ${found[2]}`
    return call !== "" && !ended.includes(call) ? [`${call} has a result and never ran to its end`] : []
  })
  // A fork has the results of the session that it continues
  const isFork = ({ entries: [first] }: Judged) => first?.event._tag === "SessionForked"
  const undisturbed = [...judged.values()].filter((one) => !isFork(one) && countOf(one.entries, "RunInterrupted") === 0)
  const results = undisturbed.flatMap(({ models }) => models.at(-1)?.said ?? []).filter(({ role }) => role === "tool")
  const lost = results
    .filter(({ text }) => isHealthy && text.endsWith(" interrupted"))
    .map(({ text }) => `a result is lost in a healthy world: ${text}`)
  return [...twice.map((call) => `${call} started twice`), ...missing, ...lost]
}

/** The problems of a world. */
export const verdict = (diary: Diary, effects: Effects, using: Rules = rules): ReadonlyArray<string> => {
  const problems = [...diary.problems]
  const judged = judgeAll(diary, using, problems)
  for (const look of diary.looks) {
    const problem = checkLook(look, judged, using)
    if (problem !== undefined) problems.push(problem)
  }
  for (const life of judged.values()) problems.push(...checkCauses(diary, life), ...checkStops(diary, life))
  problems.push(...checkWaits(diary, judged))
  problems.push(...checkAnswers(diary, judged), ...checkEffects(diary, effects, judged), ...checkErrors(diary))
  return problems
}
