// Hints: a short text beside what the pointer rests on or the keyboard has chosen. One element for the whole page,
// in the top layer. Screen readers get the same text as the element's description.

import { fill, h } from "./dom.js";

const AFTER_MS = 350;

let box = null;
let shownFor = null;
let timer = 0;

/** Gives an element a hint; `content` gives its nodes when it is to be shown. `byTouch`: a touch shows it too. */
export function addTooltip(element, content, { byTouch = false } = {}) {
  element.addEventListener("pointerenter", (event) => {
    if (event.pointerType === "touch") return;
    clearTimeout(timer);
    timer = setTimeout(() => show(element, content), AFTER_MS);
  });
  element.addEventListener("focus", () => element.matches(":focus-visible") && show(element, content));
  for (const end of ["pointerleave", "blur", "pointerdown"]) element.addEventListener(end, () => hide(element));
  if (byTouch) element.addEventListener("click", () => matchMedia("(hover: none)").matches && show(element, content));
}

/** Takes away the hint that is shown: what it was about is drawn anew. */
export function hideTooltip() {
  hide(shownFor);
}

function show(element, content) {
  if (!element.isConnected) return;
  if (!box) {
    box = h("div", { class: "hint", popover: "manual", "aria-hidden": "true" });
    addEventListener("scroll", () => hide(shownFor), { passive: true, capture: true });
    addEventListener("keydown", (event) => event.key === "Escape" && hide(shownFor), { capture: true });
  }
  (element.closest("dialog") || document.body).append(box);
  fill(box, content());
  // Older browsers know no top layer: a fixed box above the page does there.
  box.showPopover?.();
  shownFor = element;
  place(element.getBoundingClientRect());
}

function place(at) {
  const { offsetWidth: width, offsetHeight: height } = box;
  const left = Math.max(8, Math.min(at.left, innerWidth - width - 8));
  const below = at.bottom + 6;
  const top = below + height > innerHeight - 8 ? Math.max(8, at.top - height - 6) : below;
  box.style.left = `${left}px`;
  box.style.top = `${top}px`;
}

function hide(element) {
  clearTimeout(timer);
  if (!box || shownFor !== element || !element) return;
  box.remove();
  shownFor = null;
}
