// Colours of the theme, for canvases; theme_picker.js chooses it.

import { h } from "./dom.js";

/**
 * Calls a function when the colours change, by the system or by choice; returns a function that stops it. For canvases:
 * style sheets follow by themselves.
 *
 * @param {() => void} redraw
 */
export function onColourChange(redraw) {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
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
