// An experiment as a card: whether its split is sound, first; then of each goal what can be concluded, in sentences, and
// the numbers behind them.

import { h, icon, visuallyHidden } from "../shared/dom.js";
import { plural, decimal, number, percent } from "../shared/formats.js";
import { conclusionsOf, isSmall, notesOf, pValueNumber, rate, splitCheck } from "./conclusions.js";

// What is said of an experiment in three words: that of its states which comes first here.
const STATES = {
  off: ["The split is off", "warning"],
  sure: ["A clear difference", "check"],
  planned: ["A difference, if this is your one look", "check"],
  faded: ["A difference that faded", null],
  open: ["No difference can be told", null],
  few: ["Too few yet", null],
  same: ["Nothing to compare yet", null],
  nobody: ["Nothing to compare yet", null],
};

/** { key, words, sign } of an experiment, for a list of them. */
export function summaryOf(experiment, meta) {
  const split = splitCheck(experiment);
  if (split.state === "alone" || split.state === "none") return { key: split.state, words: split.title, sign: null };
  const found = new Set(
    experiment.goals.flatMap((goal) => conclusionsOf(experiment, goal, meta)).map((one) => one.state),
  );
  if (split.state === "off") found.add("off");
  const key = Object.keys(STATES).find((state) => found.has(state));
  if (!key) return { key: "none", words: "Nobody has converted yet", sign: null };
  const [words, sign] = STATES[key];
  return { key, words, sign };
}

/** The card, the `place`-th of the page; `isFiltered`: whether the view is. */
export function experimentCard(experiment, meta, place, isFiltered) {
  const { variants, goals } = experiment;
  const split = splitCheck(experiment);
  const visitors = variants.reduce((sum, one) => sum + one.visitors, 0);
  const notes = notesOf(experiment, isFiltered);
  return h(
    "section",
    { class: "card trial", "aria-labelledby": `trial-${place}`, dataset: { experiment: experiment.experiment } },
    h(
      "div",
      { class: "card-head" },
      h("h2", { id: `trial-${place}`, tabindex: "-1" }, h("bdi", null, experiment.experiment)),
      h("span", { class: "soft small-text" }, `${plural(visitors, "visitor")}, ${plural(variants.length, "variant")}`),
    ),
    splitNode(split),
    goals.length
      ? goals.map((goal) => goalPart(experiment, goal, meta))
      : h(
          "p",
          { class: "trial-none soft" },
          "Nobody has converted in these days. Say where somebody does: ",
          h("code", null, `tally.convert(${JSON.stringify(experiment.experiment)}, { goal: "order" })`),
        ),
    notes.length
      ? h(
          "ul",
          { class: "trial-notes soft" },
          notes.map((words) => h("li", null, words)),
        )
      : null,
  );
}

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
    { class: "trial-split soft", dataset: { split: state } },
    state === "even" ? icon("check") : null,
    h("span", null, h("strong", null, `${title}. `), words),
  );
}

function goalPart(experiment, goal, meta) {
  const said = conclusionsOf(experiment, goal, meta);
  return h(
    "div",
    { class: "goal", dataset: { goal: goal.goal ?? "" } },
    h(
      "h3",
      null,
      goal.goal === null ? "Conversions " : "Goal: ",
      goal.goal === null ? h("span", { class: "soft" }, "(no goal named)") : h("bdi", null, goal.goal),
    ),
    said.map(conclusion),
    h("div", { class: "arms-place" }, variantsTable(goal, meta, experiment.split.is_off)),
  );
}

function conclusion({ variant, state, title, words }) {
  const sign = STATES[state][1];
  return h(
    "div",
    { class: `conclusion ${state}`, dataset: { variant, state } },
    sign ? icon(sign) : h("span", { class: "conclusion-sign", "aria-hidden": "true" }, "–"),
    h("div", null, h("strong", null, title), h("p", null, words)),
  );
}

// Roles are written out: on narrow screens the rows are no table's to the browser any more.
function variantsTable(goal, meta, isOff) {
  const heads = [
    "Visitors",
    "Converted",
    "Rate",
    `${percent(100 * meta.confidence, 0)} interval`,
    "Lift",
    "p, one look",
    "p, any time",
  ];
  const head = (text, kind) => h("th", { scope: "col", role: "columnheader", class: kind }, text);
  const scale = scaleOf(goal.variants);
  return h(
    "table",
    { class: isOff ? "table arms untrusted" : "table arms", role: "table" },
    h("caption", { class: "unseen" }, goal.goal === null ? "Conversions by variant" : `Goal ${goal.goal} by variant`),
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        head("Variant", null),
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

function variantRow(arm, isBase, scale, meta, heads) {
  const cell = (i, ...content) =>
    h("td", { role: "cell", class: i === 3 ? "interval" : "num", dataset: { head: heads[i] } }, content);
  const p = (value) =>
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
      isBase ? h("span", { class: "soft small-text baseline" }, " baseline") : null,
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

function liftNode(lift) {
  if (lift === null) return h("span", { class: "soft" }, "–");
  return `${lift < 0 ? "−" : lift > 0 ? "+" : ""}${decimal(Math.abs(lift), 1)}%`;
}

/** From where to where the intervals of a goal are drawn: { place(rate) in percent, base }. */
function scaleOf(arms) {
  const known = arms.filter((arm) => arm.rate !== null);
  const low = Math.min(...known.map((arm) => arm.rate_low));
  const high = Math.max(...known.map((arm) => arm.rate_high));
  const reach = high - low || 1;
  return { place: (value) => (100 * (value - low)) / reach, base: arms[0].rate };
}

function intervalNode(arm, { place, base }) {
  const drawn = h(
    "span",
    {
      class: "interval-bar",
      "aria-hidden": "true",
      style: {
        "--low": `${place(arm.rate_low)}%`,
        "--high": `${100 - place(arm.rate_high)}%`,
        "--at": `${place(arm.rate)}%`,
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
      percent(arm.rate_low, 1, 1),
      visuallyHidden(" to "),
      h("span", { "aria-hidden": "true" }, " – "),
      percent(arm.rate_high, 1, 1),
    ),
  );
}
