import type { StreamAccumulator } from "../ResponseContent.ts"

export const accumulator = (): StreamAccumulator => {
  throw new Error("not yet")
}
