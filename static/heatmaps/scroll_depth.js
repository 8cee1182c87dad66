// Scroll depth of a page: a summary, a curve over the depth, and a table.

import { chartWithTable } from "../shared/chart_with_table.js";
import { fill, h } from "../shared/dom.js";
import { decimal, percent, wholePercent } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { depthReachedBy, pixels, reached } from "./heatmap_grid.js";

const t = await texts("heatmaps");
const LABEL_PX = 84;
const STEPS_PX = [20, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000];
// Keeps the table short; the curve has every depth.
const MAX_TABLE_ROWS = 60;

/**
 * Returns the card: { element, draw(map, kind), end() }. `goTo(row)` scrolls the heatmap to a depth.
 *
 * @param {{ goTo: (row: number) => void }} options
 */
export function scrollDepthCard({ goTo }) {
  const words = h("p", { class: "depth-words" });
  const plot = chartWithTable("curve");
  const content = [words, ...plot.nodes];
  const body = h("div", null, content);
  const element = h(
    "section",
    { class: "card depth-card", "aria-labelledby": "depth-title" },
    h("div", { class: "card-head" }, h("h2", { id: "depth-title", class: "card-title" }, t("scroll_depth"))),
    body,
  );
  return {
    element,
    draw(/** @type {Heatmap} */ map, /** @type {WidthClass} */ kind) {
      if (!map.samples) return fill(body, h("p", { class: "nothing soft" }, t("no_depths")));
      if (!words.isConnected) fill(body, content);
      fill(words, wordsOf(map, kind));
      return plot.draw(
        () => chartOf(map, goTo),
        () => tableOf(map),
      );
    },
    end: () => plot.end(),
  };
}

/**
 * @param {Heatmap} map
 * @param {{ screen: number, many: string }} options
 */
function wordsOf(map, { screen, many }) {
  const [most, half, few] = [75, 50, 25].map((share) => depthReachedBy(map, share));
  return t.rich("depth_words", {
    half: h("strong", null, t("half_reach", { count: map.samples, depth: pixels(half) })),
    screens: decimal(half / screen, 1),
    screen: pixels(screen),
    devices: many,
    most: pixels(most),
    few: pixels(few),
    max: pixels(map.scroll.length * map.bin_height),
  });
}

/**
 * Returns what shared/chart.js draws.
 *
 * @param {Heatmap} map
 * @param {(row: number) => void} goTo
 * @returns {ChartData}
 */
function chartOf(map, goTo) {
  const { scroll, bin_height } = map;
  const at = (/** @type {number} */ i) => pixels(i * bin_height);
  return {
    label: t("depth_label", { step: pixels(bin_height) }),
    now: scroll,
    before: null,
    open: -1,
    format: wholePercent,
    text: (/** @type {number} */ i) => t("slider_depth", { depth: at(i), share: percent(scroll[i]) }),
    tip: (/** @type {number} */ i) => [
      h("p", { class: "chart-tip-when" }, at(i), h("span", { class: "soft" }, ` ${t("down")}`)),
      h("p", { class: "chart-tip-now" }, t.rich("reach_this", { share: h("strong", null, percent(reached(map, i))) })),
    ],
    ticks: (/** @type {number} */ width) => {
      const step = stepOf(scroll.length * bin_height, Math.max(2, Math.floor(width / LABEL_PX)));
      return every(map, step).map((i) => [i, at(i)]);
    },
    pick: (/** @type {any} */ first) => goTo(first),
  };
}

/**
 * Returns the smallest step in pixels that divides a depth into at most `most` parts.
 *
 * @param {number} height
 * @param {number} most
 */
function stepOf(height, most) {
  return STEPS_PX.find((step) => height / step <= most) || STEPS_PX[STEPS_PX.length - 1];
}

/**
 * Returns the indexes of rows at each multiple of `step` pixels.
 *
 * @param {{ scroll: any, bin_height: any }} options
 * @param {number} step
 */
function every({ scroll, bin_height }, step) {
  const rows = Math.max(1, Math.round(step / bin_height));
  return Array.from({ length: Math.ceil(scroll.length / rows) }, (_, i) => i * rows);
}

/**
 * @param {Heatmap} map
 */
function tableOf(map) {
  const { scroll, bin_height, samples } = map;
  const rows = every(map, stepOf(scroll.length * bin_height, MAX_TABLE_ROWS));
  const head = (/** @type {string} */ text, /** @type {string | null} */ kind = null) =>
    h("th", { scope: "col", class: kind || null }, text);
  return h(
    "table",
    { class: "table" },
    h("caption", { class: "visually-hidden" }, t("depth_caption", { count: samples })),
    h("thead", null, h("tr", null, head(t("depth")), head(t("share_of_pageviews"), "num"))),
    h(
      "tbody",
      null,
      rows.map((i) =>
        h("tr", null, h("th", { scope: "row" }, pixels(i * bin_height)), h("td", { class: "num" }, percent(scroll[i]))),
      ),
    ),
  );
}
