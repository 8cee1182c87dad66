// The dialog with all values of a top list: their figures in a table, to search and to sort.

import { failureNotice } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { fieldTitle, isIn } from "../shared/fields.js";
import { percent } from "../shared/formats.js";
import { listDialog, sortHead } from "../shared/list_dialog.js";
import { texts } from "../shared/messages.js";
import { loadRegions } from "../shared/regions.js";
import { COLUMNS, MAX_ROWS, VISIT_EDGES, listOf, listQuery, rowsOf } from "./top_lists.js";
import { requestCompared } from "./key_figures.js";

const t = await texts("dashboard");
const shared = await texts("shared");
// The figures of a value.
const METRICS = "visitors,pageviews,events,visits,bounce_rate,visit_duration";

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
      const isTop = path.startsWith("top/");
      let answer = await fetchRows(isTop ? { metrics: METRICS } : {});
      // Figures about visits need events that are still kept.
      if (!answer.ok && isTop) answer = await fetchRows({});
      if (!answer.ok) return { error: answer.error };
      if (field === "region") await loadRegions();
      // Shares are relative to the key figures.
      await board.figuresLoaded();
      const rows = rowsOf(list, answer.data, answer.meta, board);
      return { rows, note: answer.data.length === MAX_ROWS ? ` ${shared("first_rows", { count: MAX_ROWS })}` : "" };
    },
    matches: (row, text) => isIn(text, field, row.value),
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
function figuresOf({ counts, field }) {
  const valueOf = (/** @type {any} */ value) => (value === null || value === undefined ? null : Number(value));
  return Object.fromEntries(COLUMNS[counts](field).map(([name]) => [name, (row) => valueOf(row[name])]));
}

/**
 * @param {TopList} list
 * @param {BarRow[]} rows
 * @param {Sort} sort
 * @param {(row: BarRow) => void} choose
 */
function allTable({ field, counts, title }, rows, sort, choose) {
  const shown = COLUMNS[counts](field).filter((/** @type {any[]} */ [what]) => rows[0][what] !== undefined);
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
      shown.map((/** @type {any[]} */ [what, , , format]) => h("td", { class: "num" }, format(row[what]))),
      hasShare ? h("td", { class: "num soft" }, row.share === null ? "" : percent(100 * row.share)) : null,
      hasChange ? h("td", { class: "num" }, row.changed || null) : null,
    ),
  );
  /** @type {[string, string][]} */
  const heads = [
    ["value", title],
    ...shown.map(([what, , words]) => /** @type {[string, string]} */ ([what, words])),
    .../** @type {[string, string][]} */ (hasShare ? [["share", shared("share")]] : []),
    .../** @type {[string, string][]} */ (hasChange ? [["change", t("change")]] : []),
  ];
  return h("table", { class: "table all-table" }, sortHead(heads, sort), h("tbody", null, body));
}
