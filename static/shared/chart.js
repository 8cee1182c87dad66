// A line or bar chart over time buckets, drawn by uPlot (vendored, loaded with the first chart) in the colours of the style
// sheet's custom properties; redrawn when the colour scheme or the width changes.
//
// The x axis counts buckets, not seconds: days of 23 and 25 hours are as wide as others, and buckets of the range before
// align with those of this one. Buckets that are not counted in full (a week of which days lie outside the range) are
// dashed. A line ends before the bucket that is not over, which is a point of its own: it is not a fall. What it is likely
// to have at its end is a hollow point at the end of a dashed line. Future buckets are not drawn. For the keyboard and for screen readers the chart is a slider over its buckets.

import { fill, h, loadStylesheet, refill } from "./dom.js";
import { validLanguage } from "./formats.js";
import { texts } from "./messages.js";
import { coloursAt, onColourChange } from "./theme.js";

const t = await texts("shared");

const SOURCE = "/assets/vendor/uplot-1.6.32/uPlot.iife.min.js";
const RULES = "/assets/vendor/uplot-1.6.32/uPlot.min.css";
const HEIGHT_PX = 240;
const MAX_BAR_PX = 48;
// Maximum width of the text of a marker that is always shown (website_page.css).
const MARK_TEXT_PX = 160;
// With more buckets than this lines are thinner, as those of minutes.
const MANY = 500;

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
      reject(new Error(t("chart_library_failed")));
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
 *   marks            [{ at, label }, ...]: markers at buckets, with a text; optional
 *   when(i)          the days of a bucket as text; only with marks
 *   openMark(mark)   called when a marker is clicked; optional
 *   open             index of the bucket that is not over, or -1
 *   likely           what that bucket is likely to have at its end, or null; optional, on lines
 *   partial          indexes of other buckets that are not counted in full; optional
 *   hatched          indexes of buckets with a hatched background; optional
 *   bars             whether `now` is drawn as bars, and `before` with points; optional
 *   text(i)          a bucket as text; tip(i) as nodes
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
  // Beside the slider: what is inside one has no roles of its own.
  const marks = h("ul", { class: "chart-marks", "aria-label": t("annotations"), hidden: true });
  fill(host, slider, marks);
  // Starts loading while the figures are fetched; draw() reports a failure.
  load().catch(() => {});
  /** @type {{ plot: any, data: ChartData | null, at: number, width: number, byTouch: boolean }} */
  const state = { plot: null, data: null, at: -1, width: 0, byTouch: false };

  function redraw() {
    if (!state.data || !window.uPlot || !place.clientWidth) return;
    state.plot?.destroy();
    state.width = place.clientWidth;
    state.plot = new window.uPlot(options(state, host, shown, drawMarks), rows(state.data), place);
  }

  /**
   * @param {any} plot
   */
  function drawMarks(plot) {
    const { data } = state;
    if (!data) return;
    const own = data.marks || [];
    marks.hidden = !own.length;
    const places = own.map((mark) => plot.valToPos(mark.at, "x") + plot.over.offsetLeft);
    refill(
      marks,
      own.map((mark, i) => {
        const x = places[i];
        // Where nothing is near, the text is shown without pointing at the marker.
        const isAlone = places.every((other, j) => j === i || Math.abs(other - x) > 2 * MARK_TEXT_PX);
        const label = `${mark.label}, ${data.when?.(mark.at)}`;
        const open = () => data.openMark?.(mark);
        const props = { class: "chart-mark", type: "button", "aria-label": label, onclick: open };
        const button = h("button", { ...props, dataset: { key: String(mark.at) } });
        const side = x > state.width / 2 ? "chart-mark-text left" : "chart-mark-text";
        const item = h(
          "li",
          { class: isAlone && state.width > 4 * MARK_TEXT_PX ? "chart-mark-place named" : "chart-mark-place" },
          button,
          h("span", { class: side, "aria-hidden": "true" }, mark.label),
        );
        // In percent: printed charts have another width.
        item.style.left = `${(100 * x) / state.width}%`;
        return item;
      }),
    );
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
    slider.setAttribute("aria-valuetext", data.text(i));
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
  // Before uPlot's own listener, which stops clicks beside the middle of a bucket: it takes them for drags.
  place.addEventListener(
    "click",
    (event) => {
      const { plot, data } = state;
      if (!plot || !data || event.target !== plot.over || state.byTouch || state.at < 0) return;
      if (plot.select.width <= 8) data.pick(state.at, state.at);
    },
    { capture: true },
  );
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
  const stopColours = onColourChange(redraw);
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
      slider.setAttribute("aria-valuetext", last ? data.text(last - 1) : t("no_data"));
      redraw();
    },
    end() {
      stopColours();
      sizes.disconnect();
      state.plot?.destroy();
    },
  };
}

/**
 * @param {ChartData} data
 */
