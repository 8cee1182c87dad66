// The cards with top lists: tabs for the lists of a card, ten rows that filter, and all rows in a dialog.

import { hasFilter, reportQuery } from "../shared/view_state.js";
import { failureNotice } from "../shared/dialog.js";
import { h, refill, visuallyHidden } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { fieldName, valueNode, valueText } from "../shared/fields.js";
import { plural, decimal, duration, number, percent } from "../shared/formats.js";
import { addTooltip } from "../shared/tooltip.js";
import { barList, listDialog, numbersHead } from "../shared/bar_list.js";
import { createPanel } from "../shared/panel.js";
import { listNamed } from "./list_cards.js";
import { drawSparks, sparkPlace } from "./sparklines.js";

const SHOWN = 10;
// The read API's maximum of `limit`.
const MAX_ROWS = 1000;
// The figures of a value: [name, text in a row's tooltip, table column, format in the table].
/** @type {Record<string, [string, ((value: any) => string) | null, string, (value: any) => string][]>} */
const COLUMNS = {
  visitors: [
    ["visitors", (/** @type {number} */ count) => plural(count, "visitor"), "Visitors", number],
    ["pageviews", (/** @type {number} */ count) => plural(count, "pageview"), "Pageviews", number],
    ["events", (/** @type {number} */ count) => plural(count, "event"), "Events", number],
  ],
  visits: [
    ["visits", null, "Visits", number],
    ["bounce_rate", (/** @type {number} */ share) => `bounce rate ${percent(share)}`, "Bounce rate", percent],
    [
      "views_per_visit",
      (/** @type {any} */ views) => `${decimal(views)} pageviews per visit`,
      "Pages per visit",
      decimal,
    ],
    [
      "visit_duration",
      (/** @type {number | null} */ seconds) => `visit duration ${duration(seconds)}`,
      "Visit duration",
      duration,
    ],
  ],
};
// What a row shows beside its figures.
/** @type {Record<string, (row: BarRow) => Partial<BarRow>>} */
const ASIDE = {
  pathname: () => ({ more: sparkPlace() }),
  event_name: (/** @type {BarRow} */ row) => ({
    more: h("span", { class: "bar-aside" }, number(row.events), visuallyHidden(" events, ")),
    share: null,
  }),
};
/** @type {Record<string, string>} */
const VISIT_EDGE_WORDS = { entry: "began here", exit: "ended here" };

/**
 * Returns a card of lists: { element, load(options), openAll(), end() }. `beside(rows)` returns what is drawn next to the
 * first list, or null.
 *
 * @param {{ name: string, title: string, fields: string[] }} card
 * @param {import("./dashboard.js").DashboardBoard} board
 * @param {any} [beside]
 */
