// The diagram of journeys, as SVG, and the table with the same figures. The diagram has one place in the order of Tab:
// arrow keys move from node to node, Enter continues from one.

import { fill, h, svg } from "../shared/dom.js";
import { valueText } from "../shared/fields.js";
import { capital } from "../shared/filter_words.js";
import { number, percent, percentOf } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { apart } from "../shared/readable.js";
import { addTooltip } from "../shared/tooltip.js";
import { journeyGraph, kindOf, linkPath, neighbour, nodeName } from "./journey_graph.js";

const t = await texts("journeys");
const shared = await texts("shared");
const TEXT_LENGTH = 21;
/** @type {Record<string, string>} */
const KINDS = { page: t("kind_page"), event: t("kind_event"), other: t("kind_other"), end: "" };

/**
 * Draws the diagram. `choose(step)` is called with the page or event of a node.
 *
 * @param {HTMLElement} root
 * @param {{ rows: JourneyRow[], start: FunnelStep, visits: number, direction: string, choose: (step: FunnelStep) => void }} options
 */
export function drawJourneys(root, { rows, start, visits, direction, choose }) {
  const graph = journeyGraph(rows, { start, visits, direction });
  const { columns, links, width, height } = graph;
  const bands = links.map((link) => svg("path", { class: `journey-link to-${link.to.kind}`, d: linkPath(link) }));
  /** @type {Map<JourneyNode, SVGElement>} */
  const nodes = new Map();
  const light = (/** @type {JourneyNode | null} */ node) => {
    drawing.classList.toggle("lit", node !== null);
    for (const [i, band] of bands.entries()) {
      band.classList.toggle("on", links[i].from === node || links[i].to === node);
    }
  };
  for (const node of columns.flat()) {
    const element = nodeElement(node, graph, visits, direction);
    nodes.set(node, element);
    element.setAttribute("tabindex", node.step ? "-1" : "0");
    for (const [event, on] of /** @type {[string, boolean][]} */ ([
      ["pointerenter", true],
      ["focus", true],
      ["pointerleave", false],
      ["blur", false],
    ])) {
      element.addEventListener(event, () => light(on ? node : null));
    }
    const act = () =>
      node.step && node.field && node.value !== null && choose({ field: node.field, value: node.value });
    element.addEventListener("click", act);
    element.addEventListener("keydown", (event) => {
      const next = neighbour(columns, node, /** @type {KeyboardEvent} */ (event).key);
      if (next) moveFocus(element, nodes.get(next));
      else if (/** @type {KeyboardEvent} */ (event).key === "Enter") act();
      else if (!(/** @type {KeyboardEvent} */ (event).key.startsWith("Arrow"))) return;
      event.preventDefault();
      event.stopPropagation();
    });
  }
  const values = { start: valueText(start.field, start.value) };
  const drawing = svg(
    "svg",
    {
      ...{ class: "journey", width: width + 2, height: height + 2, viewBox: `-1 -1 ${width + 2} ${height + 2}` },
      role: "group",
      "aria-label": direction === "next" ? t("journeys_after", values) : t("journeys_before", values),
    },
    bands,
    [...nodes.values()],
  );
  fill(root, drawing);
  // Backwards, the start is at the right end.
  root.scrollLeft = direction === "next" ? 0 : root.scrollWidth;
}

/**
 * @param {SVGElement} from
 * @param {SVGElement | undefined} to
 */
function moveFocus(from, to) {
  if (!to) return;
  from.setAttribute("tabindex", "-1");
  to.setAttribute("tabindex", "0");
  to.focus();
}

/**
 * @param {JourneyNode} node
 * @param {JourneyGraph} graph
 * @param {number} visits
 * @param {string} direction
 */
function nodeElement(node, { links }, visits, direction) {
  const name = nodeName(node, direction);
  const share = visits ? (100 * node.visits) / visits : null;
  const counts = t("counts", { visits: shared("count_visits", { count: node.visits }), share: percent(share) });
  const canStart = node.step > 0 && node.field !== null;
  const kind = KINDS[node.kind];
  const step = node.step ? t("step", { step: node.step }) : t("start");
  const middle = node.y + node.height / 2;
  const text = (/** @type {number} */ y, /** @type {string} */ kindOfText, /** @type {string} */ words) =>
    svg("text", { class: kindOfText, x: node.x + 10, y: middle + y }, apart(words, isolated));
  const element = svg(
    "g",
    {
      class: `journey-node is-${node.kind}${canStart ? " can-start" : ""}`,
      role: canStart ? "button" : "img",
      "aria-label": shared("label_value", { label: [name, kind, step].filter(Boolean).join(", "), value: counts }),
    },
    svg("rect", { x: node.x, y: node.y, width: node.width, height: node.height, rx: 6 }),
    text(-3, "journey-name", shortened(name)),
    text(13, "journey-count", `${number(node.visits)} · ${percent(share)}`),
  );
  addTooltip(element, () => [
    h("strong", { class: "wrap" }, name),
    kind ? h("p", { class: "soft" }, capital(kind)) : null,
    h("p", null, t("of_all_visits", { counts, count: visits })),
    ...links
      .filter(({ to }) => to === node)
      .map((link) => {
        const values = { count: number(link.visits), page: nodeName(link.from, direction) };
        return h("p", { class: "soft" }, direction === "next" ? t("after", values) : t("before", values));
      }),
    canStart ? h("p", { class: "soft" }, t("click_to_continue")) : null,
  ]);
  return element;
}

/**
 * Returns a part of a text in its own direction; SVG has no bdi.
 *
 * @param {string} direction
 * @param {Child[]} children
 */
function isolated(direction, children) {
  const style = { "unicode-bidi": direction === "auto" ? "plaintext" : "isolate" };
  return svg("tspan", { style }, children);
}

/**
 * Returns a text, shortened in the middle where it is too long for a node.
 *
 * @param {string} text
 */
function shortened(text) {
  const letters = [...text];
  if (letters.length <= TEXT_LENGTH) return text;
  return `${letters.slice(0, 7).join("")}…${letters.slice(8 - TEXT_LENGTH).join("")}`;
}

/**
 * Returns the table of the diagram.
 *
 * @param {JourneyRow[]} rows
 * @param {number} visits
 * @param {string} direction
 */
export function journeyTable(rows, visits, direction) {
  const nameOf = (/** @type {string | null} */ field, /** @type {string | null} */ value) =>
    nodeName({ kind: kindOf(field, value), value }, direction);
  const head = direction === "next" ? [t("column_from"), t("column_to")] : [t("column_after"), t("column_before")];
  return h(
    "table",
    { class: "table" },
    h("caption", { class: "visually-hidden" }, t("caption")),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        [t("column_step"), ...head].map((words) => h("th", { scope: "col" }, words)),
        [shared("figure_visits"), shared("share")].map((words) => h("th", { scope: "col", class: "num" }, words)),
      ),
    ),
    h(
      "tbody",
      null,
      rows.map((row) =>
        h(
          "tr",
          null,
          h("td", null, number(row.step)),
          h("td", { class: "wrap" }, h("bdi", null, nameOf(row.from_field, row.from_value))),
          h("th", { scope: "row", class: "wrap" }, h("bdi", null, nameOf(row.field, row.value))),
          h("td", { class: "num" }, number(row.visits)),
          h("td", { class: "num soft" }, percentOf(row.visits, visits)),
        ),
      ),
    ),
  );
}
