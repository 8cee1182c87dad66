// The section Notifications: channels by which notices of the account are sent, each with a test, and the log of notices.
// A secret (the key of a webhook, the address of a feed) is shown once, where it is made.

import { confirmDialog, copyButton, failureNotice, notify, openDialog } from "../shared/dialog.js";
import { fill, h, icon } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { dateTime, displayZone } from "../shared/formats.js";
import { language } from "../shared/language.js";
import { texts } from "../shared/messages.js";
import { publicUrl } from "../shared/paths.js";
import { allZones, currentName, zoneLabel } from "../shared/time_zones.js";
import { actionTable, sectionCard } from "./card.js";
import { reportsCard } from "./reports_card.js";
import { runOnce } from "./run_once.js";
import { sendError } from "./send_errors.js";

const t = await texts("account");
const shared = await texts("shared");

/** By kind: its name, and the fields that it has. @type {Record<string, [name: string, ...fields: string[]]>} */
const KINDS = {
  ntfy: ["ntfy", "url", "topic", "token"],
  slack: [t("channel_slack"), "url"],
  discord: [t("channel_discord"), "url"],
  webhook: [t("channel_webhook"), "url"],
  apprise: [t("channel_apprise"), "url"],
  feed: [t("channel_feed")],
  email: [t("channel_by_email"), "address"],
};
/** @type {Record<string, string>} */
const STATES = {
  waiting: t("notice_waiting"),
  sending: t("notice_sending"),
  sent: t("notice_sent"),
  failed: t("notice_failed"),
  expired: t("notice_expired"),
};
const QUIET = { from: "22:00", to: "07:00" };

/**
 * Draws the section into `parts`.
 *
 * @param {HTMLElement} parts
 * @param {Context} context
 */
export async function notificationsSection(parts, context) {
  /** @type {NotificationsSection} */
  const section = { context, hasMail: false, made: h("div"), rest: h("div", { class: "settings-parts" }) };
  fill(parts, section.rest);
  await listed(section);
}

/**
 * @param {NotificationsSection} section
 */
async function listed(section) {
  const { signal } = section.context;
  const [channels, notices] = await Promise.all([
    get("/api/account/channels", { signal }),
    get("/api/account/notices", { signal }),
  ]);
  if (signal.aborted) return;
  const failure = [channels, notices].find((answer) => !answer.ok);
  if (failure) {
    const again = failureNotice(t("channels_failed"), failure.error, () => listed(section));
    return void fill(section.rest, again);
  }
  section.hasMail = channels.meta.mail;
  const add = h("button", { class: "button primary", type: "button" }, t("add_channel"));
  add.addEventListener("click", () => addDialog(section));
  const rows = channels.data.map((/** @type {Channel} */ one) => channelRow(section, one));
  const list = rows.length
    ? actionTable([shared("name"), t("channel_kind"), t("channel_state")], rows)
    : h("p", { class: "soft" }, t("no_channels"));
  fill(
    section.rest,
    sectionCard(
      t("channels"),
      h("p", { class: "soft" }, t("channels_lead")),
      h(
        "div",
        { class: "stack" },
        list,
        h("div", { class: "row" }, add),
        section.hasMail ? null : h("p", { class: "soft" }, t("no_mail_server")),
        section.made,
      ),
    ),
    channels.data.length ? reportsCard(section.context, channels.data) : null,
    notices.data.length ? log(section, channels.data, notices.data) : null,
  );
}

/**
 * @param {NotificationsSection} section
 * @param {Channel} channel
 */
