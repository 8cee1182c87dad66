// How far down a page was seen: in words, as a curve over the depth, and as the table behind it.

import { chartWithTable } from "../shared/chart_with_table.js";
import { fill, h } from "../shared/dom.js";
import { plural, decimal, percent } from "../shared/formats.js";
import { depthReachedBy, pixels, reached } from "./heatmap_grid.js";

const A_LABEL_PX = 84;
const STEPS_PX = [20, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000];
// our choice: rows of the table; the curve has every depth.
const MAX_TABLE_ROWS = 60;

/** The part; gives { element, draw(map, kind), end() }. `goTo(row)` shows a depth on the sheet. */
export function scrollDepthCard({ goTo }) {
  const words = h("p", { class: "depth-words" });
  const plot = chartWithTable("curve");
  const there = [words, ...plot.nodes];
  const body = h("div", null, there);
  const element = h(
    "section",
    { class: "card depth-card", "aria-labelledby": "depth-title" },
    h("div", { class: "card-head" }, h("h2", { id: "depth-title", class: "card-title" }, "How far down it is seen")),
    body,
  );
  return {
    element,
    draw(map, kind) {
      if (!map.samples)
        return fill(body, h("p", { class: "nothing soft" }, "No view told how far it was seen in these days."));
      if (!words.isConnected) fill(body, there);
      fill(words, wordsOf(map, kind));
      return plot.draw(
        () => chartOf(map, goTo),
        () => tableOf(map),
      );
    },
    end: () => plot.end(),
  };
}

function wordsOf(map, { screen, many }) {
  const [most, half, few] = [75, 50, 25].map((share) => depthReachedBy(map, share));
  return [
    h("strong", null, `Half of ${plural(map.samples, "view")} reach ${pixels(half)}`),
    `, ${decimal(half / screen, 1)} screens of ${pixels(screen)}, usual on ${many}. `,
    `Three quarters reach ${pixels(most)}, a quarter ${pixels(few)}; nobody came further than `,
    `${pixels(map.scroll.length * map.bin_height)}.`,
  ];
}

/** What shared/chart.js draws. */
function chartOf(map, goTo) {
  const { scroll, bin_height } = map;
  const at = (i) => pixels(i * bin_height);
  const said = (i) => `${percent(scroll[i])} of views reach it`;
  return {
    label: `Share of views that reach each depth; arrow keys go ${pixels(bin_height)} up and down`,
    now: scroll,
    before: null,
    open: -1,
    format: (value) => percent(value, 0),
    say: (i) => `${at(i)}: ${said(i)}`,
    tip: (i) => [
      h("p", { class: "chart-tip-when" }, at(i), h("span", { class: "soft" }, " down")),
      h("p", { class: "chart-tip-now" }, h("strong", null, percent(reached(map, i))), " of views reach it"),
    ],
    ticks: (width) => {
      const step = stepOf(scroll.length * bin_height, Math.max(2, Math.floor(width / A_LABEL_PX)));
      return every(map, step).map((i) => [i, at(i)]);
    },
    pick: (first) => goTo(first),
  };
}

/** The step in pixels that makes of a depth at most so many parts. */
function stepOf(height, most) {
  return STEPS_PX.find((step) => height / step <= most) || STEPS_PX.at(-1);
}

/** The rows at every so many pixels. */
function every({ scroll, bin_height }, step) {
  const rows = Math.max(1, Math.round(step / bin_height));
  return Array.from({ length: Math.ceil(scroll.length / rows) }, (_, i) => i * rows);
}

function tableOf(map) {
  const { scroll, bin_height, samples } = map;
  const rows = every(map, stepOf(scroll.length * bin_height, MAX_TABLE_ROWS));
  const head = (text, kind) => h("th", { scope: "col", class: kind || null }, text);
  return h(
    "table",
    { class: "table" },
    h("caption", { class: "unseen" }, `Share of ${plural(samples, "view")} that reach each depth`),
    h("thead", null, h("tr", null, head("Depth"), head("Share of views", "num"))),
    h(
      "tbody",
      null,
      rows.map((i) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, pixels(i * bin_height)),
          h("td", { class: "num" }, percent(scroll[i], 1, 1)),
        ),
      ),
    ),
  );
}
