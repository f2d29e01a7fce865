import { identity } from "effect/Function"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { Limits } from "../Limits.ts"
import { ForbiddenKey, Invalid, type Issue, type Reason, Secret, TooDeep, TooLarge } from "../PayloadError.ts"
import { kindOf } from "./kind.ts"
import { maxPaths, pointer } from "./pointer.ts"

/** No limits but those of the machine. */
export const unlimited: Limits = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxDepth: Number.POSITIVE_INFINITY,
  maxNodes: Number.POSITIVE_INFINITY,
  maxStringLength: Number.POSITIVE_INFINITY,
  maxArrayLength: Number.POSITIVE_INFINITY,
  maxTools: Number.POSITIVE_INFINITY,
  maxMessages: Number.POSITIVE_INFINITY,
  maxIssues: 50
}

/**
 * Counts the nodes of a value that `JSON.parse` made, or answers -1 if it holds
 * a forbidden key or a number that is not finite; {@link copy} then says where.
 */
export const countParsed = (root: Schema.Json): number => {
  const stack: Array<Schema.Json> = [root]
  let nodes = 0
  for (;;) {
    const value = stack.pop()
    if (value === undefined) return nodes
    nodes += 1
    if (typeof value === "number") {
      if (!Number.isFinite(value)) return -1
    } else if (isArray(value)) {
      for (const item of value) stack.push(item)
    } else if (typeof value === "object" && value !== null) {
      for (const key of Object.keys(value)) {
        const member = value[key]
        if (key === "__proto__" || (key === "constructor" && holdsPrototype(member))) return -1
        if (member !== undefined) stack.push(member)
      }
    }
  }
}

// Array.isArray does not narrow readonly arrays out of a union.
const isArray = (value: Schema.Json): value is ReadonlyArray<Schema.Json> => Array.isArray(value)

const holdsPrototype = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.hasOwn(value, "prototype")

type Container = Array<Schema.Json> | Record<string, Schema.Json>

interface Frame {
  readonly source: object
  /** Keys still to visit, or the length of an array. */
  readonly keys: ReadonlyArray<string> | number
  readonly target: Container
  next: number
  key: string | number
}

const ok = Symbol()

/**
 * Copies a value of unknown origin into fresh plain JSON, reading every member
 * once through its descriptor: getters are never called, and what a Proxy
 * answers later does not matter.
 */
export const copy = (root: unknown, limits: Limits): Result.Result<Schema.Json, Reason> => {
  const walk = new Walk(limits)
  return Result.flatMap(
    Result.try({
      try: () => walk.run(root),
      // Only a trap of a Proxy can throw here.
      catch: () =>
        new Invalid({
          issues: [{ path: walk.path(), expected: "plain JSON", found: "an object that cannot be read" }],
          omitted: 0
        })
    }),
    identity
  )
}

class Walk {
  readonly limits: Limits
  readonly stack: Array<Frame> = []
  readonly ancestors = new Set<object>()
  readonly issues: Array<Issue> = []
  omitted = 0
  paths = 0
  nodes = 0
  size = 0
  failure: Reason | undefined = undefined

  constructor(limits: Limits) {
    this.limits = limits
  }

  path(): string {
    return pointer(this.stack.map((frame) => frame.key))
  }

  run(root: unknown): Result.Result<Schema.Json, Reason> {
    const result = this.visit(root)
    while (this.failure === undefined) {
      const frame = this.stack.at(-1)
      if (frame === undefined) break
      this.step(frame)
    }
    if (this.failure !== undefined) return Result.fail(this.failure)
    if (this.issues.length > 0) return Result.fail(new Invalid({ issues: this.issues, omitted: this.omitted }))
    return Result.succeed(result)
  }

  /** Takes the next member of the innermost container. */
  step(frame: Frame): void {
    const size = typeof frame.keys === "number" ? frame.keys : frame.keys.length
    if (frame.next >= size) {
      this.stack.pop()
      this.ancestors.delete(frame.source)
      return
    }
    const key = typeof frame.keys === "number" ? frame.next : (frame.keys[frame.next] ?? "")
    frame.next += 1
    frame.key = key
    const descriptor = Object.getOwnPropertyDescriptor(frame.source, key)
    if (descriptor === undefined) return this.issue("a JSON value in every place of an array", "a hole")
    if (!("value" in descriptor)) return this.issue("a plain member", "a getter or setter")
    if (descriptor.enumerable !== true) return this.issue("an enumerable member", "a hidden one")
    const value: unknown = descriptor.value
    if (key === "__proto__" || (key === "constructor" && holdsPrototype(value))) {
      this.failure = new ForbiddenKey({ path: this.path(), key })
      return
    }
    const copied = this.visit(value)
    if (Array.isArray(frame.target)) frame.target.push(copied)
    else frame.target[key] = copied
  }