export function listCard(card, board, beside = null) {
  const body = h("div", {
    class: "card-body",
    id: `card-${card.name}`,
    role: card.fields.length > 1 ? "tabpanel" : null,
  });
  const foot = h("div", { class: "card-foot no-print" });
  const head = h("div", { class: "card-head" });
  const element = h(
    "section",
    { class: `card list-card card-${card.name}`, "aria-label": card.title },
    head,
    body,
    foot,
  );
  let endSparks = () => {};
  const open = () => board.view().tabs[card.name] || card.fields[0];
  const shown = () => listNamed(open());
  const all = () => allDialog(shown(), board);

  const load = createPanel(body, {
    what: () => `${shown().title} cannot be shown.`,
    ask: async (signal) => {
      const list = shown();
      const limit = beside && list.name === card.fields[0] ? MAX_ROWS : SHOWN + 1;
      const answer = await get(`${board.base}/${list.path}?${reportQuery(board.view(), board.span(), { limit })}`, {
        signal,
      });
      // Shares are relative to the visitors or visits of the key figures.
      await board.figuresLoaded();
      return { ...answer, list };
    },
    draw: ({ data, meta, list }) => {
      const rows = rowsOf(list, data, meta.unset, board);
      const most = rows.slice(0, SHOWN).map((row) => ({ ...row, ...(ASIDE[list.name]?.(row) || null) }));
      const bars = most.length
        ? barList(most, { choose: (row) => board.toggle(list.field, row.value), unit: list.counts })
        : h("p", { class: "nothing soft" }, list.none);
      const aside = beside && list.name === card.fields[0] ? beside(data, rows) : null;
      refill(body, aside ? [aside, bars] : [bars, withoutPageview(list, meta.unset)]);
      body.classList.toggle("beside", Boolean(aside));
      endSparks();
      if (list.name === "pathname") endSparks = drawSparks(body, most, list.field, board);
      for (const [i, button] of [...body.querySelectorAll(".bar")].entries()) {
        addTooltip(button, () => rowHint(rows[i], list));
      }
      refill(foot, footOf(list, data.length > SHOWN, all, board));
    },
  });
  return {
    element,
    openAll: all,
    end: () => endSparks(),
    load(/** @type {LoadOptions} */ options = {}) {
      refill(
        head,
        card.fields.length > 1 ? tabs(card, open(), board) : h("h2", { class: "card-title" }, card.title),
        columns(shown()),
      );
      if (card.fields.length > 1) body.setAttribute("aria-labelledby", `tab-${card.name}-${open()}`);
      return load(options);
    },
  };
}

/**
 * @param {TopList} list
 */
function columns({ name, counts }) {
  const count = h("span", null, counts === "visits" ? "Visits" : "Visitors");
  return h(
    "span",
    { class: "soft small-text columns" },
    name === "event_name" ? h("span", null, "Events") : null,
    count,
  );
}

/**
 * @param {{ name: string, title: string, fields: string[] }} card
 * @param {string} open
 * @param {import("./dashboard.js").DashboardBoard} board
 */
function tabs(card, open, board) {
  const buttons = card.fields.map((/** @type {string} */ field) =>
    h(
      "button",
      {
        class: "tab",
        type: "button",
        role: "tab",
        id: `tab-${card.name}-${field}`,
        "aria-selected": String(field === open),
        "aria-controls": `card-${card.name}`,
        tabindex: field === open ? "0" : "-1",
        dataset: { key: `tab-${field}` },
        onclick: () => board.openTab(card.name, field),
      },
      listNamed(field).title,
    ),
  );
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": card.title }, buttons);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const to =
      buttons[
        (buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement)) + step + buttons.length) %
          buttons.length
      ];
    to.focus();
    to.click();
  });
  return list;
}

/**
 * Returns rows for shared/bar_list.js. The unset value comes last.
 *
 * @param {TopList} list
 * @param {TopRow[]} data
 * @param {any} unset
 * @param {import("./dashboard.js").DashboardBoard} board
 */
function rowsOf({ name, field, counts }, data, unset, board) {
  const total = board.total(counts);
  const most = Math.max(1, ...data.map((row) => row[counts]));
  const hasUnset = unset && unset.visitors && !data.some((row) => row.value === "");
  return (hasUnset ? [...data, { value: "", ...unset }] : data).map((row) => ({
    ...row,
    key: `${name}=${row.value}`,
    label: valueNode(field, row.value),
    text: valueText(field, row.value),
    count: row[counts],
    share: total ? row[counts] / total : null,
    bar: row.value === "" ? 0 : row[counts] / most,
    pressed: hasFilter(board.view(), field, row.value),
  }));
}

/**
 * Returns the number of visits without a pageview: they have no entry and exit page.
 *
 * @param {TopList} list
 * @param {any} unset
 */
function withoutPageview({ counts }, unset) {
  if (counts !== "visits" || !unset?.visits) return null;
  return h("p", { class: "soft small-text without-view" }, `And ${plural(unset.visits, "visit")} without pageviews`);
}

/**
 * @param {BarRow} row
 * @param {any} list
 */
