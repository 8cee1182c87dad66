// The card of an experiment: the check of its split, and for each goal the conclusions and their numbers.

import { h, icon, visuallyHidden } from "../shared/dom.js";
import { number, percent, wholePercent } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { conclusionsOf, decisionOf, isSmall, notesOf, pValueNumber, rate, splitCheck } from "./conclusions.js";

const t = await texts("experiments");
const shared = await texts("shared");

// The summary of an experiment is that of its state which comes first here: [summary, icon].
/** @type {Record<string, [string, string | null]>} */
const STATES = {
  off: [t("state_off"), "warning"],
  significant: [t("state_significant"), "check"],
  planned: [t("state_planned"), "check"],
  earlier: [t("state_earlier"), null],
  open: [t("state_open"), null],
  few: [t("state_few"), null],
  same: [t("state_same"), null],
  empty: [t("state_same"), null],
};

/**
 * Returns the summary of an experiment: { key, words, sign }.
 *
 * @param {Experiment} experiment
 * @param {ExperimentsMeta} meta
 */
export function summaryOf(experiment, meta) {
  const split = splitCheck(experiment);
  if (split.state === "alone" || split.state === "none") return { key: split.state, words: split.title, sign: null };
  const found = new Set(
    experiment.goals.flatMap((goal) => conclusionsOf(experiment, goal, meta)).map((one) => one.state),
  );
  if (split.state === "off") found.add("off");
  const key = Object.keys(STATES).find((state) => found.has(state));
  if (!key) return { key: "none", words: t("no_conversions_yet"), sign: null };
  const [words, sign] = STATES[key];
  return { key, words, sign };
}

/**
 * Returns the card. `place`: its index on the page; `isFiltered`: whether the view has filters.
 *
 * @param {Experiment} experiment
 * @param {ExperimentsMeta} meta
 * @param {number} place
 * @param {boolean} isFiltered
 */
export function experimentCard(experiment, meta, place, isFiltered) {
  const { variants, goals } = experiment;
  const split = splitCheck(experiment);
  const visitors = variants.reduce((sum, one) => sum + one.visitors, 0);
  const notes = notesOf(experiment, isFiltered);
  return h(
    "section",
    {
      class: "card experiment",
      "aria-labelledby": `experiment-${place}`,
      dataset: { experiment: experiment.experiment },
    },
    h(
      "div",
      { class: "card-head" },
      h("h2", { id: `experiment-${place}`, tabindex: "-1" }, h("bdi", null, experiment.experiment)),
      h("span", { class: "soft small-text" }, sizeText(visitors, variants.length)),
    ),
    decision(experiment, meta),
    split.state === "off" ? splitNode(split) : null,
    goals.length
      ? goals.map((goal) => goalPart(experiment, goal, meta))
      : h(
          "p",
          { class: "experiment-none soft" },
          t.rich("no_conversions", {
            code: h("code", null, `tally.convert(${JSON.stringify(experiment.experiment)}, { goal: "order" })`),
          }),
        ),
    split.state === "off" ? null : splitNode(split),
    notes.length
      ? h(
          "ul",
          { class: "experiment-notes soft" },
          notes.map((words) => h("li", null, words)),
        )
      : null,
  );
}

/**
 * Returns the decision, with which the card begins, and the state that is its reason.
 *
 * @param {Experiment} experiment
 * @param {ExperimentsMeta} meta
 */
function decision(experiment, meta) {
  const { key, words, sign } = summaryOf(experiment, meta);
  const own = experiment.goals.flatMap((goal) => conclusionsOf(experiment, goal, meta));
  const leaders = own.flatMap(({ state, leader }) => (state === key && leader ? [leader] : []));
  return h(
    "p",
    { class: "decision", dataset: { state: key } },
    h("strong", null, decisionOf(key, [...new Set(leaders)], experiment.goals.length)),
    " ",
    h("span", { class: `overview-state ${key}` }, sign ? icon(sign) : null, words),
  );
}

/**
 * @param {number} visitors
 * @param {number} variants
 */
function sizeText(visitors, variants) {
  return t("size", {
    visitors: shared("count_visitors", { count: visitors }),
    variants: t("variants_count", { count: variants }),
  });
}

/**
 * @param {{ state: string, title: string, words: string }} options
 */
function splitNode({ state, title, words }) {
  if (state === "off") {
    return h(
      "div",
      { class: "notice bad", dataset: { split: state } },
      icon("warning"),
      h("div", null, h("strong", null, title), h("p", null, words)),
    );
  }
  return h(
    "p",
    { class: "experiment-split soft", dataset: { split: state } },
    state === "even" ? icon("check") : null,
    h("span", null, h("strong", null, `${title}. `), words),
  );
}

/**
 * @param {Experiment} experiment
 * @param {Goal} goal
 * @param {ExperimentsMeta} meta
 */
function goalPart(experiment, goal, meta) {
  const conclusions = conclusionsOf(experiment, goal, meta);
  return h(
    "div",
    { class: "goal", dataset: { goal: goal.goal ?? "" } },
    h(
      "h3",
      null,
      goal.goal === null
        ? [t("conversions"), " ", h("span", { class: "soft" }, t("no_goal_named"))]
        : t.rich("goal_named", { goal: h("bdi", null, goal.goal) }),
    ),
    conclusions.map(conclusion),
    h("div", { class: "arms-place" }, variantsTable(goal, meta, experiment.split.is_off)),
  );
}

