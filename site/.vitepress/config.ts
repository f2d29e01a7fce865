import { readdirSync } from "node:fs"
import { defineConfig } from "vitepress"
import { repository } from "../../scripts/repository.ts"
import { groups } from "../pages.ts"

const here = (path: string) => new URL(path, import.meta.url).pathname

/** The modules of the reference, a folder for each room. */
const reference = () =>
  readdirSync(here("../.pages/api"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name: room }) => ({
      text: room,
      collapsed: true,
      items: readdirSync(here(`../.pages/api/${room}`)).map((file) => {
        const name = file.replace(/\.md$/, "")
        return { text: name, link: `/api/${room}/${name}` }
      })
    }))

export default defineConfig({
  title: "Emissary",
  description: "Agents for Effect whose runs survive crashes and deploys",
  srcDir: ".pages",
  outDir: "../.generated/site",
  cacheDir: "../.generated/site-cache",
  cleanUrls: false,
  lastUpdated: false,
  markdown: {
    lineNumbers: false,
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    // braces of the code in headings and tables are text
    config: (md) => {
      const fence = md.renderer.rules.fence
      md.renderer.rules.fence = (tokens, index, options, env, self) => {
        const token = tokens[index]
        return token?.info.trim() === "mermaid"
          ? `<Mermaid id="mermaid-${index}" code="${encodeURIComponent(token.content)}" />`
          : (fence?.(tokens, index, options, env, self) ?? "")
      }
      const inline = md.renderer.rules.code_inline
      md.renderer.rules.code_inline = (tokens, index, options, env, self) =>
        (inline?.(tokens, index, options, env, self) ?? "").replace(/^<code(?! v-pre)/, "<code v-pre")
    }
  },
  themeConfig: {
    outline: { level: [2, 3] },
    search: { provider: "local" },
    nav: [
      { text: "Guide", link: "/getting-started" },
      { text: "Reference", link: "/api/" },
      ...(repository === "" ? [] : [{ text: "Source", link: repository }])
    ],
    sidebar: {
      "/": groups.map(({ pages, title }) => ({
        text: title,
        items: pages.map((page) => ({ text: page.title, link: `/${page.name}` }))
      })),
      "/api/": reference()
    }
  }
})