function channelRow(section, channel) {
  /** @param {string} words @param {() => any} work */
  const button = (words, work) => {
    const label = t("of_channel", { action: words, name: channel.name });
    const made = h("button", { class: "button small", type: "button", "aria-label": label }, words);
    made.addEventListener("click", () => runOnce(made, work));
    return made;
  };
  const path = `/api/account/channels/${channel.id}`;
  const hasSecret = channel.kind === "webhook" || channel.kind === "feed";
  return h(
    "tr",
    null,
    h(
      "th",
      { scope: "row", class: "key-name" },
      channel.name,
      channel.host ? h("span", { class: "key-limits soft" }, channel.host) : null,
    ),
    h("td", { dataset: { head: t("channel_kind") } }, KINDS[channel.kind][0]),
    h("td", { dataset: { head: t("channel_state") } }, stateOf(section, channel)),
    h(
      "td",
      { class: "num" },
      h("div", { class: "row" }, [
        button(channel.confirmed_at ? t("test_channel") : t("ask_again"), () => tested(path, channel)),
        channel.paused_at ? button(t("resume_channel"), () => changed(section, path, { paused: false })) : null,
        button(t("change_channel"), () => editDialog(section, channel, path)),
        hasSecret ? button(replacement(channel), () => replaced(section, channel, path)) : null,
        button(shared("delete"), () => removed(section, channel, path)),
      ]),
    ),
  );
}

/**
 * Returns the words of the button that replaces a channel's secret.
 *
 * @param {Channel} channel
 */
function replacement({ kind }) {
  return kind === "feed" ? t("replace_address") : t("replace_key");
}

/**
 * @param {NotificationsSection} section
 * @param {Channel} channel
 */
function stateOf({ context }, channel) {
  const zone = displayZone(context.account.time_zone);
  const { quiet } = channel;
  const words = !channel.confirmed_at
    ? t("channel_unconfirmed")
    : channel.paused_at
      ? t("channel_paused", { time: dateTime(channel.paused_at, zone) })
      : channel.failing_since
        ? t("channel_failing", { time: dateTime(channel.failing_since, zone) })
        : t("channel_works");
  return [
    words,
    channel.last_error && (channel.paused_at || channel.failing_since)
      ? h("span", { class: "key-limits soft" }, sendError(channel.last_error, channel.last_error_code))
      : null,
    quiet ? h("span", { class: "key-limits soft" }, t("quiet_from_to", { from: quiet.from, to: quiet.to })) : null,
  ];
}

/**
 * @param {string} path
 * @param {Channel} channel
 */
async function tested(path, channel) {
  const answer = await send("POST", `${path}/test`);
  if (!answer.ok) return notify(answer.error.message);
  if (!channel.confirmed_at) return notify(t("asked_again"));
  const { ok, error, error_code } = answer.data;
  notify(ok ? t("test_sent") : t("test_failed", { error: sendError(error, error_code) }));
}

/**
 * @param {NotificationsSection} section
 * @param {string} path
 * @param {object} sent
 */
async function changed(section, path, sent) {
  const answer = await send("PATCH", path, sent);
  if (!answer.ok) notify(answer.error.message);
  await listed(section);
}

/**
 * @param {NotificationsSection} section
 * @param {Channel} channel
 * @param {string} path
 */
async function replaced(section, channel, path) {
  const action = replacement(channel);
  const words = channel.kind === "feed" ? t("replace_address_effect") : t("replace_key_effect");
  if (!(await confirmDialog({ title: `${action}?`, words, action }))) return;
  const answer = await send("POST", `${path}/secret`);
  if (!answer.ok) return notify(answer.error.message);
  showOnce(section, { ...channel, ...answer.data });
}

/**
 * @param {NotificationsSection} section
 * @param {Channel} channel
 * @param {string} path
 */
async function removed(section, channel, path) {
  const title = t("delete_channel_question", { name: channel.name });
  const words = t("delete_channel_effect");
  if (!(await confirmDialog({ title, words, action: shared("delete"), danger: true }))) return;
  const answer = await send("DELETE", path);
  if (!answer.ok && answer.status !== 404) return notify(answer.error.message);
  fill(section.made);
  await listed(section);
}

/**
 * @param {NotificationsSection} section
 */
