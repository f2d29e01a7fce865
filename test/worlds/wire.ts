/**
 * The sockets of a fleet in a world. Frames take time, and keep their order. A connection to a process that is gone is closed after a while. A
 * process that is paused does not answer.
 */
import { Cause, Context, Effect, Latch, Layer, Queue, Random, type Scope } from "effect"
import { NetAddress } from "effect/net"
import { Socket, SocketServer } from "effect/socket"

type Frame = Uint8Array | string

/** One side of a connection, and the frames that have arrived there. */
interface End {
  readonly host: string
  readonly frames: Queue.Queue<Frame, Socket.SocketError>
}

type Connection = readonly [client: End, server: End]

/** All sockets of a world: the hosts that listen, with the connections that they have not taken yet. */
export class Wire extends Context.Service<
  Wire,
  { readonly listening: Map<string, Queue.Queue<Connection>>; readonly connections: Set<Connection> }
>()("worlds/Wire") {
  static readonly layer = Layer.sync(Wire, () => ({ listening: new Map(), connections: new Set<Connection>() }))
}

const failure = (reason: Socket.SocketError["reason"]) => new Socket.SocketError({ reason })

const closed = failure(new Socket.SocketCloseError({ code: 1006 }))

const refused = failure(new Socket.SocketOpenError({ kind: "Unknown", cause: "refused" }))

const nap = Effect.flatMap(Random.nextIntBetween(0, 5), Effect.sleep)

/** Closes a connection at both ends. */
export const close = ({ connections }: Wire["Service"], connection: Connection) => {
  connections.delete(connection)
  for (const { frames } of connection) Queue.failCauseUnsafe(frames, Cause.fail(closed))
}

/** Sends frames to an end, in their order. */
const sendingTo = Effect.fnUntraced(function* ({ frames }: End) {
  const sent = yield* Queue.unbounded<Frame>()
  const deliver = Effect.flatMap(Queue.take(sent), (frame) =>
    Effect.andThen(
      nap,
      Effect.sync(() => Queue.offerUnsafe(frames, frame))
    )
  )
  yield* Effect.forkScoped(Effect.forever(deliver))
  return (frame: Frame) => void Queue.offerUnsafe(sent, frame)
})

/** A socket whose connection is opened for each reader of it. */
const socketOf = (open: Effect.Effect<{ readonly own: End; readonly other: End }, Socket.SocketError, Scope.Scope>) => {
  const latch = Latch.makeUnsafe(false)
  let send: ((frame: Frame) => void) | undefined
  const reader = Effect.gen(function* () {
    const { other, own } = yield* open
    send = yield* sendingTo(other)
    latch.openUnsafe()
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        latch.closeUnsafe()
        send = undefined
      })
    )
    return { pull: Queue.takeAll(own.frames), upgrade: Socket.SocketUpgradeError.unsupported }
  })
  const writeAll = (chunks: ReadonlyArray<Frame | Socket.CloseEvent>): Effect.Effect<void, Socket.SocketError> =>
    Effect.suspend(() => {
      if (send === undefined) return latch.whenOpen(writeAll(chunks))
      for (const chunk of chunks) if (!Socket.isCloseEvent(chunk)) send(chunk)
      return Effect.void
    })
  return Socket.make({ reader, writer: Effect.succeed({ write: (chunk) => writeAll([chunk]), writeAll }) })
}

/** A socket to a host. */
export const connect = Effect.fnUntraced(function* (from: string, to: string) {
  const wire = yield* Wire
  const open = Effect.gen(function* () {
    yield* nap
    const accepting = wire.listening.get(to)
    if (accepting === undefined) return yield* refused
    const own: End = { host: from, frames: yield* Queue.unbounded<Frame, Socket.SocketError>() }
    const other: End = { host: to, frames: yield* Queue.unbounded<Frame, Socket.SocketError>() }
    const connection = [own, other] as const
    wire.connections.add(connection)
    yield* Effect.addFinalizer(() => Effect.sync(() => close(wire, connection)))
    Queue.offerUnsafe(accepting, connection)
    return { own, other }
  })
  return socketOf(open)
})

/** The server of a host. */
export const server = (host: string) =>
  Layer.effect(
    SocketServer.SocketServer,
    Effect.gen(function* () {
      const wire = yield* Wire
      const accepting = yield* Queue.unbounded<Connection>()
      wire.listening.set(host, accepting)
      yield* Effect.addFinalizer(() => Effect.sync(() => wire.listening.delete(host)))
      return SocketServer.SocketServer.of({
        address: NetAddress.unixPathAddress(host),
        run: (handler) =>
          Effect.forever(
            Effect.flatMap(Queue.take(accepting), (connection) => {
              const [other, own] = connection
              const closing = Effect.sync(() => close(wire, connection))
              return Effect.forkChild(Effect.ensuring(handler(socketOf(Effect.succeed({ own, other }))), closing))
            })
          )
      })
    })
  )

/** Closes the sockets of processes that are gone. `live` are the names of the others. */
export const closeGone = (wire: Wire["Service"], live: ReadonlyArray<string>) => {
  const isGone = (host: string) => !live.includes(host)
  for (const host of wire.listening.keys()) if (isGone(host)) wire.listening.delete(host)
  for (const connection of wire.connections) if (connection.some(({ host }) => isGone(host))) close(wire, connection)
}
