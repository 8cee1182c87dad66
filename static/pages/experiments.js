// The experiments page (/websites/{id}/experiments): visitors and conversions of each variant, and the conclusions of
// experiments/conclusions.js.

import { summaryOf, experimentCard } from "../experiments/experiment_card.js";
import { isFiltered } from "../shared/view_state.js";
import { h, icon, refill } from "../shared/dom.js";
import { FILTERS } from "../shared/fields.js";
import { dayRange } from "../shared/formats.js";
import { noMatchState, emptyState, websitePage } from "../shared/website_page.js";
import { texts } from "../shared/messages.js";

const t = await texts("experiments");
const shared = await texts("shared");
const SNIPPET = [
  `// ${t("snippet_assigns")}`,
  'const colour = tally.variant("button", ["control", "blue"]);',
  "",
  `// ${t("snippet_sends")}`,
  'tally.convert("button", { goal: "order" });',
].join("\n");

const READING = [
  [t("visitors"), t("reading_visitors")],
  [t("reading_p"), t("reading_p_words")],
  [t("reading_range"), t("reading_range_words")],
  [t("reading_counted"), t("reading_counted_words")],
];

/** @type {PageDefinition} */
const PAGE = {
  title: shared("nav_experiments"),
  styles: ["/assets/experiments/experiments.css"],
  // Assignments have no event name and one type.
  fields: FILTERS.filter((field) => !["event_name", "type"].includes(field)),
  foot: t("foot"),
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
    what: () => t("failed"),
    request: (signal) => board.request("experiments", {}, signal),
    draw({ data, meta }) {
      const { from, to } = board.span();
      board.announce(t("announcement", { days: dayRange(from, to), count: data.length }));
      if (!data.length) return refill(place, isFiltered(board.view()) ? noMatchState(board) : notYet(board));
      const cards = data.map((/** @type {Experiment} */ experiment, /** @type {number} */ i) =>
        experimentCard(experiment, meta, i, isFiltered(board.view())),
      );
      return refill(
        place,
        scopeWords(board.span()),
        omittedWords(meta.omitted),
        data.length > 1 ? overview(data, meta, cards) : null,
        cards,
        reading(),
      );
    },
  });
  /** @returns {CsvFile[]} */
  const files = () => [[t("csv"), `${board.base}/experiments?${board.query({ format: "csv" })}`, "experiments.csv"]];
  return { element: place, load, files };
}

/**
 * @param {{ isOpen: boolean }} options
 */
function scopeWords({ isOpen }) {
  return h("p", { class: "soft about" }, isOpen ? t("scope_open") : t("scope"));
}

/**
 * Returns a note on what the answer omits; null where it omits nothing.
 *
 * @param {{ experiments: number, variants: number, goals: number }} options
 */
function omittedWords({ experiments, variants, goals }) {
  const some = [
    experiments && t("experiments_count", { count: experiments }),
    variants && t("variants_count", { count: variants }),
    goals && t("goals_count", { count: goals }),
  ].filter(Boolean);
  return some.length ? h("p", { class: "soft about" }, t("omitted", { omitted: some.join(", ") })) : null;
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
    { class: "card experiments-overview", "aria-label": t("all_experiments") },
    h("ol", { class: "overview" }, data.map(row)),
  );
}

function reading() {
  return h(
    "section",
    { class: "card", "aria-labelledby": "reading" },
    h("h2", { id: "reading", class: "card-title" }, t("reading")),
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
    title: t("none_title"),
    words: t("none_words", { days: dayRange(from, to) }),
    steps: [
      h("pre", { class: "code-block", tabindex: "0", "aria-label": t("script") }, SNIPPET),
      h("p", { class: "soft" }, t("name_control")),
    ],
  });
}
