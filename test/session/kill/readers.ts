/** Readers of one session, who lose their connection now and then and continue after the last event that they saw. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { Random } from "../../random.ts"
import type { Operations, Seen } from "./door.ts"

/** The events that a reader saw, and the faults among them. */
export interface Reader {
  readonly seen: Array<string>
  /** Of the last event that was seen. */
  cursor?: string
  readonly faults: Array<string>
}

const tag = /"_tag":"(MessageReceived|DecisionsReceived|TurnFailed|RunFinished)"/

/** The last thing that began or ended a turn, and whether calls wait. */
export interface Progress {
  settled: boolean
  waiting: boolean
}

const note = (progress: Progress, text: string): void => {
  const found = tag.exec(text)?.[1]
  if (found === undefined) return
  progress.settled = found === "TurnFailed" || found === "RunFinished"
  progress.waiting = found === "RunFinished" && text.includes(`"_tag":"AwaitingApproval"`)
}

/** Takes one event, which has to be the next one. */
export const take = (session: string, reader: Reader, { cursor, sequence, text }: Seen): void => {
  const { faults, seen } = reader
  const next = seen.length + 1
  if (sequence > next) faults.push(`${session}: number ${sequence} came where ${next} was to come`)
  if (sequence < next) {
    const same = seen[sequence - 1] === text ? "again" : `again with another text: ${seen[sequence - 1]} and ${text}`
    faults.push(`${session}: number ${sequence} came ${same}`)
    return
  }
  seen[sequence - 1] = text
  reader.cursor = cursor
}

/** Follows a session until it is interrupted. It is cut off some time after the first event, or where none comes. */
export const follow = (door: Operations, session: string, reader: Reader, progress: Progress, dice: Random) =>
  Effect.gen(function* () {
    const begun = yield* Deferred.make<void>()
    const cut = Effect.andThen(
      Effect.timeoutOption(Deferred.await(begun), 6_000),
      Effect.suspend(() => Effect.sleep(50 + dice.below(1500)))
    )
    const following = door.events(session, reader.cursor).pipe(
      Stream.runForEach((entry) =>
        Effect.sync(() => {
          take(session, reader, entry)
          note(progress, entry.text)
          Deferred.doneUnsafe(begun, Exit.void)
        })
      )
    )
    yield* Effect.ignore(Effect.raceFirst(following, cut))
    yield* Effect.sleep(5 + dice.below(50))
  }).pipe(Effect.forever)
