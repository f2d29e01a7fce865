import * as AiError from "effect/ai/AiError"
import * as Duration from "effect/Duration"
import type * as Script from "../Script.ts"

const reasons: {
  readonly [name in Script.FailureName]: (failure: Script.Failure, description: string) => AiError.AiErrorReason
} = {
  RateLimitError: (failure) =>
    new AiError.RateLimitError(
      failure.retryAfter === undefined ? {} : { retryAfter: Duration.millis(failure.retryAfter) }
    ),
  QuotaExhaustedError: () => new AiError.QuotaExhaustedError({}),
  AuthenticationError: (_, description) => new AiError.AuthenticationError({ kind: "Unknown", description }),
  ContentPolicyError: (_, description) => new AiError.ContentPolicyError({ description }),
  InvalidRequestError: (_, description) => new AiError.InvalidRequestError({ description }),
  InvalidResponseError: (_, description) => new AiError.InvalidResponseError({ description }),
  InternalProviderError: (_, description) => new AiError.InternalProviderError({ description }),
  NetworkError: (_, description) =>
    new AiError.NetworkError({
      reason: "TransportError",
      method: "POST",
      url: "http://scripted.invalid/",
      description
    }),
  InvalidOutputError: (_, description) => new AiError.InvalidOutputError({ description }),
  ToolNotFoundError: (failure) =>
    new AiError.ToolNotFoundError({ toolName: failure.toolName ?? "tool", availableTools: [] }),
  ToolParameterValidationError: (failure, description) =>
    new AiError.ToolParameterValidationError({ toolName: failure.toolName ?? "tool", description }),
  UnknownError: (_, description) => new AiError.UnknownError({ description })
}

export const toReason = (failure: Script.Failure): AiError.AiErrorReason =>
  reasons[failure.reason](failure, failure.description ?? "scripted failure")
