/**
 * A session as plain data: the messages that wait, the conversation, the calls of the newest answer and what people decided about them. It is written
 * from the documentation of sessions, and uses none of their code. `next` refuses an event that no session may have there.
 *
 * `rules` are the choices of the model. Each of them has a wrong version, which the worlds have to notice.
 */
import type { Run } from "effect-emissary"
import type { Session } from "effect-emissary/session"
import { answerTo, instructions, isMates, resultOf, type Said, taskOf } from "./agents.ts"

interface Call {
  readonly id: string
  readonly name: string
  readonly key: string
  readonly status: "asked" | "waits" | "approved" | "denied" | "started"
  /** The answer of a person to a question. */
  readonly answer?: unknown
  /** The run of the agent behind the tool. */
  readonly child?: Model
}

type Decided = Pick<Run.Decision, "callId" | "approved" | "path" | "answer">

export interface Model {
  readonly sequence: number
  /** The texts of messages that were received and not dropped, by id. */
  readonly texts: Readonly<Record<string, string>>
  /** Messages that no turn has taken, in the order of their turns; `held` come later. */
  readonly queue: ReadonlyArray<string>
  /** Messages that may enter a turn under way. */
  readonly steers: ReadonlyArray<string>
  readonly stopped: ReadonlyArray<string>
  readonly held: ReadonlyArray<string>
  readonly said: ReadonlyArray<Said & { readonly id?: string; readonly isLast?: boolean }>
  readonly calls: ReadonlyArray<Call>
  /** Messages that a turn has taken while calls wait. */
  readonly pending: ReadonlyArray<string>
  readonly decisions: ReadonlyArray<Decided>
  readonly isBegun: boolean
  readonly isResumed: boolean
  readonly isInterrupted: boolean
  /** A call has passed the conversation on, and the other agent does not have it yet. */
  readonly isHanding?: boolean
  /** The message that was taken had been stopped before: it is not answered. */
  readonly isSilent?: boolean
  readonly outcome?: string
  readonly failure?: string
  /** The turn before was over when the newest turn began, which may take a message then. */
  readonly mayTake?: boolean
  /** A run that continues asks its model once more, however often the model has repeated itself. */
  readonly mayRepeat?: boolean
  /** Results that calls may have without a run, because a release has another tool: `once unknown_tool`. */
  readonly refused?: ReadonlyArray<string>
  /** The first state of a fork. */
  readonly origin?: Model
}

export const empty: Model = {
  sequence: 0,
  texts: {},
  queue: [],
  steers: [],
  stopped: [],
  held: [],
  said: [],
  calls: [],
  pending: [],
  decisions: [],
  isBegun: false,
  isResumed: false,
  isInterrupted: false
}

