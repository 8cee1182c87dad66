// The page of rejected events (/websites/{id}/rejected): their number by day and reason, what each code means and what to
// do, and recent examples. Only for the owner.
//
// Range, time zone and the selected reason are in the address.

import { foldedSection } from "../rejected/folded_values.js";
import { warningTitle, warningsSection } from "../rejected/warnings.js";
import { REASONS, exampleDetail, recentDetails, explanation } from "../rejected/reasons.js";
import { hasSameScope } from "../shared/view_state.js";
import { bucketLabel, axisTicks } from "../shared/buckets.js";
import { chart } from "../shared/chart.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, refill } from "../shared/dom.js";
import { valueText } from "../shared/fields.js";
import { CLOCK, dateFormat, dayRange, number, percentOf, shortNumber } from "../shared/formats.js";
import { pickDays } from "../shared/range_picker.js";
import { websitePage } from "../shared/website_page.js";
import { texts } from "../shared/messages.js";
import { reportNodes } from "../shared/report_nodes.js";

const t = await texts("rejected");
const shared = await texts("shared");
const LABEL_PX = 76;
// For explanation() where only the title is used.
const NO_WEBSITE = { id: "", domain: "" };

/** @type {PageDefinition} */
const PAGE = {
  title: shared("nav_rejected"),
  about: t("about"),
  styles: ["/assets/shared/report_nodes.css", "/assets/rejected/rejected.css"],
  fields: [],
  state: {
    read: (/** @type {URLSearchParams} */ query) => ({
      reason: REASONS.find(({ name }) => name === query.get("reason"))?.name ?? null,
    }),
    write: ({ reason }) => (reason ? [["reason", reason]] : []),
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
  const drawing = { board, nodes, plot: chart(nodes.chart), answer: null };
  const loadReport = board.panel(nodes.answer, {
    what: () => t("failed"),
    request: (signal) => fetchReport(board, signal),
    draw: (answer) => draw(drawing, answer),
  });
  return {
    element: h("div", { class: "rejected" }, nodes.answer),
    load(/** @type {{ quietly: any, last: any }} */ { quietly, last }) {
      if (last && drawing.answer && hasSameScope(last, board.view())) return draw(drawing, drawing.answer);
      return loadReport({ quietly });
    },
    leave: () => drawing.plot.end(),
    /** @returns {CsvFile[]} */
    files: () => [[t("csv"), `${board.base}/rejected?${board.query({ format: "csv" })}`, "rejected-events.csv"]],
  };
}

/**
 * Fetches the rejected events, and as `previous` the number of events counted in the same days.
 *
 * @param {Board} board
 * @param {AbortSignal} signal
 */
async function fetchReport(board, signal) {
  const [answer, stats] = await Promise.all([
    board.request("rejected", {}, signal),
    board.request("stats", {}, signal),
  ]);
  // Optional: null where that request fails.
  return { ...answer, previous: stats.ok ? stats.data.pageviews + stats.data.events : null };
}

/**
 * @param {any} drawing
 * @param {any} answer
 */
function draw(drawing, answer) {
  const { board, nodes } = drawing;
  drawing.answer = answer;
  const { data, previous: taken } = answer;
  const [view, span] = [board.view(), board.span()];
  const days = dayRange(span.from, span.to);
  board.announce(t("announcement", { days, count: data.events }));
  const stored = [warningsSection(data), foldedSection(data.folded)];
  if (!data.events) return fill(nodes.answer, nothing(board, days, taken), stored);
  const rejected = h("strong", null, t("rejected_count", { count: data.events }));
  const counted = h("span", { class: "soft" }, t("counted_count", { count: taken }));
  fill(nodes.sum, taken === null ? rejected : t.rich("sum", { rejected, counted }));
  const chosen = data.reasons.some((/** @type {any} */ row) => row.reason === view.reason) ? view.reason : null;
  refill(nodes.figures, figures(data, chosen, board));
  if (!nodes.chartPlace.contains(nodes.chart)) fill(nodes.chartPlace, nodes.chart);
  refill(nodes.parts, reasons(board, data), stored, examples(data.samples, view.zone));
  if (nodes.answer.firstChild !== nodes.main) fill(nodes.answer, nodes.main, nodes.parts);
  drawing.plot.draw(chartData(board, data, chosen)).catch((/** @type {any} */ failure) => {
    fill(
      nodes.chartPlace,
      failureNotice(t("chart_failed"), { message: t("csv_has_figures", { error: failure.message }) }),
    );
  });
}

/**
 * @param {{ website: Website }} options
 * @param {string} days
 * @param {number | null} taken
 */
function nothing({ website }, days, taken) {
  return h(
    "div",
    { class: "empty card" },
    h("h2", null, t("nothing")),
    h("p", null, taken ? t("nothing_counted", { days, count: taken }) : t("nothing_received", { days })),
    h("a", { class: "button primary", href: `/websites/${website.id}` }, t("go_to_dashboard")),
  );
}

/**
 * Returns the total and the number of each reason; a click selects what the chart shows.
 *
 * @param {RejectedEvents} data
 * @param {string | null} chosen
 * @param {Board} board
 */
function figures(data, chosen, board) {
  const sums = new Map();
  for (const { reason, events } of data.reasons) sums.set(reason, (sums.get(reason) || 0) + events);
  const shown = REASONS.filter(({ name }) => sums.has(name)).sort((a, b) => sums.get(b.name) - sums.get(a.name));
  const item = (
    /** @type {{ name: string | null, title: string, show: string }} */ { name, title, show: hint },
    /** @type {number} */ events,
  ) =>
    h(
      "li",
      null,
      h(
        "button",
        {
          class: "figure",
          type: "button",
          "aria-pressed": String(chosen === name),
          title: hint,
          dataset: { key: `reason-${name}`, reason: name || "all", value: String(events) },
          onclick: () => board.go({ ...board.view(), reason: name }),
        },
        h("span", { class: "figure-name" }, title),
        h("span", { class: "figure-value" }, shortNumber(events)),
      ),
    );
  const all = shown.length > 1 ? item({ name: null, title: t("all"), show: t("show_all") }, data.events) : null;
  const items = [all, ...shown.map((reason) => item(reason, sums.get(reason.name)))];
  if (!all) items[1]?.querySelector("button")?.setAttribute("aria-pressed", "true");
  return h("ul", { class: "figures", "aria-label": t("reasons") }, items);
}

/**
 * Returns what shared/chart.js draws.
 *
 * @param {Board} board
 * @param {RejectedEvents} data
 * @param {string | null} chosen
 */
function chartData(board, { days, reasons: rows }, chosen) {
  const [{ zone }, span] = [board.view(), board.span()];
  const codes = new Set(rows.filter((row) => !chosen || row.reason === chosen).map((row) => row.code));
  const starts = days.map((day) => Date.parse(day.time));
  const sums = days.map((day) =>
    Object.entries(day.codes).reduce((sum, [code, n]) => sum + (codes.has(code) ? n : 0), 0),
  );
  const now = Date.now();
  const ahead = (/** @type {number} */ i) => starts[i] > now;
  const open = span.isOpen ? starts.findLastIndex((start) => start <= now) : -1;
  const day = (/** @type {number} */ i) => bucketLabel(starts[i], zone, "day");
  const { title } = REASONS.find((one) => one.name === chosen) || PAGE;
  return {
    label: t("chart_label", { title, days: dayRange(span.from, span.to) }),
    now: sums.map((sum, i) => (ahead(i) ? null : sum)),
    before: null,
    open,
    format: shortNumber,
    text: (/** @type {number} */ i) => {
      if (ahead(i)) return t("slider_ahead", { day: day(i) });
      const values = { day: day(i), count: sums[i] };
      return i === open ? t("slider_events_so_far", values) : t("slider_events", values);
    },
    tip: (/** @type {number} */ i) => [
      h("p", { class: "chart-tip-when" }, day(i), i === open ? h("span", { class: "soft" }, ` ${t("so_far")}`) : null),
      ahead(i)
        ? null
        : h("p", { class: "chart-tip-now" }, h("strong", null, shared("count_events", { count: sums[i] }))),
      Object.entries(days[i].codes)
        .filter(([code]) => codes.has(code))
        .sort(([, one], [, other]) => other - one)
        .map(([code, n]) =>
          h("p", { class: "soft" }, t("title_events", { title: explanation(code, NO_WEBSITE).title, events: n })),
        ),
    ],
    ticks: (/** @type {number} */ width) => axisTicks(starts, zone, "day", Math.max(2, Math.floor(width / LABEL_PX))),
    pick: (/** @type {any} */ first, /** @type {any} */ last) => pickDays(board, starts[first], starts[last]),
  };
}

/**
 * @param {RejectedSample} sample
 */
const exampleTitle = ({ reason, code }) =>
  reason === "incomplete" ? warningTitle(code) : explanation(code, NO_WEBSITE).title;

// Explicit roles: on narrow screens the style sheet changes `display`, and browsers drop the table's implicit roles.
/**
 * @param {{ website: Website }} options
 * @param {RejectedEvents} data
 */
function reasons({ website }, { events, reasons: rows, samples }) {
  const head = (/** @type {string} */ text, /** @type {string | null} */ kind = null) =>
    h("th", { scope: "col", role: "columnheader", class: kind || null }, text);
  const row = (/** @type {{ code: string, events: any }} */ { code, events: own }) => {
    const { title, means, todo } = explanation(code, website);
    const seen = recentDetails(samples, code);
    return h(
      "tr",
      { role: "row", dataset: { code } },
      h(
        "th",
        { scope: "row", role: "rowheader", class: "why" },
        h("strong", null, title),
        h("code", { class: "soft" }, code),
        seen.length
          ? h(
              "span",
              { class: "soft small-text lately" },
              h("br"),
              t.rich("recently", { values: h("bdi", null, seen.join(", ")) }),
            )
          : null,
      ),
      h(
        "td",
        { role: "cell", class: "num" },
        h("strong", null, number(own)),
        h("span", { class: "share" }, percentOf(own, events)),
      ),
      h(
        "td",
        { role: "cell", class: "what" },
        h("p", null, means),
        h("p", null, h("strong", null, t("todo")), " ", todo),
      ),
    );
  };
  return h(
    "section",
    { class: "card", "aria-labelledby": "why" },
    h("div", { class: "card-head" }, h("h2", { id: "why", class: "card-title" }, t("reasons_and_todo"))),
    h(
      "table",
      { class: "reasons", role: "table" },
      h(
        "thead",
        { role: "rowgroup" },
        h("tr", { role: "row" }, head(t("reason"), "why"), head(t("events"), "num"), head(t("meaning"), "what")),
      ),
      h("tbody", { role: "rowgroup" }, rows.map(row)),
    ),
  );
}

/**
 * @param {RejectedSample[]} samples
 * @param {string} zone
 */
function examples(samples, zone) {
  const format = dateFormat(zone, { day: "numeric", month: "short", ...CLOCK, second: "2-digit" });
  const row = (/** @type {RejectedSample} */ sample) =>
    h(
      "tr",
      null,
      h("td", { class: "when-cell" }, h("time", { datetime: sample.time }, format.format(Date.parse(sample.time)))),
      h(
        "td",
        { class: "wrap" },
        h("strong", null, exampleTitle(sample)),
        h("span", null, " ", exampleDetail(sample)),
        sample.type ? h("span", { class: "soft" }, ` ${valueText("type", sample.type)}`) : null,
      ),
    );
  const heads = [t("last_seen"), t("event")].map((text) => h("th", { scope: "col" }, text));
  return h(
    "section",
    { class: "card", "aria-labelledby": "examples" },
    h("div", { class: "card-head" }, h("h2", { id: "examples", class: "card-title" }, t("recent_examples"))),
    samples.length
      ? h(
          "table",
          { class: "table examples" },
          h("thead", null, h("tr", null, heads)),
          h("tbody", null, samples.map(row)),
        )
      : h("p", { class: "nothing soft" }, t("no_examples")),
  );
}
