// The events page (/websites/{id}/events): event names with counts, and for the selected event its figures, its trend, and
// a card for each property of its data.
//
// The selected event is in the address (?event=signup), and so is the figure on the chart; default: the event with the
// most visitors.

import { selectedEventCard } from "../events/selected_event.js";
import { fetchNames, drawNames, namesDialog } from "../events/event_names.js";
import { dataPath, propertyCards } from "../events/event_properties.js";
import { noSnippetYet } from "../events/no_snippet.js";
import { dataInstructions, sendInstructions } from "../events/send_instructions.js";
import { hasSameScope, isFiltered } from "../shared/view_state.js";
import { fill, h, refill } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { fieldTitle } from "../shared/fields.js";
import { texts } from "../shared/messages.js";
import { noMatchState, emptyState, websitePage } from "../shared/website_page.js";

const t = await texts("events");
const shared = await texts("shared");
const FIRST = "events";
const NARROW = "(max-width: 1080px)";

/** @type {PageDefinition} */
const PAGE = {
  title: shared("figure_events"),
  compares: true,
  styles: ["/assets/events/events.css"],
  state: {
    read: (/** @type {URLSearchParams} */ query) => ({
      event: query.get("event") || "",
      figure: query.get("figure") === "visitors" ? "visitors" : FIRST,
    }),
    write: ({ event, figure }) => [
      ...(event ? [["event", event]] : []),
      ...(figure === FIRST ? [] : [["figure", figure]]),
    ],
  },
  shortcuts: [
    ["/", t("search_events"), (board) => namesDialog(board, (event) => board.go({ ...board.view(), event }))],
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
 */
function build(board) {
  /** @type {TopRow[] | null} */
  let rows = null;
  /** @type {EventProperty[]} */
  let shown = [];
  let isQuiet = false;
  let requested = "";
  const chosen = () => board.view().event || rows?.[0]?.value || "";
  const own = selectedEventCard(board, chosen);
  const nodes = createNodes(own);
  const choose = (/** @type {string} */ event) => {
    board.go({ ...board.view(), event });
    if (matchMedia(NARROW).matches) own.element.scrollIntoView({ block: "start" });
  };

  const names = board.panel(nodes.body, {
    what: () => t("events_failed"),
    request: async (signal) => {
      const answer = await fetchNames(board, signal);
      // The failure is shown in the list, which may not be on the page yet.
      if (!answer.ok && !isQuiet && !signal.aborted && !rows?.length) fill(nodes.page, nodes.list, nodes.main);
      return answer;
    },
    draw: ({ data }) => {
      rows = data;
      drawList();
      // Without an event in the address, the selected one is known only now.
      if (requested !== chosen()) loadChosen({ quietly: isQuiet });
    },
  });
  const properties = board.panel(nodes.properties, {
    what: () => t("data_failed", { event: chosen() }),
    request: (signal) => get(dataPath(board, chosen()), { signal }),
    draw: ({ data, meta }) => {
      shown = data;
      refill(nodes.properties, data.length ? propertiesNodes(data, meta) : noData(meta));
    },
  });

  function drawList() {
    if (!rows) return;
    const isEmpty = !rows.length && !board.view().event;
    if (isEmpty) return fill(nodes.page, nothingYet(board));
    if (!nodes.page.contains(nodes.list)) fill(nodes.page, nodes.list, nodes.main);
    if (!rows.length) fill(nodes.body, h("p", { class: "nothing soft" }, shared("no_events_in_range")));
    else drawNames(nodes, board, rows, { chosen: chosen(), choose });
    nodes.main.hidden = !chosen();
  }

  /**
   * @param {any} data
   * @param {any} meta
   */
  function propertiesNodes(data, meta) {
    const words =
      meta.properties > data.length
        ? t("most_frequent_properties", { shown: data.length, count: meta.properties })
        : t("properties", { count: meta.properties });
    return [
      h("div", { class: "row apart properties-head" }, h("h2", null, words)),
      h("div", { class: "property-cards" }, propertyCards(board, chosen(), data, meta)),
    ];
  }

  /**
   * @param {any} meta
   */
  function noData(meta) {
    const title = meta.events ? t("events_without_data", { count: meta.events }) : t("no_events_title");
    const event = chosen();
    const none = () =>
      isFiltered(board.view()) ? t("none_of_event_filtered", { event }) : t("none_of_event", { event });
    const words = meta.events ? t("what_properties_are") : none();
    return h(
      "section",
      { class: "card no-data" },
      h("h3", null, title),
      h("p", { class: "soft" }, words),
      meta.events ? dataInstructions(event) : null,
    );
  }

  /**
   * @param {any} options
   */
  function loadChosen(options) {
    requested = chosen();
    if (!requested) return null;
    own.frame();
    return Promise.all([own.load(options), properties(options)]);
  }

  /**
   * @param {{ quietly: boolean, last: View | null }} options
   */
  async function load({ quietly, last }) {
    const view = board.view();
    isQuiet = quietly;
    const isOwn = last && hasSameScope(last, view) && rows;
    if (isOwn && last.event === view.event && last.interval === view.interval) return own.redraw();
    if (isOwn && last.event === view.event) return (own.frame(), own.loadTrend({ quietly }));
    if (isOwn) return (drawList(), loadChosen({ quietly }));
    if (!quietly) requested = view.event;
    if (view.event) nodes.main.hidden = false;
    return Promise.all([names({ quietly }), view.event || quietly ? loadChosen({ quietly }) : null]);
  }
  const files = async () => {
    const { filesOf } = await import("../events/files.js");
    return rows?.length || chosen() ? filesOf(board, chosen(), shown) : [];
  };
  return { element: nodes.page, load, leave: own.end, files };
}

/**
 * @param {any} own
 */
function createNodes(own) {
  /** @type {Record<string, any>} */
  const nodes = {
    body: h("div", { class: "card-body" }),
    foot: h("div", { class: "card-foot no-print" }),
    properties: h("div", { class: "properties", role: "region", "aria-label": t("event_data") }),
  };
  nodes.list = h(
    "section",
    { class: "card list-card names", "aria-label": fieldTitle("event_name") },
    h(
      "div",
      { class: "card-head" },
      h("h2", { class: "card-title" }, t("names")),
      h(
        "span",
        { class: "soft small-text columns" },
        h("span", null, shared("figure_events")),
        h("span", null, shared("figure_visitors")),
      ),
    ),
    nodes.body,
    nodes.foot,
  );
  nodes.main = h("div", { class: "chosen", hidden: true }, own.element, nodes.properties);
  nodes.page = h("div", { class: "events-page" }, nodes.list, nodes.main);
  return nodes;
}

/**
 * @param {Board} board
 */
function nothingYet(board) {
  if (isFiltered(board.view())) return noMatchState(board);
  return emptyState({
    title: t("no_events_title"),
    words: t("pageviews_are_automatic"),
    steps: [snippetPlace(board.website), sendInstructions()],
  });
}

/**
 * Returns a link to the snippet, shown where the website has no events at all.
 *
 * @param {Website} website
 */
function snippetPlace(website) {
  const place = h("p", { class: "first-of-all", hidden: true });
  noSnippetYet(website).then((words) => {
    place.hidden = !words;
    fill(place, words);
  });
  return place;
}
