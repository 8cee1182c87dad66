// The theme: the system's, light or dark; chosen for this browser. theme.js applies the choice on the next load.

import { h } from "./dom.js";
import { texts } from "./messages.js";

const t = await texts("shared");
const KEY = "tally.theme";
const system = () => matchMedia("(prefers-color-scheme: dark)");

/** @type {[name: string, label: string][]} */
const THEMES = [
  ["system", t("theme_system")],
  ["light", t("theme_light")],
  ["dark", t("theme_dark")],
];

/** Returns buttons that choose the theme. */
export function themePicker() {
  const mark = () => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.theme === chosenTheme()));
  };
  const buttons = THEMES.map(([name, label]) =>
    h(
      "button",
      {
        class: "segment",
        type: "button",
        dataset: { theme: name },
        onclick: () => (chooseTheme(name), mark()),
      },
      label,
    ),
  );
  mark();
  return h("div", { class: "segments small theme-picker", role: "group", "aria-label": t("theme") }, buttons);
}

function chosenTheme() {
  return document.documentElement.dataset.theme || "system";
}

/**
 * Applies a theme and stores it for this browser.
 *
 * @param {string} name
 */
function chooseTheme(name) {
  const { dataset } = document.documentElement;
  if (name === "system") delete dataset.theme;
  else dataset.theme = name;
  try {
    if (name === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, name);
  } catch {
    // Storage is blocked: the choice holds until the next load.
  }
}

/**
 * Calls a function when the colours change, by the system or by choice; returns a function that stops it. For canvases:
 * style sheets follow by themselves.
 *
 * @param {() => void} redraw
 */
export function onColourChange(redraw) {
  const scheme = system();
  const chosen = new MutationObserver(redraw);
  scheme.addEventListener("change", redraw);
  chosen.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return () => {
    scheme.removeEventListener("change", redraw);
    chosen.disconnect();
  };
}

/**
 * Returns a function that returns the colour of a custom property at an element as "rgb(29, 28, 25)": the property itself
 * holds the colours of both themes.
 *
 * @param {Element} element
 */
export function coloursAt(element) {
  return (/** @type {string} */ name) => {
    const probe = h("span", { hidden: true, style: { color: `var(${name})` } });
    element.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };
}
