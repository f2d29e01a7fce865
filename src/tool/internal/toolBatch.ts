import * as Effect from "effect/Effect"
import type { BoundCall } from "../BoundCall.ts"
import type { Options } from "../ToolBatch.ts"
import type { ToolResult } from "../ToolResult.ts"

export const run = <E = never, R = never>(
  _calls: ReadonlyArray<BoundCall>,
  _options?: Options<E, R>
): Effect.Effect<void, E, R> => Effect.die("not yet")

export const collect = <E = never, R = never>(
  _calls: ReadonlyArray<BoundCall>,
  _options?: Options<E, R>
): Effect.Effect<ReadonlyArray<ToolResult>, E, R> => Effect.die("not yet")
