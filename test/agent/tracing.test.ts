import { assert, describe } from "@effect/vitest"
import { Cause, Effect, Exit, Logger, Stream, Tracer } from "effect"
import { Agent, AgentError } from "effect-emissary"
import type { ScriptedModel } from "effect-emissary/testing"

import { call, toolkit, world, testGiven } from "./fixtures.ts"
import { test } from "../test.ts"

interface Recorded {
  readonly name: string
  readonly attributes: ReadonlyMap<string, unknown>
  readonly parent: string | undefined
  exit: Exit.Exit<unknown, unknown> | undefined
  readonly events: Array<unknown>
}

/** A tracer that keeps what an exporter would send. */
const tracing = () => {
  const spans: Array<Recorded> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      const record: Recorded = {
        name: options.name,
        attributes: span.attributes,
        parent:
          options.parent._tag === "Some" && options.parent.value._tag === "Span"
            ? options.parent.value.name
            : undefined,
        exit: undefined,
        events: []
      }
      spans.push(record)
      const end = span.end.bind(span)
      return Object.assign(span, {
        end: (time: bigint, exit: Exit.Exit<unknown, unknown>) => {
          record.exit = exit
          end(time, exit)
        },
        event: (name: string, _: bigint, attributes?: unknown) => record.events.push([name, attributes])
      })
    }
  })
  return { spans, tracer }
}

const secret = "SECRET"
const agent = Agent.make("tester", { instructions: `Know ${secret}.`, toolkit })

const shown = (spans: ReadonlyArray<Recorded>): string =>
  spans
    .map(({ attributes, events, exit, name }) =>
      [
        name,
        JSON.stringify([...attributes]),
        JSON.stringify(events),
        exit !== undefined && Exit.isFailure(exit) ? Cause.pretty(exit.cause) : ""
      ].join("\n")
    )
    .join("\n")

const calls: ScriptedModel.Script = [
  {
    text: secret,
    toolCalls: [
      call("c1", "echo", { text: secret }),
      call("c2", "fail", { reason: secret }),
      call("c3", "echo", { [secret]: secret }),
      call("c4", "unheard_of", { text: secret })
    ]
  },
  { text: secret }
]

describe("L8 spans and errors", () => {
  const refused = world([{ fail: { reason: "InvalidRequestError", description: `refused: ${secret}` } }])
  for (const [how, running] of [
    ["run", (input: string) => Effect.asVoid(agent.run(input))],
    ["stream", (input: string) => Stream.runDrain(agent.stream(input))]
  ] as const) {
    test(`L8 spans carry no arguments, results or message text (${how})`, world(calls), function* () {
      const { spans, tracer } = tracing()
      yield* Effect.withTracer(running(secret), tracer)
      const names = spans.map(({ name }) => name)
      assert.include(names, "invoke_agent tester")
      assert.include(names, "execute_tool echo")
      assert.include(names, "execute_tool fail")
      const invoked = spans.find(({ name }) => name === "invoke_agent tester")
      assert.strictEqual(invoked?.attributes.get("gen_ai.agent.name"), "tester")
      assert.notInclude(shown(spans), secret)
    })

    test(`L8 spans of a failed model call do not quote the provider (${how})`, refused, function* () {
      const { spans, tracer } = tracing()
      const exit = yield* Effect.exit(Effect.withTracer(running("Go"), tracer))
      assert(Exit.isFailure(exit))
      assert.notInclude(Cause.pretty(exit.cause), secret)
      assert.notInclude(shown(spans), secret)
    })
  }

  const defect = Effect.die(new TypeError(secret))
  for (const [part, broken] of [
    ["instructions", Agent.make("broken", { instructions: defect })],
    ["toolkit", Agent.make("broken", { toolkit: defect })]
  ] as const) {
    const parent = Agent.make("parent", { toolkit: [Agent.asTool(broken, { name: "broken", description: "d" })] })
    const asked: ScriptedModel.Script = [{ toolCalls: [call("c", "broken", { input: "x" })] }, { text: "done" }]
    test(`L8 spans have the class and not the text of a defect in the ${part}`, world(asked), function* () {
      for (const running of [broken.run("Go"), parent.run("Go")]) {
        const { spans, tracer } = tracing()
        yield* Effect.exit(Effect.withTracer(running, tracer))
        assert.include(shown(spans), "invoke_agent broken")
        assert.include(shown(spans), "TypeError")
        assert.notInclude(shown(spans), secret)
      }
    })
  }

  test("L8 the AiError behind a failure is there for the caller", refused, function* () {
    const error = yield* Effect.flip(agent.run("Go"))
    const cause = AgentError.causeOf(error.reason)
    assert.include(String(cause._tag === "Some" ? cause.value : ""), secret)
  })

  test("L8 RunIncomplete prints neither the conversation nor the arguments", world(calls), function* () {
    const error = yield* Effect.flip(agent.ask(secret, { maxSteps: 1 }))
    assert(error._tag === "RunIncomplete")
    for (const text of [error.message, String(error), JSON.stringify(error), Cause.pretty(Cause.fail(error))]) {
      assert.notInclude(text, secret)
    }
  })

  test("L8 a run logs no message text", world(calls), function* () {
    const lines: Array<string> = []
    const logger = Logger.make(({ cause, message }) => {
      lines.push(`${JSON.stringify(message)} ${Cause.pretty(cause)}`)
    })
    yield* agent.run(secret).pipe(Effect.provide(Logger.layer([logger])))
    assert.notInclude(lines.join("\n"), secret)
  })

  testGiven(calls)("AGENT-1 the span of a run is a child of the caller's, tools are children of the run", function* () {
    const { spans, tracer } = tracing()
    yield* agent.run("Go").pipe(Effect.withSpan("caller"), Effect.withTracer(tracer))
    const parent = (name: string) => spans.find((span) => span.name === name)?.parent
    assert.strictEqual(parent("invoke_agent tester"), "caller")
    assert.strictEqual(parent("execute_tool echo"), "invoke_agent tester")
  })
})