/**
 * @param {{ variant: string, state: string, title: string, words: string }} options
 */
function conclusion({ variant, state, title, words }) {
  const sign = STATES[state][1];
  return h(
    "div",
    { class: `conclusion ${state}`, dataset: { variant, state } },
    sign ? icon(sign) : h("span", { class: "conclusion-sign", "aria-hidden": "true" }, "–"),
    h("div", null, h("strong", null, title), h("p", null, words)),
  );
}

// Explicit roles: on narrow screens the style sheet changes `display`, and browsers drop the table's implicit roles.
/**
 * @param {Goal} goal
 * @param {ExperimentsMeta} meta
 * @param {boolean} isOff
 */
function variantsTable(goal, meta, isOff) {
  const heads = [
    t("visitors"),
    t("conversions"),
    t("rate"),
    t("interval", { share: wholePercent(100 * meta.confidence) }),
    t("lift"),
    t("p_one_look"),
    t("p_any_time"),
  ];
  const head = (/** @type {string} */ text, /** @type {string | null} */ kind = null) =>
    h("th", { scope: "col", role: "columnheader", class: kind }, text);
  const scale = scaleOf(goal.variants);
  return h(
    "table",
    { class: isOff ? "table arms untrusted" : "table arms", role: "table" },
    h(
      "caption",
      { class: "visually-hidden" },
      goal.goal === null ? t("caption") : t("caption_goal", { goal: goal.goal }),
    ),
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        head(t("variant"), null),
        heads.map((text, i) => head(text, i === 3 ? "interval" : "num")),
      ),
    ),
    h(
      "tbody",
      { role: "rowgroup" },
      goal.variants.map((arm, i) => variantRow(arm, i === 0, scale, meta, heads)),
    ),
  );
}

/**
 * @param {Variant} arm
 * @param {boolean} isBase
 * @param {{ place: (rate: number) => number, base: number | null }} scale
 * @param {ExperimentsMeta} meta
 * @param {string[]} heads
 */
function variantRow(arm, isBase, scale, meta, heads) {
  const cell = (/** @type {number} */ i, /** @type {Child[]} */ ...content) =>
    h("td", { role: "cell", class: i === 3 ? "interval" : "num", dataset: { head: heads[i] } }, content);
  const p = (/** @type {number | null} */ value) =>
    value === null
      ? h("span", { class: "soft" }, "–")
      : h(isSmall(value, meta) ? "strong" : "span", null, pValueNumber(value));
  return h(
    "tr",
    { role: "row", dataset: { variant: arm.variant } },
    h(
      "th",
      { scope: "row", role: "rowheader" },
      h("bdi", null, arm.variant),
      isBase ? h("span", { class: "soft small-text baseline" }, ` ${t("baseline")}`) : null,
    ),
    cell(0, number(arm.visitors)),
    cell(1, number(arm.conversions)),
    cell(2, h("strong", null, arm.rate === null ? "–" : rate(arm))),
    cell(3, arm.rate === null ? "–" : intervalNode(arm, scale)),
    cell(4, liftNode(arm.lift)),
    cell(5, p(arm.p_value)),
    cell(6, p(arm.p_value_any_time)),
  );
}

/**
 * @param {number | null} lift
 */
function liftNode(lift) {
  if (lift === null) return h("span", { class: "soft" }, "–");
  return `${lift < 0 ? "−" : lift > 0 ? "+" : ""}${percent(Math.abs(lift))}`;
}

/**
 * Returns the scale of a goal's intervals: { place(rate) in percent, base }.
 *
 * @param {Variant[]} arms
 */
function scaleOf(arms) {
  const known = arms.filter((arm) => arm.rate !== null);
  const low = Math.min(...known.map((arm) => arm.rate_low));
  const high = Math.max(...known.map((arm) => arm.rate_high));
  const reach = high - low || 1;
  return { place: (/** @type {number} */ value) => (100 * (value - low)) / reach, base: arms[0].rate };
}

/**
 * @param {Variant} arm
 * @param {{ place: (rate: number) => number, base: number | null }} options
 */
function intervalNode(arm, { place, base }) {
  const drawn = h(
    "span",
    {
      class: "interval-bar",
      "aria-hidden": "true",
      style: {
        "--low": `${place(arm.rate_low)}%`,
        "--high": `${100 - place(arm.rate_high)}%`,
        "--at": `${place(arm.rate ?? 0)}%`,
        "--base": base === null ? "-10%" : `${place(base)}%`,
      },
    },
    h("span", { class: "interval-base" }),
    h("span", { class: "interval-line" }),
    h("span", { class: "interval-dot" }),
  );
  return h(
    "span",
    { class: "interval-place" },
    drawn,
    h(
      "span",
      { class: "soft small-text" },
      percent(arm.rate_low),
      visuallyHidden(` ${t("to")} `),
      h("span", { "aria-hidden": "true" }, " – "),
      percent(arm.rate_high),
    ),
  );
}
