// The dialog with all values of a list: a search, and pages of fifty; and tables that sort.

import { openDialog } from "./dialog.js";
import { fill, h, icon, loadStylesheet, refill } from "./dom.js";
import { texts } from "./messages.js";
import { searchInput } from "./search_input.js";

const t = await texts("dialogs");
const shared = await texts("shared");
const PAGE_ROWS = 50;

/**
 * Opens a dialog with all values. `load()` resolves to { rows, note } or { error }; `draw(rows, sort)` returns the
 * elements of one page; `sorts` are the values to sort by, by column: { name: (row) => number, text or null }; `matches(row, text)` returns whether a search finds a row; `failed(error, retry)` returns the failure notice.
 * `sorted`: the column to sort by at first, after "-" in descending order; `onsort` is called with another one.
 *
 * @param {ListDialogOptions} options
 */
export function listDialog(options) {
  const { title, load, draw, matches, failed, actions, onsort, onclose, sorts = {}, sorted: first = "" } = options;
  const { full = false } = options;
  void loadStylesheet("/assets/shared/list_dialog.css");
  /** @type {{ rows: any[], page: number, text: string, note: string }} */
  const found = { rows: [], page: 0, text: "", note: "" };
  const search = searchInput(t("search_in", { list: title }), t("search"));
  const list = h("div", { class: "list-page", "aria-busy": "true" }, h("p", { class: "soft" }, t("loading")));
  const count = h("span", { class: "soft", role: "status" });
  const back = pager("left", t("previous_page"), -1);
  const on = pager("right", t("next_page"), 1);
  const pagerRow = h("div", { class: "row apart list-pager" }, count, h("div", { class: "row" }, back, on));
  const dialog = openDialog({
    title,
    wide: !full,
    full,
    onclose,
    body: [search.element, list, pagerRow],
    actions,
  });

  /**
   * @param {string} sign
   * @param {string} label
   * @param {number} by
   */
  function pager(sign, label, by) {
    const button = h(
      "button",
      { class: "button small square", type: "button", "aria-label": label, disabled: true },
      icon(sign),
    );
    button.addEventListener("click", () => show(found.page + by));
    return button;
  }

  /** @type {Sort} */
  const sort = {
    by: "",
    isDown: true,
    choose(by) {
      // Numbers begin with the largest, texts with the first.
      const isText = typeof sorts[by](found.rows[0]) === "string";
      Object.assign(sort, sort.by === by ? { isDown: !sort.isDown } : { by, isDown: !isText });
      arrange();
      show(0);
      onsort?.((sort.isDown ? "-" : "") + sort.by);
    },
  };

  function arrange() {
    if (sort.by) found.rows = sorted(found.rows, sorts[sort.by], sort.isDown);
  }

  /**
   * @param {number} page
   */
  function show(page) {
    const hits = found.text ? found.rows.filter((row) => matches(row, found.text)) : found.rows;
    const last = Math.max(0, Math.ceil(hits.length / PAGE_ROWS) - 1);
    found.page = Math.min(Math.max(page, 0), last);
    const from = found.page * PAGE_ROWS;
    const shown = hits.slice(from, from + PAGE_ROWS);
    refill(
      list,
      shown.length
        ? draw(shown, sort)
        : h("p", { class: "soft" }, found.rows.length ? shared("no_matches") : t("no_data_in_range")),
    );
    list.scrollTop = 0;
    count.textContent = hits.length
      ? t("rows_shown", { from: from + 1, to: from + shown.length, all: hits.length }) + found.note
      : "";
    back.disabled = !found.page;
    on.disabled = found.page === last;
  }

  search.input.addEventListener("input", () => {
    found.text = search.input.value.trim().toLowerCase();
    show(0);
  });
  async function read() {
    const answer = await load();
    list.removeAttribute("aria-busy");
    if (answer.error) return answer.error.code === "aborted" ? null : fill(list, failed(answer.error, read));
    Object.assign(found, { rows: answer.rows, note: answer.note || "" });
    const by = first.replace(/^-/, "");
    if (Object.hasOwn(sorts, by)) Object.assign(sort, { by, isDown: first !== by });
    arrange();
    return show(0);
  }
  read();
  search.input.focus();
  return dialog;
}

/**
 * Returns rows in the order of a value; rows without one come last.
 *
 * @template T
 * @param {T[]} rows
 * @param {(row: T) => number | string | null} valueOf
 * @param {boolean} isDown
 */
export function sorted(rows, valueOf, isDown) {
  const sign = isDown ? -1 : 1;
  return [...rows].sort((one, other) => {
    const [a, b] = [valueOf(one), valueOf(other)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return sign * (typeof a === "string" ? a.localeCompare(String(b)) : a - Number(b));
  });
}

/**
 * Returns the head of a table whose columns sort it.
 *
 * @param {[name: string, label: string, means?: string][]} columns
 * @param {Sort} sort
 */
export function sortHead(columns, { by, isDown, choose }) {
  const cells = columns.map(([name, label, means], i) => {
    const order = isDown ? "descending" : "ascending";
    const sign = name === by ? h("span", { "aria-hidden": "true" }, isDown ? " ↓" : " ↑") : null;
    const props = { class: "sort", type: "button", dataset: { key: `sort-${name}` }, onclick: () => choose(name) };
    return h(
      "th",
      { scope: "col", class: i ? "num" : null, "aria-sort": name === by ? order : null },
      h("button", { ...props, title: means }, label, sign),
    );
  });
  return h("thead", null, h("tr", null, cells));
}

/**
 * Returns the head of a table: the name of the first column, then those of the columns with numbers.
 *
 * @param {string[]} names
 */
export function numbersHead(names) {
  const cells = names.map((name, i) => h("th", { scope: "col", class: i ? "num" : null }, name));
  return h("thead", null, h("tr", null, cells));
}