/** The choices of the model. */
export const rules = {
  /** A message waits behind the others. */
  enqueue: (queue: ReadonlyArray<string>, id: string) => [...queue, id],
  /** A message in the place of another waiting message comes before it. */
  replace: (queue: ReadonlyArray<string>, id: string, other: string) => queue.toSpliced(queue.indexOf(other), 0, id),
  /** A turn takes the first message. */
  taken: (due: ReadonlyArray<string>) => due[0],
  /** A turn under way is steered by the first message of the queue that steers, wherever it is. */
  steered: ({ queue, steers }: Pick<Model, "queue" | "steers">) => queue.find((id) => steers.includes(id)),
  /** A message that steers enters where a model is asked next. */
  isSteerable: ({ calls, isHanding, said }: Model) =>
    calls.length === 0 && isHanding !== true && said.at(-1)?.isLast !== true,
  /** Of several handoffs of one answer the first one counts. */
  isPassedOn: ({ isHanding }: Model) => isHanding !== true,
  /** The conversation is passed on when no call is open, and before a model is asked. */
  mayHandOver: ({ calls, isHanding }: Model) => calls.length === 0 && isHanding === true,
  /** A message that is taken while calls are open enters the conversation with the last result. */
  enters: ({ calls }: Model) => calls.length === 0,
  /** A call starts if it needs no approval, or has it. */
  starts: ({ name, status }: Call) => (name === "pay" ? status === "approved" : name !== "ask" && status === "asked"),
  /** Of several answers to a question the first one counts, and an answer has to fit. */
  isAnswer: (decisions: ReadonlyArray<Decided>, one: Decided) =>
    isFitting(one.answer) && !decisions.some((other) => placeOf(other) === placeOf(one)),
  /** The run of a model that repeats itself ends at the fifth time in a row. */
  isLoop: (times: number) => times >= 5,
  /** A call that has not started has a result only if it is denied, or its turn was stopped. */
  isSettled: ({ status }: Call, { isInterrupted }: Model, type: string) =>
    status === "denied" ? type === "denied" : isInterrupted || type === "interrupted",
  /** A rewound conversation ends before the message. */
  rewound: (said: Model["said"], at: number) => said.slice(0, at),
  /** Calls of a rewound conversation are gone. */
  callsAfterRewind: (_: ReadonlyArray<Call>): ReadonlyArray<Call> => [],
  /** Calls that wait are requests. */
  isRequest: ({ status }: Call) => status === "waits",
  /** A fork has the conversation, with a result for each open call. */
  forked: (from: Model): Model => ({
    ...empty,
    said: [
      ...from.said,
      ...from.calls.map(({ name }) => ({ role: "tool", text: `${name} closed` })),
      ...pendingOf(from)
    ],
    isBegun: from.isBegun,
    isHanding: from.isHanding === true,
    ...(from.isBegun && { outcome: from.outcome === undefined || from.calls.length > 0 ? "Interrupted" : from.outcome })
  }),
  /** A failed turn leaves messages that wait. */
  afterFailure: (model: Model): Partial<Model> => ({ isResumed: false, queue: model.queue }),
  /** A session works while its run has no end, and while messages or decisions wait. */
  works: (model: Model) =>
    (model.isBegun && model.outcome === undefined && model.failure === undefined) ||
    model.isResumed ||
    model.queue.length > 0 ||
    model.decisions.some((decision) => waitingIn(model, ({ status }) => status === "waits").includes(placeOf(decision)))
}

export type Rules = typeof rules

const isFitting = (answer: unknown): boolean =>
  typeof answer === "object" && answer !== null && "said" in answer && typeof answer.said === "string"

/** The number of times in a row that the model has made the same call, with the same result. */
const timesOf = ({ said }: Model): number => {
  let times = 0
  for (let at = said.length - 1; said[at]?.text.startsWith("look did") === true; at -= 2) {
    if (said[at]?.text !== said.at(-1)?.text) break
    times += 1
  }
  return times
}

/** The place of a call: its id, behind the ids of the calls around it. */
export const placeOf = ({ callId, path = [] }: Pick<Run.Decision, "callId" | "path">): string =>
  [...path, callId].join("/")

/** The places of the calls that wait, of agents behind tools, too. */
const waitingIn = ({ calls }: Model, waits: (call: Call) => boolean): ReadonlyArray<string> =>
  calls.flatMap((call) => [
    ...(waits(call) ? [call.id] : []),
    ...(call.child === undefined ? [] : waitingIn(call.child, waits).map((place) => `${call.id}/${place}`))
  ])

const pendingOf = ({ pending, texts }: Model): Model["said"] =>
  pending.map((id) => ({ id, role: "user", text: texts[id] ?? "" }))

const textOf = (content: ReadonlyArray<{ readonly type: string; readonly text?: string }>) =>
  content.map(({ text = "" }) => text).join("")

const without = (all: ReadonlyArray<string>, gone: ReadonlyArray<string>) => all.filter((id) => !gone.includes(id))

/** A problem is a text. */
type Next = Model | string

