// A line chart over time buckets, drawn by uPlot (vendored, loaded with the first chart) in the colours of the style
// sheet's custom properties; redrawn when the colour scheme or the width changes.
//
// The x axis counts buckets, not seconds: days of 23 and 25 hours are as wide as others, and buckets of the range before
// align with those of this one. The bucket that is not over is dashed, future ones are not drawn. For the keyboard and
// for screen readers the chart is a slider over its buckets.

import { fill, h, loadStylesheet } from "./dom.js";
import { validLanguage } from "./formats.js";

const SOURCE = "/assets/vendor/uplot-1.6.32/uPlot.iife.min.js";
const RULES = "/assets/vendor/uplot-1.6.32/uPlot.min.css";
const HEIGHT_PX = 240;

let loading = null;

function load() {
  loading ||= new Promise((resolve, reject) => {
    // uPlot passes navigator.language to Intl when it is loaded, which throws where that is not a language tag.
    if (navigator.language !== validLanguage()) {
      Object.defineProperty(navigator, "language", { value: validLanguage(), configurable: true });
    }
    const script = h("script", { src: SOURCE });
    script.addEventListener("load", () => loadStylesheet(RULES).then(() => resolve(window.uPlot)));
    script.addEventListener("error", () => {
      loading = null;
      script.remove();
      reject(new Error("the chart library did not load"));
    });
    document.head.append(script);
  });
  return loading;
}

/**
 * Creates a chart in `host`; returns { draw(data), end() }. data:
 *   label            what is drawn, for screen readers
 *   now, before      numbers by bucket; null where nothing is drawn; before may be null
 *   lines            [{ at, colour (a custom property) }, ...]: horizontal thresholds; optional
 *   open             index of the bucket that is not over, or -1
 *   say(i)           a bucket as text; tip(i) as nodes
 *   ticks(width)     labels of the x axis: [[bucket, text], ...]
 *   format(value)    a label of the y axis
 *   pick(i, j)       called when buckets i to j are selected by dragging, a click, or Enter
 *
 * @param {HTMLElement} host
 */
