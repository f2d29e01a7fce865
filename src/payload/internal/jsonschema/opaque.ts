import * as SchemaAST from "effect/SchemaAST"
import { join } from "./location.ts"

interface Opaque {
  readonly path: string
  readonly problem: string
}

const hasJsonForm = ({ annotations }: SchemaAST.Declaration): boolean =>
  annotations !== undefined &&
  ["toCodecJson", "toCodec", "representation"].some((key) => Object.hasOwn(annotations, key))

/**
 * Finds a part of a Schema that no codec turns into JSON: core exports it as
 * "anything" and fails when such a value is encoded.
 */
export const findOpaque = (root: SchemaAST.AST): Opaque | undefined => {
  const seen = new Set<SchemaAST.AST>()
  const open: Array<{ readonly ast: SchemaAST.AST; readonly path: string }> = [
    { ast: SchemaAST.toEncoded(root), path: "" }
  ]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { ast, path } = next
    if (seen.has(ast)) continue
    seen.add(ast)
    switch (ast._tag) {
      case "Declaration":
        if (!hasJsonForm(ast)) {
          return {
            path,
            problem: "a value of a class or declaration without a codec; give it a toCodecJson annotation"
          }
        }
        for (const parameter of ast.typeParameters) open.push({ ast: SchemaAST.toEncoded(parameter), path })
        break
      case "Objects":
        for (const { name, type } of ast.propertySignatures) {
          open.push({ ast: type, path: join(join(path, "properties"), String(name)) })
        }
        for (const { type } of ast.indexSignatures) open.push({ ast: type, path: join(path, "additionalProperties") })
        break
      case "Arrays":
        for (const [index, element] of ast.elements.entries()) {
          open.push({ ast: element, path: join(join(path, "prefixItems"), index) })
        }
        for (const rest of ast.rest) open.push({ ast: rest, path: join(path, "items") })
        break
      case "Union":
        for (const [index, member] of ast.types.entries()) {
          open.push({ ast: member, path: join(join(path, "anyOf"), index) })
        }
        break
      case "Suspend":
        open.push({ ast: ast.thunk(), path })
        break
    }
  }
  return undefined
}
