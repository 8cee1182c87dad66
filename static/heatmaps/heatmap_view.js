// The heatmap: a plain background, or the website's page in a frame; above it the scroll overlay, clicks, and lines at the
// fold and at scroll depths. Beside it a ruler and the scroll profile.
//
// The frame is sandboxed without permissions and sends no referrer; pointer and keyboard do not reach it, so that it
// stays on the page that the clicks belong to. A tooltip shows the cell under the pointer; the tables have the same data
// for the keyboard.

import { fill, h } from "../shared/dom.js";
import { number, percent, percentOf, wholePercent } from "../shared/formats.js";
import { coloursAt, onColourChange } from "../shared/theme.js";
import { texts } from "../shared/messages.js";
import { drawClicks, drawScrollOverlay, drawScrollProfile, rampOf } from "./heatmap_canvas.js";
import { FIRST_PLACES } from "./heatmap_lists.js";
import { areaOf, areaWords, depthReachedBy, extentOf, hotSpots, pixels, reached } from "./heatmap_grid.js";

const t = await texts("heatmaps");

// Width of the ruler, and the minimum distances of its labels and of the labels of lines.
const RULER_PX = 60;
const DEPTH_LABEL_PX = 64;
const LINE_LABEL_PX = 24;
// A label or rank farther from its place would belong to another one.
const MAX_SHIFT_PX = 48;
const STEPS_PX = [100, 200, 500, 1_000, 2_000, 5_000];
const QUARTERS = [75, 50, 25];

/**
 * Returns the view: { element, draw(state), show(area), goTo(y), end() }. state:
 *   map, kind        the API's answer and its width class
 *   title            a label for screen readers
 *   clicks, scroll   whether these are drawn
 *   isSoft           whether clicks are drawn softly
 *   url              the page to frame; null for the plain background
 */
export function heatmapView() {
  const nodes = nodesOf();
  // `state` and `extent` are set by draw(), which is called before anything is shown.
  /** @type {{ state: any, scale: number, extent: any, width: number }} */
  const own = { state: null, scale: 1, extent: null, width: 0 };

  function paint() {
    const { state, extent } = own;
    if (!state) return;
    const colour = coloursAt(nodes.element);
    const { map } = state;
    nodes.clicks.hidden = !state.clicks;
    nodes.clicks.classList.toggle("cells", !state.isSoft);
    nodes.fog.hidden = nodes.reach.hidden = !state.scroll || !map.samples;
    const { isSoft, kind } = state;
    drawClicks(nodes.clicks, map, extent.rows, { isSoft, ramp: rampOf(nodes.element), width: kind.width });
    drawScrollOverlay(nodes.fog, map, extent.rows, colour("--fog"));
    drawScrollProfile(nodes.reach, map, extent.rows, colour("--data-bar"));
  }

  function fit() {
    const { state, extent } = own;
    own.width = nodes.scroller.clientWidth;
    if (!state || !own.width) return;
    const { kind } = state;
    own.scale = Math.min(1, (own.width - RULER_PX - 16) / kind.width);
    const size = { width: kind.width * own.scale, height: extent.height * own.scale };
    Object.assign(nodes.paper.style, { width: `${size.width}px`, height: `${size.height}px` });
    const frame = nodes.under.querySelector("iframe");
    if (frame) frame.style.transform = `scale(${own.scale})`;
    fill(nodes.depths, depthsOf(extent.height, own.scale));
    fill(nodes.lines, linesOf(state, extent.height, own.scale), spotsOf(state, own.scale));
    separate(nodes.lines);
  }

  /**
   * @param {Area} area
   */
  function show(area) {
    const { state, scale } = own;
    const { map } = state;
    const size = { width: (state.kind.width / map.bins_x) * scale, height: map.bin_height * scale };
    Object.assign(nodes.mark.style, {
      left: `${area.left * size.width}px`,
      top: `${area.top * size.height}px`,
      width: `${(area.right - area.left) * size.width}px`,
      height: `${(area.bottom - area.top) * size.height}px`,
    });
    nodes.mark.hidden = nodes.tip.hidden = false;
    fill(nodes.tip, tipOf(state, area));
    const [cell, box] = [nodes.mark.getBoundingClientRect(), nodes.element.getBoundingClientRect()];
    const right = cell.right - box.left + 10;
    const fits = right + nodes.tip.offsetWidth < box.width - 16;
    const left = fits ? right : cell.left - box.left - nodes.tip.offsetWidth - 10;
    const top = Math.min(cell.top - box.top, box.height - nodes.tip.offsetHeight - 8);
    nodes.tip.style.left = `${Math.max(8, left)}px`;
    nodes.tip.style.top = `${Math.max(8, top)}px`;
  }

  function hide() {
    nodes.mark.hidden = nodes.tip.hidden = true;
  }

  /**
   * @param {number} y
   */
  function goTo(y) {
    const { map } = own.state;
    nodes.element.scrollIntoView({ block: "nearest" });
    nodes.scroller.scrollTop = Math.max(0, y * map.bin_height * own.scale - nodes.scroller.clientHeight / 3);
  }

  /**
   * @param {PointerEvent} event
   * @returns {Area | null}
   */
  function under(event) {
    if (!own.state) return null;
    const { map } = own.state;
    const box = nodes.paper.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * map.bins_x);
    const y = Math.floor((event.clientY - box.top) / own.scale / map.bin_height);
    if (x < 0 || y < 0 || x >= map.bins_x || y >= own.extent.rows) return null;
    return areaOf(map.grid.find((/** @type {Cell} */ [column, row]) => column === x && row === y) || [x, y]);
  }

  for (const name of ["pointermove", "pointerdown"]) {
    nodes.scroller.addEventListener(name, (/** @type {PointerEvent} */ event) => {
      const cell = under(event);
      if (cell) show(cell);
      else hide();
    });
  }
  nodes.scroller.addEventListener("pointerleave", hide);
  nodes.scroller.addEventListener("scroll", hide, { passive: true });
  const stopColours = onColourChange(paint);
  const sizes = new ResizeObserver(() => nodes.scroller.clientWidth !== own.width && (hide(), fit()));
  sizes.observe(nodes.scroller);

  return {
    element: nodes.element,
    draw(/** @type {any} */ state) {
      const isOther = own.state?.title !== state.title;
      Object.assign(own, { state, extent: extentOf(state.map, state.kind) });
      hide();
      drawBackground(nodes.under, state, own.extent);
      nodes.scroller.setAttribute("aria-label", state.title);
      nodes.clicks.setAttribute("aria-label", t("clicks_drawn", { count: state.map.clicks }));
      fit();
      paint();
      if (isOther) nodes.scroller.scrollTop = 0;
    },
    show(/** @type {Area} */ area) {
      goTo(area.top);
      // The scroll event of goTo() arrives up to two frames later and would hide the tooltip.
      requestAnimationFrame(() => requestAnimationFrame(() => nodes.element.isConnected && show(area)));
    },
    goTo,
    end() {
      stopColours();
      sizes.disconnect();
    },
  };
}

