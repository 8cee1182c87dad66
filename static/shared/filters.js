// The filters of the view as chips, and the dialog that adds one.

import { hasFilter, reportQuery } from "./view_state.js";
import { failureNotice, openDialog } from "./dialog.js";
import { fill, h, icon, refill } from "./dom.js";
import { get } from "./api.js";
import { FILTERS, TYPES, fieldName, valueNode, valueText } from "./fields.js";
import { barList } from "./bar_list.js";

const SUGGESTED = 8;

/**
 * Draws the chips; several values of one field are joined with "or".
 *
 * @param {HTMLElement} root
 * @param {Board} board
 */
export function drawFilters(root, board) {
  const { filters } = board.view();
  const fields = [...new Set(filters.map(([field]) => field))];
  const chips = fields.map((field) =>
    filters
      .filter(([name]) => name === field)
      .map(([, value], i) => [i ? h("span", { class: "soft" }, "or") : null, chip(field, value, board)]),
  );
  const add = h(
    "button",
    {
      class: "button small add-filter no-print",
      type: "button",
      dataset: { key: "add-filter" },
      onclick: () => filterDialog(board),
    },
    icon("plus"),
    "Filter",
  );
  const clear =
    filters.length > 1
      ? h(
          "button",
          {
            class: "button small quiet no-print",
            type: "button",
            onclick: () => board.go({ ...board.view(), filters: [] }),
          },
          "Remove all",
        )
      : null;
  refill(root, chips, add, clear);
}

/**
 * @param {string} field
 * @param {string} value
 * @param {Board} board
 */
function chip(field, value, board) {
  const name = fieldName(field);
  const text = valueText(field, value);
  const remove = h(
    "button",
    {
      class: "chip-remove no-print",
      type: "button",
      "aria-label": `Remove filter ${name}: ${text}`,
      dataset: { key: `filter-${field}=${value}` },
      onclick: () => board.toggle(field, value),
    },
    icon("close"),
  );
  remove.addEventListener("keydown", (event) => {
    if (event.key !== "Delete" && event.key !== "Backspace") return;
    event.preventDefault();
    board.toggle(field, value);
  });
  return h(
    "span",
    { class: "chip", title: `${name}: ${text}` },
    h(
      "span",
      { class: "chip-text" },
      h("span", { class: "soft" }, `${name.charAt(0).toUpperCase()}${name.slice(1)} `),
      h("bdi", null, value === "" ? text : valueNode(field, value)),
    ),
    remove,
  );
}

/**
 * Opens the dialog for a field and a value, with the most frequent values of the range to choose from.
 *
 * @param {Board} board
 */
export function filterDialog(board) {
  const fields = board.fields || FILTERS;
  const field = h(
    "select",
    { id: "filter-field", value: fields[0] },
    fields.map((name) =>
      h(
        "option",
        { value: name },
        fieldName(name).replace(/^./, (/** @type {any} */ first) => first.toUpperCase()),
      ),
    ),
  );
  const text = h("input", { id: "filter-value", autocomplete: "off", spellcheck: "false", type: "text" });
  const found = h("div", { class: "suggestions", "aria-live": "polite" });
  const form = h(
    "form",
    null,
    h("div", { class: "field" }, h("label", { for: "filter-field" }, "Field"), field),
    h("div", { class: "field" }, h("label", { for: "filter-value" }, "Exact value"), text),
    found,
  );
  const submit = h("button", { class: "button primary", type: "submit", form: "filter-form" }, "Add filter");
  form.id = "filter-form";
  const dialog = openDialog({ title: "Add a filter", body: form, actions: submit });
  /** @type {BarRow[]} */
  let values = [];

  const take = (/** @type {string} */ value) => {
    dialog.close();
    if (!hasFilter(board.view(), field.value, value)) board.toggle(field.value, value);
  };
  const show = () => {
    const typed = text.value.trim().toLowerCase();
    const hits = values.filter(
      (row) => !typed || row.text.toLowerCase().includes(typed) || row.value.toLowerCase().includes(typed),
    );
    fill(
      found,
      hits.length ? barList(hits.slice(0, SUGGESTED), { choose: (row) => take(row.value), unit: "visitors" }) : null,
    );
  };
  const read = async () => {
    values = [];
    fill(found);
    const asked = field.value;
    const answer = await suggestions(asked, board);
    if (asked !== field.value) return;
    if (answer.error) return fill(found, failureNotice("The values cannot be listed.", answer.error, read));
    values = answer.rows;
    show();
  };
  field.addEventListener("change", read);
  text.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = text.value.trim();
    // A name (Germany) stands for its code (DE).
    const named =
      values.find((row) => row.value === typed) || values.find((row) => row.text.toLowerCase() === typed.toLowerCase());
    if (typed) take(named ? named.value : typed);
    else text.focus();
  });
  field.focus();
  read();
}

/**
 * @param {string} field
 * @param {Board} board
 */
async function suggestions(field, board) {
  if (field === "type") {
    return {
      rows: ["pageview", "screen_view", "event", "app_event"].map((value) => ({
        value,
        key: value,
        label: TYPES[value],
        text: TYPES[value],
        count: null,
        share: null,
        bar: 0,
      })),
    };
  }
  // Without the filters of the field itself, so that its other values are suggested too.
  const view = { ...board.view(), filters: board.view().filters.filter(([name]) => name !== field) };
  const path = field === "event_name" ? "event-names" : `top/${field}`;
  const answer = await get(`${board.base}/${path}?${reportQuery(view, board.span(), { limit: 200 })}`);
  if (!answer.ok) return { error: answer.error };
  const most = Math.max(1, ...answer.data.map((/** @type {any} */ row) => row.visitors));
  const rows = answer.data.map((/** @type {any} */ row) => ({
    ...row,
    count: row.visitors,
    share: null,
    bar: row.visitors / most,
  }));
  if (answer.meta.unset?.visitors) rows.push({ value: "", count: answer.meta.unset.visitors, share: null, bar: 0 });
  return {
    rows: rows.map((/** @type {any} */ row) => ({
      ...row,
      key: row.value,
      label: valueNode(field, row.value),
      text: valueText(field, row.value),
    })),
  };
}
