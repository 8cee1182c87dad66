// The list of event names with their counts: a press chooses the one that the page shows.

import { questionOf } from "../shared/asking.js";
import { failureNotice } from "../shared/dialog.js";
import { h, refill, unseen } from "../shared/dom.js";
import { get } from "../shared/fetching.js";
import { counted, number } from "../shared/formats.js";
import { hint } from "../shared/hint.js";
import { barList, listDialog, numbersHead } from "../shared/list.js";

const SHOWN = 10;
// CONTRACT: limit is at most 1000.
export const MOST = 1000;

/** Asks for them, the most used by visitors first: an answer of shared/fetching.js with [{ value, visitors, events }]. */
export function askNames(board, signal) {
  return get(`${board.base}/event-names?${questionOf(board.view(), board.span(), { limit: MOST })}`, { signal });
}

/** The card. `rows`: what was answered; `chosen`: a name; `choose(name)` is called on a press. Gives nodes. */
export function namesList(rows, { chosen, choose }) {
  const first = rows.slice(0, SHOWN);
  const own = rows.find((row) => row.value === chosen);
  // The chosen one is never out of sight.
  const shown = own && !first.includes(own) ? [...first, own] : first;
  const drawn = shown.map((row) => barRow(row, rows, chosen));
  const list = barList(drawn, { choose: (row) => choose(row.value), unit: "visitors" });
  for (const [i, button] of [...list.querySelectorAll(".bar")].entries()) hint(button, () => rowHint(drawn[i]));
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
    more: h("span", { class: "bar-aside" }, number(row.events), unseen(" events, ")),
    bar: row.visitors / Math.max(1, rows[0].visitors),
    pressed: row.value === chosen,
  };
}

function rowHint(row) {
  return [
    h("strong", { class: "wrap" }, row.value),
    h("p", null, `${counted(row.events, "event")} of ${counted(row.visitors, "visitor")}`),
    row.pressed ? null : h("p", { class: "soft" }, "Press to see it closely"),
  ];
}

/** What stands below the list. */
export function namesFoot(board, rows, all) {
  const csv = `${board.base}/event-names?${questionOf(board.view(), board.span(), { limit: MOST, format: "csv" })}`;
  const words = rows.length === MOST ? "The first thousand" : `All ${number(rows.length)} events`;
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
      const answer = await askNames(board);
      return answer.ok
        ? { rows: answer.data, note: answer.data.length === MOST ? ": the first thousand" : "" }
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