function nodesOf() {
  /** @type {Record<string, any>} */
  const nodes = {
    reach: h("canvas", { class: "sheet-reach" }),
    depths: h("div", { class: "sheet-depths" }),
    under: h("div", { class: "sheet-under", inert: true }),
    fog: h("canvas", { class: "sheet-fog", "aria-hidden": "true" }),
    clicks: h("canvas", { class: "sheet-clicks", role: "img" }),
    lines: h("div", { class: "sheet-lines" }),
    mark: h("div", { class: "sheet-mark", hidden: true }),
    tip: h("div", { class: "chart-tip sheet-tip", "aria-hidden": "true", hidden: true }),
  };
  nodes.paper = h("div", { class: "sheet-paper" }, nodes.under, nodes.fog, nodes.clicks, nodes.lines, nodes.mark);
  const ruler = h("div", { class: "sheet-ruler", "aria-hidden": "true" }, nodes.reach, nodes.depths);
  nodes.scroller = h(
    "div",
    { class: "sheet-scroll", tabindex: "0", role: "region" },
    h("div", { class: "sheet-row" }, ruler, nodes.paper),
  );
  nodes.element = h("div", { class: "sheet" }, nodes.scroller, nodes.tip);
  return nodes;
}

/**
 * Draws the background. A frame with the same URL stays: a reload would request the page again.
 *
 * @param {HTMLElement} under
 * @param {{ url: string | null, kind: WidthClass }} options
 * @param {{ height: number, rows: number }} extent
 */
function drawBackground(under, { url, kind }, extent) {
  const frame = under.querySelector("iframe");
  if (url && frame?.getAttribute("src") !== url) {
    fill(
      under,
      h("iframe", { src: url, title: t("framed_page", { url }), sandbox: true, referrerpolicy: "no-referrer" }),
    );
  } else if (!url) {
    fill(under, h("div", { class: "sheet-plain" }));
  }
  const shown = /** @type {HTMLElement | null} */ (under.firstElementChild);
  if (url && shown) Object.assign(shown.style, { width: `${kind.width}px`, height: `${extent.height}px` });
}

/**
 * @param {number} height
 * @param {number} scale
 */
