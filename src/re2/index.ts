/**
 * A second engine of patterns: RE2, with the package `re2js`.
 *
 * @since 0.1.0
 */
export * as Re2 from "./Re2.ts"
