/**
 * `npm run docs` makes the site in `.generated/site`: the pages of `docs` and the reference of the public modules, from the doc comments
 * in `dist`. It needs no network. The tools are a package of their own: `npm ci --prefix site` installs them.
 *
 * VitePress refuses a link that leads nowhere, so a build is also the check of the links of the reference.
 */
import { spawnSync } from "node:child_process"
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, posix } from "node:path"
import { repository } from "../site/pages.ts"
import { root } from "./sources.ts"

const site = join(root, "site")
const assembled = join(site, ".pages")
const declarations = join(root, ".generated", "declarations")

const write = (path: string, text: string): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

/** Links to files outside `docs` lead to the repository, or are their text as long as it has no address. */
export const relink = (page: string, text: string): string =>
  text.replace(/\[([^\]]*)\]\((\.\.\/[^)\s]*)\)/g, (_, label: string, to: string) => {
    const path = posix.normalize(posix.join(posix.dirname(page), to))
    return repository === ""
      ? `${label} (\`${path.replace(/#.*/, "")}\`)`
      : `[${label}](${repository}/blob/main/${path})`
  })

const comment = /\/\*\*(?:[^*]|\*(?!\/))*\*\//

/**
 * Copies the declarations, so that TypeDoc finds each comment where it looks: the comment of a module has `@module`, and the comment of
 * a name that is exported again is put before its declaration.
 */
const prepareDeclarations = (): void => {
  rmSync(declarations, { recursive: true, force: true })
  cpSync(join(root, "dist"), declarations, { recursive: true, filter: (path) => !/\.(js|map)$/.test(path) })
  const modules = globSync("*/[A-Z]*.d.ts", { cwd: declarations })
  for (const path of modules) {
    const text = readFileSync(join(declarations, path), "utf8")
    const header = comment.exec(text)
    const marked =
      header?.index === 0 ? text.replace(comment, (found) => found.replace(/\s*\*\/$/, "\n * @module\n */\n")) : text
    write(join(declarations, path), marked)
    for (const [, names = "", from = ""] of text.matchAll(
      /^export \{ ?([^}]*(?:\{@link[^}]*\}[^}]*)*)\} from "(.*)";$/gm
    )) {
      const target = join(dirname(path), from).replace(/\.[jt]s$/, ".d.ts")
      const file = join(declarations, target)
      let declared = readFileSync(file, "utf8")
      for (const [, words = "", name = ""] of names.matchAll(/(\/\*\*(?:[^*]|\*(?!\/))*\*\/)\s*(?:type )?(\w+)/g)) {
        declared = declared.replace(
          new RegExp(
            `(?:/\\*\\*(?:[^*]|\\*(?!/))*\\*/\\s*)?^(?=export (?:declare )?(?:const|type|interface|class|function) ${name}\\b)`,
            "gm"
          ),
          () => `${words}\n`
        )
      }
      write(file, declared)
    }
  }
}

const node = (script: string, ...args: ReadonlyArray<string>): void => {
  const { status } = spawnSync(process.execPath, [join(site, "node_modules", script), ...args], {
    cwd: site,
    stdio: "inherit"
  })
  if (status !== 0) process.exit(status ?? 1)
}

const assemble = (): void => {
  rmSync(assembled, { recursive: true, force: true })
  for (const page of globSync("docs/*.md", { cwd: root })) {
    write(join(assembled, page.slice("docs/".length)), relink(page, readFileSync(join(root, page), "utf8")))
  }
  cpSync(join(site, "public"), join(assembled, "public"), { recursive: true })
}

if (import.meta.main) {
  if (!existsSync(join(site, "node_modules"))) {
    process.stderr.write("expected the tools of the site: npm ci --prefix site\n")
    process.exit(1)
  }
  assemble()
  prepareDeclarations()
  node("typedoc/bin/typedoc", "--options", "typedoc.json")
  node("vitepress/bin/vitepress.js", "build", ".")
}
