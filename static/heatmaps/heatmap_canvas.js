// Draws a heatmap on canvases: cells coloured by clicks, a scroll overlay over what few pageviews reached, a profile of
// the scroll depth. Canvases have a few samples per cell and are scaled by the style sheet.
//
// Soft edges keep the data exact: the centre of a cell has the colour of its own count, and a cell fades out at the
// centres of its neighbours. Colours follow the logarithm of the count and change steadily in lightness, so that their
// order is visible without colour.

import { coloursAt } from "../shared/theme.js";

// Samples per cell and direction with soft edges; odd, so that one is in the centre.
const SAMPLES = 5;
const COLOURS = 256;
const STOPS = ["--heat-0", "--heat-1", "--heat-2", "--heat-3", "--heat-4"];

/**
 * Returns where a count lies between one click and the maximum, 0 to 1.
 *
 * @param {number} count
 * @param {number} most
 */
export function levelOf(count, most) {
  return most < 2 ? 0.5 : Math.log(count) / Math.log(most);
}

/**
 * Returns the colours from few to many clicks, 256 of [red, green, blue], from the custom properties of an element.
 *
 * @param {Element} element
 */
export function rampOf(element) {
  const colour = coloursAt(element);
  const stops = STOPS.map((name) => channelsOf(colour(name)));
  return Array.from({ length: COLOURS }, (_, i) => {
    const at = (i / (COLOURS - 1)) * (stops.length - 1);
    const first = Math.min(Math.floor(at), stops.length - 2);
    return stops[first].map((from, channel) => Math.round(from + (stops[first + 1][channel] - from) * (at - first)));
  });
}

/**
 * Returns [red, green, blue] of a computed colour: "rgb(29, 28, 25)"
 *
 * @param {string} colour
 */
function channelsOf(colour) {
  return (colour.match(/[\d.]+/g) || []).slice(0, 3).map(Number);
}

/**
 * Draws the clicks of the first `rows` rows; `isSoft`: with soft edges, else with sharp cells.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {Heatmap} map
 * @param {number} rows
 * @param {{ isSoft: boolean, ramp: number[][] }} options
 */
export function drawClicks(canvas, map, rows, { isSoft, ramp }) {
  const samples = isSoft ? SAMPLES : 1;
  const [width, height] = [map.bins_x * samples, rows * samples];
  const shown = map.grid.filter(([, y]) => y < rows);
  const most = maxClicks(map);
  const field = isSoft ? softField(shown, most, width, height) : plainField(shown, most, width, height);
  Object.assign(canvas, { width, height });
  const image = new ImageData(width, height);
  for (let i = 0; i < field.weight.length; i++) {
    const weight = field.weight[i];
    if (!weight) continue;
    const level = field.level[i] / weight;
    image.data.set(ramp[Math.round(level * (COLOURS - 1))], 4 * i);
    image.data[4 * i + 3] = Math.round(255 * Math.min(1, weight) * (0.6 + 0.35 * level));
  }
  canvas.getContext("2d")?.putImageData(image, 0, 0);
}

/**
 * Returns the clicks of the cell with the most clicks.
 *
 * @param {Heatmap} map
 */
export function maxClicks(map) {
  return map.grid.reduce((most, [, , count]) => Math.max(most, count), 0);
}

/**
 * @param {Cell[]} cells
 * @param {number} most
 * @param {number} width
 * @param {number} height
 */
function plainField(cells, most, width, height) {
  const field = { level: new Float32Array(width * height), weight: new Float32Array(width * height) };
  for (const [x, y, count] of cells) {
    field.level[y * width + x] = levelOf(count, most);
    field.weight[y * width + x] = 1;
  }
  return field;
}

/**
 * Returns for each sample the sums of weight and of level times weight; their quotient blends from cell to cell.
 *
 * @param {Cell[]} cells
 * @param {number} most
 * @param {number} width
 * @param {number} height
 */
function softField(cells, most, width, height) {
  const field = { level: new Float32Array(width * height), weight: new Float32Array(width * height) };
  const kernel = softKernel();
  for (const [x, y, count] of cells) {
    const level = levelOf(count, most);
    for (const [dx, dy, weight] of kernel) {
      const [column, row] = [x * SAMPLES + dx, y * SAMPLES + dy];
      if (column < 0 || row < 0 || column >= width || row >= height) continue;
      field.level[row * width + column] += level * weight;
      field.weight[row * width + column] += weight;
    }
  }
  return field;
}

/** Returns the samples in and around a cell: [[dx, dy, weight], ...] from its upper left. Weights of all cells add up to 1. */
function softKernel() {
  const found = [];
  for (let dy = -SAMPLES; dy < 2 * SAMPLES; dy++) {
    for (let dx = -SAMPLES; dx < 2 * SAMPLES; dx++) {
      const weight = edgeWeight(dx) * edgeWeight(dy);
      if (weight) found.push([dx, dy, weight]);
    }
  }
  return found;
}

/**
 * Returns a weight: 1 at the centre of a cell, 0.5 at its edge, 0 at the centres of its neighbours.
 *
 * @param {number} offset
 */
function edgeWeight(offset) {
  const left = Math.max(0, 1 - Math.abs((offset + 0.5) / SAMPLES - 0.5));
  return left * left * (3 - 2 * left);
}

/**
 * Draws an overlay over what few pageviews reached: the fewer, the denser; one sample per row.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {Heatmap} map
 * @param {number} rows
 * @param {string} colour
 */
export function drawScrollOverlay(canvas, map, rows, colour) {
  Object.assign(canvas, { width: 1, height: rows });
  const image = new ImageData(1, rows);
  for (let y = 0; y < rows; y++) {
    image.data.set(channelsOf(colour), 4 * y);
    image.data[4 * y + 3] = Math.round(255 * 0.6 * (1 - (map.scroll[y] ?? 0) / 100));
  }
  canvas.getContext("2d")?.putImageData(image, 0, 0);
}

/**
 * Draws the scroll profile beside the page: as wide as the share of pageviews that reached each row.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {Heatmap} map
 * @param {number} rows
 * @param {string} colour
 */
export function drawScrollProfile(canvas, map, rows, colour) {
  Object.assign(canvas, { width: 100, height: rows });
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.fillStyle = colour;
  for (let y = 0; y < rows; y++) pen.fillRect(0, y, map.scroll[y] ?? 0, 1);
}
