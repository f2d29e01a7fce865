import type { Json } from "./golden.ts"

/**
 * Cases where the library differs on purpose from what the golden file expects,
 * reviewed one by one.
 *
 * `reason` says why ours differs, `expect` what the library does instead; it
 * takes the place of the case's own `expect` as a whole. A case that meets its
 * own expectation must not be listed.
 */
export const deviations: { readonly [id: string]: { readonly reason: string; readonly expect: Json } } = {}

/**
 * Cases of another era than the newest that describe what the newest era does
 * differently, so that no library can do both.
 */
export const otherEras: { readonly [id: string]: string } = {
  R065b: "defaults are part of a schema since the documented era (R065), and the wire keeps schemas verbatim"
}
