// The custom events of a website (/websites/{id}/events): their names with counts, and for the one that is chosen its
// figures, its trend, and a card for each property of its data. It asks, and changes nothing.
//
// The chosen event is in the address (?event=signup), and so is the figure on the chart; without one it is the event
// that most visitors did.

import { selectedEventCard } from "../events/selected_event.js";
import { MAX_ROWS, fetchNames, drawNames, namesDialog } from "../events/event_names.js";
import { dataPath, propertyCards } from "../events/event_properties.js";
import { dataInstructions, sendInstructions } from "../events/send_instructions.js";
import { hasSameScope } from "../shared/view_state.js";
import { fill, h, refill } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { plural, number } from "../shared/formats.js";
import { noMatchState, emptyState, websitePage } from "../shared/website_page.js";

const FIRST = "events";
const NARROW = "(max-width: 1080px)";

const PAGE = {
  title: "Events",
  look: ["/assets/events/events.css"],
  own: {
    read: (query) => ({
      event: query.get("event") || "",
      figure: query.get("figure") === "visitors" ? "visitors" : FIRST,
    }),
    write: ({ event, figure }) => [
      ...(event ? [["event", event]] : []),
      ...(figure === FIRST ? [] : [["figure", figure]]),
    ],
  },
  keys: [["/", "Search in all events", (board) => namesDialog(board, (event) => board.go({ ...board.view(), event }))]],
  foot: "An event is what tally.track, data-track or an app sent. A visitor is somebody's UTC day: who comes on three days counts three times.",
  build,
};

export const show = (root, context) => websitePage(root, context, PAGE);

function build(board) {
  let rows = null;
  let isQuiet = false;
  let asked = "";
  const chosen = () => board.view().event || rows?.[0]?.value || "";
  const own = selectedEventCard(board, chosen);
  const places = placesOf(own);
  const choose = (event) => {
    board.go({ ...board.view(), event });
    if (matchMedia(NARROW).matches) own.element.scrollIntoView({ block: "start" });
  };

  const names = board.part(places.body, {
    what: () => "The events cannot be shown.",
    ask: async (signal) => {
      const answer = await fetchNames(board, signal);
      // What failed is said in the list's place, also where nothing was in it before.
      if (!answer.ok && !isQuiet && !signal.aborted && !rows?.length) fill(places.page, places.list, places.main);
      return answer;
    },
    draw: ({ data }) => {
      rows = data;
      drawList();
      // Which one is shown is known only now, unless the address says it.
      if (asked !== chosen()) loadChosen({ quietly: isQuiet });
    },
  });
  const properties = board.part(places.properties, {
    what: () => `The data of ${chosen()} cannot be shown.`,
    ask: (signal) => get(dataPath(board, chosen()), { signal }),
    draw: ({ data, meta }) => refill(places.properties, data.length ? told(data, meta) : noData(meta)),
  });

  function drawList() {
    const isEmpty = !rows.length && !board.view().event;
    if (isEmpty) return fill(places.page, nothingYet(board));
    if (!places.page.contains(places.list)) fill(places.page, places.list, places.main);
    if (!rows.length) fill(places.body, h("p", { class: "nothing soft" }, "No event was counted in these days."));
    else drawNames(places, board, rows, { chosen: chosen(), choose });
    places.main.hidden = !chosen();
  }

  function told(data, meta) {
    const path = dataPath(board, chosen(), { limit: MAX_ROWS, format: "csv" });
    const words =
      meta.properties > data.length
        ? `The ${data.length} most frequent of ${number(meta.properties)} properties of its data`
        : `${plural(meta.properties, "property", "properties")} of its data`;
    return [
      h(
        "div",
        { class: "row apart properties-head" },
        h("h2", null, words),
        h("a", { class: "csv", href: path, download: "event-data.csv", "aria-label": "CSV of all its data" }, "CSV"),
      ),
      h("div", { class: "property-cards" }, propertyCards(board, chosen(), data, meta)),
    ];
  }

  function noData(meta) {
    const title = meta.events ? `${plural(meta.events, "event")}, none with data` : "Not in these days";
    const words = meta.events
      ? "Events can carry properties: a plan, a price, a place on the page."
      : `Nobody did “${chosen()}” in these days${board.view().filters.length ? ", with these filters" : ""}.`;
    return h(
      "section",
      { class: "card no-data" },
      h("h3", null, title),
      h("p", { class: "soft" }, words),
      meta.events ? dataInstructions(chosen()) : null,
    );
  }

  function loadChosen(options) {
    asked = chosen();
    if (!asked) return null;
    own.frame();
    return Promise.all([own.load(options), properties(options)]);
  }

  async function load({ quietly, last }) {
    const view = board.view();
    isQuiet = quietly;
    const isOwn = last && hasSameScope(last, view) && rows;
    if (isOwn && last.event === view.event && last.interval === view.interval) return own.redraw();
    if (isOwn && last.event === view.event) return (own.frame(), own.loadTrend({ quietly }));
    if (isOwn) return (drawList(), loadChosen({ quietly }));
    if (!quietly) asked = view.event;
    if (view.event) places.main.hidden = false;
    return Promise.all([names({ quietly }), view.event || quietly ? loadChosen({ quietly }) : null]);
  }
  return { element: places.page, load, leave: own.end };
}

function placesOf(own) {
  const places = {
    body: h("div", { class: "card-body" }),
    foot: h("div", { class: "card-foot no-print" }),
    properties: h("div", { class: "properties", role: "region", "aria-label": "Data of the event" }),
  };
  places.list = h(
    "section",
    { class: "card list-card names", "aria-label": "Event names" },
    h(
      "div",
      { class: "card-head" },
      h("h2", { class: "card-title" }, "Event names"),
      h("span", { class: "soft small-text columns" }, h("span", null, "Events"), h("span", null, "Visitors")),
    ),
    places.body,
    places.foot,
  );
  places.main = h("div", { class: "chosen", hidden: true }, own.element, places.properties);
  places.page = h("div", { class: "events-page" }, places.list, places.main);
  return places;
}

function nothingYet(board) {
  if (board.view().filters.length) return noMatchState(board);
  return emptyState({
    title: "No event was counted in these days",
    words:
      "Views are counted by themselves; what else people do is yours to name. New events show up here within a minute.",
    steps: [noSnippetYet(board), sendInstructions()],
  });
}

/** Where the website has no events at all, by what the server knows now: the way to the snippet. */
function noSnippetYet({ website }) {
  const place = h("p", { class: "first-of-all", hidden: true });
  get(`/api/account/websites/${website.id}`).then((answer) => {
    if (!answer.ok || answer.data.events) return;
    place.hidden = false;
    fill(
      place,
      "No events have been received from this website yet. First, ",
      h("a", { href: `/websites/${website.id}` }, "add the snippet to its pages"),
      ".",
    );
  });
  return place;
}
