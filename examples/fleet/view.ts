/** The terminal: a line for each runner above the chat where it can be drawn again, and otherwise one line after the other. */
import { Console, Effect, Ref } from "effect"

interface Screen {
  readonly runners: ReadonlyMap<string, string>
  readonly lines: ReadonlyArray<string>
}

const clear = "\u001b[2J\u001b[H"

export const make = (isLive: boolean) =>
  Effect.gen(function* () {
    const screen = yield* Ref.make<Screen>({ runners: new Map(), lines: [] })

    const draw = ({ lines, runners }: Screen) => {
      const states = Array.from(runners, ([name, state]) => `${name.padEnd(10)} ${state}`)
      return Console.log(clear + [...states, "", ...lines].join("\n"))
    }

    const change = (f: (before: Screen) => Screen) =>
      Effect.flatMap(Ref.updateAndGet(screen, f), (after) => (isLive ? draw(after) : Effect.void))

    return {
      /** Shows the state of a runner. */
      state: (name: string, state: string) =>
        change((before) => ({ ...before, runners: new Map([...before.runners, [name, state]]) })),
      /** Adds a line to the chat. */
      line: (text: string) =>
        Effect.andThen(
          change((before) => ({ ...before, lines: [...before.lines, text] })),
          isLive ? Effect.void : Console.log(text)
        )
    }
  })

export type View = Effect.Success<ReturnType<typeof make>>
