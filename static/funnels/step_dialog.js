// The dialog that asks for a step: a page or an event, with the most frequent ones of the range to choose from. What
// is not among them can be typed.

import { reportQuery } from "../shared/view_state.js";
import { failureNotice, openDialog } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { barList } from "../shared/bar_list.js";
import { KINDS, typedStep } from "./steps.js";

const SUGGESTED = 8;
const ASKED = { pathname: ["top/pathname", 200], event_name: ["event-names", 200] };
const WORDS = {
  pathname: ["Path, exactly", "A view of this page: no query, no domain."],
  event_name: ["Event name, exactly", "An event of this name, as tally.track or an app sent it."],
};

/** Opens it. `step`: what is chosen already, or null; `title` and `action` say what for; `take(step)` gets the choice. */
export function stepDialog(board, { step, title, action, take }) {
  let field = step ? step.field : "pathname";
  let values = [];
  const text = h("input", {
    id: "step-value",
    type: "text",
    value: step ? step.value : "",
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "step-hint",
  });
  const label = h("label", { for: "step-value" });
  const words = h("p", { class: "field-hint", id: "step-hint" });
  const found = h("div", { class: "suggestions", "aria-live": "polite" });
  const kinds = Object.entries(KINDS).map(([name, kind]) =>
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
    h("fieldset", { class: "row kinds" }, h("legend", { class: "unseen" }, "What the step is"), kinds),
    h("div", { class: "field" }, label, text, words),
    found,
  );
  const dialog = openDialog({
    title,
    body: form,
    actions: h("button", { class: "button primary", type: "submit", form: "step-form" }, action),
  });

  const done = (chosen) => {
    dialog.close();
    take(chosen);
  };
  function show() {
    const typed = text.value.trim().toLowerCase();
    // What is chosen already is not a search for others.
    const isOwn = step && step.field === field && text.value === step.value;
    const hits = values.filter((row) => !typed || isOwn || row.value.toLowerCase().includes(typed));
    const bars = hits.slice(0, SUGGESTED);
    fill(
      found,
      bars.length
        ? [
            h(
              "p",
              { class: "soft small-text by-visitors" },
              h("span", null, "In these days"),
              h("span", null, "Visitors"),
            ),
            barList(bars, { choose: (row) => done({ field, value: row.value }), unit: "visitors" }),
          ]
        : h("p", { class: "soft small-text" }, nothingWords(field, values, typed)),
    );
  }
  async function read() {
    const asked = field;
    fill(found);
    const answer = await suggestions(asked, board);
    if (asked !== field) return;
    if (answer.error) return fill(found, failureNotice("They cannot be listed.", answer.error, read));
    values = answer.rows;
    show();
  }
  function turn(name) {
    field = name;
    if (step) text.value = step.field === field ? step.value : "";
    [label.textContent, words.textContent] = WORDS[field];
    read();
  }
  text.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = typedStep(field, text.value);
    if (chosen) done(chosen);
    else text.focus();
  });
  turn(field);
  text.focus();
  text.select();
}

function nothingWords(field, values, typed) {
  if (typed && values.length) return "None of these days is like it; it can be taken all the same.";
  return field === "pathname" ? "No page was seen in these days." : "No event was counted in these days.";
}

async function suggestions(field, board) {
  // Other pages than the filtered one are steps, too.
  const view = { ...board.view(), filters: board.view().filters.filter(([name]) => name !== field) };
  const [path, limit] = ASKED[field];
  const answer = await get(`${board.base}/${path}?${reportQuery(view, board.span(), { limit })}`);
  if (!answer.ok) return { error: answer.error };
  const most = Math.max(1, ...answer.data.map((row) => row.visitors));
  return {
    rows: answer.data.map((row) => ({
      ...row,
      key: row.value,
      label: row.value,
      text: row.value,
      count: row.visitors,
      share: null,
      bar: row.visitors / most,
    })),
  };
}
