// The dialog of a filter: a field, an operator and values, with the most frequent values of the range to choose from.

import { reportQuery, withKey } from "./view_state.js";
import { failureNotice, openDialog } from "./dialog.js";
import { fill, h, icon } from "./dom.js";
import { get } from "./api.js";
import { fieldName, valueNode, valueText } from "./fields.js";
import { OPERATORS, capital, filterValueText, splitKey } from "./filter_words.js";
import { UNITS, barList } from "./bar_list.js";
import { fixedValues } from "./fixed_values.js";
import { texts } from "./messages.js";
import { loadRegions } from "./regions.js";
import { isNamed, matching, nearest } from "./suggestions.js";

const t = await texts("dialogs");
const shared = await texts("shared");

const SUGGESTED = 8;
const PROPERTY = "prop.";
// The values are codes that the page shows as names, so that parts of them mean nothing.
const CODES = ["country", "type"];
// Properties are suggested from the events with the most visitors.
const EVENTS_WITH_PROPERTIES = 3;

/**
 * Opens the dialog; `key`: the filter of the view that is changed, or null for a new one, by `first` unless another field
 * is chosen.
 *
 * @param {Board} board
 * @param {string | null} key
 * @param {string} [first]
 */
export function openFilter(board, key, first = board.fields[0]) {
  const before = key ? splitKey(key) : { field: first, sign: "" };
  const isProperty = before.field.startsWith(PROPERTY);
  // `active`: the place of the highlighted suggestion, -1 without one.
  /** @type {{ values: string[], rows: BarRow[], shown: BarRow[], active: number }} */
  const state = {
    values: board.view().filters.flatMap(([name, value]) => (name === key ? [value] : [])),
    ...{ rows: [], shown: [], active: -1 },
  };

  const field = h(
    "select",
    { id: "filter-field", value: isProperty ? PROPERTY : before.field },
    board.fields.map((name) => h("option", { value: name }, fieldLabel(name))),
  );
  const names = h("datalist", { id: "filter-properties" });
  const property = h("input", {
    ...{ id: "filter-property", type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "none" },
    list: names.id,
    value: isProperty ? before.field.slice(PROPERTY.length) : "",
  });
  const operator = h("select", { id: "filter-operator" });
  const text = h("input", {
    ...{ id: "filter-value", type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "none" },
    ...{
      role: "combobox",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": "filter-suggestions",
    },
  });
  const problem = h("p", { class: "field-error", role: "alert", hidden: true });
  const propertyField = h("div", { class: "field" }, labelOf(property, t("event_property")), property, names);
  const add = h(
    "button",
    { class: "button", type: "button", title: t("add_another_value"), onclick: () => more() },
    icon("plus"),
    t("or"),
  );
  const textField = h(
    "div",
    { class: "field" },
    labelOf(text, shared("value")),
    h("div", { class: "row" }, h("div", { class: "grow" }, text), add),
    problem,
  );
  const chosen = h("ul", { class: "chips filter-values", "aria-label": t("chosen_values") });
  const found = h("div", { class: "suggestions", id: "filter-suggestions", "aria-live": "polite" });
  const form = h(
    "form",
    { id: "filter-form" },
    h(
      "div",
      { class: "filter-fields" },
      h("div", { class: "field" }, labelOf(field, t("field")), field),
      h("div", { class: "field" }, labelOf(operator, shared("operator")), operator),
    ),
    propertyField,
    textField,
    chosen,
    found,
  );
  const dialog = openDialog({
    title: key ? t("change_the_filter") : shared("add_a_filter"),
    body: form,
    actions: h(
      "button",
      { class: "button primary", type: "submit", form: "filter-form" },
      key ? t("change_filter") : t("add_filter"),
    ),
  });

  const fieldNow = () => (field.value === PROPERTY ? PROPERTY + property.value.trim() : field.value);
  const isFixed = () => fixedValues(field.value) !== null;
  const isExact = () => operator.value === "" || operator.value === "!";
  const nameOf = (/** @type {string} */ value) => filterValueText(fieldNow(), value, board.saved().goals);

  function showOperators(/** @type {string} */ sign) {
    const taken = OPERATORS.filter(([one]) => {
      if (field.value === "goal") return one === "";
      return !CODES.includes(field.value) || one === "" || one === "!";
    });
    fill(
      operator,
      taken.map(([one, words]) => h("option", { value: one }, words)),
    );
    operator.value = taken.some(([one]) => one === sign) ? sign : "";
  }

  function show() {
    propertyField.hidden = field.value !== PROPERTY;
    textField.hidden = field.value === "goal";
    add.hidden = field.value === "goal";
    chosen.hidden = !state.values.length;
    fill(chosen, state.values.map(token));
    problem.hidden = true;
    state.shown = suggested().map((row) => ({ ...row, pressed: state.values.includes(row.value) }));
    const toggle = (/** @type {BarRow} */ { value }) => {
      const has = state.values.includes(value);
      const left = field.value === "goal" ? [] : state.values.filter((one) => one !== value);
      state.values = has ? left : [...left, value];
      text.value = "";
      redraw(value);
    };
    const nothing = h("p", { class: "soft small-text" }, noValueWords(Boolean(state.rows.length), isFixed()));
    fill(found, state.shown.length ? barList(state.shown, { choose: toggle, unit: UNITS.visitors }) : nothing);
    highlight(text.value.trim() && isExact() && state.shown.length ? 0 : -1);
  }

  /** Returns the rows that match what is typed; of an open field also the text itself, as the last one. */
  function suggested() {
    const typed = text.value.trim();
    const rows = isExact() ? state.rows : state.rows.filter((row) => row.value !== "");
    const hits = matching(rows, typed);
    const isOther = typed && isExact() && !isFixed() && hits.length && !isNamed(hits[0], typed);
    const literal = isOther ? [plainRow(typed, t("exactly", { value: typed }))] : [];
    return [...hits.slice(0, SUGGESTED), ...literal];
  }

  function highlight(/** @type {number} */ active) {
    state.active = active;
    const buttons = [...found.querySelectorAll(".bar")];
    for (const [place, button] of buttons.entries()) {
      button.id = `filter-suggestion-${place}`;
      button.classList.toggle("active", place === active);
    }
    text.setAttribute("aria-expanded", String(buttons.length > 0));
    if (active < 0) text.removeAttribute("aria-activedescendant");
    else text.setAttribute("aria-activedescendant", `filter-suggestion-${active}`);
  }

  /** Draws again after a value was chosen; the focus stays on it. */
  function redraw(/** @type {string} */ value) {
    show();
    const same = [...found.querySelectorAll("button")].find((one) => one.dataset.key === value);
    (same || text).focus();
  }

  function token(/** @type {string} */ value) {
    const remove = () => {
      state.values = state.values.filter((one) => one !== value);
      show();
      text.focus();
    };
    return h(
      "li",
      { class: "chip" },
      h("span", { class: "chip-text" }, h("bdi", null, nameOf(value))),
      h(
        "button",
        {
          class: "chip-remove",
          type: "button",
          "aria-label": t("remove_value", { value: nameOf(value) }),
          onclick: remove,
        },
        icon("close"),
      ),
    );
  }

  /**
   * Adds the highlighted suggestion to the values, or what is typed. Resolves to whether that is a value and the dialog is
   * still open.
   */
  async function more() {
    if (isExact()) await reading;
    if (!dialog.element.open) return false;
    const typed = text.value.trim();
    const taken = isExact() ? state.shown[state.active] : undefined;
    if (typed && !taken && isFixed()) return refuse(typed);
    const value = taken ? taken.value : typed;
    if ((typed || taken) && !state.values.includes(value)) state.values = [...state.values, value];
    text.value = "";
    show();
    text.focus();
    return true;
  }

  /** Says that a field cannot have a value, and which one is the nearest. */
  function refuse(/** @type {string} */ typed) {
    const known = state.rows.filter((row) => row.value !== "").map((row) => row.text);
    fill(problem, t("no_such_value", { value: typed, nearest: nearest(typed, known) }));
    problem.hidden = false;
    text.focus();
    return false;
  }

  // Resolves when the suggestions of the field are there, or have failed.
  /** @type {Promise<any>} */
  let reading = Promise.resolve();
  function read() {
    reading = suggest();
  }

  async function suggest() {
    state.rows = [];
    show();
    fill(found);
    const requested = fieldNow();
    const answer = await suggestions(requested, board);
    if (requested !== fieldNow()) return;
    if (answer.error) return fill(found, failureNotice(t("values_failed"), answer.error, read));
    state.rows = answer.rows;
    fill(
      names,
      (answer.names || []).map((name) => h("option", { value: name })),
    );
    show();
  }

  field.addEventListener("change", () => {
    state.values = [];
    text.value = "";
    showOperators(operator.value);
    read();
  });
  property.addEventListener("change", read);
  operator.addEventListener("change", () => {
    if (!isExact()) state.values = state.values.filter(Boolean);
    show();
  });
  text.addEventListener("input", show);
  text.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !isExact() || !state.shown.length) return;
    event.preventDefault();
    const start = state.active < 0 && step < 0 ? 0 : state.active;
    highlight((start + step + state.shown.length) % state.shown.length);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (fieldNow() === PROPERTY) return property.focus();
    if ((text.value.trim() || state.active >= 0) && !(await more())) return;
    if (!state.values.length) return text.focus();
    dialog.close();
    board.go(changed(board.view(), key, fieldNow() + operator.value, state.values));
  });
  showOperators(before.sign);
  field.focus();
  read();
}

