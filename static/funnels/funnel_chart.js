// A funnel as a list of steps from above to below: each with its bar, its figures in words, and what changes it. The
// table behind it has the same figures.

import { fill, h, icon, refill } from "../shared/dom.js";
import { duration, number, percent } from "../shared/formats.js";
import { KINDS, MIN_STEPS, MAX_STEPS, largestLoss, stepKeys, visitWords } from "./steps.js";

/**
 * Draws the list. `rows`: the read API's, or null where nothing is counted; then `isWaiting` keeps their places free.
 * `all`: visits of the range, or null; `act`: { change(i), move(i, to), remove(i), add() }.
 */
export function drawFunnel(root, { steps, rows, all, act, isWaiting }) {
  const keys = stepKeys(steps);
  const worst = rows ? largestLoss(rows) : -1;
  const items = steps.map((step, i) =>
    h(
      "li",
      { class: "step", dataset: { step: keys[i], visits: rows ? String(rows[i].visits) : "" } },
      i ? between(rows, i, { isWorst: i === worst, isWaiting }) : null,
      h(
        "div",
        { class: "step-row" },
        h("span", { class: "step-number", "aria-hidden": "true" }, String(i + 1)),
        nameButton(step, keys[i], i, steps.length, act),
        tools(step, keys[i], i, steps.length, act),
        rows ? [bar(rows, i), figures(rows, i, all)] : isWaiting ? [waitingBar(), waitingFigures()] : null,
      ),
    ),
  );
  refill(root, h("ol", { class: "funnel", "aria-label": "Steps" }, items), adding(steps, act));
}

function nameButton(step, key, i, count, act) {
  const button = h(
    "button",
    {
      class: "step-name",
      type: "button",
      title: "Change this step",
      dataset: { key: `name ${key}` },
      onclick: () => act.change(i),
    },
    h("span", { class: "soft" }, `${KINDS[step.field]} `),
    h("bdi", null, step.value),
  );
  button.addEventListener("keydown", (event) => {
    const by = event.altKey ? { ArrowUp: -1, ArrowDown: 1 }[event.key] : 0;
    if (by) {
      event.preventDefault();
      if (i + by >= 0 && i + by < count) act.move(i, i + by);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      act.remove(i);
    }
  });
  return button;
}

function tools({ value }, key, i, count, act) {
  const tool = (sign, words, can, does, kind = "") =>
    h(
      "button",
      {
        class: `button small square quiet ${kind}`,
        type: "button",
        "aria-label": `${words}: ${value}`,
        title: words,
        // Disabled, it would lose the focus of who has just pressed it.
        "aria-disabled": can ? null : "true",
        dataset: { key: `${words} ${key}` },
        onclick: () => can && does(),
      },
      icon(sign),
    );
  return h(
    "div",
    { class: "step-tools no-print" },
    tool("down", "Move up", i > 0, () => act.move(i, i - 1), "up"),
    tool("down", "Move down", i < count - 1, () => act.move(i, i + 1)),
    tool("close", "Remove this step", true, () => act.remove(i)),
  );
}

/** What went on, and what did not: the bar is of the first step's visits. */
function bar(rows, i) {
  const first = Math.max(1, rows[0].visits);
  const before = i ? rows[i - 1].visits : rows[0].visits;
  return h("div", {
    class: "step-bar",
    "aria-hidden": "true",
    style: { "--now": String(rows[i].visits / first), "--before": String(before / first) },
  });
}

function figures(rows, i, all) {
  const row = rows[i];
  const first = all ? `${shareWords((100 * row.visits) / all, row.visits, all)} of all ${visitWords(all)}` : "";
  return h(
    "p",
    { class: "step-figures" },
    h("strong", null, visitWords(row.visits)),
    h("span", { class: "soft" }, i ? partOfFirst(row, rows[0]) : first),
  );
}

