/**
 * `npm run docs` makes the site in `.generated/site`: the pages of `docs` and the reference of the public modules, from the doc comments
 * in `dist`. It needs no network. The tools are a package of their own: `npm ci --prefix site` installs them.
 *
 * VitePress refuses a link that leads nowhere, so a build is also the check of the links of the reference.
 */
import { spawnSync } from "node:child_process"
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, posix } from "node:path"
import { groups } from "../site/pages.ts"
import { repository } from "./repository.ts"
import { root } from "./sources.ts"

const site = join(root, "site")
const assembled = join(site, ".pages")
const declarations = join(root, ".generated", "declarations")

const write = (path: string, text: string): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

/**
 * A page of the repository as a page of the site. Links to pages of `docs` become links between pages, pictures are copied, and links to
 * other files lead to the repository, or are their text as long as it has no address.
 */
export const relink = (
  page: string,
  text: string,
  copy: (picture: string) => void,
  address: string = repository
): string =>
  text.replace(
    /(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)/g,
    (_, mark: string, label: string, to: string, anchor = "") => {
      const path = posix.normalize(posix.join(posix.dirname(page), to))
      if (mark !== "") {
        copy(path)
        return `![${label}](/${posix.basename(path)})`
      }
      if (path === "README.md") return `[${label}](/index.md${anchor})`
      if (path.startsWith("docs/")) return `[${label}](/${path.slice("docs/".length)}${anchor})`
      return address === "" ? `${label} (\`${path}\`)` : `[${label}](${address}/blob/main/${path}${anchor})`
    }
  )

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
  cpSync(join(root, "node_modules/mermaid/dist/mermaid.min.js"), join(assembled, "public", "mermaid.min.js"))
  const copy = (picture: string): void =>
    cpSync(join(root, picture), join(assembled, "public", posix.basename(picture)), { recursive: true })
  for (const page of ["README.md", ...globSync("docs/*.md", { cwd: root })]) {
    const name = page === "README.md" ? "index.md" : page.slice("docs/".length)
    write(join(assembled, name), relink(page, readFileSync(join(root, page), "utf8"), copy))
  }
}

/** The first sentence of a page. */
const summary = (text: string): string =>
  /^[A-Z][^]*?[.:](?=\s)/m
    .exec(text.replace(/^#.*$/gm, ""))?.[0]
    .replaceAll("\n", " ")
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1") ?? ""

/** The pages for language models: a list of them (https://llmstxt.org), and all of them as one text. */
const writeForModels = (): void => {
  const page = (name: string) => readFileSync(join(root, "docs", `${name}.md`), "utf8")
  const readme = readFileSync(join(root, "README.md"), "utf8")
  const [, slogan = "", about = ""] = readme.split("\n\n")
  const list = groups.map(
    ({ pages, title }) =>
      `## ${title}\n\n${pages.map((it) => `- [${it.title}](${it.name}.html): ${summary(page(it.name))}`).join("\n")}\n`
  )
  write(join(assembled, "public", "llms.txt"), [`# Emissary\n\n> ${slogan}\n\n${about}\n`, ...list].join("\n"))
  const all = [readme, ...groups.flatMap(({ pages }) => pages.map(({ name }) => page(name)))]
  write(join(assembled, "public", "llms-full.txt"), all.join("\n\n"))
}

/** A type that fills screens is of no help in a table: its beginning is there, and editors show the whole. */
const shortenTypes = (): void => {
  const most = 600
  for (const path of globSync("*/*.md", { cwd: join(assembled, "api") })) {
    const page = join(assembled, "api", path)
    const text = readFileSync(page, "utf8")
    const cells = text.replace(/^\|.*\|$/gm, (row) =>
      row
        .split(/(?<!\\)\|/)
        .map((cell) =>
          cell.length > most && cell.includes("\\{")
            ? ` ${cell.slice(0, 200).replace(/\\?[^\s]*$/, "")} … (shortened) `
            : cell
        )
        .join("|")
    )
    write(
      page,
      cells.replace(/^(?!\|).{1200,}$/gm, (line) => `${line.slice(0, 400).replace(/[^\s]*$/, "")} … (shortened)`)
    )
  }
}

/** The reference has each public name, and no path of a file that is not public. */
const checkReference = (): void => {
  const modules = new Map(
    globSync("*/*.md", { cwd: join(assembled, "api") }).map((path) => [
      posix.basename(path, ".md"),
      readFileSync(join(assembled, "api", path), "utf8")
    ])
  )
  const names = readFileSync(join(root, "test/package/public-names.txt"), "utf8").split("\n")
  const missing = names
    .filter((name) => name !== "" && !name.startsWith("#"))
    .filter((name) => {
      const [module = "", member] = name.split(".")
      const page = modules.get(module)
      return page === undefined || (member !== undefined && !new RegExp(`^### ${member}\\b`, "m").test(page))
    })
  const inner = [...modules].filter(([, page]) => page.includes("/internal/")).map(([module]) => module)
  if (missing.length === 0 && inner.length === 0) return
  process.stderr.write(`the reference lacks ${missing.join(", ")}, and shows files inside: ${inner.join(", ")}\n`)
  process.exit(1)
}

if (import.meta.main) {
  if (!existsSync(join(site, "node_modules"))) {
    process.stderr.write("expected the tools of the site: npm ci --prefix site\n")
    process.exit(1)
  }
  assemble()
  writeForModels()
  prepareDeclarations()
  node("typedoc/bin/typedoc", "--options", "typedoc.json")
  shortenTypes()
  checkReference()
  node("vitepress/bin/vitepress.js", "build", ".")
}
