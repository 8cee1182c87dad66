// The section Plan and usage: this month's events against the limit, and how the plan is raised. It changes nothing: plans
// are changed by who runs the server.

import { copyButton } from "../shared/dialog.js";
import { fill, h, icon } from "../shared/dom.js";
import { dateTime, number } from "../shared/formats.js";
import { sectionCard } from "./card.js";

/** Draws the section into `parts`. */
export function planSection(parts, { account }) {
  fill(parts, sectionCard("This month", usage(account)), sectionCard("Plan", planWords(account)));
}

function usage(account) {
  const { events_this_month: used, events_limit: limit, month_ends_at: ends } = account;
  const days = Math.ceil((new Date(ends) - Date.now()) / 86_400_000);
  const end = `The month ends on ${dateTime(ends, "UTC")} UTC, ${days > 1 ? `in ${days} days` : "within a day"}.`;
  if (limit === null)
    return h(
      "div",
      { class: "stack" },
      figure(number(used), "events"),
      h("p", { class: "soft" }, `Without a limit. ${end}`),
    );
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

function figure(value, words) {
  return h("p", { class: "big-figure" }, h("strong", null, value), ` ${words}`);
}

function warning({ usage_warning: percent, events_this_month: used, events_limit: limit }) {
  if (percent === 100)
    return h(
      "div",
      { class: "notice bad" },
      icon("warning"),
      h(
        "div",
        null,
        h("strong", null, "This month's events are used up"),
        h(
          "p",
          null,
          "What comes now is refused (429). The tracker keeps it for up to 72 hours and sends it again; what is older then is lost.",
        ),
      ),
    );
  if (percent)
    return h(
      "div",
      { class: "notice warn" },
      icon("warning"),
      h(
        "div",
        null,
        h("strong", null, `${Math.floor((100 * used) / limit)}% of this month's events are used`),
        h("p", null, "Past the limit, events are refused until the month ends."),
      ),
    );
  return null;
}

function planWords(account) {
  const next = { free: "pro", pro: "business" }[account.plan];
  const command = next && `analytics-server account plan ${account.email} ${next}`;
  const has = account.has_keys ? "It has API keys" : "It has no API keys";
  const counts =
    account.events_limit === null ? "counts without a limit" : `counts ${number(account.events_limit)} events a month`;
  return h(
    "div",
    { class: "stack" },
    h("p", null, "This account is on the ", h("strong", null, account.plan), ` plan. ${has} and ${counts}.`),
    next ? h("p", { class: "soft" }, `Who runs this server raises it to ${next} on its machine:`) : null,
    next ? h("pre", { class: "code-block wrapped", tabindex: "0" }, command) : null,
    next ? h("div", { class: "row" }, copyButton(command, "Copy command")) : null,
  );
}
