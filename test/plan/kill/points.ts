import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { VersionedStore } from "effect-emissary"

/** The action at a point of a run. */
export type Point = "before a step" | "after a step" | "before a write" | "after a write" | "between two steps"

/**
 * The points of a run: around the body of each step, and around each write to the store.
 * At the point `killAt` the process kills itself; 0 for never.
 */
export const make = (killAt: number) => {
  const points: Array<Point> = []

  const point = (name: Point) =>
    Effect.sync(() => {
      points.push(name)
      if (points.length !== killAt) return
      process.kill(process.pid, "SIGKILL")
      // Never to be left
      for (;;);
    })

  /** The points around the work of a step. */
  const around = (work: Effect.Effect<void>) =>
    point("before a step").pipe(Effect.andThen(work), Effect.andThen(point("after a step")))

  /** A head with more completed steps than before is the moment between two steps. */
  let completed = -1
  const afterWrite = (value: unknown): Point => {
    if (typeof value !== "object" || value === null || !("completed" in value)) return "after a write"
    const count = Number(value.completed)
    if (count <= completed) return "after a write"
    completed = count
    return "between two steps"
  }

  const layer = Layer.effect(
    VersionedStore.VersionedStore,
    Effect.map(VersionedStore.VersionedStore, (store) => ({
      ...store,
      // each write is a point
      setBoth: undefined,
      compareAndSet: (key, expected, value) =>
        point("before a write").pipe(
          Effect.andThen(store.compareAndSet(key, expected, value)),
          Effect.tap(() => point(afterWrite(value)))
        )
    }))
  )

  return { layer, around, points }
}
