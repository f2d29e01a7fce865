/**
 * A stored value where storage holds one text per name: a line that says what
 * follows, then the JSON text of the value. The line alone answers which version it
 * is, and whether the whole value is there.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { invalid, NotJson, PayloadError } from "../../../payload/PayloadError.ts"
import * as VersionedCodec from "../../../payload/VersionedCodec.ts"
import { Unreadable, Refused } from "../../VersionedStoreError.ts"

interface Header {
  readonly key: string
  readonly version: string
  /** Bytes of the value's text. */
  readonly bytes: number
}

const what = "header of the stored value"

const Header = Schema.Struct({
  version: Schema.String,
  bytes: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  key: Schema.String
})

const codec = VersionedCodec.make<Header>({
  what,
  field: "format",
  type: Header,
  arms: [
    VersionedCodec.arm({
      version: 1,
      wire: Schema.Struct({ format: Schema.Literal(1), ...Header.fields }),
      toCurrent: ({ format: _, ...header }) => Effect.succeed(header),
      fromCurrent: (header: Header) => VersionedCodec.lossless({ format: 1 as const, ...header })
    })
  ]
})

const lineFeed = 0x0a

export const write = (key: string, version: string, text: string): Effect.Effect<Uint8Array, Refused> => {
  const value = new TextEncoder().encode(text)
  return codec.encodeJson({ key, version, bytes: value.length }).pipe(
    Effect.map((header) => {
      const line = new TextEncoder().encode(header)
      const bytes = new Uint8Array(line.length + 1 + value.length)
      bytes.set(line)
      bytes[line.length] = lineFeed
      bytes.set(value, line.length + 1)
      return bytes
    }),
    // One arm without losses: the only other error is a key longer than the limits allow
    Effect.catchTag("LossyEncoding", Effect.die),
    Effect.mapError((error) => new Refused({ error }))
  )
}

const unreadable = (reason: PayloadError["reason"]) =>
  new Unreadable({ error: new PayloadError({ what: "stored value", reason }) })

export interface Stored extends Header {
  readonly value: Uint8Array
}

/** Reads what {@link write} wrote; with `key`, that of this key. */
export const read = (bytes: Uint8Array, key: string | undefined): Effect.Effect<Stored, Unreadable> => {
  const end = bytes.indexOf(lineFeed)
  if (end === -1) {
    return Effect.fail(
      unreadable(
        new NotJson({ offset: bytes.length, message: `expected a header line, found none in ${bytes.length} bytes` })
      )
    )
  }
  return codec.decodeJson(bytes.subarray(0, end)).pipe(
    Effect.mapError((error) => new Unreadable({ error })),
    Effect.flatMap((header) => {
      const value = bytes.subarray(end + 1)
      if (value.length !== header.bytes) {
        const issue = { path: "", expected: `${header.bytes} bytes`, found: `${value.length} bytes` }
        return Effect.fail(unreadable(invalid([issue])))
      }
      if (key !== undefined && header.key !== key) {
        const issue = { path: "", expected: "the value of the key", found: "the value of another key" }
        return Effect.fail(unreadable(invalid([issue])))
      }
      return Effect.succeed({ ...header, value })
    })
  )
}
