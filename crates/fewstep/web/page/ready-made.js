// Tasks to begin with, each with the policy that is to decide: the examples of the repository, and
// one for language models.

const DIGITS = Array.from({ length: 10 }, (_, digit) => ({ text: String(digit), value: digit / 9 }));

/** A digit task from pairs such as `24`: 2 becomes 4. The last pair is the query. */
function digits(id, template, pairs) {
  const read = ([x, y]) => ({ x, y });
  const all = pairs.split(" ").map(read);
  return { id, template, separator: "\n", labels: DIGITS, examples: all.slice(0, -1), query: all.at(-1) };
}

/** The same digits as classes: the labels are texts without values, and there are ten queries. */
function digitClasses(id, template, pairs, queries) {
  const read = ([x, y]) => ({ x, y });
  return {
    id,
    template,
    separator: "\n",
    labels: DIGITS.map(({ text }) => ({ text })),
    examples: pairs.split(" ").map(read),
    queries: queries.split(" ").map(read),
  };
}

/** Words that are kind or not, for models that have read English. */
function sentiment() {
  const examples = [
    ["a dull, lifeless evening", " negative"],
    ["warm, witty and beautifully acted", " positive"],
    ["the plot falls apart halfway", " negative"],
    ["I left the cinema smiling", " positive"],
    ["an hour too long and badly lit", " negative"],
    ["a small gem with a big heart", " positive"],
  ];
  return {
    id: "reviews",
    template: "Review: {x}\nSentiment:{y}",
    separator: "\n\n",
    labels: [
      { text: " negative", value: 0 },
      { text: " positive", value: 1 },
    ],
    examples: examples.map(([x, y]) => ({ x, y })),
    query: { x: "it made me laugh until the very end", y: " positive" },
  };
}

const FOR_DIGITS = "For the built-in model, which was made for shifts of digits from 0 to 5. ";

export const READY_MADE = [
  [
    "A shift it does not know: y = x + 7",
    `${FOR_DIGITS}This shift is outside that range.`,
    digits("shift-7-clean", "{x}->{y}", "30 41 18 63 74 29 18 18 07 63 85"),
  ],
  [
    "The same by the paper’s policy: y = x + 7",
    `${FOR_DIGITS}This shift is outside that range, and the policy is the one of the paper.`,
    digits("shift-7-clean", "{x}->{y}", "30 41 18 63 74 29 18 18 07 63 85"),
    "paper",
  ],
  [
    "Another one: y = x + 8",
    `${FOR_DIGITS}This shift is outside that range.`,
    digits("shift-8-clean", "{x}:{y}", "97 42 53 86 08 75 31 08 20 19 53"),
  ],
  [
    "The same, mostly noise: y = x + 7",
    `${FOR_DIGITS}This shift is outside, and more than half of the labels are random.`,
    digits("shift-7-noisy", "{x}->{y}", "96 13 74 48 01 08 29 96 74 52 52"),
  ],
  [
    "A shift it knows: y = x + 2",
    `${FOR_DIGITS}This shift is inside that range.`,
    digits("shift-2-clean", "{x}->{y}", "24 91 13 46 13 79 79 79 68 35 13"),
  ],
  [
    "Another one: y = x + 4",
    `${FOR_DIGITS}This shift is inside that range.`,
    digits("shift-4-clean", "{x}:{y}", "04 15 15 59 26 48 48 93 37 93 04"),
  ],
  [
    "The same, mostly noise: y = x + 2",
    `${FOR_DIGITS}This shift is inside, and more than half of the labels are random.`,
    digits("shift-2-noisy", "{x}->{y}", "35 98 87 28 52 92 79 90 13 99 02"),
  ],
  [
    "Classes: the digit itself, y = x + 7, ten queries",
    `${FOR_DIGITS}The labels have no values: what is asked for is a label, with a probability for each.`,
    digitClasses(
      "class-shift-7-many",
      "{x}->{y}",
      "30 52 85 07 29 96 18 63 41 74 18 52",
      "07 18 29 30 41 52 63 74 85 96",
    ),
  ],
  [
    "Reviews, for a language model",
    "For language models: the built-in model has read digits only and splits these labels into pieces.",
    sentiment(),
  ],
].map(([title, note, task, policy = "default"]) => ({ title, note, task, policy }));
