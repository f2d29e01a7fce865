/**
 * The address of the repository, such as `https://git.example/owner/effect-emissary`, without a slash at its end. The owner sets it
 * before the first release: `scripts/release.ts` stops while it is empty, and links of the site to files outside `docs` are plain text.
 */
export const repository: string = ""
