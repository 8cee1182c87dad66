// The dialog of ranges: all periods with fields for custom days, and what the range is compared with, with fields for other
// days.

import { openDialog } from "./dialog.js";
import { fill, h } from "./dom.js";
import { capital } from "./filter_words.js";
import { dayRange } from "./formats.js";
import { texts } from "./messages.js";
import { zoneLabel } from "./time_zones.js";
import { PERIODS, daysLater, withComparison, withDays, withPeriod } from "./view_state.js";

const t = await texts("dialogs");

/**
 * Opens the dialog with all periods, fields for the first and the last day, and the comparisons.
 *
 * @param {Board} board
 */
export function openRanges(board) {
  const view = board.view();
  const periods = [
    ...PERIODS.map(({ name, long }) => ({
      words: capital(long),
      isChosen: view.period === name,
      to: withPeriod(view, name),
    })),
    ...monthsBefore(board.span().today).map(({ words, from, to }) => ({
      words,
      isChosen: false,
      to: withDays(view, from, to),
    })),
  ];
  const buttons = periods.map(({ words, isChosen, to }) => choice(words, isChosen, () => leave(() => board.go(to))));
  const leave = (/** @type {() => void} */ act) => {
    dialog.close();
    act();
  };
  // Before all events there is nothing to compare with.
  const isCompared = board.compares && view.period !== "all";
  const dialog = daysDialog(board, {
    title: t("choose_range"),
    above: h("div", { class: "row period-choices", role: "group", "aria-label": t("periods") }, buttons),
    days: board.span(),
    action: t("show_these_days"),
    take: ({ from, to }) => board.go(withDays(board.view(), from, to)),
    below: isCompared ? comparisons(board, leave) : null,
  });
}

/**
 * Returns the choice of what the range is compared with. `leave` closes the dialog, and then does what was chosen.
 *
 * @param {Board} board
 * @param {(act: () => void) => void} leave
 */
function comparisons(board, leave) {
  const view = board.view();
  const { before } = board.span();
  /** @type {[words: string, compare: string, matchWeekday?: boolean][]} */
  const named = [
    [t("no_comparison"), "off"],
    [t("previous_period"), "previous"],
    [t("previous_period_weekdays"), "previous", true],
    [t("year_before"), "year"],
    [t("year_before_weekdays"), "year", true],
  ];
  const isCustom = view.compare === "custom";
  const buttons = named.map(([words, compare, matchWeekday = false]) =>
    choice(words, view.compare === compare && view.matchWeekday === matchWeekday, () =>
      leave(() => board.go(withComparison(view, compare, { matchWeekday }))),
    ),
  );
  const words = isCustom && before ? dayRange(before.from, before.to) : t("choose_custom_range");
  const custom = choice(words, isCustom, () => leave(() => openComparison(board)));
  return h(
    "section",
    { class: "comparisons" },
    h("h3", { id: "compare-with" }, t("compare_with")),
    h("div", { class: "row period-choices", role: "group", "aria-labelledby": "compare-with" }, buttons, custom),
  );
}

/**
 * @param {string} words
 * @param {boolean} isChosen
 * @param {() => void} choose
 */
function choice(words, isChosen, choose) {
  const props = { class: "button small", type: "button", "aria-pressed": String(isChosen), onclick: choose };
  return h("button", props, words);
}

/**
 * Opens the dialog for the range that is compared with.
 *
 * @param {Board} board
 */
function openComparison(board) {
  const span = board.span();
  daysDialog(board, {
    title: t("compare_with"),
    days: span.before || span,
    action: t("compare"),
    take: (days) => board.go(withComparison(board.view(), "custom", { days })),
  });
}

/**
 * Opens a dialog for a first and a last day.
 *
 * @param {Board} board
 * @param {{ title: string, days: Days, action: string, take: (days: Days) => void, above?: Child, below?: Child }} options
 */
function daysDialog(board, { title, days, action, take, above = null, below = null }) {
  const { today } = board.span();
  const day = (/** @type {string} */ id, /** @type {string} */ value) =>
    h("input", { type: "date", id, value, max: today, min: "1970-01-02", required: true });
  const [first, last] = [day("days-from", days.from), day("days-to", days.to)];
  const error = h("p", { class: "field-error", role: "alert", hidden: true });
  const form = h(
    "form",
    null,
    h(
      "div",
      { class: "days-fields" },
      h("div", { class: "field" }, h("label", { for: "days-from" }, t("first_day")), first),
      h("div", { class: "field" }, h("label", { for: "days-to" }, t("last_day")), last),
      h("button", { class: "button primary", type: "submit" }, action),
    ),
    h(
      "p",
      { class: "soft small-text" },
      t("days_in_zone_sentence", { zone: zoneLabel(board.view().zone) }),
      " ",
      board.site.website
        ? h(
            "a",
            { class: "for-admins", href: `/websites/${board.website.id}/settings`, onclick: () => dialog.close() },
            t("change_in_settings"),
          )
        : null,
    ),
    error,
  );
  const dialog = openDialog({ title, body: [above, form, below] });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (first.value > last.value) {
      error.hidden = false;
      return fill(error, t("days_reversed"));
    }
    dialog.close();
    return take({ from: first.value, to: last.value });
  });
  if (!above) first.focus();
  return dialog;
}

/**
 * Returns frequent ranges that are no period: last month and last year.
 *
 * @param {string} today
 */
function monthsBefore(today) {
  const last = daysLater(`${today.slice(0, 8)}01`, -1);
  const year = Number(today.slice(0, 4)) - 1;
  return [
    { words: t("last_month"), from: `${last.slice(0, 8)}01`, to: last },
    { words: t("last_year"), from: `${year}-01-01`, to: `${year}-12-31` },
  ];
}
