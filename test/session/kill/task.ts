/** The task of a runner, and the messages between it and the test. */

export type Database =
  | { readonly type: "sqlite"; readonly filename: string }
  | { readonly type: "postgres"; readonly url: string }

export interface Task {
  readonly runner: string
  readonly database: Database
  /**
   * Where sessions are: `Session.layer` in each process, `ClusterSession.layer` with one process on SQLite or several on
   * PostgreSQL, or sessions that are not durable.
   */
  readonly home: "process" | "cluster" | "naive"
  /** The port of a runner of a cluster on PostgreSQL. */
  readonly port?: number
  readonly ledger: string
  /** The file of the weather. */
  readonly weather: string
  readonly version: number
  readonly pace: number
  /** The time of leases and locks. */
  readonly leaseMillis: number
}

/** The methods of `Operations`, by name. */
export interface Call {
  readonly call: number
  readonly method: "run" | "read" | "send" | "decide" | "resume" | "interrupt" | "events" | "state" | "history"
  readonly args: ReadonlyArray<unknown>
}

/** Ends a call of `events`. */
export interface Leave {
  readonly leave: number
}

export type Reply =
  | { readonly ready: true }
  | { readonly call: number; readonly item: unknown }
  | { readonly call: number; readonly value: unknown }
  | { readonly call: number; readonly reason: string; readonly text: string }
