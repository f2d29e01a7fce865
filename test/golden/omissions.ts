import type { Json } from "./golden.ts"

/**
 * Operations of the vocabulary that the library does not have, with the reason.
 * `covers` tells which cases of the group it is about; absent means all of them.
 */
export const omissions: ReadonlyArray<{
  readonly group: string
  readonly reason: string
  readonly covers?: (given: Json, id: string) => boolean
}> = []
