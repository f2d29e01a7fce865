/**
 * Errors of AI SDK clients as errors of `effect/ai`, without secrets.
 */

import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as AiError from "effect/ai/AiError"
import * as base from "../../payload/internal/base.ts"
import * as fuel from "../../payload/internal/fuel.ts"
import * as maskSecrets from "../../payload/internal/maskSecrets.ts"
import { overLimit, publicDescription } from "../../payload/internal/problems.ts"
import { defined, own } from "../../payload/internal/values.ts"

/** The call that failed, for the error's text. */
export interface Failed {
  readonly method: string
  /** The name of the provider, `openai` for example. */
  readonly provider: string
  /** The environment variable that holds the key of the provider. */
  readonly keyVariable: string | undefined
  /** Values that were sent, and that no text may have. */
  readonly secrets: ReadonlyArray<string>
}

// Text

/** Keys without a prefix: long runs of letters, digits and stars, and UUIDs. */
const opaque = [/(?<![\w*])(?=[a-z_]*[\d*])[\w*]{20,}/gi, /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi]

const maxSentence = 300

/** As much of a text as is read, and of a code. */
const maxRead = 2000
const maxBody = 65_536
const maxCode = 100

/** Shorter values are words of texts. */
const minSecret = 6

/** One line of a provider's text, with the secrets masked, and everything that looks like a key. */
export const maskSentence = (text: string, secrets: ReadonlyArray<string> = []): string => {
  // A token is secret without its scheme, too
  const without = secrets
    .flatMap((secret) => [secret, ...secret.split(" ").slice(1)])
    .filter((secret) => secret.length >= minSecret)
    .reduce((rest, secret) => rest.replaceAll(secret, maskSecrets.masked), text.slice(0, maxRead))
  const line = opaque
    .reduce(
      (rest, pattern) => rest.replace(pattern, maskSecrets.masked),
      maskSecrets.maskText(without, fuel.make(maxRead))
    )
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
  return line.length > maxSentence ? `${base.firstUnits(line, maxSentence)}...` : line
}

const textOf = (value: unknown, key: string): string | undefined => {
  const found = Predicate.hasProperty(value, key) ? value[key] : undefined
  return typeof found === "string" && found !== "" ? found : undefined
}

const childOf = (value: unknown, key: string): unknown => (Predicate.hasProperty(value, key) ? value[key] : undefined)

/** The objects that may name the error: the error itself, and the `error` of its parsed body. */
const placesOf = (error: unknown): ReadonlyArray<unknown> => {
  const data = childOf(error, "data")
  return [childOf(data, "error"), data, childOf(error, "error"), error]
}

const firstText = (error: unknown, key: string): string | undefined =>
  placesOf(error).flatMap((place) => textOf(place, key) ?? [])[0]

/** The provider's sentence. */
const sentenceOf = (error: unknown): string | undefined => {
  if (typeof error === "string") return error === "" ? undefined : error
  const name = textOf(error, "name")
  return name === undefined ? firstText(error, "message") : textOf(error, "message")
}

// Headers

const headersOf = (error: unknown): ReadonlyMap<string, string> => {
  const headers = childOf(error, "responseHeaders")
  const entries = Predicate.isObject(headers) ? Object.entries(headers) : []
  return new Map(entries.flatMap(([name, value]) => (typeof value === "string" ? [[name.toLowerCase(), value]] : [])))
}

const positive = (text: string | undefined): Option.Option<number> => {
  const found = text === undefined || text.trim() === "" ? Number.NaN : Number(text)
  return Number.isFinite(found) && found >= 0 ? Option.some(found) : Option.none()
}

/** `retry-after-ms`, else `retry-after` in seconds or as an HTTP date (RFC 9110, 10.2.3). */
const retryAfterOf = (headers: ReadonlyMap<string, string>, now: number): Duration.Duration | undefined => {
  const after = headers.get("retry-after")
  const millis = positive(headers.get("retry-after-ms")).pipe(
    Option.orElse(() => Option.map(positive(after), (seconds) => seconds * 1000)),
    Option.orElse(() => {
      const date = after === undefined ? Number.NaN : Date.parse(after)
      return Number.isNaN(date) ? Option.none() : Option.some(Math.max(0, date - now))
    })
  )
  return Option.isSome(millis) ? Duration.millis(millis.value) : undefined
}

