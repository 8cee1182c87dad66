// The journeys page (/websites/{id}/journeys): the pages and events that visits have after a page or an event, or before
// it, as a diagram of one to five steps with a table.
//
// The start is in the address; without one it is the page on which most visits of the range begin.

import { beforeNode, comparedUntil, requestCompared, rowChangeNode } from "../dashboard/key_figures.js";
import { noSnippetYet } from "../events/no_snippet.js";
import { stepDialog } from "../funnels/step_dialog.js";
import { KINDS, stepText } from "../funnels/steps.js";
import { journeyLists } from "../journeys/journey_list.js";
import { drawJourneys, journeyTable } from "../journeys/journey_diagram.js";
import { DIRECTIONS, JOURNEY_STATE, LIMITS, MAX_STEPS } from "../journeys/journey_graph.js";
import { fill, h, refill } from "../shared/dom.js";
import { textNode, valueText } from "../shared/fields.js";
import { texts } from "../shared/messages.js";
import { addTooltip } from "../shared/tooltip.js";
import { isFiltered } from "../shared/view_state.js";
import { emptyState, noMatchState, websitePage } from "../shared/website_page.js";

const t = await texts("journeys");
const shared = await texts("shared");

/** @type {PageDefinition} */
const PAGE = {
  title: shared("nav_journeys"),
  styles: ["/assets/funnels/funnels.css", "/assets/journeys/journeys.css"],
  state: JOURNEY_STATE,
  compares: true,
  shortcuts: [
    ["a", t("choose_start"), (board) => chooseStart(board, board.view().start)],
    ["← → ↑ ↓", t("keys_move"), null],
    ["Enter", t("keys_continue"), null],
  ],
  foot: t("foot"),
  build,
};

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export const show = (root, context) => websitePage(root, context, PAGE);

/**
 * @param {Board} board
 * @param {FunnelStep | null} start
 */
function chooseStart(board, start) {
  stepDialog(board, {
    step: start,
    title: t("start_of_journeys"),
    action: t("show_journeys"),
    take: (step) => board.go({ ...board.view(), start: step }),
  });
}

/**
 * @param {{ visits: number }} now
 * @param {{ visits: number }} before
 * @param {Span} span
 */
function changeOfVisits(now, before, span) {
  const change = rowChangeNode({ name: "visits", up: 1, inSeries: true }, now, before, span);
  const element = h("span", { tabindex: "0", role: "note" }, change);
  addTooltip(element, () => beforeNode(shared("count_visits", { count: before.visits }), span), { byTouch: true });
  return change && element;
}

/**
 * @param {Board} board
 */
