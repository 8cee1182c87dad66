// Draws a heatmap on canvases: cells coloured by clicks, a scroll overlay over what few pageviews reached, a profile of
// the scroll depth. Canvases have a few samples per cell and are scaled by the style sheet.
//
// The soft drawing keeps the data exact where it is: the centre of a clicked cell has the colour of its own count. Around
// clicks, colours blend and fade out to that of one click and to nothing, within SOFT_PX in every direction. Colours follow the logarithm of the count and change steadily in lightness, so that their
// order is visible without colour.

import { coloursAt } from "../shared/theme.js";

// Samples per cell and direction of the soft drawing; odd, so that one is in the centre.
const SAMPLES = 5;
// About the half of what a pointer or a finger aims at. Cells are at most 26 px wide, and 20 px high.
const SOFT_PX = 36;
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
 * Draws the clicks of the first `rows` rows; `isSoft`: softly, else as sharp cells. `width`: of the page in CSS pixels.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {Heatmap} map
 * @param {number} rows
 * @param {{ isSoft: boolean, ramp: number[][], width: number }} options
 */
export function drawClicks(canvas, map, rows, { isSoft, ramp, width: pageWidth }) {
  const samples = isSoft ? SAMPLES : 1;
  const [width, height] = [map.bins_x * samples, rows * samples];
  const shown = map.grid.filter(([, y]) => y < rows);
  const most = maxClicks(map);
  const kernel = isSoft ? softKernel(pageWidth / map.bins_x, map.bin_height) : [];
  const field = isSoft ? softField(shown, most, width, height, kernel) : plainField(shown, most, width, height);
  Object.assign(canvas, { width, height });
  const image = new ImageData(width, height);
  for (let i = 0; i < field.opacity.length; i++) {
    const opacity = Math.min(1, field.opacity[i]);
    if (!opacity) continue;
    const level = opacity * field.level[i];
    image.data.set(ramp[Math.round(level * (COLOURS - 1))], 4 * i);
    image.data[4 * i + 3] = Math.round(255 * opacity * (0.6 + 0.35 * level));
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
  const field = { level: new Float32Array(width * height), opacity: new Float32Array(width * height) };
  for (const [x, y, count] of cells) {
    field.level[y * width + x] = levelOf(count, most);
    field.opacity[y * width + x] = 1;
  }
  return field;
}

/**
 * Returns for each sample its level, the mean of the cells around it by inverse squared distance, and its opacity.
 *
 * @param {Cell[]} cells
 * @param {number} most
 * @param {number} width
 * @param {number} height
 * @param {ReturnType<typeof softKernel>} kernel
 */
function softField(cells, most, width, height, kernel) {
  const [level, opacity, sums] = [0, 0, 0].map(() => new Float32Array(width * height));
  for (const [x, y, count] of cells) {
    const own = levelOf(count, most);
    for (const { dx, dy, fade, weight } of kernel) {
      const [column, row] = [x * SAMPLES + dx, y * SAMPLES + dy];
      if (column < 0 || row < 0 || column >= width || row >= height) continue;
      const i = row * width + column;
      opacity[i] += fade;
      sums[i] += weight;
      level[i] += own * weight;
    }
  }
  for (let i = 0; i < level.length; i++) if (sums[i]) level[i] /= sums[i];
  return { level, opacity };
}

/**
 * Returns the samples around the centre of a cell that it reaches, by their distance from the cell's first sample. `fade`: 1 at
 * the centre, 0 from SOFT_PX on; `weight`: infinite at the centre but for rounding, so that the level there is the cell's own.
 *
 * @param {number} cellWidth  in CSS pixels
 * @param {number} cellHeight
 */
function softKernel(cellWidth, cellHeight) {
  const [reachX, reachY] = [cellWidth, cellHeight].map((size) => Math.ceil((SOFT_PX * SAMPLES) / size));
  const centre = (SAMPLES - 1) / 2;
  const found = [];
  for (let dy = -reachY; dy <= reachY; dy++) {
    for (let dx = -reachX; dx <= reachX; dx++) {
      const distance = Math.hypot(dx * cellWidth, dy * cellHeight) / SAMPLES / SOFT_PX;
      const left = Math.max(0, 1 - distance);
      const fade = left * left * (3 - 2 * left);
      if (fade) found.push({ dx: centre + dx, dy: centre + dy, fade, weight: fade / (distance ** 2 + 1e-6) });
    }
  }
  return found;
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
