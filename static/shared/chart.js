// A line over buckets of time, drawn by uPlot (vendored, loaded when the first chart is drawn) from the custom
// properties of the style sheet, anew when the colour scheme or the width changes.
//
// The x axis counts buckets, not seconds: days of 23 and 25 hours are as wide as others, and the range before lies
// bucket under bucket. The bucket that is not over yet is dashed, those ahead are not drawn. By keyboard the chart is a
// slider over its buckets, which is how screen readers can read it too.

import { fill, h, loadStylesheet } from "./dom.js";
import { validLanguage } from "./formats.js";

const SOURCE = "/assets/vendor/uplot-1.6.32/uPlot.iife.min.js";
const RULES = "/assets/vendor/uplot-1.6.32/uPlot.min.css";
const HEIGHT_PX = 240;

let loading = null;

function load() {
  loading ||= new Promise((resolve, reject) => {
    // uPlot gives navigator.language to Intl when it is loaded, which throws where that is no language tag.
    if (navigator.language !== validLanguage())
      Object.defineProperty(navigator, "language", { value: validLanguage(), configurable: true });
    const script = h("script", { src: SOURCE });
    script.addEventListener("load", () => loadStylesheet(RULES).then(() => resolve(window.uPlot)));
    script.addEventListener("error", () => {
      loading = null;
      script.remove();
      reject(new Error("the chart's code did not load"));
    });
    document.head.append(script);
  });
  return loading;
}

/**
 * A chart in `host`. Gives { draw(data), end() }; data:
 *   label            what is drawn, for who does not see it
 *   now, before      numbers by bucket; null where nothing is drawn; before may be null
 *   lines            [{ at, colour (a custom property) }, ...]: thresholds, drawn across; may be left out
 *   open             the bucket that is not over, or -1
 *   say(i)           a bucket in words; tip(i) its nodes
 *   ticks(width)     [[bucket, text], ...] for the x axis
 *   format(value)    a number for the y axis
 *   pick(i, j)       called when buckets i to j are dragged over, clicked, or Enter is pressed on one
 */
export function chart(host) {
  const tip = h("div", { class: "chart-tip", "aria-hidden": "true", hidden: true });
  const place = h("div", { class: "chart-plot" });
  const slider = h("div", { class: "chart", role: "slider", tabindex: "0", "aria-valuemin": "1" }, place, tip);
  fill(host, slider);
  // While the figures are asked for; where it fails, draw() says so.
  load().catch(() => {});
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const state = { plot: null, data: null, at: -1, width: 0, byTouch: false };

  function redraw() {
    if (!state.data || !window.uPlot || !place.clientWidth) return;
    state.plot?.destroy();
    state.width = place.clientWidth;
    state.plot = new window.uPlot(options(state, host, shown), rows(state.data), place);
  }

  function shown(i) {
    state.at = i;
    const { plot, data } = state;
    tip.hidden = i < 0;
    if (i < 0) return;
    slider.setAttribute("aria-valuenow", String(i + 1));
    slider.setAttribute("aria-valuetext", data.say(i));
    fill(tip, data.tip(i));
    const x = plot.valToPos(i, "x") + plot.over.offsetLeft;
    tip.style.left = `${Math.max(0, Math.min(x + 14 + tip.offsetWidth > state.width ? x - tip.offsetWidth - 14 : x + 14, state.width - tip.offsetWidth))}px`;
  }

  function moveTo(i) {
    const { plot, data } = state;
    if (!plot) return;
    const at = Math.min(Math.max(i, 0), data.now.length - 1);
    plot.setCursor({ left: plot.valToPos(at, "x"), top: plot.over.clientHeight / 2 });
    shown(at);
  }

  // A touch shows a bucket; only a mouse goes to it.
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
    else if (event.key === "Enter" && state.at >= 0) state.data.pick(state.at, state.at);
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
    async draw(data) {
      await load();
      Object.assign(state, { data, at: -1 });
      tip.hidden = true;
      const last = data.now.length;
      slider.setAttribute("aria-label", data.label);
      slider.setAttribute("aria-valuemax", String(last));
      slider.setAttribute("aria-valuenow", String(last));
      slider.setAttribute("aria-valuetext", last ? data.say(last - 1) : "nothing");
      redraw();
    },
    end() {
      scheme.removeEventListener("change", redraw);
      sizes.disconnect();
      state.plot?.destroy();
    },
  };
}

