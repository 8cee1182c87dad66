// Experiments of a website (/websites/{id}/experiments): who had which variant, who converted, and in sentences what can be
// concluded and what cannot. The sentences are those of experiments/conclusions.js.

import { summaryOf, experimentCard } from "../experiments/experiment_card.js";
import { h, icon, refill } from "../shared/dom.js";
import { FILTERS } from "../shared/fields.js";
import { plural, dayRange } from "../shared/formats.js";
import { noMatchState, emptyState, websitePage } from "../shared/website_page.js";

const SNIPPET = `// An even choice, the same for this visit in this tab; show what it says.
const colour = tally.variant("button", ["control", "blue"]);

// Where somebody does what you hope for:
tally.convert("button", { goal: "order" });`;

const READING = [
  [
    "What a visitor is here",
    "Somebody's UTC day, as everywhere in Tally: who is assigned today and buys tomorrow is two visitors, of whom neither converts. Slow decisions are therefore missed, for all variants alike, and every rate is lower than it truly is. Measure by something that happens on the same day: a trial begun, a thing put into the basket.",
  ],
  [
    "Which p-value to read",
    "“One look” if you fixed beforehand when to look, and look once, then. “Any time” if you look now and then and stop when there is something to see: it holds however often you look, and asks for more visitors. A p-value says how often chance alone makes at least such a difference.",
  ],
  [
    "Which days to choose",
    "All that the experiment ran, from its first day to its last, in whole weeks if you can: people differ by weekday. Trying ranges, or filters, until one shows a difference is looking many times, and no p-value makes up for that.",
  ],
  [
    "Who counts",
    "The first variant of somebody's day is the one that counts. A conversion counts once a visitor, goal and day, whichever of the two came first; without a variant it counts nowhere.",
  ],
];

const PAGE = {
  title: "Experiments",
  look: ["/assets/experiments/experiments.css"],
  // Measurements have no event name, and are of one type.
  fields: FILTERS.filter((field) => !["event_name", "type"].includes(field)),
  csv: (board) => [
    ["CSV of all experiments", `${board.base}/experiments?${board.question({ format: "csv" })}`, "experiments.csv"],
  ],
  foot: "Intervals are Wilson's, for each rate by itself, with 95 in 100. Filters are about the assignment: who was assigned on that page, with that device, may convert anywhere.",
  build,
};

export const show = (root, context) => websitePage(root, context, PAGE);

function build(board) {
  const place = h("div", { class: "trials" });
  const load = board.part(place, {
    what: () => "The experiments cannot be shown.",
    ask: (signal) => board.ask("experiments", {}, signal),
    draw({ data, meta }) {
      const { from, to } = board.span();
      board.say(`${dayRange(from, to)}: ${plural(data.length, "experiment")}`);
      if (!data.length) return refill(place, board.view().filters.length ? noMatchState(board) : notYet(board));
      const isFiltered = board.view().filters.length > 0;
      const cards = data.map((experiment, i) => experimentCard(experiment, meta, i, isFiltered));
      return refill(
        place,
        scopeWords(board.span()),
        leftOutWords(meta.left_out),
        data.length > 1 ? overview(data, meta, cards) : null,
        cards,
        reading(),
      );
    },
  });
  return { element: place, load };
}

function scopeWords({ isOpen }) {
  const open = isOpen ? " Today is not over: who was assigned today may convert until midnight UTC." : "";
  return h(
    "p",
    { class: "soft about" },
    `What is said is of these days alone: choose them from the experiment's first to its last.${open}`,
  );
}

/** What is not shown of very many; null where everything is. */
function leftOutWords({ experiments, variants, goals }) {
  const kinds = [
    [experiments, "experiment"],
    [variants, "variant"],
    [goals, "goal"],
  ];
  const some = kinds.filter(([count]) => count).map(([count, one]) => plural(count, one));
  if (!some.length) return null;
  const words = `Not shown: ${some.join(", ")}, those with the fewest visitors. Anybody may send names; what is said of the others leaves these out.`;
  return h("p", { class: "soft about" }, words);
}

/** All experiments with what can be said of each, in a few words; a press leads to its card. */
function overview(data, meta, cards) {
  const row = (experiment, i) => {
    const { key, words, sign } = summaryOf(experiment, meta);
    return h(
      "li",
      null,
      h(
        "button",
        {
          class: "overview-row",
          type: "button",
          dataset: { key: `to-${experiment.experiment}`, state: key },
          onclick: () => {
            const head = cards[i].querySelector("h2");
            cards[i].scrollIntoView({ block: "start" });
            head.focus({ preventScroll: true });
          },
        },
        h("bdi", { class: "overview-name" }, experiment.experiment),
        h("span", { class: `overview-state ${key}` }, sign ? icon(sign) : null, words),
      ),
    );
  };
  return h(
    "section",
    { class: "card trials-overview", "aria-label": "All experiments" },
    h("ol", { class: "overview" }, data.map(row)),
  );
}

function reading() {
  return h(
    "section",
    { class: "card", "aria-labelledby": "reading" },
    h("h2", { id: "reading", class: "card-title" }, "How to read this"),
    h(
      "dl",
      { class: "reading" },
      READING.map(([title, words]) => h("div", null, h("dt", null, title), h("dd", { class: "soft" }, words))),
    ),
  );
}

function notYet({ span }) {
  const { from, to } = span();
  return emptyState({
    title: "No experiments in these days",
    words: `${dayRange(from, to)}. An experiment begins with the first visitor who is given a variant, in a script behind the tracker:`,
    steps: [
      h("pre", { class: "code-block", tabindex: "0", "aria-label": "Script" }, SNIPPET),
      h(
        "p",
        { class: "soft" },
        "Name the variant that changes nothing “control”: the others are compared with it. What counts as one visitor is somebody's UTC day, so choose a goal that is reached on the same day.",
      ),
    ],
  });
}
