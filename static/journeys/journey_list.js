// Journeys as lists, for screens that are too narrow for the diagram: of each step, what follows each page or event.

import { UNITS, barList } from "../shared/bar_list.js";
import { h } from "../shared/dom.js";
import { textNode } from "../shared/fields.js";
import { texts } from "../shared/messages.js";
import { kindOf, nodeName } from "./journey_graph.js";

const t = await texts("journeys");

/**
 * Returns the lists. `choose(step)` is called with the page or event of a row.
 *
 * @param {JourneyRow[]} rows
 * @param {{ direction: string, choose: (step: FunnelStep) => void }} options
 */
export function journeyLists(rows, { direction, choose }) {
  // In the order of the report: by step, then by visits.
  /** @type {Map<string, JourneyRow[]>} */
  const groups = new Map();
  for (const row of rows) {
    const key = JSON.stringify([row.step, row.from_field, row.from_value]);
    groups.set(key, [...(groups.get(key) || []), row]);
  }
  return [...groups.values()].map((group) => {
    const [{ step, from_field: field, from_value: value }] = group;
    const from = nameNode(field, value, direction);
    const title = direction === "next" ? t.rich("step_after", { step, from }) : t.rich("step_before", { step, from });
    const visits = group.reduce((sum, row) => sum + row.visits, 0);
    const bars = group.map((row) => ({
      key: `${step} ${value} ${row.field}=${row.value}`,
      value: row.value,
      field: row.field,
      text: nodeName({ kind: kindOf(row.field, row.value), value: row.value }, direction),
      label: nameNode(row.field, row.value, direction),
      count: row.visits,
      share: row.visits / visits,
      bar: row.visits / visits,
    }));
    const [steps, rest] = [true, false].map((isStep) => bars.filter(({ field: own }) => (own !== null) === isStep));
    return h(
      "section",
      { class: "journey-step" },
      h("h2", { class: "wrap" }, title),
      barList(steps, { choose: (row) => choose({ field: row.field, value: row.value }), unit: UNITS.visits }),
      rest.length ? barList(rest, { choose: null, unit: UNITS.visits }) : null,
    );
  });
}

/**
 * @param {string | null} field
 * @param {string | null} value
 * @param {string} direction
 */
function nameNode(field, value, direction) {
  const words = nodeName({ kind: kindOf(field, value), value }, direction);
  return h("bdi", null, field !== null && value !== null ? textNode(field, value) : words);
}
