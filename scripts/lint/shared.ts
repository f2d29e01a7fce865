/** The modules under `internal/` that rooms share, as the list "Files" of CONTRIBUTING.md has them. */

import { readFileSync } from "node:fs"

/** The rooms that import a module: `all` that may import its room, or these. */
export type Importers = "all" | ReadonlyArray<string>

/** The importers of each shared module, by its path in `src` without extension. */
export const readShared = (page: string): ReadonlyMap<string, Importers> =>
  new Map(
    Array.from(page.matchAll(/^- `([\w/-]+\/(?:internal|wire)\/\w+)`, for ([^:]+):/gm), ([, path = "", rooms = ""]) => [
      path,
      rooms === "all" ? "all" : rooms.split(", ")
    ])
  )

export const shared = readShared(readFileSync(new URL("../../CONTRIBUTING.md", import.meta.url), "utf8"))
