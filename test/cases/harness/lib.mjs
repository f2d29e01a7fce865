/** What the cases of `loop` are written with. */
import { NodeServices } from "@effect/platform-node"
import { Logger, Option } from "effect"
import { FetchHttpClient } from "effect/http"
import * as ChildProcess from "effect/process/ChildProcess"
import { ModelRegistry, ToolFailure, ToolResolver, VersionedStore } from "effect-emissary"
import * as interop from "effect-emissary/interop"
import { McpTools, McpToolServer } from "effect-emissary/mcp"
import * as payload from "effect-emissary/payload"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as base from "./loop.mjs"
import * as mcp from "./mcp.mjs"

const { Agent, Effect, Schema, Tool, Toolkit } = base

/** An agent with one tool `t`, and the list of its calls. */
const tool = (parameters, extra = {}) => {
  const T = Tool.make("t", { description: "d", parameters: parameters(Schema), success: Schema.Unknown, ...extra })
  const kit = Toolkit.make(T)
  const ran = []
  const handlers = kit.toLayer({
    t: (params) =>
      Effect.sync(() => {
        ran.push(params)
        return "ok"
      })
  })
  return { kit, ran, agent: Agent.make("a", { toolkit: kit }), handlers }
}

/** How a run ended, in one word. */
const outcome = (run) => (run.ok ? run.outcome : (run.error ?? run.reason ?? "died"))

export const lib = {
  ...base,
  ...mcp,
  ...interop,
  ...payload,
  ChildProcess,
  FetchHttpClient,
  Logger,
  McpToolServer,
  McpTools,
  ModelRegistry,
  NodeServices,
  Option,
  ScriptedModel,
  Session,
  ToolFailure,
  ToolResolver,
  VersionedStore,
  outcome,
  tool
}
