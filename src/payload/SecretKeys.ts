/**
 * Keys under which secrets are kept, and the search for secrets in data that is
 * about to be written.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"

/**
 * A secret that was found. The value is not part of it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Found {
  readonly path: string
  readonly key: string
  readonly kind: "key" | "redacted"
}

/**
 * Options of {@link find}.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  /**
   * JSON Pointers of places whose keys are data, not options, e.g.
   * `/tools/*\/parameters`: there a key such as `password` is a parameter's
   * name. `*` is any one token, `**` any number of them. `Redacted` values are
   * found there too.
   */
  readonly data?: ReadonlyArray<string> | undefined
}

/**
 * Whether a key is on the published list.
 *
 * @category guards
 * @since 0.1.0
 */
export const isSecret = (_key: string): boolean => false

/**
 * The first secret in a value.
 *
 * @category searching
 * @since 0.1.0
 */
export const find = (_value: unknown, _options?: Options): Option.Option<Found> => Option.none()