function rowHint(row, list) {
  const [, ...others] = COLUMNS[list.counts];
  const first = VISIT_EDGE_WORDS[list.name]
    ? [`${plural(row.visits, "visit")} ${VISIT_EDGE_WORDS[list.name]}`]
    : [plural(row.visitors, "visitor")];
  const figures = others
    .filter((/** @type {any[]} */ [what]) => row[what] !== undefined)
    .map((/** @type {any[]} */ [what, say]) => say(row[what]));
  return [
    h("strong", { class: "wrap" }, row.text),
    h("p", null, [...first, ...figures].join(" · ")),
    row.share === null
      ? null
      : h("p", { class: "soft" }, `${percent(100 * row.share)} of all ${list.counts} in this range`),
    h("p", { class: "soft" }, pressWords(row, list)),
  ];
}

/**
 * @param {BarRow} row
 * @param {TopList} list
 */
function pressWords(row, { name, field }) {
  if (row.pressed) return "Click to remove this filter";
  if (VISIT_EDGE_WORDS[name]) return "Click to filter by this page, anywhere in a visit";
  return `Click to filter by this ${fieldName(field)}`;
}

/**
 * @param {TopList} list
 * @param {boolean} hasMore
 * @param {any} all
 * @param {import("./dashboard.js").DashboardBoard} board
 */
function footOf({ name, path, title, all: words }, hasMore, all, board) {
  const csv = `${board.base}/${path}?${reportQuery(board.view(), board.span(), { limit: MAX_ROWS, format: "csv" })}`;
  return [
    hasMore
      ? h("button", { class: "button small", type: "button", onclick: all, dataset: { key: "all" } }, `All ${words}`)
      : h("span"),
    h("a", { class: "csv", href: csv, download: `${name}.csv`, "aria-label": `CSV of ${title}` }, "CSV"),
  ];
}

/**
 * Opens the dialog with all values of a list.
 *
 * @param {any} list
 * @param {import("./dashboard.js").DashboardBoard} board
 */
export function allDialog(list, board) {
  const { field, path, title, all } = list;
  const dialog = listDialog({
    title: VISIT_EDGE_WORDS[list.name] ? all.replace(/^./, (/** @type {any} */ first) => first.toUpperCase()) : title,
    load: async () => {
      const answer = await get(`${board.base}/${path}?${reportQuery(board.view(), board.span(), { limit: MAX_ROWS })}`);
      if (!answer.ok) return { error: answer.error };
      const rows = rowsOf(list, answer.data, answer.meta.unset, board);
      return { rows, note: answer.data.length === MAX_ROWS ? " (first 1,000)" : "" };
    },
    matches: (row, text) => row.text.toLowerCase().includes(text) || row.value.toLowerCase().includes(text),
    draw: (rows) =>
      allTable(list, rows, (row) => {
        dialog.close();
        board.toggle(field, row.value);
      }),
    failed: (error, again) => failureNotice(`${title} cannot be shown.`, error, again),
  });
  return dialog;
}

/**
 * @param {TopList} list
 * @param {BarRow[]} rows
 * @param {(row: BarRow) => void} choose
 */
function allTable({ counts, title }, rows, choose) {
  const shown = COLUMNS[counts].filter((/** @type {any[]} */ [what]) => rows[0][what] !== undefined);
  const body = rows.map((row) =>
    h(
      "tr",
      null,
      h(
        "th",
        { scope: "row" },
        h(
          "button",
          { class: "link-button wrap", type: "button", onclick: () => choose(row) },
          h("bdi", null, row.label),
        ),
      ),
      shown.map((/** @type {any[]} */ [what, , , say]) => h("td", { class: "num" }, say(row[what]))),
      h("td", { class: "num soft" }, row.share === null ? "" : percent(100 * row.share, 1, 1)),
    ),
  );
  const head = [title, ...shown.map((/** @type {any[]} */ [, , words]) => words), "Share"];
  return h("table", { class: "table all-table" }, numbersHead(head), h("tbody", null, body));
}
