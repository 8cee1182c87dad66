// Tooltips: a short text beside the element under the pointer or with the keyboard focus. One element for the whole page,
// in the top layer. Screen readers get the same text as the element's description.

import { fill, h } from "./dom.js";

const AFTER_MS = 350;

/** @type {HTMLElement | null} */
let box = null;
/** @type {Element | null} */
let shownFor = null;
/** @type {DOMRect | null} */
let shownAt = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/**
 * Adds a tooltip to an element. `content` returns its nodes when it is shown; `byTouch`: a touch shows it too.
 *
 * @param {Element} element
 * @param {() => Child} content
 * @param {{ byTouch?: boolean }} [options]
 */
export function addTooltip(element, content, { byTouch = false } = {}) {
  element.addEventListener("pointerenter", (event) => {
    if (/** @type {PointerEvent} */ (event).pointerType === "touch") return;
    clearTimeout(timer);
    timer = setTimeout(() => show(element, content), AFTER_MS);
  });
  element.addEventListener("focus", () => element.matches(":focus-visible") && show(element, content));
  for (const end of ["pointerleave", "blur", "pointerdown"]) element.addEventListener(end, () => hide(element));
  if (byTouch) element.addEventListener("click", () => matchMedia("(hover: none)").matches && show(element, content));
}

/**
 * Hides the tooltip of an element within `area`, which is about to be redrawn.
 *
 * @param {Element} area
 */
export function hideTooltip(area) {
  if (shownFor && area.contains(shownFor)) hide(shownFor);
}

/**
 * @param {Element} element
 * @param {() => Child} content
 */
function show(element, content) {
  if (!element.isConnected) return;
  if (!box) {
    box = h("div", { class: "hint", popover: "manual", "aria-hidden": "true" });
    addEventListener("scroll", hideMoved, { passive: true, capture: true });
    addEventListener("keydown", (event) => event.key === "Escape" && hide(shownFor), { capture: true });
  }
  (element.closest("dialog") || document.body).append(box);
  fill(box, content());
  // Browsers without popovers show a fixed box above the page.
  box.showPopover?.();
  shownFor = element;
  shownAt = element.getBoundingClientRect();
  place(shownAt);
}

/** Hides the tooltip of an element that has moved: events of scrolls also come late, and from other areas. */
function hideMoved() {
  const at = shownFor?.getBoundingClientRect();
  if (at && (at.left !== shownAt?.left || at.top !== shownAt.top)) hide(shownFor);
}

/**
 * @param {DOMRect} at
 */
function place(at) {
  if (!box) return;
  const { offsetWidth: width, offsetHeight: height } = box;
  const left = Math.max(8, Math.min(at.left, innerWidth - width - 8));
  const below = at.bottom + 6;
  const top = below + height > innerHeight - 8 ? Math.max(8, at.top - height - 6) : below;
  box.style.left = `${left}px`;
  box.style.top = `${top}px`;
}

/**
 * @param {Element | null} element
 */
function hide(element) {
  clearTimeout(timer);
  if (!box || shownFor !== element || !element) return;
  box.remove();
  shownFor = null;
}
