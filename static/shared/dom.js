// Creating elements. Text from data is inserted as text, never as HTML: no page writes innerHTML.
//
// h("button", { class: "button", type: "button", onclick: save }, "Save") returns an element. Properties: `style` (an
// object, set by script, which the Content-Security-Policy allows), `dataset`, `on...` functions; all others are
// attributes, omitted where null or false. href and src are completed with the base path. Children: nodes, texts,
// numbers, arrays of them; null and false are omitted.

import { at } from "./paths.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * Returns a new HTML element.
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/**
 * Returns a new SVG element.
 *
 * @param {string} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

/**
 * Replaces all children of an element.
 *
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...flattened(children));
  return element;
}

/**
 * Replaces all children of an element; the focus moves to the new element with the same data-key, else to the first control.
 *
 * @param {HTMLElement} element
 * @param {...Child} children
 */
export function refill(element, ...children) {
  const active = /** @type {HTMLElement | null} */ (document.activeElement);
  const had = active && element !== active && element.contains(active) ? active : null;
  fill(element, ...children);
  if (!had) return element;
  const keyed = /** @type {NodeListOf<HTMLElement>} */ (element.querySelectorAll("[data-key]"));
  const same = [...keyed].find((one) => one.dataset.key === had.dataset.key);
  const first = /** @type {HTMLElement | null} */ (element.querySelector("button, a[href], [tabindex='0']"));
  const next = same || first || element;
  if (next === element) element.tabIndex = -1;
  next.focus({ preventScroll: true });
  return element;
}

/**
 * Returns text for screen readers only.
 *
 * @param {...Child} children
 */
export function visuallyHidden(...children) {
  return h("span", { class: "visually-hidden" }, ...children);
}

const stylesheets = new Map();

/**
 * Loads a style sheet of this server, once; rejects where it does not load.
 *
 * @param {string} path
 */
export function loadStylesheet(path) {
  if (!stylesheets.has(path)) {
    const link = h("link", { rel: "stylesheet", href: path });
    const loading = new Promise((resolve, reject) => {
      link.addEventListener("load", resolve, { once: true });
      link.addEventListener("error", () => reject(new Error(`${path} did not load`)), { once: true });
    });
    loading.catch(() => {
      stylesheets.delete(path);
      link.remove();
    });
    stylesheets.set(path, loading);
    document.head.append(link);
  }
  return stylesheets.get(path);
}

