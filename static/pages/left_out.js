// What was left out of a website's figures (/websites/{id}/left-out): how much, by day and reason, what each means and
// what to do, and recent examples. The owner's alone. It asks, and changes nothing.
//
// Days, time zone and the chosen reason are in the address, in the dashboard's words.

import { REASONS, exampleWords, lately, words } from "../left_out/reasons.js";
import { questionOf, readView, spanOf, writeView } from "../shared/asking.js";
import { bucketWords, ticksOf } from "../shared/buckets.js";
import { chart } from "../shared/chart.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, icon, refill, styled } from "../shared/dom.js";
import { get } from "../shared/fetching.js";
import { counted, dateFormat, dayRange, number, ownZone, percent, shortNumber } from "../shared/formats.js";
import { keys, keysDialog } from "../shared/keys.js";
import { lost } from "../shared/lost.js";
import { part } from "../shared/part.js";
import { drawRange, drawWhen, pickDays } from "../shared/range.js";

const KEYS = [
  ["1 to 5", "Today, 7 days, 30 days, 90 days, 12 months"],
  ["← →", "Earlier and later; on the chart, from one day to the next"],
  ["?", "This list"],
];
// As the dashboard asks again, a little less often: this changes nothing that anybody waits for.
const EVERY_MS = 60_000;
const A_LABEL_PX = 76;
// Where only a code's title is wanted.
const ANY = { id: "", domain: "" };

export async function show(root, context) {
  const website = context.websites.find((one) => one.id === context.params.id);
  if (!website) return lost(root, context);
  await Promise.all([styled("/assets/dashboard/dashboard.css"), styled("/assets/left_out/left_out.css")]);
  const zone = context.account.time_zone || ownZone();
  let view = viewOf(context.query, zone);
  const board = {
    zone,
    view: () => view,
    span: () => spanOf(view),
    go: (next) => context.go(`${context.path}?${addressOf(next)}`),
  };
  const site = { website, base: `/api/account/websites/${website.id}`, name: website.name || website.domain };
  const places = placesOf(site);
  const drawing = { site, board, places, plot: chart(places.chart) };

  const load = part(places.answer, {
    what: () => "What was left out cannot be shown.",
    ask: (signal) => ask(site, board, signal),
    draw: (answer) => draw(drawing, answer),
  });

  function drawFrame() {
    context.title(`Left out of ${site.name}`);
    drawRange(places.range, board);
    drawWhen(places.when, board);
    places.back.href = `/websites/${website.id}?${writeView({ ...view, reason: undefined })}`;
    places.csv.href = `${site.base}/left-out?${questionOf(view, board.span(), { format: "csv" })}`;
  }

  drawFrame();
  fill(root, places.page);
  load();
  const stopKeys = keys(board, { "?": () => keysDialog(KEYS) });
  const timer = setInterval(() => {
    if (document.visibilityState === "visible" && board.span().isOpen) load({ quietly: true });
  }, EVERY_MS);
  return {
    update(changed) {
      const last = view;
      view = viewOf(changed.query, zone);
      drawFrame();
      const isSame = ({ reason: _, ...one }, { reason: __, ...other }) => JSON.stringify(one) === JSON.stringify(other);
      if (isSame(last, view) && drawing.answer) return draw(drawing, drawing.answer);
      return load();
    },
    leave() {
      stopKeys();
      clearInterval(timer);
      drawing.plot.end();
    },
  };
}

/** The days of the address, and the reason that the chart shows; filters and figures are the dashboard's. */
function viewOf(query, zone) {
  const { range, from, to, zone: shown } = readView(query, zone);
  const reason = REASONS.some((one) => one.name === query.get("reason")) ? query.get("reason") : null;
  return { range, from, to, zone: shown, reason, interval: null, figure: "visitors", filters: [], tabs: {} };
}

function addressOf(view) {
  return writeView(view) + (view.reason ? `&reason=${view.reason}` : "");
}

