/**
 * @since 0.1.0
 */
export * as NoNetwork from "./NoNetwork.ts"
export * as Script from "./Script.ts"
export * as ScriptedModel from "./ScriptedModel.ts"
export * as ScriptedModelError from "./ScriptedModelError.ts"
