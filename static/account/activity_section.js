// The section Activity: the audit log of the account, newest line first, with filters, older lines, and a download.

import { failureNotice } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { chosenAccount, ofAccount } from "../shared/account_choice.js";
import { field } from "../shared/forms.js";
import { dateTime, displayZone } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { at } from "../shared/paths.js";
import { readableHost } from "../shared/readable.js";
import { personName } from "./person_name.js";
import { ROLES } from "./roles.js";

const t = await texts("account");
const shared = await texts("shared");

const PAGE = 50;
const MOST = 1_000;
/** What a line says, by action. @type {Record<string, string>} */
const ACTIONS = {
  sign_in: t("did_sign_in"),
  sign_out_everywhere: t("did_sign_out_everywhere"),
  sign_in_link_created: t("did_create_sign_in_link"),
  password_changed: t("did_change_password"),
  single_sign_on_connected: t("did_connect_single_sign_on"),
  single_sign_on_disconnected: t("did_disconnect_single_sign_on"),
  second_factor_set: t("did_set_factor"),
  second_factor_removed: t("did_remove_factor"),
  recovery_codes_created: t("did_create_recovery_codes"),
  recovery_code_used: t("did_use_recovery_code"),
  sign_in_refused: t("did_fail_code"),
  passkey_added: t("did_add_passkey"),
  passkey_removed: t("did_remove_passkey"),
  passkeys_removed: t("did_remove_passkeys"),
  passkey_refused: t("did_refuse_passkey"),
  sign_in_policy_changed: t("did_change_sign_in_policy"),
  person_invited: t("did_invite_person"),
  invitation_revoked: t("did_revoke_invitation"),
  person_joined: t("did_join"),
  person_role_changed: t("did_change_role"),
  person_limited: t("did_limit_person"),
  person_removed: t("did_remove_person"),
  person_left: t("did_leave"),
  account_created: t("did_create_account"),
  plan_changed: t("did_change_plan"),
  key_created: t("did_create_key"),
  key_revoked: t("did_revoke_key"),
  keys_revoked: t("did_revoke_keys"),
  assistant_connected: t("did_connect_assistant"),
  assistant_disconnected: t("did_disconnect_assistant"),
  channel_added: t("did_add_channel"),
  channel_changed: t("did_change_channel"),
  channel_deleted: t("did_delete_channel"),
  channel_secret_replaced: t("did_replace_channel_secret"),
  channel_confirmed: t("did_confirm_channel"),
  channel_unsubscribed: t("did_unsubscribe_channel"),
  report_added: t("did_add_report"),
  report_changed: t("did_change_report"),
  report_deleted: t("did_delete_report"),
  personal_summary_changed: t("did_change_personal_summary"),
  notice_sent_again: t("did_send_notice_again"),
  alert_added: t("did_add_alert"),
  alert_changed: t("did_change_alert"),
  alert_deleted: t("did_delete_alert"),
  alert_snoozed: t("did_snooze_alert"),
  website_added: t("did_add_website"),
  website_changed: t("did_change_website"),
  website_deleted: t("did_delete_website"),
  exclusions_changed: t("did_change_exclusions"),
  share_link_created: t("did_create_share_link"),
  share_link_changed: t("did_change_share_link"),
  share_link_revoked: t("did_revoke_share_link"),
  share_links_revoked: t("did_revoke_share_links"),
  annotation_created: t("did_create_annotation"),
  annotation_changed: t("did_change_annotation"),
  annotation_deleted: t("did_delete_annotation"),
  segment_created: t("did_create_segment"),
  segment_changed: t("did_change_segment"),
  segment_deleted: t("did_delete_segment"),
  goal_created: t("did_create_goal"),
  goal_changed: t("did_change_goal"),
  goal_deleted: t("did_delete_goal"),
  funnel_created: t("did_create_funnel"),
  funnel_changed: t("did_change_funnel"),
  funnel_deleted: t("did_delete_funnel"),
  import_started: t("did_start_import"),
  import_undone: t("did_undo_import"),
  events_deleted: t("did_delete_events"),
  deletion_stopped: t("did_stop_deletion"),
  paths_rewritten: t("did_rewrite_paths"),
  rewriting_stopped: t("did_stop_rewriting"),
  retention_changed: t("did_change_retention"),
  events_exported: t("did_export_events"),
  events_read: t("did_read_events"),
  key_expired: t("did_expire_key"),
  more_changes: t("did_more"),
};

/**
 * Draws the section into `parts`.
 *
 * @param {HTMLElement} parts
 * @param {Context} context
 */
