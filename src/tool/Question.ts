/**
 * Questions to a person, with a Schema for the answer.
 *
 * **When to use**
 *
 * | who asks | how |
 * |---|---|
 * | the model | it calls a tool that {@link tool} makes |
 * | a step of a plan | its function asks with {@link ask} |
 * | a tool | its handler asks with {@link ask}, and {@link Asked} is among the failures of the tool |
 *
 * **Details**
 *
 * A question is a `Run.Request` with the tag `Question`. The run waits, in a `Session` for as long as it takes, and continues
 * with the answer (`Run.answer`). The answer travels as JSON, and has to fit the JSON Schema of the request: an answer that does
 * not fit is refused with its problems, and the question stays open. The answer has its type where it is read.
 *
 * **Example** (The model asks the user)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Agent, Question, Run } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const AskUser = Question.tool("ask_user", {
 *   description: "Ask the user for the size",
 *   answer: Schema.Struct({ size: Schema.Literals(["S", "M", "L"]) })
 * })
 * const shop = Agent.make("shop", { toolkit: [AskUser] })
 *
 * const program = Effect.gen(function*() {
 *   const asked = yield* shop.run("A coat, please")
 *   assert(asked.outcome === "AwaitingApproval")
 *   const [request] = asked.requests
 *   assert(request?._tag === "Question" && request.arguments.question === "Which size?")
 *   const wrong = yield* Effect.flip(shop.resume(asked.state, { decisions: [Run.answer(request, { size: "XXL" })] }))
 *   assert(wrong.reason._tag === "InvalidDecision")
 *   assert.deepStrictEqual(wrong.reason.problems?.map(({ path }) => path), ["/size"])
 *   return yield* shop.resume(asked.state, { decisions: [Run.answer(request, { size: "M" })] })
 * })
 *
 * const model = ScriptedModel.layer([
 *   { toolCalls: [{ name: "ask_user", params: { question: "Which size?" } }] },
 *   { text: "A coat, size M." }
 * ])
 * const { text } = await Effect.runPromise(Effect.provide(program, model))
 * assert.strictEqual(text, "A coat, size M.")
 * ```
 *
 * @since 0.1.0
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as JsonSchema from "../payload/JsonSchema.ts"
import { defined } from "../payload/internal/values.ts"
import * as ClientTool from "./ClientTool.ts"
import * as ToolSettings from "./ToolSettings.ts"
import * as answers from "./internal/answers.ts"
import { ClientSide } from "./internal/clientSide.ts"
import { RequestTerms } from "./internal/requestTerms.ts"

/**
 * Options of {@link tool}.
 *
 * @category options
 * @since 0.1.0
 */
export interface ToolOptions<Answer extends Schema.Top> {
  /** The description for the model: when it asks, and what for. */
  readonly description: string
  /** The Schema of the answer. A front end makes a form of it: annotate its fields with a `title` and a `description`. */
  readonly answer: Answer
  /** The names of the people or roles who may decide; default: all who may touch the run, see `ToolSettings.Request`. */
  readonly deciders?: ToolSettings.RequestOptions["deciders"]
  /** The time after which the question is denied, or has the answer `otherwise`; default: `expiresAfter` of the layer of sessions, or no end. */
  readonly expiresAfter?: ToolSettings.RequestOptions["expiresAfter"]
  /** The answer after that time; default: the question is denied. */
  readonly otherwise?: Answer["Type"] | undefined
}

/**
 * The Schema of the parameters of {@link tool}: the question.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Parameters = Schema.Struct({
  question: Schema.String.annotate({ description: "The question to the user" })
})

/**
 * A tool with which the model asks the user. It needs no handler, see `ClientTool`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const tool = <const Name extends string, Answer extends Schema.Top>(
  name: Name,
  options: ToolOptions<Answer>
): ClientTool.ClientTool<Name, typeof Parameters, Answer> => {
  const asks = Tool.make(name, { description: options.description, parameters: Parameters, success: options.answer })
  const { deciders, expiresAfter, otherwise } = options
  const bounded = asks.annotate(ToolSettings.Request, { deciders, expiresAfter, otherwise })
  const made: unknown = ClientTool.make(bounded.annotate(ClientSide, "question"))
  // Sound: the tool has this name and these Schemas
  return made as ClientTool.ClientTool<Name, typeof Parameters, Answer>
}

/**
 * A question that has no answer yet. `schema` is the JSON Schema of the answer, and `request` has the people who decide, and their time. A tool whose handler asks has it as its `failure`, or
 * among its failures.
 *
 * @category errors
 * @since 0.1.0
 */
