/**
 * Sessions as one writes them in an afternoon: a value in the store for each session, and a turn that begins again after
 * its process died. The figures of a run have to show what is wrong with that.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { type Agent, VersionedStore } from "effect-emissary"
import * as agents from "./agents.ts"
import { Door, DoorError, type Said } from "./door.ts"

interface Home {
  readonly agent: string
  readonly received: ReadonlyArray<string>
  readonly queue: ReadonlyArray<string>
  readonly said: ReadonlyArray<Said>
  readonly events: ReadonlyArray<string>
}

const failed = (error: { readonly _tag: string; readonly message: string }) =>
  new DoorError({ reason: error._tag, text: error.message })

export const layer = <R>(hosts: ReadonlyArray<Agent.Agent<unknown, R>>) =>
  Layer.effect(
    Door,
    Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      const fork = Effect.runForkWith(yield* Effect.context<R>())
      const busy = new Set<string>()

      const load = (id: string) => store.get(`naive/${id}`)
      // Sound: `change` wrote it
      const homeOf = (value: unknown) => value as Home
      const empty = (agent: string): Home => ({ agent, received: [], queue: [], said: [], events: [] })
      const change = (id: string, agent: string, f: (home: Home) => Home) =>
        Effect.gen(function* () {
          const found = yield* load(id)
          const home = f(Option.match(found, { onNone: () => empty(agent), onSome: ({ value }) => homeOf(value) }))
          const version = Option.map(found, ({ version }) => version)
          yield* store.compareAndSet(`naive/${id}`, version, JSON.parse(JSON.stringify(home)))
          return home
        }).pipe(Effect.retry({ while: ({ _tag }) => _tag === "VersionConflict" }))

      const work = (id: string): Effect.Effect<void, unknown, R> =>
        Effect.gen(function* () {
          const home = homeOf(Option.getOrThrow(yield* load(id)).value)
          const [text] = home.queue
          const host = hosts.find(({ name }) => name === home.agent)
          if (text === undefined || host === undefined) return
          yield* host.run(text)
          const turn = [
            { role: "user", text },
            { role: "assistant", text: agents.answerTo(text) }
          ]
          yield* change(id, home.agent, ({ events, queue, said, ...rest }) => ({
            ...rest,
            queue: queue.slice(1),
            said: [...said, ...turn],
            events: [...events, `{"_tag":"RunFinished","text":"${text}"}`]
          }))
          yield* work(id)
        })
      const wake = (id: string) =>
        Effect.sync(() => {
          if (busy.has(id)) return
          busy.add(id)
          fork(
            Effect.ensuring(
              Effect.ignore(work(id)),
              Effect.sync(() => busy.delete(id))
            )
          )
        })

      const { keys } = yield* store.list({ prefix: "naive/" })
      yield* Effect.forEach(keys, (key) => wake(key.slice("naive/".length)), { discard: true })

      const found = (id: string) =>
        Effect.mapBoth(load(id), {
          onFailure: failed,
          onSuccess: Option.match({ onNone: () => empty(""), onSome: ({ value }) => homeOf(value) })
        })
      return Door.of({
        run: (id, text, agent) =>
          Effect.gen(function* () {
            const { said } = homeOf(Option.getOrUndefined(yield* load(id))?.value ?? empty(agent))
            const answer = said.find(({ role }) => role === "assistant")
            if (answer !== undefined) return { outcome: "Completed", output: answer.text }
            yield* change(id, agent, (home) => (home.queue.includes(text) ? home : { ...home, queue: [text] }))
            yield* wake(id)
            return { outcome: "Running" }
          }).pipe(Effect.mapError(failed)),
        read: () => Effect.succeed(undefined),
        send: (id, text, messageId, agent) =>
          change(id, agent, (home) =>
            home.received.includes(messageId)
              ? home
              : {
                  ...home,
                  received: [...home.received, messageId],
                  queue: [...home.queue, text],
                  events: [...home.events, `{"_tag":"MessageReceived","text":"${text}"}`]
                }
          ).pipe(Effect.mapBoth({ onFailure: failed, onSuccess: ({ events }) => events.length }), Effect.tap(wake(id))),
        decide: () => Effect.succeed(0),
        resume: () => Effect.void,
        interrupt: () => Effect.succeed(false),
        events: (id, after) =>
          Stream.suspend(() => {
            let last = Number(after ?? 0)
            return Stream.fromEffect(found(id)).pipe(
              Stream.flatMap(({ events }) => {
                const fresh = events.slice(last).map((text, index) => {
                  const sequence = last + index + 1
                  return { sequence, cursor: `${sequence}`, text }
                })
                last = Math.max(last, events.length)
                return Stream.fromIterable(fresh)
              }),
              Stream.repeat(Schedule.spaced("30 millis"))
            )
          }),
        state: (id) =>
          Effect.map(found(id), ({ events, queue }) => ({
            status: queue.length > 0 ? "running" : "idle",
            sequence: events.length,
            queue: queue.length,
            requests: 0
          })),
        history: (id) => Effect.map(found(id), ({ said }) => said)
      })
    })
  )
