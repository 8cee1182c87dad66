// The row of key figures. A figure that a series has is a button that chooses what the chart shows; each says in a
// hint what it counts, in the contract's words, and its exact number.

import { fill, h, visuallyHidden } from "../shared/dom.js";
import { dayRange, decimal, duration, number, percent, shortNumber } from "../shared/formats.js";
import { addTooltip } from "../shared/tooltip.js";

// `up` is 1 where more is better, -1 where less is; 0 where neither is.
export const FIGURES = [
  {
    name: "visitors",
    title: "Visitors",
    inSeries: true,
    up: 1,
    say: shortNumber,
    exact: number,
    means:
      "Different visitors. A visitor is who this website takes to be one person during one UTC day, so who comes on three days counts three times.",
  },
  {
    name: "visits",
    title: "Visits",
    inSeries: true,
    up: 1,
    say: shortNumber,
    exact: number,
    means:
      "Visits that begin in this range. A visit is a run of one visitor's events in which no gap is longer than 30 minutes.",
  },
  {
    name: "pageviews",
    title: "Views",
    inSeries: true,
    up: 1,
    say: shortNumber,
    exact: number,
    means: "Views of pages and of an app's screens, and nothing else.",
  },
  {
    name: "events",
    title: "Events",
    inSeries: true,
    up: 1,
    say: shortNumber,
    exact: number,
    means: "Custom events of websites and apps, and nothing else.",
  },
  {
    name: "views_per_visit",
    title: "Views per visit",
    up: 1,
    say: decimal,
    exact: decimal,
    means: "Mean number of views over the visits that begin in this range.",
  },
  {
    name: "bounce_rate",
    title: "Bounce rate",
    up: -1,
    say: percent,
    exact: percent,
    means: "Share of the visits with exactly one view and no custom event, over their whole lives.",
  },
  {
    name: "visit_duration",
    title: "Time per visit",
    up: 1,
    say: duration,
    exact: duration,
    means: "Mean time from a visit's first event to its last.",
  },
];

/** The figure with that name. */
export function figureNamed(name) {
  return FIGURES.find((figure) => figure.name === name);
}

/** Draws the row. `stats`, `previous`: as the read API gives them; previous may be null. */
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

/** Relative change in percent; null where there is nothing to compare with. */
export function changeOf(now, before) {
  return now === null || !before ? null : ((now - before) / before) * 100;
}

/** The change in words, with an arrow. `figure.up`: 1 where more is better. */
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
    visuallyHidden(` against ${beforeWords(span)}`),
  );
}

/** "8 – 14 Nov 2026, up to 17:04" */
export function beforeWords(span) {
  const days = dayRange(span.before.from, span.isOpen ? span.beforeUntil.slice(0, 10) : span.before.to);
  return span.isOpen ? `${days}, up to ${span.beforeUntil.slice(11, 16)}` : days;
}

function hintOf(figure, value, before, span) {
  const against = before === null || before === undefined ? null : `${figure.exact(before)} in ${beforeWords(span)}`;
  return [
    h("strong", null, `${figure.exact(value)} ${figure.title.toLowerCase()}`),
    against ? h("p", { class: "soft" }, against) : null,
    h("p", null, figure.means),
  ];
}
