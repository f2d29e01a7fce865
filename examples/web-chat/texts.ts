/** The answer to a greeting: the rules of the assistant. */
export const help = `Hello! I am an assistant of a few rules, so that you can try this chat **without a key**. Ask me to

1. *find a parcel*: "Where is parcel 7?" calls a tool,
2. *pay money back*: "Refund order 42" waits for **your** decision,
3. *ask you*: "Order tea" makes a form of a question, and "What time is it?" is a call that your browser makes,
4. *work for a while*: "Research tea" takes several steps, and you can send another message meanwhile,
5. *write a long text*: "Tell me a story", and stop me whenever you like,
6. *fail*: "Fail once" breaks in the middle of an answer.

Attach a picture, open a second tab, reload while I write, cut the network, or kill the server with \`kill -9\`.`

/** A long answer with all of Markdown that the page shows. */
export const story = `## The lighthouse

There was a lighthouse keeper who wrote down everything that she saw. Every ship, every storm, every gull: **each event on a line of its own**, with its number, in a book that she kept in a dry place.

> A lamp may go out. A line that is written stays.

One night the tower lost its roof. The keeper came back in the morning, opened the book at the last line, and *continued*:

- the ships that had passed stayed passed,
- the signal that was half sent was marked as **unknown**, and nobody sent it twice,
- the captain who asked again got the same answer.

| night | ships | lines lost |
|:------|------:|-----------:|
| calm  |    12 |          0 |
| storm |     3 |          0 |

She explained it to the children of the village like this:

\`\`\`ts
const next = book.last() + 1
book.write(next, "A ship from Lisbon, with tea")
\`\`\`

The children asked what happens to a sentence while it is being written. "You may read it over my shoulder," she said, "and if I tear the page out, you forget it. What counts is what is in the book."

They went home, each with a copy of the same book, and **all copies were equal**.`
