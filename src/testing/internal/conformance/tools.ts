/**
 * The tools of the conformance suite, and a probe that sees what they do.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { RunContext } from "../../../tool/RunContext.ts"
import { ToolFailure } from "../../../tool/ToolFailure.ts"
import * as ToolSettings from "../../../tool/ToolSettings.ts"

const Numbered = Schema.Struct({ n: Schema.Int })

const tools = (timeout: Duration.Input) => {
  const generous = "1 minute"
  return Toolkit.make(
    Tool.make("conformance_echo", {
      parameters: Schema.Struct({ n: Schema.Int, turns: Schema.Int }),
      success: Numbered
    }).annotate(ToolSettings.Timeout, generous),
    Tool.make("conformance_meet", { parameters: Numbered, success: Numbered }).annotate(ToolSettings.Timeout, generous),
    Tool.make("conformance_fail", { failure: ToolFailure }).annotate(ToolSettings.Timeout, generous),
    Tool.make("conformance_boom").annotate(ToolSettings.Timeout, generous),
    Tool.make("conformance_hang", { parameters: Numbered }).annotate(ToolSettings.Timeout, timeout),
    Tool.make("conformance_wait", { parameters: Numbered }).annotate(ToolSettings.Timeout, generous),
    Tool.make("conformance_defaults", {
      parameters: Schema.Struct({
        list: Schema.Array(Schema.Int),
        size: Schema.optionalKey(Schema.Int.annotate({ default: 10 }))
      }),
      success: Schema.Struct({ list: Schema.Array(Schema.Int), size: Schema.optionalKey(Schema.Int) })
    }).annotate(ToolSettings.Timeout, generous),
    Tool.make("conformance_context", { success: Schema.Json }).annotate(ToolSettings.Timeout, generous)
  )
}

class ConformanceDefect extends Error {
  override readonly name = "ConformanceDefect"
}

export const make = (timeout: Duration.Input) =>
  Effect.gen(function* () {
    const toolkit = tools(timeout)
    const probe = { running: 0, most: 0, met: 0, calls: new Array<string>() }
    const started = yield* Deferred.make<void>()
    const released = yield* Deferred.make<void>()
    const together = yield* Deferred.make<void>()

    const counted = <A, E>(effect: Effect.Effect<A, E>) =>
      Effect.suspend(() => {
        probe.running += 1
        probe.most = Math.max(probe.most, probe.running)
        return Effect.ensuring(
          effect,
          Effect.sync(() => {
            probe.running -= 1
          })
        )
      })

    const held = (n: number) =>
      Effect.suspend(() => {
        probe.calls.push(`started ${n}`)
        return Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
      }).pipe(Effect.onInterrupt(() => Deferred.succeed(released, undefined)))

    const handlers = toolkit.of({
      conformance_echo: ({ n, turns }) =>
        counted(
          Effect.gen(function* () {
            for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
            return { n }
          })
        ),
      conformance_meet: ({ n }) =>
        Effect.suspend(() => {
          probe.met += 1
          return Effect.as(probe.met < 2 ? Deferred.await(together) : Deferred.succeed(together, undefined), { n })
        }),
      conformance_fail: () => Effect.fail(ToolFailure.error("no such thing", { type: "not_found" })),
      conformance_boom: () => Effect.die(new ConformanceDefect("boom")),
      conformance_hang: ({ n }) => held(n),
      conformance_wait: ({ n }) => held(n),
      conformance_defaults: (args) =>
        Effect.sync(() => {
          probe.calls.push("defaults")
          return args
        }),
      conformance_context: () => RunContext
    })
    return { toolkit, handlers: toolkit.toLayer(handlers), probe, started, released }
  })

export type Tools = Effect.Success<ReturnType<typeof make>>
