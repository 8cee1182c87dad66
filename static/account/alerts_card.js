// The alerts of a website in its settings: a list with the state of each, and dialogs that add, change and snooze one.

import { confirmDialog, failureNotice, notify, openDialog } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { checkbox, field, form } from "../shared/forms.js";
import { dateTime, displayZone, number, numberFormat } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { actionTable, sectionCard } from "./card.js";
import { runOnce } from "./run_once.js";

const t = await texts("account");
const shared = await texts("shared");

/** By kind: its name, what it watches, and its fields. @type {Record<string, [name: string, words: string, ...fields: string[]]>} */
const KINDS = {
  drop: [t("alert_drop"), t("alert_drop_hint")],
  silence: [t("alert_silence"), t("alert_silence_hint"), "hours"],
  spike: [t("alert_spike"), t("alert_spike_hint"), "factor", "sensitive", "min_visits"],
  goal: [t("alert_goal"), t("alert_goal_hint"), "goal", "period", "min"],
  new_source: [t("alert_new_source"), t("alert_new_source_hint")],
  quota: [t("alert_quota"), t("alert_quota_hint")],
};
/** @type {Record<string, string>} */
const RESULTS = {
  waiting: t("alert_waiting"),
  not_judged: t("alert_not_judged"),
  too_few_weeks: t("alert_too_few_weeks"),
  not_enough_traffic: t("alert_not_enough_traffic"),
};
/** @type {[string, string][]} */
const PERIODS = [
  ["day", t("alert_day")],
  ["week", t("alert_week")],
  ["month", t("alert_month")],
];
/** @type {[string, string][]} */
const SNOOZES = [
  ["1", t("snooze_hour")],
  ["24", t("snooze_day")],
  ["168", t("snooze_week")],
  ["720", t("snooze_month")],
];

/**
 * Returns the card; the alerts are loaded into it.
 *
 * @param {Settings} settings
 */
export function alertsCard({ website, context }) {
  const path = `/api/account/websites/${website.id}/alerts`;
  const zone = displayZone(website.time_zone || context.account.time_zone);
  const body = h("div", { "aria-live": "polite" });
  /** @type {AlertsCard} */
  const card = { path, zone, body, channels: [], goals: [], load: () => load(card, website) };
  card.load();
  return sectionCard(t("alerts"), h("p", { class: "soft" }, t("alerts_lead")), body);
}

/**
 * @param {AlertsCard} card
 * @param {Website} website
 */
async function load(card, website) {
  const [alerts, channels, goals] = await Promise.all([
    get(card.path),
    get(`/api/account/channels?account=${website.account}`),
    get(`/api/account/websites/${website.id}/goals`),
  ]);
  const failed = [alerts, channels, goals].find((answer) => !answer.ok);
  if (failed) return void fill(card.body, failureNotice(t("alerts_failed"), failed.error, card.load));
  Object.assign(card, { channels: channels.data, goals: goals.data });
  const add = h("button", { class: "button", type: "button" }, t("add_alert"));
  add.addEventListener("click", () => alertDialog(card, null));
  const rows = alerts.data.map((/** @type {Alert} */ one) => alertRow(card, one));
  const list = rows.length
    ? actionTable([t("alert"), t("channel_state")], rows)
    : h("p", { class: "soft" }, t("no_alerts"));
  const link = h("a", { href: "/account/notifications" }, shared("nav_notifications"));
  const none = channels.data.length ? null : h("p", { class: "notice" }, t.rich("alerts_need_channel", { link }));
  fill(card.body, h("div", { class: "stack" }, none, list, h("div", { class: "row" }, add)));
}

/**
 * @param {AlertsCard} card
 * @param {Alert} alert
 */
