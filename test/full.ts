/** Some cases take seconds each, and find little that their neighbours do not: `npm test` takes a part of them. */
const isFull = process.env["EMISSARY_TEST_FULL"] === "1"

const most = Number(process.env["EMISSARY_TEST_RUNS"] ?? Number.POSITIVE_INFINITY)

/** The runs of a property: all where `EMISSARY_TEST_FULL=1` is set, and otherwise a third. */
export const someRuns = (count: number): number => Math.min(most, isFull ? count : Math.ceil(count / 3))

/** All cases where `EMISSARY_TEST_FULL=1` is set, and otherwise the first of every few. */
export const oneIn = <A>(every: number, cases: ReadonlyArray<A>): ReadonlyArray<A> =>
  isFull ? cases : cases.filter((_, index) => index % every === 0)
