import type { Layer } from "effect"
import type { SqlClient } from "effect/sql"
export const postgres: ReadonlyArray<Layer.Layer<SqlClient.SqlClient>> = []