function build(board) {
  const nodes = {
    controls: h("div", { class: "row journey-controls" }),
    summary: h("p", { class: "sum" }),
    diagram: h("div", { class: "journey-scroll", role: "region", "aria-label": t("diagram"), tabindex: "0" }),
    // In place of the diagram on narrow screens.
    lists: h("div", { class: "journey-lists" }),
    table: h("div", { class: "table-scroll" }),
  };
  const answer = h(
    "div",
    null,
    nodes.summary,
    nodes.diagram,
    nodes.lists,
    h("details", { class: "series-table" }, h("summary", null, t("table_of_diagram")), nodes.table),
  );
  const place = h("div", { class: "journey-place" });
  /** @type {CsvFile | null} */
  let file = null;
  const load = board.panel(place, {
    what: () => t("journeys_failed"),
    request: async (signal) => {
      const { start, direction, steps, limit } = board.view();
      const entry = start ? null : await board.request("entry-pages", { limit: 1 }, signal);
      if (entry && !entry.ok) return entry;
      const value = entry?.data[0]?.value;
      const own = start || (value === undefined ? null : { field: "pathname", value });
      if (!own) {
        return { ok: true, data: [], meta: { visits: 0 }, own, first: await noSnippetYet(board.website, signal) };
      }
      const more = { start: stepText(own), direction, steps, limit };
      const request = (/** @type {Record<string, any>} */ compared) =>
        board.request("journeys", { ...more, ...compared }, signal);
      return { ...(await requestCompared(board, request)), own, more };
    },
    draw: ({ data, meta, own, more, first }) => {
      drawControls(own);
      file = null;
      if (!own || !meta.visits) return void refill(place, nothing(own, first));
      file = [t("csv"), `${board.base}/journeys?${board.query({ ...more, format: "csv" })}`, "journeys.csv"];
      const { direction } = more;
      if (!place.contains(answer)) fill(place, answer);
      const visits = h("strong", null, shared("count_visits", { count: meta.visits }));
      const span = comparedUntil(board.span(), meta.previous_to);
      const before = meta.compare ? { visits: meta.previous_visits } : null;
      fill(nodes.summary, [
        t.rich("visits_with", { visits, start: h("bdi", null, textNode(own.field, own.value)) }),
        " ",
        before ? changeOfVisits(meta, before, span) : null,
      ]);
      const values = { count: meta.visits, start: valueText(own.field, own.value) };
      board.announce(own.field === "pathname" ? t("visits_with_page", values) : t("visits_with_event", values));
      const choose = (/** @type {FunnelStep} */ start) => board.go({ ...board.view(), start });
      drawJourneys(nodes.diagram, { rows: data, start: own, visits: meta.visits, direction, choose });
      refill(nodes.lists, journeyLists(data, { direction, choose }));
      fill(nodes.table, journeyTable(data, meta.visits, direction));
    },
  });

  /**
   * @param {FunnelStep | null} start
   * @param {Child} first  what to do where the website has no events at all
   */
  function nothing(start, first) {
    if (isFiltered(board.view())) return noMatchState(board);
    if (!start) return emptyState({ title: t("no_visits"), words: first || t("other_days") });
    const values = { start: valueText(start.field, start.value) };
    const words = start.field === "pathname" ? t("no_visit_with_page", values) : t("no_visit_with_event", values);
    return emptyState({ title: t("no_journeys"), words });
  }

  /**
   * @param {FunnelStep | null} start
   */
  function drawControls(start) {
    const view = board.view();
    const choice = (
      /** @type {string} */ name,
      /** @type {string} */ label,
      /** @type {[string, string][]} */ options,
      /** @type {(value: string) => any} */ read,
    ) => {
      const select = h(
        "select",
        { "aria-label": label, value: String(view[name]), dataset: { key: `journey-${name}` } },
        options.map(([value, words]) => h("option", { value }, words)),
      );
      select.addEventListener("change", () => board.go({ ...board.view(), [name]: read(select.value) }));
      return select;
    };
    const steps = [...Array(MAX_STEPS).keys()].map((i) => i + 1);
    refill(
      nodes.controls,
      choice("direction", t("direction"), /** @type {[string, string][]} */ (DIRECTIONS), String),
      h(
        "button",
        {
          class: "button journey-start",
          type: "button",
          dataset: { key: "start" },
          onclick: () => chooseStart(board, start),
        },
        start
          ? [h("span", { class: "soft" }, KINDS[start.field]), " ", h("bdi", null, textNode(start.field, start.value))]
          : t("choose_start"),
      ),
      choice(
        "steps",
        t("steps"),
        steps.map((count) => [String(count), t("count_steps", { count })]),
        Number,
      ),
      choice(
        "limit",
        t("values_of_steps"),
        LIMITS.map((count) => [String(count), t("count_values", { count })]),
        Number,
      ),
    );
  }

  return {
    element: h("section", { class: "card journey-card", "aria-label": shared("nav_journeys") }, nodes.controls, place),
    redraw: () => drawControls(board.view().start),
    load: (/** @type {LoadOptions} */ { quietly }) => load({ quietly }),
    files: () => (file ? [file] : []),
  };
}
