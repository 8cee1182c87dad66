// The list of event names with their counts: a press chooses the one that the page shows.

import { reportQuery } from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { h, refill, visuallyHidden } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { plural, number } from "../shared/formats.js";
import { addTooltip } from "../shared/tooltip.js";
import { barList, listDialog, numbersHead } from "../shared/bar_list.js";

const SHOWN = 10;
// CONTRACT: limit is at most 1000.
export const MAX_ROWS = 1000;

/** Asks for them, the most used by visitors first: an answer of shared/api.js with [{ value, visitors, events }]. */
export function fetchNames(board, signal) {
  return get(`${board.base}/event-names?${reportQuery(board.view(), board.span(), { limit: MAX_ROWS })}`, { signal });
}

/** The card. `rows`: what was answered; `chosen`: a name; `choose(name)` is called on a press. Gives nodes. */
export function namesList(rows, { chosen, choose }) {
  const first = rows.slice(0, SHOWN);
  const own = rows.find((row) => row.value === chosen);
  // The chosen one is never out of sight.
  const shown = own && !first.includes(own) ? [...first, own] : first;
  const drawn = shown.map((row) => barRow(row, rows, chosen));
  const list = barList(drawn, { choose: (row) => choose(row.value), unit: "visitors" });
  for (const [i, button] of [...list.querySelectorAll(".bar")].entries()) addTooltip(button, () => rowHint(drawn[i]));
  return list;
}

function barRow(row, rows, chosen) {
  return {
    ...row,
    key: `event=${row.value}`,
    label: row.value,
    text: row.value,
    count: row.visitors,
    share: null,
    more: h("span", { class: "bar-aside" }, number(row.events), visuallyHidden(" events, ")),
    bar: row.visitors / Math.max(1, rows[0].visitors),
    pressed: row.value === chosen,
  };
}

function rowHint(row) {
  return [
    h("strong", { class: "wrap" }, row.value),
    h("p", null, `${plural(row.events, "event")} of ${plural(row.visitors, "visitor")}`),
    row.pressed ? null : h("p", { class: "soft" }, "Press to see it closely"),
  ];
}

/** What stands below the list. */
export function namesFoot(board, rows, all) {
  const csv = `${board.base}/event-names?${reportQuery(board.view(), board.span(), { limit: MAX_ROWS, format: "csv" })}`;
  const words = rows.length === MAX_ROWS ? "The first thousand" : `All ${number(rows.length)} events`;
  return [
    rows.length > SHOWN
      ? h("button", { class: "button small", type: "button", onclick: all, dataset: { key: "all-names" } }, words)
      : h("span"),
    h("a", { class: "csv", href: csv, download: "event-names.csv", "aria-label": "CSV of event names" }, "CSV"),
  ];
}

/** All names in a dialog with a search. */
export function namesDialog(board, choose) {
  const dialog = listDialog({
    title: "Events",
    load: async () => {
      const answer = await fetchNames(board);
      return answer.ok
        ? { rows: answer.data, note: answer.data.length === MAX_ROWS ? ": the first thousand" : "" }
        : { error: answer.error };
    },
    matches: (row, text) => row.value.toLowerCase().includes(text),
    draw: (rows) =>
      countsTable("Event", ["Events", "Visitors"], rows, (row) => [
        h(
          "button",
          { class: "link-button wrap", type: "button", onclick: () => (dialog.close(), choose(row.value)) },
          h("bdi", null, row.value),
        ),
        [number(row.events), number(row.visitors)],
      ]),
    failed: (error, again) => failureNotice("The events cannot be shown.", error, again),
  });
  return dialog;
}

/** A table of a dialog: `cells(row)` gives [what stands first, [texts of the columns]]. */
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

/** Draws the card's parts into their places, focus kept. */
export function drawNames(places, board, rows, { chosen, choose }) {
  refill(places.body, namesList(rows, { chosen, choose }));
  refill(
    places.foot,
    namesFoot(board, rows, () => namesDialog(board, choose)),
  );
}
