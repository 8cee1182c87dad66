// The dialogs of ranges: all periods with fields for custom days, and the days to compare with.

import { openDialog } from "./dialog.js";
import { fill, h } from "./dom.js";
import { capital } from "./filter_words.js";
import { texts } from "./messages.js";
import { zoneLabel } from "./time_zones.js";
import { PERIODS, daysLater, withComparison, withDays, withPeriod } from "./view_state.js";

const t = await texts("dialogs");

/**
 * Opens the dialog with all periods, and fields for the first and the last day.
 *
 * @param {Board} board
 */
export function openDays(board) {
  const view = board.view();
  const choices = [
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
  const buttons = choices.map(({ words, isChosen, to }) => {
    const choose = () => {
      dialog.close();
      board.go(to);
    };
    return h(
      "button",
      { class: "button small", type: "button", "aria-pressed": String(isChosen), onclick: choose },
      words,
    );
  });
  const dialog = rangeDialog(board, {
    title: t("choose_range"),
    above: h("div", { class: "row period-choices", role: "group", "aria-label": t("periods") }, buttons),
    days: board.span(),
    action: t("show_these_days"),
    take: ({ from, to }) => board.go(withDays(board.view(), from, to)),
  });
}

/**
 * Opens the dialog for the range that is compared with.
 *
 * @param {Board} board
 */
export function openComparison(board) {
  const span = board.span();
  rangeDialog(board, {
    title: t("compare_with"),
    above: null,
    days: span.before || span,
    action: t("compare"),
    take: (days) => board.go(withComparison(board.view(), "custom", { days })),
  });
}

/**
 * Opens a dialog for a first and a last day.
 *
 * @param {Board} board
 * @param {{ title: string, above: Child, days: Days, action: string, take: (days: Days) => void }} options
 */
function rangeDialog(board, { title, above, days, action, take }) {
  const { today } = board.span();
  const day = (/** @type {string} */ id, /** @type {string} */ value) =>
    h("input", { type: "date", id, value, max: today, min: "1970-01-02", required: true });
  const [first, last] = [day("days-from", days.from), day("days-to", days.to)];
  const error = h("p", { class: "field-error", role: "alert", hidden: true });
  const form = h(
    "form",
    { id: "days-form" },
    h(
      "div",
      { class: "days-fields" },
      h("div", { class: "field" }, h("label", { for: "days-from" }, t("first_day")), first),
      h("div", { class: "field" }, h("label", { for: "days-to" }, t("last_day")), last),
    ),
    h(
      "p",
      { class: "soft small-text" },
      t("days_in_zone_sentence", { zone: zoneLabel(board.view().zone) }),
      " ",
      board.site.website
        ? h(
            "a",
            { href: `/websites/${board.website.id}#settings`, onclick: () => dialog.close() },
            t("change_in_settings"),
          )
        : null,
    ),
    error,
  );
  const dialog = openDialog({
    title,
    body: [above, form],
    actions: h("button", { class: "button primary", type: "submit", form: "days-form" }, action),
  });
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
