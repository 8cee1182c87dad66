// The goals of a website in its settings: a list, and the dialog that adds, changes and deletes one.

import { sectionCard } from "../account/card.js";
import { confirmDialog, failureNotice, notify, openDialog } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { suggestions } from "../shared/filter_dialog.js";
import { PROPERTY_FILTERS } from "../shared/filter_words.js";
import { filtersField, recentBoard } from "../shared/filters_field.js";
import { field, form } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { OPERATORS, conditionsText, fieldOf, matchOf, partsOf } from "./conditions.js";

const t = await texts("goals");
const shared = await texts("shared");
// What the server allows.
const MAX_GOALS = 100;
/** @type {Record<string, string>} */
const INVALID = {
  name: t("name_invalid", { count: 100 }),
  match: t("filters_invalid", { count: 20, characters: 8_192 }),
  value: t("value_invalid", { count: 200 }),
  currency: t("currency_invalid"),
};
/** @type {[string, string][]} */
const TYPES = [
  ["event", t("event")],
  ["page", t("page")],
];

/**
 * Returns the card; the goals are loaded into it.
 *
 * @param {Website} website
 */
export function goalsCard(website) {
  const path = `/api/account/websites/${website.id}/goals`;
  const list = h("div", { "aria-live": "polite" });
  async function load() {
    const answer = await get(path);
    if (!answer.ok) return void fill(list, failureNotice(shared("goals_failed"), answer.error, load));
    const goals = /** @type {SavedGoal[]} */ (answer.data);
    const none = h("p", { class: "soft" }, t("no_goals"));
    const rows = goals.map((one) => h("li", { class: "row apart" }, words(one), editButton(one)));
    return void fill(list, goals.length ? h("ul", { class: "stack" }, rows) : none);
  }
  const editButton = (/** @type {SavedGoal} */ one) =>
    h(
      "button",
      {
        class: "button small",
        type: "button",
        "aria-label": t("edit_named", { goal: one.name }),
        onclick: () => edit(one),
      },
      t("edit"),
    );
  const edit = (/** @type {SavedGoal | null} */ one) => goalDialog(website, path, one, load);
  load();
  return sectionCard(
    shared("goals"),
    h("p", { class: "soft" }, t("what_goals_are")),
    list,
    h(
      "p",
      { class: "row gap-above" },
      h("button", { class: "button", type: "button", onclick: () => edit(null) }, t("add_goal")),
    ),
  );
}

/**
 * @param {SavedGoal} goal
 */
function words({ name, type, match, value, currency }) {
  const sum = value === null ? [] : [currency ? t("value_in", { value, currency }) : t("value_of", { value })];
  const label = type === "page" ? t("page") : t("event");
  return h(
    "div",
    { class: "grow wrap" },
    h("strong", null, h("bdi", null, name)),
    h(
      "p",
      { class: "soft small-text" },
      [shared("label_value", { label, value: conditionsText(match) }), ...sum].join(", "),
    ),
  );
}

/**
 * @param {Website} website
 * @param {string} path
 * @param {SavedGoal | null} goal
 * @param {() => void} changed
 */