/**
 * Returns the view with the filter of the dialog. A new filter by a key that the view has adds its values.
 *
 * @param {View} view
 * @param {string | null} from  the key that is changed
 * @param {string} to
 * @param {string[]} values
 */
function changed(view, from, to, values) {
  const rest = from === null || from === to ? view : withKey(view, from, []);
  const known = from === to ? [] : rest.filters.flatMap(([key, value]) => (key === to ? [value] : []));
  return withKey(rest, to, to === "goal" ? values : [...new Set([...known, ...values])]);
}

/**
 * @param {boolean} hasValues
 * @param {boolean} isFixed  whether the field has no other values
 */
function noValueWords(hasValues, isFixed) {
  if (!hasValues) return t("no_values");
  return isFixed ? t("no_value_is_called_so") : shared("no_matching_value");
}

/**
 * @param {string} name
 */
function fieldLabel(name) {
  if (name === PROPERTY) return t("event_property");
  return name === "goal" ? shared("goal") : capital(fieldName(name));
}

/**
 * @param {HTMLElement} control
 * @param {string} words
 */
function labelOf(control, words) {
  return h("label", { for: control.id }, words);
}

/**
 * Returns { rows, names } or { error }: the most frequent values of a field in the range; for properties also the names
 * of the most frequent ones.
 *
 * @param {string} field
 * @param {Board} board
 * @returns {Promise<{ rows: BarRow[], names?: string[], error?: undefined } | { error: ApiError }>}
 */
