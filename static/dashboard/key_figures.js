// The row of key figures. A figure that the time series has is a button that selects it for the chart. Each has a tooltip
// with its definition and its exact value.

import { fill, h, visuallyHidden } from "../shared/dom.js";
import { CLOCK, dateFormat, dayRange, decimal, duration, number, percent, shortNumber } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { addTooltip } from "../shared/tooltip.js";
import { comparisonOf } from "../shared/view_state.js";

const t = await texts("dashboard");
const shared = await texts("shared");

// `up` is 1 where more is better, -1 where less is better. The leading figures are drawn larger.
/** @type {Figure[]} */
export const FIGURES = [
  {
    name: "visitors",
    isLead: true,
    title: shared("figure_visitors"),
    inSeries: true,
    up: 1,
    format: shortNumber,
    exact: number,
    described: (count) => shared("count_visitors", { count }),
    means: t("visitors_means"),
  },
  {
    name: "visits",
    isLead: true,
    title: shared("figure_visits"),
    inSeries: true,
    up: 1,
    format: shortNumber,
    exact: number,
    described: (count) => shared("count_visits", { count }),
    means: t("visits_means"),
  },
  {
    name: "pageviews",
    isLead: true,
    title: shared("figure_pageviews"),
    inSeries: true,
    up: 1,
    format: shortNumber,
    exact: number,
    described: (count) => shared("count_pageviews", { count }),
    means: t("pageviews_means"),
  },
  {
    name: "events",
    title: shared("figure_events"),
    inSeries: true,
    up: 1,
    format: shortNumber,
    exact: number,
    described: (count) => shared("count_events", { count }),
    means: t("events_means"),
  },
  {
    name: "views_per_visit",
    title: t("pages_per_visit"),
    up: 1,
    format: decimal,
    exact: decimal,
    described: (value) => t("pages_per_visit_exact", { value: decimal(value) }),
    means: t("pages_per_visit_means"),
  },
  {
    name: "bounce_rate",
    title: t("bounce_rate"),
    up: -1,
    format: percent,
    exact: percent,
    described: (value) => t("bounce_rate_exact", { value: percent(value) }),
    means: t("bounce_rate_means"),
  },
  {
    name: "visit_duration",
    title: t("visit_duration"),
    up: 1,
    format: duration,
    exact: duration,
    described: (value) => t("visit_duration_exact", { value: duration(value) }),
    means: t("visit_duration_means"),
  },
];

/** @type {Figure} */
const CONVERSIONS = {
  name: "conversions",
  isLead: true,
  title: shared("figure_conversions"),
  inSeries: true,
  up: 1,
  format: shortNumber,
  exact: number,
  described: (count) => shared("count_conversions", { count }),
  means: t("conversions_of_goal_mean"),
};
/** @type {Figure} */
const CONVERSION_RATE = {
  name: "conversion_rate",
  partOf: "visitors",
  isLead: true,
  title: t("conversion_rate"),
  up: 1,
  format: percent,
  exact: percent,
  described: (value) => t("conversion_rate_exact", { value: percent(value) }),
  means: t("conversion_rate_means"),
};
// Those of all traffic that are not shown beside conversions.
const NOT_WITH_GOAL = ["events", "views_per_visit"];
const WITH_GOAL = [
  ...[CONVERSIONS, CONVERSION_RATE],
  ...FIGURES.filter(({ name }) => !NOT_WITH_GOAL.includes(name)).map((one) =>
    one.name === "visitors" ? one : { ...one, isLead: false },
  ),
];

/**
 * Returns the figure with that name; the first one for an unknown name.
 *
 * @param {string} name
 */
export function figureNamed(name) {
  return [...FIGURES, ...WITH_GOAL].find((figure) => figure.name === name) || FIGURES[0];
}

/**
 * Returns the figures of a view, given the count that holds its conversions: those of a chosen goal come first, others in
 * place of pageviews and events.
 *
 * @param {string | null} count
 * @returns {Figure[]}
 */
export function figuresOf(count) {
  if (!count) return FIGURES;
  if (count === "conversions") return WITH_GOAL;
  const own = {
    ...{ ...figureNamed(count), title: shared("figure_conversions"), isLead: true, means: t("conversions_means") },
    described: (/** @type {number} */ value) => shared("count_conversions", { count: value }),
  };
  return FIGURES.filter(({ name }) => name !== "events").map((one) => (one.name === "pageviews" ? own : one));
}

/**
 * Draws the row. `stats`, `previous`, `change`: as the read API returns them; previous and change may be null.
 * `count`: which of them holds conversions, or null.
 *
 * @param {HTMLElement} root
 * @param {{ stats: Stats, previous: Stats | null, change: Record<string, number | null> | null, span: Span, count: string | null, chosen: string, choose: (name: string) => void }} options
 */
