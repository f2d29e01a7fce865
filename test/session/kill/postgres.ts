/** A server of PostgreSQL that a run has for itself, so that it can be restarted. */
import { execFile, execFileSync } from "node:child_process"
import { chownSync, existsSync, mkdirSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"

const run = promisify(execFile)

const programs = (): string => {
  const debian = "/usr/lib/postgresql"
  if (existsSync(debian)) {
    const newest = readdirSync(debian).sort((a, b) => Number(b) - Number(a))[0]
    if (newest !== undefined) return join(debian, newest, "bin")
  }
  return execFileSync("pg_config", ["--bindir"], { encoding: "utf8" }).trim()
}

const idOf = (flag: string, user: string): number => Number(execFileSync("id", [flag, user], { encoding: "utf8" }))

/** PostgreSQL refuses to run as root: it gets its own user there. */
const user = (): { readonly uid?: number; readonly gid?: number } =>
  process.getuid?.() === 0 ? { uid: idOf("-u", "postgres"), gid: idOf("-g", "postgres") } : {}

export interface Server {
  readonly url: string
  /** Ends all connections at once, and starts it again. */
  readonly restart: () => Promise<void>
  readonly close: () => Promise<void>
}

export const start = async (directory: string, port: number): Promise<Server> => {
  const bin = programs()
  const as = user()
  const home = join(directory, "postgres")
  mkdirSync(home, { mode: 0o700 })
  if (as.uid !== undefined && as.gid !== undefined) chownSync(home, as.uid, as.gid)
  const options = { ...as, cwd: home }
  const data = join(home, "data")
  await run(join(bin, "initdb"), ["-D", data, "-U", "postgres", "-A", "trust", "--no-sync"], options)
  const control = (...args: ReadonlyArray<string>) =>
    run(join(bin, "pg_ctl"), [...args, "-D", data, "-w", "-l", join(home, "log")], options)
  const settings = ["-o", `-p ${port} -k ${home} -c listen_addresses=127.0.0.1 -c max_connections=200`]
  await control("start", ...settings)
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    restart: async () => {
      await control("restart", "-m", "immediate", ...settings)
    },
    close: async () => {
      await control("stop", "-m", "immediate")
    }
  }
}
