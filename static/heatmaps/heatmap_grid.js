// Width classes, and the cells of a heatmap. Pure.

import { number, wholePercent } from "../shared/formats.js";
import { texts } from "../shared/messages.js";

const t = await texts("heatmaps");

/**
 * The width classes that points are stored by: their name in the API, the width at which a page is drawn, and the height
 * that is visible without scrolling. Widths and heights are typical ones, in CSS pixels.
 */
/** @type {WidthClass[]} */
export const CLASSES = [
  { device: "mobile", title: t("phone"), many: t("phones"), says: t("phone_width"), width: 390, screen: 660 },
  { device: "tablet", title: t("tablet"), many: t("tablets"), says: t("tablet_width"), width: 820, screen: 1_080 },
  { device: "desktop", title: t("desktop"), many: t("desktops"), says: t("desktop_width"), width: 1_280, screen: 720 },
];
// How far from its cell with the most clicks a hot spot reaches. Buttons and links are wider than high.
const SPOT_PX = { x: 64, y: 32 };
/** Names of the thirds of a screen, from the upper left. */
const PLACES = [
  [t("top_left"), t("top_center"), t("top_right")],
  [t("left"), t("center"), t("right")],
  [t("bottom_left"), t("bottom_center"), t("bottom_right")],
];
// About 28 screens of a desktop. Deeper cells are only in the tables.
const MAX_HEIGHT_PX = 20_000;

/**
 * Returns the width class with that name.
 *
 * @param {string | null} device
 */
export function widthClass(device) {
  return CLASSES.find((one) => one.device === device);
}

/**
 * Returns "1,240 px".
 *
 * @param {number} count
 */
export function pixels(count) {
  return `${number(count)} px`;
}

/**
 * Returns the exact position of an area: "32 to 34% from the left, 640 to 660 px from the top".
 *
 * @param {Area} area
 * @param {Heatmap} map
 */
export function areaWords({ left, right, top, bottom }, map) {
  const [from, to] = [left, right].map((x) => across(x, map));
  const [first, last] = [top, bottom].map((y) => y * map.bin_height);
  return t("cell", { left: number(from), right: wholePercent(to), top: number(first), bottom: pixels(last) });
}

/**
 * Returns the distance of a column from the left, in percent with at most one decimal.
 *
 * @param {number} x
 * @param {Heatmap} map
 */
function across(x, map) {
  return Math.round((1_000 * x) / map.bins_x) / 10;
}

/**
 * Returns the area of one cell.
 *
 * @param {number[]} cell
 * @returns {Area}
 */
export function areaOf([x, y, count = 0]) {
  return { left: x, right: x + 1, top: y, bottom: y + 1, count };
}

/**
 * Returns the name of an area's position: "Top left (8%), 120 px from the top", and below the first screen "Center of
 * screen 2 (48%), 1,080 px from the top". The percentage is its distance from the left. Screens have the typical height
 * of the width class.
 *
 * @param {Area} area
 * @param {Heatmap} map
 * @param {WidthClass} kind
 */
export function placeWords({ left, right, top, bottom }, map, kind) {
  const screens = (((top + bottom) / 2) * map.bin_height) / kind.screen;
  const screen = Math.floor(screens) + 1;
  const third = (/** @type {number} */ share) => Math.min(2, Math.floor(3 * share));
  const position = PLACES[third(screens % 1)][third((left + right) / 2 / map.bins_x)];
  const values = { position, left: wholePercent(across(left, map)), depth: pixels(top * map.bin_height) };
  return screen === 1 ? t("spot", values) : t("spot_on_screen", { ...values, screen });
}

/**
 * Returns the hot spots: areas of clicked cells around the cell with the most clicks of each, which belong to no spot
 * before. By clicks, descending; equal ones from the upper left.
 *
 * @param {Heatmap} map
 * @param {WidthClass} kind
 * @returns {Area[]}
 */
export function hotSpots(map, kind) {
  const reachX = (SPOT_PX.x * map.bins_x) / kind.width;
  const reachY = SPOT_PX.y / map.bin_height;
  const left = new Map(cellsByClicks(map).map((cell) => [cell[1] * map.bins_x + cell[0], cell]));
  const spots = [];
  for (const [, [x, y]] of left) {
    /** @type {Area} */
    const spot = { left: x, right: x, top: y, bottom: y, count: 0 };
    for (let row = Math.max(0, Math.ceil(y - reachY)); row <= y + reachY; row++) {
      for (let column = Math.max(0, Math.ceil(x - reachX)); column <= x + reachX; column++) {
        const key = row * map.bins_x + column;
        const cell = column >= 0 && column < map.bins_x ? left.get(key) : undefined;
        if (!cell) continue;
        left.delete(key);
        spot.count += cell[2];
        spot.left = Math.min(spot.left, column);
        spot.right = Math.max(spot.right, column + 1);
        spot.top = Math.min(spot.top, row);
        spot.bottom = Math.max(spot.bottom, row + 1);
      }
    }
    spots.push(spot);
  }
  return spots.sort((one, other) => other.count - one.count || one.top - other.top || one.left - other.left);
}

/**
 * Returns the text of the element that was clicked in an area: that of its cell with the most clicks of those that have a
 * text; "" where none has.
 *
 * @param {Area} area
 * @param {Heatmap} map
 */
export function textOf({ left, right, top, bottom }, map) {
  const clicks = new Map(map.grid.map(([x, y, count]) => [y * map.bins_x + x, count]));
  let [most, text] = [0, ""];
  for (const [x, y, own] of map.texts) {
    const count = clicks.get(y * map.bins_x + x) || 0;
    if (x >= left && x < right && y >= top && y < bottom && count > most) [most, text] = [count, own];
  }
  return text;
}

/**
 * Returns the share of pageviews, in percent, that reached the top of a row of cells; null without scroll data.
 *
 * @param {Heatmap} map
 * @param {number} y
 */
export function reached(map, y) {
  return map.samples ? (map.scroll[y] ?? 0) : null;
}

/**
 * Returns the depth in pixels that at least this share of pageviews, in percent, reached.
 *
 * @param {Heatmap} map
 * @param {number} share
 */
export function depthReachedBy(map, share) {
  return (
    Math.max(
      0,
      map.scroll.findLastIndex((one) => one >= share),
    ) * map.bin_height
  );
}

/**
 * Returns how much of a page is drawn: { height, rows, isCut }, in pixels and rows of cells.
 *
 * @param {Heatmap} map
 * @param {WidthClass} kind
 */
export function extentOf(map, kind) {
  const lowest = map.grid.length ? map.grid[map.grid.length - 1][1] + 1 : 0;
  const deepest = Math.max(lowest, map.scroll.length) * map.bin_height;
  const height = Math.min(Math.max(deepest, kind.screen), MAX_HEIGHT_PX);
  const rows = Math.ceil(height / map.bin_height);
  return { height: rows * map.bin_height, rows, isCut: deepest > MAX_HEIGHT_PX };
}

/**
 * Returns the cells by clicks, descending; equal ones from the upper left.
 *
 * @param {Heatmap} map
 */
export function cellsByClicks(map) {
  return [...map.grid].sort((one, other) => other[2] - one[2] || one[1] - other[1] || one[0] - other[0]);
}
