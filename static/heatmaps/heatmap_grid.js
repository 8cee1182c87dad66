// Width classes, and the cells of a heatmap. Pure.

import { number, percent } from "../shared/formats.js";
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
 * Returns the position of a cell: "32 to 34% from the left, 640 to 660 px from the top".
 *
 * @param {any[]} options
 * @param {Heatmap} map
 */
export function cellWords([x, y], map) {
  const share = 100 / map.bins_x;
  const [left, right] = [x * share, (x + 1) * share].map((value) => Math.round(value * 10) / 10);
  const top = y * map.bin_height;
  const bottom = pixels(top + map.bin_height);
  return t("cell", { left: number(left), right: percent(right, 1), top: number(top), bottom });
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

/**
 * Returns a share of clicks in percent; a non-zero share is never shown as 0%.
 *
 * @param {number} count
 * @param {number} all
 */
export function shareOf(count, all) {
  const share = (100 * count) / all;
  return share < 0.1 ? `<${percent(0.1)}` : percent(share, 1, 1);
}
