// The row of key figures. A figure that the time series has is a button that selects it for the chart. Each has a tooltip
// with its definition and its exact value.

import { fill, h, visuallyHidden } from "../shared/dom.js";
import { dayRange, decimal, duration, number, percent, shortNumber } from "../shared/formats.js";
import { addTooltip } from "../shared/tooltip.js";

// `up` is 1 where more is better, -1 where less is better.
/** @type {Figure[]} */
export const FIGURES = [
  {
    name: "visitors",
    title: "Visitors",
    inSeries: true,
    up: 1,
    say: shortNumber,
    exact: number,
    means: "Unique visitors, counted per day (UTC): a visitor who returns on two more days counts three times.",
  },
  {
    name: "visits",
    title: "Visits",
    inSeries: true,
    up: 1,
    say: shortNumber,
    exact: number,
    means: "Visits that begin in this range. A visit ends after 30 minutes without an event.",
  },
  {
    name: "pageviews",
    title: "Pageviews",
    inSeries: true,
    up: 1,
    say: shortNumber,
    exact: number,
    means: "Pageviews, and screen views of apps.",
  },
  {
    name: "events",
    title: "Events",
    inSeries: true,
    up: 1,
    say: shortNumber,
    exact: number,
    means: "Custom events of websites and apps.",
  },
  {
    name: "views_per_visit",
    title: "Pages per visit",
    up: 1,
    say: decimal,
    exact: decimal,
    means: "Average number of pageviews of the visits that begin in this range.",
  },
  {
    name: "bounce_rate",
    title: "Bounce rate",
    up: -1,
    say: percent,
    exact: percent,
    means: "Share of visits with exactly one pageview and no custom event.",
  },
  {
    name: "visit_duration",
    title: "Visit duration",
    up: 1,
    say: duration,
    exact: duration,
    means: "Average time from the first to the last event of a visit.",
  },
];

/**
 * Returns the figure with that name; the first one for an unknown name.
 *
 * @param {string} name
 */
export function figureNamed(name) {
  return FIGURES.find((figure) => figure.name === name) || FIGURES[0];
}

/**
 * Draws the row. `stats`, `previous`, `change`: as the read API returns them; previous and change may be null.
 *
 * @param {HTMLElement} root
 * @param {{ stats: Stats, previous: Stats | null, change: Record<string, number | null> | null, span: Span, chosen: string, choose: (name: string) => void }} options
 */
export function drawFigures(root, { stats, previous, change, span, chosen, choose }) {
  const items = FIGURES.map((figure) => {
    const before = previous ? previous[figure.name] : null;
    const percentage = change ? change[figure.name] : changeOf(stats[figure.name], before);
    const parts = [
      h("span", { class: "figure-name" }, figure.title),
      h("span", { class: "figure-value" }, figure.say(stats[figure.name])),
      changeNode(figure, percentage, span),
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
            "aria-label": `${figure.title}: ${figure.exact(stats[figure.name])}`,
          },
          parts,
        );
    described.id = `means-${figure.name}`;
    item.setAttribute("aria-describedby", described.id);
    addTooltip(item, () => hintOf(figure, stats[figure.name], before, span), { byTouch: true });
    return h("li", null, item, described);
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
 * Returns the change as text with an arrow. `figure.up`: 1 where more is better.
 *
 * @param {{ up: number }} figure
 * @param {number | null | undefined} percentage
 * @param {Span} span
 */
export function changeNode(figure, percentage, span) {
  if (percentage === null || percentage === undefined) return h("span", { class: "figure-change soft" }, "\u00a0");
  const rounded = Math.abs(percentage) >= 10 ? Math.round(percentage) : Math.round(percentage * 10) / 10;
  if (!rounded) return h("span", { class: "figure-change soft" }, "no change");
  const isGood = rounded * figure.up > 0;
  return h(
    "span",
    { class: `figure-change ${isGood ? "good" : "bad"}` },
    h("span", { "aria-hidden": "true" }, rounded > 0 ? "↑ " : "↓ "),
    visuallyHidden(rounded > 0 ? "up " : "down "),
    percent(Math.abs(rounded), 1),
    visuallyHidden(` compared with ${beforeWords(span)}`),
  );
}

/**
 * Returns the range before: "8 – 14 Nov 2026, up to 17:04"
 *
 * @param {Span} span
 */
export function beforeWords(span) {
  const days = dayRange(span.before.from, span.isOpen ? span.beforeUntil.slice(0, 10) : span.before.to);
  return span.isOpen ? `${days}, up to ${span.beforeUntil.slice(11, 16)}` : days;
}

/**
 * @param {any} figure
 * @param {number | null} value
 * @param {number | null} before
 * @param {Span} span
 */
function hintOf(figure, value, before, span) {
  const against = before === null || before === undefined ? null : `${figure.exact(before)} in ${beforeWords(span)}`;
  return [
    h("strong", null, `${figure.exact(value)} ${figure.title.toLowerCase()}`),
    against ? h("p", { class: "soft" }, against) : null,
    h("p", null, figure.means),
  ];
}
