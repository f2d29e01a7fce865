/** The service of checkpoints over a versioned store. */
import * as Effect from "effect/Effect"
import { VersionedStore } from "../../../conversation/VersionedStore.ts"
import type { Options, Service } from "../../Checkpoint.ts"

export const make = (options: Options): Effect.Effect<Service, never, VersionedStore> =>
  Effect.andThen(VersionedStore, Effect.die(["to do", options]))
