/** A tool runtime that sends the calls of shells to a tool server. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { BoundCall } from "../../BoundCall.ts"
import type { ToolResult } from "../../ToolResult.ts"
import type { ToolRuntime } from "../../ToolRuntime.ts"
import * as Client from "./client.ts"

export interface Options extends Client.Options {
  readonly maxConcurrency?: number | "unbounded" | undefined
}

const forward = (client: Client.Client, call: BoundCall): Effect.Effect<ToolResult> =>
  client.execute({
    runId: call.runId,
    callId: call.id,
    name: call.contract.name,
    arguments: call.arguments,
    contractDigest: call.contract.digest,
    context: call.context,
    timeout: call.timeout,
    ownerTimeout: call.contract.timeout,
    deadline: call.deadline,
    idempotent: call.contract.annotations.idempotent === true
  })

const limit = (concurrency: number | "unbounded"): number | "unbounded" =>
  concurrency === "unbounded" ? concurrency : Math.max(1, concurrency)

export const make = (options: Options) =>
  Effect.map(Client.make(options), (client): ToolRuntime => ({
    dispatch: (call) => Option.getOrElse(call.execute, () => forward(client, call)),
    concurrency: limit(options.maxConcurrency ?? 5),
    shells: true
  }))
