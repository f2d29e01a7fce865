/**
 * Where we differ from the official JSON Schema test suite, each with the reason. A place names a file, a group of a
 * file, or one test of a group, as `file`, `file > group` or `file > group > test`.
 */
export interface Deviation {
  readonly place: string
  readonly what: "refused" | "answer"
  readonly reason: string
}

const refused = (reason: string, ...places: ReadonlyArray<string>): ReadonlyArray<Deviation> =>
  places.map((place) => ({ place, what: "refused", reason }))

const answers = (reason: string, ...places: ReadonlyArray<string>): ReadonlyArray<Deviation> =>
  places.map((place) => ({ place, what: "answer", reason }))

const remote = "A reference may not leave the document (PAY-C); nothing is ever fetched, meta-schemas included."
const idn = "The format needs the tables of IDNA 2008, so it is an annotation (RIGHT-3)."
const proto = "The key __proto__ is refused everywhere (L2)."
const unknown = "A format that is not checked is an annotation (RIGHT-3)."

/** Keywords that no tool has, refused by name wherever they are (DESIGN 8.6). */
export const refusedKeywords = "$id $anchor $dynamicAnchor $dynamicRef unevaluatedItems unevaluatedProperties".split(
  " "
)

const common: ReadonlyArray<Deviation> = [
  ...refused(remote, "refRemote", "ref > remote ref, containing refs itself"),
  ...answers(idn, "optional/format/idn-email", "optional/format/idn-hostname"),
  ...answers(
    unknown,
    ...["iri-reference", "iri", "uri-template", "relative-json-pointer"].map((name) => `optional/format/${name}`)
  ),
  ...refused(proto, "properties > properties whose names are Javascript object property names"),
  ...answers(proto, "required > required properties whose names are Javascript object property names > all present"),
  ...answers(
    "An integer beyond 2^53 is not exact as a number, so `integer` refuses it, as Schema.Int does.",
    "optional/bignum > integer",
    "optional/float-overflow"
  ),
  ...answers(
    "A-labels are decoded by the platform's URL parser (UTS 46), which is laxer than IDNA 2008.",
    "optional/format/hostname > validation of A-label (punycode) host names"
  )
]

export const deviations = {
  "draft2020-12": [
    ...common,
    ...refused(remote, "defs > validate definition against metaschema", "dynamicRef > $ref to $dynamicRef"),
    ...refused("$schema selects draft 2020-12 or draft-07, other meta-schemas are refused (CODEC-4).", "vocabulary"),
    ...answers("Formats are asserted, not only noted (CODEC-4).", "format")
  ],
  draft7: [
    ...common,
    ...refused(remote, "definitions > validate definition against metaschema"),
    ...refused(
      "draft-07 ignores assertions beside $ref; what would not be enforced is refused (CODEC-4).",
      "ref > ref overrides any sibling keywords"
    )
  ]
} as const satisfies Record<string, ReadonlyArray<Deviation>>