  /** Answers the copy of a scalar, or an empty copy of a container that is filled later. */
  visit(value: unknown): Schema.Json {
    this.nodes += 1
    if (this.nodes > this.limits.maxNodes) return this.tooLarge("nodes", this.limits.maxNodes, this.nodes, "")
    if (this.grow(1) !== ok) return null
    switch (typeof value) {
      case "string":
        if (value.length > this.limits.maxStringLength) {
          return this.tooLarge("string", this.limits.maxStringLength, value.length, this.path())
        }
        this.grow(value.length)
        return value
      case "boolean":
        return value
      case "number":
        if (!Number.isFinite(value)) this.issue("a finite number", kindOf(value))
        // Adding 0 turns -0 into 0, the one zero that JSON has.
        return value + 0
      case "object":
        return value === null ? null : this.open(value)
      case "undefined":
        this.issue("a JSON value (leave the key out instead)", "undefined")
        return null
      default:
        this.issue("a JSON value", typeof value)
        return null
    }
  }

  open(source: object): Schema.Json {
    if (this.ancestors.has(source)) {
      this.issue("a tree", "a cycle: an object that contains itself")
      return null
    }
    const array = Array.isArray(source)
    if (!isPlain(source, array)) {
      if (Redacted.isRedacted(source)) {
        const key = this.stack.at(-1)?.key ?? ""
        this.failure = new Secret({ path: this.path(), key: String(key), kind: "redacted" })
      } else this.issue(array ? "a plain array" : "a plain object", "an instance of a class")
      return null
    }
    if (this.stack.length >= this.limits.maxDepth) {
      this.failure = new TooDeep({ limit: this.limits.maxDepth, path: this.path() })
      return null
    }
    if (array && source.length > this.limits.maxArrayLength) {
      return this.tooLarge("array", this.limits.maxArrayLength, source.length, this.path())
    }
    const keys: Array<string> = []
    let others = 0
    for (const key of Reflect.ownKeys(source)) {
      if (typeof key === "string" && !array) {
        if (key.length > this.limits.maxStringLength) {
          return this.tooLarge("string", this.limits.maxStringLength, key.length, this.path())
        }
        this.grow(key.length)
        keys.push(key)
      } else if (typeof key === "symbol" || !isIndexOrLength(key)) others += 1
    }
    if (others > 0)
      this.issue(array ? "items only" : "keys that are strings", array ? "an array with other members" : "a symbol")
    const target: Container = array ? [] : {}
    this.stack.push({ source, keys: array ? source.length : keys, target, next: 0, key: "" })
    this.ancestors.add(source)
    return target
  }

  /** Counts what the JSON text takes at least. */
  grow(bytes: number): typeof ok | undefined {
    this.size += bytes
    if (this.size <= this.limits.maxBytes) return ok
    this.tooLarge("bytes", this.limits.maxBytes, this.size, "")
    return undefined
  }

  tooLarge(what: TooLarge["what"], limit: number, found: number, path: string): null {
    this.failure ??= new TooLarge({ what, limit, found, path })
    return null
  }

  issue(expected: string, found: string): void {
    if (this.issues.length >= this.limits.maxIssues || this.paths > maxPaths) {
      this.omitted += 1
      return
    }
    const path = this.path()
    this.paths += path.length
    this.issues.push({ path, expected, found })
  }
}

/** Made by a literal or `JSON.parse`, in this realm or another one: only a root prototype, or none. */
const isPlain = (source: object, array: boolean): boolean => {
  const prototype: unknown = Object.getPrototypeOf(source)
  if (prototype === null) return !array
  if (typeof prototype !== "object") return false
  // Array.prototype is itself an array; the prototype of a subclass is not.
  return array ? Array.isArray(prototype) : Object.getPrototypeOf(prototype) === null
}

const isIndexOrLength = (key: string): boolean => key === "length" || /^(?:0|[1-9]\d*)$/.test(key)
