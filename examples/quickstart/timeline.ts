/**
 * Prints what happens in a run, and answers with its result.
 */
import { Clock, Console, Duration, Effect, Stream } from "effect"
import { AgentEvent, ToolResult } from "effect-emissary"

const describe = (event: AgentEvent.AgentEvent<unknown>): string | undefined => {
  switch (event._tag) {
    case "StepStarted":
      return `step ${event.step}`
    case "ToolStarted":
      return `  call    ${event.name} ${JSON.stringify(event.arguments)}`
    case "ToolFinished": {
      const { duration, name, result } = event
      const outcome = result._tag === "Success" ? "result " : "failure"
      const type = result._tag === "Success" ? "" : ` ${result.type}:`
      return `  ${outcome} ${name}, ${Math.round(Duration.toMillis(duration))} ms:${type} ${ToolResult.text(result)}`
    }
    case "RunFinished":
      return `${event.result.outcome}: ${event.result.text}`
    default:
      return undefined
  }
}

export const print = Effect.fn(function* <A, E, R>(
  title: string,
  events: Stream.Stream<AgentEvent.AgentEvent<A>, E, R>
) {
  const start = yield* Clock.currentTimeMillis
  yield* Console.log(`\n${title} (process ${process.pid})`)
  return yield* events.pipe(
    Stream.tap(
      Effect.fnUntraced(function* (event) {
        const line = describe(event)
        const seconds = ((yield* Clock.currentTimeMillis) - start) / 1000
        if (line !== undefined) yield* Console.log(`  ${seconds.toFixed(2)} s  ${line}`)
      })
    ),
    AgentEvent.result
  )
})
