// The page of crawlers (/websites/{id}/crawlers): who reads the website, for what, and which pages, with the people who came
// from AI assistants. Only for the owner.
//
// Range, time zone and the selected purpose are in the address.

import { changeNode, changeOf } from "../dashboard/key_figures.js";
import { bucketLabel, axisTicks } from "../shared/buckets.js";
import { chart } from "../shared/chart.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, refill } from "../shared/dom.js";
import { dayRange, number, shortNumber } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { reportNodes } from "../shared/report_nodes.js";
import { pageLink } from "../shared/page_link.js";
import { pickDays } from "../shared/range_picker.js";
import { apart, readablePath } from "../shared/readable.js";
import { websitePage } from "../shared/website_page.js";

const t = await texts("crawlers");
const shared = await texts("shared");
const LABEL_PX = 76;
const SHOWN = 50;

/** @type {Record<string, string>} */
const PURPOSES = {
  ai_training: t("ai_training"),
  ai_search: t("ai_search"),
  ai_assistant: t("ai_assistant"),
  search: t("search"),
  preview: t("preview"),
  seo: t("seo"),
  monitoring: t("monitoring"),
  feed: t("feed"),
  archive: t("archive"),
  security: t("security"),
  research: t("research"),
  advertising: t("advertising"),
  other: t("other"),
};

