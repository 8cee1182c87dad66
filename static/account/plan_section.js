// The section Plan and usage: the events of this month, the limit, and how to change the plan, which is done on the
// command line.

import { copyButton } from "../shared/dialog.js";
import { fill, h, icon } from "../shared/dom.js";
import { dateTime, number } from "../shared/formats.js";
import { sectionCard } from "./card.js";

/**
 * Draws the section into `parts`.
 *
 * @param {HTMLElement} parts
 * @param {{ account: Account }} options
 */
export function planSection(parts, { account }) {
  fill(parts, sectionCard("This month", usage(account)), sectionCard("Plan", planWords(account)));
}

/**
 * @param {Account} account
 */
function usage(account) {
  const { events_this_month: used, events_limit: limit, month_ends_at: ends } = account;
  const days = Math.ceil((new Date(ends).getTime() - Date.now()) / 86_400_000);
  const end = `The month ends on ${dateTime(ends, "UTC")} UTC, ${days > 1 ? `in ${days} days` : "within a day"}.`;
  if (limit === null) {
    return h("div", { class: "stack" }, figure(number(used), "events"), h("p", { class: "soft" }, `No limit. ${end}`));
  }
  const share = Math.min(1, used / Math.max(1, limit));
  return h(
    "div",
    { class: "stack" },
    figure(number(used), `of ${number(limit)} events`),
    h(
      "div",
      {
        class: "usage",
        role: "meter",
        "aria-label": "Events used this month",
        "aria-valuemin": 0,
        "aria-valuemax": limit,
        "aria-valuenow": Math.min(used, limit),
        "aria-valuetext": `${number(used)} of ${number(limit)}`,
      },
      h("div", { class: share >= 0.8 ? "usage-bar high" : "usage-bar", style: { width: `${share * 100}%` } }),
    ),
    h("p", { class: "soft" }, end),
    warning(account),
  );
}

/**
 * @param {string} value
 * @param {string} words
 */
function figure(value, words) {
  return h("p", { class: "big-figure" }, h("strong", null, value), ` ${words}`);
}

/**
 * @param {{ usage_warning: number | null, events_this_month: number, events_limit: any }} options
 */
function warning({ usage_warning: percent, events_this_month: used, events_limit: limit }) {
  if (percent === 100) {
    return h(
      "div",
      { class: "notice bad" },
      icon("warning"),
      h(
        "div",
        null,
        h("strong", null, "The monthly event limit is reached"),
        h(
          "p",
          null,
          "New events are rejected (429). The tracker stores them for up to 72 hours and retries; older ones are lost.",
        ),
      ),
    );
  }
  if (percent) {
    return h(
      "div",
      { class: "notice warn" },
      icon("warning"),
      h(
        "div",
        null,
        h("strong", null, `${Math.floor((100 * used) / limit)}% of the monthly event limit is used`),
        h("p", null, "When the limit is reached, new events are rejected until the month ends."),
      ),
    );
  }
  return null;
}

/**
 * @param {Account} account
 */
function planWords(account) {
  const next = { free: "pro", pro: "business", business: "" }[account.plan];
  const command = `analytics-server account plan ${account.email} ${next}`;
  const keys = account.has_keys ? "with API keys" : "without API keys";
  const limit = account.events_limit === null ? "unlimited events" : `${number(account.events_limit)} events per month`;
  return h(
    "div",
    { class: "stack" },
    h("p", null, "This account is on the ", h("strong", null, account.plan), ` plan: ${limit}, ${keys}.`),
    next ? h("p", { class: "soft" }, `To change to ${next}, run this command on the server:`) : null,
    next ? h("pre", { class: "code-block wrapped", tabindex: "0" }, command) : null,
    next ? h("div", { class: "row" }, copyButton(command, "Copy command")) : null,
  );
}
