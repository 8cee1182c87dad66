// Forms: fields with their errors below them, and a button that submits once at a time.
//
// field(...) returns { element, input, name, value(), fail(words), settle() }; form(...) combines fields and a button. An
// answer's `error.field` names the field that shows the message; a message without a field is shown above the button.
// The focus moves to the first field with an error; the message is its description, so that screen readers read it.

import { fill, h, icon } from "./dom.js";
import { language } from "./language.js";
import { texts } from "./messages.js";
import { strength } from "./password_strength.js";

const t = await texts("shared");
let numbers = 0;

/**
 * Returns a labelled input. `missing` is the message where it is required and empty; `check(value)` returns a message for
 * an invalid value; `input` is the control where it is not an <input>. Other properties are attributes of the input.
 *
 * @param {FieldOptions} options
 */
export function field({ label, name, hint, missing, check, input, soft, ...attributes }) {
  const id = `field-${++numbers}`;
  const own = input || h("input", { type: "text", spellcheck: "false", autocapitalize: "none", ...attributes });
  own.id = id;
  own.name = name;
  const error = h("p", { class: "field-error", id: `${id}-error`, hidden: true });
  const beneath = hint ? h("p", { class: "field-hint", id: `${id}-hint` }, hint) : null;
  const described = (/** @type {any} */ failed) => {
    const ids = [failed && error.id, beneath?.id].filter(Boolean).join(" ");
    if (ids) own.setAttribute("aria-describedby", ids);
    else own.removeAttribute("aria-describedby");
  };
  described(false);
  if (missing) own.setAttribute("aria-required", "true");
  const settle = () => {
    error.hidden = true;
    own.removeAttribute("aria-invalid");
    described(false);
  };
  const fail = (/** @type {string} */ words) => {
    error.textContent = words;
    error.hidden = false;
    own.setAttribute("aria-invalid", "true");
    described(true);
  };
  own.addEventListener("input", settle);
  const value = () => own.value;
  const fault = () => (missing && !own.value.trim() ? missing : check?.(own.value) || null);
  const title = h("label", { for: id }, label, soft ? h("span", { class: "field-soft" }, ` ${soft}`) : null);
  return {
    element: h("div", { class: "field" }, title, own, error, beneath),
    input: own,
    name,
    value,
    fail,
    settle,
    fault,
  };
}

/**
 * Returns a checkbox, initially off; its value is true or false.
 *
 * @param {FieldOptions} options
 */
export function checkbox({ label, name, hint }) {
  const made = field({ label, name, hint, type: "checkbox" });
  made.element.classList.add("choice");
  return { ...made, value: () => made.input.checked };
}

/**
 * Returns a field of several lines whose value is a list of texts; `show(lines)` sets them. `separator` stands between
 * two texts: white space by default, so that a line with several is several.
 *
 * @param {FieldOptions & { lines: string[], separator?: string | RegExp }} options
 */
export function linesField({ lines, separator = /\s+/, ...properties }) {
  const input = h("textarea", { spellcheck: "false", autocapitalize: "none", class: "mono" });
  const made = field({ ...properties, input });
  const show = (/** @type {string[]} */ those) => {
    input.rows = Math.max(2, those.length + 1);
    input.value = those.join("\n");
  };
  show(lines);
  const value = () => input.value.split(separator).filter((/** @type {string} */ text) => text.trim());
  return { ...made, value, show };
}

/**
 * Returns a password field with a button that shows it; a new password (`email` is a function then) has a strength meter.
 *
 * @param {FieldOptions} options
 */
export function passwordField({ email, ...properties }) {
  const isNew = properties.autocomplete === "new-password";
  const check = isNew ? (/** @type {string} */ value) => strength(value, email?.() || "").fault : undefined;
  const made = field({ type: "password", check, ...properties });
  const show = h(
    "button",
    { class: "show-password", type: "button", "aria-pressed": "false", "aria-controls": made.input.id },
    t("show"),
  );
  // In the middle of a sentence; German nouns keep their capital letter.
  const named = language === "de" ? properties.label : properties.label.toLowerCase();
  const set = (/** @type {any} */ shown) => {
    made.input.type = shown ? "text" : "password";
    show.textContent = shown ? t("hide") : t("show");
    show.setAttribute("aria-pressed", String(shown));
    show.setAttribute("aria-label", shown ? t("hide_field", { field: named }) : t("show_field", { field: named }));
  };
  set(false);
  show.addEventListener("click", () => set(made.input.type === "password"));
  const inside = h("div", { class: "with-inside" });
  made.input.replaceWith(inside);
  inside.append(made.input, show);
  if (isNew) made.element.append(meter(made.input, email || (() => "")));
  return { ...made, hide: () => set(false) };
}

/**
 * @param {HTMLInputElement} input
 * @param {() => string} email
 */
function meter(input, email) {
  const words = h("p", { class: "strength", role: "status" });
  const update = () => {
    const { level, words: label } = strength(input.value, email());
    words.dataset.level = String(level);
    fill(words, input.value ? [level > 1 ? icon("check") : null, label] : "");
  };
  input.addEventListener("input", update);
  return words;
}

/**
 * Returns a form of fields: { element, button, fail(error), focus() }. `submit(values)` returns an answer of api.js, whose
 * error is shown, or null; it is not called again while it runs. `action` labels the button, `busy` while submitting.
 *
 * @param {FormOptions} options
 */
export function form({ fields, action, busy, submit, danger = false, beside = null, wide = false, label = null }) {
  const classes = `button ${danger ? "danger" : "primary"}${wide ? " wide" : ""}`;
  const button = h("button", { class: classes, type: "submit" }, action);
  const above = h("div", { role: "alert" });
  const shown = fields.map((one) => one.element || one);
  const known = fields.filter((one) => one.input);
  const row = h("div", { class: wide ? "form-actions wide" : "form-actions" }, button, beside);
  const element = h("form", { class: "form", novalidate: true, "aria-label": label }, shown, above, row);
  const fail = (/** @type {ApiError} */ error) => showError(error, known, above);
  let working = false;
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (working || !validate(known, above)) return;
    working = true;
    button.setAttribute("aria-disabled", "true");
    button.textContent = busy || action;
    for (const one of known) one.hide?.();
    let answer;
    try {
      answer = await submit(Object.fromEntries(known.map((one) => [one.name, one.value()])));
    } finally {
      working = false;
      button.removeAttribute("aria-disabled");
      button.textContent = action;
    }
    if (answer?.error) fail(answer.error);
  });
  return { element, button, fail, focus: () => known[0]?.input.focus() };
}

/**
 * @param {FormField[]} fields
 * @param {HTMLElement} above
 */
function validate(fields, above) {
  fill(above);
  const wrong = fields.map((one) => ({ one, words: one.fault() })).filter(({ words }) => words);
  for (const one of fields) one.settle();
  for (const { one, words } of wrong) one.fail(words || "");
  wrong[0]?.one.input.focus();
  return !wrong.length;
}

/**
 * @param {ApiError} error
 * @param {FormField[]} fields
 * @param {HTMLElement} above
 */
function showError(error, fields, above) {
  // The page has been left, or the login is about to be shown.
  if (["aborted", "not_logged_in"].includes(error.code) && !error.stay) return;
  const own = fields.find((one) => one.name === error.field);
  if (!own) {
    return fill(above, h("div", { class: "notice bad" }, icon("warning"), h("div", null, h("p", null, error.message))));
  }
  own.fail(error.message);
  own.input.focus();
  own.input.select?.();
}
