// The card Passkeys of the section Sign-in: those of the person, adding one, and removing one.

import { failureNotice, notify } from "../shared/dialog.js";
import { fill, h, icon } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { date, dateTime, displayZone } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { explained as explainedPasskey, HAS_PASSKEYS, makePasskey, withPasskey } from "../shared/passkeys.js";
import { actionTable, sectionCard } from "./card.js";
import { explained, proofFields } from "./second_factor.js";

const t = await texts("account");
const shared = await texts("shared");

/**
 * @typedef {object} Passkey
 * @property {string} id
 * @property {string} name
 * @property {string} created_at
 * @property {string | null} last_used_on
 */

/**
 * Returns the card. `hasCodes`: the person has a second factor, whose code a change needs.
 *
 * @param {Context} context
 * @param {boolean} hasCodes
 */
export async function passkeysCard(context, hasCodes) {
  const body = h("div", { class: "stack" });
  await listed(body, context, hasCodes);
  return sectionCard(t("passkeys"), body);
}

/**
 * @param {HTMLElement} body
 * @param {Context} context
 * @param {boolean} hasCodes
 */
async function listed(body, context, hasCodes) {
  const answer = await get("/api/account/passkeys", { signal: context.signal });
  if (context.signal.aborted) return;
  const redraw = () => listed(body, context, hasCodes);
  if (!answer.ok) return void fill(body, failureNotice(t("account_failed"), answer.error, redraw));
  const { passkeys, max, unavailable, refused } = answer.data;
  const zone = displayZone(context.account.time_zone);
  const { email } = context.account;
  const add = h("button", { class: "button", type: "button" }, t("add_passkey"));
  add.addEventListener("click", () => {
    addPasskey(body, { email, hasCodes, beside: cancelButton(redraw), done: redraw }).focus();
  });
  const rows = passkeys.map((/** @type {Passkey} */ one) => {
    const label = t("remove_passkey_named", { name: one.name });
    const button = h("button", { class: "button small", type: "button", "aria-label": label }, t("remove"));
    button.addEventListener("click", () => removal(body, one, email, hasCodes, redraw));
    return row(one, zone, button);
  });
  const why = whyNot(unavailable);
  fill(
    body,
    h("p", { class: "soft" }, t("passkeys_lead")),
    refused.length ? refusals(refused, zone) : null,
    rows.length ? actionTable([shared("name"), t("created"), t("last_used")], rows) : null,
    why ? h("p", { class: "soft" }, why) : passkeys.length < max ? h("div", { class: "row" }, add) : null,
  );
}

/**
 * Returns why no passkey can be added here, "" where one can.
 *
 * @param {string | null} unavailable
 */
export function whyNot(unavailable) {
  if (unavailable) return unavailable === "extra" ? t("passkeys_need_extra") : t("passkeys_need_https");
  return HAS_PASSKEYS ? "" : t("passkeys_no_browser");
}

/**
 * @param {Passkey} passkey
 * @param {string} zone
 * @param {HTMLElement} button
 */
function row({ name, created_at: created, last_used_on: used }, zone, button) {
  return h(
    "tr",
    null,
    h("th", { scope: "row", class: "key-name" }, h("bdi", null, name)),
    h("td", { dataset: { head: t("created") } }, date(created, zone)),
    // A day of UTC, without a time.
    h("td", { dataset: { head: t("last_used") } }, used ? date(used, "UTC") : h("span", { class: "soft" }, t("never"))),
    h("td", { class: "num" }, button),
  );
}

/**
 * Asks in `root` for a name and for who it is, and has the browser make a passkey; returns the form.
 *
 * @param {HTMLElement} root
 * @param {{ email: string, hasCodes: boolean, beside?: HTMLElement | null, done: () => any }} options
 */
export function addPasskey(root, { email, hasCodes, beside = null, done }) {
  const name = field({
    label: shared("name"),
    name: "name",
    autocomplete: "off",
    autocapitalize: "sentences",
    placeholder: t("passkey_example"),
    missing: t("enter_passkey_name"),
    maxlength: 100,
  });
  const made = form({
    fields: [name, ...proofFields(email, hasCodes)],
    action: t("add_passkey"),
    busy: t("checking"),
    beside,
    submit: async ({ name: chosen, ...proof }) => {
      const begun = await withPasskey((values) => send("POST", "/api/account/passkeys/begin", values), proof);
      if (!begun.ok) return explained(begun);
      const created = await makePasskey(begun.data);
      if (!created.ok) return created;
      const sent = { name: chosen.trim(), credential: created.data };
      const answer = await send("POST", "/api/account/passkeys/finish", sent);
      if (!answer.ok) return explainedPasskey(answer);
      notify(t("passkey_added"));
      await done();
      return null;
    },
  });
  fill(root, h("p", null, t("add_passkey_effect")), made.element);
  return made;
}

/**
 * @param {HTMLElement} body
 * @param {Passkey} passkey
 * @param {string} email
 * @param {boolean} hasCodes
 * @param {() => any} redraw
 */
function removal(body, { id, name }, email, hasCodes, redraw) {
  const path = `/api/account/passkeys/${id}`;
  const made = form({
    fields: proofFields(email, hasCodes),
    action: t("remove_passkey"),
    danger: true,
    busy: shared("saving"),
    beside: cancelButton(redraw),
    submit: async (proof) => {
      const answer = await withPasskey((values) => send("DELETE", path, values), proof);
      if (!answer.ok && answer.status !== 404) return explained(answer);
      notify(t("passkey_removed"));
      await redraw();
      return null;
    },
  });
  fill(body, h("p", null, t("remove_passkey_effect", { name })), made.element);
  made.focus();
}

/**
 * @param {() => any} call
 */
function cancelButton(call) {
  return h("button", { class: "button", type: "button", onclick: () => call() }, shared("cancel"));
}

/**
 * @param {string[]} refused
 * @param {string} zone
 */
function refusals(refused, zone) {
  const times = refused.map((at) => h("li", null, dateTime(Date.parse(at), zone)));
  return h(
    "div",
    { class: "notice warn" },
    icon("warning"),
    h(
      "div",
      null,
      h("strong", null, t("refused_passkeys")),
      h("p", null, t("refused_passkeys_why")),
      h("ul", { class: "plain-list" }, times),
    ),
  );
}
