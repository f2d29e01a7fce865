/** The theme of VitePress, with the pictures of plans: `Mermaid` draws a block in the browser, and without scripts its text is there. */
import DefaultTheme from "vitepress/theme"
import { withBase, type Theme } from "vitepress"
import { defineComponent, h, onMounted, ref } from "vue"

interface Drawer {
  readonly initialize: (options: object) => void
  readonly render: (id: string, code: string) => Promise<{ readonly svg: string }>
}

let loaded: Promise<Drawer> | undefined

/** The file of Mermaid as it is published: it is large, and only pages with pictures load it. */
const load = (): Promise<Drawer> =>
  (loaded ??= new Promise((resolve, reject) => {
    const script = document.createElement("script")
    script.src = withBase("/mermaid.min.js")
    script.addEventListener("load", () => resolve((window as typeof window & { mermaid: Drawer }).mermaid))
    script.addEventListener("error", reject)
    document.head.append(script)
  }))

const Mermaid = defineComponent({
  props: { code: { type: String, required: true }, id: { type: String, required: true } },
  setup(props) {
    const svg = ref("")
    const code = decodeURIComponent(props.code)
    onMounted(async () => {
      const mermaid = await load()
      const dark = document.documentElement.classList.contains("dark")
      mermaid.initialize({ startOnLoad: false, theme: dark ? "dark" : "neutral" })
      svg.value = (await mermaid.render(props.id, code)).svg
    })
    return () => (svg.value === "" ? h("pre", code) : h("div", { innerHTML: svg.value }))
  }
})

export default {
  extends: DefaultTheme,
  enhanceApp: ({ app }) => void app.component("Mermaid", Mermaid)
} satisfies Theme
