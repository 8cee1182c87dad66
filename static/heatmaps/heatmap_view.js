// The sheet that a heatmap is drawn on: a plain page with an outline of its own, or the website's page itself in a
// frame; over it fog, clicks, and lines at the first screen's end and where a part of the views stopped. Beside it how
// deep it is, and how many came how far.
//
// The frame runs no script, may do nothing, and is told nothing of this page; neither pointer nor keyboard come into
// it, so that it stays the page that the clicks are of. A hint shows the cell under the pointer; the tables beside the
// sheet have the same for the keyboard.

import { fill, h } from "../shared/dom.js";
import { plural, percent } from "../shared/formats.js";
import { drawClicks, drawScrollOverlay, drawScrollProfile, rampOf } from "./heatmap_canvas.js";
import { cellWords, depthReachedBy, extentOf, pixels, reached, shareOf } from "./heatmap_grid.js";

// Room for the depths beside the sheet, and how far apart two of them are at least.
const RULER_PX = 60;
const A_DEPTH_PX = 64;
const A_LABEL_PX = 24;
const STEPS_PX = [100, 200, 500, 1_000, 2_000, 5_000];
const QUARTERS = [75, 50, 25];

/**
 * A sheet; gives { element, draw(state), show(x, y), goTo(y), end() }. state:
 *   map, kind        an answer of the API, and its width class
 *   title            what is shown, for who does not see it
 *   clicks, scroll   whether these are drawn
 *   isSoft           cells with soft edges
 *   url              the page to be drawn over; null for the plain sheet
 */
export function heatmapView() {
  const nodes = nodesOf();
  const own = { state: null, scale: 1, extent: null, width: 0 };
  const scheme = matchMedia("(prefers-color-scheme: dark)");

  function paint() {
    const { state, extent } = own;
    if (!state) return;
    const colour = (name) => getComputedStyle(nodes.element).getPropertyValue(name).trim();
    const { map } = state;
    nodes.clicks.hidden = !state.clicks;
    nodes.clicks.classList.toggle("cells", !state.isSoft);
    nodes.fog.hidden = nodes.reach.hidden = !state.scroll || !map.samples;
    drawClicks(nodes.clicks, map, extent.rows, { isSoft: state.isSoft, ramp: rampOf(nodes.element) });
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
    for (const side of ["width", "height"]) nodes.paper.style[side] = `${size[side]}px`;
    const frame = nodes.under.querySelector("iframe");
    if (frame) frame.style.transform = `scale(${own.scale})`;
    fill(nodes.depths, depthsOf(extent.height, own.scale));
    fill(nodes.lines, linesOf(state, extent.height, own.scale));
  }

  function show(x, y) {
    const { state, scale } = own;
    const { map } = state;
    const size = { width: (state.kind.width / map.bins_x) * scale, height: map.bin_height * scale };
    Object.assign(nodes.mark.style, {
      left: `${x * size.width}px`,
      top: `${y * size.height}px`,
      width: `${size.width}px`,
      height: `${size.height}px`,
    });
    nodes.mark.hidden = nodes.tip.hidden = false;
    fill(nodes.tip, tipOf(state, x, y));
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

  function goTo(y) {
    const { map } = own.state;
    nodes.element.scrollIntoView({ block: "nearest" });
    nodes.scroller.scrollTop = Math.max(0, y * map.bin_height * own.scale - nodes.scroller.clientHeight / 3);
  }

  function under(event) {
    if (!own.state) return null;
    const { map } = own.state;
    const box = nodes.paper.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * map.bins_x);
    const y = Math.floor((event.clientY - box.top) / own.scale / map.bin_height);
    return x >= 0 && y >= 0 && x < map.bins_x && y < own.extent.rows ? [x, y] : null;
  }

  for (const name of ["pointermove", "pointerdown"]) {
    nodes.scroller.addEventListener(name, (event) => {
      const cell = under(event);
      if (cell) show(...cell);
      else hide();
    });
  }
  nodes.scroller.addEventListener("pointerleave", hide);
  nodes.scroller.addEventListener("scroll", hide, { passive: true });
  scheme.addEventListener("change", paint);
  const sizes = new ResizeObserver(() => nodes.scroller.clientWidth !== own.width && (hide(), fit()));
  sizes.observe(nodes.scroller);

  return {
    element: nodes.element,
    draw(state) {
      const isOther = own.state?.title !== state.title;
      Object.assign(own, { state, extent: extentOf(state.map, state.kind) });
      hide();
      lay(nodes.under, state, own.extent);
      nodes.scroller.setAttribute("aria-label", state.title);
      nodes.clicks.setAttribute("aria-label", `${plural(state.map.clicks, "click")} drawn; the table lists where`);
      fit();
      paint();
      if (isOther) nodes.scroller.scrollTop = 0;
    },
    show(x, y) {
      goTo(y);
      // The scroll that this makes is told later, and would hide it.
      requestAnimationFrame(() => requestAnimationFrame(() => nodes.element.isConnected && show(x, y)));
    },
    goTo,
    end() {
      scheme.removeEventListener("change", paint);
      sizes.disconnect();
    },
  };
}