export async function activitySection(parts, context) {
  const people = await get("/api/account/people", { signal: context.signal });
  if (context.signal.aborted) return;
  const websites = context.websites.filter((/** @type {Website} */ { account }) => account === context.account.id);
  const choices = {
    action: choice("action", t("activity_action"), t("all_actions"), Object.entries(ACTIONS)),
    person: choice(
      "person",
      t("person"),
      t("all_people"),
      (people.data || []).map((/** @type {Person} */ { id, email }) => [String(id), email]),
    ),
    website: choice(
      "website",
      t("website"),
      shared("all_websites"),
      websites.map((/** @type {Website} */ { id, name, domain }) => [id, name || readableHost(domain)]),
    ),
  };
  const list = h("div", { class: "stack" });
  const download = h("a", { class: "button", download: "" }, t("download_csv"));
  const draw = () => {
    const filters = Object.entries(choices)
      .map(([name, { select }]) => [name, select.value])
      .filter(([, value]) => value);
    const csv = new URLSearchParams([...filters, ["format", "csv"], ["limit", String(MOST)]]);
    download.href = at(ofAccount("GET", `/api/account/audit?${csv}`, chosenAccount()));
    fill(list);
    return more({ context, list, filters, websites });
  };
  for (const { select } of Object.values(choices)) select.addEventListener("change", draw);
  const fields = Object.values(choices).map(({ element }) => element);
  fill(
    parts,
    h(
      "section",
      { class: "card roomy", "aria-label": shared("nav_activity") },
      h("p", { class: "soft" }, t("activity_lead")),
      h("div", { class: "row gap-above" }, fields, download),
      list,
    ),
  );
  await draw();
}

/**
 * @param {string} name
 * @param {string} label
 * @param {string} all
 * @param {[value: string, words: string][]} options
 */
function choice(name, label, all, options) {
  const select = h(
    "select",
    null,
    h("option", { value: "" }, all),
    options.map(([value, words]) => h("option", { value }, words)),
  );
  return { select, element: field({ label, name, input: select }).element };
}

/**
 * Adds the next lines to the list.
 *
 * @param {{ context: Context, list: HTMLElement, filters: string[][], websites: Website[] }} log
 * @param {number} [before]
 */
async function more(log, before) {
  const { context, list, filters } = log;
  const query = new URLSearchParams([...filters, ["limit", String(PAGE)]]);
  if (before) query.set("before", String(before));
  const answer = await get(`/api/account/audit?${query}`, { signal: context.signal });
  if (context.signal.aborted) return;
  if (!answer.ok) {
    const retry = () => {
      failed.remove();
      return more(log, before);
    };
    const failed = failureNotice(t("activity_failed"), answer.error, retry);
    return void list.append(failed);
  }
  /** @type {AuditLine[]} */
  const lines = answer.data;
  if (!before) {
    if (!lines.length) return void fill(list, h("p", { class: "soft" }, t("no_activity")));
    fill(list, table());
  }
  list.querySelector("tbody")?.append(...lines.map((line) => row(log, line)));
  if (lines.length < PAGE) return;
  const older = h("button", { class: "button", type: "button" }, t("older_lines"));
  older.addEventListener("click", () => {
    older.remove();
    return more(log, lines[lines.length - 1].number);
  });
  list.append(older);
}

function table() {
  const heads = [t("activity_time"), t("person"), t("activity_action"), t("activity_what")];
  const head = heads.map((words) => h("th", { scope: "col" }, words));
  return h(
    "div",
    { class: "table-scroll" },
    h("table", { class: "table key-table" }, h("thead", null, h("tr", null, head)), h("tbody")),
  );
}

/**
 * @param {{ context: Context, websites: Website[] }} log
 * @param {AuditLine} line
 */
function row({ context, websites }, line) {
  const zone = displayZone(context.account.time_zone);
  const website = websites.find(({ id }) => id === line.website_id);
  const name = website ? website.name || readableHost(website.domain) : "";
  const what = [line.target, name === line.target ? "" : name].filter(Boolean);
  return h(
    "tr",
    null,
    h("td", { dataset: { head: t("activity_time") } }, h("time", { datetime: line.at }, dateTime(line.at, zone))),
    h("td", { dataset: { head: t("person") } }, h("bdi", null, actor(line))),
    h("td", { dataset: { head: t("activity_action") } }, ACTIONS[line.action] || line.action),
    h(
      "td",
      { dataset: { head: t("activity_what") } },
      h("bdi", { class: "wrap" }, what.join(" · ") || "–"),
      details(line, zone),
    ),
  );
}

/**
 * @param {AuditLine} line
 */
function actor({ actor: name, via }) {
  if (via === "cli") return t("command_line");
  if (via === "system") return t("by_server");
  return via === "key" ? t("by_key", { name }) : personName(name);
}

/**
 * Returns more about a change: the former and the new value of each field, otherwise each value that is set.
 *
 * @param {AuditLine} line
 * @param {string} zone
 */
function details({ action, detail }, zone) {
  const shown = (/** @type {string} */ name, /** @type {any} */ value) => {
    if (value === null || value === "") return "–";
    if (Array.isArray(value)) return value.join(", ") || "–";
    return name.endsWith("_ms") ? dateTime(value, zone) : ROLES[value] || String(value);
  };
  const isPair = (/** @type {string} */ name) =>
    action === "website_changed" ||
    action === "retention_changed" ||
    (action === "person_role_changed" && name === "role");
  return Object.entries(detail)
    .filter(([, value]) => value !== false && value !== null)
    .map(([name, value]) => {
      const words = isPair(name) ? `${shown(name, value[0])} → ${shown(name, value[1])}` : shown(name, value);
      return h("div", { class: "soft small-text wrap" }, h("code", null, name), ": ", h("bdi", null, words));
    });
}
