// The section Plan and usage: the events of this month, the limit, and how to change the plan, which is done on the
// command line. The plan without limits, which the owner of a server has, is not shown.

import { copyButton } from "../shared/dialog.js";
import { fill, h, icon } from "../shared/dom.js";
import { dateTime, number, percentOf } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { sectionCard } from "./card.js";

const t = await texts("account");

/**
 * Draws the section into `parts`.
 *
 * @param {HTMLElement} parts
 * @param {{ account: Account }} options
 */
export function planSection(parts, { account }) {
  fill(
    parts,
    sectionCard(t("this_month"), usage(account)),
    account.plan === "business" ? null : sectionCard(t("plan"), planWords(account)),
  );
}

/**
 * @param {Account} account
 */
function usage(account) {
  const { events_this_month: used, events_limit: limit, month_ends_at: ends } = account;
  const days = Math.ceil((new Date(ends).getTime() - Date.now()) / 86_400_000);
  const date = dateTime(ends, "UTC");
  const end = days > 1 ? t("month_ends", { date, days }) : t("month_ends_soon", { date });
  const shown = h("strong", null, number(used));
  if (limit === null) {
    return h(
      "div",
      { class: "stack" },
      figure(t.rich("events_used", { events: shown, count: used })),
      h("p", { class: "soft" }, t("no_limit"), " ", end),
    );
  }
  const share = Math.min(1, used / Math.max(1, limit));
  return h(
    "div",
    { class: "stack" },
    figure(t.rich("events_used_of", { events: shown, limit: number(limit) })),
    h(
      "div",
      {
        class: "usage",
        role: "meter",
        "aria-label": t("events_used_label"),
        "aria-valuemin": 0,
        "aria-valuemax": limit,
        "aria-valuenow": Math.min(used, limit),
        "aria-valuetext": t("used_of", { used, limit }),
      },
      h("div", { class: share >= 0.8 ? "usage-bar high" : "usage-bar", style: { width: `${share * 100}%` } }),
    ),
    h("p", { class: "soft" }, end),
    warning(account),
  );
}

/**
 * @param {Child} words
 */
function figure(words) {
  return h("p", { class: "big-figure" }, words);
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
      h("div", null, h("strong", null, t("limit_reached")), h("p", null, t("limit_reached_effect"))),
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
        h("strong", null, t("limit_near", { share: percentOf(used, limit) })),
        h("p", null, t("limit_near_effect")),
      ),
    );
  }
  return null;
}

/**
 * @param {Account} account
 */
function planWords(account) {
  const next = account.plan === "free" ? "pro" : "business";
  const command = `analytics-server account plan ${account.email} ${next}`;
  const keys = account.has_keys ? t("with_keys") : t("without_keys");
  const limit = t("events_per_month", { limit: account.events_limit ?? "" });
  return h(
    "div",
    { class: "stack" },
    h("p", null, t.rich("plan_of_account", { plan: h("strong", null, account.plan), limit, keys })),
    h("p", { class: "soft" }, t("change_plan_to", { plan: next })),
    h("pre", { class: "code-block wrapped", tabindex: "0" }, command),
    h("div", { class: "row" }, copyButton(command, t("copy_command"))),
  );
}
