/** One field of each item. */
export const pluck = <A, K extends keyof A>(
  items: ReadonlyArray<A> | undefined,
  key: K
): ReadonlyArray<A[K]> | undefined => items?.map((item) => item[key])
