/**
 * Define an agent once as typed Effect values, send it anywhere as data, run it
 * anywhere through a Layer.
 *
 * @since 0.1.0
 */
export * from "./agent/index.ts"
export * from "./conversation/index.ts"
export * from "./payload/index.ts"
export * from "./plan/index.ts"
export * from "./tool/index.ts"