function addDialog(section) {
  const kind = h(
    "select",
    null,
    Object.entries(KINDS)
      .filter(([value]) => value !== "email" || section.hasMail)
      .map(([value, [name]]) => h("option", { value }, name)),
  );
  const off = { autocomplete: "off" };
  const fields = [
    field({ label: t("channel_kind"), name: "kind", input: kind }),
    field({ label: shared("name"), name: "name", maxlength: 100, ...off }),
    ...receiverFields({ url: t("channel_url_hint"), token: t("channel_token_hint") }),
    field({
      label: t("channel_addresses"),
      name: "address",
      inputmode: "email",
      maxlength: 2000,
      hint: t("channel_addresses_hint"),
      ...off,
    }),
  ];
  const quiet = quietFields(section.context, null);
  const show = () => {
    // Channels of addresses have these as their names.
    fields[1].element.hidden = kind.value === "email";
    for (const one of fields.slice(2)) one.element.hidden = !KINDS[kind.value].includes(one.name);
    quiet.element.hidden = kind.value === "feed";
  };
  kind.addEventListener("change", show);
  show();
  const made = form({
    fields,
    action: t("add_channel"),
    busy: t("adding_channel"),
    submit: async (values) => {
      if (values.kind === "email") return addAddresses(section, values.address, quiet.value(), dialog);
      if (!values.name.trim()) return { ok: false, error: { message: t("enter_channel_name"), field: "name" } };
      const own = KINDS[values.kind].slice(1).map((name) => [name, values[name].trim() || null]);
      const name = values.name.trim();
      const sent = { kind: values.kind, name, language, quiet: quiet.value(), ...Object.fromEntries(own) };
      const answer = await send("POST", "/api/account/channels", sent);
      if (!answer.ok) return answer;
      dialog.close();
      await listed(section);
      showOnce(section, answer.data);
      return null;
    },
  });
  made.element.insertBefore(quiet.element, made.element.lastElementChild);
  const dialog = openDialog({ title: t("add_channel"), body: made.element });
  kind.focus();
}

/**
 * Returns the fields of a channel's receiver: url, topic and token, with their hints.
 *
 * @param {{ url: string, topic?: string, token: string }} hints
 */
function receiverFields(hints) {
  const off = { autocomplete: "off" };
  return [
    field({ label: t("channel_url"), name: "url", inputmode: "url", maxlength: 1000, hint: hints.url, ...off }),
    field({ label: t("channel_topic"), name: "topic", maxlength: 200, hint: hints.topic, ...off }),
    field({ label: t("channel_token"), name: "token", maxlength: 200, hint: hints.token, ...off }),
  ];
}

/**
 * Changes a channel. No answer has its URL, topic and token, so that empty fields keep them.
 *
 * @param {NotificationsSection} section
 * @param {Channel} channel
 * @param {string} path
 */
function editDialog(section, channel, path) {
  const own = KINDS[channel.kind].slice(1);
  const kept = t("keep_if_empty");
  const name = field({
    ...{ label: shared("name"), name: "name", maxlength: 100, missing: t("enter_channel_name"), autocomplete: "off" },
    value: channel.name,
  });
  const receiver = receiverFields({ url: kept, topic: kept, token: kept }).filter((one) => own.includes(one.name));
  const quiet = quietFields(section.context, channel.quiet);
  quiet.element.hidden = channel.kind === "feed";
  const made = form({
    fields: [name, ...receiver],
    action: t("save_channel"),
    busy: shared("saving"),
    submit: async (values) => {
      const typed = receiver.map((one) => [one.name, values[one.name].trim()]).filter(([, value]) => value);
      const sent = { name: values.name.trim(), quiet: quiet.value(), ...Object.fromEntries(typed) };
      const answer = await send("PATCH", path, sent);
      if (!answer.ok) return answer;
      dialog.close();
      await listed(section);
      return null;
    },
  });
  made.element.insertBefore(quiet.element, made.element.lastElementChild);
  const dialog = openDialog({ title: t("edit_channel", { name: channel.name }), body: made.element });
  name.input.focus();
}

/**
 * Adds a channel for each address of a text. Those before one that is refused stay.
 *
 * @param {NotificationsSection} section
 * @param {string} text
 * @param {object | null} quiet
 * @param {{ close: () => void }} dialog
 */
async function addAddresses(section, text, quiet, dialog) {
  const addresses = text.split(/[\s,;]+/).filter(Boolean);
  if (!addresses.length) return { ok: false, error: { message: t("enter_addresses"), field: "address" } };
  for (const address of addresses) {
    const name = address.slice(0, 100);
    const answer = await send("POST", "/api/account/channels", { kind: "email", name, address, language, quiet });
    if (!answer.ok) {
      await listed(section);
      return {
        ...answer,
        error: { ...answer.error, message: `${address}: ${answer.error.message}`, field: "address" },
      };
    }
  }
  dialog.close();
  await listed(section);
  return null;
}