/** Headers that help to find a request in the provider's log, and hold no secret. */
const shownHeaders = new Set(["x-request-id", "request-id", "retry-after", "retry-after-ms"])

// Reasons

interface Facts extends Failed {
  readonly status: number | undefined
  readonly sentence: string | undefined
  /** The code, type or status name by which the provider calls the error. */
  readonly codes: ReadonlyArray<string>
  /** The limit that was met passes by itself. */
  readonly isPassing: boolean
  readonly retryAfter: Duration.Duration | undefined
  readonly url: string
  readonly http: typeof AiError.HttpContext.Type | undefined
}

const quotaCodes = /insufficient_quota|billing|credit balance|exceeded your current quota/i
/** A limit per minute: its sentence may name the quota, or where to pay for a greater one. */
const passingLimit = /rate_limit|(?:try again|retry) in \d/i
const policyCodes = /content_policy|content_filter|responsibleaipolicy/i
const keyRefused =
  /(?:invalid|incorrect|not valid|expired|missing)[^.]{0,80}api[ _-]?key|api[ _-]?key[^.]{0,80}(?:invalid|incorrect|not valid|expired|missing)/i
const unknownModel =
  /model_not_found|invalid_model|^model: |\bmodels?\b.{0,80}(?:not found|does not exist)|not a valid model/is

const matches = ({ codes, sentence = "" }: Facts, pattern: RegExp): boolean =>
  pattern.test(sentence) || codes.some((code) => pattern.test(code))

/** The statuses behind the names by which providers call errors in the middle of a stream. */
const statusOfCode: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  invalid_api_key: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  server_error: 500,
  api_error: 500,
  overloaded_error: 529
}

/** Marks a description that may be shown: it quotes no message of the conversation. */
const shown = { metadata: { [publicDescription]: true } }

/** The sentence apart from a description that may be shown: a gateway repeats the prompt in it. */
const withBody = ({ http, sentence }: Facts) => defined({ http: http && { ...http, ...defined({ body: sentence }) } })

const withSentence = (text: string, { sentence }: Facts): string =>
  sentence === undefined ? text : `${text}: ${sentence}`

const refusedKey = (facts: Facts, kind: AiError.AuthenticationError["kind"]) => {
  const { keyVariable, provider, status } = facts
  const where = keyVariable === undefined ? "Check the key that it is given" : `Check ${keyVariable}`
  const refused = `${provider} refused the API key${status === undefined ? "" : ` (status ${status})`}`
  return new AiError.AuthenticationError({
    kind,
    description: `${refused}. ${where}`,
    ...shown,
    ...withBody(facts)
  })
}