export class Asked extends Schema.TaggedError<Asked>("effect-emissary/tool/Asked")("Asked", {
  question: Schema.String,
  schema: Schema.Record(Schema.String, Schema.Json),
  request: Schema.optionalKey(RequestTerms)
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return "A question waits for its answer."
  }
}

/**
 * Asks a person from the function of a step, or from the handler of a tool: returns the answer, and fails with {@link Asked}
 * while there is none, which ends the run as waiting.
 *
 * **Details**
 *
 * With the answer the function or the handler runs again from its beginning, with the same input. Each question finds its answer by its text;
 * of equal questions the first one finds the first answer. So ask before you act: what happens before a question happens again
 * after it, and what happens after the last one happens once. A person who does not answer (`Run.deny`) fails the step as
 * `Denied`, and the call as `denied`. An answer that fits the JSON Schema, and does not decode, is asked for again.
 *
 * **Gotchas**
 *
 * A Schema without a JSON Schema is a defect, and so is a default answer (`otherwise`) that does not fit the Schema. The handler of a tool on another machine (`RemoteTools`) cannot ask: its call fails. So
 * does a call outside of the run of an agent, such as a step of a plan that is a tool.
 *
 * **Example** (A step with two questions)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Question, Run } from "effect-emissary"
 * import { Plan, Step } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function*() {
 *   const plan = yield* Plan.make("order", [
 *     Step.make("order", {
 *       target: ({ task }) =>
 *         Effect.gen(function*() {
 *           const size = yield* Question.ask("Which size?", Schema.Literals(["S", "M", "L"]))
 *           const { gift } = yield* Question.ask("Is it a gift?", Schema.Struct({ gift: Schema.Boolean }))
 *           return `${task}, ${size}${gift ? ", wrapped" : ""}`
 *         })
 *     })
 *   ])
 *   const bound = yield* Plan.bind(plan)
 *   const answers: Record<string, Schema.Json> = { "Which size?": "M", "Is it a gift?": { gift: true } }
 *   let result = yield* Plan.run(bound, "A coat")
 *   while (result.outcome === "Paused") {
 *     const decisions = result.requests.flatMap((request) =>
 *       request._tag === "Question" ? [Run.answer(request, answers[request.arguments.question] ?? null)] : []
 *     )
 *     result = yield* Plan.resume(bound, result.state, { decisions })
 *   }
 *   return result
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert(result.outcome === "Completed" && result.output === "A coat, M, wrapped")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const ask = <A, I>(
  question: string,
  answer: Schema.Codec<A, I>,
  options: Omit<ToolOptions<Schema.Codec<A, I>>, "answer" | "description"> = {}
): Effect.Effect<A, Asked> => {
  const decode = Schema.decodeUnknownOption(Schema.toCodecJson(answer))
  const next: Effect.Effect<A, Asked> = Effect.flatMap(answers.take(question), (found) => {
    if (found === undefined) return Effect.flip(asking)
    const decoded = decode(found.answer)
    return Option.isSome(decoded) ? Effect.succeed(decoded.value) : next
  })
  const asking = Effect.gen(function* () {
    const schema = yield* JsonSchema.fromSchema(answer, { what: "answer of a question" })
    const { deciders, expiresAfter } = options
    const otherwise =
      options.otherwise === undefined
        ? undefined
        : yield* Schema.encodeEffect(Schema.toCodecJson(answer))(options.otherwise)
    const millis = expiresAfter === undefined ? undefined : Duration.toMillis(Duration.fromInputUnsafe(expiresAfter))
    const request = defined({ deciders, expiresAfter: millis, otherwise })
    return new Asked({ question, schema, ...(Object.keys(request).length > 0 && { request }) })
  }).pipe(Effect.orDie)
  return next
}
