// The data of an event: a card for each property of its event_data, with the most frequent values and a summary of its
// numbers. All values of a property are in a dialog.

import { reportQuery } from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { number, percent, percentOf } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { addTooltip } from "../shared/tooltip.js";
import { UNITS, asideFigure, barList } from "../shared/bar_list.js";
import { listDialog } from "../shared/list_dialog.js";
import { withoutNames } from "./selected_event.js";
import { MAX_ROWS, countsTable, eventsOfVisitors } from "./event_names.js";
import { coverWords, numberWords, scalarText } from "./scalars.js";

const t = await texts("events");
const shared = await texts("shared");
const SHOWN = 8;
// Numbers have a summary; single values matter less.
const SHOWN_NUMBERS = 5;

/**
 * Returns the path of the report on an event's data; the page's filters by event name are dropped.
 *
 * @param {Board} board
 * @param {string} name
 * @param {Record<string, any>} [more]
 */
export function dataPath(board, name, more) {
  return `${board.base}/event-data?${reportQuery(withoutNames(board.view()), board.span(), { event_name: name, ...more })}`;
}

/**
 * Returns the cards of the properties. `meta`: the answer's, with events, visitors, properties.
 *
 * @param {Board} board
 * @param {string} name
 * @param {EventProperty[]} data
 * @param {any} meta
 */
export function propertyCards(board, name, data, meta) {
  return data.map((property, i) => card(board, name, property, { ...meta, id: `property-${i}` }));
}

/**
 * @param {Board} board
 * @param {string} name
 * @param {EventProperty} property
 * @param {any} meta
 */
function card(board, name, property, meta) {
  const { id } = meta;
  const most = property.numbers ? SHOWN_NUMBERS : SHOWN;
  const rows = property.values.slice(0, most).map((row) => barRow(row, property));
  const list = barList(rows, { choose: null, unit: UNITS.events });
  for (const [i, bar] of [...list.querySelectorAll(".bar")].entries()) {
    addTooltip(bar, () => rowHint(rows[i], property));
  }
  return h(
    "section",
    { class: "card list-card property", "aria-labelledby": id, dataset: { property: property.property } },
    h(
      "div",
      { class: "card-head" },
      h(
        "div",
        { class: "property-name" },
        h("h3", { id, class: "card-title" }, h("bdi", null, property.property)),
        h("p", { class: "soft small-text" }, coverWords(property, meta.events)),
      ),
      h(
        "span",
        { class: "soft small-text columns" },
        h("span", null, shared("figure_visitors")),
        h("span", null, shared("figure_events")),
      ),
    ),
    property.numbers ? numbersSummary(property) : null,
    h("div", { class: "card-body" }, list),
    foot(board, name, property, most),
  );
}

/**
 * @param {any} row
 * @param {EventProperty} property
 */
function barRow(row, property) {
  const text = scalarText(row.value);
  return {
    ...row,
    key: `${property.property}=${JSON.stringify(row.value)}`,
    label: text,
    text,
    count: row.events,
    share: null,
    more: [
      h("span", { class: "bar-share" }, percentOf(row.events, property.events)),
      asideFigure(row.visitors, UNITS.visitors),
    ],
    bar: row.events / Math.max(1, property.values[0].events),
  };
}

/**
 * @param {any} row
 * @param {EventProperty} property
 */
function rowHint(row, property) {
  return [
    h("strong", { class: "wrap" }, row.text),
    h("p", null, eventsOfVisitors(row)),
    h(
      "p",
      { class: "soft" },
      t("share_with_property", { share: percentOf(row.events, property.events), count: property.events }),
    ),
  ];
}

/**
 * @param {{ numbers: any, events: number }} options
 */
function numbersSummary({ numbers: summary, events }) {
  return h(
    "div",
    { class: "numbers-place" },
    h(
      "dl",
      { class: "numbers" },
      numberWords(summary).map(([name, figure, means]) =>
        h("div", { title: means }, h("dt", { class: "soft small-text" }, name), h("dd", null, figure)),
      ),
    ),
    summary.samples === events
      ? null
      : h("p", { class: "soft small-text" }, t("of_numbers", { count: summary.samples })),
  );
}

/**
 * @param {Board} board
 * @param {string} name
 * @param {EventProperty} property
 * @param {number} most
 */
function foot(board, name, property, most) {
  const all = () => valuesDialog(board, name, property);
  const isMore = property.distinct > MAX_ROWS || !property.exact;
  const words = isMore ? t("first_values", { count: MAX_ROWS }) : t("all_values", { count: property.distinct });
  return h(
    "div",
    { class: "card-foot no-print" },
    property.distinct > most
      ? h(
          "button",
          { class: "button small", type: "button", onclick: all, dataset: { key: `all-${property.property}` } },
          words,
        )
      : null,
  );
}

/**
 * Opens the dialog with all values of a property and a search.
 *
 * @param {Board} board
 * @param {string} name
 * @param {{ property: string }} options
 */
export function valuesDialog(board, name, { property }) {
  return listDialog({
    title: property,
    load: async () => {
      const answer = await get(dataPath(board, name, { property, limit: MAX_ROWS }));
      if (!answer.ok) return { error: answer.error };
      const [found] = answer.data;
      const rows = (found?.values || []).map((/** @type {any} */ row) => ({
        ...row,
        text: scalarText(row.value),
        share: row.events / found.events,
      }));
      return { rows, note: rows.length === MAX_ROWS ? ` ${shared("first_rows", { count: MAX_ROWS })}` : "" };
    },
    matches: (row, text) => row.text.toLowerCase().includes(text),
    draw: (rows) =>
      countsTable(
        shared("value"),
        [shared("figure_events"), shared("figure_visitors"), shared("share")],
        rows,
        (row) => [h("bdi", null, row.text), [number(row.events), number(row.visitors), percent(100 * row.share)]],
      ),
    failed: (error, again) => failureNotice(t("values_failed"), error, again),
  });
}
