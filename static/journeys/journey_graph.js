// Journeys as a graph: the steps of visits as columns of nodes, and the links between them, with their places in a
// drawing. And the page's part of the address, by the read API's parameters: ?start=pathname:/pricing&steps=3. Pure.
//
// A node: a page or an event that visits have at a step, "other" (all values beyond the limit), or "end": the visits that
// end there, or begin there where the journey is followed backwards.

import { readStep, stepText } from "../funnels/steps.js";
import { texts } from "../shared/messages.js";
import { readablePath } from "../shared/readable.js";

const t = await texts("journeys");

export const DIRECTIONS = [
  ["next", t("what_follows")],
  ["previous", t("what_comes_before")],
];
export const MAX_STEPS = 5;
const STEPS = 3;
/** How many pages and events each step lists; the first is the read API's default. */
export const LIMITS = [5, 10, 20];

/** The page's part of the address. `start` is null where none is given. */
/** @type {ViewState} */
export const JOURNEY_STATE = {
  read(/** @type {URLSearchParams} */ query) {
    const [steps, limit] = [Number(query.get("steps")), Number(query.get("limit"))];
    return {
      start: readStep(query.get("start") || ""),
      direction: query.get("direction") === "previous" ? "previous" : "next",
      steps: Number.isInteger(steps) && steps >= 1 && steps <= MAX_STEPS ? steps : STEPS,
      limit: LIMITS.includes(limit) ? limit : LIMITS[0],
    };
  },
  write: ({ start, direction, steps, limit }) => [
    ...(start ? [["start", stepText(start)]] : []),
    ...(direction === "next" ? [] : [["direction", direction]]),
    ...(steps === STEPS ? [] : [["steps", String(steps)]]),
    ...(limit === LIMITS[0] ? [] : [["limit", String(limit)]]),
  ],
};

// Sizes in CSS pixels.
const [NODE_WIDTH, LINK_WIDTH, NODE_GAP, LEAST_HEIGHT, ALL_HEIGHT] = [168, 72, 10, 40, 300];

/**
 * Returns the graph of a report's rows: { columns, links, width, height }. The first column is the start; going
 * backwards, columns stand from right to left. Nodes of a column are ordered by visits, "other" and "end" last.
 *
 * @param {JourneyRow[]} rows
 * @param {{ start: FunnelStep, visits: number, direction: string }} options
 * @returns {JourneyGraph}
 */
export function journeyGraph(rows, { start, visits, direction }) {
  /** @type {Map<string, JourneyNode>[]} */
  const columns = [new Map()];
  const first = nodeOf(0, start.field, start.value);
  first.visits = visits;
  columns[0].set(first.key, first);
  const links = rows.map((row) => {
    const from = columns[row.step - 1].get(keyOf(row.from_field, row.from_value));
    columns[row.step] ||= new Map();
    const node = nodeOf(row.step, row.field, row.value);
    const to = columns[row.step].get(node.key) || node;
    columns[row.step].set(to.key, to);
    to.visits += row.visits;
    return { from: from || first, to, visits: row.visits };
  });
  const ordered = columns.map((column) => [...column.values()].sort(byVisits));
  const height = place(ordered, visits, direction);
  for (const column of ordered) for (const node of column) placeLinks(node, links, visits);
  return { columns: ordered, links: /** @type {JourneyLink[]} */ (links), ...sizeOf(ordered.length), height };
}

/**
 * @param {number} columns
 */
function sizeOf(columns) {
  return { width: columns * NODE_WIDTH + (columns - 1) * LINK_WIDTH };
}

/**
 * @param {string | null} field
 * @param {string | null} value
 */
function keyOf(field, value) {
  return `${field}:${value}`;
}

/**
 * Returns the kind of the node of a field and value.
 *
 * @param {string | null} field
 * @param {string | null} value
 */
export function kindOf(field, value) {
  return field === "pathname" ? "page" : field ? "event" : value === null ? "end" : "other";
}

/**
 * @param {number} step
 * @param {string | null} field
 * @param {string | null} value
 * @returns {JourneyNode}
 */
function nodeOf(step, field, value) {
  const kind = kindOf(field, value);
  return { key: keyOf(field, value), kind, step, field, value, visits: 0, x: 0, y: 0, width: NODE_WIDTH, height: 0 };
}

