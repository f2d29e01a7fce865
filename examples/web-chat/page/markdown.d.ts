/** Draws the text into an element. */
export declare const drawMarkdown: (target: HTMLElement, text: string) => void