export function drawFigures(root, { stats, previous, change, span, count, chosen, choose }) {
  const items = figuresOf(count).map((figure) => {
    const before = previous ? previous[figure.name] : null;
    // The API has the changes of all traffic.
    const known = change?.[figure.name];
    const percentage = known === undefined ? changeOf(stats[figure.name], before) : known;
    const parts = [
      h("span", { class: "figure-name" }, figure.title),
      h(
        "span",
        { class: "figure-row" },
        h("span", { class: "figure-value" }, figure.format(stats[figure.name])),
        figure.inSeries ? h("span", { class: "figure-spark", "aria-hidden": "true" }) : null,
      ),
      changeNode(
        figure,
        inPoints(figure) ? pointsOf(stats[figure.name], before) : percentage,
        span,
        isNotable(figure, percentage, stats, previous),
      ),
    ];
    const described = visuallyHidden(figure.means);
    const props = {
      class: "figure",
      dataset: { key: `figure-${figure.name}`, figure: figure.name, value: String(stats[figure.name]) },
    };
    const item = figure.inSeries
      ? h(
          "button",
          {
            ...props,
            type: "button",
            "aria-pressed": String(figure.name === chosen),
            onclick: () => choose(figure.name),
          },
          parts,
        )
      : h(
          "div",
          {
            ...props,
            tabindex: "0",
            role: "group",
            "aria-label": shared("label_value", { label: figure.title, value: figure.exact(stats[figure.name]) }),
          },
          parts,
        );
    described.id = `means-${figure.name}`;
    item.setAttribute("aria-describedby", described.id);
    addTooltip(item, () => hintOf(figure, stats[figure.name], before, span), { byTouch: true });
    return h("li", { class: figure.isLead ? "lead" : null }, item, described);
  });
  fill(root, h("ul", { class: "figures" }, items));
}

/**
 * Returns the relative change in percent; null where there is nothing to compare with.
 *
 * @param {number | null} now
 * @param {number | null | undefined} before
 */
export function changeOf(now, before) {
  return now === null || !before ? null : ((now - before) / before) * 100;
}

/**
 * Returns whether a figure is a percentage, whose change is a number of percentage points.
 *
 * @param {{ format?: (value: any) => string }} figure
 */
const inPoints = ({ format }) => format === percent;

/**
 * Returns the change of a percentage in points; null where there is nothing to compare with.
 *
 * @param {number | null} now
 * @param {number | null | undefined} before
 */
function pointsOf(now, before) {
  return now === null || before === null || before === undefined ? null : now - before;
}

const NOTABLE_PERCENT = 10;
const NOTABLE_VISITS = 100;
// The normal approximation needs so many of each kind in each range, as on the card of changes.
const LEAST_EXPECTED = 10;

/**
 * Returns whether a change is worth a colour: at least 10 percent and more than chance. Counts: by more than two standard
 * deviations of the difference of two Poisson counts. Rates: of the difference of two proportions with the same chance.
 * Averages, whose deviation is not known: both ranges have at least 100 visits.
 *
 * @param {{ name: string, inSeries?: boolean, partOf?: string, format?: (value: any) => string }} figure  `partOf`: what a
 *   rate is of, by default visits
 * @param {number | null | undefined} percentage
 * @param {Record<string, any>} stats
 * @param {Record<string, any> | null} previous
 */
export function isNotable(figure, percentage, stats, previous) {
  if (!previous || Math.abs(percentage || 0) < NOTABLE_PERCENT) return false;
  const [now, before] = [stats[figure.name], previous[figure.name]];
  if (figure.inSeries) return Math.abs(now - before) > 2 * Math.sqrt(now + before);
  if (!inPoints(figure)) return Math.min(stats.visits, previous.visits) >= NOTABLE_VISITS;
  const whole = figure.partOf || "visits";
  return areUnlike(now / 100, stats[whole], before / 100, previous[whole]);
}

/**
 * Returns whether two rates differ by more than two standard deviations of their difference; false with too few to say.
 *
 * @param {number} rate
 * @param {number} many  what it is a part of
 * @param {number} otherRate
 * @param {number} others
 */
function areUnlike(rate, many, otherRate, others) {
  const pooled = (rate * many + otherRate * others) / (many + others);
  const expected = Math.min(many, others) * Math.min(pooled, 1 - pooled);
  if (!(expected >= LEAST_EXPECTED)) return false;
  return Math.abs(rate - otherRate) > 2 * Math.sqrt(pooled * (1 - pooled) * (1 / many + 1 / others));
}

