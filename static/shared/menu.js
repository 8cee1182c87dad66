// A menu: a button that opens a box above the page. Closed by Esc, by a click beside it, by a link in it, and when the
// focus leaves it.

import { h } from "./dom.js";

/**
 * Returns { element, close() }. `label`: nodes of the button; `items`: nodes of the box; `opened` is called when it opens.
 *
 * @param {{ kind: string, label: Child, items: Child, opened?: () => void }} options
 */
export function menu({ kind, label, items, opened }) {
  const button = h("summary", { class: "nav-item" }, label);
  const element = h("details", { class: `menu ${kind}` }, button, h("div", { class: "menu-items" }, items));
  const close = () => void (element.open = false);
  const isInside = (/** @type {any} */ node) => element.contains(node);
  element.addEventListener("toggle", () => element.open && opened?.());
  element.addEventListener("click", (event) => event.target instanceof Element && event.target.closest("a") && close());
  element.addEventListener("focusout", (event) => event.relatedTarget && !isInside(event.relatedTarget) && close());
  document.addEventListener("pointerdown", (event) => !isInside(event.target) && close());
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !element.open) return;
    event.stopPropagation();
    close();
    button.focus();
  });
  return { element, close };
}
