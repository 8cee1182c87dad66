// What is drawn of a heatmap, as pixels: colours by count, cells with soft edges, the fog over what few have seen, the
// outline of how far they came. Everything is drawn small, a few samples a cell, and scaled by the style sheet.
//
// The soft edges do not lie: the middle of a cell has the colour of its own count, whatever lies beside it, and a cell
// has faded where the middles of its neighbours are. Colours go by the logarithm of the count, from few to many ever
// darker (in the dark ever lighter), so that they keep their order without colour, too.

// Samples a cell and direction, where edges are soft; odd, so that one is in the middle.
const SAMPLES = 5;
const COLOURS = 256;
const STOPS = ["--heat-0", "--heat-1", "--heat-2", "--heat-3", "--heat-4"];

/** Where a count stands between one click and the most, 0 to 1. */
export function levelOf(count, most) {
  return most < 2 ? 0.5 : Math.log(count) / Math.log(most);
}

/** The colours from few to many, 256 of [red, green, blue], from the custom properties of an element. */
export function rampOf(element) {
  const style = getComputedStyle(element);
  const stops = STOPS.map((name) => rgbOf(style.getPropertyValue(name)));
  return Array.from({ length: COLOURS }, (_, i) => {
    const at = (i / (COLOURS - 1)) * (stops.length - 1);
    const first = Math.min(Math.floor(at), stops.length - 2);
    return stops[first].map((from, channel) => Math.round(from + (stops[first + 1][channel] - from) * (at - first)));
  });
}

function rgbOf(hex) {
  const text = hex.trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

/** Draws the clicks of so many rows; `isSoft`: with soft edges, else the cells as they are. */
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
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** The count of the hottest cell. */
export function maxClicks(map) {
  return map.grid.reduce((most, [, , count]) => Math.max(most, count), 0);
}

function plainField(cells, most, width, height) {
  const field = { level: new Float32Array(width * height), weight: new Float32Array(width * height) };
  for (const [x, y, count] of cells) {
    field.level[y * width + x] = levelOf(count, most);
    field.weight[y * width + x] = 1;
  }
  return field;
}

/** Sums over cells of weight, and of level times weight: their quotient goes evenly from one cell to the next. */
function softField(cells, most, width, height) {
  const field = { level: new Float32Array(width * height), weight: new Float32Array(width * height) };
  const shape = spot();
  for (const [x, y, count] of cells) {
    const level = levelOf(count, most);
    for (const [dx, dy, weight] of shape) {
      const [column, row] = [x * SAMPLES + dx, y * SAMPLES + dy];
      if (column < 0 || row < 0 || column >= width || row >= height) continue;
      field.level[row * width + column] += level * weight;
      field.weight[row * width + column] += weight;
    }
  }
  return field;
}

/** The samples of a cell and around it: [[dx, dy, weight], ...] from its upper left. All cells' weights add up to 1. */
function spot() {
  const found = [];
  for (let dy = -SAMPLES; dy < 2 * SAMPLES; dy++) {
    for (let dx = -SAMPLES; dx < 2 * SAMPLES; dx++) {
      const weight = fading(dx) * fading(dy);
      if (weight) found.push([dx, dy, weight]);
    }
  }
  return found;
}

/** 1 in the middle of a cell, 0 in the middles of those beside it, half at the edge. */
function fading(offset) {
  const left = Math.max(0, 1 - Math.abs((offset + 0.5) / SAMPLES - 0.5));
  return left * left * (3 - 2 * left);
}

/** Draws fog over what few views have reached: the fewer, the thicker; one sample a row. */
export function drawScrollOverlay(canvas, map, rows, colour) {
  Object.assign(canvas, { width: 1, height: rows });
  const image = new ImageData(1, rows);
  for (let y = 0; y < rows; y++) {
    image.data.set(rgbOf(colour), 4 * y);
    image.data[4 * y + 3] = Math.round(255 * 0.6 * (1 - (map.scroll[y] ?? 0) / 100));
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Draws how far views came as an outline beside the page: as wide as the share that reached each row. */
export function drawScrollProfile(canvas, map, rows, colour) {
  Object.assign(canvas, { width: 100, height: rows });
  const pen = canvas.getContext("2d");
  pen.fillStyle = colour;
  for (let y = 0; y < rows; y++) pen.fillRect(0, y, map.scroll[y] ?? 0, 1);
}