function rows({ now, before, open, likely = null, partial = [], lines = [], bars = false }) {
  const isPartial = (/** @type {number} */ i) => partial.includes(i) && (bars || i !== open);
  const done = now.map((value, i) => (i === open || isPartial(i) ? null : value));
  const isDashed = (/** @type {number} */ i) =>
    bars ? i === open || isPartial(i) : [i - 1, i, i + 1].some(isPartial) || (i + 1 === open && likely !== null);
  const dashed = now.map((value, i) => (!bars && i === open ? likely : isDashed(i) ? value : null));
  const soFar = now.map((value, i) => (!bars && i === open ? value : null));
  // A line of a single bucket is drawn as wide as two, and so are the lines across it.
  const xs = bars || now.length > 1 ? now.map((_, i) => i) : [0, 1];
  const own = layers(before || now.map(() => null), [done, dashed, soFar], bars);
  return [xs, ...own, ...lines.map(({ at }) => xs.map(() => at))];
}

/**
 * Returns what is drawn in its order: the range before lies below lines and above bars.
 *
 * @param {any} before
 * @param {any[]} now
 * @param {boolean} bars
 */
function layers(before, now, bars) {
  return bars ? [...now, before] : [before, ...now];
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
 * @param {(plot: any) => void} drawn  called when the axes have their places
 */
function options(state, host, shown, drawn) {
  const { data, width } = state;
  const colour = coloursAt(host);
  const last = data.now.length - 1;
  const ticks = data.ticks(width);
  const font = `12px ${getComputedStyle(host).fontFamily}`;
  const points = {
    show: true,
    size: 7,
    fill: colour("--data"),
    stroke: colour("--data"),
    filter: (/** @type {any} */ plot, /** @type {any} */ series) => isolatedIndexes(plot.data[series]),
  };
  const atEnd = { ...points, fill: colour("--surface"), width: 2, filter: () => [data.open] };
  // Bars need half a bucket on both sides.
  const side = data.bars ? 0.5 : 0;
  const drawing = data.bars
    ? {
        paths: window.uPlot.paths.bars({ size: [0.7, MAX_BAR_PX] }),
        width: 1,
        fill: colour("--data-bar"),
        points: { show: false },
      }
    : { width: last > MANY ? 1 : 2, fill: colour("--data-fill"), points };
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
      x: { time: false, range: [-side, Math.max(last, data.bars ? 0 : 1) + side] },
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
        size: (/** @type {any} */ _, /** @type {any[]} */ values) => 16 + widestText(values || [], font),
        gap: 8,
      },
    ],
    series: [
      {},
      ...layers(
        {
          stroke: colour("--before"),
          width: 1.5,
          points: { show: Boolean(data.bars), size: 5, fill: colour("--before") },
        },
        [
          { stroke: colour("--data"), ...drawing },
          {
            ...{ stroke: colour("--data"), ...drawing, dash: [4, 4] },
            ...(!data.bars && data.likely && { points: atEnd }),
          },
          { stroke: colour("--data"), ...drawing },
        ],
        Boolean(data.bars),
      ),
      ...(data.lines || []).map((/** @type {any} */ line) => ({
        stroke: colour(line.colour),
        width: 1.5,
        dash: [2, 4],
        points: { show: false },
      })),
    ],
    hooks: {
      drawClear: [(/** @type {any} */ plot) => hatch(plot, data.hatched || [], colour("--hatch"))],
      draw: [drawn],
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
    },
  };
}

const HATCH_PX = 6;

/**
 * Draws diagonal lines behind some buckets.
 *
 * @param {any} plot
 * @param {number[]} buckets
 * @param {string} colour
 */
function hatch(plot, buckets, colour) {
  const { ctx, bbox } = plot;
  const bottom = bbox.top + bbox.height;
  const scale = window.devicePixelRatio || 1;
  const at = (/** @type {number} */ x) =>
    Math.min(Math.max(plot.valToPos(x, "x", true), bbox.left), bbox.left + bbox.width);
  ctx.save();
  ctx.beginPath();
  for (const i of buckets) ctx.rect(at(i - 0.5), bbox.top, at(i + 0.5) - at(i - 0.5), bbox.height);
  ctx.clip();
  ctx.beginPath();
  for (let x = bbox.left - bbox.height; buckets.length && x < bbox.left + bbox.width; x += HATCH_PX * scale) {
    ctx.moveTo(x, bottom);
    ctx.lineTo(x + bbox.height, bbox.top);
  }
  ctx.strokeStyle = colour;
  ctx.lineWidth = scale;
  ctx.stroke();
  ctx.restore();
}

const MIN_LABEL_PX = 14;

/**
 * Returns the width of the widest text in pixels: letters of languages differ.
 *
 * @param {string[]} labels
 * @param {string} font
 */
function widestText(labels, font) {
  const pen = document.createElement("canvas").getContext("2d");
  if (!pen) return MIN_LABEL_PX;
  pen.font = font;
  return Math.ceil(Math.max(MIN_LABEL_PX, ...labels.map((text) => pen.measureText(text).width)));
}

const STEPS = [1, 2, 5]
  .flatMap((step) => Array.from({ length: 10 }, (_, power) => step * 10 ** power))
  .sort((a, b) => a - b);
