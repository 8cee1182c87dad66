// The experiments page (/websites/{id}/experiments): visitors and conversions of each variant, and the conclusions of
// experiments/conclusions.js.

import { summaryOf, experimentCard } from "../experiments/experiment_card.js";
import { h, icon, refill } from "../shared/dom.js";
import { FILTERS } from "../shared/fields.js";
import { plural, dayRange } from "../shared/formats.js";
import { noMatchState, emptyState, websitePage } from "../shared/website_page.js";

const SNIPPET = `// Assigns a variant evenly; the same for this visit in this tab.
const colour = tally.variant("button", ["control", "blue"]);

// Sends a conversion:
tally.convert("button", { goal: "order" });`;

const READING = [
  [
    "Visitors",
    "Unique visitors are counted per day (UTC), as everywhere in Tally. A person who is assigned today and buys tomorrow counts as two visitors without a conversion. All rates are therefore lower than the true ones, equally for all variants. Choose a goal that is reached on the same day, such as a started trial or an item added to the basket.",
  ],
  [
    "Which p-value to use",
    "“One look” if you decided in advance when to look, and look once. “Any time” if you look repeatedly and stop when there is a difference: it is valid at every look, and needs more visitors. A p-value is the probability that chance alone causes at least such a difference.",
  ],
  [
    "Which range to choose",
    "The whole experiment, from its first to its last day, in whole weeks if possible, because behaviour differs by weekday. Trying ranges or filters until one shows a difference amounts to many looks; no p-value corrects for that.",
  ],
  [
    "What is counted",
    "A visitor's first variant of the day. A conversion counts once per visitor, goal and day, also if it arrives before the assignment; without an assignment it is not counted.",
  ],
];

/** @type {PageDefinition} */
const PAGE = {
  title: "Experiments",
  styles: ["/assets/experiments/experiments.css"],
  // Assignments have no event name and one type.
  fields: FILTERS.filter((field) => !["event_name", "type"].includes(field)),
  csv: (board) => [
    ["CSV of all experiments", `${board.base}/experiments?${board.question({ format: "csv" })}`, "experiments.csv"],
  ],
  foot: "Intervals are 95% Wilson intervals of single rates. Filters apply to the assignment; conversions may occur on any page.",
  build,
};

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export const show = (root, context) => websitePage(root, context, PAGE);

/**
 * @param {Board} board
 */
function build(board) {
  const place = h("div", { class: "experiments" });
  const load = board.panel(place, {
    what: () => "Experiments cannot be shown.",
    ask: (signal) => board.ask("experiments", {}, signal),
    draw({ data, meta }) {
      const { from, to } = board.span();
      board.say(`${dayRange(from, to)}: ${plural(data.length, "experiment")}`);
      if (!data.length) return refill(place, board.view().filters.length ? noMatchState(board) : notYet(board));
      const isFiltered = board.view().filters.length > 0;
      const cards = data.map((/** @type {Experiment} */ experiment, /** @type {number} */ i) =>
        experimentCard(experiment, meta, i, isFiltered),
      );
      return refill(
        place,
        scopeWords(board.span()),
        omittedWords(meta.left_out),
        data.length > 1 ? overview(data, meta, cards) : null,
        cards,
        reading(),
      );
    },
  });
  return { element: place, load };
}

/**
 * @param {{ isOpen: boolean }} options
 */
function scopeWords({ isOpen }) {
  const open = isOpen ? " Today is not over: visitors assigned today may convert until midnight UTC." : "";
  return h(
    "p",
    { class: "soft about" },
    `Results are for the selected range. Choose the experiment's first to last day.${open}`,
  );
}

/**
 * Returns a note on what the answer omits; null where it omits nothing.
 *
 * @param {{ experiments: number, variants: number, goals: number }} options
 */
function omittedWords({ experiments, variants, goals }) {
  /** @type {[number, string][]} */
  const kinds = [
    [experiments, "experiment"],
    [variants, "variant"],
    [goals, "goal"],
  ];
  const some = kinds.filter(([count]) => count).map(([count, one]) => plural(count, one));
  if (!some.length) return null;
  const words = `Not shown: ${some.join(", ")} with the fewest visitors. They are not part of the results.`;
  return h("p", { class: "soft about" }, words);
}

/**
 * Returns the list of experiments with their summaries; a click scrolls to a card.
 *
 * @param {Experiment[]} data
 * @param {ExperimentsMeta} meta
 * @param {HTMLElement[]} cards
 */
function overview(data, meta, cards) {
  const row = (/** @type {Experiment} */ experiment, /** @type {number} */ i) => {
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
            head?.focus({ preventScroll: true });
          },
        },
        h("bdi", { class: "overview-name" }, experiment.experiment),
        h("span", { class: `overview-state ${key}` }, sign ? icon(sign) : null, words),
      ),
    );
  };
  return h(
    "section",
    { class: "card experiments-overview", "aria-label": "All experiments" },
    h("ol", { class: "overview" }, data.map(row)),
  );
}

function reading() {
  return h(
    "section",
    { class: "card", "aria-labelledby": "reading" },
    h("h2", { id: "reading", class: "card-title" }, "How to read the results"),
    h(
      "dl",
      { class: "reading" },
      READING.map(([title, words]) => h("div", null, h("dt", null, title), h("dd", { class: "soft" }, words))),
    ),
  );
}

/**
 * @param {Board} board
 */
function notYet({ span }) {
  const { from, to } = span();
  return emptyState({
    title: "No experiments in this range",
    words: `${dayRange(from, to)}. An experiment starts with the first assignment of a variant, in a script after the tracker:`,
    steps: [
      h("pre", { class: "code-block", tabindex: "0", "aria-label": "Script" }, SNIPPET),
      h(
        "p",
        { class: "soft" },
        "Name the unchanged variant “control”: the others are compared with it. Unique visitors are counted per day (UTC), so choose a goal that is reached on the same day.",
      ),
    ],
  });
}