export async function suggestions(field, board) {
  if (field === "type") {
    const rows = ["pageview", "screen_view", "event", "app_event"];
    return { rows: rows.map((value) => plainRow(value, valueText(field, value))) };
  }
  if (field === "goal") {
    await board.loadSaved();
    return { rows: Object.entries(board.saved().goals).map(([id, name]) => plainRow(id, name)) };
  }
  if (field.startsWith(PROPERTY)) return properties(field.slice(PROPERTY.length), board);
  // Without the filters of the field itself, so that its other values are suggested too.
  const view = {
    ...board.view(),
    filters: board.view().filters.filter(([key]) => splitKey(key).field !== field),
  };
  const path = field === "event_name" ? "event-names" : `top/${field}`;
  const answer = await get(`${board.base}/${path}?${reportQuery(view, board.span(), { limit: 200 })}`);
  if (!answer.ok) return { error: answer.error };
  if (field === "region") await loadRegions();
  const { unset } = answer.meta;
  const data = unset?.visitors ? [...answer.data, { value: "", ...unset }] : answer.data;
  const most = Math.max(1, ...answer.data.map((/** @type {TopRow} */ row) => row.visitors));
  const rows = data.map((/** @type {TopRow} */ row) => ({
    ...row,
    ...{ count: row.visitors, share: null, bar: row.value === "" ? 0 : row.visitors / most },
    ...{ key: row.value, label: valueNode(field, row.value), text: valueText(field, row.value) },
  }));
  const counted = new Set(rows.map((/** @type {BarRow} */ row) => row.value));
  // Other values that the field can have: a filter by one of them is no mistake.
  const others = (fixedValues(field) || []).filter((value) => !counted.has(value));
  return { rows: [...rows, ...others.map((value) => plainRow(value, valueText(field, value)))] };
}

/**
 * @param {string} value
 * @param {string} text
 * @returns {BarRow}
 */
function plainRow(value, text) {
  return { value, key: value, label: text, text, count: null, share: null, bar: 0 };
}

/**
 * Returns the properties and, of the named one, the values: of the events that the view's filter names, or else of the
 * most frequent ones in the range.
 *
 * @param {string} name
 * @param {Board} board
 */
async function properties(name, board) {
  const query = (/** @type {Record<string, any>} */ more) => {
    const filters = board.view().filters.filter(([key]) => splitKey(key).field !== "event_name");
    return reportQuery({ ...board.view(), filters, segment: "" }, board.span(), more);
  };
  let events = board.view().filters.flatMap(([key, value]) => (key === "event_name" ? [value] : []));
  if (!events.length) {
    const frequent = await get(`${board.base}/event-names?${query({ limit: EVENTS_WITH_PROPERTIES })}`);
    if (!frequent.ok) return { error: frequent.error };
    events = frequent.data.map((/** @type {TopRow} */ { value }) => value);
  }
  const answers = await Promise.all(
    events
      .slice(0, EVENTS_WITH_PROPERTIES)
      .map((value) => get(`${board.base}/event-data?${query({ event_name: value, limit: 20 })}`)),
  );
  /** @type {EventProperty[]} */
  const all = answers.flatMap((answer) => (answer.ok ? answer.data : []));
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { values } of all.filter(({ property }) => property === name)) {
    for (const { value, visitors } of values) {
      counts.set(String(value), Math.max(visitors, counts.get(String(value)) || 0));
    }
  }
  const most = Math.max(1, ...counts.values());
  return {
    names: [...new Set(all.map(({ property }) => property))],
    rows: [...counts]
      .sort(([, one], [, other]) => other - one)
      .map(([value, visitors]) => ({ ...plainRow(value, value), bar: visitors / most })),
  };
}
