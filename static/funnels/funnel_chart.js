// A funnel as a list of steps from top to bottom, each with its bar, its figures and its controls; and as a table.

import { fill, h, icon, refill } from "../shared/dom.js";
import { duration, number, percent } from "../shared/formats.js";
import { KINDS, MIN_STEPS, MAX_STEPS, largestLoss, stepKeys, visitWords } from "./steps.js";

/**
 * Draws the list. `rows`: the read API's, or null while there are none; then `isWaiting` reserves their space. `all`: the
 * visits of the range, or null. `act`: { change(i), move(i, to), remove(i), add() }.
 *
 * @param {HTMLElement} root
 * @param {{ steps: FunnelStep[], rows: FunnelRow[] | null, all: number | null, act: FunnelActions, isWaiting: boolean }} options
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

/**
 * @param {FunnelStep} step
 * @param {string} key
 * @param {number} i
 * @param {number} count
 * @param {FunnelActions} act
 */
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

/**
 * @param {{ value: string }} options
 * @param {string} key
 * @param {number} i
 * @param {number} count
 * @param {FunnelActions} act
 */
function tools({ value }, key, i, count, act) {
  const tool = (
    /** @type {string} */ sign,
    /** @type {string} */ words,
    /** @type {boolean} */ can,
    /** @type {() => void} */ does,
    kind = "",
  ) =>
    h(
      "button",
      {
        class: `button small square quiet ${kind}`,
        type: "button",
        "aria-label": `${words}: ${value}`,
        title: words,
        // A disabled button would lose the focus.
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

/**
 * Returns a step's bar: its visits and those of the step before, relative to the first step.
 *
 * @param {FunnelRow[]} rows
 * @param {number} i
 */
function bar(rows, i) {
  const first = Math.max(1, rows[0].visits);
  const before = i ? rows[i - 1].visits : rows[0].visits;
  return h("div", {
    class: "step-bar",
    "aria-hidden": "true",
    style: { "--now": String(rows[i].visits / first), "--before": String(before / first) },
  });
}

/**
 * @param {FunnelRow[]} rows
 * @param {number} i
 * @param {number | null} all
 */
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

/**
 * @param {FunnelRow[] | null} rows
 * @param {number} i
 * @param {{ isWorst: boolean, isWaiting: boolean }} options
 */
function between(rows, i, { isWorst, isWaiting }) {
  if (!rows) return isWaiting ? h("p", { class: "step-between" }, "\u00a0") : null;
  return h(
    "p",
    { class: "step-between" },
    isWorst ? h("span", { class: "badge lost" }, icon("warning"), "Largest drop-off") : null,
    h("span", null, betweenWords(rows[i - 1], rows[i])),
  );
}

/**
 * @param {FunnelRow} row
 * @param {FunnelRow} first
 */
function partOfFirst(row, first) {
  return row.of_first === null ? "" : `${shareWords(row.of_first, row.visits, first.visits)} of the first step`;
}

/**
 * Returns a share in percent; a non-zero share is never shown as 0%, nor an incomplete one as 100%.
 *
 * @param {number | null} share
 * @param {number} part
 * @param {number} all
 */
function shareWords(share, part, all) {
  if (share === null) return percent(share);
  if (part && share < 0.1) return `<${percent(0.1)}`;
  return part < all && share > 99.9 ? `>${percent(99.9)}` : percent(share);
}

/**
 * Returns "1,204 of 3,310 visits (36.4%) continued, after 2 m 10 s on average; 2,106 dropped off."
 *
 * @param {FunnelRow} before
 * @param {FunnelRow} now
 */
export function betweenWords(before, now) {
  if (!before.visits) return "No visits reached the step before.";
  const of = `of ${visitWords(before.visits)}`;
  if (!now.visits) return `None ${of} continued.`;
  const share = `(${shareWords(now.of_previous, now.visits, before.visits)})`;
  const time = now.mean_seconds === null ? "" : `, after ${duration(now.mean_seconds)} on average`;
  const lost = before.visits - now.visits;
  return `${number(now.visits)} ${of} ${share} continued${time}; ${lost ? number(lost) : "none"} dropped off.`;
}

/**
 * @param {FunnelStep[]} steps
 * @param {FunnelActions} act
 */
function adding(steps, act) {
  if (steps.length >= MAX_STEPS) {
    return h("p", { class: "soft small-text funnel-add" }, `A funnel has a maximum of ${MAX_STEPS} steps.`);
  }
  const words = steps.length ? "Add step" : "Choose first step";
  return h(
    "p",
    { class: "row funnel-add no-print" },
    h(
      "button",
      { class: "button", type: "button", dataset: { key: "add-step" }, onclick: act.add },
      icon("plus"),
      words,
    ),
    steps.length && steps.length < MIN_STEPS
      ? h("span", { class: "soft" }, "Add another step to see the funnel.")
      : null,
  );
}

/**
 * Returns the summary in two parts: the share of visits that completed the funnel, and their number.
 *
 * @param {FunnelRow[]} rows
 * @param {boolean} [isFiltered]
 */
export function summaryWords(rows, isFiltered = false) {
  const [first, last] = [rows[0], rows[rows.length - 1]];
  if (!first.visits) {
    return ["No visits reached the first step", isFiltered ? "in this range, with these filters." : "in this range."];
  }
  const of = `${number(last.visits)} of ${visitWords(first.visits)} that reached the first step.`;
  return [`${shareWords(last.of_first, last.visits, first.visits)} completed:`, of];
}

/**
 * Draws the table.
 *
 * @param {HTMLElement} root
 * @param {FunnelStep[]} steps
 * @param {FunnelRow[]} rows
 */
export function drawTable(root, steps, rows) {
  const head = ["Visits", "Visitors", "Of first step", "Of previous step", "Dropped off", "Time since previous"];
  fill(
    root,
    h(
      "table",
      { class: "table" },
      h("caption", { class: "visually-hidden" }, "The funnel's steps"),
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

/**
 * @param {FunnelRow[]} rows
 * @param {FunnelRow} row
 * @param {number} i
 */
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