const reasonOfStatus = (facts: Facts, status: number): AiError.AiErrorReason => {
  const { http, isPassing, provider, retryAfter, sentence, url } = facts
  const common = defined({ http })
  if (status === 401 || (status === 400 && matches(facts, keyRefused))) return refusedKey(facts, "InvalidKey")
  if (status === 429 && isPassing) return new AiError.RateLimitError({ ...common, ...defined({ retryAfter }) })
  if (status === 402 || ((status === 429 || status === 400 || status === 403) && matches(facts, quotaCodes))) {
    return new AiError.QuotaExhaustedError(common)
  }
  if (status === 403) return refusedKey(facts, "InsufficientPermissions")
  if (status === 429) return new AiError.RateLimitError({ ...common, ...defined({ retryAfter }) })
  const place = status === 404 && url !== "" ? `at ${maskSentence(url)} (status 404)` : ""
  if ((status === 404 || status === 400) && matches(facts, unknownModel)) {
    return new AiError.InvalidRequestError({
      parameter: "model",
      description: `${provider} does not know the model${place === "" ? "" : `. It was asked ${place}`}`,
      ...shown,
      ...withBody(facts)
    })
  }
  if (status === 404) {
    const description = `${provider} has nothing ${place === "" ? "there (status 404)" : place}. Check the base URL and the model`
    return new AiError.InvalidRequestError({ description, ...shown, ...withBody(facts) })
  }
  if (status === 408 || status === 409 || status === 425 || status >= 500) {
    const description = withSentence(`${provider} answered with status ${status}`, facts)
    return new AiError.InternalProviderError({ description, ...common })
  }
  if (matches(facts, policyCodes)) {
    return new AiError.ContentPolicyError({ description: sentence ?? "refused by the provider", ...common })
  }
  if (status >= 400) return new AiError.InvalidRequestError({ ...common, ...defined({ description: sentence }) })
  if (status >= 300) {
    const description = `${provider} answered with a redirect (status ${status}), which is not followed. Set the base URL that it leads to`
    return new AiError.InvalidRequestError({ description, ...shown, ...common })
  }
  return new AiError.InvalidResponseError({ description: sentence ?? `status ${status}`, ...common })
}

/** The URL without what may hold a key. */
const plainUrl = (error: unknown): string => {
  const url = textOf(error, "url") ?? ""
  if (!URL.canParse(url)) return ""
  const { host, pathname, protocol } = new URL(url)
  return `${protocol}//${host}${pathname}`
}

const networkError = (error: unknown, description: string) =>
  new AiError.NetworkError({ reason: "TransportError", method: "POST", url: plainUrl(error), description })

/** Tests that a response began well, and that reading it failed for another reason than its data. */
const isBroken = (error: unknown, { status }: Facts): boolean => {
  const cause = childOf(error, "cause")
  return (
    status !== undefined && status < 400 && cause instanceof Error && textOf(cause, "name")?.startsWith("AI_") === false
  )
}

const unreadable = new Set([
  "AI_EmptyResponseBodyError",
  "AI_InvalidResponseDataError",
  "AI_JSONParseError",
  "AI_NoContentGeneratedError",
  "AI_TypeValidationError"
])

/** The error of a client that demands a finish reason from a stream that ended as it should. */
export const isWithoutReason = (error: unknown): boolean =>
  textOf(error, "name") === "AI_InvalidResponseDataError" &&
  /without a finish reason/i.test(textOf(error, "message") ?? "")

const unusable = new Set(["AI_InvalidPromptError", "AI_InvalidArgumentError", "AI_UnsupportedFunctionalityError"])

const cutStream = /without a finish reason|terminated|premature close|aborted|socket|network|fetch failed/i

/** The client's text about data that it could not read may quote the answer: its first sentence does not. */
const firstSentence = (text: string): string => text.split(/[:\n]/)[0] ?? text

const reasonOf = (error: unknown, facts: Facts): AiError.AiErrorReason => {
  const name = textOf(error, "name") ?? ""
  const { sentence = "" } = facts
  if (name === "AI_LoadAPIKeyError" || name === "AI_LoadSettingError") {
    return new AiError.AuthenticationError({ kind: "MissingKey", description: sentence, ...shown })
  }
  if (name === "AI_NoSuchModelError") {
    return new AiError.InvalidRequestError({ parameter: "model", description: sentence, ...shown })
  }
  if (isBroken(error, facts)) {
    return networkError(error, `the connection to ${facts.provider} broke in the middle of the answer`)
  }
  if (facts.status !== undefined) return reasonOfStatus(facts, facts.status)
  if (unusable.has(name)) return new AiError.InvalidRequestError({ description: sentence })
  if (name === "AI_APICallError" || ((error instanceof Error || unreadable.has(name)) && cutStream.test(sentence))) {
    return networkError(error, sentence)
  }
  if (unreadable.has(name)) return new AiError.InvalidResponseError({ description: firstSentence(sentence) })
  if (error instanceof Error) return new AiError.UnknownError({ description: sentence })
  return new AiError.InternalProviderError({ description: sentence === "" ? "no description" : sentence })
}

