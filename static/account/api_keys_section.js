// The section API keys: create a key, show it once, list keys with their last use, revoke a key. The value of a key stays
// in the page until it is dismissed; it is not stored.

import { confirmDialog, copyButton, failureNotice, notify } from "../shared/dialog.js";
import { fill, h, icon, visuallyHidden } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { relativeTime, date, dateTime, displayZone } from "../shared/formats.js";
import { sectionCard } from "./card.js";
import { publicUrl } from "../shared/paths.js";

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
    h("section", { class: "card roomy", "aria-label": "Your keys" }, h("h2", null, "Your keys"), keys.list),
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
    "No API keys on this plan",
    h(
      "div",
      { class: "stack" },
      h("p", null, "API keys are part of the pro and business plans; this account is on the ", plan, " plan."),
      h("p", null, "The dashboard shows the same figures without a key."),
      h("p", { class: "soft" }, "To change the plan, run this command on the server:"),
      h("pre", { class: "code-block wrapped", tabindex: "0" }, command),
      h("div", { class: "row" }, copyButton(command, "Copy command")),
    ),
  );
}

/**
 * @param {KeysSection} keys
 */
function creation(keys) {
  const name = field({
    label: "Name",
    name: "name",
    autocomplete: "off",
    autocapitalize: "sentences",
    placeholder: "Monthly report",
    missing: "Enter a name for the key.",
    maxlength: 100,
    hint: "Use a separate key for each program, so that you can revoke them separately.",
  });
  const made = form({
    fields: [name],
    action: "Create key",
    busy: "Creating key…",
    submit: async (values) => {
      const answer = await send("POST", "/api/account/keys", { name: values.name.trim() });
      if (!answer.ok) return answer;
      name.input.value = "";
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
    h("h2", null, "New key"),
    h("p", { class: "soft" }, "A key can read the reports of all your websites. It cannot change anything."),
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
    "aria-label": `Value of the key ${key.name}`,
    autocomplete: "off",
  });
  value.addEventListener("focus", () => value.select());
  const copy = copyButton(key.value, "Copy key");
  copy.classList.add("primary");
  const done = h("button", { class: "button", type: "button" }, "Done");
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
      { class: "key-made", role: "group", "aria-label": `New key ${key.name}` },
      h(
        "div",
        { class: "notice good" },
        icon("check"),
        h(
          "div",
          null,
          h("strong", null, `Key created: ${key.name}`),
          h("p", null, "Copy it now. It is shown only once; the server stores a hash."),
        ),
      ),
      h("div", { class: "row copy-row" }, h("div", { class: "grow" }, value), copy),
      h("div", { class: "row" }, copyButton(curl, "Copy as curl command"), done),
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
      failureNotice("The API keys cannot be shown.", answer.error, () => listed(keys)),
    );
  }
  if (!answer.data.length) return void fill(keys.list, h("p", { class: "soft" }, "No keys yet."));
  const head = ["Name", "Prefix", "Created", "Last used"].map((words) => h("th", { scope: "col" }, words));
  const rows = answer.data.map((/** @type {ApiKey} */ key) => keyRow(keys, key));
  fill(
    keys.list,
    h(
      "div",
      { class: "table-scroll" },
      h(
        "table",
        { class: "table key-table" },
        h("thead", null, h("tr", null, head, h("th", { scope: "col" }, visuallyHidden("Actions")))),
        h("tbody", null, rows),
      ),
    ),
  );
}

/**
 * @param {KeysSection} keys
 * @param {ApiKey} key
 */
function keyRow(keys, key) {
  const zone = displayZone(keys.context.account.time_zone);
  const revoke = h(
    "button",
    { class: "button small", type: "button", "aria-label": `Revoke key ${key.name}` },
    "Revoke key",
  );
  revoke.addEventListener("click", () => revoked(keys, key, revoke));
  const used = key.last_used_at
    ? h("time", { datetime: key.last_used_at, title: dateTime(key.last_used_at, zone) }, relativeTime(key.last_used_at))
    : h("span", { class: "soft" }, "never");
  return h(
    "tr",
    null,
    h("th", { scope: "row", class: "key-name" }, key.name || "(no name)"),
    h("td", { dataset: { head: "Prefix" } }, h("code", null, `${key.prefix}…`)),
    h("td", { dataset: { head: "Created" } }, date(key.created_at, zone)),
    h("td", { dataset: { head: "Last used" } }, used),
    h("td", { class: "num" }, revoke),
  );
}

/**
 * @param {KeysSection} keys
 * @param {ApiKey} key
 * @param {HTMLButtonElement} button
 */
async function revoked(keys, key, button) {
  const name = key.name || key.prefix;
  const agreed = await confirmDialog({
    title: `Revoke ${name}?`,
    words: "Programs that use it are rejected at once. This cannot be undone.",
    action: "Revoke key",
    danger: true,
  });
  if (!agreed) return;
  button.setAttribute("aria-disabled", "true");
  const answer = await send("DELETE", `/api/account/keys/${key.id}`);
  if (!answer.ok && answer.status !== 404) {
    button.removeAttribute("aria-disabled");
    return notify(answer.error.message);
  }
  notify(`Key revoked: ${name}`);
  await listed(keys);
  const next = keys.form.hidden ? keys.made.querySelector("input") : keys.name;
  next?.focus();
}
