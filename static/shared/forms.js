// Forms: fields with their errors beside them, a button that says what it does and is pressed once.
//
// field(...) gives { element, input, name, value(), fail(words), settle() }; form(...) puts fields and a button
// together. An answer's `error.field` names the field its words belong to; what belongs to none stands above the button.
// Focus goes to the first field with an error, whose words are its description, so that they are read out.

import { fill, h, icon } from "./dom.js";
import { strength } from "./password_strength.js";

let numbers = 0;

/**
 * A labelled input. `missing` is said where it is required and empty, `check(value)` gives words for what cannot be;
 * `input` is the element itself where it is no <input>. All other properties are attributes of the input.
 */
export function field({ label, name, hint, missing, check, input, soft, ...attributes }) {
  const id = `field-${++numbers}`;
  const own = input || h("input", { type: "text", spellcheck: "false", autocapitalize: "none", ...attributes });
  own.id = id;
  own.name = name;
  const error = h("p", { class: "field-error", id: `${id}-error`, hidden: true });
  const beneath = hint ? h("p", { class: "field-hint", id: `${id}-hint` }, hint) : null;
  const described = (failed) => {
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
  const fail = (words) => {
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

/** A checkbox, off at first; its value is true or false. */
export function checkbox({ label, name, hint }) {
  const made = field({ label, name, hint, type: "checkbox" });
  made.element.classList.add("choice");
  return { ...made, value: () => made.input.checked };
}

/** A password with a button that shows it; a new one (`email` is a function then) also says how strong it is. */
export function passwordField({ email, ...properties }) {
  const isNew = properties.autocomplete === "new-password";
  const check = isNew ? (value) => strength(value, email()).fault : undefined;
  const made = field({ type: "password", check, ...properties });
  const show = h(
    "button",
    { class: "show-password", type: "button", "aria-pressed": "false", "aria-controls": made.input.id },
    "Show",
  );
  const set = (shown) => {
    made.input.type = shown ? "text" : "password";
    show.textContent = shown ? "Hide" : "Show";
    show.setAttribute("aria-pressed", String(shown));
    show.setAttribute("aria-label", `${shown ? "Hide" : "Show"} ${properties.label.toLowerCase()}`);
  };
  set(false);
  show.addEventListener("click", () => set(made.input.type === "password"));
  const inside = h("div", { class: "with-inside" });
  made.input.replaceWith(inside);
  inside.append(made.input, show);
  if (isNew) made.element.append(meter(made.input, email));
  return { ...made, hide: () => set(false) };
}

function meter(input, email) {
  const words = h("p", { class: "strength", role: "status" });
  const say = () => {
    const { level, said } = strength(input.value, email());
    words.dataset.level = level;
    fill(words, input.value ? [level > 1 ? icon("check") : null, said] : "");
  };
  input.addEventListener("input", say);
  return words;
}

/**
 * A form of fields. `submit(values)` does the work and gives an answer of fetching.js, whose error is shown, or null;
 * it is not called again before it has ended. `action` is on the button, `busy` while it works.
 * Gives { element, button, fail(error), focus() }.
 */
export function form({ fields, action, busy, submit, danger = false, beside = null, wide = false, label = null }) {
  const look = `button ${danger ? "danger" : "primary"}${wide ? " wide" : ""}`;
  const button = h("button", { class: look, type: "submit" }, action);
  const above = h("div", { role: "alert" });
  const shown = fields.map((one) => one.element || one);
  const known = fields.filter((one) => one.input);
  const row = h("div", { class: wide ? "form-actions wide" : "form-actions" }, button, beside);
  const element = h("form", { class: "form", novalidate: true, "aria-label": label }, shown, above, row);
  const fail = (error) => showError(error, known, above);
  let working = false;
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (working || !validate(known, above)) return;
    working = true;
    button.setAttribute("aria-disabled", "true");
    button.textContent = busy || action;
    for (const one of known) one.hide?.();
    let answer = null;
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

function validate(fields, above) {
  fill(above);
  const wrong = fields.map((one) => [one, one.fault()]).filter(([, words]) => words);
  for (const one of fields) one.settle();
  for (const [one, words] of wrong) one.fail(words);
  wrong[0]?.[0].input.focus();
  return !wrong.length;
}

function showError(error, fields, above) {
  // The page is on its way to the login, or has gone.
  if (["aborted", "not_logged_in"].includes(error.code) && !error.stay) return;
  const own = fields.find((one) => one.name === error.field);
  if (!own)
    return fill(above, h("div", { class: "notice bad" }, icon("warning"), h("div", null, h("p", null, error.message))));
  own.fail(error.message);
  own.input.focus();
  own.input.select?.();
}
