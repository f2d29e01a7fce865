import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"

/**
 * The file system, with the process killed at one point of its use: before or after
 * an operation, or with half of a file written. Counting starts at `arm`.
 */
export const make = (killAt: number) => {
  let armed = false
  let points = 0
  const point = Effect.sync(() => {
    if (!armed) return
    points += 1
    if (points === killAt) {
      process.kill(process.pid, "SIGKILL")
      // Never to be left
      for (;;);
    }
  })

  const around = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.andThen(point, Effect.tap(effect, point))

  const layer = Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (fs) => ({
      ...fs,
      readFile: (path) => around(fs.readFile(path)),
      readDirectory: (path, options) => around(fs.readDirectory(path, options)),
      makeDirectory: (path, options) => around(fs.makeDirectory(path, options)),
      exists: (path) => around(fs.exists(path)),
      rename: (from, to) => around(fs.rename(from, to)),
      writeFile: (path, data, options) =>
        Effect.andThen(
          around(fs.writeFile(path, data.subarray(0, Math.floor(data.length / 2)), options)),
          around(fs.writeFile(path, data, options))
        ),
      remove: (path, options) => around(fs.remove(path, options)),
      open: (path, options) =>
        Effect.map(around(fs.open(path, options)), (file) => {
          const writeAll = (buffer: Uint8Array) => {
            const half = Math.floor(buffer.length / 2)
            return Effect.gen(function* () {
              yield* around(file.writeAll(buffer.subarray(0, half)))
              yield* around(file.writeAll(buffer.subarray(half)))
            })
          }
          return new Proxy(file, {
            get: (target, name) => {
              if (name === "writeAll") return writeAll
              if (name === "sync") return around(target.sync)
              return Reflect.get(target, name, target)
            }
          })
        })
    }))
  )

  return {
    layer,
    arm: Effect.sync(() => {
      armed = true
    }),
    points: Effect.sync(() => points)
  }
}