export function chart(host) {
  const tip = h("div", { class: "chart-tip", "aria-hidden": "true", hidden: true });
  const place = h("div", { class: "chart-plot" });
  const slider = h("div", { class: "chart", role: "slider", tabindex: "0", "aria-valuemin": "1" }, place, tip);
  fill(host, slider);
  // Starts loading while the figures are fetched; draw() reports a failure.
  load().catch(() => {});
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  /** @type {{ plot: any, data: ChartData | null, at: number, width: number, byTouch: boolean }} */
  const state = { plot: null, data: null, at: -1, width: 0, byTouch: false };

  function redraw() {
    if (!state.data || !window.uPlot || !place.clientWidth) return;
    state.plot?.destroy();
    state.width = place.clientWidth;
    state.plot = new window.uPlot(options(state, host, shown), rows(state.data), place);
  }

  /**
   * @param {number} i
   */
  function shown(i) {
    state.at = i;
    const { plot, data } = state;
    tip.hidden = i < 0;
    if (i < 0 || !data) return;
    slider.setAttribute("aria-valuenow", String(i + 1));
    slider.setAttribute("aria-valuetext", data.say(i));
    fill(tip, data.tip(i));
    const x = plot.valToPos(i, "x") + plot.over.offsetLeft;
    tip.style.left = `${Math.max(0, Math.min(x + 14 + tip.offsetWidth > state.width ? x - tip.offsetWidth - 14 : x + 14, state.width - tip.offsetWidth))}px`;
  }

  /**
   * @param {number} i
   */
  function moveTo(i) {
    const { plot, data } = state;
    if (!plot || !data) return;
    const at = Math.min(Math.max(i, 0), data.now.length - 1);
    plot.setCursor({ left: plot.valToPos(at, "x"), top: plot.over.clientHeight / 2 });
    shown(at);
  }

  // A touch shows a bucket's tooltip; only a mouse click selects it.
  slider.addEventListener("pointerdown", (event) => (state.byTouch = event.pointerType === "touch"), { capture: true });
  slider.addEventListener("keydown", (event) => {
    const last = (state.data?.now.length || 1) - 1;
    const from = state.at < 0 ? last + (event.key === "ArrowLeft" ? 1 : 0) : state.at;
    const to = {
      ArrowLeft: from - 1,
      ArrowDown: from - 1,
      ArrowRight: from + 1,
      ArrowUp: from + 1,
      Home: 0,
      End: last,
      PageUp: from - 7,
      PageDown: from + 7,
    }[event.key];
    if (to !== undefined) moveTo(to);
    else if (event.key === "Enter" && state.at >= 0) state.data?.pick(state.at, state.at);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  slider.addEventListener("blur", () => {
    state.plot?.setCursor({ left: -10, top: -10 });
    shown(-1);
  });
  scheme.addEventListener("change", redraw);
  const sizes = new ResizeObserver(() => place.clientWidth !== state.width && redraw());
  sizes.observe(place);

  return {
    async draw(/** @type {ChartData} */ data) {
      await load();
      Object.assign(state, { data, at: -1 });
      tip.hidden = true;
      const last = data.now.length;
      slider.setAttribute("aria-label", data.label);
      slider.setAttribute("aria-valuemax", String(last));
      slider.setAttribute("aria-valuenow", String(last));
      slider.setAttribute("aria-valuetext", last ? data.say(last - 1) : "no data");
      redraw();
    },
    end() {
      scheme.removeEventListener("change", redraw);
      sizes.disconnect();
      state.plot?.destroy();
    },
  };
}

/**
 * @param {ChartData} data
 */
function rows({ now, before, open, lines = [] }) {
  const done = now.map((value, i) => (i === open ? null : value));
  const dashed = now.map((value, i) => (open >= 0 && (i === open || i === open - 1) ? value : null));
  // A single bucket is drawn as wide as two, and so are the lines across it.
  const xs = now.length > 1 ? now.map((_, i) => i) : [0, 1];
  return [xs, before || now.map(() => null), done, dashed, ...lines.map(({ at }) => xs.map(() => at))];
}

/**
 * Returns the indexes of values without a neighbour: they are drawn as points.
 *
 * @param {(number | null | undefined)[]} values
 */
function isolatedIndexes(values) {
  const isThere = (/** @type {number} */ i) => values[i] !== null && values[i] !== undefined;
  return values.flatMap((_, i) => (isThere(i) && !isThere(i - 1) && !isThere(i + 1) ? [i] : []));
}

/**
 * @param {any} state
 * @param {HTMLElement} host
 * @param {(i: number) => void} shown
 */
function options(state, host, shown) {
  const { data, width } = state;
  const style = getComputedStyle(host);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const last = data.now.length - 1;
  const ticks = data.ticks(width);
  const font = `12px ${colour("--font")}`;
  const isolated = isolatedIndexes(data.now);
  const points = {
    show: true,
    size: 7,
    fill: colour("--data"),
    stroke: colour("--data"),
    filter: (/** @type {any} */ plot, /** @type {any} */ series) =>
      isolated.filter((i) => plot.data[series][i] !== null),
  };
  const axis = { stroke: colour("--soft"), font, ticks: { show: false } };
  return {
    width,
    height: HEIGHT_PX,
    padding: [12, 28, 0, 0],
    legend: { show: false },
    cursor: {
      // Snap to buckets.
      move: (/** @type {any} */ plot, /** @type {any} */ left, /** @type {any} */ top) => [
        left < 0 ? left : plot.valToPos(plot.posToIdx(left), "x"),
        top,
      ],
      y: false,
      points: { size: 8, width: 2, fill: colour("--surface") },
      drag: { x: true, y: false, setScale: false },
    },
    scales: {
      x: { time: false, range: [0, Math.max(last, 1)] },
      y: {
        range: (/** @type {any} */ _, /** @type {any} */ __, /** @type {number} */ most) => [
          0,
          Math.max(most || 0, 4) * 1.04,
        ],
      },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        splits: () => ticks.map((/** @type {any[]} */ [at]) => at),
        values: () => ticks.map((/** @type {any[]} */ [, text]) => text),
        size: 28,
        gap: 8,
      },
      {
        ...axis,
        grid: { stroke: colour("--line"), width: 1 },
        values: (/** @type {any} */ _, /** @type {any[]} */ values) => values.map(data.format),
        incrs: STEPS,
        space: 36,
        size: (/** @type {any} */ _, /** @type {any[]} */ values) =>
          16 + 7 * Math.max(2, ...(values || []).map((/** @type {string} */ text) => text.length)),
        gap: 8,
      },
    ],
    series: [
      {},
      { stroke: colour("--before"), width: 1.25, points: { show: false } },
      { stroke: colour("--data"), width: 2, fill: colour("--data-fill"), points },
      { stroke: colour("--data"), width: 2, dash: [4, 4], fill: colour("--data-fill"), points },
      ...(data.lines || []).map((/** @type {any} */ line) => ({
        stroke: colour(line.colour),
        width: 1.5,
        dash: [2, 4],
        points: { show: false },
      })),
    ],
    hooks: {
      setCursor: [
        (/** @type {any} */ plot) =>
          plot.cursor.idx !== null && plot.cursor.left >= 0
            ? shown(plot.cursor.idx)
            : plot.cursor.left < 0 && shown(-1),
      ],
      setSelect: [
        (/** @type {any} */ plot) =>
          plot.select.width > 8 &&
          data.pick(...[plot.select.left, plot.select.left + plot.select.width].map((x) => plot.posToIdx(x))),
      ],
      ready: [
        (/** @type {any} */ plot) =>
          plot.over.addEventListener(
            "click",
            () => !state.byTouch && plot.select.width <= 8 && state.at >= 0 && data.pick(state.at, state.at),
          ),
      ],
    },
  };
}

const STEPS = [1, 2, 5]
  .flatMap((step) => Array.from({ length: 10 }, (_, power) => step * 10 ** power))
  .sort((a, b) => a - b);
