// A world map beside the list of countries: the darker, the more visitors. Its outlines are loaded when it comes near the
// visible area, or when the page is printed. Hidden from screen readers: the list has the same figures.

import { h, svg } from "../shared/dom.js";
import { countryName } from "../shared/formats.js";
import { flagMark } from "../shared/marks.js";
import { texts } from "../shared/messages.js";
import { addTooltip } from "../shared/tooltip.js";
import { at } from "../shared/paths.js";

const t = await texts("shared");
const SOURCE = "/assets/vendor/world-atlas-2.0.2/countries.json";
const STEPS = 5;
// How far below or above the visible area the map is drawn.
const MARGIN = "100px 0px";

/** @type {any} */
let outlines = null;

/**
 * Returns a function for top_lists.js that returns the map of rows.
 *
 * @param {import("./dashboard.js").DashboardBoard} board
 */
export function worldMap(board) {
  let place = h("div");
  /** @type {BarRow[]} */
  let rows = [];
  function drawNow() {
    near.disconnect();
    draw(place, outlines, rows, board);
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
  return (/** @type {BarRow[]} */ given) => {
    place = h("div", { class: "map", "aria-hidden": "true" });
    rows = given;
    near.disconnect();
    if (outlines) drawNow();
    // Until then the cards above it are empty, and the map is higher up than it will be.
    else board.allLoaded().then(() => outlines || near.observe(place));
    return place;
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
      h("strong", null, flagMark(code), countryName(code)),
      h(
        "p",
        null,
        [t("count_visitors", { count: row.visitors }), t("count_pageviews", { count: row.pageviews })].join(" · "),
      ),
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
