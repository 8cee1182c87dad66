// What was left out of a website's figures (/websites/{id}/rejected): how much, by day and reason, what each means and
// what to do, and recent examples. The owner's alone. It asks, and changes nothing.
//
// Days, time zone and the chosen reason are in the address, in the dashboard's words.

import { foldedSection } from "../rejected/folded_values.js";
import { REASONS, exampleDetail, recentDetails, explanation } from "../rejected/reasons.js";
import { hasSameScope } from "../shared/view_state.js";
import { bucketLabel, axisTicks } from "../shared/buckets.js";
import { chart } from "../shared/chart.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, refill } from "../shared/dom.js";
import { plural, dateFormat, dayRange, number, percent, shortNumber } from "../shared/formats.js";
import { pickDays } from "../shared/range_picker.js";
import { websitePage } from "../shared/website_page.js";

const A_LABEL_PX = 76;
// Where only a code's title is wanted.
const ANY = { id: "", domain: "" };

const PAGE = {
  title: "Left out",
  about: "Events that came and were not counted.",
  look: ["/assets/rejected/rejected.css"],
  fields: [],
  own: {
    read: (query) => ({ reason: REASONS.find(({ name }) => name === query.get("reason"))?.name ?? null }),
    write: ({ reason }) => (reason ? [["reason", reason]] : []),
  },
  csv: (board) => [
    [
      "CSV of what was left out by day",
      `${board.base}/rejected?${board.question({ format: "csv" })}`,
      "rejected-events.csv",
    ],
  ],
  foot: "An event counts on the day it arrives, each time that it is sent. Days are kept for 400 days, examples for 30. Nothing here tells of a person: no address, no browser, no session, no path.",
  build,
};

export const show = (root, context) => websitePage(root, context, PAGE);

function build(board) {
  const places = placesOf();
  const drawing = { board, places, plot: chart(places.chart), answer: null };
  const ask = board.part(places.answer, {
    what: () => "What was left out cannot be shown.",
    ask: (signal) => asked(board, signal),
    draw: (answer) => draw(drawing, answer),
  });
  return {
    element: h("div", { class: "rejected" }, places.answer),
    load({ quietly, last }) {
      if (last && drawing.answer && hasSameScope(last, board.view())) return draw(drawing, drawing.answer);
      return ask({ quietly });
    },
    leave: () => drawing.plot.end(),
  };
}

function placesOf() {
  const places = {
    answer: h("div", { class: "answer" }),
    sum: h("p", { class: "sum" }),
    figures: h("div", { class: "figures-place" }),
    chart: h("div", { class: "chart-host" }),
    parts: h("div", { class: "parts" }),
  };
  places.chartPlace = h("div", { class: "chart-place" }, places.chart);
  const parts = [places.sum, places.figures, places.chartPlace];
  places.main = h("section", { class: "card main-card", "aria-label": "How much, by day" }, parts);
  return places;
}

/** What was left out, and how much was taken in the same days. */
async function asked(board, signal) {
  const [answer, stats] = await Promise.all([board.ask("rejected", {}, signal), board.ask("stats", {}, signal)]);
  // Beside it only: where it cannot be told, this page goes without.
  return { ...answer, previous: stats.ok ? stats.data.pageviews + stats.data.events : null };
}

function draw(drawing, answer) {
  const { board, places } = drawing;
  drawing.answer = answer;
  const { data, previous: taken } = answer;
  const [view, span] = [board.view(), board.span()];
  const days = dayRange(span.from, span.to);
  board.say(`${days}: ${plural(data.events, "event")} left out`);
  const folded = foldedSection(data.folded);
  if (!data.events) return fill(places.answer, nothing(board, days, taken), folded);
  fill(
    places.sum,
    h("strong", null, `${plural(data.events, "event")} left out`),
    taken === null
      ? null
      : h("span", { class: "soft" }, ` beside ${plural(taken, "view or event", "views and events")} that were counted`),
  );
  const chosen = data.reasons.some((row) => row.reason === view.reason) ? view.reason : null;
  refill(places.figures, figures(data, chosen, board));
  if (!places.chartPlace.contains(places.chart)) fill(places.chartPlace, places.chart);
  refill(places.parts, reasons(board, data), folded, examples(data.samples, view.zone));
  if (places.answer.firstChild !== places.main) fill(places.answer, places.main, places.parts);
  drawing.plot.draw(chartData(board, data, chosen)).catch((failure) => {
    fill(
      places.chartPlace,
      failureNotice("The chart cannot be drawn.", { message: `The CSV has its figures: ${failure.message}.` }),
    );
  });
}

function nothing({ website }, days, taken) {
  const said = taken
    ? `All ${plural(taken, "view or event", "views and events")} that came in these days were counted.`
    : "Nothing came at all in these days, or nothing that named this website.";
  return h(
    "div",
    { class: "empty card" },
    h("h2", null, "Nothing was left out"),
    h("p", null, `${days}. ${said}`),
    h("a", { class: "button primary", href: `/websites/${website.id}` }, "To the dashboard"),
  );
}

