// Controls of the days that are shown: ranges, previous and next, custom days, time zone, buckets.

import { RANGES, daysLater, localTime, shiftRange, withDays, withRange } from "./view_state.js";
import { openDialog } from "./dialog.js";
import { fill, h, icon, refill } from "./dom.js";
import { dayRange, browserZone } from "./formats.js";
import { allZones, zoneLabel } from "./time_zones.js";

/**
 * Draws the range picker.
 *
 * @param {HTMLElement} root
 * @param {Board} board
 */
export function drawRange(root, board) {
  const view = board.view();
  const { to, today } = board.span();
  const named = RANGES.map((range, i) =>
    h(
      "button",
      {
        class: "segment",
        type: "button",
        "aria-pressed": String(view.range === range.name),
        "aria-label": `${range.short}: ${range.long}`,
        title: `${range.long.replace(/^./, (first) => first.toUpperCase())} (${i + 1})`,
        dataset: { key: `range-${range.name}` },
        onclick: () => board.go(withRange(view, range.name)),
      },
      range.short,
    ),
  );
  const custom = h(
    "button",
    {
      class: "segment",
      type: "button",
      "aria-pressed": String(view.range === "custom"),
      dataset: { key: "range-custom" },
      onclick: () => daysDialog(board),
    },
    "Custom",
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
    h("div", { class: "segments", role: "group", "aria-label": "Range" }, named, custom),
    h(
      "div",
      { class: "steps" },
      step(-1, "left", "Previous range", false),
      step(1, "right", "Next range", to >= today),
    ),
  );
}

/**
 * Draws the days that are shown and the time zone.
 *
 * @param {HTMLElement} root
 * @param {Board} board
 */
export function drawWhen(root, board) {
  const view = board.view();
  const span = board.span();
  const select = h(
    "select",
    { class: "quiet zone", "aria-label": "Time zone", value: view.zone, dataset: { key: "zone" } },
    zones(view.zone, board.zone),
  );
  select.addEventListener("change", () => board.go({ ...view, zone: select.value }));
  refill(
    root,
    h("span", { class: "when-days" }, dayRange(span.from, span.to)),
    h("span", { class: "soft when-in" }, "in"),
    select,
    h("span", { class: "print-only" }, view.zone),
  );
}

/**
 * Draws the choice between days and hours.
 *
 * @param {HTMLElement} root
 * @param {Board} board
 */
export function drawInterval(root, board) {
  const { interval, canHour } = board.span();
  const choice = (/** @type {"day" | "hour"} */ name, /** @type {string} */ words) =>
    h(
      "button",
      {
        class: "segment",
        type: "button",
        "aria-pressed": String(interval === name),
        disabled: name === "hour" && !canHour,
        title: name === "hour" && !canHour ? "Hours can be shown for up to 400 days" : null,
        dataset: { key: `interval-${name}` },
        onclick: () => board.go({ ...board.view(), interval: name }),
      },
      words,
    );
  refill(
    root,
    h(
      "div",
      { class: "segments small", role: "group", "aria-label": "Interval" },
      choice("day", "Days"),
      choice("hour", "Hours"),
    ),
  );
}

/**
 * @param {string} chosen
 * @param {string} accounts
 */
function zones(chosen, accounts) {
  const first = [...new Set([chosen, accounts, browserZone(), "UTC"])];
  const all = allZones().filter((zone) => !first.includes(zone));
  const option = (/** @type {string} */ zone) => h("option", { value: zone }, zoneLabel(zone));
  return [h("optgroup", { label: "Suggested" }, first.map(option)), h("optgroup", { label: "All" }, all.map(option))];
}

/**
 * Sets the range to the days of two times, chosen on a chart.
 *
 * @param {Board} board
 * @param {number} first
 * @param {number} last
 */
export function pickDays(board, first, last) {
  const [view, span] = [board.view(), board.span()];
  const [[from], [to]] = [first, last].map((moment) => localTime(moment, view.zone));
  if (from !== span.from || to !== span.to) board.go(withDays(view, from, to));
}

/**
 * Opens the dialog for the first and the last day.
 *
 * @param {Board} board
 */
export function daysDialog(board) {
  const span = board.span();
  const last = h("input", {
    type: "date",
    id: "days-to",
    value: span.to,
    max: span.today,
    min: "1970-01-02",
    required: true,
  });
  const first = h("input", {
    type: "date",
    id: "days-from",
    value: span.from,
    max: span.today,
    min: "1970-01-02",
    required: true,
  });
  const error = h("p", { class: "field-error", role: "alert", hidden: true });
  const form = h(
    "form",
    { id: "days-form" },
    h(
      "div",
      { class: "days-fields" },
      h("div", { class: "field" }, h("label", { for: "days-from" }, "First day"), first),
      h("div", { class: "field" }, h("label", { for: "days-to" }, "Last day"), last),
    ),
    h(
      "div",
      { class: "row" },
      presets(span.today).map(([words, from, to]) =>
        h(
          "button",
          { class: "button small", type: "button", onclick: () => ((first.value = from), (last.value = to)) },
          words,
        ),
      ),
    ),
    error,
  );
  const dialog = openDialog({
    title: "Choose days",
    body: form,
    actions: h("button", { class: "button primary", type: "submit", form: "days-form" }, "Show these days"),
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (first.value > last.value) {
      error.hidden = false;
      return fill(error, "The first day must not be after the last day.");
    }
    dialog.close();
    return board.go(withDays(board.view(), first.value, last.value));
  });
  first.focus();
}

/**
 * Returns frequent ranges without a shortcut: [words, from, to].
 *
 * @param {string} today
 */
function presets(today) {
  const month = today.slice(0, 8);
  const lastOfBefore = daysLater(`${month}01`, -1);
  const year = Number(today.slice(0, 4));
  return [
    ["Yesterday", daysLater(today, -1), daysLater(today, -1)],
    ["This month", `${month}01`, today],
    ["Last month", `${lastOfBefore.slice(0, 8)}01`, lastOfBefore],
    ["This year", `${year}-01-01`, today],
    ["Last year", `${year - 1}-01-01`, `${year - 1}-12-31`],
  ];
}
