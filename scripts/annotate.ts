/**
 * Marks the calls that the modules of `dist` make while they are loaded as pure, as the build of Effect does: a bundler
 * then drops each Schema, codec and service that a program does not use. `npm run build` runs it after `tsc`.
 *
 * A call counts whose value is kept, by a declaration, a class or a default export. A statement that is a call alone
 * stays as it is, so what a module does on purpose, it does.
 */
import { transformAsync, type NodePath, type PluginObject, type types } from "@babel/core"
import { globSync, readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

type Call = NodePath<types.CallExpression | types.NewExpression>

/** A call in the callee of another one is covered by the mark of the whole. */
const isInCallee = (path: NodePath): boolean =>
  path.findParent(({ key, parentPath }) => key === "callee" && parentPath?.isStatement() === false) !== null

const visit = (path: Call): void => {
  const isKept = path.findParent(
    (parent) => parent.isVariableDeclaration() || parent.isClass() || parent.isExportDefaultDeclaration()
  )
  if (path.getFunctionParent() !== null || isKept === null || path.key === "callee" || isInCallee(path)) return
  path.addComment("leading", "#__PURE__")
}

const plugin: PluginObject = { name: "annotate", visitor: { CallExpression: visit, NewExpression: visit } }

const dist = fileURLToPath(new URL("../dist", import.meta.url))

for (const path of globSync(`${dist}/**/*.js`)) {
  const code = readFileSync(path, "utf8")
  const made = await transformAsync(code, {
    filename: path,
    babelrc: false,
    configFile: false,
    compact: false,
    // The documentation is in the types and the sources; without it here the modules are a third smaller
    shouldPrintComment: (text) => text.startsWith("#__PURE__"),
    plugins: [() => plugin],
    sourceMaps: true,
    // The source map of tsc, so that the new map leads to the sources
    inputSourceMap: JSON.parse(readFileSync(`${path}.map`, "utf8"))
  })
  writeFileSync(path, `${made?.code ?? code}\n`)
  writeFileSync(`${path}.map`, JSON.stringify(made?.map))
}
