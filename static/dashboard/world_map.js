// A world map beside the list of countries: the darker, the more visitors, or conversions with a goal. Beside the list of regions, the outline of the
// country that is chosen. Outlines are loaded when the map comes near the visible area, or when the page is printed. Hidden
// from screen readers: the lists have the same figures.

import { h, svg } from "../shared/dom.js";
import { toggleFilter } from "../shared/view_state.js";
import { countryName } from "../shared/formats.js";
import { flagMark } from "../shared/marks.js";
import { texts } from "../shared/messages.js";
import { addTooltip } from "../shared/tooltip.js";
import { at } from "../shared/paths.js";

const t = await texts("shared");
const own = await texts("dashboard");
const SOURCE = "/assets/vendor/world-atlas-2.0.2/countries.json";
const STEPS = 5;
// The share of its own size that is shown around the outline of a country, and the shape of the map.
const AROUND = 0.12;
const PROPORTIONS = 1467 / 697;
// How far below or above the visible area the map is drawn.
const MARGIN = "100px 0px";

/** @type {any} */
let outlines = null;

/**
 * Returns the country that a view is filtered by, where it is exactly one.
 *
 * @param {View} view
 */
export function chosenCountry({ filters }) {
  const chosen = filters.filter(([key]) => key === "country");
  return chosen.length === 1 ? chosen[0][1] : "";
}

/**
 * Returns the view with a country chosen or, where it was, not; and with its regions where they are known.
 *
 * @param {View} view
 * @param {string} country
 * @param {boolean} hasRegions
 * @returns {View}
 */
export function toggleCountry(view, country, hasRegions) {
  const next = toggleFilter(view, "country", country);
  const { places, ...tabs } = view.tabs;
  if (hasRegions && country && chosenCountry(next) === country) return { ...next, tabs: { ...tabs, places: "region" } };
  return places === "region" && !chosenCountry(next) ? { ...next, tabs } : next;
}

/**
 * Returns a function for top_lists.js that returns what is drawn beside the rows of a list, or null.
 *
 * @param {import("./dashboard.js").DashboardBoard} board
 */
export function worldMap(board) {
  let place = h("div");
  /** @type {BarRow[]} */
  let rows = [];
  let country = "";
  function drawNow() {
    near.disconnect();
    if (country) drawCountry(place, outlines, country);
    else draw(place, outlines, rows, board);
  }
  const near = new IntersectionObserver(
    async (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      outlines ||= await fetchOutlines();
      if (outlines) drawNow();
      else place.remove();
    },
    { rootMargin: MARGIN },
  );
  board.signal.addEventListener("abort", () => near.disconnect());
  const print = () => {
    if (!place.isConnected || place.childElementCount) return;
    outlines ||= outlinesAtOnce();
    if (outlines) drawNow();
  };
  addEventListener("beforeprint", print, { signal: board.signal });
  return (/** @type {string} */ list, /** @type {BarRow[]} */ given) => {
    country = list === "region" ? chosenCountry(board.view()) : "";
    if (list !== "country" && !country) return null;
    place = h("div", { class: country ? "map one" : "map", "aria-hidden": "true" });
    rows = given;
    near.disconnect();
    if (outlines) drawNow();
    // Until then the cards above it are empty, and the map is higher up than it will be.
    else board.allLoaded().then(() => outlines || near.observe(place));
    if (!country) return place;
    const back = () => void board.go(toggleCountry(board.view(), country, false));
    const button = { class: "link-button", type: "button", dataset: { key: "all-countries" }, onclick: back };
    return h("div", null, place, h("p", { class: "no-print" }, h("button", button, own("show_all_countries"))));
  };
}

/** Returns the outlines, or null where they do not load. */
async function fetchOutlines() {
  try {
    const answer = await fetch(at(SOURCE));
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

/** Returns the outlines, or null, before it returns to the browser: what is fetched later is not on the printed page. */
function outlinesAtOnce() {
  const request = new XMLHttpRequest();
  request.open("GET", at(SOURCE), false);
  try {
    request.send();
    return request.status === 200 ? JSON.parse(request.responseText) : null;
  } catch {
    return null;
  }
}

/**
 * @param {HTMLElement} place
 * @param {any} world
 * @param {BarRow[]} rows
 * @param {import("./dashboard.js").DashboardBoard} board
 */
function draw(place, world, rows, board) {
  const found = new Map(rows.map((row) => [row.value, row]));
  const { goal } = board.view();
  const countOf = (/** @type {BarRow} */ row) => (goal ? row.conversions : row.visitors);
  const most = Math.max(1, ...rows.map(countOf));
  const paths = Object.entries(world.countries).map(([code, d]) => {
    const row = found.get(code);
    if (!row) return svg("path", { d });
    const path = svg("path", {
      d,
      class: countOf(row) ? `land-${step(countOf(row), most)}` : null,
      onclick: () => board.choose("country", code),
    });
    addTooltip(path, () => [
      h("strong", null, flagMark(code), countryName(code)),
      h(
        "p",
        null,
        [
          ...(goal ? [t("count_conversions", { count: row.conversions })] : []),
          ...[t("count_visitors", { count: row.visitors }), t("count_pageviews", { count: row.pageviews })],
        ].join(" · "),
      ),
    ]);
    return path;
  });
  place.replaceChildren(svg("svg", { viewBox: world.viewBox, focusable: "false" }, paths));
}

/**
 * Draws a country among its neighbours; the smallest ones have no outline, and the whole world is drawn.
 *
 * @param {HTMLElement} place
 * @param {any} world
 * @param {string} country
 */
function drawCountry(place, world, country) {
  const paths = Object.entries(world.countries).map(([code, d]) =>
    svg("path", { d, class: code === country ? "land-4" : null }),
  );
  const viewBox = viewBoxOf(world.countries[country] || "") || world.viewBox;
  place.replaceChildren(svg("svg", { viewBox, focusable: "false" }, paths));
}

/**
 * Returns the part of the map that shows a country; null without an outline. The largest of its areas decides: others may be
 * on the other side of the world.
 *
 * @param {string} outline  areas as "M811 91l1 2-1 1z": the first point, then steps
 */
export function viewBoxOf(outline) {
  const boxes = (outline.match(/M[^M]+/g) || []).map((area) => {
    const numbers = (area.match(/-?\d+/g) || []).map(Number);
    const [xs, ys] = [0, 1].map((axis) => {
      let sum = 0;
      return numbers.filter((_, i) => i % 2 === axis).map((one) => (sum += one));
    });
    const [x, y] = [Math.min(...xs), Math.min(...ys)];
    return { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
  });
  if (!boxes.length) return null;
  const box = boxes.reduce((most, one) => (one.width * one.height > most.width * most.height ? one : most));
  const width = Math.max(box.width, box.height * PROPORTIONS) * (1 + 2 * AROUND);
  const height = width / PROPORTIONS;
  return [box.x + (box.width - width) / 2, box.y + (box.height - height) / 2, width, height].map(Math.round).join(" ");
}

/**
 * Returns the shade, 1 to STEPS; by the square root, since countries differ by powers of ten.
 *
 * @param {number} count
 * @param {number} most
 */
function step(count, most) {
  return 1 + Math.round((STEPS - 1) * Math.sqrt(count / most));
}
