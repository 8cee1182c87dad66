// The section API keys: create a key, show it once, list keys with their last use, revoke a key. The value of a key stays
// in the page until it is dismissed; it is not stored. What a key may do: key_options.js.

import { confirmDialog, copyButton, failureNotice, notify } from "../shared/dialog.js";
import { fill, h, icon } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { relativeTime, date, dateTime, displayZone } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { assistantSetup } from "./assistant_setup.js";
import { actionTable, sectionCard } from "./card.js";
import { publicUrl } from "../shared/paths.js";
import { personName } from "./person_name.js";
import { keyLimits, keyOptions } from "./key_options.js";
import { revokeAllButton } from "./revoke_all.js";

const t = await texts("account");
const shared = await texts("shared");

// The lowest plan with API keys.
const PLAN_WITH_KEYS = "pro";

/**
 * Draws the section into `parts`.
 *
 * @param {HTMLElement} parts
 * @param {Context} context
 */
export async function apiKeysSection(parts, context) {
  if (!context.account.has_keys) return void fill(parts, whyNoKeys(context.account));
  /** @type {any} */
  const keys = { context, form: null, made: h("div"), list: h("div", { class: "stack" }), name: null };
  fill(
    parts,
    creation(keys),
    h("section", { class: "card roomy", "aria-label": t("your_keys") }, h("h2", null, t("your_keys")), keys.list),
  );
  await listed(keys);
}

/**
 * @param {Account} account
 */
function whyNoKeys(account) {
  const command = `analytics-server account plan ${account.email} ${PLAN_WITH_KEYS}`;
  const plan = h("strong", null, account.plan);
  return sectionCard(
    t("no_keys_on_plan"),
    h(
      "div",
      { class: "stack" },
      h("p", null, t.rich("plans_with_keys", { plan })),
      h("p", null, t("dashboard_without_key")),
      h("p", { class: "soft" }, t("change_plan")),
      h("pre", { class: "code-block wrapped", tabindex: "0" }, command),
      h("div", { class: "row" }, copyButton(command, t("copy_command"))),
    ),
  );
}

/**
 * @param {KeysSection} keys
 */
function creation(keys) {
  const name = field({
    label: shared("name"),
    name: "name",
    autocomplete: "off",
    autocapitalize: "sentences",
    placeholder: t("key_example"),
    missing: t("enter_key_name"),
    maxlength: 100,
    hint: t("key_hint"),
  });
  const options = keyOptions(keys.context.websites);
  const made = form({
    fields: [name, options],
    action: t("create_key"),
    busy: t("creating_key"),
    submit: async (values) => {
      const answer = await send("POST", "/api/account/keys", { name: values.name.trim(), ...options.values() });
      if (!answer.ok) return answer;
      name.input.value = "";
      options.reset();
      showOnce(keys, answer.data);
      await listed(keys);
      return null;
    },
  });
  keys.form = made.element;
  keys.name = name.input;
  return h(
    "section",
    { class: "card roomy" },
    h("h2", null, t("new_key")),
    h("p", { class: "soft" }, t("key_reads")),
    made.element,
    keys.made,
  );
}

/**
 * @param {KeysSection} keys
 * @param {ApiKey} key
 */
function showOnce(keys, key) {
  const base = publicUrl(keys.context.account.base_url);
  const curl = () => `curl -H 'Authorization: Bearer ${key.value}' ${base}/api/v1/websites`;
  const value = h("input", {
    type: "text",
    class: "mono",
    readonly: true,
    value: key.value,
    "aria-label": t("value_of_key", { name: key.name }),
    autocomplete: "off",
  });
  value.addEventListener("focus", () => value.select());
  const copy = copyButton(key.value, t("copy_key"));
  copy.classList.add("primary");
  const done = h("button", { class: "button", type: "button" }, t("done"));
  done.addEventListener("click", () => {
    fill(keys.made);
    keys.form.hidden = false;
    keys.name.focus();
  });
  keys.form.hidden = true;
  fill(
    keys.made,
    h(
      "div",
      { class: "key-made", role: "group", "aria-label": t("new_key_named", { name: key.name }) },
      h(
        "div",
        { class: "notice good" },
        icon("check"),
        h("div", null, h("strong", null, t("key_created", { name: key.name })), h("p", null, t("key_shown_once"))),
      ),
      h("div", { class: "row copy-row" }, h("div", { class: "grow" }, value), copy),
      h("div", { class: "row" }, copyButton(curl, t("copy_curl")), done),
      assistantSetup(key, base),
    ),
  );
  value.focus();
}

