import { assert } from "@effect/vitest"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { beforeAll } from "vitest"
import { root } from "../package/run.ts"

/** Examples import `effect-emissary` as users do, from the build that `npm test` makes before its tests. */
export const requireBuild = (): void => {
  beforeAll(() => {
    assert.isTrue(existsSync(join(root, "dist", "index.js")), "The examples run from the build: npm run build")
  })
}
