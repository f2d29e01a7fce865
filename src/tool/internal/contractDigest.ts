/**
 * Digests of contracts. The digest of a contract that came as JSON is computed when it is first read, because few
 * decoded agents are run.
 */

import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Digest from "../../payload/Digest.ts"
import type * as PayloadError from "../../payload/PayloadError.ts"
import { hashText } from "../../payload/internal/base.ts"
import { defined, type JsonObject } from "../../payload/internal/values.ts"
import type { RequestTerms } from "./requestTerms.ts"

/** The part of a contract that its digest covers. */
interface Content {
  readonly name: string
  readonly parameters: JsonObject
  readonly success?: JsonObject | undefined
  readonly failure?: JsonObject | undefined
  readonly timeout: Duration.Duration
  readonly approval: string
  readonly request?: RequestTerms | undefined
  readonly client?: string | undefined
  readonly annotations: object
}

/** Digests by contract. A contract is one object for all runs of a program. */
const known = new WeakMap<object, string>()

/** The digest of a contract. */
export const digestOf = (contract: Content): Result.Result<string, PayloadError.PayloadError> => {
  const before = known.get(contract)
  if (before !== undefined) return Result.succeed(before)
  const { annotations, approval, client, failure, name, parameters, request, success, timeout } = contract
  const text = Digest.canonicalize({
    name,
    parameters,
    ...defined({ success, failure }),
    timeout: Duration.isFinite(timeout) ? Duration.toMillis(timeout) : "infinity",
    approval,
    ...defined({ request, client }),
    // Sound: anything but JSON has no canonical form
    annotations: defined(annotations) as JsonObject
  })
  return Result.map(text, (canonical) => {
    const digest = hashText(canonical)
    known.set(contract, digest)
    return digest
  })
}

const later = {
  enumerable: true,
  configurable: true,
  get(this: Content): string {
    return Result.getOrElse(digestOf(this), () => "")
  }
}

/** True for a contract whose digest is computed when it is read, so that it always is the right one. */
export const isComputed = (contract: object): boolean =>
  Object.getOwnPropertyDescriptor(contract, "digest")?.get === later.get

/** The contract with its digest, which is computed when it is read. It is empty where there is none. */
export const withDigest = <C extends Content>(contract: C): C & { readonly digest: string } =>
  // Sound: the property is a text. Defining it on an object that has none takes half the time
  Object.defineProperty({ ...contract }, "digest", later) as C & { readonly digest: string }

/** The contract with an approval of every call. */
export const raised = <A extends object>(
  contract: Content & { readonly description?: string; readonly annotations: A }
) => {
  const { annotations, description, failure, name, parameters, request, success, timeout } = contract
  const approval = "always" as const
  const made = { name, description, parameters, success, failure, timeout, approval, request, annotations }
  return hasDigest(contract) ? Object.defineProperty(made, "digest", later) : made
}

/** The contract with the digest of `other`, a contract with the same content. */
export const withDigestOf = <C extends Content>(
  other: object,
  contract: C
): Result.Result<C & { readonly digest: string }, PayloadError.PayloadError> =>
  hasDigest(other)
    ? Result.succeed(withDigest(contract))
    : Result.map(digestOf(contract), (digest) => ({ ...contract, digest }))

/** True for a contract that has a digest, for sure. */
const hasDigest = (contract: object): boolean => isComputed(contract) || known.has(contract)