function alertRow(card, alert) {
  const name = KINDS[alert.kind][0];
  /** @param {string} words @param {() => any} work */
  const button = (words, work) => {
    const label = t("of_channel", { action: words, name });
    const made = h("button", { class: "button small", type: "button", "aria-label": label }, words);
    made.addEventListener("click", () => runOnce(made, work));
    return made;
  };
  const path = `${card.path}/${alert.id}`;
  return h(
    "tr",
    null,
    h(
      "th",
      { scope: "row", class: "key-name" },
      name,
      [limitsOf(card, alert), channelsOf(card, alert)].map((words) =>
        words ? h("span", { class: "key-limits soft" }, words) : null,
      ),
    ),
    h("td", { dataset: { head: t("channel_state") } }, stateOf(card, alert)),
    h(
      "td",
      { class: "num" },
      h("div", { class: "row" }, [
        button(t("edit"), () => alertDialog(card, alert)),
        alert.snoozed_until
          ? button(t("end_snooze"), () => changed(card, "POST", `${path}/snooze`, { hours: null }))
          : button(t("snooze"), () => snoozeDialog(card, path)),
        button(shared("delete"), () => removed(card, name, path)),
      ]),
    ),
  );
}

/**
 * @param {AlertsCard} card
 * @param {Alert} alert
 */
function limitsOf(card, alert) {
  if (alert.kind === "silence") return alert.hours ? t("after_hours", { count: alert.hours }) : "";
  if (alert.kind === "goal") {
    const goal = card.goals.find((one) => one.id === alert.goal)?.name || t("deleted_goal");
    const period = PERIODS.find(([value]) => value === alert.period)?.[1] || "";
    return t("goal_limits", { goal, min: number(alert.min || 0), period });
  }
  if (alert.kind !== "spike") return "";
  if (alert.min_visits) return t("from_visits", { visits: number(alert.min_visits) });
  const factor = t("times_usual", { factor: numberFormat({ maximumFractionDigits: 2 }).format(alert.factor || 0) });
  return alert.sensitive ? `${factor}, ${t("sensitive")}` : factor;
}

/**
 * @param {AlertsCard} card
 * @param {Alert} alert
 */
function channelsOf({ channels }, alert) {
  if (!alert.channels) return "";
  const names = channels.filter((one) => alert.channels?.includes(one.id)).map((one) => one.name);
  return names.join(", ") || t("channels_deleted");
}

/**
 * @param {AlertsCard} card
 * @param {Alert} alert
 */
function stateOf({ zone }, alert) {
  const time = dateTime(alert.since, zone);
  const words = alert.state === "firing" ? t("alert_firing", { time }) : RESULTS[alert.result] || t("alert_ok");
  const until = alert.snoozed_until && t("snoozed_until", { time: dateTime(alert.snoozed_until, zone) });
  return [
    alert.state === "firing" ? h("strong", null, words) : words,
    until ? h("span", { class: "key-limits soft" }, until) : null,
  ];
}

/**
 * @param {AlertsCard} card
 * @param {string} method
 * @param {string} path
 * @param {object} [sent]
 */
async function changed(card, method, path, sent) {
  const answer = await send(method, path, sent);
  if (!answer.ok && answer.status !== 404) notify(answer.error.message);
  await card.load();
}

/**
 * @param {AlertsCard} card
 * @param {string} name
 * @param {string} path
 */
async function removed(card, name, path) {
  const title = t("delete_channel_question", { name });
  if (!(await confirmDialog({ title, words: t("delete_alert_effect"), action: shared("delete"), danger: true }))) {
    return;
  }
  await changed(card, "DELETE", path);
}

/**
 * @param {AlertsCard} card
 * @param {string} path
 */
function snoozeDialog(card, path) {
  const made = form({
    fields: [field({ label: t("snooze_for"), name: "hours", input: select(SNOOZES, "24") })],
    action: t("snooze"),
    busy: shared("saving"),
    submit: async (values) => {
      const answer = await send("POST", `${path}/snooze`, { hours: Number(values.hours) });
      if (!answer.ok) return answer;
      dialog.close();
      await card.load();
      return null;
    },
  });
  const dialog = openDialog({ title: t("snooze"), body: made.element });
}

/**
 * @param {AlertsCard} card
 * @param {Alert | null} alert
 */
