// A funnel as a list of steps from top to bottom, each with its bar, its figures and its controls; and as a table.

import { fill, h, icon, refill } from "../shared/dom.js";
import { duration, number, percent, percentOf } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { apart } from "../shared/readable.js";
import { addTooltip } from "../shared/tooltip.js";
import { beforeNode, beforeWords, rowChangeNode } from "../dashboard/key_figures.js";
import { FUNNEL_KINDS, MIN_STEPS, MAX_STEPS, largestLoss, stepKeys } from "./steps.js";

const t = await texts("funnels");
const shared = await texts("shared");

/**
 * Draws the list. `steps` with their values as they are shown, in `text`. `rows`: the read API's, or null while there are none; then `isWaiting` reserves their space. `all`: the
 * visits of the range, or null. `span`: with the range that is compared with. `act`: { change(i), move(i, to), remove(i), add() }.
 *
 * @param {HTMLElement} root
 * @param {{ steps: ShownStep[], rows: FunnelRow[] | null, all: number | null, act: FunnelActions, span: Span, isWaiting: boolean }} options
 */
export function drawFunnel(root, { steps, rows, all, act, span, isWaiting }) {
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
        rows ? [bar(rows, i), figures(rows, i, all, span)] : isWaiting ? [waitingBar(), waitingFigures()] : null,
      ),
    ),
  );
  refill(root, h("ol", { class: "funnel", "aria-label": t("steps") }, items), adding(steps, act));
}

/**
 * @param {ShownStep} step
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
      title: t("change_this_step"),
      dataset: { key: `name ${key}` },
      onclick: () => act.change(i),
    },
    h("span", { class: "soft" }, `${FUNNEL_KINDS[step.field]} `),
    h("bdi", null, stepNode(step)),
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
 * @param {{ text: string }} options
 * @param {string} key
 * @param {number} i
 * @param {number} count
 * @param {FunnelActions} act
 */
function tools({ text }, key, i, count, act) {
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
        "aria-label": t("action_on_step", { action: words, step: text }),
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
    tool("down", t("move_up"), i > 0, () => act.move(i, i - 1), "up"),
    tool("down", t("move_down"), i < count - 1, () => act.move(i, i + 1)),
    tool("close", t("remove_this_step"), true, () => act.remove(i)),
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
 * @param {Span} span
 */
function figures(rows, i, all, span) {
  const row = rows[i];
  const first = all ? t("share_of_all", { share: percentOf(row.visits, all), count: all }) : "";
  const before = row.previous;
  const words = (/** @type {FunnelRow} */ of, /** @type {FunnelRow} */ start) =>
    [shared("count_visits", { count: of.visits }), ...(i ? [partOfFirst(of, start)] : [])].join(" · ");
  const element = h(
    "p",
    { class: "step-figures", ...(before ? { tabindex: "0", role: "note" } : null) },
    h("strong", null, shared("count_visits", { count: row.visits })),
    h("span", { class: "soft" }, i ? partOfFirst(row, rows[0]) : first),
    " ",
    i ? partChange(rows, i, span) : rowChangeNode({ name: "visits", up: 1, inSeries: true }, row, before, span),
  );
  const start = rows[0].previous;
  if (before && start) {
    addTooltip(element, () => [h("strong", null, words(row, rows[0])), beforeNode(words(before, start), span)], {
      byTouch: true,
    });
  }
  return element;
}

/**
 * Returns the change of the part of the first step's visits that reached a step, in points; null without a comparison.
 *
 * @param {FunnelRow[]} rows
 * @param {number} i
 * @param {Span} span
 */
export function partChange(rows, i, span) {
  const visits = /** @type {[number, number]} */ ([rows[0].visits, rows[0].previous?.visits || 0]);
  return rowChangeNode({ name: "of_first", up: 1, format: percent }, rows[i], rows[i].previous, span, visits);
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
    isWorst ? h("span", { class: "badge lost" }, icon("warning"), t("largest_loss")) : null,
    h("span", null, betweenWords(rows[i - 1], rows[i])),
  );
}

/**
 * @param {FunnelRow} row
 * @param {FunnelRow} first
 */
function partOfFirst(row, first) {
  return row.of_first === null ? "" : t("share_of_first", { share: percentOf(row.visits, first.visits) });
}

/**
 * Returns "1,204 of 3,310 visits (36.4%) continued, after 2 m 10 s on average; 2,106 dropped off."
 *
 * @param {FunnelRow} before
 * @param {FunnelRow} now
 */
export function betweenWords(before, now) {
  if (!before.visits) return t("none_reached_before");
  const count = before.visits;
  if (!now.visits) return t("none_continued", { count });
  const share = percentOf(now.visits, count);
  const values = { now: now.visits, count, share, lost: count - now.visits || t("none_lost") };
  if (now.mean_seconds === null) return t("continued", values);
  return t("continued_after", { ...values, time: duration(now.mean_seconds) });
}

/**
 * @param {FunnelStep[]} steps
 * @param {FunnelActions} act
 */
function adding(steps, act) {
  if (steps.length >= MAX_STEPS) {
    return h("p", { class: "soft small-text funnel-add" }, t("max_steps", { max: MAX_STEPS }));
  }
  const words = steps.length ? t("add_step") : t("choose_first_step");
  return h(
    "p",
    { class: "row funnel-add no-print" },
    h(
      "button",
      { class: "button", type: "button", dataset: { key: "add-step" }, onclick: act.add },
      icon("plus"),
      words,
    ),
    steps.length && steps.length < MIN_STEPS ? h("span", { class: "soft" }, t("add_another")) : null,
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
    return [t("none_reached_first"), isFiltered ? t("in_range_filtered") : t("in_range")];
  }
  return [
    t("share_completed", { share: percentOf(last.visits, first.visits) }),
    t("completed_of_first", { last: last.visits, count: first.visits }),
  ];
}

/**
 * Draws the table.
 *
 * @param {HTMLElement} root
 * @param {ShownStep[]} steps
 * @param {FunnelRow[]} rows
 * @param {Span} span
 */
export function drawTable(root, steps, rows, span) {
  const isCompared = rows.some(({ previous }) => previous);
  const head = [
    t("visits"),
    ...(isCompared ? [t("visits_before", { days: beforeWords(span) })] : []),
    t("visitors"),
    t("of_first_step"),
    t("of_previous_step"),
    t("dropped_off"),
    t("time_since_previous"),
  ];
  fill(
    root,
    h(
      "table",
      { class: "table" },
      h("caption", { class: "visually-hidden" }, t("caption")),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, t("step")),
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
            h("th", { scope: "row", class: "wrap" }, `${i + 1}. `, h("bdi", null, stepNode(steps[i]))),
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
    ...(row.previous ? [number(row.previous.visits)] : []),
    number(row.visitors),
    percentOf(row.visits, rows[0].visits),
    i ? percentOf(row.visits, rows[i - 1].visits) : "",
    i ? number(rows[i - 1].visits - row.visits) : "",
    i ? duration(row.mean_seconds) : "",
  ];
}

/**
 * @param {ShownStep} step
 */
function stepNode({ field, text }) {
  return field === "pathname" ? apart(text) : text;
}