/** All of it and each reason that occurred: a press chooses what the chart shows. */
function figures(data, chosen, board) {
  const sums = new Map();
  for (const { reason, events } of data.reasons) sums.set(reason, (sums.get(reason) || 0) + events);
  const shown = REASONS.filter(({ name }) => sums.has(name)).sort((a, b) => sums.get(b.name) - sums.get(a.name));
  const item = (name, title, events) =>
    h(
      "li",
      null,
      h(
        "button",
        {
          class: "figure",
          type: "button",
          "aria-pressed": String(chosen === name),
          title: `Show ${name ? title.toLowerCase() : "everything"} on the chart`,
          dataset: { key: `reason-${name}`, reason: name || "all", value: String(events) },
          onclick: () => board.go({ ...board.view(), reason: name }),
        },
        h("span", { class: "figure-name" }, title),
        h("span", { class: "figure-value" }, shortNumber(events)),
      ),
    );
  const all = shown.length > 1 ? item(null, "All", data.events) : null;
  const items = [all, ...shown.map(({ name, title }) => item(name, title, sums.get(name)))];
  if (!all) items[1].firstChild.setAttribute("aria-pressed", "true");
  return h("ul", { class: "figures", "aria-label": "Reasons, for the chart" }, items);
}

/** What shared/chart.js draws. */
function chartData(board, { days, reasons: rows }, chosen) {
  const [{ zone }, span] = [board.view(), board.span()];
  const codes = new Set(rows.filter((row) => !chosen || row.reason === chosen).map((row) => row.code));
  const starts = days.map((day) => Date.parse(day.time));
  const sums = days.map((day) =>
    Object.entries(day.codes).reduce((sum, [code, n]) => sum + (codes.has(code) ? n : 0), 0),
  );
  const now = Date.now();
  const ahead = (i) => starts[i] > now;
  const open = span.isOpen ? starts.findLastIndex((start) => start <= now) : -1;
  const day = (i) => bucketLabel(starts[i], zone, "day");
  const soFar = (i) => (i === open ? ", so far" : "");
  const { title } = REASONS.find((one) => one.name === chosen) || { title: "Left out" };
  return {
    label: `${title} by day, ${dayRange(span.from, span.to)}; arrow keys go from day to day`,
    now: sums.map((sum, i) => (ahead(i) ? null : sum)),
    before: null,
    open,
    format: shortNumber,
    say: (i) => `${day(i)}: ${ahead(i) ? "not yet" : plural(sums[i], "event")}${soFar(i)}`,
    tip: (i) => [
      h("p", { class: "chart-tip-when" }, day(i), i === open ? h("span", { class: "soft" }, " so far") : null),
      ahead(i) ? null : h("p", { class: "chart-tip-now" }, h("strong", null, plural(sums[i], "event"))),
      Object.entries(days[i].codes)
        .filter(([code]) => codes.has(code))
        .sort(([, one], [, other]) => other - one)
        .map(([code, n]) => h("p", { class: "soft" }, `${explanation(code, ANY).title}: ${number(n)}`)),
    ],
    ticks: (width) => axisTicks(starts, zone, "day", Math.max(2, Math.floor(width / A_LABEL_PX))),
    pick: (first, last) => pickDays(board, starts[first], starts[last]),
  };
}

// Roles are written out: on narrow screens the rows are no table's to the browser any more.
function reasons({ website }, { events, reasons: rows, samples }) {
  const head = (text, kind) => h("th", { scope: "col", role: "columnheader", class: kind || null }, text);
  const row = ({ code, events: own }) => {
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
          ? h("span", { class: "soft small-text lately" }, h("br"), "Lately: ", h("bdi", null, seen.join(", ")))
          : null,
      ),
      h(
        "td",
        { role: "cell", class: "num" },
        h("strong", null, number(own)),
        h("span", { class: "share" }, shareOf(own, events)),
      ),
      h("td", { role: "cell", class: "what" }, h("p", null, means), h("p", null, h("strong", null, "To do: "), todo)),
    );
  };
  return h(
    "section",
    { class: "card", "aria-labelledby": "why" },
    h("div", { class: "card-head" }, h("h2", { id: "why", class: "card-title" }, "Why, and what to do")),
    h(
      "table",
      { class: "reasons", role: "table" },
      h(
        "thead",
        { role: "rowgroup" },
        h("tr", { role: "row" }, head("Reason", "why"), head("Events", "num"), head("What it means", "what")),
      ),
      h("tbody", { role: "rowgroup" }, rows.map(row)),
    ),
  );
}

function examples(samples, zone) {
  const options = {
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
  };
  const format = dateFormat(zone, options);
  const row = (sample) =>
    h(
      "tr",
      null,
      h("td", { class: "when-cell" }, h("time", { datetime: sample.time }, format.format(Date.parse(sample.time)))),
      h(
        "td",
        { class: "wrap" },
        h("strong", null, explanation(sample.code, ANY).title),
        h("span", null, " ", exampleDetail(sample)),
        sample.type ? h("span", { class: "soft" }, ` ${sample.type}`) : null,
      ),
    );
  const heads = ["Last time", "What"].map((text) => h("th", { scope: "col" }, text));
  return h(
    "section",
    { class: "card", "aria-labelledby": "examples" },
    h("div", { class: "card-head" }, h("h2", { id: "examples", class: "card-title" }, "Recent examples")),
    samples.length
      ? h(
          "table",
          { class: "table examples" },
          h("thead", null, h("tr", null, heads)),
          h("tbody", null, samples.map(row)),
        )
      : h("p", { class: "nothing soft" }, "Of these days no example is kept any more: examples are for 30 days."),
  );
}

/** The share of a part: a few in thousands are not none. */
function shareOf(part, all) {
  const share = (100 * part) / all;
  return share < 0.1 ? `<${percent(0.1)}` : percent(share);
}