/**
 * @param {KeysSection} keys
 */
async function listed(keys) {
  const answer = await get("/api/account/keys", { signal: keys.context.signal });
  if (keys.context.signal.aborted) return;
  if (!answer.ok) {
    return void fill(
      keys.list,
      failureNotice(t("keys_failed"), answer.error, () => listed(keys)),
    );
  }
  if (!answer.data.length) return void fill(keys.list, h("p", { class: "soft" }, t("no_keys")));
  const rows = answer.data.map((/** @type {ApiKey} */ key) => keyRow(keys, key));
  fill(
    keys.list,
    actionTable([shared("name"), t("prefix"), t("created"), t("last_used")], rows),
    h("div", { class: "row" }, revokeAll(keys)),
  );
}

/**
 * @param {KeysSection} keys
 */
function revokeAll(keys) {
  return revokeAllButton({
    ...{ action: t("revoke_keys"), effect: t("revoke_keys_hint"), path: "/api/account/keys" },
    async done() {
      notify(t("keys_revoked"));
      await listed(keys);
      if (!keys.form.hidden) keys.name.focus();
    },
  });
}

/**
 * @param {KeysSection} keys
 * @param {ApiKey} key
 */
function keyRow(keys, key) {
  const zone = displayZone(keys.context.account.time_zone);
  const revoke = h(
    "button",
    { class: "button small", type: "button", "aria-label": t("revoke_key_named", { name: key.name }) },
    t("revoke_key"),
  );
  revoke.addEventListener("click", () => revoked(keys, key, revoke));
  const used = key.last_used_at
    ? h("time", { datetime: key.last_used_at, title: dateTime(key.last_used_at, zone) }, relativeTime(key.last_used_at))
    : h("span", { class: "soft" }, t("never"));
  return h(
    "tr",
    null,
    h(
      "th",
      { scope: "row", class: "key-name" },
      key.name || t("no_name"),
      keyLimits(key, keys.context),
      creator(keys, key),
    ),
    h("td", { dataset: { head: t("prefix") } }, h("code", null, `${key.prefix}…`)),
    h("td", { dataset: { head: t("created") } }, date(key.created_at, zone)),
    h("td", { dataset: { head: t("last_used") } }, used),
    h("td", { class: "num" }, revoke),
  );
}

/**
 * Returns who created a key; nothing where the person is alone and created it.
 *
 * @param {KeysSection} keys
 * @param {ApiKey} key
 */
function creator({ context }, { created_by: by }) {
  const { people, email } = context.account;
  if (!by || (people < 2 && by === email)) return null;
  return h("span", { class: "key-limits soft" }, t("created_by", { person: personName(by) }));
}

/**
 * @param {KeysSection} keys
 * @param {ApiKey} key
 * @param {HTMLButtonElement} button
 */
async function revoked(keys, key, button) {
  const name = key.name || key.prefix;
  const agreed = await confirmDialog({
    title: t("revoke_question", { name }),
    words: t("revoke_effect"),
    action: t("revoke_key"),
    danger: true,
  });
  if (!agreed) return;
  button.setAttribute("aria-disabled", "true");
  const answer = await send("DELETE", `/api/account/keys/${key.id}`);
  if (!answer.ok && answer.status !== 404) {
    button.removeAttribute("aria-disabled");
    return notify(answer.error.message);
  }
  notify(t("key_revoked", { name }));
  await listed(keys);
  const next = keys.form.hidden ? keys.made.querySelector("input") : keys.name;
  next?.focus();
}
