// Sparklines beside the pages of a list: pageviews (or conversions) by day, or by hour on short ranges. Pages are
// requested one after the other, only for ranges of up to a month and on screens that are wide enough. And those of the
// key figures, from the series of the chart. A bucket that is not over is not drawn, unless it is the only one.

import { closedBuckets } from "../shared/buckets.js";
import { AUTOMATIC_MAX_DAYS, goalOf, reportQuery } from "../shared/view_state.js";
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
    const query = reportQuery(alone, span, { interval: span.days > 2 ? "day" : "hour", ...goalOf(view) });
    const answer = await get(`${board.base}/timeseries?${query}`, { signal });
    if (!answer.ok || !places[i]?.isConnected) return;
    const count = conversionCount(view, board.saved().segments, answer.data);
    places[i].replaceChildren(line(answer.data, count, span.isOpen));
  }
}

/**
 * @param {Bucket[]} rows
 * @param {string | null} count  that holds conversions
 * @param {boolean} isOpen
 */
function line(rows, count, isOpen) {
  const { points, most } = pointsOf(rows, count || "pageviews", isOpen);
  const words = svg("title", null, count ? t("max_conversions", { count: most }) : t("max_pageviews", { count: most }));
  const size = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT };
  return svg("svg", size, words, svg("polyline", { points: points.join(" ") }));
}

/**
 * Draws the series into the key figures that it has. `isOpen`: its last bucket is not over.
 *
 * @param {HTMLElement} root
 * @param {Bucket[]} rows
 * @param {boolean} isOpen
 */
export function drawFigureSparks(root, rows, isOpen) {
  for (const figure of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("button.figure"))) {
    const name = figure.dataset.figure || "";
    // Figures of the last goal stay until those of the chosen one arrive.
    if (rows.some((row) => !(name in row))) continue;
    const { points } = pointsOf(rows, name, isOpen);
    figure
      .querySelector(".figure-spark")
      ?.replaceChildren(
        svg(
          "svg",
          { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" },
          svg("polyline", { points: points.join(" ") }),
        ),
      );
  }
}

/**
 * Returns the points of a line over the buckets that are over, and the highest value.
 *
 * @param {Bucket[]} rows
 * @param {string} name
 * @param {boolean} isOpen
 */
function pointsOf(rows, name, isOpen) {
  const past = closedBuckets(rows, isOpen);
  const most = Math.max(1, ...past.map((row) => row[name]));
  const step = WIDTH / Math.max(1, past.length - 1);
  const height = (/** @type {number} */ value) => HEIGHT - 1 - (value / most) * (HEIGHT - 2);
  return { most, points: past.map((row, i) => `${(i * step).toFixed(1)},${height(row[name]).toFixed(1)}`) };
}
