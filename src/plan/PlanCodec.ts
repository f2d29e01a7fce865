/**
 * Plans as versioned JSON, and back.
 *
 * A plan that was read is data until a registry says what its names stand for; see
 * {@link decode}. Without a registry, {@link codec} reads and writes definitions, for
 * tools that look at plans and do not run them.
 *
 * **Details**
 *
 * The field `version` says which form it is:
 *
 * - 1 and 2 are those of LazyBridge. Where the field is missing, it is 2. Keys that
 *   nobody knows are ignored. They hold no conditions as data, no order of routes, no
 *   memories or answers of agents, no timeouts and retries, and of schemas the names
 *   alone (version 1 not even these).
 * - 3 is our own, and is written by default. It holds all of a definition, and refuses
 *   keys that it does not know.
 *
 * Older versions are read for ever. A newer one fails with `UnsupportedVersion`.
 *
 * What comes from outside is limited: by `Limits`, to {@link maxSteps} steps, to
 * {@link maxRoutes} routes and as many contexts of one step, and to {@link maxPatterns}
 * regular expressions in conditions; `maxIterations` is a whole number up to a million.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../payload/Json.ts"
import type { LossyEncoding } from "../payload/LossyEncoding.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import type { DecodeOptions, EncodeOptions, VersionedCodec } from "../payload/VersionedCodec.ts"
import * as internal from "./internal/codec/codec.ts"
import * as limits from "./internal/codec/limits.ts"
import * as resolve from "./internal/codec/resolve.ts"
import type { Plan } from "./Plan.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"
import type { PlanInvalid } from "./PlanInvalid.ts"
import type { PlanRegistry, Services } from "./PlanRegistry.ts"
import type { RegistryIncomplete } from "./RegistryIncomplete.ts"

/**
 * How many steps a plan on a wire may have: 1000.
 *
 * @category limits
 * @since 0.1.0
 */
export const maxSteps: number = limits.maxSteps

/**
 * How many routes, and how many contexts, one step may have: 256.
 *
 * @category limits
 * @since 0.1.0
 */
export const maxRoutes: number = limits.maxRoutes

/**
 * How many regular expressions the conditions of one plan may have together: 64.
 *
 * @category limits
 * @since 0.1.0
 */
export const maxPatterns: number = limits.maxPatterns

