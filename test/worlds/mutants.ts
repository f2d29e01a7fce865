/**
 * Faults that are put into the code, one at a time, to see whether the worlds notice them: `npm run worlds -- --mutants`. The file has `text`
 * exactly once, and `replacement` takes its place. No two of them are in one function. `tests` are the files of `test/session` that are about the
 * function, by name. `mends` is the requirement whose mend the fault takes back, and `unseen`
 * the reason why hardly a world notices the fault: it runs in a few worlds only.
 */
export interface Mutant {
  readonly name: string
  readonly function: string
  readonly file: string
  readonly text: string
  readonly replacement: string
  readonly tests: ReadonlyArray<string>
  readonly mends?: string
  readonly unseen?: string
  /** The sessions are behind servers, see `homes` of `worlds.ts`. */
  readonly home?: "http"
}

/** The code of the file with a mutant. */
export const mutated = ({ name, replacement, text }: Mutant, source: string): string => {
  const parts = source.split(text)
  if (parts.length !== 2) throw new Error(`${name}: expected its text once, got it ${parts.length - 1} times`)
  return parts.join(replacement)
}

export const mutants: ReadonlyArray<Mutant> = [
  {
    name: "the gate is not taken",
    function: "alone",
    file: "src/session/internal/writer.ts",
    text: "self.gate.withPermit(whileAlive(self, effect))",
    replacement: "whileAlive(self, effect)",
    tests: ["writes", "turns", "faults"]
  },
  {
    name: "a conflict is taken for a write",
    function: "change",
    file: "src/session/internal/writer.ts",
    text: `      if (error._tag !== "Conflict") return giveUp(self, error)
`,
    replacement: `      if (error._tag === "Conflict") return Effect.void
      return giveUp(self, error)
`,
    tests: ["owners", "faults"]
  },
  {
    name: "a session is not read again where this process was its owner",
    function: "refresh",
    file: "src/session/internal/writer.ts",
    text: "(host.isExclusive || self.hasTurn)",
    replacement: "(host.isExclusive || self.stored.at.head.owner === self.owner)",
    tests: ["owners", "writes"]
  },
  {
    name: "the lease of another process is not looked at",
    function: "ensureFree",
    file: "src/session/internal/writer.ts",
    text: "if ((yield* host.owners.rest(stored.at)) === 0) return",
    replacement: "if ((yield* host.owners.rest(stored.at)) >= 0) return",
    tests: ["owners"]
  },
  {
    name: "a takeover has the epoch of the owner before",
    function: "claimed",
    file: "src/session/internal/writer.ts",
    text: "{ ...head, owner, epoch: head.epoch + 1 }",
    replacement: "{ ...head, owner }",
    tests: ["owners", "writes"]
  },
  {
    name: "the mark is not set",
    function: "markingOf",
    file: "src/session/internal/writer.ts",
    text: "wasBusy === isBusy ? undefined : host.markOf(id)",
    replacement: "wasBusy || isBusy ? undefined : host.markOf(id)",
    tests: ["owners", "turns"]
  },
  {
    name: "the feed has the events under the numbers before",
    function: "write",
    file: "src/session/internal/writer.ts",
    text: 'entriesFrom(self.stored?.at.head.life ?? "", from + 1, events)',
    replacement: 'entriesFrom(self.stored?.at.head.life ?? "", from, events)',
    tests: ["readers"]
  },
  {
    name: "a removed session stays in memory",
    function: "remove",
    file: "src/session/internal/writer.ts",
    text: `  self.stored = undefined
  self.feed.clear()
  return removed`,
    replacement: `  self.feed.clear()
  return removed`,
    tests: ["operating", "session"],
    unseen: "a process reads a session again before it acts; only the runner of a fleet does not"
  },
  {
    name: "a process that was stopped does not look whether it has the session",
    function: "verify",
    file: "src/session/internal/writer.ts",
    text: "return isFresh ? Effect.void : alone(self, setHead(self, true))",
    replacement: "return isFresh ? Effect.void : Effect.void",
    tests: ["owners"],
    mends: "RIGHT-13",
    unseen:
      "a process may be paused right after it looked, too: the laws allow one call after a takeover, and its loss is in the log"
  },
  {
    name: "a session that another process began counts as begun here",
    function: "store",
    file: "src/session/internal/inbox.ts",
    text: `    if (!isCreated) return yield* store(self, message, options, made, described)
`,
    replacement: "",
    tests: ["writes", "owners", "faults"]
  },
  {
    name: "the lease is not renewed",
    function: "renewed",
    file: "src/session/internal/writer.ts",
    text: "Effect.sleep(Duration.times(self.host.leaseTime, 1 / 3))",
    replacement: "Effect.sleep(Duration.times(self.host.leaseTime, 30))",
    tests: ["owners"]
  },
  {
    name: "a lease is written only with the first event",
    function: "leased",
    file: "src/session/internal/writer.ts",
    text: "isLeased && !host.isExclusive ? host.leaseTime : undefined",
    replacement: "isLeased && head.lease === undefined && !host.isExclusive ? host.leaseTime : undefined",
    tests: ["owners"]
  },
  {
    name: "the next turn does not begin",
    function: "conduct",
    file: "src/session/internal/turns.ts",
    text: "if (Exit.isSuccess(exit)) return yield* Effect.ignore(writer.alone(self, rest(self)))",
    replacement: "if (Exit.isSuccess(exit)) return",
    tests: ["turns"]
  },
  {
    name: "a turn begins while another one runs",
    function: "start",
    file: "src/session/internal/turns.ts",
    text: "self.current === undefined && !self.isClosing",
    replacement: "!self.isClosing",
    tests: ["turns"]
  },
  {
    name: "calls that a stopped turn left are not closed before a message",
    function: "settleCalls",
    file: "src/session/internal/turns.ts",
    text: "settling !== undefined && Arr.isArrayNonEmpty(settling.events)",
    replacement: "settling === undefined && Arr.isArrayNonEmpty([settling])",
    tests: ["turns", "tenants"]
  },
  {
    name: "a message that was stopped is answered",
    function: "runUntilStopped",
    file: "src/session/internal/turns.ts",
    text: "const isStopped = message !== undefined && fold.isStopped(state, message.messageId)",
    replacement: 'const isStopped = message === undefined && fold.isStopped(state, "")',
    tests: ["turns"]
  },
  {
    name: "the start of a call is not written before the call",
    function: "keep",
    file: "src/session/internal/turns.ts",
    text: "const isDue = isHeard || hadAnswer || turnEvents.areDue(turn.pending, run)",
    replacement: "const isDue = isHeard || hadAnswer || turnEvents.isEnding(event)",
    tests: ["turns", "writes"]
  },
  {
    name: "the first of the events are written with the state after all of them",
    function: "writePending",
    file: "src/session/internal/turns.ts",
    text: "turn.pending.length === 0 ? turn.run : undefined",
    replacement: "turn.pending.length < 100 ? turn.run : undefined",
    tests: ["writes", "turns", "readers"]
  },
  {
    name: "the events to write are chosen before the gate is taken",
    function: "flushFirst",
    file: "src/session/internal/turns.ts",
    text: "Effect.suspend(() => writePending(self, turn, choose(turn.pending)))",
    replacement: "writePending(self, turn, choose(turn.pending))",
    tests: ["writes", "turns"]
  },
  {
    name: "all events are chosen before the gate is taken",
    function: "flush",
    file: "src/session/internal/turns.ts",
    text: `  store(
    self,
    turn,
    Effect.suspend(() => writePending(self, turn))
  )`,
    replacement: "  store(self, turn, writePending(self, turn))",
    tests: ["writes", "turns"]
  },
  {
    name: "a part of events that belong together is written",
    function: "flushSoon",
    file: "src/session/internal/turns.ts",
    text: `      if (turn.isPartial) return waited
`,
    replacement: "",
    tests: ["writes"],
    unseen: "the process has to die between two events of one commit, which few steps of an agent without plans have"
  },
  {
    name: "the message of a turn that failed is taken again",
    function: "recordOutcome",
    file: "src/session/internal/turns.ts",
    text: "if (!isLost()) yield* flushFirst(self, turn, turnEvents.urgent)",
    replacement: "if (isLost()) yield* flushFirst(self, turn, turnEvents.urgent)",
    tests: ["turn-ends", "turns"]
  },
  {
    name: "the end of a stopped turn forgets its message",
    function: "recordEnd",
    file: "src/session/internal/turns.ts",
    text: "state !== undefined && fold.isWaiting(state, message?.messageId) ? message : undefined",
    replacement: "state !== undefined && !fold.isWaiting(state, message?.messageId) ? message : undefined",
    tests: ["turn-ends", "turns"]
  },
  {
    name: "no turn begins after calls were denied",
    function: "cancelCalls",
    file: "src/session/internal/turns.ts",
    text: `  yield* writer.write(self, events, cancelling.run)
  yield* start(self)
`,
    replacement: `  yield* writer.write(self, events, cancelling.run)
`,
    tests: ["approvals", "turns"],
    unseen:
      "a message waits beside open calls only where it has another context, and all messages of the worlds have the same"
  },
  {
    name: "a process without the agent records a failure",
    function: "leftToOthers",
    file: "src/session/internal/turns.ts",
    text: "return isHosted ? undefined : unknownAgent(self, state.agent, true)",
    replacement: "return isHosted ? undefined : undefined",
    tests: ["strangers"],
    mends: "RIGHT-13"
  },
  {
    name: "a session that closes records an interruption",
    function: "leave",
    file: "src/session/internal/turns.ts",
    text: `      halt(turn, { _tag: "Muted" })
      return Deferred.await(turn.done)`,
    replacement: `      halt(turn, { _tag: "Stopping" })
      return Deferred.await(turn.done)`,
    tests: ["owners", "turns"]
  },
  {
    name: "a turn takes its message after the gate",
    function: "runTurn",
    file: "src/session/internal/turns.ts",
    text: `      // With the gate: an edit that comes now stops the turn
      if (message !== undefined) turn.messages.add(message.messageId)
      return message
    })
  )
`,
    replacement: `      return message
    })
  )
  if (message !== undefined) turn.messages.add(message.messageId)
`,
    tests: ["edit", "turns"],
    mends: "WORLD-9"
  },
  {
    name: "a message that steers is taken twice",
    function: "steeringOf",
    file: "src/session/internal/turns.ts",
    text: ".filter(({ messageId }) => !turn.messages.has(messageId))",
    replacement: "",
    tests: ["steering"]
  },
  {
    name: "an edit looks at its message once",
    function: "replace",
    file: "src/session/internal/edit.ts",
    text: "replace(self, edit, stored)",
    replacement: "replace(self, edit, found)",
    tests: ["edit"],
    mends: "WORLD-9"
  },
  {
    name: "an id that a turn has taken is free",
    function: "knownMessage",
    file: "src/session/internal/inbox.ts",
    text: "state.received.find((received) => received.messageId === messageId) ??",
    replacement: "state.received.slice(1).find((received) => received.messageId === messageId) ??",
    tests: ["session", "turns"]
  },
  {
    name: "a decision is taken twice",
    function: "storeDecisions",
    file: "src/session/internal/inbox.ts",
    text: "return (isOpen ? state.decisions : state.decided).some((one) => isSame(decision, one))",
    replacement: "return (isOpen ? [] : state.decided).some((one) => isSame(decision, one))",
    tests: ["approvals"]
  },
  {
    name: "an interruption does not wait for its turn",
    function: "interruptTurn",
    file: "src/session/internal/inbox.ts",
    text: `  turns.halt(turn, { _tag: "Stopping" })
  yield* Deferred.await(turn.done)
  yield* writer.ensureAlive(self)`,
    replacement: `  turns.halt(turn, { _tag: "Stopping" })
  yield* writer.ensureAlive(self)`,
    tests: ["turns", "turn-ends"]
  },
  {
    name: "a message that a turn has taken is withdrawn",
    function: "withdraw",
    file: "src/session/internal/inbox.ts",
    text: "self.current?.messages.has(messageId) === true || !fold.isWaiting(state, messageId)",
    replacement: "!fold.isWaiting(state, messageId)",
    tests: ["held", "turns"],
    mends: "RIGHT-11"
  },
  {
    name: "turns begin while a session is removed",
    function: "paused",
    file: "src/session/internal/inbox.ts",
    text: "self.pauses += 1",
    replacement: "self.pauses -= 1",
    tests: ["turns", "edit", "operating"]
  },
  {
    name: "the mark of a removed session stays",
    function: "removeStored",
    file: "src/session/internal/inbox.ts",
    text: "Effect.andThen(self.host.onIdle(self.id), Effect.sync(self.feed.notify))",
    replacement: "Effect.sync(self.feed.notify)",
    tests: ["operating", "turns"],
    unseen: "the next search for turns, half a second later, removes the mark"
  },
  {
    name: "calls are denied although a turn has begun meanwhile",
    function: "cancelled",
    file: "src/session/internal/inbox.ts",
    text: "if (self.current !== undefined) return Effect.undefined",
    replacement: "if (self.failure !== undefined) return Effect.undefined",
    tests: ["turns"],
    unseen: "a person has to decide in the milliseconds in which another one interrupts"
  },
  {
    name: "a receipt names the event before",
    function: "receiptAt",
    file: "src/session/internal/inbox.ts",
    text: 'cursor: cursors.cursorOf(self.stored?.at.head.life ?? "", sequence)',
    replacement: 'cursor: cursors.cursorOf(self.stored?.at.head.life ?? "", sequence - 1)',
    tests: ["receipts"],
    mends: "RIGHT-16"
  },
  {
    name: "an edit of a message that waits stops the turn before it",
    function: "isInTurn",
    file: "src/session/internal/edit.ts",
    text: '(found._tag === "Taken" || current.messages.has(found.queued.messageId))',
    replacement: '(found._tag === "Taken" || current.messages.size > 0)',
    tests: ["edit"],
    mends: "RIGHT-15"
  },
  {
    name: "messages that wait stay after an edit",
    function: "store",
    file: "src/session/internal/edit.ts",
    text: 'Arr.append([...found.dropped.map((one) => drop(one.messageId)), { _tag: "RunEvent", event: rewound }], event)',
    replacement:
      'Arr.append([...found.dropped.slice(1).map((one) => drop(one.messageId)), { _tag: "RunEvent", event: rewound }], event)',
    tests: ["edit"]
  },
  {
    name: "any edit with a known id is the same edit",
    function: "look",
    file: "src/session/internal/edit.ts",
    text: "return known.edit === editDigest",
    replacement: 'return known.edit !== ""',
    tests: ["edit"],
    mends: "RIGHT-15",
    unseen: "no client uses the id of an edit for another one"
  },
  {
    name: "a fork that is sent again is refused",
    function: "isSame",
    file: "src/session/internal/fork.ts",
    text: "if (self.stored?.state.sequence !== 1) return false",
    replacement: "if (self.stored?.state.sequence !== 0) return false",
    tests: ["fork"],
    mends: "RIGHT-15"
  },
  {
    name: "a fork runs the calls of the other session",
    function: "beginningOf",
    file: "src/session/internal/fork.ts",
    text: "run === undefined ? undefined : yield* turnEvents.closed(run, context)",
    replacement: "run === undefined ? undefined : run",
    tests: ["fork"]
  },
  {
    name: "a fork begins with what waits in the other session",
    function: "fork",
    file: "src/session/internal/fork.ts",
    text: "writer.create(self, state.agent, now, [event], beginning, generation)",
    replacement: "writer.create(self, state.agent, now, [event], { ...beginning, queue: state.queue }, generation)",
    tests: ["fork"]
  },
  {
    name: "a write that took place is taken for a conflict",
    function: "append",
    file: "src/session/internal/eventLog.ts",
    text: "return isWritten ? Effect.succeed(found) : Effect.fail(conflict)",
    replacement: "return isWritten && first < 0 ? Effect.succeed(found) : Effect.fail(conflict)",
    tests: ["faults", "writes"]
  },
  {
    name: "the batch after the event is read",
    function: "batchOf",
    file: "src/session/internal/eventLog.ts",
    text: "return Math.max(0, low - 1)",
    replacement: "return Math.max(0, low)",
    tests: ["readers", "large"]
  },
  {
    name: "a snapshot forgets the first of its events",
    function: "compact",
    file: "src/session/internal/eventLog.ts",
    text: "first: base + 1 }]",
    replacement: "first: base + 2 }]",
    tests: ["large", "readers"]
  },
  {
    name: "an older event is looked for in the newest generation",
    function: "entries",
    file: "src/session/internal/eventLog.ts",
    text: "from > base ? undefined :",
    replacement: "from > base - 64 ? undefined :",
    tests: ["large", "readers"]
  },
  {
    name: "a session is not opened again where a new generation began",
    function: "load",
    file: "src/session/internal/eventLog.ts",
    text: 'error._tag === "Conflict" ? load(id)',
    replacement: 'error._tag === "Conflict" ? Effect.succeed(Option.none())',
    tests: ["owners", "large"],
    unseen: "a snapshot has to be made between two reads of a session that opens, and long sessions are few"
  },
  {
    name: "the newest message is taken first",
    function: "withQueued",
    file: "src/session/internal/fold.ts",
    text: "return Chunk.append(queue, message)",
    replacement: "return Chunk.prepend(queue, message)",
    tests: ["turns", "session"]
  },
  {
    name: "messages that were stopped come after those that wait",
    function: "dueMessages",
    file: "src/session/internal/fold.ts",
    text: "SessionState): Chunk.Chunk<Queued> => Chunk.appendAll(stopped, queue)",
    replacement: "SessionState): Chunk.Chunk<Queued> => Chunk.appendAll(queue, stopped)",
    tests: ["turns", "session-events"]
  },
  {
    name: "a message is dropped from the queue alone",
    function: "applyBody",
    file: "src/session/internal/fold.ts",
    text: `        stopped: Chunk.filter(state.stopped, ({ messageId }) => messageId !== event.messageId),
`,
    replacement: "",
    tests: ["turns", "held", "session-events"],
    unseen:
      "a message whose turn was stopped before it began has to be withdrawn or edited before the next turn, and few worlds have that"
  },
  {
    name: "a turn that was stopped keeps its message at the front",
    function: "applyFailure",
    file: "src/session/internal/fold.ts",
    text: "const rest = error.reason === interrupted ? without(queue, messageId) : queue",
    replacement:
      "const rest = error.reason === interrupted && messageId === undefined ? without(queue, messageId) : queue",
    tests: ["turns", "turn-ends"]
  },
  {
    name: "a decision stays after it was recorded",
    function: "undecided",
    file: "src/session/internal/fold.ts",
    text: ": decisions.filter(({ callId, digest }) => callId !== recorded.callId || digest !== recorded.digest)",
    replacement: ": decisions.filter(({ callId, digest }) => callId !== recorded.callId && digest !== recorded.digest)",
    tests: ["approvals", "session-events"],
    unseen: "a digest is that of one call, so no other decision has it"
  },
  {
    name: "a failed turn is under way",
    function: "isUnderWay",
    file: "src/session/internal/fold.ts",
    text: "run !== undefined && run.outcome === undefined && failure === undefined",
    replacement: "run !== undefined && run.outcome === undefined && failure !== undefined",
    tests: ["turns"]
  },
  {
    name: "a session without a turn is idle although decisions wait",
    function: "hasWork",
    file: "src/session/internal/fold.ts",
    text: "    waitingDecisions(self).length > 0)",
    replacement: "    waitingDecisions(self).length > 1)",
    tests: ["approvals"]
  },
  {
    name: "a message that a turn has taken is in the queue",
    function: "stateOf",
    file: "src/session/internal/readers.ts",
    text: ".filter((id) => !taken.includes(id))",
    replacement: ".filter((id) => !taken.includes(id) || sequence % 2 === 0)",
    tests: ["readers", "turns"],
    unseen: "a look may come before the event that takes the message is stored, so the law allows both queues"
  },
  {
    name: "a reader passes over an event",
    function: "entriesAfter",
    file: "src/session/internal/readers.ts",
    text: "oldest.sequence <= after.sequence + 1)",
    replacement: "oldest.sequence <= after.sequence + 2)",
    tests: ["readers"]
  },
  {
    name: "a pruned event is looked for one too late",
    function: "storedAfter",
    file: "src/session/internal/readers.ts",
    text: "const from = after.sequence + 1",
    replacement: "const from = after.sequence + 2",
    tests: ["readers"]
  },
  {
    name: "a waiting reader is not told",
    function: "notify",
    file: "src/session/internal/eventFeed.ts",
    text: `    const waiting = changed
    changed = Deferred.makeUnsafe()
    Deferred.doneUnsafe(waiting, Exit.void)`,
    replacement: `    const waiting = changed
    if (entries.length % 3 === 0) return
    changed = Deferred.makeUnsafe()
    Deferred.doneUnsafe(waiting, Exit.void)`,
    tests: ["readers", "turns"],
    unseen: "a reader looks again each second, and no law says when it sees an event"
  },
  {
    name: "the feed keeps events of before a takeover",
    function: "clear",
    file: "src/session/internal/eventFeed.ts",
    text: "clear: () => set([])",
    replacement: "clear: () => set(entries)",
    tests: ["owners", "readers"]
  },
  {
    name: "a reader begins again where it began",
    function: "eventsOf",
    file: "src/session/internal/localSessions.ts",
    text: `        seen = cursors.placeOf(entry)
`,
    replacement: "",
    tests: ["owners", "readers"]
  },
  {
    name: "a lost session stays in memory",
    function: "lookup",
    file: "src/session/internal/localSessions.ts",
    text: "const forget = Effect.andThen(marks.forget(id), RcMap.invalidate(sessions, id))",
    replacement: "const forget = marks.forget(id)",
    tests: ["owners"]
  },
  {
    name: "a call that waits for a person is started at once",
    function: "startsAtOnce",
    file: "src/session/internal/turnEvents.ts",
    text: '?.approval === "never"',
    replacement: '?.approval !== "never"',
    tests: ["writes", "approvals"],
    unseen: "an answer that is not stored when its process dies is asked for again, and nobody has seen its calls"
  },
  {
    name: "a message that was taken is not kept where the turn fails",
    function: "isUrgent",
    file: "src/session/internal/turnEvents.ts",
    text: 'event._tag === "InputAdded" || (event._tag === "ModelAnswered" && !isLastAnswer(event))',
    replacement: 'event._tag === "ModelAnswered" && !isLastAnswer(event)',
    tests: ["writes", "turn-ends"]
  },
  {
    name: "an answer of a child is not paid for",
    function: "hasAnswer",
    file: "src/session/internal/turnEvents.ts",
    text: 'runParts.innermost(event.event).event._tag === "ModelAnswered"',
    replacement: 'runParts.innermost(event.event).event._tag === "StepStarted"',
    tests: ["writes"],
    unseen:
      "an answer is lost only if its process dies in the 100 ms after it, and the ledger does not count calls of models"
  },
  {
    name: "a muted turn does not end",
    function: "isEnding",
    file: "src/session/internal/turnEvents.ts",
    text: 'new Set(["ToolFinished", "RunInterrupted", "RunFinished"])',
    replacement: 'new Set(["ToolFinished", "RunFinished"])',
    tests: ["muted", "turn-ends"],
    unseen:
      "the run cuts off its hooks a second after it was stopped, so the turn ends a second later, and no law has a time"
  },
  {
    name: "a call that was started counts as finished",
    function: "hasStartedTool",
    file: "src/session/internal/turnEvents.ts",
    text: 'status._tag === "Started" &&',
    replacement: 'status._tag === "Settled" &&',
    tests: ["owners"],
    unseen: "a process that closes cuts calls off after 50 ms anyway, and the log shows them as lost"
  },
  {
    name: "a call that was not started is closed as lost",
    function: "settle",
    file: "src/run/internal/endings.ts",
    text: 'status._tag === "Started" ? runTransition.lostCall : stoppedCall',
    replacement: 'status._tag !== "Started" ? runTransition.lostCall : stoppedCall',
    tests: ["fork", "tenants"]
  },
  {
    name: "a fork has the outcome of a turn that goes on",
    function: "closed",
    file: "src/session/internal/turnEvents.ts",
    text: "const isOpen = calls.length > 0 || plan !== undefined || outcome === undefined",
    replacement: "const isOpen = plan !== undefined || outcome === undefined",
    tests: ["fork"]
  },
  {
    name: "a call that failed before it was run is not open",
    function: "hasOpenCalls",
    file: "src/session/internal/turnEvents.ts",
    text: "(run.outcome === undefined && run.calls.length > 0)",
    replacement: "(run.outcome !== undefined && run.calls.length > 0)",
    tests: ["turn-ends", "turns"],
    unseen: "nothing but a model fails in the worlds, and no call is open then"
  },
  {
    name: "a denial also takes calls that are decided",
    function: "decisionsFor",
    file: "src/session/internal/turnEvents.ts",
    text: "return [...decisions, ...open.map((request) => Run.deny(request, { reason: passedBy }))]",
    replacement: "return [...open.map((request) => Run.deny(request, { reason: passedBy }))]",
    tests: ["approvals"],
    unseen: "a message that denies has to come between a decision and the turn that takes it, some milliseconds"
  },
  {
    name: "the failure of a turn takes the wrong message",
    function: "failing",
    file: "src/session/internal/turnEvents.ts",
    text: "const isHeld = !isStop && !isDropped && !isMended && isDue",
    replacement: "const isHeld = !isDropped && !isMended && isDue",
    tests: ["turn-ends", "held"]
  },
  {
    name: "a new log loses its values to the removal of the one before",
    function: "remove",
    file: "src/store/internal/journal.ts",
    text: `    // Listed before the head is deleted: a log whose values are written after that keeps them
    const owned = yield* values.list(journalKey(key))
    const isRemoved = yield* removeHead(key)`,
    replacement: "    const isRemoved = yield* removeHead(key)",
    tests: ["operating", "session", "owners"]
  },
  {
    name: "a value that is there is overwritten",
    function: "set",
    file: "src/store/internal/memoryStore.ts",
    text: `        if (isExpected) values.set(key, value)
        return isExpected`,
    replacement: `        values.set(key, value)
        return true`,
    tests: ["owners", "writes"]
  },
  {
    name: "a mark is left",
    function: "removeMark",
    file: "src/store/internal/journal.ts",
    text: "return version === undefined ? Effect.void : Effect.ignore(store.delete(key, { version }))",
    replacement: "return version !== undefined ? Effect.void : Effect.ignore(store.delete(key, { version }))",
    tests: ["turns", "owners"],
    unseen: "the store of the worlds has commits, and the one that ends a turn removes its mark"
  },
  {
    name: "a mark that another process has set is kept",
    function: "setMark",
    file: "src/store/internal/journal.ts",
    text: 'Effect.catchTag("VersionConflict", ({ found }) => setMark(store, mark, found))',
    replacement: 'Effect.catchTag("VersionConflict", () => Effect.void)',
    tests: ["owners"],
    unseen:
      "a mark is missed only where two processes work on one session at the same moment, one dies, and nobody calls"
  },
  {
    name: "the values of a lost write are removed with those of the log",
    function: "writeHead",
    file: "src/store/internal/journal.ts",
    text: "if (isGarbage && isReplaced(next, found))",
    replacement: "if (isGarbage || isReplaced(next, found))",
    tests: ["owners", "faults"]
  },
  {
    name: "batches of one owner have the same number",
    function: "withEvents",
    file: "src/store/internal/journal.ts",
    text: "batch: count + index, events }",
    replacement: "batch: Math.max(0, count - 1) + index, events }",
    tests: ["writes"]
  },
  {
    name: "a write that is there is taken for that of another writer",
    function: "writeNamed",
    file: "src/store/internal/journal.ts",
    text: 'isWritten.failure._tag === "Damaged" ? yield* head(key) : before',
    replacement: 'isWritten.failure._tag !== "Damaged" ? yield* head(key) : before',
    tests: ["faults"],
    unseen: "a batch has a key that no other writer uses"
  },
  {
    name: "the batches of an older owner are left out",
    function: "placesOf",
    file: "src/store/internal/journal.ts",
    text: "for (let batch = Math.max(0, from - before)",
    replacement: "for (let batch = Math.max(before === 0 ? 0 : 1, from - before)",
    tests: ["owners"]
  },
  {
    name: "a process that is not there at one look is gone",
    function: "believed",
    file: "src/store/internal/leases.ts",
    text: "return Math.max(0, since + reconnection - now)",
    replacement: "return Math.max(0, since + reconnection - now) * 0",
    tests: ["owners"],
    mends: "RIGHT-13",
    unseen: "a process of a world is alive or gone, and never without its lock"
  },
  {
    name: "a head has the lease of the owner before",
    function: "withLease",
    file: "src/store/internal/leases.ts",
    text: "time === undefined ? { ...withoutLease(head), updated: now } : { ...head, ...timesOf(now, time) }",
    replacement: "time === undefined ? { ...withoutLease(head), updated: now } : { ...timesOf(now, time), ...head }",
    tests: ["owners"]
  },
  {
    name: "a message that waits behind other calls has no answer",
    function: "waitingFor",
    file: "src/session/Session.ts",
    text: 'const isWaiting = status === "waiting" && queue.includes(messageId)',
    replacement: 'const isWaiting = status === "waiting" && queue.length > 1000',
    tests: ["turns"],
    mends: "RIGHT-12",
    unseen: "all messages of the worlds have the same context, so none waits behind the calls of another one"
  },
  {
    name: "a fork has the limits of one message",
    function: "create",
    file: "src/session/internal/eventLog.ts",
    text: "yield* before === undefined ? eachWithin(events)(begun) : ofAnySize(begun)",
    replacement: "yield* eachWithin(events)(begun)",
    tests: ["fork"],
    mends: "RIGHT-10",
    unseen: "the values of the worlds are small"
  },
  {
    name: "the beginning of a model call is stored with its answer",
    function: "shown",
    file: "src/session/internal/turnEvents.ts",
    text: "isUrgent(event) || beginnings.has(runParts.innermost(event).event._tag)",
    replacement: "isUrgent(event)",
    tests: ["turns"],
    mends: "RIGHT-16",
    unseen: "no law says when an event is stored, only in which order"
  },
  {
    name: "a value that is made again has a version of before",
    function: "makeVersions",
    file: "src/store/internal/storeKeys.ts",
    text: `    count += 1
`,
    replacement: "",
    tests: ["writes", "owners"],
    unseen:
      "only marks are deleted and made again, and a mark that is missed shows only where a process dies and nobody calls"
  },
  {
    name: "the next message is taken while a turn is under way",
    function: "nextMessage",
    file: "src/session/internal/fold.ts",
    text: "isUnderWay(self) || waitsForCalls(self) ? undefined",
    replacement: "waitsForCalls(self) ? undefined",
    tests: ["turns", "owners"]
  },
  {
    name: "calls are denied in a run that was interrupted before",
    function: "cancel",
    file: "src/run/internal/endings.ts",
    text: `  if (state.outcome?._tag === "Interrupted") return denied
`,
    replacement: "",
    tests: ["turns", "approvals"],
    unseen: "the run is ended once more, with the same end"
  },
  {
    name: "a lost write is not made again",
    function: "untilStored",
    file: "src/session/internal/writer.ts",
    text: "Schedule.upTo({ duration: patience })",
    replacement: "Schedule.upTo({ duration: Duration.times(patience, 0) })",
    tests: ["faults"],
    unseen: "the session is opened again, and the client makes its call again"
  },
  {
    name: "a session is taken over while its lease holds",
    function: "claim",
    file: "src/session/internal/writer.ts",
    text: `  yield* ensureFree(self)
  yield* setHead(self, forTurn`,
    replacement: "  yield* setHead(self, forTurn",
    tests: ["owners"]
  },
  {
    name: "a message that cannot begin stays before the others",
    function: "hold",
    file: "src/session/internal/fold.ts",
    text: "queue: Chunk.filter(state.queue, (one) => !isNamed(one)),",
    replacement: "queue: state.queue,",
    tests: ["held"],
    mends: "RIGHT-11",
    unseen: "each message of the worlds can begin in some process, and the others leave it alone"
  },
  {
    name: "the context of a message is walked without a bound",
    function: "read",
    file: "src/session/internal/incoming.ts",
    text: `  yield* refused(checkKeys(context, { what, path: "/context" }))
`,
    replacement: `  void what
`,
    tests: ["hostile"],
    mends: "RIGHT-14",
    unseen: "the values of the worlds are small"
  },
  {
    name: "requests of a stored session are not compared with those that were asked",
    function: "SessionState",
    file: "src/session/internal/fold.ts",
    text: "run: Schema.optionalKey(runTransition.StateSchema)",
    replacement: "run: Schema.optionalKey(runParts.StateSchema)",
    tests: ["approvals", "held"],
    mends: "RIGHT-17",
    unseen: "nobody edits the store of a world"
  },
  {
    name: "a first message whose write failed is not looked for",
    function: "create",
    file: "src/session/internal/writer.ts",
    text: 'error._tag === "StoreFailed" ? giveUp(self, error)',
    replacement: 'replaced !== undefined && error._tag === "StoreFailed" ? giveUp(self, error)',
    tests: ["faults", "writes"],
    mends: "WORLD-9",
    unseen:
      "the client sends the message again, and each read of a session finds what was written; a small world of its own shows the fault (test/worlds/found.test.ts)"
  },
  {
    name: "a turn fails where the store fails to read its agent",
    function: "agentOf",
    file: "src/session/internal/turns.ts",
    text: "stored(definition).pipe(writer.untilStored(self.host), ",
    replacement: "stored(definition).pipe(",
    tests: ["definitions", "faults"],
    mends: "WORLD-9"
  },
  {
    name: "a turn that the next owner resumes counts as interrupted",
    function: "isLeft",
    file: "src/session/internal/turns.ts",
    text: 'course._tag === "Muted" && progress._tag !== "Ended"',
    replacement: 'course._tag === "Muted" && progress._tag === "Ended"',
    tests: ["turns", "owners"],
    mends: "WORLD-9"
  },
  {
    name: "the mark of a turn that was left is removed before the turn is run",
    function: "wake",
    file: "src/session/internal/localSessions.ts",
    text: `      yield* run(id)
      yield* marks.remove(id, mark.value)
`,
    replacement: `      yield* marks.remove(id, mark.value)
      yield* run(id)
`,
    tests: ["owners"]
  },
  {
    name: "a turn that another process has left is not stopped",
    function: "stop",
    file: "src/session/internal/inbox.ts",
    text: "const begun = self.unable === undefined ? turns.start(self, evenPaused) : Effect.void",
    replacement: "const begun = Effect.void",
    tests: ["owners"],
    unseen:
      "an interruption has to come in the half second after a process left its turn; with `--more 0 --processes 2 --stops 6 --kills 4` world 9057 notices it (receipts name their events)"
  },
  {
    name: "results stay in the order in which they came to the page of AG-UI",
    function: "CallEnded",
    file: "src/http/internal/agUi.ts",
    text: "return later.length > 0 ? yield* replace(after) : after",
    replacement: "return later.length > 99 ? yield* replace(after) : after",
    tests: ["chat-event"],
    home: "http"
  },
  {
    name: "a run of AG-UI begins without the stored messages",
    function: "replace",
    file: "src/http/internal/agUi.ts",
    text: '  yield { type: "MESSAGES_SNAPSHOT", messages }\n',
    replacement: '  yield { type: "MESSAGES_SNAPSHOT", messages: own.messages.slice(-1) }\n',
    tests: ["chat-event"],
    home: "http"
  },
  {
    name: "a page of the AI SDK does not see where an answer begins",
    function: "AnswerBegun",
    file: "src/http/internal/uiMessages.ts",
    text: '    yield { type: "start-step" }\n',
    replacement: "",
    tests: ["chat-event"],
    home: "http"
  },
  {
    name: "the end of a text does not reach the page of the AI SDK",
    function: "PartChanged",
    file: "src/http/internal/uiMessages.ts",
    text: "if (isOver) yield { type: `${type}-end`, id }",
    replacement: 'if (isOver && delta !== "") yield { type: `${type}-end`, id }',
    tests: ["chat-event"],
    home: "http"
  },
  {
    name: "a text is shown before the start of its turn",
    function: "storedBefore",
    file: "src/session/internal/turns.ts",
    text: "turn.isWriting || turnEvents.shown(turn.pending).length > 0 ? undefined : writer.sequenceOf(self)",
    replacement: "turn.isWriting ? writer.sequenceOf(self) : writer.sequenceOf(self)",
    tests: ["live"]
  },
  {
    name: "an answer that does not fit is taken",
    function: "judge",
    file: "src/run/internal/runRequests.ts",
    text: "    onFailure: refuseAnswer,\n",
    replacement: "    onFailure: () => Result.succeed(verdictOf(decision)),\n",
    tests: ["questions"]
  },
  {
    name: "a second answer to a question is stored",
    function: "checkDecisions",
    file: "src/session/internal/inbox.ts",
    text: "  if (late !== undefined) return yield*",
    replacement: "  if (late === decided[-1] && late !== undefined) return yield*",
    tests: ["questions"]
  },
  {
    name: "the run of a model that repeats itself does not end",
    function: "isEnd",
    file: "src/run/internal/repetition.ts",
    text: "times >= (limits?.end ?? defaults.end)",
    replacement: "times > (limits?.end ?? defaults.end)",
    tests: ["upgrades"]
  }
]
