/** RIGHT-11, L11: a message that cannot begin holds up no other one, and is tried again, or withdrawn. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Layer, Option, Schema, type Scope } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Message, ModelRegistry, ToolResolver, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as t from "./sessions.ts"

const provider = (answer: ScriptedModel.Script) =>
  ModelRegistry.provider({ options: ModelRegistry.Sampling, model: () => ScriptedModel.layer(answer) })

const support = Agent.make("support", { model: "demo/small" })

const users = (sessions: Session.Service, id = "a") =>
  Effect.map(sessions.history(id), (history) =>
    Conversation.messages(history).flatMap((message) => (message.role === "user" ? [Message.text(message)] : []))
  )

const ask = (sessions: Session.Service, text: string, options?: Session.SendOptions) =>
  Effect.provideService(
    Effect.map(Session.turn("a", text, { messageId: text, ...options }), (answer) => answer.text),
    Session.Session,
    sessions
  )

const heldEvents = (sessions: Session.Service) =>
  Effect.map(t.stored(sessions, "a"), (entries) =>
    entries.flatMap(({ event }) => (event._tag === "TurnFailed" ? [[event.error.reason, event.held]] : []))
  )

const within = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.timeoutOrElse(effect, { duration: "1 minute", orElse: () => Effect.die(new Error("it does not end")) })

/** Deploys over one store: with the provider of the second model, and without it. */
const makeDeploys = Effect.map(t.store, (store) => {
  const over = (providers: { readonly [name: string]: ReturnType<typeof provider> }) =>
    t.sessionsOf(
      Session.layer([support], { models: () => Effect.succeed(true), drainTime: "1 millis" }).pipe(
        Layer.provide([store, ModelRegistry.layer(providers)])
      )
    )
  return {
    whole: over({ demo: provider(t.echo), other: provider(t.echo) }),
    without: over({ demo: provider(t.echo) }),
    hanging: (reached: Deferred.Deferred<void>) =>
      over({
        demo: provider(() => Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)),
        other: provider(t.echo)
      })
  }
})

/** A message whose model a deploy takes away while the turn before it runs. */
const withHeld = <A, E>(use: (deploys: Effect.Success<typeof makeDeploys>) => Effect.Effect<A, E, Scope.Scope>) =>
  Effect.gen(function* () {
    const deploys = yield* makeDeploys
    yield* Effect.scoped(
      Effect.gen(function* () {
        const reached = yield* Deferred.make<void>()
        const sessions = yield* deploys.hanging(reached)
        yield* sessions.send("a", "one", { messageId: "one" })
        yield* Deferred.await(reached)
        yield* sessions.send("a", "gone", { messageId: "gone", model: "other/large" })
      })
    )
    return yield* use(deploys)
  }).pipe(Effect.scoped)

