// The performance page (/websites/{id}/vitals): the five web vitals with their ratings, and for the selected one, which is
// in the address, its trend, the pages and devices with the most poor page loads, its definition and advice.

import { comparedUntil, requestCompared } from "../dashboard/key_figures.js";
import { metricCards } from "../vitals/metric_cards.js";
import { rankedDialog, rankedList } from "../vitals/rankings.js";
import { trendChart } from "../vitals/trend.js";
import { METRICS, metricNamed, formatMetric, verdict } from "../vitals/web_vitals.js";
import { hasSameScope, isFiltered } from "../shared/view_state.js";
import { fill, h, icon, refill } from "../shared/dom.js";
import { FILTERS, fieldTitle } from "../shared/fields.js";
import { dayRange } from "../shared/formats.js";
import { noMatchState, emptyState, websitePage } from "../shared/website_page.js";
import { snippetBox } from "../shared/onboarding.js";
import { texts } from "../shared/messages.js";

const t = await texts("vitals");
const shared = await texts("shared");
const EDGE_PX = 16;
const SHOWN = 10;
// The read API's maximum of `limit`.
const MAX_ROWS = 1000;
const LISTS = [
  ["pathname", t("most_poor_pages")],
  ["device", fieldTitle("device")],
];

/** @type {PageDefinition} */
const PAGE = {
  title: shared("nav_vitals"),
  styles: ["/assets/vitals/vitals.css"],
  compares: true,
  // Web vitals have no event name and one type.
  fields: FILTERS.filter((field) => !["event_name", "type"].includes(field)),
  state: {
    read: (/** @type {URLSearchParams} */ query) => ({ metric: metricNamed(query.get("metric")).name }),
    write: ({ metric }) => (metric === METRICS[0].name ? [] : [["metric", metric]]),
  },
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
  /** @type {Record<string, any>} */
  const places = {
    answer: h("div", { class: "vitals-answer" }),
    about: h("div", { class: "metric-about" }),
    trend: h("div", { class: "chart-place" }),
    lists: LISTS.map(() => h("div", { class: "card-body" })),
  };
  const chosen = h("section", { class: "card main-card", "aria-labelledby": "metric" }, places.about, places.trend);
  const lists = LISTS.map(([field, title], i) =>
    h(
      "section",
      { class: `card ranked-card ranked-${field}`, "aria-labelledby": `ranked-${field}` },
      h("div", { class: "card-head" }, h("h2", { class: "card-title", id: `ranked-${field}` }, title)),
      places.lists[i],
    ),
  );
  places.rest = h("div", { class: "vitals-rest", hidden: true }, chosen, h("div", { class: "ranked-cards" }, lists));
  const metric = () => metricNamed(board.view().metric);
  const line = trendChart(places.trend, board);
  /** @type {any} */
  let overall = null;

  const loadOverall = board.panel(places.answer, {
    what: () => t("failed"),
    request: (signal) => requestCompared(board, (compared) => board.request("vitals", compared, signal)),
    draw(answer) {
      overall = answer;
      drawAll();
      const { samples } = answer.data.find((/** @type {any} */ row) => row.metric === metric().name);
      const { from, to } = board.span();
      board.announce(t("announcement", { days: dayRange(from, to), metric: metric().short, count: samples }));
    },
  });
  const days = board.panel(places.trend, {
    what: () => t("trend_failed", { metric: metric().short }),
    request: (signal) => board.request("vitals", { by: "day", metric: metric().name }, signal),
    draw: ({ data, meta }) => line.draw(metric(), data, meta.thresholds[meta.metric]),
  });
  const rankings = LISTS.map(([field, title], i) =>
    board.panel(places.lists[i], {
      what: () => t("list_failed", { list: title }),
      request: (signal) => board.request("vitals", { by: field, metric: metric().name, limit: SHOWN + 1 }, signal),
      draw({ data, meta }) {
        const [of, threshold] = [metricNamed(meta.metric), meta.thresholds[meta.metric]];
        const showAll = () => rankedDialog(field, of, threshold, board);
        refill(
          places.lists[i],
          rankedList(field, data.slice(0, SHOWN), of, threshold, board),
          data.length > SHOWN
            ? h(
                "div",
                { class: "card-foot no-print" },
                h("button", { class: "button small", type: "button", onclick: showAll }, t("all_pages")),
              )
            : null,
        );
      },
    }),
  );

  function drawAll() {
    const { data, meta } = overall;
    const hasAny = data.some((/** @type {any} */ row) => row.samples);
    places.rest.hidden = !hasAny;
    if (!hasAny) return void fill(places.answer, isFiltered(board.view()) ? noMatchState(board) : notYet(board));
    drawAbout(meta.thresholds[metric().name]);
    const choose = (/** @type {string} */ name) => board.go({ ...board.view(), metric: name });
    const cards = metricCards(data, meta.thresholds, {
      chosen: metric().name,
      choose,
      span: comparedUntil(board.span(), meta.previous_to),
    });
    refill(places.answer, verdictNode(verdict(data, meta.thresholds)), cards);
    // On narrow screens the cards scroll horizontally.
    const pressed = cards.querySelector("[aria-pressed=true]")?.parentElement;
    if (pressed) cards.scrollLeft = pressed.offsetLeft - EDGE_PX;
  }

  /**
   * @param {{ good: number, poor: number }} options
   */
  function drawAbout({ good, poor }) {
    const { name, short, long, means, helps } = metric();
    fill(
      places.about,
      h("h2", { id: "metric" }, t("name_long", { metric: short, long })),
      h("p", null, t("means_and_limits", { means, good: formatMetric(name, good), poor: formatMetric(name, poor) })),
      h("p", null, h("strong", null, t("how_to_improve")), " ", helps),
    );
  }

  return {
    element: [places.answer, places.rest],
    async load(/** @type {{ quietly: any, last: any }} */ { quietly, last }) {
      const isOwn = last && overall && hasSameScope(last, board.view());
      if (isOwn) drawAll();
      const loads = [days, ...rankings].map((load) => load({ quietly }));
      await Promise.all(isOwn ? loads : [loadOverall({ quietly }), ...loads]);
    },
    leave: () => line.end(),
    files: () => filesOf(board),
  };
}

