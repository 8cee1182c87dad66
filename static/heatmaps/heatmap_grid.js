// Width classes, and where something is on a page, in words. Pure: nothing here touches the page or the network.

import { number, percent } from "../shared/formats.js";

/**
 * The width classes that points are kept by: what the API calls them, how wide a page of theirs is drawn, and how much
 * of it is seen without scrolling. Widths and screens are our choice: usual ones, in CSS pixels.
 */
export const CLASSES = [
  { device: "mobile", title: "Phone", many: "phones", says: "narrower than 640 px", width: 390, screen: 660 },
  { device: "tablet", title: "Tablet", many: "tablets", says: "640 to 1,023 px wide", width: 820, screen: 1_080 },
  { device: "desktop", title: "Desktop", many: "desktops", says: "1,024 px wide or more", width: 1_280, screen: 720 },
];
// our choice: some 28 screens of a desktop; what lies deeper is in the tables.
const MAX_HEIGHT_PX = 20_000;

export function widthClass(device) {
  return CLASSES.find((one) => one.device === device);
}

/** 1,240 px */
export function pixels(count) {
  return `${number(count)} px`;
}

/** "32 to 34% from the left, 640 to 660 px down", of a cell of a map. */
export function cellWords([x, y], map) {
  const share = 100 / map.bins_x;
  const [left, right] = [x * share, (x + 1) * share].map((value) => Math.round(value * 10) / 10);
  const top = y * map.bin_height;
  return `${number(left)} to ${percent(right, 1)} from the left, ${number(top)} to ${pixels(top + map.bin_height)} down`;
}

/** The share of views, in percent, that reached the top of a row of cells; null where nothing is known of any. */
export function reached(map, y) {
  return map.samples ? (map.scroll[y] ?? 0) : null;
}

/** The depth in pixels that at least this share of views, in percent, reached. */
export function depthReachedBy(map, share) {
  return (
    Math.max(
      0,
      map.scroll.findLastIndex((one) => one >= share),
    ) * map.bin_height
  );
}

/** How much of a page is drawn: { height, rows, isCut }, in pixels and rows of cells. */
export function extentOf(map, kind) {
  const lowest = map.grid.length ? map.grid.at(-1)[1] + 1 : 0;
  const deepest = Math.max(lowest, map.scroll.length) * map.bin_height;
  const height = Math.min(Math.max(deepest, kind.screen), MAX_HEIGHT_PX);
  const rows = Math.ceil(height / map.bin_height);
  return { height: rows * map.bin_height, rows, isCut: deepest > MAX_HEIGHT_PX };
}

/** Cells by count, the hottest first; of equal ones the upper left first. */
export function cellsByClicks(map) {
  return [...map.grid].sort((one, other) => other[2] - one[2] || one[1] - other[1] || one[0] - other[0]);
}

/** A share of clicks, in percent: a few in thousands are not none. */
export function shareOf(count, all) {
  const share = (100 * count) / all;
  return share < 0.1 ? `<${percent(0.1)}` : percent(share, 1, 1);
}
