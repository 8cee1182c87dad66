// A world map beside the list of countries: the darker, the more visitors. The outlines are loaded with the first list of
// countries. Hidden from screen readers: the list has the same figures.

import { h, svg } from "../shared/dom.js";
import { plural, countryName, flag } from "../shared/formats.js";
import { addTooltip } from "../shared/tooltip.js";
import { at } from "../shared/paths.js";

const SOURCE = "/assets/vendor/world-atlas-2.0.2/countries.json";
const STEPS = 5;

let outlines = null;

function load() {
  outlines ||= fetch(at(SOURCE))
    .then((answer) => (answer.ok ? answer.json() : null))
    .catch(() => null);
  return outlines;
}

/**
 * Returns a function for top_lists.js that returns the map of rows.
 *
 * @param {Board} board
 */
export function worldMap(board) {
  return (/** @type {BarRow[]} */ rows) => {
    const place = h("div", { class: "map", "aria-hidden": "true" });
    load().then((/** @type {any} */ world) => (world ? draw(place, world, rows, board) : place.remove()));
    return place;
  };
}

/**
 * @param {HTMLElement} place
 * @param {any} world
 * @param {BarRow[]} rows
 * @param {Board} board
 */
function draw(place, world, rows, board) {
  const found = new Map(rows.map((row) => [row.value, row]));
  const most = Math.max(1, ...rows.map((row) => row.visitors));
  const paths = Object.entries(world.countries).map(([code, d]) => {
    const row = found.get(code);
    if (!row) return svg("path", { d });
    const path = svg("path", {
      d,
      class: `land-${step(row.visitors, most)}`,
      onclick: () => board.toggle("country", code),
    });
    addTooltip(path, () => [
      h("strong", null, flag(code), " ", countryName(code)),
      h("p", null, [plural(row.visitors, "visitor"), plural(row.pageviews, "pageview")].join(" · ")),
    ]);
    return path;
  });
  place.replaceChildren(svg("svg", { viewBox: world.viewBox, focusable: "false" }, paths));
}

/**
 * Returns the shade, 1 to STEPS; by the square root, since countries differ by powers of ten.
 *
 * @param {number} visitors
 * @param {number} most
 */
function step(visitors, most) {
  return 1 + Math.round((STEPS - 1) * Math.sqrt(visitors / most));
}
