import { Context, Effect, type Layer, Schema, type Stream } from "effect"
import { type LanguageModel, Tool, Toolkit } from "effect/ai"
import type { Sharding } from "effect/cluster"
import { Agent, type ModelRegistry, type ToolResolver, type VersionedStore } from "effect-emissary"
import { ClusterSession, Session } from "effect-emissary/session"
import { Plan, type PlanInvalid, Step } from "effect-emissary/plan"
import type { SqlClient } from "effect/sql"
import { expectTypeOf } from "vitest"
import { struct } from "#src/session/internal/types.ts"

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
expectTypeOf(ClusterSession.layer([two, one])).toEqualTypeOf<
  Layer.Layer<Session.Session, never, Handlers | Services | Sharding.Sharding | SqlClient.SqlClient>
>()
expectTypeOf(Session.layer([Agent.make("none", {})])).toEqualTypeOf<Layer.Layer<Session.Session, never, Services>>()

const host = <R>(agent: Session.Hosted<R>) => Session.layer([agent, one])
expectTypeOf(host(two)).toEqualTypeOf<Layer.Layer<Session.Session, never, Handlers | Services>>()

// HOUSE-6: agents that messages carry are an option, and a plan is hosted by the Effect that binds it, whose failure is one of the layer

declare const Lookup: Context.Service<"lookup", string>
const decode = (_: unknown) => Effect.as(Lookup, one)
expectTypeOf(Session.layer([], { definitions: decode })).toEqualTypeOf<
  Layer.Layer<Session.Session, never, "lookup" | Tool.Handler<"add"> | Services>
>()
expectTypeOf(Session.layer([two], { definitions: Agent.decode, keepEvents: 10 })).toEqualTypeOf<
  Layer.Layer<
    Session.Session,
    never,
    Tool.Handler<"subtract"> | ModelRegistry.ModelRegistry | ToolResolver.ToolResolver | Services
  >
>()
// @ts-expect-error a toolkit is no agent
void Session.layer([one, toolkitOf("add")])

const planned = Effect.flatMap(
  Plan.make("plan", [Step.make("first", { target: one }), Step.make("second", { target: two })]),
  Plan.bind
)
type BindError = PlanInvalid.PlanInvalid | Effect.Error<typeof planned>
expectTypeOf(Session.layer([Three, planned])).toEqualTypeOf<
  Layer.Layer<Session.Session, BindError, Three | Handlers | Services>
>()
expectTypeOf(ClusterSession.layer([planned, one])).toEqualTypeOf<
  Layer.Layer<Session.Session, BindError, Handlers | Services | Sharding.Sharding | SqlClient.SqlClient>
>()
expectTypeOf<Effect.Success<typeof planned>>().toEqualTypeOf<
  Plan.Bound<Schema.Json, Handlers | LanguageModel.LanguageModel>
>()

// KEEP-3: a job returns the typed result, and requires sessions alone: neither a model nor tools nor the layer of an agent

const Verdict = Schema.Struct({ good: Schema.Boolean })
const judge = Agent.make("judge", { toolkit: toolkitOf("weigh"), output: Verdict })
class Critic extends Agent.Service<Critic>()("critic", { output: Verdict }) {}
const job = { id: "job", input: "film" }

type Job<A> = Effect.Effect<Session.RunResult<A>, Session.SessionError, Session.Session>

expectTypeOf(Session.run(judge, job)).toEqualTypeOf<Job<typeof Verdict.Type>>()
expectTypeOf(Session.run(one, { ...job, ifExists: "resume" })).toEqualTypeOf<Job<string>>()
expectTypeOf(Session.run(Critic, job)).toEqualTypeOf<Job<typeof Verdict.Type>>()
expectTypeOf(Session.result(Critic, "job")).toEqualTypeOf<Job<typeof Verdict.Type>>()

declare const bound: Plan.Bound<number, Handlers>
expectTypeOf(Session.run(bound, job)).toEqualTypeOf<Job<number>>()

declare const result: Session.RunResult<number>
if (result.outcome === "AwaitingApproval") expectTypeOf(result.requests[0].callId).toEqualTypeOf<string>()
if (result.outcome === "Completed") expectTypeOf(result.output).toEqualTypeOf<number>()
// @ts-expect-error only a completed job has an output
void result.output