function depthsOf(height, scale) {
  const step = STEPS_PX.find((one) => one * scale >= DEPTH_LABEL_PX) || STEPS_PX[STEPS_PX.length - 1];
  const depths = Array.from({ length: Math.floor(height / step) }, (_, i) => (i + 1) * step);
  // The last label needs space for its text.
  return depths
    .filter((depth) => (height - depth) * scale > 12)
    .map((depth) => h("span", { style: { top: `${depth * scale}px` } }, pixels(depth)));
}

/**
 * Returns the lines: the fold, labelled on the left, and the depths that 75, 50 and 25% of pageviews reached.
 *
 * @param {{ map: Heatmap, kind: WidthClass, scroll: boolean }} options
 * @param {number} height
 * @param {number} scale
 */
function linesOf({ map, kind, scroll }, height, scale) {
  const line = (/** @type {number} */ depth, /** @type {string} */ name) =>
    h("div", { class: `sheet-line ${name}`, style: { top: `${depth * scale}px` } });
  const label = (/** @type {any} */ top, /** @type {string} */ name, /** @type {string} */ words) =>
    h("span", { class: `sheet-label ${name}`, style: { top: `${top}px` } }, words);
  const found = [];
  if (kind.screen < height) {
    found.push(
      line(kind.screen, "screen"),
      label(kind.screen * scale, "screen", t("fold", { depth: pixels(kind.screen) })),
    );
  }
  let below = 0;
  for (const share of scroll && map.samples ? QUARTERS : []) {
    const depth = depthReachedBy(map, share);
    if (!depth || depth > height) continue;
    // Overlapping labels are moved down; their lines stay. At the lower edge a label stands above its line.
    const top = Math.max(below, depth * scale);
    const isLow = top + LINE_LABEL_PX > height * scale;
    below = top + LINE_LABEL_PX;
    const own = label(isLow ? depth * scale : top, "part", partWords(share, depth));
    own.classList.toggle("above", isLow);
    found.push(line(depth, "part"), own);
  }
  return found;
}

/**
 * @param {number} share
 * @param {number} depth
 */
function partWords(share, depth) {
  return t("part_reaches", { share: wholePercent(share), depth: pixels(depth) });
}

/**
 * Returns the ranks of the hot spots that are in the list beside the heatmap, at their upper right.
 *
 * @param {{ map: Heatmap, kind: WidthClass, clicks: boolean }} options
 * @param {number} scale
 */
function spotsOf({ map, kind, clicks }, scale) {
  if (!clicks) return [];
  const shown = hotSpots(map, kind).slice(0, FIRST_PLACES);
  return shown.map(({ right, top }, i) => {
    const place = { left: (right / map.bins_x) * kind.width * scale, top: top * map.bin_height * scale };
    const style = { left: `${place.left}px`, top: `${place.top}px` };
    return h("span", { class: right > 0.9 * map.bins_x ? "sheet-spot inside" : "sheet-spot", style }, number(i + 1));
  });
}

/**
 * Moves each label or rank that would cover another one before it up or down to the nearest free place, if there is one
 * near.
 *
 * @param {HTMLElement} lines
 */
function separate(lines) {
  const { top: least, bottom: most } = lines.getBoundingClientRect();
  /** @type {DOMRect[]} */
  const taken = [];
  for (const kind of [".sheet-label", ".sheet-spot"]) {
    for (const node of /** @type {NodeListOf<HTMLElement>} */ (lines.querySelectorAll(kind))) {
      const own = node.getBoundingClientRect();
      const beside = taken.filter(({ left, right }) => left < own.right && own.left < right);
      const isFree = (/** @type {number} */ by) =>
        own.top + by > least - 1 &&
        own.bottom + by < most + 1 &&
        beside.every(({ top, bottom }) => own.bottom + by < top + 1 || own.top + by > bottom - 1);
      const shifts = [0, ...beside.flatMap(({ top, bottom }) => [bottom - own.top, top - own.bottom])];
      const by = shifts.sort((one, other) => Math.abs(one) - Math.abs(other)).find(isFree) || 0;
      if (by && Math.abs(by) <= MAX_SHIFT_PX) node.style.marginTop = `${by}px`;
      taken.push(node.getBoundingClientRect());
    }
  }
}

/**
 * @param {{ map: Heatmap, clicks: boolean }} options
 * @param {Area} area
 */
function tipOf({ map, clicks }, area) {
  const { count } = area;
  const share = reached(map, area.top);
  return [
    clicks
      ? h(
          "p",
          { class: "chart-tip-now" },
          h("strong", null, count ? t("count_clicks", { count }) : t("no_clicks")),
          count
            ? h("span", { class: "soft" }, ` ${t("share_of_clicks", { share: percentOf(count, map.clicks) })}`)
            : null,
        )
      : null,
    h("p", { class: "soft" }, areaWords(area, map)),
    share === null ? null : h("p", { class: "soft" }, t("reach_this", { share: percent(share) })),
  ];
}
