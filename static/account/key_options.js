// What a new API key may do: its scope, its websites and when it expires, in one collapsed part whose summary says what is
// chosen; and the words for it in the list of keys.

import { h, icon } from "../shared/dom.js";
import { date, displayZone } from "../shared/formats.js";
import { checkbox, field } from "../shared/forms.js";
import { texts } from "../shared/messages.js";

const t = await texts("account");
const shared = await texts("shared");

const DEFAULT_SCOPE = "read";
const DAYS = [30, 90, 365];
const DEFAULT_DAYS = 365;
const SOON_MS = 14 * 86_400_000;
/** @type {Record<string, string>} */
const SCOPES = {
  reports: t("scope_reports"),
  read: t("scope_read"),
  manage: t("scope_manage"),
  import: t("scope_import"),
};

/**
 * Returns the options of a new key: { element, values(), reset() }.
 *
 * @param {Website[]} websites
 */
export function keyOptions(websites) {
  const scope = select(Object.entries(SCOPES));
  const expiry = select([...DAYS.map((days) => [String(days), t("days", { count: days })]), ["", t("never_expires")]]);
  const boxes = websiteBoxes(websites.map(({ id, name, domain }) => ({ id, name: name || domain })));
  const summary = h("span");
  const describe = () => {
    const count = boxes.chosen()?.length;
    const within = count ? t("websites_chosen", { count }) : shared("all_websites");
    const words = [SCOPES[scope.value], within, expiry.selectedOptions[0].text];
    summary.textContent = t("key_options", { options: words.join(" · ") });
  };
  const reset = () => {
    [scope.value, expiry.value] = [DEFAULT_SCOPE, String(DEFAULT_DAYS)];
    boxes.reset();
    describe();
  };
  const element = h(
    "details",
    { class: "aside key-options" },
    h("summary", null, icon("right"), summary),
    h(
      "div",
      { class: "form" },
      field({ label: t("key_scope"), name: "scopes", input: scope }).element,
      websites.length > 1 ? boxes.element : null,
      field({ label: t("key_expiry"), name: "expires_days", input: expiry }).element,
    ),
  );
  element.addEventListener("input", describe);
  reset();
  const values = () => ({
    scopes: [scope.value],
    websites: boxes.chosen(),
    expires_days: expiry.value ? Number(expiry.value) : null,
  });
  return { element, values, reset };
}

/**
 * @param {string[][]} options
 */
function select(options) {
  return h(
    "select",
    { autocomplete: "off" },
    options.map(([value, words]) => h("option", { value }, words)),
  );
}

/**
 * Returns a choice of websites: { element, chosen(), reset() }; chosen is null where none is, which means all.
 *
 * @param {{ id: string, name: string }[]} websites
 */
export function websiteBoxes(websites) {
  const boxes = websites.map(({ id, name }) => ({ id, ...checkbox({ label: name, name: `website-${id}` }) }));
  const element = h(
    "fieldset",
    { class: "key-websites" },
    h("legend", null, t("key_websites")),
    h(
      "div",
      { class: "key-website-list" },
      boxes.map((one) => one.element),
    ),
    h("p", { class: "field-hint" }, t("key_websites_hint")),
  );
  const chosen = () => {
    const ids = boxes.filter((one) => one.value()).map((one) => one.id);
    return ids.length ? ids : null;
  };
  const reset = () => {
    for (const one of boxes) one.input.checked = false;
  };
  return { element, chosen, reset };
}

/**
 * Returns the lines that say how a key differs from one that reads everything for ever.
 *
 * @param {ApiKey} key
 * @param {Context} context
 */
export function keyLimits(key, context) {
  const parts = [];
  if (key.is_assistant) parts.push(t("connected_assistant"));
  else if (key.scopes.join() !== DEFAULT_SCOPE) parts.push(key.scopes.map((one) => SCOPES[one] || one).join(", "));
  if (key.websites) {
    const names = context.websites.filter((one) => key.websites?.includes(one.id)).map((one) => one.name || one.domain);
    parts.push(names.length > 3 || !names.length ? t("websites_chosen", { count: names.length }) : names.join(", "));
  }
  return [
    parts.length ? h("span", { class: "key-limits soft" }, parts.join(" · ")) : null,
    // That of an assistant moves with each use.
    key.expires_at && !key.is_assistant ? expiryOf(key.expires_at, displayZone(context.account.time_zone)) : null,
  ];
}

/**
 * @param {string} expiresAt
 * @param {string} zone
 */
function expiryOf(expiresAt, zone) {
  const left = new Date(expiresAt).getTime() - Date.now();
  const words = { date: date(expiresAt, zone) };
  if (left > SOON_MS) return h("span", { class: "key-limits soft" }, t("expires_on", words));
  return h(
    "span",
    { class: `key-limits ${left > 0 ? "warn" : "bad"}` },
    icon("warning"),
    left > 0 ? t("expires_soon", words) : t("expired_on", words),
  );
}