const withCall = (self: Model, id: string, change: (call: Call) => Call | string): Next => {
  const index = self.calls.findIndex((call) => call.id === id)
  const call = self.calls[index]
  const next = call === undefined ? `no call ${id} is open` : change(call)
  return typeof next === "string" ? next : { ...self, calls: self.calls.with(index, next) }
}

const innermost = (event: Run.Event): Run.Event => (event._tag === "ChildEvent" ? innermost(event.event) : event)

/** An event of the agent behind a tool. */
const ofChild = (rules: Rules, self: Model, id: string, event: Run.Event): Next => {
  const isInside = ({ path }: Decided) => path?.[0] === id
  const inside = self.decisions.filter(isInside).map(({ path = [], ...one }) => ({ ...one, path: path.slice(1) }))
  let left: ReadonlyArray<Decided> = []
  const after = withCall(self, id, (call) => {
    if (call.status !== "started") return `${call.key} does not run, and its agent has a ${event._tag}`
    const isAnew = event._tag === "RunStarted"
    const before = call.child === undefined || isAnew ? { ...empty, refused: self.refused ?? [] } : call.child
    const text = taskOf(call.name, call.key) ?? ""
    const input = event._tag === "InputAdded" ? event.message.id : undefined
    const given = input === undefined ? {} : { queue: [input], texts: { [input]: text } }
    const child = ofRun(rules, { ...before, ...given, decisions: inside }, event)
    if (typeof child === "string") return `${call.name}: ${child}`
    left = child.decisions
    return { ...call, child }
  })
  if (typeof after === "string") return after
  const outside = self.decisions.filter((decision) => !isInside(decision))
  return {
    ...after,
    decisions: [...outside, ...left.map(({ path = [], ...one }) => ({ ...one, path: [id, ...path] }))]
  }
}

/** True for a call that waits, or whose agent does. */
const isWaiting =
  (rules: Rules) =>
  (call: Call): boolean =>
    rules.isRequest(call) || call.child?.outcome === "AwaitingApproval"

/** Once no call is open, the messages that were taken meanwhile enter the conversation. */
const settled = (rules: Rules, self: Model): Model =>
  !rules.enters(self) ? self : { ...self, said: [...self.said, ...pendingOf(self)], pending: [] }

const dueOf = ({ queue, stopped }: Model) => [...stopped, ...queue]

/** The end of a call. Its result follows from its arguments, unless it was lost, denied or stopped. */
const finish = (
  rules: Rules,
  self: Model,
  { callId, result }: Extract<Run.Event, { _tag: "ToolFinished" }>["message"]
): Next => {
  const call = self.calls.find(({ id }) => id === callId)
  if (call === undefined) return `no call ${callId} is open`
  const type = result._tag === "Success" ? "success" : result.type
  const text = result._tag === "Success" ? textOf(result.content) : result.message
  const isRefused = self.refused?.includes(`${call.name} ${type}`) === true
  if (call.name === "ask" && call.status === "approved" && type === "success") {
    if (text !== JSON.stringify(call.answer)) return `${call.key} is answered with ${text}`
    const said = [...self.said, { role: "tool", text: `ask ${text}` }]
    return settled(rules, { ...self, calls: self.calls.filter((one) => one !== call), said })
  }
  const isRun = call.status === "started" && type !== "interrupted" && !isRefused
  const isLost = JSON.stringify(result).includes(`"outcome":"unknown"`)
  if (isLost !== (call.status === "started" && type === "interrupted")) return `${call.key} was ${call.status}: ${text}`
  const isPassedOn = call.name === "over" && rules.isPassedOn(self)
  const isOf = call.name === "over" ? passes(self, isPassedOn, type).test(text) : text === resultOf(call.name, call.key)
  if (isRun && !isOf) return `${call.key} has the result ${text}`
  if (call.status !== "started" && !isRefused && !rules.isSettled(call, self, type))
    return `${call.key} has a result and did not start`
  const said = { role: "tool", text: isRun ? `${call.name} ${text}` : `${call.name} ${type}` }
  const isHanding = self.isHanding === true || (isRun && isPassedOn)
  const calls = self.calls.filter((one) => one !== call)
  return settled(rules, { ...self, isHanding, calls, said: [...self.said, said] })
}

