// Sparklines beside the pages of a list: pageviews (or conversions) by day, or by hour on short ranges. Pages are
// requested one after the other, only for ranges of up to a month and on screens that are wide enough. And those of the
// key figures, from the series of the chart.

import { AUTOMATIC_MAX_DAYS, reportQuery } from "../shared/view_state.js";
import { h, svg } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { texts } from "../shared/messages.js";
import { conversionCount } from "./conversions.js";

const t = await texts("dashboard");
const WIDE_SCREEN = "(min-width: 1081px)";
const [WIDTH, HEIGHT] = [64, 16];
// Switching quickly between ranges requests none.
const AFTER_MS = 400;

/** Returns the empty place of a line, so that rows do not move when it is drawn. */
export function sparkPlace() {
  return h("span", { class: "spark", "aria-hidden": "true" });
}

/**
 * Draws the lines of rows into their places in a list; returns a function that stops it.
 *
 * @param {HTMLElement} list
 * @param {any[]} rows
 * @param {string} field
 * @param {Board} board
 */
export function drawSparks(list, rows, field, board) {
  const ending = new AbortController();
  const span = board.span();
  const isCheap = span.days <= AUTOMATIC_MAX_DAYS && matchMedia(WIDE_SCREEN).matches;
  const timer = isCheap && setTimeout(() => drawAll(list, rows, field, board, span, ending.signal), AFTER_MS);
  return () => {
    if (timer) clearTimeout(timer);
    ending.abort();
  };
}

/**
 * @param {HTMLElement} list
 * @param {any[]} rows
 * @param {string} field
 * @param {Board} board
 * @param {Span} span
 * @param {AbortSignal} signal
 */
async function drawAll(list, rows, field, board, span, signal) {
  const view = board.view();
  const places = list.querySelectorAll(".spark");
  for (const [i, row] of rows.entries()) {
    // Replaces other filters by the same field.
    /** @type {View} */
    const alone = { ...view, filters: [...view.filters.filter(([name]) => name !== field), [field, row.value]] };
    const query = reportQuery(alone, span, { interval: span.days > 2 ? "day" : "hour" });
    const answer = await get(`${board.base}/timeseries?${query}`, { signal });
    if (!answer.ok || !places[i]?.isConnected) return;
    places[i].replaceChildren(line(answer.data, conversionCount(view, board.saved().segments, answer.data)));
  }
}

/**
 * @param {Bucket[]} rows
 * @param {string | null} count  that holds conversions
 */
function line(rows, count) {
  const { points, most } = pointsOf(rows, count || "pageviews");
  const words = svg("title", null, count ? t("max_conversions", { count: most }) : t("max_pageviews", { count: most }));
  const size = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT };
  return svg("svg", size, words, svg("polyline", { points: points.join(" ") }));
}

/**
 * Draws the series into the key figures that it has. `isOpen`: its last bucket is not over; the line to it is dashed.
 *
 * @param {HTMLElement} root
 * @param {Bucket[]} rows
 * @param {boolean} isOpen
 */
export function drawFigureSparks(root, rows, isOpen) {
  for (const figure of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("button.figure"))) {
    const { points } = pointsOf(rows, figure.dataset.figure || "");
    const done = isOpen ? points.slice(0, -1) : points;
    figure
      .querySelector(".figure-spark")
      ?.replaceChildren(
        svg(
          "svg",
          { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" },
          svg("polyline", { points: done.join(" ") }),
          isOpen ? svg("polyline", { class: "unfinished", points: points.slice(-2).join(" ") }) : null,
        ),
      );
  }
}

/**
 * Returns the points of a line over the buckets that have begun, and the highest value.
 *
 * @param {Bucket[]} rows
 * @param {string} name
 */
function pointsOf(rows, name) {
  const past = rows.filter((row) => Date.parse(row.time) <= Date.now());
  const most = Math.max(1, ...past.map((row) => row[name]));
  const step = WIDTH / Math.max(1, past.length - 1);
  const height = (/** @type {number} */ value) => HEIGHT - 1 - (value / most) * (HEIGHT - 2);
  return { most, points: past.map((row, i) => `${(i * step).toFixed(1)},${height(row[name]).toFixed(1)}`) };
}