/** @type {PageDefinition} */
const PAGE = {
  title: shared("nav_crawlers"),
  about: t("about"),
  styles: ["/assets/shared/report_nodes.css", "/assets/crawlers/crawlers.css"],
  fields: [],
  state: {
    read: (/** @type {URLSearchParams} */ query) => {
      const purpose = query.get("purpose") || "";
      return { purpose: purpose in PURPOSES ? purpose : null };
    },
    write: ({ purpose }) => (purpose ? [["purpose", purpose]] : []),
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
  const nodes = reportNodes(t("how_much"));
  const plot = chart(nodes.chart);
  const load = board.panel(nodes.answer, {
    what: () => t("failed"),
    request: (signal) => fetchReport(board, signal),
    draw: (answer) => draw(board, nodes, plot, answer),
  });
  const purpose = () => board.view().purpose || undefined;
  return {
    element: h("div", { class: "crawlers" }, nodes.answer),
    load,
    leave: () => plot.end(),
    /** @returns {CsvFile[]} */
    files: () => [
      [t("csv"), `${board.base}/crawlers?${board.query({ format: "csv", purpose: purpose() })}`, "crawlers.csv"],
    ],
  };
}

/**
 * Fetches the report, and as `all` the sums of every purpose, by which one is chosen.
 *
 * @param {Board} board
 * @param {AbortSignal} signal
 */
async function fetchReport(board, signal) {
  const { purpose } = board.view();
  const [answer, all] = await Promise.all([
    board.request("crawlers", { limit: SHOWN, ...(purpose ? { purpose } : {}) }, signal),
    purpose ? board.request("crawlers", { limit: 1 }, signal) : null,
  ]);
  return all && !all.ok ? all : { ...answer, all: (all || answer).data };
}

/**
 * @param {Board} board
 * @param {Record<string, HTMLElement>} nodes
 * @param {ReturnType<typeof chart>} plot
 * @param {any} answer
 */
function draw(board, nodes, plot, answer) {
  /** @type {{ data: CrawlersReport, all: CrawlersReport }} */
  const { data, all } = answer;
  const span = board.span();
  const days = dayRange(span.from, span.to);
  board.announce(t("announcement", { days, count: data.requests }));
  if (!all.requests && !all.previous_requests) return fill(nodes.answer, nothing(board, days));
  const requests = h("strong", null, t("count_requests", { count: data.requests }));
  const change = changeNode({ up: 1 }, changeOf(data.requests, data.previous_requests), null, false);
  fill(nodes.sum, requests, " ", change, assistants(data));
  refill(nodes.figures, figures(board, all));
  if (!nodes.chartPlace.contains(nodes.chart)) fill(nodes.chartPlace, nodes.chart);
  refill(nodes.parts, crawlersCard(data), pagesCard(board, data));
  if (nodes.answer.firstChild !== nodes.main) fill(nodes.answer, nodes.main, nodes.parts);
  plot.draw(chartData(board, data)).catch((/** @type {any} */ failure) => {
    const message = t("csv_has_figures", { error: failure.message });
    fill(nodes.chartPlace, failureNotice(t("chart_failed"), { message }));
  });
}

/**
 * @param {CrawlersReport} data
 */
const assistants = ({ assistant_visits: count }) =>
  count === null ? null : h("span", { class: "soft" }, t("assistant_visits", { count }));

/**
 * @param {Board} board
 * @param {string} days
 */
function nothing({ website }, days) {
  const link = h("a", { href: `/websites/${website.id}/settings/data` }, t("import_log"));
  return h(
    "div",
    { class: "empty card" },
    h("h2", null, t("nothing")),
    h("p", null, t("nothing_counted", { days })),
    link,
  );
}

/**
 * Returns the requests of each purpose; a click shows that one alone.
 *
 * @param {Board} board
 * @param {CrawlersReport} all
 */
function figures(board, all) {
  const chosen = board.view().purpose;
  const item = (/** @type {string | null} */ name, /** @type {string} */ title, /** @type {number} */ requests) =>
    h(
      "li",
      null,
      h(
        "button",
        {
          class: "figure",
          type: "button",
          "aria-pressed": String(chosen === name),
          title: t("show_purpose", { purpose: title }),
          dataset: { key: `purpose-${name}`, value: String(requests) },
          onclick: () => board.go({ ...board.view(), purpose: name }),
        },
        h("span", { class: "figure-name" }, title),
        h("span", { class: "figure-value" }, shortNumber(requests)),
      ),
    );
  const items = all.purposes.map(({ purpose, requests }) => item(purpose, PURPOSES[purpose], requests));
  return h("ul", { class: "figures", "aria-label": t("purposes") }, item(null, t("all"), all.requests), items);
}

/**
 * Returns what shared/chart.js draws.
 *
 * @param {Board} board
 * @param {CrawlersReport} data
 */
function chartData(board, { days }) {
  const [{ zone }, span] = [board.view(), board.span()];
  const starts = days.map(({ date }) => Date.parse(`${date}T12:00Z`));
  const now = Date.now();
  const ahead = (/** @type {number} */ i) => starts[i] - 43_200_000 > now;
  const open = span.isOpen ? starts.findLastIndex((_, i) => !ahead(i)) : -1;
  const day = (/** @type {number} */ i) => bucketLabel(starts[i], "UTC", "day");
  return {
    label: t("chart_label", { days: dayRange(span.from, span.to) }),
    now: days.map(({ requests }, i) => (ahead(i) ? null : requests)),
    before: null,
    open,
    format: shortNumber,
    text: (/** @type {number} */ i) => t("slider", { day: day(i), count: days[i].requests }),
    tip: (/** @type {number} */ i) => [
      h("p", { class: "chart-tip-when" }, day(i)),
      h("p", { class: "chart-tip-now" }, h("strong", null, t("count_requests", { count: days[i].requests }))),
      byPurpose(days[i].purposes).map(([purpose, count]) =>
        h("p", { class: "soft" }, t("purpose_requests", { purpose: PURPOSES[purpose], count: number(count) })),
      ),
    ],
    ticks: (/** @type {number} */ width) => axisTicks(starts, "UTC", "day", Math.max(2, Math.floor(width / LABEL_PX))),
    pick: (/** @type {number} */ first, /** @type {number} */ last) => pickDays(board, starts[first], starts[last]),
    zone,
  };
}

/**
 * @param {Record<string, number>} purposes
 */
const byPurpose = (purposes) => Object.entries(purposes).sort(([, one], [, other]) => other - one);

/**
 * Returns a card with a table.
 *
 * @param {string} id
 * @param {string} title
 * @param {[string, boolean][]} heads  the words, and whether the column has numbers
 * @param {Node[]} rows
 */
function tableCard(id, title, heads, rows) {
  const head = heads.map(([words, isNumber]) => h("th", { scope: "col", class: isNumber ? "num" : null }, words));
  return h(
    "div",
    { class: "card" },
    h("div", { class: "card-head" }, h("h2", { id, class: "card-title" }, title)),
    h(
      "div",
      { class: "table-scroll", tabindex: "0", role: "region", "aria-labelledby": id },
      h("table", { class: "table" }, h("thead", null, h("tr", null, head)), h("tbody", null, rows)),
    ),
  );
}

/**
 * @param {CrawlersReport} data
 */
function crawlersCard({ crawlers }) {
  const rows = crawlers.map((row) =>
    h(
      "tr",
      { dataset: { crawler: row.name } },
      h("th", { scope: "row" }, row.name ? h("bdi", null, row.name) : h("span", { class: "soft" }, t("without_name"))),
      h("td", { class: "num" }, number(row.requests)),
      h("td", { class: "num" }, changeNode({ up: 1 }, changeOf(row.requests, row.previous_requests), null, false)),
      h("td", { class: "num" }, number(row.pages)),
      h("td", { class: "num" }, row.last_day ? h("time", { datetime: row.last_day }, dayLabel(row.last_day)) : "–"),
      h("td", null, PURPOSES[row.purpose]),
      h("td", null, h("bdi", { class: "soft" }, row.operator)),
    ),
  );
  /** @type {[string, boolean][]} */
  const heads = [
    [t("crawler"), false],
    [t("requests"), true],
    [t("change"), true],
    [t("pages"), true],
    [t("last_day"), true],
    [t("purpose"), false],
    [t("operator"), false],
  ];
  return tableCard("crawlers", t("crawlers"), heads, rows);
}

/**
 * @param {string} date
 */
const dayLabel = (date) => bucketLabel(Date.parse(`${date}T12:00Z`), "UTC", "day");

/**
 * @param {Board} board
 * @param {CrawlersReport} data
 */
function pagesCard({ website }, { pages }) {
  const figure = (/** @type {number | null} */ value) =>
    h("td", { class: "num" }, value === null ? "–" : number(value));
  const rows = pages.map((row) =>
    h(
      "tr",
      null,
      h(
        "th",
        { scope: "row", class: "wrap" },
        row.pathname ? apart(readablePath(row.pathname)) : h("span", { class: "soft" }, shared("unset")),
        pageLink("pathname", row.pathname, website.domain),
      ),
      figure(row.requests),
      figure(row.assistant_visits),
      figure(row.pageviews),
      h(
        "td",
        null,
        byPurpose(row.purposes).map(([purpose, count]) => purposeChip(purpose, count)),
      ),
    ),
  );
  /** @type {[string, boolean][]} */
  const heads = [
    [t("page"), false],
    [t("requests"), true],
    [t("from_assistants"), true],
    [t("pageviews"), true],
    [t("purposes"), false],
  ];
  return tableCard("pages", t("pages_read"), heads, rows);
}

/**
 * @param {string} purpose
 * @param {number} count
 */
const purposeChip = (purpose, count) =>
  h("span", { class: "purpose" }, t("purpose_requests", { purpose: PURPOSES[purpose], count: number(count) }));