/** The text of the result of a call that passes the conversation on, or comes after another call that does. */
const passes = ({ said }: Model, isPassedOn: boolean, type: string): RegExp => {
  const to = isMates(said) ? "(worker|poet)" : "mate"
  if (isPassedOn !== (type === "success")) return /^no result/
  return new RegExp(
    isPassedOn
      ? `^"${to}" answers from here on\\.$`
      : `^The first handoff of an answer counts, which was to "${to}"\\.$`
  )
}

const ofRun = (rules: Rules, self: Model, event: Run.Event): Next => {
  const isOver = self.outcome !== undefined
  switch (event._tag) {
    case "RunStarted":
      return self.isBegun
        ? "it has begun"
        : { ...continued(self), isBegun: true, said: [{ role: "system", text: "You work." }] }
    case "RunResumed":
      return continued(self)
    case "InputAdded": {
      const { id, content } = event.message
      const isSteering = event.maxSteps === undefined
      const due = isSteering ? rules.steered(self) : rules.taken(dueOf(self))
      if (isOver || id !== due) return `expected the message ${due}, and a run under way`
      const mayEnter = self.isSilent !== true && !self.isInterrupted && rules.isSteerable(self)
      if (isSteering ? !mayEnter : self.mayTake !== true) return `${id} cannot be taken now`
      if (textOf(content) !== self.texts[id]) return `expected the text ${self.texts[id]}`
      const rest = {
        queue: without(self.queue, [id]),
        stopped: without(self.stopped, [id]),
        pending: [...self.pending, id],
        // A turn begins with one message
        mayTake: false,
        isSilent: self.stopped.includes(id)
      }
      return settled(rules, { ...self, ...rest })
    }
    case "StepStarted":
      if (self.isSilent === true) return "a message that was stopped is answered"
      if (self.isHanding === true) return "a model is asked before the conversation is passed on"
      if (self.mayRepeat !== true && rules.isLoop(timesOf(self))) return "a model that repeats itself is asked again"
      return isOver || self.calls.length > 0 ? "a model is asked while calls are open, or after the end" : self
    case "ModelAnswered": {
      const expected = answerTo(self.said)
      const parts = event.message.content
      const calls = parts.flatMap((part) =>
        part.type === "tool-call"
          ? [{ id: part.id, name: part.name, key: keyOf(part.arguments), status: "asked" as const }]
          : []
      )
      const found = calls.map(({ key, name }) => `${name} ${key}`).join()
      const wanted = expected._tag === "Calls" ? expected.calls.map(({ key, name }) => `${name} ${key}`).join() : ""
      const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("")
      const words = expected._tag === "Text" ? expected.text : ""
      const isCutOff = event.message.finishReason === "interrupted"
      if (isOver || (isCutOff ? found !== "" || !words.startsWith(text) : found !== wanted || text !== words))
        return `expected the answer ${wanted}${words}, got ${found}${text}`
      const isLast = calls.length === 0 && !isCutOff
      return {
        ...self,
        calls,
        mayRepeat: false,
        said: [...self.said, { role: "assistant", text: text + found, ...(isLast && { isLast }) }]
      }
    }
    case "StepRetried":
      return isOver || event.model !== "demo/small" ? `a model call is made again, with ${event.model}` : self
    case "ApprovalRequested":
      return withCall(self, event.callId, (call) =>
        ["pay", "ask"].includes(call.name) && call.status === "asked"
          ? { ...call, status: "waits" }
          : `${call.key} needs no approval`
      )
    case "ApprovalDecided": {
      const { approved, callId } = event
      const isOwn = (one: Decided) => placeOf(one) === callId
      const decided = self.decisions.some(
        (one) => isOwn(one) && one.approved === approved && JSON.stringify(one.answer) === JSON.stringify(event.answer)
      )
      if (approved && !decided) return `${callId} is approved, and no person approved it`
      const decisions = self.decisions.filter((one) => !isOwn(one))
      return withCall({ ...self, decisions }, callId, (call) =>
        call.status === "waits"
          ? { ...call, status: approved ? "approved" : "denied", answer: event.answer }
          : `${callId} does not wait`
      )
    }
    case "ToolStarted":
      return isOver || self.isInterrupted
        ? "a call starts after the end"
        : withCall(self, event.callId, (call) =>
            rules.starts(call) ? { ...call, status: "started" } : `${call.key} starts`
          )
    case "ToolFinished":
      return finish(rules, self, event.message)
    case "HandedOff": {
      const { content } = event.message
      const wanted = isMates(self.said) ? instructions.first : instructions.mate
      const isRight = !isOver && !self.isInterrupted && rules.mayHandOver(self)
      return isRight && content === `These instructions replace all earlier ones:\n\n${wanted}`
        ? { ...self, isHanding: false, said: [...self.said, { role: "system", text: content }] }
        : `the conversation is passed on to ${event.agent}: ${content}`
    }
    case "RunInterrupted":
      return { ...self, isInterrupted: true }
    case "ConversationRewound": {
      if (dueOf(self).length + self.held.length > 0) return "messages wait behind one that is edited"
      const waiting = self.pending.indexOf(event.messageId)
      if (waiting >= 0) return { ...self, pending: self.pending.slice(0, waiting) }
      const at = self.said.findIndex(({ id }) => id === event.messageId)
      if (at < 0) return `${event.messageId} is not in the conversation`
      const { failure: _, ...rest } = self
      const said = rules.rewound(self.said, at).map(({ isLast: _, ...one }) => one)
      return {
        ...rest,
        said,
        calls: rules.callsAfterRewind(self.calls),
        pending: [],
        isHanding: false,
        // A call of a later answer may have the same id
        decisions: [],
        isInterrupted: false,
        outcome: "Interrupted",
        ...(self.failure && { failure: self.failure })
      }
    }
    case "RunFinished": {
      const outcome = event.outcome._tag
      const isRight =
        outcome === "Completed"
          ? self.calls.length === 0 && self.isHanding !== true && answerTo(self.said)._tag === "Text"
          : outcome === "AwaitingApproval"
            ? self.calls.length > 0 && self.calls.every(isWaiting(rules))
            : outcome === "LoopDetected"
              ? self.calls.length === 0 && rules.isLoop(timesOf(self))
              : outcome === "Interrupted" && self.isInterrupted
      return isOver || !isRight ? `the run ends as ${outcome}` : { ...self, outcome }
    }
    case "ChildEvent":
      return isOver && innermost(event)._tag !== "ApprovalDecided"
        ? `the agent behind a tool has a ${innermost(event)._tag} after the end`
        : ofChild(rules, self, event.callId, event.event)
    default:
      return `a ${event._tag} in these worlds`
  }
}