/**
 * @param {Board} board
 * @returns {CsvFile[]}
 */
function filesOf(board) {
  const { metric } = board.view();
  const { short } = metricNamed(metric);
  /** @type {(words: string, more: Record<string, any>, file: string) => CsvFile} */
  const file = (words, more, name) => [words, `${board.base}/vitals?${board.query({ ...more, format: "csv" })}`, name];
  return [
    file(t("csv_all"), {}, "vitals.csv"),
    file(t("csv_by_day", { metric: short }), { by: "day", metric }, `${metric}-days.csv`),
    file(t("csv_by_page", { metric: short }), { by: "pathname", metric, limit: MAX_ROWS }, `${metric}-pages.csv`),
    file(t("csv_by_device", { metric: short }), { by: "device", metric, limit: MAX_ROWS }, `${metric}-devices.csv`),
  ];
}

/**
 * @param {{ isMet: boolean | null, words: string }} options
 */
function verdictNode({ isMet, words }) {
  const title = isMet === null ? null : isMet ? t("passed") : t("not_passed");
  return h(
    "div",
    { class: `notice verdict ${isMet === null ? "" : isMet ? "good" : "warn"}` },
    icon(isMet ? "check" : "warning"),
    h("div", null, title ? h("strong", null, title) : null, h("p", null, words)),
  );
}

/**
 * @param {Board} board
 */
function notYet({ website, server, span }) {
  const { from, to } = span();
  return emptyState({
    title: t("none_title"),
    words: t("none_words", { days: dayRange(from, to) }),
    steps: snippetBox(website, server, { attributes: "data-vitals" }),
  });
}
