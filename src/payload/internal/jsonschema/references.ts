import type { Reason } from "../../JsonSchemaError.ts"
import type { Node } from "./model.ts"
import type { Dialect } from "./dialect.ts"

/** A `$ref` that was read and waits for the whole document. */
export interface Pending {
  readonly node: Node
  readonly ref: string
  readonly base: string
}

/** What `$id`, `$anchor` and places in the document lead to. */
export interface Index {
  /** Places of the resources, by absolute URI without a fragment. */
  readonly resources: Map<string, string>
  /** Nodes by absolute URI with the anchor as its fragment. */
  readonly anchors: Map<string, Node>
  /** Nodes by their place in the document. */
  readonly nodes: Map<string, Node>
}

/** Every reference below a schema is resolved against its URI. */
const maxUri = 2048

/** Documents without an `$id` live here; nothing is ever fetched. */
export const documentUri = "https://schema.invalid/"

interface Identity {
  readonly base: string
  readonly anchor: string | undefined
}

const withoutFragment = (uri: string): string => {
  const hash = uri.indexOf("#")
  return hash < 0 ? uri : uri.slice(0, hash)
}

/** Reads an `$id`: a new base, or in draft-07 an anchor. */
export const readId = (id: string, base: string, dialect: Dialect): Identity | Reason => {
  if (dialect === "draft-07" && /^#[^/]+$/.test(id)) return { base, anchor: id.slice(1) }
  const url = URL.parse(id, base)
  if (url === null || !/^[^#]*#?$/.test(id)) {
    return { _tag: "InvalidKeyword", keyword: "$id", expected: "a URI without a fragment", found: "string" }
  }
  if (url.href.length > maxUri) {
    return { _tag: "TooLarge", what: "length of the $id", limit: maxUri, found: url.href.length }
  }
  return { base: withoutFragment(url.href), anchor: undefined }
}

const decode = (fragment: string): string | undefined => {
  let text = ""
  let bytes: Array<number> = []
  const flush = () => {
    text += new TextDecoder().decode(new Uint8Array(bytes))
    bytes = []
  }
  for (let i = 0; i < fragment.length; i++) {
    const char = fragment[i] ?? ""
    if (char !== "%") {
      if (bytes.length > 0) flush()
      text += char
      continue
    }
    const hex = fragment.slice(i + 1, i + 3)
    if (!/^[0-9a-fA-F]{2}$/.test(hex)) return undefined
    bytes.push(Number.parseInt(hex, 16))
    i += 2
  }
  if (bytes.length > 0) flush()
  return text
}

/** The node a reference means, or why there is none. */
export const resolve = ({ base, ref }: Pending, index: Index): Node | Reason => {
  const refuse = (problem: string): Reason => ({ _tag: "UnresolvedReference", ref, problem })
  const hash = ref.indexOf("#")
  const url = URL.parse(hash < 0 ? ref : ref.slice(0, hash), base)
  const uri = hash === 0 ? base : url === null ? undefined : withoutFragment(url.href)
  const root = uri === undefined ? undefined : index.resources.get(uri)
  if (uri === undefined || root === undefined) {
    return refuse("it leaves the document, and nothing is ever fetched; copy the schema into $defs")
  }
  const fragment = decode(hash < 0 ? "" : ref.slice(hash + 1))
  if (fragment === undefined) return refuse("the fragment is not well encoded")
  const place = fragment === "" || fragment.startsWith("/")
  const node = place ? index.nodes.get(root + fragment) : index.anchors.get(`${uri}#${fragment}`)
  return node ?? refuse(place ? "there is no schema at this place" : "there is no such anchor")
}
