import { assert, describe } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as remoteProtocol from "#src/tool/internal/remoteProtocol.ts"
import { HttpClientError, HttpClientRequest } from "effect/http"
import { ToolResult } from "effect-emissary"
import { Json } from "effect-emissary/payload"
import { test } from "../test.ts"

/** Frozen: these texts are what version 1 is. */
const request =
  '{"protocol":1,"runId":"r1","callId":"c1","name":"get_order","arguments":{"id":"42"},"contractDigest":"sha256:00","context":{"tenant":"acme"},"timeLeft":1700.5}'

const response =
  '{"protocol":1,"callId":"c1","result":{"_tag":"Success","content":[{"type":"text","text":"a","options":{"p":{"x":1}}},{"type":"file","mediaType":"image/png","fileName":"a.png","data":{"type":"base64","base64":"AQID"}},{"type":"file","mediaType":"image/png","data":{"type":"url","url":"https://a/b.png"}}],"value":{"a":[1,null]}}}'

const failure =
  '{"protocol":1,"callId":"c1","result":{"_tag":"Failure","type":"NoSuchOrder","message":"no","value":{"id":"1"},"content":[{"type":"text","text":"b"}]}}'

const roundTrip = Effect.fnUntraced(function* <T>(codec: Schema.Codec<T, unknown>, text: string) {
  const value = yield* Json.decodeJson(codec)(text)
  assert.strictEqual(JSON.stringify(yield* Schema.encodeEffect(codec)(value)), text)
})

describe("RT-5 L3 protocol 1 is frozen", () => {
  test("requests, also the least that one can be", function* () {
    const least = '{"protocol":1,"runId":"","callId":"","name":"","arguments":null}'
    for (const text of [request, least]) yield* roundTrip(remoteProtocol.Request, text)
  })

  test("responses with a success and with a failure", function* () {
    for (const text of [response, failure]) yield* roundTrip(remoteProtocol.Response, text)
  })

  test("the refusals", function* () {
    for (const text of [
      '{"_tag":"InvalidRequest","message":"m","issues":[{"path":"/a","expected":"e","found":"f"}]}',
      '{"_tag":"UnsupportedProtocol","message":"m","found":"2","supported":[1]}',
      '{"_tag":"Unauthorized","message":"m"}',
      '{"_tag":"Denied","message":"m"}',
      '{"_tag":"UnknownEndpoint","message":"m"}',
      '{"_tag":"ContractMismatch","message":"m","tool":"t","expected":"a","found":"b"}',
      '{"_tag":"RequestTooLarge","message":"m","limit":1}',
      '{"_tag":"UnsupportedMediaType","message":"m"}',
      '{"_tag":"InternalError","message":"m"}'
    ]) {
      yield* roundTrip(remoteProtocol.Refusal, text)
    }
  })
})

describe("RT-5 every result of the library fits protocol 1", () => {
  const decode = Schema.decodeUnknownEffect(ToolResult.ToolResult)

  test.prop("round trip", [ToolResult.ToolResult], function* ([result]) {
    assert.deepStrictEqual(yield* decode(result), result)
  })

  test("files too", function* () {
    const result = ToolResult.success("x", [ToolResult.filePart({ mediaType: "image/png", data: "AQID" })])
    assert.deepStrictEqual(yield* decode(result), result)
  })
})

describe("RT-5 errors of the network", () => {
  const request = HttpClientRequest.get("http://127.0.0.1")
  const isUnreachable = (cause: unknown) =>
    remoteProtocol.isUnreachable(
      new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, cause }) })
    )
  /** An error behind so many others. */
  const behind = (count: number, error: unknown): unknown => (count === 0 ? error : { cause: behind(count - 1, error) })

  test("are followed to their causes, to a depth of eight", function* () {
    yield* []
    const refused = { code: "ECONNREFUSED" }
    assert.isTrue(isUnreachable(refused))
    assert.isTrue(isUnreachable({ syscall: "connect", code: "EPERM" }))
    assert.isTrue(isUnreachable(behind(8, refused)))
    assert.isFalse(isUnreachable(behind(9, refused)))
    assert.isFalse(isUnreachable({ code: "ECONNRESET" }))
    assert.isFalse(isUnreachable(undefined))
  })

  test("of several addresses count where no address was reached", function* () {
    yield* []
    const refused = { code: "ECONNREFUSED" }
    assert.isTrue(isUnreachable({ errors: [refused, { cause: refused }] }))
    assert.isFalse(isUnreachable({ errors: [refused, { code: "ECONNRESET" }] }))
    assert.isFalse(isUnreachable({ errors: [] }))
    assert.isFalse(isUnreachable({ errors: [behind(8, refused)] }))
    const circle: { errors: Array<unknown> } = { errors: [] }
    circle.errors.push(circle)
    assert.isFalse(isUnreachable(circle))
  })

  test("have the first code among their reasons and causes", function* () {
    yield* []
    assert.strictEqual(remoteProtocol.codeOf({ code: "A", cause: { code: "B" } }), "A")
    assert.strictEqual(remoteProtocol.codeOf({ code: 7, cause: { code: "B" } }), "B")
    assert.strictEqual(remoteProtocol.codeOf({ reason: { code: "R" }, cause: { code: "B" } }), "R")
    assert.strictEqual(remoteProtocol.codeOf(behind(8, { code: "A" })), "A")
    assert.strictEqual(remoteProtocol.codeOf(behind(9, { code: "A" })), undefined)
    assert.strictEqual(remoteProtocol.codeOf({}), undefined)
  })
})