/**
 * Returns the quiet hours of a channel: { element, value }; the value is null while they are closed.
 *
 * @param {Context} context
 * @param {Channel["quiet"]} set
 */
function quietFields({ account }, set) {
  const own = set?.time_zone || currentName(displayZone(account.time_zone));
  const from = field({ label: t("quiet_from"), name: "from", type: "time", value: (set || QUIET).from });
  const to = field({ label: t("quiet_to"), name: "to", type: "time", value: (set || QUIET).to });
  const zones = allZones(own).map((one) => h("option", { value: one, selected: one === own }, zoneLabel(one)));
  const zone = field({ label: t("time_zone"), name: "time_zone", input: h("select", null, zones) });
  const element = h(
    "details",
    { class: "aside key-options", open: Boolean(set) },
    h("summary", null, icon("right"), t("quiet_hours")),
    h(
      "div",
      { class: "form" },
      h("p", { class: "field-hint" }, t("quiet_hint")),
      [from, to, zone].map((one) => one.element),
    ),
  );
  const value = () =>
    element.open && !element.hidden ? { from: from.value(), to: to.value(), time_zone: zone.value() } : null;
  return { element, value };
}

/**
 * Shows the secret of a channel, which no other answer has; nothing for channels without one.
 *
 * @param {NotificationsSection} section
 * @param {Channel} channel
 */
function showOnce(section, channel) {
  const secret = channel.path ? publicUrl(section.context.account.base_url) + channel.path : channel.secret;
  if (!secret) return void fill(section.made);
  const label = channel.path
    ? t("address_of_feed", { name: channel.name })
    : t("key_of_webhook", { name: channel.name });
  const value = h("input", {
    ...{ type: "text", class: "mono", readonly: true, value: secret, "aria-label": label, autocomplete: "off" },
  });
  value.addEventListener("focus", () => value.select());
  const words = h("div", null, h("strong", null, label), h("p", null, t("secret_shown_once")));
  fill(
    section.made,
    h(
      "div",
      { class: "key-made", role: "group", "aria-label": label },
      h("div", { class: "notice good" }, icon("check"), words),
      h("div", { class: "row copy-row" }, h("div", { class: "grow" }, value), copyButton(secret)),
    ),
  );
  value.focus();
}

/**
 * @param {NotificationsSection} section
 * @param {Channel[]} channels
 * @param {Notice[]} notices
 */
function log(section, channels, notices) {
  const names = new Map(channels.map((one) => [one.id, one.name]));
  const rows = notices.map((one) => noticeRow(section, one, names.get(one.channel) || ""));
  return sectionCard(t("notices"), actionTable([t("notice"), t("channel"), t("channel_state")], rows));
}

/**
 * @param {NotificationsSection} section
 * @param {Notice} notice
 * @param {string} channel
 */
function noticeRow(section, notice, channel) {
  const zone = displayZone(section.context.account.time_zone);
  const again = h("button", { class: "button small", type: "button" }, t("send_again"));
  again.setAttribute("aria-label", t("of_channel", { action: t("send_again"), name: notice.title }));
  again.addEventListener("click", () =>
    runOnce(again, async () => {
      const answer = await send("POST", `/api/account/notices/${notice.number}/send`);
      if (!answer.ok) notify(answer.error.message);
      await listed(section);
    }),
  );
  const mayRepeat = notice.state === "failed" || notice.state === "expired";
  return h(
    "tr",
    null,
    h(
      "th",
      { scope: "row", class: "key-name" },
      notice.title,
      h("span", { class: "key-limits soft" }, dateTime(notice.created_at, zone)),
    ),
    h("td", { dataset: { head: t("channel") } }, channel),
    h(
      "td",
      { dataset: { head: t("channel_state") } },
      STATES[notice.state],
      notice.last_error
        ? h("span", { class: "key-limits soft" }, sendError(notice.last_error, notice.last_error_code))
        : null,
    ),
    h("td", { class: "num" }, mayRepeat ? again : null),
  );
}