function alertDialog(card, alert) {
  const kinds = Object.keys(KINDS).filter((kind) => kind !== "goal" || card.goals.length || alert);
  const kind = select(
    kinds.map((one) => [one, KINDS[one][0]]),
    alert?.kind || "drop",
  );
  kind.disabled = Boolean(alert);
  const goals = card.goals.map((one) => /** @type {[string, string]} */ ([one.id, one.name]));
  const whole = { inputmode: "numeric", autocomplete: "off" };
  const fields = [
    field({ label: t("channel_kind"), name: "kind", input: kind }),
    field({ label: t("alert_factor"), name: "factor", value: String(alert?.factor || 3), ...whole }),
    checked(checkbox({ label: t("sensitive"), name: "sensitive", hint: t("sensitive_hint") }), alert?.sensitive),
    optional("min_visits", t("alert_min_visits"), t("alert_min_visits_hint"), alert?.min_visits),
    optional("hours", t("alert_hours"), t("alert_hours_hint"), alert?.hours),
    field({ label: t("alert_goal_field"), name: "goal", input: select(goals, alert?.goal || "") }),
    field({ label: t("alert_period"), name: "period", input: select(PERIODS, alert?.period || "day") }),
    field({ label: t("alert_min"), name: "min", value: String(alert?.min || 1), ...whole }),
  ];
  const named = card.channels.length > 1 ? card.channels : [];
  const channels = named.map((one) => {
    const isChosen = alert?.channels?.includes(one.id);
    return checked(checkbox({ label: one.name, name: one.id }), isChosen);
  });
  const words = h("p", { class: "field-hint" });
  const show = () => {
    const [, hint, ...own] = KINDS[kind.value];
    words.textContent = hint;
    for (const one of fields.slice(1)) one.element.hidden = !own.includes(one.name);
  };
  kind.addEventListener("change", show);
  show();
  const made = form({
    fields: [...fields, ...channels],
    action: alert ? t("save_alert") : t("add_alert"),
    busy: shared("saving"),
    submit: async (values) => {
      const own = KINDS[kind.value].slice(2).map((name) => [name, sentValue(name, values[name])]);
      const ids = named.filter((one) => values[one.id]).map((one) => one.id);
      const sent = { channels: ids.length ? ids : null, ...Object.fromEntries(own) };
      const answer = alert
        ? await send("PATCH", `${card.path}/${alert.id}`, sent)
        : await send("POST", card.path, { kind: kind.value, ...sent });
      if (!answer.ok) return answer;
      dialog.close();
      await card.load();
      return null;
    },
  });
  fields[0].element.after(words);
  if (channels.length) channels[0].element.before(h("p", { class: "field-hint" }, t("alert_channels")));
  const dialog = openDialog({ title: alert ? t("edit_alert") : t("add_alert"), body: made.element });
  if (!alert) kind.focus();
}

/**
 * Returns the value of a field as it is sent: numbers as such, where they are; null for an empty one.
 *
 * @param {string} name
 * @param {any} value
 */
function sentValue(name, value) {
  if (name === "sensitive" || name === "goal" || name === "period") return value;
  const text = value.trim().replace(",", ".");
  return text === "" ? null : Number.isNaN(Number(text)) ? value : Number(text);
}

/**
 * @param {string} name
 * @param {string} label
 * @param {string} hint
 * @param {number | null | undefined} value
 */
function optional(name, label, hint, value) {
  const own = {
    inputmode: "numeric",
    autocomplete: "off",
    soft: shared("optional"),
    value: value ? String(value) : "",
  };
  return field({ name, label, hint, ...own });
}

/**
 * @param {ReturnType<typeof checkbox>} made
 * @param {boolean} [is]
 */
function checked(made, is) {
  made.input.checked = Boolean(is);
  return made;
}

/**
 * @param {[string, string][]} options
 * @param {string} chosen
 */
function select(options, chosen) {
  const made = options.map(([value, words]) => h("option", { value, selected: value === chosen }, words));
  return h("select", null, made);
}