describe("RIGHT-11 L11 a message that cannot begin", () => {
  it.live("is held with the reason, later ones are answered before it, and the next deploy answers it", () =>
    withHeld(({ whole, without }) =>
      Effect.gen(function* () {
        yield* Effect.scoped(
          Effect.gen(function* () {
            const sessions = yield* without
            assert.strictEqual(yield* within(ask(sessions, "two")), "re: two")
            assert.strictEqual(yield* within(ask(sessions, "three")), "re: three")
            assert.deepStrictEqual(yield* heldEvents(sessions), [["ModelRegistryFailed", ["gone"]]])
            const { queue, status } = yield* t.stateOf(sessions, "a")
            assert.deepStrictEqual([queue, status], [["gone"], "idle"])
            // Sent again, it is tried again, and fails for its sender
            assert.strictEqual(yield* t.reasonOf(within(ask(sessions, "gone", { model: "other/large" }))), "TurnFailed")
            assert.strictEqual(yield* within(ask(sessions, "four")), "re: four")
          })
        )
        const sessions = yield* whole
        yield* t.eventually(Effect.map(users(sessions), (all) => all.includes("gone")))
        assert.deepStrictEqual(yield* users(sessions), ["one", "two", "three", "four", "gone"])
        assert.strictEqual(yield* within(ask(sessions, "gone", { model: "other/large" })), "re: gone")
      })
    )
  )

  it.live("is withdrawn with an event, once, and one that a turn has taken is not", () =>
    withHeld(({ whole, without }) =>
      Effect.gen(function* () {
        yield* Effect.scoped(
          Effect.gen(function* () {
            const sessions = yield* without
            yield* within(ask(sessions, "two"))
            const { sequence } = yield* t.stateOf(sessions, "a")
            assert.isTrue(yield* sessions.withdraw("a", "gone"))
            for (const none of ["gone", "two", "unknown"]) assert.isFalse(yield* sessions.withdraw("a", none))
            const [entry, ...more] = (yield* t.stored(sessions, "a")).slice(sequence)
            assert(entry?.event._tag === "MessageDropped")
            assert.deepStrictEqual(
              [entry.event.messageId, entry.event.error.reason, more.length],
              ["gone", "Withdrawn", 0]
            )
            assert.deepStrictEqual((yield* t.stateOf(sessions, "a")).queue, [])
          })
        )
        const sessions = yield* whole
        assert.strictEqual(yield* within(ask(sessions, "three")), "re: three")
        assert.deepStrictEqual(yield* users(sessions), ["one", "two", "three"])
        assert.strictEqual(yield* t.reasonOf(sessions.withdraw("none", "m")), "NotFound")
      })
    )
  )

  it.live("of which the turn is being prepared is withdrawn, and the turn does not begin", () =>
    Effect.gen(function* () {
      let prepared = 0
      const slow = Agent.make("slow", {
        instructions: Effect.suspend(() => (++prepared === 1 ? Effect.never : Effect.succeed("Help.")))
      })
      const sessions = yield* t.sessionsOf(
        Session.layer([slow]).pipe(Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer(t.echo)]))
      )
      yield* sessions.send("a", "one", { messageId: "one" })
      yield* t.eventually(Effect.sync(() => prepared === 1))
      assert.isTrue(yield* within(sessions.withdraw("a", "one")))
      assert.strictEqual(yield* within(ask(sessions, "two")), "re: two")
      assert.deepStrictEqual(yield* users(sessions), ["two"])
    }).pipe(Effect.scoped)
  )

  it.live("waits for a new definition, which is taken before it and answers it, too", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const Look = Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String })
      const toolkit = Toolkit.make(Look)
      const all = ToolResolver.layerToolkit(toolkit).pipe(
        Layer.provide(toolkit.toLayer({ look: () => Effect.succeed("blue") }))
      )
      const over = (tools: typeof all) =>
        t.sessionsOf(
          Session.layer([], { definitions: Agent.decode }).pipe(
            Layer.provide([
              store,
              ModelRegistry.layer({ demo: provider(({ messages }) => ({ text: `${messages[0]?.text}` })) }),
              tools
            ])
          )
        )
      const encode = (instructions: string, tools: ReadonlyArray<Tool.Any>) =>
        Agent.encode(Agent.make("poet", { model: "demo/small", instructions, toolkit: tools }))
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* over(all)
          yield* ask(sessions, "one", { definition: yield* encode("I look.", [Look]) })
        })
      )
      const sessions = yield* over(ToolResolver.layerToolkit(Toolkit.empty))
      assert.strictEqual(yield* t.reasonOf(within(ask(sessions, "two"))), "TurnFailed")
      assert.deepStrictEqual(yield* heldEvents(sessions), [["DefinitionInvalid", ["two"]]])
      yield* within(ask(sessions, "three", { definition: yield* encode("I write.", []) }))
      yield* t.eventually(Effect.map(users(sessions), (all) => all.includes("two")))
      assert.deepStrictEqual(yield* users(sessions), ["one", "three", "two"])
      assert.isTrue(Option.isSome(yield* sessions.state("a")))
    }).pipe(Effect.scoped)
  )
})
