/**
 * The UI message stream of the AI SDK, version 1: `useChat` of `@ai-sdk/react` shows sessions and runs as they are.
 *
 * **When to use**
 *
 * `SessionHttp.layerServer` has routes for `useChat`, and then nothing of this module is needed. Use {@link fromStream} for a route
 * that runs an agent without a session, and {@link fromEvents} for a route of your own to a session.
 *
 * **Details**
 *
 * One UI message is what the models wrote after one message of the user, and its id is `answer-` with the id of that message. Each
 * answer is a step. When an attempt of a model call does not count, `reset-step` removes what was sent of it.
 *
 * | what | in the UI message |
 * |---|---|
 * | text, reasoning, files, sources, calls of tools and their results | the parts of the AI SDK, with `tool-` and the name of the tool |
 * | a request about a call | `approval-requested`, whose id names the request and has its digest; its `descriptor` has the `deciders` and `expiresAt` of the request |
 * | a request of an agent or a plan inside | a `dynamic-tool` part with an approval like that |
 * | another agent answers from here on | a transient `data-handoff` part, whose data has its name as `agent` |
 * | agents and plans inside | `data-answer`, `data-result` and `data-step` parts, and transient `data-draft` parts |
 * | the structured output | a `data-output` part, and while it grows a `data-partial-output` part, `null` where it is withdrawn |
 * | the tokens of the answers, their model, and what is left of budgets | `usage`, `model` and `budget` of the metadata |
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { AgentEvent } from "../agent/AgentEvent.ts"
import * as ChatEvent from "../session/ChatEvent.ts"
import { publicMessages } from "../session/internal/events.ts"
import * as telemetry from "../tool/internal/telemetry.ts"
import * as eventStream from "./internal/eventStream.ts"
import * as screen from "./internal/screen.ts"
import type { Chunk } from "./internal/uiChunks.ts"
import * as uiMessages from "./internal/uiMessages.ts"
import * as uiText from "./internal/uiText.ts"

export type {
  /**
   * A chunk of a UI message stream.
   *
   * @category models
   * @since 0.1.0
   */
  Chunk,
  /**
   * The reason that a UI message ended.
   *
   * @category models
   * @since 0.1.0
   */
  FinishReason,
  /**
   * The metadata of a UI message.
   *
   * @category models
   * @since 0.1.0
   */
  Metadata
} from "./internal/uiChunks.ts"

export type {
  /**
   * A message of the AI SDK, as `GET chat/ui` returns the messages of a session.
   *
   * @category models
   * @since 0.1.0
   */
  UiMessage,
  /**
   * A part of a message of the AI SDK.
   *
   * @category models
   * @since 0.1.0
   */
  UiPart
} from "./internal/uiHistory.ts"

/**
 * The chunks of the events of one message, up to the end of its turn: of `Session.live` after {@link ChatEvent.project}.
 *
 * **Details**
 *
 * With `of`, the id of the message of the user, the events before its turn have no chunks. Without it the first event is the
 * beginning, and the page makes the id of the UI message unless `id` is there.
 *
 * @category combinators
 * @since 0.1.0
 */
export const fromEvents =
  ({
    of,
    id
  }: {
    /** The id of the message of the user. Default: none, all events are of one message. */
    readonly of?: string | undefined
    /** The id of the UI message. Default: `answer-` with the id of the message of the user. */
    readonly id?: string | undefined
  } = {}) =>
  <E, R>(self: Stream.Stream<ChatEvent.ChatEvent, E, R>): Stream.Stream<Chunk, E, R> =>
    screen.stream(uiMessages.protocol, uiMessages.begin(of, id))(self)

/**
 * The chunks of a run without a session, of `agent.stream` and `agent.resumeStream`. A run that fails ends with an `error` chunk
 * without details, and its cause is in the log.
 *
 * **Example** (A route that runs an agent)
 *
 * ```ts
 * import { Effect, Stream } from "effect"
 * import { Agent } from "effect-emissary"
 * import { UiMessages } from "effect-emissary/http"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const support = Agent.make("support")
 * const chunks = UiMessages.fromStream(support.stream("Hello, I am Ada."), { id: "answer-1" })
 * // The response of a route: UiMessages.response(chunks)
 * const sent = await chunks.pipe(
 *   Stream.runCollect,
 *   Effect.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }])),
 *   Effect.runPromise
 * )
 * assert.deepStrictEqual(sent[0], { type: "start", messageId: "answer-1" })
 * assert.strictEqual(sent.at(-1)?.type, "finish")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromStream = <A, E, R>(
  self: Stream.Stream<AgentEvent<A>, E, R>,
  {
    chat,
    id
  }: {
    /** The parts of the run that the page sees. Default: no reasoning, and no agents that are tools. */
    readonly chat?: ChatEvent.Options | undefined
    /** The id of the UI message. Default: the page makes it. */
    readonly id?: string | undefined
  } = {}
): Stream.Stream<Chunk, never, R> =>
  self.pipe(
    ChatEvent.projectRun(chat),
    fromEvents({ id }),
    Stream.catchCause((cause) =>
      Stream.fromEffect(
        Effect.as(telemetry.logUnexpected("A run failed before its end was shown", cause), {
          type: "error" as const,
          errorText: publicMessages.internal
        })
      )
    )
  )

/**
 * The response of a route with chunks. A stream that fails ends with an `error` chunk without details.
 *
 * @category encoding
 * @since 0.1.0
 */
export const response = (chunks: Stream.Stream<Chunk>): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.stream(uiText.bytes(chunks), {
    contentType: "text/event-stream",
    headers: { ...eventStream.headers, ...uiText.headers }
  })
