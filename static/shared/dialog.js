// Dialogs (<dialog>: the focus stays inside, Esc closes, the focus returns), messages, failure notices, copy buttons.

import { fill, h, icon } from "./dom.js";
import { texts } from "./messages.js";

const t = await texts("shared");
let numbers = 0;

/**
 * Opens a dialog; returns { element, title, body, close }. `body` and `actions` are nodes or arrays of them; `onclose` is called
 * after it has closed; `wide` is for lists, `full` for tables: as large as the window. A button in `actions` closes it only if it calls close().
 *
 * @param {DialogOptions} options
 * @returns {Dialog}
 */
export function openDialog({ title, body, actions, onclose, wide = false, full = false }) {
  const id = `dialog-${++numbers}`;
  const content = h("div", { class: "dialog-body" }, body);
  const heading = h("h2", { id }, title);
  const element = h(
    "dialog",
    { class: `dialog${wide ? " wide" : full ? " full" : ""}`, "aria-labelledby": id },
    h(
      "header",
      { class: "dialog-head" },
      heading,
      h(
        "button",
        { class: "button quiet square", type: "button", "aria-label": t("close"), onclick: () => close() },
        icon("close"),
      ),
    ),
    content,
    actions ? h("footer", { class: "dialog-actions" }, actions) : null,
  );
  const close = () => {
    if (element.open) element.close();
  };
  element.addEventListener("close", () => {
    element.remove();
    onclose?.();
  });
  // A click on the backdrop targets the dialog element itself.
  /** @type {EventTarget | null} */
  let pressed = null;
  element.addEventListener("pointerdown", (event) => (pressed = event.target));
  element.addEventListener("click", (event) => event.target === element && pressed === element && close());
  document.body.append(element);
  element.showModal();
  return { element, title: heading, body: content, close };
}

/**
 * Opens a dialog whose module is loaded at its first use, unless another dialog was opened while it loaded.
 *
 * @template T
 * @param {Promise<T>} module
 * @param {(loaded: T) => void} open
 */
export async function openWhenLoaded(module, open) {
  const count = () => document.querySelectorAll("dialog[open]").length;
  const before = count();
  const loaded = await module;
  if (count() === before) open(loaded);
}

/**
 * Shows a dialog for confirmation; resolves to whether it was given. `action` labels the button.
 *
 * @param {{ title: string, words: Child, action: string, danger?: boolean }} options
 */
export function confirmDialog({ title, words, action, danger = false }) {
  return new Promise((resolve) => {
    let agreed = false;
    const agree = h("button", { class: danger ? "button danger" : "button primary", type: "button" }, action);
    const cancel = h("button", { class: "button", type: "button" }, t("cancel"));
    const dialog = openDialog({
      title,
      body: h("p", null, words),
      actions: [cancel, agree],
      onclose: () => resolve(agreed),
    });
    agree.addEventListener("click", () => {
      agreed = true;
      dialog.close();
    });
    cancel.addEventListener("click", dialog.close);
    (danger ? cancel : agree).focus();
  });
}

/**
 * Shows a message in the corner for 5 seconds; screen readers read it.
 *
 * @param {Child} words
 */
export function notify(words) {
  const region =
    document.getElementById("messages") || document.body.appendChild(h("div", { id: "messages", role: "status" }));
  const message = h("p", { class: "message" }, words);
  region.append(message);
  setTimeout(() => message.remove(), 5000);
}

/**
 * Returns a notice of a failure, with a button to try again.
 *
 * @param {string} title
 * @param {{ message: string }} error
 * @param {() => void} [again]
 */
export function failureNotice(title, error, again) {
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    icon("warning"),
    h("div", null, h("strong", null, title), h("p", null, error.message)),
    again ? h("button", { class: "button small", type: "button", onclick: again }, t("try_again")) : null,
  );
}

/**
 * Returns a button that copies a text and confirms it.
 *
 * @param {string | (() => string)} text
 * @param {string} [label]
 */
export function copyButton(text, label = t("copy")) {
  const words = h("span", null, label);
  const place = h("span", { class: "icon-place" }, icon("copy"));
  const button = h("button", { class: "button", type: "button" }, place, words);
  button.addEventListener("click", async () => {
    const copied = await copy(typeof text === "function" ? text() : text);
    fill(place, icon(copied ? "check" : "warning"));
    words.textContent = copied ? t("copied") : t("copying_failed");
    setTimeout(() => {
      fill(place, icon("copy"));
      words.textContent = label;
    }, 2500);
  });
  return button;
}

/**
 * @param {string} text
 */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages on plain http have no clipboard API: the older command works there.
    const area = h("textarea", { class: "visually-hidden", value: text, "aria-hidden": "true" });
    const place = document.querySelector("dialog[open]") || document.body;
    place.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
