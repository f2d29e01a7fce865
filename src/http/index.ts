/**
 * Sessions over HTTP: the routes of a server, and a client that is a `Session`.
 *
 * @since 0.1.0
 */
export * as SessionHttp from "./SessionHttp.ts"

/**
 * The UI message stream of the AI SDK, for `useChat`.
 *
 * @since 0.1.0
 */
export * as UiMessages from "./UiMessages.ts"
