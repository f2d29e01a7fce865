import { Redacted } from "effect"
import * as nodeCrypto from "node:crypto"

/** The key pair of RFC 8037, A.1: the signatures of a known key are the same in every run. */
export const jwk = {
  kty: "OKP",
  crv: "Ed25519",
  d: "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
  x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
}

export const known = nodeCrypto.createPrivateKey({ key: jwk, format: "jwk" })
export const privateKey = Redacted.make(known.export({ type: "pkcs8", format: "pem" }).toString())
export const publicKey = nodeCrypto.createPublicKey(known).export({ type: "spki", format: "pem" }).toString()
export const key = { keyId: "team-a", privateKey }