function nodesOf() {
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

/** What lies under the clicks. A page that is there already stays: to open it again would ask the website again. */
function lay(under, { url, kind }, extent) {
  const frame = under.querySelector("iframe");
  if (url && frame?.getAttribute("src") !== url) {
    fill(
      under,
      h("iframe", { src: url, title: `The page itself, ${url}`, sandbox: true, referrerpolicy: "no-referrer" }),
    );
  } else if (!url) {
    fill(under, h("div", { class: "sheet-plain" }));
  }
  if (url) Object.assign(under.firstChild.style, { width: `${kind.width}px`, height: `${extent.height}px` });
}

function depthsOf(height, scale) {
  const step = STEPS_PX.find((one) => one * scale >= A_DEPTH_PX) || STEPS_PX.at(-1);
  const depths = Array.from({ length: Math.floor(height / step) }, (_, i) => (i + 1) * step);
  // The last one needs room for its text.
  return depths
    .filter((depth) => (height - depth) * scale > 12)
    .map((depth) => h("span", { style: { top: `${depth * scale}px` } }, pixels(depth)));
}

/** The first screen's end on the left, and on the right where a quarter, half and three quarters of the views were. */
function linesOf({ map, kind, scroll }, height, scale) {
  const line = (depth, name) => h("div", { class: `sheet-line ${name}`, style: { top: `${depth * scale}px` } });
  const label = (top, name, words) => h("span", { class: `sheet-label ${name}`, style: { top: `${top}px` } }, words);
  const found = [];
  if (kind.screen < height)
    found.push(
      line(kind.screen, "screen"),
      label(kind.screen * scale, "screen", `First screen, ${pixels(kind.screen)}`),
    );
  let below = 0;
  for (const share of scroll && map.samples ? QUARTERS : []) {
    const depth = depthReachedBy(map, share);
    if (!depth || depth > height) continue;
    // Labels that would lie over each other are moved down; the lines stay.
    const top = Math.max(below, Math.min(depth, height) * scale);
    below = top + A_LABEL_PX;
    if (top > height * scale - 4) found.push(label(height * scale - A_LABEL_PX, "part", partWords(share, depth)));
    else found.push(line(depth, "part"), label(top, "part", partWords(share, depth)));
  }
  return found;
}

function partWords(share, depth) {
  return `${percent(share)} of views reach ${pixels(depth)}`;
}

function tipOf({ map, clicks }, x, y) {
  const count = map.grid.find(([column, row]) => column === x && row === y)?.[2] || 0;
  const share = reached(map, y);
  return [
    clicks
      ? h(
          "p",
          { class: "chart-tip-now" },
          h("strong", null, count ? plural(count, "click") : "No click"),
          count ? h("span", { class: "soft" }, ` ${shareOf(count, map.clicks)} of all`) : null,
        )
      : null,
    h("p", { class: "soft" }, cellWords([x, y], map)),
    share === null ? null : h("p", { class: "soft" }, `${percent(share)} of views reach this depth`),
  ];
}
