/** A request that was refused. */
export declare class SessionsError extends Error {
  /** The status of the response, also where a stream ends with the error. */
  readonly status: number
  /** The class of the refusal, as in `SessionHttp.Refusal`. */
  readonly category: string
  /** The error of the session, where the server sends it: `{ id, reason }`. */
  readonly error?: { readonly id: string; readonly reason: { readonly _tag: string } }
}

/** Options of a connection. */
export interface ConnectOptions {
  /** The address of the server, with its path; default `"/sessions"`. */
  readonly url?: string
  /** The bearer token, or a function that finds it, which is called for each request; default: the cookies of the page. */
  readonly token?: string | (() => string | null | undefined | Promise<string | null | undefined>)
  /** The milliseconds without a sign of the server after which a stream begins again; default 45,000. */
  readonly silence?: number
  /** The first and the longest wait before a stream begins again, in milliseconds; default 500 and 10,000. */
  readonly retry?: readonly [first: number, longest: number]
}

/** Options of a stream. */
export interface StreamOptions {
  /** The cursor of the last event that was seen; default: from the start. */
  readonly after?: string
  /** Ends the stream. */
  readonly signal?: AbortSignal
  /** Is called with `"open"` where events arrive, and with `"waiting"` where the connection is lost. */
  readonly onStatus?: (status: "open" | "waiting") => void
}

/** Options of the events of a session. */
export interface EventsOptions extends StreamOptions {
  /** Sends what models are writing, too, as `AnswerDelta` and `AnswerWithdrawn`; default `true`. */
  readonly live?: boolean
}

/** An event of a session for a front end, see `ChatEvent.Entry`. */
export interface Entry {
  readonly sequence: number
  readonly cursor: string
  readonly event: { readonly _tag: string; readonly [name: string]: unknown }
}

/** The sessions of a server. */
export interface Connection {
  /**
   * Sends a command: `send`, `edit`, `withdraw`, `fork`, `decide`, `resume`, `interrupt`, `update` or `remove`. It is sent once. Where its
   * answer is lost, it may have taken effect: a `send` with a `messageId`, and an `edit` with a `newMessageId`, count once however often
   * they are sent.
   */
  command(name: string, id: string, body?: object): Promise<unknown>
  /** Reads `chat/state` (`null` where there is none) or `chat/history` of the session with the `id` of the query, or `list`. */
  query(name: string, query?: { readonly [name: string]: string | number | undefined }): Promise<unknown>
  /**
   * The events of a session, with those to come, each once and in order, also over lost connections. It fails with `EventsUnknown` or
   * `EventsPruned` as `error.reason._tag` where there are no events after the cursor any more: draw the session anew, from `chat/history` and
   * the events after its `cursor`.
   */
  events(id: string, options?: EventsOptions): AsyncGenerator<Entry, void>
  /** A page of the list of sessions, and its changes. */
  listChanges(
    query?: { readonly [name: string]: string | number | undefined },
    options?: Omit<StreamOptions, "after">
  ): AsyncGenerator<{ readonly _tag: string; readonly [name: string]: unknown }, void>
  /** The bytes of a file whose address an event or a message has. */
  file(address: string): Promise<Blob>
}

/** The structured output that a model is writing, see `ChatEvent.PartialOutput`. */
export interface PartialOutput {
  readonly messageId?: string
  readonly length: number
  readonly value?: unknown
}

/**
 * The structured output of a turn after one more event of a session, `undefined` where none is shown: fields and items of lists that are
 * complete and valid, and texts that grow.
 */
export declare const partialOutput: (
  before: PartialOutput | undefined,
  event: Entry["event"]
) => PartialOutput | undefined

/** Connects a page with the sessions of a server. Nothing is sent before the first call. */
export declare const connect: (options?: ConnectOptions) => Connection