/** The key of a call, which is the beginning of the message to an agent behind a tool. */
const keyOf = (value: unknown): string => {
  if (typeof value !== "object" || value === null) return "no key"
  if ("key" in value) return String(value.key)
  if ("question" in value) return String(value.question)
  return "input" in value ? String(value.input).replace(/\|.*/, "") : "no key"
}

const continued = ({ failure, outcome, ...rest }: Model): Model => ({
  ...rest,
  mayRepeat: true,
  mayTake: !rest.isBegun || outcome !== undefined || failure !== undefined,
  isSilent: false,
  isResumed: false,
  isInterrupted: false
})

/** The model after an event, or the problem. `origin`: the state of another session at the place that a fork names. */
export const next = (self: Model, event: Session.Event, rules: Rules, origin?: Model): Next => {
  const after = apply(self, event, rules, origin)
  return typeof after === "string" ? after : { ...after, sequence: self.sequence + 1 }
}

const apply = (self: Model, event: Session.Event, rules: Rules, origin: Model | undefined): Next => {
  switch (event._tag) {
    case "MessageReceived": {
      const { edit, input, messageId, steers } = event
      if (messageId in self.texts) return `${messageId} is received twice`
      const other = edit?.messageId ?? ""
      const before = dropHeld(self)
      const place = before.queue.includes(other)
        ? rules.replace(before.queue, messageId, other)
        : rules.enqueue(before.queue, messageId)
      // Messages that were stopped come before all others
      const queue = self.stopped.includes(other) ? [messageId, ...before.queue] : place
      const texts = { ...self.texts, [messageId]: textOf(input) }
      // A message that was dropped can come again, in another way
      const others = without(self.steers, [messageId])
      return { ...before, texts, queue, steers: steers === true ? [...others, messageId] : others }
    }
    case "MessageDropped": {
      const gone = [event.messageId]
      if (![...dueOf(self), ...self.held].includes(event.messageId)) return `${event.messageId} does not wait`
      const { [event.messageId]: _, ...texts } = self.texts
      return {
        ...self,
        texts,
        queue: without(self.queue, gone),
        stopped: without(self.stopped, gone),
        held: without(self.held, gone)
      }
    }
    case "DecisionsReceived": {
      const answers = event.decisions.filter(({ answer }) => answer !== undefined)
      if (!answers.every((one) => rules.isAnswer(self.decisions, one)))
        return "an answer is stored that does not fit, or is the second one"
      return { ...dropHeld(self), decisions: [...self.decisions, ...event.decisions] }
    }
    case "AnswersForgotten":
      return self
    case "DecisionsDropped":
      return {
        ...self,
        decisions: self.decisions.filter((one) => !event.decisions.some((other) => placeOf(other) === placeOf(one)))
      }
    case "ResumeReceived": {
      const { messageIds } = event
      // These messages are tried again, and no turn without a message is due
      if (messageIds !== undefined)
        return {
          ...self,
          held: without(self.held, messageIds),
          queue: [...self.held.filter((id) => messageIds.includes(id)), ...self.queue]
        }
      const released = dropHeld(self)
      return { ...released, isResumed: true, queue: [...self.stopped, ...released.queue], stopped: [] }
    }
    case "TurnFailed": {
      const { error, held = [], messageId } = event
      const isStop = error.reason === "Interrupted"
      const failed = { ...self, failure: error.reason, ...rules.afterFailure(self) }
      if (isStop && messageId !== undefined && self.queue[0] === messageId)
        return { ...failed, queue: self.queue.slice(1), stopped: [...self.stopped, messageId] }
      return {
        ...failed,
        held: [...self.held, ...held],
        queue: without(failed.queue, held),
        stopped: without(self.stopped, held)
      }
    }
    case "SessionUpdated":
      return self
    case "SessionForked":
      return origin === undefined ? self : rules.forked(origin)
    case "RunEvent":
      return ofRun(rules, self, event.event)
  }
}

/** Messages that could not begin are tried again, before the others. */
const dropHeld = (self: Model): Model => ({ ...self, held: [], queue: [...self.held, ...self.queue] })

/** The state of a model, as `state` of a session shows it. */
export const shown = (self: Model, rules: Rules) => {
  const requests = waitingIn(self, rules.isRequest)
  return {
    status: rules.works(self) ? "running" : requests.length > 0 ? "waiting" : "idle",
    messages: self.said.length,
    isMates: isMates(self.said),
    queue: [...dueOf(self), ...self.held],
    steers: self.steers,
    requests,
    outcome: self.failure === undefined ? self.outcome : undefined,
    failure: self.failure
  }
}