/**
 * @param {JourneyNode} one
 * @param {JourneyNode} other
 */
function byVisits(one, other) {
  const rank = (/** @type {JourneyNode} */ { kind }) => ["other", "end"].indexOf(kind);
  return rank(one) - rank(other) || other.visits - one.visits || (one.key < other.key ? -1 : 1);
}

/**
 * Sets the places of the nodes; returns the height of the drawing.
 *
 * @param {JourneyNode[][]} columns
 * @param {number} visits
 * @param {string} direction
 */
function place(columns, visits, direction) {
  let height = 0;
  for (const [i, column] of columns.entries()) {
    const at = direction === "next" ? i : columns.length - 1 - i;
    let y = 0;
    for (const node of column) {
      node.x = at * (NODE_WIDTH + LINK_WIDTH);
      node.y = y;
      node.height = Math.max(LEAST_HEIGHT, Math.round(scaled(node.visits, visits)));
      y += node.height + NODE_GAP;
    }
    height = Math.max(height, y - NODE_GAP);
  }
  return height;
}

/**
 * @param {number} visits
 * @param {number} all
 */
function scaled(visits, all) {
  return all ? (ALL_HEIGHT * visits) / all : 0;
}

/**
 * Sets the places of a node's links at its two sides, in the order of the nodes at their other ends, around its middle.
 *
 * @param {JourneyNode} node
 * @param {any[]} links
 * @param {number} all
 */
function placeLinks(node, links, all) {
  for (const [own, other, side] of [
    ["from", "to", "start"],
    ["to", "from", "end"],
  ]) {
    const ours = links.filter((link) => link[own] === node).sort((one, two) => one[other].y - two[other].y);
    let y = node.y + node.height / 2 - ours.reduce((sum, { visits }) => sum + scaled(visits, all), 0) / 2;
    for (const link of ours) {
      const thickness = scaled(link.visits, all);
      link[side] = y + thickness / 2;
      link.thickness = Math.max(1, thickness);
      y += thickness;
    }
  }
}

/**
 * Returns the outline of a link, a band from one side of a node to the facing side of the other.
 *
 * @param {JourneyLink} link
 */
export function linkPath({ from, to, start, end, thickness }) {
  const isRight = to.x > from.x;
  const [x1, x2] = isRight ? [from.x + from.width, to.x] : [from.x, to.x + to.width];
  const middle = (x1 + x2) / 2;
  const edge = (/** @type {number} */ side) =>
    [start, end].map((y) => Math.round(10 * (y + (side * thickness) / 2)) / 10);
  const [[above1, above2], [below1, below2]] = [edge(-1), edge(1)];
  const upper = `M${x1} ${above1}C${middle} ${above1} ${middle} ${above2} ${x2} ${above2}`;
  return `${upper}V${below2}C${middle} ${below2} ${middle} ${below1} ${x1} ${below1}Z`;
}

/**
 * Returns a node's name.
 *
 * @param {{ kind: string, value: string | null }} node
 * @param {string} direction
 */
export function nodeName({ kind, value }, direction) {
  if (kind === "end") return direction === "next" ? t("end_of_visit") : t("start_of_visit");
  if (kind === "other") return t("other");
  return kind === "page" ? readablePath(value || "") : value || "";
}

/**
 * Returns the node to go to from one by an arrow key; null for other keys and at the edges.
 *
 * @param {JourneyNode[][]} columns
 * @param {JourneyNode} node
 * @param {string} key
 */
export function neighbour(columns, node, key) {
  const column = columns[node.step];
  const at = column.indexOf(node);
  if (key === "ArrowUp" || key === "ArrowDown") return column[at + (key === "ArrowUp" ? -1 : 1)] || null;
  if (key !== "ArrowLeft" && key !== "ArrowRight") return null;
  const x = node.x + (key === "ArrowLeft" ? -1 : 1) * (NODE_WIDTH + LINK_WIDTH);
  const next = columns.find((one) => one[0]?.x === x);
  if (!next) return null;
  const middle = node.y + node.height / 2;
  const distance = (/** @type {JourneyNode} */ one) => Math.abs(one.y + one.height / 2 - middle);
  return next.reduce((near, one) => (distance(one) < distance(near) ? one : near));
}
