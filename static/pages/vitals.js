// Web vitals of a website (/websites/{id}/vitals): how fast its pages are for those who open them. The five metrics with
// their ratings; of the chosen one, which is in the address, the trend, the pages and devices where it is worst, what it
// means and what helps.

import { metricCards } from "../vitals/metric_cards.js";
import { rankedDialog, rankedList } from "../vitals/rankings.js";
import { trendChart } from "../vitals/trend.js";
import { METRICS, metricNamed, formatMetric, verdict } from "../vitals/web_vitals.js";
import { hasSameScope } from "../shared/view_state.js";
import { fill, h, icon, refill } from "../shared/dom.js";
import { FILTERS } from "../shared/fields.js";
import { plural, dayRange } from "../shared/formats.js";
import { noMatchState, emptyState, websitePage } from "../shared/website_page.js";
import { snippetBox } from "../shared/onboarding.js";

const EDGE_PX = 16;
const SHOWN = 10;
// CONTRACT: limit is at most 1000.
const MAX_ROWS = 1000;
const LISTS = [
  ["pathname", "Pages where most people wait"],
  ["device", "Devices"],
];

const PAGE = {
  title: "Web vitals",
  look: ["/assets/vitals/vitals.css"],
  // Measurements have no event name, and are of one type.
  fields: FILTERS.filter((field) => !["event_name", "type"].includes(field)),
  own: {
    read: (query) => ({ metric: (metricNamed(query.get("metric")) || METRICS[0]).name }),
    write: ({ metric }) => (metric === METRICS[0].name ? [] : [["metric", metric]]),
  },
  foot: "The large figure of each metric is p75: three of four page loads were at most that. Percentiles are within 2 % of the exact ones; samples and shares are exact. Days here are UTC days.",
  csv(board) {
    const { metric } = board.view();
    const { short } = metricNamed(metric);
    const link = (words, more, file) => [
      words,
      `${board.base}/vitals?${board.question({ ...more, format: "csv" })}`,
      file,
    ];
    return [
      link("CSV of all metrics", {}, "vitals.csv"),
      link(`${short} by day`, { by: "day", metric }, `${metric}-days.csv`),
      link("by page", { by: "pathname", metric, limit: MAX_ROWS }, `${metric}-pages.csv`),
      link("by device", { by: "device", metric, limit: MAX_ROWS }, `${metric}-devices.csv`),
    ];
  },
  build,
};

export const show = (root, context) => websitePage(root, context, PAGE);

function build(board) {
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
  let overall = null;

  const all = board.part(places.answer, {
    what: () => "The web vitals cannot be shown.",
    ask: (signal) => board.ask("vitals", {}, signal),
    draw(answer) {
      overall = answer;
      drawAll();
      const { samples } = answer.data.find((row) => row.metric === metric().name);
      const { from, to } = board.span();
      board.say(`${dayRange(from, to)}: ${metric().short} of ${plural(samples, "page load")}`);
    },
  });
  const days = board.part(places.trend, {
    what: () => `The trend of ${metric().short} cannot be shown.`,
    ask: (signal) => board.ask("vitals", { by: "day", metric: metric().name }, signal),
    draw: ({ data, meta }) => line.draw(metric(), data, meta.thresholds[meta.metric]),
  });
  const rankings = LISTS.map(([field, title], i) =>
    board.part(places.lists[i], {
      what: () => `${title} cannot be shown.`,
      ask: (signal) => board.ask("vitals", { by: field, metric: metric().name, limit: SHOWN + 1 }, signal),
      draw({ data, meta }) {
        const [of, threshold] = [metricNamed(meta.metric), meta.thresholds[meta.metric]];
        const all = () => rankedDialog(field, of, threshold, board);
        refill(
          places.lists[i],
          rankedList(field, data.slice(0, SHOWN), of, threshold, board),
          data.length > SHOWN
            ? h(
                "div",
                { class: "card-foot no-print" },
                h("button", { class: "button small", type: "button", onclick: all }, "All pages"),
              )
            : null,
        );
      },
    }),
  );

  function drawAll() {
    const { data, meta } = overall;
    const hasAny = data.some((row) => row.samples);
    places.rest.hidden = !hasAny;
    if (!hasAny) return void fill(places.answer, board.view().filters.length ? noMatchState(board) : notYet(board));
    drawAbout(meta.thresholds[metric().name]);
    const choose = (name) => board.go({ ...board.view(), metric: name });
    const cards = metricCards(data, meta.thresholds, { chosen: metric().name, choose });
    refill(places.answer, verdictNode(verdict(data, meta.thresholds)), cards);
    // On narrow screens the cards scroll sideways.
    cards.scrollLeft = cards.querySelector("[aria-pressed=true]").parentNode.offsetLeft - EDGE_PX;
  }

  function drawAbout({ good, poor }) {
    const { name, short, long, means, helps } = metric();
    fill(
      places.about,
      h("h2", { id: "metric" }, `${short}: ${long}`),
      h("p", null, `${means} Good up to ${formatMetric(name, good)}, poor above ${formatMetric(name, poor)}.`),
      h("p", null, h("strong", null, "What helps: "), helps),
    );
  }

  return {
    element: [places.answer, places.rest],
    async load({ quietly, last }) {
      const isOwn = last && overall && hasSameScope(last, board.view());
      if (isOwn) drawAll();
      const asked = [days, ...rankings].map((load) => load({ quietly }));
      await Promise.all(isOwn ? asked : [all({ quietly }), ...asked]);
    },
    leave: () => line.end(),
  };
}

function verdictNode({ isMet, words }) {
  const title = { true: "Core Web Vitals are met", false: "Core Web Vitals are not met" }[isMet];
  return h(
    "div",
    { class: `notice verdict ${isMet === null ? "" : isMet ? "good" : "warn"}` },
    icon(isMet ? "check" : "warning"),
    h("div", null, title ? h("strong", null, title) : null, h("p", null, words)),
  );
}

function notYet({ website, server, span }) {
  const { from, to } = span();
  return emptyState({
    title: "No web vitals in these days",
    words: `${dayRange(from, to)}. The tracker measures them where its script says data-vitals, and sends one small event a page, when the page is left.`,
    steps: snippetBox(website, server, { attributes: "data-vitals" }),
  });
}
