import { NodeCrypto } from "@effect/platform-node"
import { Layer } from "effect"
import { ClusterWorkflowEngine, SingleRunner } from "effect/cluster"
import { WorkflowEngine } from "effect/workflow"
import { SqliteClient } from "effect-emissary/node"

/** The engine of a cluster of one runner, in a SQLite file. */
export const clusterEngine = (filename: string) =>
  ClusterWorkflowEngine.layer.pipe(
    Layer.provide(SingleRunner.layer()),
    Layer.provide([SqliteClient.layer({ filename }), NodeCrypto.layerDigest]),
    Layer.orDie
  )

export const engines: ReadonlyArray<readonly [string, Layer.Layer<WorkflowEngine.WorkflowEngine>]> = [
  ["memory", WorkflowEngine.layerMemory],
  ["cluster", clusterEngine(":memory:")]
]
