// The choice of the theme: the system's, light or dark, for this browser. theme.js applies it on the next load.

import { h } from "./dom.js";
import { texts } from "./messages.js";

const t = await texts("shared");
const KEY = "tally.theme";

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
