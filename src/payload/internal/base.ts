/**
 * Small helpers that every room uses: objects without undefined members, kinds of schemas, and how messages name places.
 */

import type * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"

type Flatten<A> = { [K in keyof A]: A[K] }

type OptionalKeys<A> = { [K in keyof A]: undefined extends A[K] ? K : never }[keyof A]

/** The members of `A`; those that may be `undefined` become optional keys. */
export type Defined<A> = Flatten<
  { readonly [K in Exclude<keyof A, OptionalKeys<A>>]: A[K] } & {
    readonly [K in OptionalKeys<A>]?: Exclude<A[K], undefined>
  }
>

/**
 * The object without its undefined members, in the same order: `{ a, ...defined({ b }) }` holds `b` only if it has a value.
 */
export const defined = <A extends object>(members: A): Defined<A> => {
  const found: Partial<A> = {}
  for (const key in members) if (members[key] !== undefined) found[key] = members[key]
  // Sound: exactly the members that are not undefined are left.
  return found as Defined<A>
}

/** Keys come from outside and may be long. */
export const truncateText = (text: string, max: number = 120): string => {
  if (text.length <= max) return text
  const head = text.slice(0, max)
  return /[\uD800-\uDBFF]$/.test(head) ? `${head.slice(0, -1)}…` : `${head}…`
}

export const formatPlace = (path: string): string => (path === "" ? "at the root" : `at ${truncateText(path, 200)}`)

/** A name as messages show it: in quotes, on one line, and cut after 120 characters. */
export const quote = (name: string): string => JSON.stringify(truncateText(name))

/** The length of all paths of one error together, from which on problems are only counted: keys come from outside. */
export const maxPaths = 64 * 1024

export const isVoid = ({ ast }: Schema.Top): boolean => SchemaAST.isVoid(ast) || SchemaAST.isUndefined(ast)

/** A schema without information about its values. */
export const isUninformative = ({ ast }: Schema.Top): boolean =>
  SchemaAST.isUnknown(ast) || SchemaAST.isAny(ast) || SchemaAST.isNever(ast)
