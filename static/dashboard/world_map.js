// A map of the world beside the list of countries: the darker, the more visitors. Loaded with the first list of
// countries. It says nothing that the list does not say, so screen readers pass over it.

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

/** Gives a function for lists.js: an element with the map of the rows. */
export function worldMap(board) {
  return (rows) => {
    const place = h("div", { class: "map", "aria-hidden": "true" });
    load().then((world) => (world ? draw(place, world, rows, board) : place.remove()));
    return place;
  };
}

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
      h("p", null, [plural(row.visitors, "visitor"), plural(row.pageviews, "view")].join(" · ")),
    ]);
    return path;
  });
  place.replaceChildren(svg("svg", { viewBox: world.viewBox, focusable: "false" }, paths));
}

/** 1 to STEPS; by the square root, since countries differ by powers of ten. */
function step(visitors, most) {
  return 1 + Math.round((STEPS - 1) * Math.sqrt(visitors / most));
}