function goalDialog(website, path, goal, changed) {
  const parts = goal ? partsOf(goal) : { operator: "=", text: "", more: [] };
  const names = h("datalist", { id: "goal-names" });
  const properties = h("datalist", { id: "goal-properties" });
  const kind = select(TYPES, goal?.type || "event");
  const textField = field({
    ...{ label: t("name_or_path"), name: "text", value: parts.text, hint: t("text_hint") },
    ...{ list: names.id, autocomplete: "off" },
  });
  const valueField = field({
    ...{ label: shared("value"), name: "value", soft: shared("optional"), value: goal?.value || "" },
    ...{ hint: t("value_hint"), list: properties.id, autocomplete: "off" },
  });
  const ownCurrency = (goal ? goal.currency : website.currency) || "";
  const fields = [
    field({
      label: shared("name"),
      name: "name",
      value: goal?.name || "",
      missing: shared("enter_name"),
      maxlength: 100,
    }),
    field({ label: t("counts"), name: "type", input: kind }),
    field({ label: shared("operator"), name: "operator", input: select(OPERATORS, parts.operator) }),
    textField,
    filtersField({
      ...{ website, label: t("more_filters"), name: "match", soft: shared("optional") },
      ...{ filters: parts.more, fields: PROPERTY_FILTERS },
    }),
    valueField,
    field({
      ...{ label: t("currency"), name: "currency", soft: shared("optional"), value: ownCurrency },
      ...{ hint: t("currency_hint"), maxlength: 3 },
      // The currency that the field begins with is no input: without a value it is not saved.
      check: (text) =>
        ["", ownCurrency].includes(text.trim()) || valueField.value().trim() ? null : t("currency_needs_value"),
    }),
  ];
  const remove = h("button", { class: "button warning", type: "button" }, shared("delete"));
  const made = form({
    fields,
    action: goal ? t("save_goal") : t("add_goal"),
    busy: shared("saving"),
    beside: goal ? remove : null,
    submit: async ({ name, type, operator, text, match, value, currency }) => {
      const body = {
        ...{ name: name.trim(), type, match: matchOf({ type, operator, text, more: match }) },
        ...{ value: value.trim() || null, currency: (value.trim() && currency.trim().toUpperCase()) || null },
      };
      if (!body.match.length) return { error: { code: "", field: "text", message: t("enter_name_or_path") } };
      const answer = await send(goal ? "PATCH" : "POST", goal ? `${path}/${goal.id}` : path, body);
      if (!answer.ok) return { error: { ...answer.error, message: messageOf(answer.error) } };
      finish(goal ? t("goal_saved") : t("goal_added"));
      return null;
    },
  });
  const dialog = openDialog({ title: goal ? t("edit_goal") : t("new_goal"), body: [made.element, names, properties] });
  // What has arrived in the last 30 days.
  const suggestNames = () => suggestInto(names, fieldOf(kind.value), recentBoard(website));
  const suggestProperties = () => {
    if (kind.value !== "event") return void fill(properties);
    const text = textField.value().trim();
    return suggestInto(properties, "prop.", recentBoard(website, { filters: text ? [["event_name", text]] : [] }));
  };
  kind.addEventListener("change", suggestNames);
  valueField.input.addEventListener("focus", suggestProperties);
  void suggestNames();
  function finish(/** @type {string} */ message) {
    dialog.close();
    notify(message);
    changed();
  }
  remove.addEventListener("click", async () => {
    const question = {
      title: t("delete_goal_question"),
      words: goal?.name || "",
      action: t("delete_goal"),
      danger: true,
    };
    if (!(await confirmDialog(question))) return;
    const answer = await send("DELETE", `${path}/${goal?.id}`);
    if (answer.ok) finish(t("goal_deleted"));
    else made.fail(answer.error);
  });
  made.focus();
}

/**
 * Fills a list of suggestions with the values of a field; for properties with their names. The form works without them.
 *
 * @param {HTMLElement} list
 * @param {string} of
 * @param {Board} board
 */
async function suggestInto(list, of, board) {
  const answer = await suggestions(of, board);
  if (answer.error) return;
  const values = answer.names || answer.rows.filter(({ value }) => value).map(({ text }) => text);
  fill(
    list,
    values.map((value) => h("option", { value })),
  );
}

/**
 * Returns the message for an error of the server in the page's language, by its code and field.
 *
 * @param {ApiError} error
 */
function messageOf({ code, field: name, message }) {
  if (code === "too_many_definitions") return t("too_many_goals", { count: MAX_GOALS });
  return (code === "invalid_field" && name && INVALID[name]) || message;
}

/**
 * @param {string[][]} choices
 * @param {string} chosen
 */
function select(choices, chosen) {
  const own = h(
    "select",
    null,
    choices.map(([value, label]) => h("option", { value }, label)),
  );
  own.value = chosen;
  return /** @type {any} */ (own);
}
