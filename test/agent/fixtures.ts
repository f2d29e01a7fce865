import { Context, Deferred, Effect, Layer, Ref, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Conversation, Run, ToolFailure, ToolRuntime } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { testWith } from "../test.ts"

/** Records which bodies ran, in order, and lets tests hold them. */
export class Probe extends Context.Service<
  Probe,
  {
    readonly ran: Ref.Ref<ReadonlyArray<string>>
    readonly interrupted: Ref.Ref<ReadonlyArray<string>>
    readonly started: Deferred.Deferred<void>
    readonly gate: Deferred.Deferred<void>
  }
>()("test/Probe") {
  static readonly layer = Layer.effect(
    Probe,
    Effect.all({
      ran: Ref.make<ReadonlyArray<string>>([]),
      interrupted: Ref.make<ReadonlyArray<string>>([]),
      started: Deferred.make<void>(),
      gate: Deferred.make<void>()
    })
  )
  static readonly ran = Effect.flatMap(Probe, (probe) => Ref.get(probe.ran))
  static readonly interrupted = Effect.flatMap(Probe, (probe) => Ref.get(probe.interrupted))
}

export const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
})
export const Fail = Tool.make("fail", {
  description: "Fails as declared",
  parameters: Schema.Struct({ reason: Schema.String }),
  success: Schema.String,
  failure: ToolFailure
})
export const Boom = Tool.make("boom", { description: "Has a bug", success: Schema.String })
export const Hold = Tool.make("hold", {
  description: "Waits until the gate opens",
  parameters: Schema.Struct({ id: Schema.String }),
  success: Schema.String
})
export const Delete = Tool.make("delete", {
  description: "Deletes a file",
  parameters: Schema.Struct({ path: Schema.String }),
  success: Schema.String,
  needsApproval: true
})

export const toolkit = Toolkit.make(Echo, Fail, Boom, Hold, Delete)

export const handlers = toolkit.toLayer(
  Effect.gen(function* () {
    const probe = yield* Probe
    const note = (name: string) => Ref.update(probe.ran, (all) => [...all, name])
    return toolkit.of({
      echo: ({ text }) => Effect.as(note(`echo ${text}`), text),
      fail: ({ reason }) => Effect.andThen(note("fail"), ToolFailure.error(reason)),
      boom: () => Effect.andThen(note("boom"), Effect.die(new Error("a bug"))),
      hold: ({ id }) =>
        note(`hold ${id}`).pipe(
          Effect.andThen(Deferred.succeed(probe.started, undefined)),
          Effect.andThen(Deferred.await(probe.gate)),
          Effect.as(`held ${id}`),
          Effect.onInterrupt(() => Ref.update(probe.interrupted, (all) => [...all, id]))
        ),
      delete: ({ path }) => Effect.as(note(`delete ${path}`), `deleted ${path}`)
    })
  })
)

export const call = (
  id: string,
  name: string,
  params: Schema.Json
): NonNullable<ScriptedModel.Turn["toolCalls"]>[number] => ({ id, name, params })

/** A scripted model, the tools above and their probe. */
export const world = (script: ScriptedModel.Script, runtime: Layer.Layer<never> = ToolRuntime.layerInline) =>
  Layer.mergeAll(handlers, ScriptedModel.layer(script), runtime).pipe(Layer.provideMerge(Probe.layer))

/** Provides that world. */
export const inWorld = (...args: Parameters<typeof world>) => Effect.provide(world(...args))

/** A test in that world. */
export const testGiven = (...args: Parameters<typeof world>) => testWith(world(...args))

/** The value that each call returned, or the type of its failure. */
export const toolResults = (conversation: Conversation.Conversation): ReadonlyArray<Schema.Json> =>
  Conversation.messages(conversation).flatMap((message) =>
    message.role === "tool" ? [message.result._tag === "Success" ? message.result.value : message.result.type] : []
  )

/** The state as another process reads it. */
export const throughJson = (state: Run.State) =>
  Effect.flatMap(Run.stateCodec.encodeJson(state), (text) => Run.stateCodec.decodeJson(text))

/** The roles of the messages, one after the other. */
export const rolesOf = (conversation: Conversation.Conversation): string =>
  Conversation.messages(conversation)
    .map(({ role }) => role)
    .join(" ")