/**
 * Definitions as JSON, in every version, without any code.
 *
 * **When to use**
 *
 * For tools that show, compare, convert or store plans. To run one, {@link decode} it
 * with a registry.
 *
 * **Details**
 *
 * Only what the wire itself says is checked: shapes, names, limits, JSON Schemas and
 * conditions. Whether the steps fit together is for `PlanCheck` to say. In versions 1
 * and 2, a target of an unknown kind is read as a function, and schemas called `str`
 * (of an output) and `Any` (of an input) as none.
 *
 * **Example** (Bringing a plan of LazyBridge to the newest version)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { PlanCodec } from "effect-emissary"
 *
 * const old = {
 *   version: 2,
 *   max_iterations: 20,
 *   steps: [{ name: "fetch", target: { kind: "callable", name: "fetch" }, task: { kind: "from_start" }, parallel: false }]
 * }
 * const definition = Effect.runSync(PlanCodec.codec.decode(old))
 * const wire = Effect.runSync(PlanCodec.codec.encode(definition))
 *
 * assert.strictEqual(wire["version"], 3)
 * assert.deepStrictEqual(Effect.runSync(PlanCodec.codec.encode(definition, { version: 2 })), old)
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec<PlanDefinition> = internal.codec

/**
 * Reads a plan of any version from a value that came from outside.
 *
 * **Details**
 *
 * In three stages, of which each tells everything that is wrong:
 *
 * 1. the JSON itself: `PayloadError`, with the path of each problem;
 * 2. names that the registry does not have, or has as something else:
 *    `RegistryIncomplete`, with what there is and the closest name;
 * 3. steps that do not fit together: `PlanInvalid`.
 *
 * A registry that the plan has no use for can be left out. What the entries of the
 * registry require is required by the plan. Tools are no part of the registry: the plan
 * is bound with them.
 *
 * The JSON Schemas of version 3 need no entry; their guards are those of `CheckedSchema`.
 * Schemas that versions 1 and 2 only name are part of the plan once it is read.
 *
 * The plan gives JSON: what its `output` stands for in code is not known here. Decode
 * the output of a result with your own schema.
 *
 * **Example** (A plan of LazyBridge, and what its names stand for)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { PlanCodec, Target, When } from "effect-emissary"
 *
 * const Hits = Schema.Struct({ items: Schema.Array(Schema.String) })
 * const wire = {
 *   version: 2,
 *   steps: [
 *     { name: "fetch", target: { kind: "callable", name: "fetch" }, output: "Hits", routes: ["apology"] },
 *     { name: "write", target: { kind: "tool", name: "write" } },
 *     { name: "apology", target: { kind: "tool", name: "apology" } }
 *   ]
 * }
 * const decoded = PlanCodec.decode(wire, {
 *   targets: { fetch: Target.make("fetch", () => Effect.succeed({ items: [] })) },
 *   predicates: { "routes:fetch:apology": When.field("items").empty() },
 *   schemas: { Hits }
 * })
 * assert.strictEqual(Effect.runSync(decoded).definition.steps.length, 3)
 *
 * const error = Effect.runSync(Effect.flip(PlanCodec.decode(wire)))
 * assert.ok(error._tag === "RegistryIncomplete")
 * assert.deepStrictEqual(error.entries.map(({ name }) => name), ["fetch", "Hits", "routes:fetch:apology"])
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = <const Registry extends PlanRegistry = {}>(
  wire: unknown,
  registry?: Registry,
  options?: DecodeOptions
): Effect.Effect<Plan<Schema.Json, Services<Registry>>, PayloadError | PlanInvalid | RegistryIncomplete> =>
  internal.under(
    options,
    Effect.flatMap(internal.drafts.decode(wire), (draft) => resolve.plan<Services<Registry>>(draft, registry ?? {}))
  )

/**
 * Reads a plan of any version from JSON text or bytes; see {@link decode}.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson = <const Registry extends PlanRegistry = {}>(
  text: string | Uint8Array,
  registry?: Registry,
  options?: DecodeOptions
): Effect.Effect<Plan<Schema.Json, Services<Registry>>, PayloadError | PlanInvalid | RegistryIncomplete> =>
  internal.under(
    options,
    Effect.flatMap(internal.drafts.decodeJson(text), (draft) => resolve.plan<Services<Registry>>(draft, registry ?? {}))
  )

/**
 * Writes a plan as a versioned JSON object.
 *
 * **Details**
 *
 * - `version`: 1, 2 or 3; default 3.
 * - `allowLoss`: what may be lost by an older version: paths (a `*` stands for one
 *   token) or the `losses` of a `LossyEncoding`; default nothing.
 * - `limits`: limits that differ from the current ones.
 *
 * Versions 1 and 2 fail with `LossyEncoding` for: a name of the plan other than
 * `plan`, its description and output; routes in another order than sorted by code
 * point, a second route to one step, and conditions that are not the predicate
 * `routes:<step>:<target>`; references to memories and answers of agents; timeouts and
 * retries; schemas without a name, or with the name of another one, and in version 1 any
 * schema. The name of a schema is its `identifier` annotation.
 *
 * What is lost may be what the plan needs to be read again: `routesBy` without the output
 * schema is refused by {@link decode}. Name schemas that plans travel with.
 *
 * It fails with a `PayloadError` for what the wire cannot hold or would not be read
 * again, such as a name that only version 2 allows, and for secrets.
 *
 * **Example** (Writing an older version)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { PlanCodec } from "effect-emissary"
 *
 * const program = Effect.gen(function*() {
 *   const plan = yield* PlanCodec.decode({
 *     version: 3,
 *     steps: [{ name: "fetch", target: { kind: "tool", name: "fetch" }, timeout: 1000 }]
 *   })
 *   const error = yield* Effect.flip(PlanCodec.encode(plan, { version: 2 }))
 *   assert.ok(error._tag === "LossyEncoding")
 *   assert.deepStrictEqual(error.losses, [{ path: "/steps/0/timeout", what: "the timeout of a step" }])
 *   return yield* PlanCodec.encode(plan, { version: 2, allowLoss: ["/steps/*\/timeout"] })
 * })
 * assert.strictEqual(Effect.runSync(program)["version"], 2)
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = (
  plan: Pick<Plan<unknown, unknown>, "definition">,
  options?: EncodeOptions
): Effect.Effect<JsonObject, PayloadError | LossyEncoding> => internal.codec.encode(plan.definition, options)

/**
 * Writes a plan as JSON text; see {@link encode}. `indent` is the number of spaces per
 * level; default none, on one line.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeJson = (
  plan: Pick<Plan<unknown, unknown>, "definition">,
  options?: EncodeOptions & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError | LossyEncoding> => internal.codec.encodeJson(plan.definition, options)
