import { Effect, type Layer, Schema } from "effect"
import { type LanguageModel, Tool, Toolkit } from "effect/ai"
import type { Sharding } from "effect/cluster"
import { Agent, type VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { Plan, Step } from "effect-emissary/plan"
import type { SqlClient } from "effect/sql"
import { expectTypeOf } from "vitest"

// MEND-14: a function that takes several agents requires what each of them requires

const toolkitOf = <const Name extends string>(name: Name) =>
  Toolkit.make(Tool.make(name, { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.String }))

const one = Agent.make("one", { toolkit: toolkitOf("add") })
const two = Agent.make("two", { toolkit: toolkitOf("subtract") })
class Three extends Agent.Service<Three>()("three", { toolkit: toolkitOf("multiply") }) {}

type Handlers = Tool.Handler<"add"> | Tool.Handler<"subtract">
type Services = LanguageModel.LanguageModel | VersionedStore.VersionedStore

expectTypeOf(Session.layer([one, two])).toEqualTypeOf<Layer.Layer<Session.Session, never, Handlers | Services>>()
expectTypeOf(Session.layer([one, Three, two], { keepEvents: 10 })).toEqualTypeOf<
  Layer.Layer<Session.Session, never, Handlers | Three | Services>
>()
expectTypeOf(Session.layerCluster([two, one])).toEqualTypeOf<
  Layer.Layer<Session.Session, never, Handlers | Services | Sharding.Sharding | SqlClient.SqlClient>
>()
expectTypeOf(Session.layer([Agent.make("none", {})])).toEqualTypeOf<Layer.Layer<Session.Session, never, Services>>()

const host = <R>(agent: Session.Hosted<R>) => Session.layer([agent, one])
expectTypeOf(host(two)).toEqualTypeOf<Layer.Layer<Session.Session, never, Handlers | Services>>()

// @ts-expect-error a layer of sessions has an agent
void Session.layer([])

// @ts-expect-error a toolkit is no agent
void Session.layer([one, toolkitOf("add")])

const planned = Effect.flatMap(
  Plan.make(Step.make("first", { target: one }), Step.make("second", { target: two })),
  Plan.bind
)
expectTypeOf<Effect.Success<typeof planned>>().toEqualTypeOf<
  Plan.Bound<Schema.Json, Handlers | LanguageModel.LanguageModel>
>()
