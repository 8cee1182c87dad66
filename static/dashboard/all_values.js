// The dialog with all values of a top list: their figures in a table, to search and to sort.

import { failureNotice } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { fieldTitle, isIn } from "../shared/fields.js";
import { duration, percent } from "../shared/formats.js";
import { listDialog, sortHead } from "../shared/list_dialog.js";
import { texts } from "../shared/messages.js";
import { loadRegions } from "../shared/regions.js";
import { COLUMNS, MAX_ROWS, VISIT_EDGES, isTop, listOf, listQuery, rowsOf } from "./top_lists.js";
import { requestCompared } from "./key_figures.js";

const t = await texts("dashboard");
const shared = await texts("shared");
const dialogs = await texts("dialogs");
// The figures of a value.
const METRICS = "visitors,pageviews,events,visits,bounce_rate,visit_duration";
// Those of pages, with what they mean: of the views that sent them when the page was left.
/** @type {[string, null, string, (value: any) => string, string][]} */
const OF_LEAVES = [
  ["time_on_page", null, dialogs("time_on_page"), duration, dialogs("time_on_page_means")],
  ["scroll_depth", null, dialogs("scroll_depth"), percent, dialogs("scroll_depth_means")],
];

/**
 * Opens the dialog with all values of the list that the view names.
 *
 * @param {import("./dashboard.js").DashboardBoard} board
 * @param {() => void} onclose
 */
export function allDialog(board, onclose) {
  const view = board.view();
  const list = listOf(view.all, board);
  const { field, path, title } = list;
  return listDialog({
    sorted: view.sort,
    onsort: (sort) => void board.go({ ...board.view(), sort }, { replace: true }),
    onclose,
    title: VISIT_EDGES[list.name] ? fieldTitle(field) : title,
    load: async () => {
      const fetchRows = (/** @type {Record<string, any>} */ more) =>
        requestCompared(board, (compared) =>
          get(`${board.base}/${path}?${listQuery(board, list, { limit: MAX_ROWS, ...more, compared })}`),
        );
      const more = field === "pathname" ? ",time_on_page,scroll_depth,samples" : "";
      let answer = await fetchRows(isTop(list) ? { metrics: METRICS + more } : {});
      // Figures about visits need events that are still kept.
      if (!answer.ok && isTop(list)) answer = await fetchRows({});
      if (!answer.ok) return { error: answer.error };
      if (field === "region") await loadRegions();
      // Shares are relative to the key figures.
      await board.figuresLoaded();
      const rows = rowsOf(list, answer.data, answer.meta, board);
      return { rows, note: answer.data.length === MAX_ROWS ? ` ${shared("first_rows", { count: MAX_ROWS })}` : "" };
    },
    matches: (row, text) => isIn(text, field, row.value) || (row.title || "").toLowerCase().includes(text),
    full: true,
    sorts: { value: (row) => row.text, share: (row) => row.share, change: (row) => row.change, ...figuresOf(list) },
    draw: (rows, sort) => allTable(list, rows, sort, (row) => board.choose(field, row.value)),
    failed: (error, again) => failureNotice(t("list_failed", { list: title }), error, again),
  });
}

/**
 * Returns what each figure of a list is sorted by.
 *
 * @param {TopList} list
 * @returns {Record<string, (row: BarRow) => number | null>}
 */
function figuresOf(list) {
  const valueOf = (/** @type {any} */ value) => (value === null || value === undefined ? null : Number(value));
  return Object.fromEntries(columnsOf(list).map(([name]) => [name, (row) => valueOf(row[name])]));
}

/**
 * Returns the columns of a list.
 *
 * @param {TopList} list
 * @returns {any[][]}
 */
function columnsOf({ counts, field }) {
  return [...COLUMNS[counts](field), ...(field === "pathname" ? OF_LEAVES : [])];
}

/**
 * @param {TopList} list
 * @param {BarRow[]} rows
 * @param {Sort} sort
 * @param {(row: BarRow) => void} choose
 */
function allTable(list, rows, sort, choose) {
  const { title } = list;
  const isShown = (/** @type {string} */ what) =>
    OF_LEAVES.some(([name]) => name === what) ? rows.some((row) => row.samples) : rows[0][what] !== undefined;
  const shown = columnsOf(list).filter(([what]) => isShown(what));
  const hasChange = rows.some(({ change }) => typeof change === "number");
  const hasShare = rows.some(({ share }) => share !== null);
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
        row.link || null,
      ),
      shown.map(([what, , , format, means]) =>
        h(
          "td",
          { class: "num", title: means && row.samples ? shared("count_pageviews", { count: row.samples }) : null },
          means && !row.samples ? "–" : format(row[what]),
        ),
      ),
      hasShare ? h("td", { class: "num soft" }, row.share === null ? "" : percent(100 * row.share)) : null,
      hasChange ? h("td", { class: "num" }, row.changed || null) : null,
    ),
  );
  /** @type {[string, string, string?][]} */
  const heads = [
    ["value", title],
    ...shown.map(([what, , words, , means]) => /** @type {[string, string, string?]} */ ([what, words, means])),
    .../** @type {[string, string][]} */ (hasShare ? [["share", shared("share")]] : []),
    .../** @type {[string, string][]} */ (hasChange ? [["change", t("change")]] : []),
  ];
  return h("table", { class: "table all-table" }, sortHead(heads, sort), h("tbody", null, body));
}
