// Controls of the days that are shown: periods, previous and next, custom days, comparison, interval.

import {
  INTERVALS,
  PERIODS,
  QUICK,
  localTime,
  shiftRange,
  withComparison,
  withDays,
  withPeriod,
} from "./view_state.js";
import { openWhenLoaded } from "./dialog.js";
import { fill, h, icon, refill } from "./dom.js";
import { capital } from "./filter_words.js";
import { dayRange } from "./formats.js";
import { texts } from "./messages.js";
import { zoneLabel } from "./time_zones.js";

const t = await texts("shared");

/**
 * Draws the range picker.
 *
 * @param {HTMLElement} root
 * @param {Board} board
 */
export function drawRange(root, board) {
  const view = board.view();
  const { to, today } = board.span();
  const named = QUICK.map((period, i) =>
    h(
      "button",
      {
        class: "segment",
        type: "button",
        "aria-pressed": String(view.period === period.name),
        "aria-label": `${period.short}: ${period.long}`,
        title: `${capital(period.long)} (${i + 1})`,
        dataset: { key: `period-${period.name}` },
        onclick: () => board.go(withPeriod(view, period.name)),
      },
      period.short,
    ),
  );
  const other = PERIODS.find(({ name, isQuick }) => name === view.period && !isQuick);
  const isCustom = view.period === "custom";
  const more = h(
    "button",
    {
      class: "segment",
      type: "button",
      "aria-pressed": String(isCustom || Boolean(other)),
      "aria-haspopup": "dialog",
      title: t("other_ranges"),
      dataset: { key: "period-more" },
      onclick: () => rangeDialog(board, "openDays"),
    },
    other?.short || (isCustom ? t("custom_range") : t("more_ranges")),
  );
  const step = (
    /** @type {number} */ by,
    /** @type {string} */ sign,
    /** @type {string} */ label,
    /** @type {boolean} */ disabled,
  ) =>
    h(
      "button",
      {
        class: "button square",
        type: "button",
        "aria-label": label,
        title: `${label} (${by < 0 ? "←" : "→"})`,
        disabled,
        dataset: { key: `step${by}` },
        onclick: () => board.go(shiftRange(view, by)),
      },
      icon(sign),
    );
  refill(
    root,
    h("div", { class: "segments", role: "group", "aria-label": t("range") }, named, more),
    h(
      "div",
      { class: "steps" },
      step(-1, "left", t("previous_range"), false),
      step(1, "right", t("next_range"), to >= today),
    ),
  );
}

/**
 * Draws the days that are shown. The time zone is in their title, in the dialog of ranges and on paper.
 *
 * @param {HTMLElement} root
 * @param {Board} board
 */
export function drawWhen(root, board) {
  const { from, to } = board.span();
  fill(
    root,
    h(
      "span",
      { class: "when-days", title: t("days_in_zone", { zone: zoneLabel(board.view().zone) }) },
      dayRange(from, to),
    ),
  );
}

/**
 * Draws the choice of what the range is compared with.
 *
 * @param {HTMLElement} root
 * @param {Board} board
 */
export function drawComparison(root, board) {
  const view = board.view();
  const { before } = board.span();
  // Before all events there is nothing to compare with.
  if (view.period === "all") return void fill(root);
  const chosen = view.compare + (view.matchWeekday ? " weekday" : "");
  /** @type {[string, string][]} */
  const choices = [
    ["off", t("no_comparison")],
    ["previous", t("previous_period")],
    ["previous weekday", t("previous_period_weekdays")],
    ["year", t("year_before")],
    ["year weekday", t("year_before_weekdays")],
    .../** @type {[string, string][]} */ (
      view.compare === "custom" && before ? [["custom", dayRange(before.from, before.to)]] : []
    ),
    ["choose", t("choose_custom_range")],
  ];
  const select = h(
    "select",
    {
      ...{ class: "quiet small-text comparison", "aria-label": t("comparison"), value: chosen },
      dataset: { key: "comparison" },
      title: before ? t("compared_with", { days: dayRange(before.from, before.to) }) : t("nothing_compared"),
    },
    choices.map(([value, words]) => h("option", { value }, words)),
  );
  select.addEventListener("change", () => {
    const [compare, weekday] = select.value.split(" ");
    if (compare !== "choose") {
      return board.go(withComparison(board.view(), compare, { matchWeekday: Boolean(weekday) }));
    }
    select.value = chosen;
    rangeDialog(board, "openComparison");
  });
  const against = before ? h("span", { class: "soft no-print" }, t("versus")) : null;
  refill(root, against, h("span", { class: "no-print" }, select));
}

/**
 * Draws the choice of the interval.
 *
 * @param {HTMLElement} root
 * @param {Board} board
 */
export function drawInterval(root, board) {
  const { interval, intervals } = board.span();
  const select = h(
    "select",
    { class: "quiet small-text interval", "aria-label": t("interval"), value: interval, dataset: { key: "interval" } },
    INTERVALS.map(({ name, title }) => h("option", { value: name, disabled: !intervals.includes(name) }, title)),
  );
  select.addEventListener("change", () => board.go({ ...board.view(), interval: select.value }));
  refill(root, select);
}

/**
 * Sets the range to the days of two times, chosen on a chart.
 *
 * @param {Board} board
 * @param {number} first
 * @param {number} last
 */
export function pickDays(board, first, last) {
  const [[from], [to]] = [first, last].map((moment) => localTime(moment, board.view().zone));
  showDays(board, { from, to });
}

/**
 * Sets the range to these days, unless it has them already.
 *
 * @param {Board} board
 * @param {Days} days
 */
export function showDays(board, { from, to }) {
  const span = board.span();
  if (from !== span.from || to !== span.to) board.go(withDays(board.view(), from, to));
}

/**
 * Opens a dialog of ranges: "openDays" or "openComparison".
 *
 * @param {Board} board
 * @param {"openDays" | "openComparison"} name
 */
function rangeDialog(board, name) {
  return openWhenLoaded(import("./range_dialog.js"), (dialogs) => dialogs[name](board));
}
