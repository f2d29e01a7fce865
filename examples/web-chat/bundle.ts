/** The page in React is bundled when it is asked for. Its packages are in the folder of the tests of pages: `npm ci --prefix test/screen`. */
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { build } from "esbuild"
import { fileURLToPath } from "node:url"

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))

const bundled = Effect.tryPromise(() =>
  build({
    entryPoints: [file("react/chat.tsx")],
    nodePaths: [file("../../test/screen/node_modules")],
    bundle: true,
    define: { "process.env.NODE_ENV": '"production"' },
    format: "esm",
    jsx: "automatic",
    logLevel: "silent",
    minify: true,
    write: false
  })
).pipe(
  Effect.map(({ outputFiles: [script] }) =>
    HttpServerResponse.text(script?.text ?? "", { contentType: "text/javascript" })
  ),
  Effect.catch(({ cause }) => Effect.succeed(HttpServerResponse.text(String(cause), { status: 500 })))
)

export const reactLive = Layer.unwrap(
  Effect.map(Effect.cached(bundled), (response) =>
    Layer.mergeAll(
      HttpRouter.add("GET", "/react.js", response),
      HttpRouter.add("GET", "/react", HttpServerResponse.redirect("/react.html"))
    )
  )
)
