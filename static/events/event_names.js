// The list of event names with their counts. A click selects the event that the page shows.

import { reportQuery } from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { h, refill } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { number } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { addTooltip } from "../shared/tooltip.js";
import { UNITS, asideFigure, barList } from "../shared/bar_list.js";
import { listDialog, numbersHead } from "../shared/list_dialog.js";

const t = await texts("events");
const shared = await texts("shared");
const SHOWN = 10;
// The read API's maximum of `limit`.
export const MAX_ROWS = 1000;

/**
 * Fetches the names, those with the most visitors first: an answer with [{ value, visitors, events }].
 *
 * @param {Board} board
 * @param {AbortSignal} [signal]
 */
export function fetchNames(board, signal) {
  return get(`${board.base}/event-names?${reportQuery(board.view(), board.span(), { limit: MAX_ROWS })}`, { signal });
}

/**
 * Returns the list. `rows`: the answer's; `chosen`: the selected name; `choose(name)` is called on a click.
 *
 * @param {TopRow[]} rows
 * @param {{ chosen: string, choose: (name: string) => void }} options
 */
export function namesList(rows, { chosen, choose }) {
  const first = rows.slice(0, SHOWN);
  const own = rows.find((row) => row.value === chosen);
  // The selected event is always in the list.
  const shown = own && !first.includes(own) ? [...first, own] : first;
  const drawn = shown.map((row) => barRow(row, rows, chosen));
  const list = barList(drawn, { choose: (row) => choose(row.value), unit: UNITS.visitors });
  for (const [i, button] of [...list.querySelectorAll(".bar")].entries()) addTooltip(button, () => rowHint(drawn[i]));
  return list;
}

/**
 * @param {TopRow} row
 * @param {TopRow[]} rows
 * @param {string} chosen
 */
function barRow(row, rows, chosen) {
  return {
    ...row,
    key: `event=${row.value}`,
    label: row.value,
    text: row.value,
    count: row.visitors,
    share: null,
    more: asideFigure(row.events ?? 0, UNITS.events),
    bar: row.visitors / Math.max(1, rows[0].visitors),
    pressed: row.value === chosen,
  };
}

/**
 * Returns "3 events of 2 visitors".
 *
 * @param {{ events: number, visitors: number }} row
 */
export function eventsOfVisitors({ events, visitors }) {
  return t("events_of_visitors", {
    events: shared("count_events", { count: events }),
    visitors: shared("count_visitors", { count: visitors }),
  });
}

/**
 * @param {any} row
 */
function rowHint(row) {
  return [
    h("strong", { class: "wrap" }, row.value),
    h("p", null, eventsOfVisitors(row)),
    row.pressed ? null : h("p", { class: "soft" }, t("click_to_show")),
  ];
}

/**
 * Returns the foot of the card.
 *
 * @param {Board} board
 * @param {TopRow[]} rows
 * @param {() => void} all
 */
export function namesFoot(board, rows, all) {
  const words =
    rows.length === MAX_ROWS ? t("first_events", { count: MAX_ROWS }) : t("all_events", { count: rows.length });
  return rows.length > SHOWN
    ? h("button", { class: "button small", type: "button", onclick: all, dataset: { key: "all-names" } }, words)
    : null;
}

/**
 * Opens the dialog with all names and a search.
 *
 * @param {Board} board
 * @param {(name: string) => void} choose
 */
export function namesDialog(board, choose) {
  const dialog = listDialog({
    title: shared("figure_events"),
    load: async () => {
      const answer = await fetchNames(board);
      return answer.ok
        ? {
            rows: answer.data,
            note: answer.data.length === MAX_ROWS ? ` ${shared("first_rows", { count: MAX_ROWS })}` : "",
          }
        : { error: answer.error };
    },
    matches: (row, text) => row.value.toLowerCase().includes(text),
    draw: (rows) =>
      countsTable(t("event"), [shared("figure_events"), shared("figure_visitors")], rows, (row) => [
        h(
          "button",
          { class: "link-button wrap", type: "button", onclick: () => (dialog.close(), choose(row.value)) },
          h("bdi", null, row.value),
        ),
        [number(row.events), number(row.visitors)],
      ]),
    failed: (error, again) => failureNotice(t("events_failed"), error, again),
  });
  return dialog;
}

/**
 * Returns the table of a dialog. `cells(row)` returns [first cell, [texts of the other columns]].
 *
 * @param {string} first
 * @param {string[]} columns
 * @param {any[]} rows
 * @param {(row: any) => [Child, string[]]} cells
 */
export function countsTable(first, columns, rows, cells) {
  const head = [first, ...columns];
  return h(
    "table",
    { class: "table all-table" },
    numbersHead(head),
    h(
      "tbody",
      null,
      rows.map((row) => {
        const [node, counts] = cells(row);
        return h(
          "tr",
          null,
          h("th", { scope: "row", class: "wrap" }, node),
          counts.map((text) => h("td", { class: "num" }, text)),
        );
      }),
    ),
  );
}

/**
 * Draws the list and the foot of the card; the focus is kept.
 *
 * @param {any} places
 * @param {Board} board
 * @param {TopRow[]} rows
 * @param {{ chosen: string, choose: (name: string) => void }} options
 */
export function drawNames(places, board, rows, { chosen, choose }) {
  refill(places.body, namesList(rows, { chosen, choose }));
  refill(
    places.foot,
    namesFoot(board, rows, () => namesDialog(board, choose)),
  );
}
