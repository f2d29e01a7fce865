import type * as Sqlite from "node:sqlite"

/** For a process that is frozen, which `node:sqlite` cannot be: it is loaded when a database is opened, with `new`. */
export function DatabaseSync(...args: ConstructorParameters<typeof Sqlite.DatabaseSync>): Sqlite.DatabaseSync {
  return new (process.getBuiltinModule("node:sqlite").DatabaseSync)(...args)
}