const factsOf = (error: unknown, failed: Failed, now: number): Facts => {
  const headers = headersOf(error)
  const codes = ["code", "type", "status"].flatMap((key) => firstText(error, key)?.slice(0, maxCode) ?? [])
  const found = childOf(error, "statusCode")
  const numbers = ["code", "status"].flatMap((key) => placesOf(error).map((place) => Number(childOf(place, key))))
  const number = numbers.find((code) => Number.isSafeInteger(code) && code >= 400 && code < 600)
  const named = codes.flatMap((code) => own(statusOfCode, code.toLowerCase()) ?? [])[0]
  const status = Number.isSafeInteger(found) ? Number(found) : (number ?? named)
  const sentence = sentenceOf(error)
  return {
    ...failed,
    status,
    codes,
    isPassing: [...codes, (sentence ?? "").slice(0, maxRead)].some((text) => passingLimit.test(text)),
    sentence: sentence === undefined ? undefined : maskSentence(sentence, failed.secrets),
    retryAfter: retryAfterOf(headers, now),
    url: plainUrl(error),
    http:
      status === undefined
        ? undefined
        : {
            response: {
              status,
              headers: Object.fromEntries([...headers].filter(([header]) => shownHeaders.has(header)))
            }
          }
  }
}

/** Why a model cannot be used, if it has another version of the specification. */
export const wrongVersion = ({ specificationVersion: found }: { readonly specificationVersion: string }) =>
  found === "v4"
    ? undefined
    : `expected a model with specificationVersion "v4", got ${base.quote(String(found))}. Install a release of its package that depends on @ai-sdk/provider 4`

export const make = (method: string, reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "AiSdk", method, reason })

/** The error of an answer that cannot be used. Its description may be shown. */
export const invalidOutput = ({ method, provider }: Failed, problem: string): AiError.AiError => {
  return make(
    method,
    new AiError.InvalidOutputError({ description: `the answer of ${provider}: ${problem}`, ...shown })
  )
}

/** The error of an answer that passes a limit: the same one would come again. */
export const tooLarge = ({ method }: Failed, description: string): AiError.AiError => {
  const metadata = { ...shown.metadata, [overLimit]: true }
  return make(method, new AiError.InvalidOutputError({ description, metadata }))
}

/** The error of a request that the model cannot take. Its description may be shown. */
export const invalidRequest = ({ method }: Failed, description: string): AiError.AiError =>
  make(method, new AiError.InvalidRequestError({ description, ...shown }))

/** The error in the body of an answer whose status is one of success. */
const errorInBody = (error: unknown): unknown => {
  const status = Number(childOf(error, "statusCode"))
  const body = textOf(error, "responseBody")
  if (!(status >= 200 && status < 300) || body === undefined || body.length > maxBody) return undefined
  const found = childOf(Result.getOrUndefined(Result.try((): unknown => JSON.parse(body))), "error")
  return Predicate.isObject(found) || (typeof found === "string" && found !== "") ? found : undefined
}

const reasonOfError = (error: unknown, failed: Failed, now: number): AiError.AiErrorReason => {
  const within = errorInBody(error)
  if (within === undefined) return reasonOf(error, factsOf(error, failed, now))
  const facts = factsOf(within, failed, now)
  const status = Number(childOf(error, "statusCode"))
  const sentence = `an error in an answer with status ${status}: ${facts.sentence ?? "no description"}`
  return reasonOfStatus({ ...facts, sentence, url: plainUrl(error) }, facts.status ?? status)
}

/** The error of `effect/ai` for what a client of the AI SDK threw, or sent in a stream. */
export const fromSdk = (error: unknown, failed: Failed): Effect.Effect<AiError.AiError> =>
  Effect.map(Clock.currentTimeMillis, (now) => make(failed.method, reasonOfError(error, failed, now)))

/** A stream that ended before its model did. */
export const cutOff = ({ method, provider }: Failed): AiError.AiError =>
  make(method, networkError(undefined, `the stream of ${provider} ended before the answer did`))
