/**
 * Digests of contracts. That of a contract which came as JSON is computed when it is first read: few that are decoded are run.
 */

import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Digest from "../../payload/Digest.ts"
import type * as PayloadError from "../../payload/PayloadError.ts"
import { hashText } from "../../payload/internal/base.ts"
import { defined, type JsonObject } from "../../payload/internal/plainJson.ts"

/** The part of a contract that its digest covers. */
interface Content {
  readonly name: string
  readonly parameters: JsonObject
  readonly success?: JsonObject
  readonly failure?: JsonObject
  readonly timeout: Duration.Duration
  readonly approval: string
  readonly annotations: object
}

/** The digests of contracts, each of which is one object for all runs of a program; null until it is first read. */
const known = new WeakMap<object, string | null>()

/** The digest of a contract. */
export const digestOf = (contract: Content): Result.Result<string, PayloadError.PayloadError> => {
  const before = known.get(contract)
  if (typeof before === "string") return Result.succeed(before)
  const { annotations, approval, failure, name, parameters, success, timeout } = contract
  const text = Digest.canonicalize({
    name,
    parameters,
    ...defined({ success, failure }),
    timeout: Duration.isFinite(timeout) ? Duration.toMillis(timeout) : "infinity",
    approval,
    // Sound: anything but JSON has no canonical form
    annotations: defined(annotations) as JsonObject
  })
  return Result.map(text, (canonical) => {
    const digest = hashText(canonical)
    known.set(contract, digest)
    return digest
  })
}

/** True for a contract whose digest is right, because it was not read yet. */
export const isUnread = (contract: object): boolean => known.get(contract) === null

/** JSON whose canonical form has no failure: none of its texts has a lone surrogate, which JSON text holds as an escape. */
const hasCanonicalForm = (json: Schema.Json): boolean => {
  const text = Result.try(() => JSON.stringify(json))
  return Result.isSuccess(text) && !text.success.includes("\\ud")
}

const lazily = {
  enumerable: true,
  configurable: true,
  get(this: Content): string {
    return Result.getOrElse(digestOf(this), () => "")
  }
}

const readLater = <C extends Content>(contract: C): C & { readonly digest: string } => {
  const made = { ...contract, digest: "" }
  known.set(made, null)
  return Object.defineProperty(made, "digest", lazily)
}

/** A contract that is JSON, with its digest. If none can be computed it is empty. */
export const withDigest = <C extends Content>(contract: C): C & { readonly digest: string } => {
  const { annotations, failure = null, name, parameters, success = null } = contract
  // Sound: so are its annotations
  const isSafe = hasCanonicalForm([name, parameters, success, failure, annotations as JsonObject])
  return isSafe ? readLater(contract) : { ...contract, digest: Result.getOrElse(digestOf(contract), () => "") }
}

/** The contract with the digest of another one, which has the same content. */
export const withDigestOf = <C extends Content>(
  other: object,
  contract: C
): Result.Result<C & { readonly digest: string }, PayloadError.PayloadError> => {
  const before = known.get(other)
  if (before === null) return Result.succeed(readLater(contract))
  const digest = before === undefined ? digestOf(contract) : Result.succeed(before)
  return Result.map(digest, (digest) => ({ ...contract, digest }))
}

/** The contract with an approval of every call, without its digest; that of the new contract need not be read yet, either. */
export const raised = <C extends Content & { readonly description?: string }>(contract: C) => {
  const { annotations, description, failure, name, parameters, success, timeout } = contract
  const made = { name, description, parameters, success, failure, timeout, approval: "always" as const, annotations }
  if (known.has(contract)) known.set(made, null)
  return made
}
