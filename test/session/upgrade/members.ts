/** Finds the members of a Schema that stored values do not have. */
import { Predicate, type Schema, SchemaAST } from "effect"

interface Members {
  /** The members that values have had. */
  readonly found: Set<string>
  /** All members, by the object that has them. */
  readonly all: Map<SchemaAST.AST, ReadonlyArray<string>>
}

const resolve = (ast: SchemaAST.AST): SchemaAST.AST => (SchemaAST.isSuspend(ast) ? resolve(ast.thunk()) : ast)

/** The tag of an object, or some of its members. */
const nameOf = ({ propertySignatures }: SchemaAST.Objects): string => {
  const names = propertySignatures.map(({ name }) => String(name))
  const tag = propertySignatures.find(({ name }) => /^(_tag|type|role)$/.test(String(name)))?.type
  if (tag !== undefined && SchemaAST.isLiteral(tag)) return String(tag.literal)
  return `(${[...names.slice(0, 2), ...names.slice(2).slice(-1)].join(" ")})`
}

/** All members of the objects in a Schema. */
const collect = (given: SchemaAST.AST, members: Members): void => {
  const ast = resolve(given)
  if (members.all.has(ast)) return
  members.all.set(ast, [])
  if (SchemaAST.isUnion(ast)) for (const type of ast.types) collect(type, members)
  if (SchemaAST.isArrays(ast)) for (const type of [...ast.elements, ...ast.rest]) collect(type, members)
  if (!SchemaAST.isObjects(ast)) return
  members.all.set(
    ast,
    ast.propertySignatures.map(({ name }) => `${nameOf(ast)}.${String(name)}`)
  )
  for (const { type } of ast.propertySignatures) collect(type, members)
  for (const { type } of ast.indexSignatures) collect(type, members)
}

/** True for a value that may be one of this type, by its kind, its literals and the members that it has to have. */
const fits = (given: SchemaAST.AST, value: unknown): boolean => {
  const ast = resolve(given)
  if (SchemaAST.isLiteral(ast)) return ast.literal === value
  if (SchemaAST.isUnion(ast)) return ast.types.some((type) => fits(type, value))
  if (SchemaAST.isArrays(ast)) return Array.isArray(value)
  if (SchemaAST.isUnknown(ast) || SchemaAST.isDeclaration(ast)) return true
  if (!SchemaAST.isObjects(ast)) return typeof value !== "object" || value === null
  return (
    Predicate.isObject(value) &&
    ast.propertySignatures.every(({ name, type }) =>
      Object.hasOwn(value, name) ? fits(type, Reflect.get(value, name)) : SchemaAST.isOptional(type)
    )
  )
}

const visit = (given: SchemaAST.AST, value: unknown, members: Members): void => {
  const ast = resolve(given)
  if (SchemaAST.isUnion(ast)) {
    const type = ast.types.find((type) => fits(type, value))
    if (type !== undefined) visit(type, value, members)
  } else if (SchemaAST.isArrays(ast) && Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const type = ast.elements[index] ?? ast.rest[0]
      if (type !== undefined) visit(type, item, members)
    }
  } else if (SchemaAST.isObjects(ast) && Predicate.isObject(value)) {
    for (const { name, type } of ast.propertySignatures) {
      if (!Object.hasOwn(value, name)) continue
      members.found.add(`${nameOf(ast)}.${String(name)}`)
      visit(type, Reflect.get(value, name), members)
    }
    for (const { type } of ast.indexSignatures) {
      for (const [key, item] of Object.entries(value)) {
        if (!ast.propertySignatures.some(({ name }) => name === key)) visit(type, item, members)
      }
    }
  }
}

/** The members of Schemas, as JSON has them, that none of their values has. */
export const missing = (
  parts: ReadonlyArray<readonly [schema: Schema.Top, values: ReadonlyArray<unknown>]>
): ReadonlyArray<string> => {
  const members: Members = { found: new Set(), all: new Map() }
  for (const [schema, values] of parts) {
    const ast = SchemaAST.toEncoded(schema.ast)
    collect(ast, members)
    for (const value of values) visit(ast, value, members)
  }
  const all = new Set([...members.all.values()].flat())
  return Array.from(all)
    .filter((name) => !members.found.has(name))
    .toSorted()
}