/** @type {Record<string, string>} */
const ICONS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6 6 18",
  left: "M14.5 6 8.5 12l6 6",
  right: "M9.5 6l6 6-6 6",
  down: "M6 9.5l6 6 6-6",
  plus: "M12 5v14M5 12h14",
  share: "M12 15V4M8 7.5 12 3.5l4 4M5 12v7h14v-7",
  download: "M12 4v11M8 11.5l4 4 4-4M5 19.5h14",
  updown: "M8 9.5l4-4 4 4M8 14.5l4 4 4-4",
  desktop: "M3.5 5h17v11h-17zM9 20h6M12 16v4",
  mobile: "M8 3.5h8v17H8zM11 17.5h2",
  tablet: "M5.5 3.5h13v17h-13zM11 17.5h2",
  device: "M6 6h12v12H6zM9.5 9.5h5v5h-5z",
  window: "M4 5.5h16v13H4zM12 5.5v13M4 12h16",
  grid: "M4.5 4.5h6v6h-6zM13.5 4.5h6v6h-6zM4.5 13.5h6v6h-6zM13.5 13.5h6v6h-6z",
  leave: "M13.5 4.5h6v15h-6M4 12h10.5M11 8.5l3.5 3.5-3.5 3.5",
  chart: "M4 4v16h16M8 16v-5M12.5 16V7.5M17 16v-7",
  live: "M12 10.5v3M8.5 8a5.5 5.5 0 0 0 0 8M15.5 8a5.5 5.5 0 0 1 0 8M5.5 5.5a9 9 0 0 0 0 13M18.5 5.5a9 9 0 0 1 0 13",
  event: "M13 3.5 5.5 13.5H12l-1 7 7.5-10H12z",
  journey: "M4 6h3c6 0 4 12 10 12h3M17 15l3 3-3 3M4 18h3M17 3l3 3-3 3M12.5 6H20",
  funnel: "M4 5h16l-6 7.5V19l-4-2v-4.5z",
  gauge: "M4.5 17a8.5 8.5 0 1 1 15 0M12 14l4-5.5",
  heat: "M4.5 4.5h15v15h-15zM4.5 9.5h15M4.5 14.5h15M9.5 4.5v15M14.5 4.5v15",
  split: "M4 12h5l4-6h7M9 12l4 6h7",
  crawler: "M6 9h12v9H6zM12 9V5M9 13h.01M15 13h.01M3 12v3M21 12v3",
  reject: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16M6.5 6.5l11 11",
  settings:
    "M12 6.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M12 10.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6M12 6.5v-3M12 20.5v-3M6.5 12h-3M20.5 12h-3M8.1 8.1 6 6M18 18l-2.1-2.1M8.1 15.9 6 18M18 6l-2.1 2.1",
  search: "M10.5 5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M15 15l5 5",
  keyboard: "M3 7h18v10H3zM7 10.5h.01M10.5 10.5h.01M14 10.5h.01M17.5 10.5h.01M8 14h8",
  key: "M14.5 9.5a4 4 0 1 0-3.2 3.9L13 15h2v2h2v2h3v-3l-5.6-5.6c.06-.3.1-.6.1-.9M9.5 8.5h.01",
  user: "M12 12a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M5 20c.6-3.6 3.3-5.5 7-5.5s6.4 1.9 7 5.5",
  copy: "M9 9h10v10H9zM15 9V5H5v10h4",
  check: "M5 12.5l4.5 4.5L19 7.5",
  warning: "M12 4 3 19.5h18zM12 10v4.5M12 17h.01",
  open: "M9 5H5v14h14v-4M13 5h6v6M19 5l-8.5 8.5",
  print: "M7 9V4h10v5M7 17H4v-7h16v7h-3M7 14h10v6H7z",
};

/**
 * Returns an icon, 16 pixels, in the colour of the text; decoration only.
 *
 * @param {string} name
 */
export function icon(name) {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 24 24", width: 16, height: 16, "aria-hidden": "true", focusable: "false" },
    svg("path", { d: ICONS[name] }),
  );
}

/** Returns the logo: four tally marks and the one across. */
export function logo() {
  return svg(
    "svg",
    { class: "logo", viewBox: "0 0 24 24", width: 22, height: 22, "aria-hidden": "true", focusable: "false" },
    svg("path", { d: "M5 4v16M9.7 4v16M14.3 4v16M19 4v16M1.5 17.5l21-11" }),
  );
}

/**
 * @param {any} element
 * @param {Props | undefined} props
 * @param {Child[]} children
 */
function filled(element, props, children) {
  let value;
  for (const [name, given] of Object.entries(props || {})) {
    if (given === null || given === undefined || given === false) continue;
    if (typeof given === "function" && name.startsWith("on")) element.addEventListener(name.slice(2), given);
    else if (name === "style") for (const [key, to] of Object.entries(given)) element.style.setProperty(key, to);
    else if (name === "dataset") Object.assign(element.dataset, given);
    else if (name === "value" && "value" in element && element.tagName !== "BUTTON") value = given;
    else if (name === "href" || name === "src") element.setAttribute(name, at(given));
    else element.setAttribute(name, given === true ? "" : given);
  }
  element.append(...flattened(children));
  // After the children: the value of a select needs its options.
  if (value !== undefined) element.value = value;
  return element;
}

/**
 * Returns the nodes and texts of children.
 *
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function flattened(children) {
  const all = /** @type {Child[]} */ (children.flat(/** @type {1} */ (Infinity)));
  const shown = all.filter((child) => child !== null && child !== undefined && child !== false);
  return shown.map((child) => (child instanceof Node ? child : String(child)));
}