class Film extends Plan.Service<Film>()("film", planned) {}
// @ts-expect-error the output of the class of a plan is not known before the plan is found
void Session.run(Film, job)
expectTypeOf(Effect.flatMap(Film, (film) => Session.run(film, job))).toEqualTypeOf<
  Effect.Effect<Session.RunResult<Schema.Json>, Session.SessionError, Session.Session | Film>
>()

// @ts-expect-error there is no policy of this name
void Session.run(judge, { ...job, ifExists: "continue" })

// PEOPLE-4: a message to an agent that is known has the context that the agent declares

const Tenant = Schema.Struct({ tenant: Schema.String })
const desk = Agent.make("desk", { context: Tenant })
class Desk extends Agent.Service<Desk>()("desk-service", { context: Tenant }) {}
const acme = { context: { tenant: "acme" } }

expectTypeOf(Session.layer([desk, Desk, one])).toEqualTypeOf<
  Layer.Layer<Session.Session, never, Desk | Tool.Handler<"add"> | Services>
>()
for (const agent of [Session.typed(desk), Session.typed(Desk)]) {
  void [agent.send("a", "x", acme), agent.turn("a", "x", { ...acme, whenBusy: "steer" }), agent.ask("a", "x", acme)]
  // @ts-expect-error the tenant is forgotten
  void agent.send("a", "x")
  // @ts-expect-error the tenant is forgotten
  void agent.turn("a", "x", { whenBusy: "steer" })
  // @ts-expect-error the tenant is a text
  void agent.ask("a", "x", { context: { tenant: 1 } })
  // @ts-expect-error the agent is known
  void agent.send("a", "x", { ...acme, agent: "other" })
}
void [Session.run(desk, { ...job, ...acme }), Session.run(Desk, { ...job, ...acme })]
// @ts-expect-error the tenant is forgotten
void Session.run(desk, job)
// @ts-expect-error the tenant is forgotten
void Session.run(Desk, { ...job, context: {} })
void Session.typed(one).send("a", "x")
expectTypeOf(Session.typed(one).ask("a", "x", acme)).toEqualTypeOf<ReturnType<typeof Session.ask>>()

// PEOPLE-4: the turns of a session have the services of its layer, so a tool that requires a service for each call is refused

class User extends Context.Service<User, { readonly id: string }>()("types/User") {}
const Mine = Tool.make("mine", { success: Schema.String, dependencies: [User] })
const personal = Agent.make("personal", { toolkit: [Mine] })
type Refused = Agent.NoServiceOfCall<User>
expectTypeOf(Session.layer([one, personal])).toEqualTypeOf<
  Layer.Layer<Session.Session, never, User | Refused | Tool.Handler<"add"> | Tool.Handler<"mine"> | Services>
>()
expectTypeOf(ClusterSession.layer([personal])).toEqualTypeOf<
  Layer.Layer<
    Session.Session,
    never,
    User | Refused | Tool.Handler<"mine"> | Services | Sharding.Sharding | SqlClient.SqlClient
  >
>()

// HOUSE-1: the functions have the types of the table, and the Schema of options has each of their members

expectTypeOf(Session.send).toEqualTypeOf<
  (
    id: string,
    input: Session.Input,
    options?: Session.SendOptions
  ) => Effect.Effect<Session.MessageReceipt, Session.SessionError, Session.Session>
>()
expectTypeOf(Session.events).toEqualTypeOf<
  (id: string, options?: Session.EventsOptions) => Stream.Stream<Session.Entry, Session.SessionError, Session.Session>
>()
expectTypeOf<Session.Service["list"]>().toEqualTypeOf<
  (options?: Session.ListOptions) => Effect.Effect<Session.Page, Session.SessionError>
>()

interface Mail {
  readonly text: string
  readonly model?: string | undefined
}
const model = Schema.optionalKey(Schema.String)
void struct<Mail>()({ text: Schema.String, model })
// @ts-expect-error an optional field is missing
void struct<Mail>()({ text: Schema.String })
// @ts-expect-error a field is no member
void struct<Mail>()({ text: Schema.String, model, size: Schema.Number })
// @ts-expect-error a field has another type
void struct<Mail>()({ text: Schema.Number, model })

// HOUSE-6 after the end of a turn a reader would wait without end: neither it nor a state is the place of a turn
expectTypeOf<Session.Receipt>().toExtend<Session.TurnPlace>()
expectTypeOf<Session.Answer>().not.toExtend<Session.TurnPlace>()
expectTypeOf<Session.State>().not.toExtend<Session.TurnPlace>()