function rows({ now, before, open, lines = [] }) {
  const done = now.map((value, i) => (i === open ? null : value));
  const dashed = now.map((value, i) => (open >= 0 && (i === open || i === open - 1) ? value : null));
  // One bucket alone is as wide as two: so are the lines across it.
  const xs = now.length > 1 ? now.map((_, i) => i) : [0, 1];
  return [xs, before || now.map(() => null), done, dashed, ...lines.map(({ at }) => xs.map(() => at))];
}

/** Of values those that no line leads to: they are drawn as points. */
function alone(values) {
  const isThere = (i) => values[i] !== null && values[i] !== undefined;
  return values.flatMap((_, i) => (isThere(i) && !isThere(i - 1) && !isThere(i + 1) ? [i] : []));
}

function options(state, host, shown) {
  const { data, width } = state;
  const style = getComputedStyle(host);
  const colour = (name) => style.getPropertyValue(name).trim();
  const last = data.now.length - 1;
  const ticks = data.ticks(width);
  const font = `12px ${colour("--font")}`;
  const lonely = alone(data.now);
  const points = {
    show: true,
    size: 7,
    fill: colour("--data"),
    stroke: colour("--data"),
    filter: (plot, series) => lonely.filter((i) => plot.data[series][i] !== null),
  };
  const axis = { stroke: colour("--soft"), font, ticks: { show: false } };
  return {
    width,
    height: HEIGHT_PX,
    padding: [12, 28, 0, 0],
    legend: { show: false },
    cursor: {
      // On the bucket, not between two.
      move: (plot, left, top) => [left < 0 ? left : plot.valToPos(plot.posToIdx(left), "x"), top],
      y: false,
      points: { size: 8, width: 2, fill: colour("--surface") },
      drag: { x: true, y: false, setScale: false },
    },
    scales: {
      x: { time: false, range: [0, Math.max(last, 1)] },
      y: { range: (_, __, most) => [0, Math.max(most || 0, 4) * 1.04] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        splits: () => ticks.map(([at]) => at),
        values: () => ticks.map(([, text]) => text),
        size: 28,
        gap: 8,
      },
      {
        ...axis,
        grid: { stroke: colour("--line"), width: 1 },
        values: (_, values) => values.map(data.format),
        incrs: STEPS,
        space: 36,
        size: (_, values) => 16 + 7 * Math.max(2, ...(values || []).map((text) => text.length)),
        gap: 8,
      },
    ],
    series: [
      {},
      { stroke: colour("--before"), width: 1.25, points: { show: false } },
      { stroke: colour("--data"), width: 2, fill: colour("--data-fill"), points },
      { stroke: colour("--data"), width: 2, dash: [4, 4], fill: colour("--data-fill"), points },
      ...(data.lines || []).map((line) => ({
        stroke: colour(line.colour),
        width: 1.5,
        dash: [2, 4],
        points: { show: false },
      })),
    ],
    hooks: {
      setCursor: [
        (plot) =>
          plot.cursor.idx !== null && plot.cursor.left >= 0
            ? shown(plot.cursor.idx)
            : plot.cursor.left < 0 && shown(-1),
      ],
      setSelect: [
        (plot) =>
          plot.select.width > 8 &&
          data.pick(...[plot.select.left, plot.select.left + plot.select.width].map((x) => plot.posToIdx(x))),
      ],
      ready: [
        (plot) =>
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
