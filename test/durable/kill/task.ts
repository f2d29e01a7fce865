/** What a runner is told, and what it and the test say to each other. */

export type Database =
  | { readonly type: "sqlite"; readonly filename: string }
  | { readonly type: "postgres"; readonly url: string }

export interface Task {
  readonly runner: string
  readonly database: Database
  /** The port of a runner of a fleet. Without it, sessions are of this process alone, and the test asks for them by messages. */
  readonly port?: number
  /** Sessions that are not durable, in place of those under test. */
  readonly naive?: boolean
  readonly ledger: string
  readonly version: number
  readonly pace: number
  /** The time of leases and locks. */
  readonly leaseMillis: number
}

/** The methods of `Operations`, by name. */
export interface Call {
  readonly call: number
  readonly method: "send" | "approve" | "interrupt" | "events" | "state" | "history"
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
