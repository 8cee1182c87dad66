// The dialog for a step of a funnel or of journeys: a page, an event or a saved goal, with the most frequent ones of the
// range to choose from. Other pages and events can be typed.

import { splitKey } from "../shared/filter_words.js";
import { reportQuery } from "../shared/view_state.js";
import { failureNotice, openDialog } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { UNITS, barList } from "../shared/bar_list.js";
import { texts } from "../shared/messages.js";
import { valueNode, valueText } from "../shared/fields.js";
import { matching } from "../shared/suggestions.js";
import { KINDS, shownValue, typedStep } from "./steps.js";

const t = await texts("funnels");
const shared = await texts("shared");
const SUGGESTED = 8;
/** @type {Record<string, [report: string, parameters: Record<string, number>]>} */
const REPORTS = {
  pathname: ["top/pathname", { limit: 200 }],
  event_name: ["event-names", { limit: 200 }],
  goal: ["goals/report", {}],
};
/** @type {Record<string, [label: string, hint: string]>} */
const WORDS = {
  pathname: [t("exact_path"), t("exact_path_hint")],
  event_name: [t("exact_event"), t("exact_event_hint")],
  goal: [shared("goal"), t("goal_hint")],
};
/** @type {Record<string, string>} */
const NOTHING = { pathname: t("no_pageviews"), event_name: t("no_events"), goal: t("no_goals") };

/**
 * Opens the dialog. `kinds`: the kinds of steps to choose from, with their names; `step`: the current step, or null;
 * `action` labels the button; `take(step)` receives the choice.
 *
 * @param {Board} board
 * @param {{ kinds?: Record<string, string>, step: FunnelStep | null, title: string, action: string, take: (step: FunnelStep) => void }} options
 */
export function stepDialog(board, { kinds = KINDS, step, title, action, take }) {
  const own = step ? shownValue(step, board.saved()) : "";
  let field = step ? step.field : "pathname";
  /** @type {BarRow[]} */
  let values = [];
  const text = h("input", {
    id: "step-value",
    type: "text",
    value: own,
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "step-hint",
  });
  const label = h("label", { for: "step-value" });
  const words = h("p", { class: "field-hint", id: "step-hint" });
  const found = h("div", { class: "suggestions", "aria-live": "polite" });
  const choices = Object.entries(kinds).map(([name, kind]) =>
    h(
      "label",
      { class: "kind" },
      h("input", {
        type: "radio",
        name: "step-field",
        value: name,
        checked: name === field,
        onchange: () => turn(name),
      }),
      kind,
    ),
  );
  const form = h(
    "form",
    { id: "step-form" },
    h("fieldset", { class: "row kinds" }, h("legend", { class: "visually-hidden" }, t("type_of_step")), choices),
    h("div", { class: "field" }, label, text, words),
    found,
  );
  const dialog = openDialog({
    title,
    body: form,
    actions: h("button", { class: "button primary", type: "submit", form: "step-form" }, action),
  });

  const done = (/** @type {FunnelStep} */ chosen) => {
    dialog.close();
    take(chosen);
  };
  function show() {
    const typed = text.value.trim().toLowerCase();
    // The current value does not filter the suggestions.
    const isOwn = step && step.field === field && text.value === own;
    const hits = isOwn ? values : matching(values, typed);
    const bars = hits.slice(0, SUGGESTED);
    fill(
      found,
      bars.length
        ? [
            h(
              "p",
              { class: "soft small-text by-visitors" },
              h("span", null, t("suggested")),
              h("span", null, t("visitors")),
            ),
            barList(bars, { choose: (row) => done({ field, value: row.value }), unit: UNITS.visitors }),
          ]
        : h("p", { class: "soft small-text" }, nothingWords(field, values, typed)),
    );
  }
  async function read() {
    const requested = field;
    fill(found);
    const answer = await suggestions(requested, board);
    if (requested !== field) return;
    if (answer.error) return fill(found, failureNotice(t("suggestions_failed"), answer.error, read));
    values = answer.rows;
    show();
  }
  /**
   * @param {string} name
   */
  function turn(name) {
    field = name;
    if (step) text.value = step.field === field ? own : "";
    [label.textContent, words.textContent] = WORDS[field];
    read();
  }
  text.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = text.value.trim();
    // Of a goal, the name in any case.
    const named = values.find((row) => row.text === typed) || values.find((row) => isGoalNamed(row, typed));
    const chosen = named ? { field, value: named.value } : field === "goal" ? null : typedStep(field, typed);
    if (chosen) done(chosen);
    else text.focus();
  });
  const isGoalNamed = (/** @type {BarRow} */ row, /** @type {string} */ typed) =>
    field === "goal" && row.text.toLowerCase() === typed.toLowerCase();
  turn(field);
  text.focus();
  text.select();
}

/**
 * @param {string} field
 * @param {any[]} values
 * @param {string} typed
 */
function nothingWords(field, values, typed) {
  if (typed && values.length) return shared("no_matching_value");
  return NOTHING[field];
}

/**
 * @param {string} field
 * @param {Board} board
 */
async function suggestions(field, board) {
  // Without filters of the same field, so that other values are suggested too.
  const view = { ...board.view(), filters: board.view().filters.filter(([key]) => splitKey(key).field !== field) };
  const [path, parameters] = REPORTS[field];
  const answer = await get(`${board.base}/${path}?${reportQuery(view, board.span(), parameters)}`);
  if (!answer.ok) return { error: answer.error };
  const most = Math.max(1, ...answer.data.map((/** @type {any} */ row) => row.visitors));
  return {
    // A goal's `value` is the sum of its conversions.
    rows: answer.data.map((/** @type {any} */ row) => ({
      key: row.id ?? row.value,
      value: row.id ?? row.value,
      label: row.name ?? valueNode(field, row.value),
      text: row.name ?? valueText(field, row.value),
      count: row.visitors,
      share: null,
      bar: row.visitors / most,
    })),
  };
}
