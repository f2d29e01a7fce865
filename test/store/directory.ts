import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"

/** A directory for the tests of one file, removed after them. */
export const makeDirectory = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "emissary-store-"))
  afterAll(() => rmSync(directory, { recursive: true, force: true, maxRetries: 10 }))
  return directory
}
