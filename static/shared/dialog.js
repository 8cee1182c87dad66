// Dialogs (the platform's <dialog>: focus stays inside, Esc closes, focus goes back) and short messages that pass.

import { fill, h, icon } from "./dom.js";

let numbers = 0;

/**
 * Opens a dialog. `body` and `actions` are nodes or arrays of them; `onclose` is called when it has gone. `wide` is
 * for lists. Gives { element, body, close }. A button in `actions` closes it only if it calls close().
 */
export function openDialog({ title, body, actions, onclose, wide = false }) {
  const id = `dialog-${++numbers}`;
  const content = h("div", { class: "dialog-body" }, body);
  const element = h(
    "dialog",
    { class: wide ? "dialog wide" : "dialog", "aria-labelledby": id },
    h(
      "header",
      { class: "dialog-head" },
      h("h2", { id }, title),
      h(
        "button",
        { class: "button quiet square", type: "button", "aria-label": "Close", onclick: () => close() },
        icon("close"),
      ),
    ),
    content,
    actions ? h("footer", { class: "dialog-actions" }, actions) : null,
  );
  const close = () => element.open && element.close();
  element.addEventListener("close", () => {
    element.remove();
    onclose?.();
  });
  // A press on the backdrop is a press on the dialog element itself.
  let pressed = null;
  element.addEventListener("pointerdown", (event) => (pressed = event.target));
  element.addEventListener("click", (event) => event.target === element && pressed === element && close());
  document.body.append(element);
  element.showModal();
  return { element, body: content, close };
}

/** Asks before something is done; resolves to whether it was agreed to. `action` says what the button does. */
export function confirmDialog({ title, words, action, danger = false }) {
  return new Promise((resolve) => {
    let agreed = false;
    const agree = h("button", { class: danger ? "button danger" : "button primary", type: "button" }, action);
    const cancel = h("button", { class: "button", type: "button" }, "Cancel");
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

/** A message in the corner for some seconds, read out too. */
export function notify(words) {
  const region =
    document.getElementById("messages") || document.body.appendChild(h("div", { id: "messages", role: "status" }));
  const message = h("p", { class: "message" }, words);
  region.append(message);
  setTimeout(() => message.remove(), 5000);
}

/** A box that says what failed, with a button that tries again. */
export function failureNotice(title, error, again) {
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    icon("warning"),
    h("div", null, h("strong", null, title), h("p", null, error.message)),
    again ? h("button", { class: "button small", type: "button", onclick: again }, "Try again") : null,
  );
}

/** A button that copies a text and says so. */
export function copyButton(text, label = "Copy") {
  const words = h("span", null, label);
  const place = h("span", { class: "icon-place" }, icon("copy"));
  const button = h("button", { class: "button", type: "button" }, place, words);
  button.addEventListener("click", async () => {
    const copied = await copy(typeof text === "function" ? text() : text);
    fill(place, icon(copied ? "check" : "warning"));
    words.textContent = copied ? "Copied" : "Copying is not allowed here: select the text";
    setTimeout(() => {
      fill(place, icon("copy"));
      words.textContent = label;
    }, 2500);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Plain http on another machine has no clipboard interface: the old way works there.
    const area = h("textarea", { class: "unseen", value: text, "aria-hidden": "true" });
    const place = document.querySelector("dialog[open]") || document.body;
    place.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
