// Controls of the days that are shown: periods, previous and next, custom days and comparison (a dialog), interval.

import { INTERVALS, PERIODS, QUICK, localTime, shiftRange, withDays, withPeriod } from "./view_state.js";
import { openWhenLoaded } from "./dialog.js";
import { h, icon, refill } from "./dom.js";
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
      onclick: () => rangeDialog(board),
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
 * Draws the days that are shown and those that they are compared with: a button that opens the dialog of ranges. The time
 * zone is in its title, in the dialog and on paper.
 *
 * @param {HTMLElement} root
 * @param {Board} board
 */
export function drawWhen(root, board) {
  const { from, to, before } = board.span();
  const against =
    before && board.compares ? [h("span", { class: "soft" }, t("versus")), dayRange(before.from, before.to)] : null;
  refill(
    root,
    h(
      "button",
      {
        class: "button small-text when-days",
        type: "button",
        "aria-haspopup": "dialog",
        title: t("days_in_zone", { zone: zoneLabel(board.view().zone) }),
        dataset: { key: "when" },
        onclick: () => rangeDialog(board),
      },
      h("span", null, dayRange(from, to)),
      against?.map((one) => h("span", { class: "no-print" }, one)),
    ),
  );
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
 * Opens the dialog of ranges.
 *
 * @param {Board} board
 */
function rangeDialog(board) {
  return openWhenLoaded(import("./range_dialog.js"), ({ openRanges }) => openRanges(board));
}