function placesOf({ website, name }) {
  const places = {
    back: h("a", { href: `/websites/${website.id}` }, icon("left"), "Dashboard"),
    range: h("div", { class: "dash-range no-print" }),
    when: h("div", { class: "when" }),
    csv: h("a", { class: "csv", download: "left-out.csv", "aria-label": "CSV of what was left out by day" }, "CSV"),
    sum: h("p", { class: "sum" }),
    figures: h("div", { class: "figures-place" }),
    chart: h("div", { class: "chart-host" }),
    parts: h("div", { class: "parts" }),
    // Says by ear what has changed.
    status: h("p", { class: "unseen", role: "status" }),
  };
  places.chartPlace = h("div", { class: "chart-place" }, places.chart);
  const parts = [places.sum, places.figures, places.chartPlace];
  places.main = h("section", { class: "card main-card", "aria-label": "How much, by day" }, parts);
  places.answer = h("div", { class: "answer" });
  places.page = h(
    "div",
    { class: "page dash left-out" },
    h(
      "header",
      { class: "dash-head" },
      h("p", { class: "small-text back" }, places.back),
      h(
        "div",
        { class: "dash-row" },
        h("div", { class: "dash-name" }, h("h1", null, `Left out of ${name}`)),
        h("div", { class: "dash-tools" }),
        places.range,
      ),
      h("div", { class: "dash-row" }, h("p", { class: "soft" }, "Events that came and were not counted."), places.when),
    ),
    places.answer,
    foot(places),
    places.status,
  );
  return places;
}

function foot(places) {
  const told =
    "An event counts on the day it arrives, each time that it is sent. Days are kept for 400 days, examples for 30. Nothing here tells of a person: no address, no browser, no session, no path.";
  return h(
    "footer",
    { class: "dash-foot soft small-text" },
    h("p", null, told),
    h(
      "p",
      { class: "row" },
      places.csv,
      h("button", { class: "link-button no-print", type: "button", onclick: () => keysDialog(KEYS) }, "Keys"),
    ),
  );
}

/** What was left out, and how much was taken in the same days. */
async function ask({ base }, board, signal) {
  const [view, span] = [board.view(), board.span()];
  const question = questionOf(view, span);
  const [answer, stats] = await Promise.all([
    get(`${base}/left-out?${question}`, { signal }),
    get(`${base}/stats?${question}`, { signal }),
  ]);
  // Beside it only: where it cannot be told, this page goes without.
  return { ...answer, previous: stats.ok ? stats.data.pageviews + stats.data.events : null };
}

function draw(drawing, answer) {
  const { site, board, places } = drawing;
  drawing.answer = answer;
  const { data, previous: taken } = answer;
  const [view, span] = [board.view(), board.span()];
  const days = dayRange(span.from, span.to);
  places.status.textContent = `${days}: ${counted(data.events, "event")} left out`;
  if (!data.events) return fill(places.answer, nothing(site, days, taken));
  fill(
    places.sum,
    h("strong", null, `${counted(data.events, "event")} left out`),
    taken === null
      ? null
      : h(
          "span",
          { class: "soft" },
          ` beside ${counted(taken, "view or event", "views and events")} that were counted`,
        ),
  );
  const chosen = data.reasons.some((row) => row.reason === view.reason) ? view.reason : null;
  refill(places.figures, figures(data, chosen, board));
  if (!places.chartPlace.contains(places.chart)) fill(places.chartPlace, places.chart);
  refill(places.parts, reasons(site, data), examples(data.samples, view.zone));
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
    ? `All ${counted(taken, "view or event", "views and events")} that came in these days were counted.`
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
  const day = (i) => bucketWords(starts[i], zone, "day");
  const soFar = (i) => (i === open ? ", so far" : "");
  const { title } = REASONS.find((one) => one.name === chosen) || { title: "Left out" };
  return {
    label: `${title} by day, ${dayRange(span.from, span.to)}; arrow keys go from day to day`,
    now: sums.map((sum, i) => (ahead(i) ? null : sum)),
    before: null,
    open,
    format: shortNumber,
    say: (i) => `${day(i)}: ${ahead(i) ? "not yet" : counted(sums[i], "event")}${soFar(i)}`,
    tip: (i) => [
      h("p", { class: "chart-tip-when" }, day(i), i === open ? h("span", { class: "soft" }, " so far") : null),
      ahead(i) ? null : h("p", { class: "chart-tip-now" }, h("strong", null, counted(sums[i], "event"))),
      Object.entries(days[i].codes)
        .filter(([code]) => codes.has(code))
        .sort(([, one], [, other]) => other - one)
        .map(([code, n]) => h("p", { class: "soft" }, `${words(code, ANY).title}: ${number(n)}`)),
    ],
    ticks: (width) => ticksOf(starts, zone, "day", Math.max(2, Math.floor(width / A_LABEL_PX))),
    pick: (first, last) => pickDays(board, starts[first], starts[last]),
  };
}

// Roles are written out: on narrow screens the rows are no table's to the browser any more.
function reasons({ website }, { events, reasons: rows, samples }) {
  const head = (text, kind) => h("th", { scope: "col", role: "columnheader", class: kind || null }, text);
  const row = ({ code, events: own }) => {
    const { title, means, todo } = words(code, website);
    const seen = lately(samples, code);
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
        h("strong", null, words(sample.code, ANY).title),
        h("span", null, " ", exampleWords(sample)),
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
