/** Everything that the clients of a world do: users, readers, people who decide, jobs and releases. */
import { Effect, Fiber } from "effect"
import * as clients from "./clients.ts"
import * as jobs from "./jobs.ts"
import * as releases from "./releases.ts"

/** Where the users are calm, they stop nothing, and leave one session alone. */
export const script = Effect.fnUntraced(function* (
  world: clients.World,
  diary: clients.Diary,
  options: {
    readonly sessions?: number
    readonly calls?: number
    readonly releases?: number
    /** There is a session whose model asks the user, and repeats itself. */
    readonly asks?: boolean
    readonly atRest?: Effect.Effect<void> | undefined
  } = {}
) {
  const { asks = false, atRest = Effect.void, calls: count = 6, releases: deploys = 0, sessions = 2 } = options
  const { isCalm } = diary
  const names = diary.hasMore ? `a${clients.withDefinition}` : "ab"
  const ids = Array.from({ length: sessions }, (_, index) => names.charAt(index) || `s${index}`)
  const read = [...ids, ...(diary.hasMore ? [jobs.session] : []), ...(asks ? [clients.asking] : [])]
  const others = yield* Effect.forEach(read, (id) =>
    Effect.all([
      Effect.forkChild(clients.follow(world, diary, id)),
      Effect.forkChild(clients.follow(world, diary, id, new Map())),
      Effect.forkChild(Effect.forever(Effect.andThen(clients.nap(50, 400), clients.decide(world, diary, id)))),
      Effect.forkChild(diary.hasMore ? clients.unhang(world, diary, id) : Effect.void)
    ])
  )
  const users = ids.flatMap((id) => ["x", "y"].map((user) => clients.use(world, diary, { session: id, user, count })))
  const more = diary.hasMore ? [jobs.use(world, diary), releases.deploy(world, deploys)] : []
  if (asks) users.push(clients.useAsking(world, diary))
  const all = [...users, ...more, ...(isCalm ? [clients.sendAlone(world, diary)] : [])]
  yield* Effect.all(all, { concurrency: "unbounded" })
  diary.releases = [...(yield* releases.Releases).had]
  yield* world.calm
  if (isCalm) yield* Effect.forEach(others, ([, , deciding]) => Fiber.interrupt(deciding))
  yield* Effect.sleep("5 seconds")
  if (isCalm) yield* clients.checkAlone(world, diary)
  if (diary.hasMore) yield* jobs.finish(world, diary)
  const states = yield* clients.rest(world, diary)
  diary.rested = diary.ticks
  for (const [session, { sequence }] of states) yield* clients.readAll(world, diary, { session, sequence })
  yield* Effect.sleep("5 seconds")
  for (const [session, screen] of diary.screens) {
    for (const id of screen.keys()) diary.problems.push(`a live reader of ${session} still shows the draft ${id}`)
  }
  yield* Effect.forEach(others.flat(), (fiber) => Fiber.interrupt(fiber))
  yield* atRest
  yield* clients.removeAll(
    world,
    diary,
    states.map(([id]) => id)
  )
  return states
})
