/** The pages of the site, which are the files of `docs`, in the order of the sidebar. */

export interface Page {
  /** The name of the file in `docs`, without its extension. */
  readonly name: string
  readonly title: string
}

export interface Group {
  readonly title: string
  readonly pages: ReadonlyArray<Page>
}

export const groups: ReadonlyArray<Group> = [
  {
    title: "Begin",
    pages: [
      { name: "getting-started", title: "Getting started" },
      { name: "keep-a-run", title: "Which one" },
      { name: "concepts", title: "Concepts" }
    ]
  },
  {
    title: "Guides",
    pages: [
      { name: "agents", title: "Agents" },
      { name: "models", title: "Models" },
      { name: "tools", title: "Tools" },
      { name: "guards", title: "Guards" },
      { name: "questions", title: "Questions" },
      { name: "sessions", title: "Sessions" },
      { name: "chat", title: "A chat in a browser" },
      { name: "plans", title: "Plans" },
      { name: "conversations", title: "Conversations" },
      { name: "mcp", title: "MCP" },
      { name: "testing", title: "Testing" },
      { name: "telemetry", title: "Telemetry" },
      { name: "deploy", title: "Deploy" },
      { name: "recipes", title: "Recipes" }
    ]
  },
  {
    title: "Reference",
    pages: [
      { name: "errors", title: "Errors" },
      { name: "reliability", title: "Reliability" },
      { name: "performance", title: "Performance" },
      { name: "security", title: "Security" },
      { name: "versions", title: "Versions" },
      { name: "examples", title: "Examples" },
      { name: "coming-from", title: "Coming from" }
    ]
  }
]

export const pages: ReadonlyArray<Page> = groups.flatMap((group) => group.pages)