const waitingBar = () =>
  h("div", { class: "step-bar", "aria-hidden": "true", style: { "--now": "0", "--before": "0" } });
const waitingFigures = () => h("p", { class: "step-figures" }, h("strong", null, "\u00a0"), h("span", null, "\u00a0"));

function between(rows, i, { isWorst, isWaiting }) {
  if (!rows) return isWaiting ? h("p", { class: "step-between" }, "\u00a0") : null;
  return h(
    "p",
    { class: "step-between" },
    isWorst ? h("span", { class: "badge lost" }, icon("warning"), "The largest share is lost here") : null,
    h("span", null, betweenWords(rows[i - 1], rows[i])),
  );
}

function partOfFirst(row, first) {
  return row.of_first === null ? "" : `${shareWords(row.of_first, row.visits, first.visits)} of the first step`;
}

/** A share in percent: a few of thousands are not none, and all but a few are not all. */
function shareWords(share, part, all) {
  if (part && share < 0.1) return `<${percent(0.1)}`;
  return part < all && share > 99.9 ? `>${percent(99.9)}` : percent(share);
}

/** "1,204 of 3,310 visits (36.4%) went on, after 2 m 10 s on average; 2,106 did not." */
export function betweenWords(before, now) {
  if (!before.visits) return "No visit came this far.";
  const of = `of ${visitWords(before.visits)}`;
  if (!now.visits) return `None ${of} went on.`;
  const share = `(${shareWords(now.of_previous, now.visits, before.visits)})`;
  const time = now.mean_seconds === null ? "" : `, after ${duration(now.mean_seconds)} on average`;
  const lost = before.visits - now.visits;
  return `${number(now.visits)} ${of} ${share} went on${time}; ${lost ? `${number(lost)} did not` : "none was lost"}.`;
}

function adding(steps, act) {
  if (steps.length >= MAX_STEPS)
    return h("p", { class: "soft small-text funnel-add" }, `A funnel has at most ${MAX_STEPS} steps.`);
  const words = steps.length ? "Add a step" : "Choose the first step";
  return h(
    "p",
    { class: "row funnel-add no-print" },
    h(
      "button",
      { class: "button", type: "button", dataset: { key: "add-step" }, onclick: act.add },
      icon("plus"),
      words,
    ),
    steps.length && steps.length < MIN_STEPS ? h("span", { class: "soft" }, "One step more, and it is counted.") : null,
  );
}

/** The sentence above: how many went all the way. */
export function summaryWords(rows, isFiltered = false) {
  const [first, last] = [rows[0], rows.at(-1)];
  if (!first.visits)
    return ["No visit took the first step", isFiltered ? "in these days, with these filters." : "in these days."];
  const of = `${number(last.visits)} of ${visitWords(first.visits)} that took the first step.`;
  return [`${shareWords(last.of_first, last.visits, first.visits)} went all the way:`, of];
}

/** Draws the table behind it. */
export function drawTable(root, steps, rows) {
  const head = ["Visits", "Visitors", "Of the first", "Of the step before", "Lost since", "Time since"];
  fill(
    root,
    h(
      "table",
      { class: "table" },
      h("caption", { class: "unseen" }, "The funnel's steps"),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, "Step"),
          head.map((name) => h("th", { scope: "col", class: "num" }, name)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row, i) =>
          h(
            "tr",
            null,
            h("th", { scope: "row", class: "wrap" }, `${i + 1}. `, h("bdi", null, steps[i].value)),
            cells(rows, row, i).map((text) => h("td", { class: "num" }, text)),
          ),
        ),
      ),
    ),
  );
}

function cells(rows, row, i) {
  return [
    number(row.visits),
    number(row.visitors),
    shareWords(row.of_first, row.visits, rows[0].visits),
    i ? shareWords(row.of_previous, row.visits, rows[i - 1].visits) : "",
    i ? number(rows[i - 1].visits - row.visits) : "",
    i ? duration(row.mean_seconds) : "",
  ];
}