/**
 * Returns the change as text with an arrow, in colour where it is notable. `figure.up`: 1 where more is better.
 *
 * @param {{ up: number, format?: (value: any) => string }} figure
 * @param {number | null | undefined} percentage  in points where the figure is a percentage
 * @param {Span | null} span
 * @param {boolean} [isColoured]
 */
export function changeNode(figure, percentage, span, isColoured = true) {
  if (percentage === null || percentage === undefined) return h("span", { class: "figure-change soft" }, "\u00a0");
  // Rises and falls are rounded alike.
  const size = Math.round(Math.abs(percentage) * 10) / 10;
  const rises = percentage > 0;
  if (!size) return h("span", { class: "figure-change soft" }, t("no_change"));
  const kind = !isColoured ? "soft" : percentage * figure.up > 0 ? "good" : "bad";
  const amount = inPoints(figure) ? t("points", { points: decimal(size, 1) }) : percent(size);
  const values = { percent: h("span", null, amount), range: span ? beforeWords(span) : "" };
  const from = () => (rises ? t.rich("up_from", values) : t.rich("down_from", values));
  const fromBefore = () => (rises ? t.rich("up_from_before", values) : t.rich("down_from_before", values));
  return h(
    "span",
    { class: `figure-change ${kind}` },
    h("span", { "aria-hidden": "true" }, rises ? "↑ " : "↓ "),
    withHiddenText(span ? from() : fromBefore()),
  );
}

/**
 * Returns the change of one figure of a row as changeNode does; null where there is none. `visits`, for
 * averages and rates: what they are of, in both ranges.
 *
 * @param {{ name: string, up: number, inSeries?: boolean, format?: (value: any) => string }} figure
 * @param {Record<string, any>} row
 * @param {Record<string, any> | null | undefined} previous
 * @param {Span} span
 * @param {[now: number, before: number]} [visits]
 */
export function rowChangeNode(figure, row, previous, span, [now, before] = [0, 0]) {
  const older = previous?.[figure.name];
  const percentage = changeOf(row[figure.name], older);
  const change = inPoints(figure) ? pointsOf(row[figure.name], older) : percentage;
  if (!previous || !Math.round(10 * (change || 0))) return null;
  const rows = [
    { ...row, visits: now || row.visits },
    { ...previous, visits: before || previous.visits },
  ];
  return changeNode(figure, change, span, isNotable(figure, percentage, rows[0], rows[1]));
}

/**
 * Returns the part of a tooltip about the range that is compared with; null where there is none.
 *
 * @param {string} value
 * @param {Span} span
 */
export function beforeNode(value, span) {
  return span.before ? h("p", { class: "soft" }, t("value_in_range", { value, range: beforeWords(span) })) : null;
}

/**
 * Returns the pieces of a text of which only the elements are visible; screen readers get the whole text.
 *
 * @param {(string | Node)[]} pieces
 */
export function withHiddenText(pieces) {
  return pieces.map((piece) => (typeof piece === "string" ? piece && visuallyHidden(piece) : piece));
}

/**
 * Requests figures and those of the range that is compared with; without the latter where its events have expired.
 *
 * @param {Board} board
 * @param {(compared: Record<string, string>) => Promise<Answer>} request
 */
export async function requestCompared(board, request) {
  const compared = comparisonOf(board.view(), board.span());
  const answer = await request(compared);
  return answer.error?.code === "beyond_retention" && compared.compare ? request({}) : answer;
}

/**
 * Returns the span with the time up to which the read API has counted the range before: its end, where the events of a
 * part of a day have expired.
 *
 * @param {Span} span
 * @param {string} [until]  in ISO 8601
 * @returns {Span}
 */
export function comparedUntil(span, until) {
  if (!span.before || !span.beforeUntil || !until) return span;
  return { ...span, beforeUntil: until.slice(0, 10) > span.before.to ? null : until.slice(0, 19) };
}

/**
 * Returns the range that is compared with: "8 – 14 Nov 2026, up to 17:04"
 *
 * @param {Span} options
 */
export function beforeWords({ before, beforeUntil }) {
  if (!before) return "";
  const days = dayRange(before.from, beforeUntil ? beforeUntil.slice(0, 10) : before.to);
  // A local time, without its offset.
  const time = beforeUntil && dateFormat("UTC", CLOCK).format(Date.parse(`${beforeUntil}Z`));
  return time ? t("days_until", { days, time }) : days;
}

/**
 * @param {any} figure
 * @param {number | null} value
 * @param {number | null} before
 * @param {Span} span
 */
function hintOf(figure, value, before, span) {
  const against =
    before === null || before === undefined
      ? null
      : t("value_in_range", { value: figure.exact(before), range: beforeWords(span) });
  return [
    h("strong", null, figure.described(value)),
    against ? h("p", { class: "soft" }, against) : null,
    h("p", null, figure.means),
  ];
}
