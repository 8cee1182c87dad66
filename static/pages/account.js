// The account area: API keys, plan and usage, and the account itself (password, time zone, sessions). It may change the
// account and its keys. A key's value is in the page only until it is put away; it is never kept.

import { confirmDialog, copyButton, failureNotice, notify } from "../shared/dialog.js";
import { fill, h, icon, styled, unseen } from "../shared/dom.js";
import { get, send } from "../shared/fetching.js";
import { field, form, passwordField } from "../shared/forms.js";
import { ago, date, dateTime, number, ownZone } from "../shared/formats.js";
import { allZones, spokenZone } from "../shared/zones.js";

const SECTIONS = {
  keys: ["API keys", keysSection],
  plan: ["Plan and usage", planSection],
  "": ["Account", accountSection],
};
// CONTRACT, Plans: the least that has keys.
const PLAN_WITH_KEYS = "pro";

export async function show(root, context) {
  await styled("/assets/pages/account.css");
  const [title, section] = SECTIONS[context.params.section || ""] || SECTIONS[""];
  context.title(title);
  const parts = h("div", { class: "settings-parts" });
  fill(root, h("div", { class: "page narrow" }, h("div", { class: "page-head" }, h("h1", null, title)), sections(title), parts));
  // Usage goes on while the page is open elsewhere: asked anew for each section.
  const fresh = await get("/api/account", { signal: context.signal });
  if (context.signal.aborted) return;
  if (!fresh.ok) return void fill(parts, failureNotice("The account cannot be shown.", fresh.error, () => show(root, context)));
  await section(parts, { ...context, account: fresh.data });
}

function sections(current) {
  const links = Object.entries(SECTIONS).map(([path, [title]]) =>
    h("a", { class: "tab", href: path ? `/account/${path}` : "/account", "aria-current": title === current ? "page" : null }, title),
  );
  return h("nav", { class: "tabs section-tabs", "aria-label": "Account area" }, links);
}

function card(title, ...content) {
  return h("section", { class: "card roomy" }, h("h2", null, title), content);
}

// API keys

async function keysSection(parts, context) {
  if (!context.account.has_keys) return void fill(parts, whyNoKeys(context.account));
  const keys = { context, form: null, made: h("div"), list: h("div", { class: "stack" }), name: null };
  fill(parts, creation(keys), h("section", { class: "card roomy", "aria-label": "Your keys" }, h("h2", null, "Your keys"), keys.list));
  await listed(keys);
}

function whyNoKeys(account) {
  const command = `analytics-server account plan ${account.email} ${PLAN_WITH_KEYS}`;
  return card(
    "No keys on this plan",
    h("p", null, "API keys belong to the plans pro and business; this account is on the ", h("strong", null, account.plan), " plan. The dashboard shows the same figures without a key."),
    h("p", null, "Who runs this server raises the plan on its machine:"),
    h("pre", { class: "code-block wrapped", tabindex: "0" }, command),
    h("div", { class: "row" }, copyButton(command, "Copy command")),
  );
}

function creation(keys) {
  const name = field({ label: "Name", name: "name", autocomplete: "off", autocapitalize: "sentences", placeholder: "Monthly report", missing: "Give the key a name, so that you know it later.", maxlength: 100, hint: "What it is for. Give each program a key of its own, so that one can be revoked alone." });
  const made = form({
    fields: [name], action: "Create key", busy: "Creating key…",
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
  return h("section", { class: "card roomy" }, h("h2", null, "New key"), h("p", { class: "soft" }, "A key reads the figures of all your websites, and changes nothing."), made.element, keys.made);
}

function showOnce(keys, key) {
  const base = keys.context.account.base_url || location.origin;
  const curl = () => `curl -H 'Authorization: Bearer ${key.value}' ${base}/api/v1/websites`;
  const value = h("input", { type: "text", class: "mono", readonly: true, value: key.value, "aria-label": `Value of the key ${key.name}`, autocomplete: "off" });
  value.addEventListener("focus", () => value.select());
  const done = h("button", { class: "button", type: "button" }, "I have it");
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
      h("div", { class: "notice good" }, icon("check"), h("div", null, h("strong", null, `Here is ${key.name}`), h("p", null, "It is shown this once. Only a hash of it is kept, so copy it now."))),
      h("div", { class: "row copy-row" }, h("div", { class: "grow" }, value), copyButton(key.value, "Copy key")),
      h("div", { class: "row" }, copyButton(curl, "Copy as curl command"), done),
    ),
  );
  value.focus();
}

async function listed(keys) {
  const answer = await get("/api/account/keys", { signal: keys.context.signal });
  if (keys.context.signal.aborted) return;
  if (!answer.ok) return void fill(keys.list, failureNotice("The keys cannot be listed.", answer.error, () => listed(keys)));
  if (!answer.data.length) return void fill(keys.list, h("p", { class: "soft" }, "None yet."));
  const head = ["Name", "Begins with", "Created", "Last used"].map((words) => h("th", { scope: "col" }, words));
  const rows = answer.data.map((key) => keyRow(keys, key));
  fill(keys.list, h("div", { class: "table-scroll" }, h("table", { class: "table key-table" }, h("thead", null, h("tr", null, head, h("th", { scope: "col" }, unseen("What can be done")))), h("tbody", null, rows))));
}

function keyRow(keys, key) {
  const zone = keys.context.account.time_zone || ownZone();
  const revoke = h("button", { class: "button small", type: "button", "aria-label": `Revoke key ${key.name}` }, "Revoke key");
  revoke.addEventListener("click", () => revoked(keys, key, revoke));
  const used = key.last_used_at ? h("time", { datetime: key.last_used_at, title: dateTime(key.last_used_at, zone) }, ago(key.last_used_at)) : h("span", { class: "soft" }, "never");
  return h(
    "tr",
    null,
    h("th", { scope: "row", class: "key-name" }, key.name || "(no name)"),
    h("td", { dataset: { head: "Begins with" } }, h("code", null, `${key.prefix}…`)),
    h("td", { dataset: { head: "Created" } }, date(key.created_at, zone)),
    h("td", { dataset: { head: "Last used" } }, used),
    h("td", { class: "num" }, revoke),
  );
}

async function revoked(keys, key, button) {
  const name = key.name || key.prefix;
  const agreed = await confirmDialog({ title: `Revoke ${name}?`, words: "Programs that use it are refused from that moment on. It cannot be given back.", action: "Revoke key", danger: true });
  if (!agreed) return;
  button.setAttribute("aria-disabled", "true");
  const answer = await send("DELETE", `/api/account/keys/${key.id}`);
  if (!answer.ok && answer.status !== 404) {
    button.removeAttribute("aria-disabled");
    return notify(answer.error.message);
  }
  notify(`${name} is revoked.`);
  await listed(keys);
  (keys.form.hidden ? keys.made.querySelector("input") : keys.name).focus();
}

// Plan and usage

function planSection(parts, { account }) {
  fill(parts, card("This month", usage(account)), card("Plan", planWords(account)));
}

function usage(account) {
  const { events_this_month: used, events_limit: limit, month_ends_at: ends } = account;
  const days = Math.ceil((new Date(ends) - Date.now()) / 86_400_000);
  const end = `The month ends on ${dateTime(ends, "UTC")} UTC, ${days > 1 ? `in ${days} days` : "within a day"}.`;
  if (limit === null) return h("div", { class: "stack" }, figure(number(used), "events"), h("p", { class: "soft" }, `Without a limit. ${end}`));
  const share = Math.min(1, used / Math.max(1, limit));
  return h(
    "div",
    { class: "stack" },
    figure(number(used), `of ${number(limit)} events`),
    h("div", { class: "usage", role: "meter", "aria-label": "Events used this month", "aria-valuemin": 0, "aria-valuemax": limit, "aria-valuenow": Math.min(used, limit), "aria-valuetext": `${number(used)} of ${number(limit)}` }, h("div", { class: share >= 0.9 ? "usage-bar high" : "usage-bar", style: { width: `${share * 100}%` } })),
    h("p", { class: "soft" }, end),
    warning(used, limit),
  );
}

function figure(value, words) {
  return h("p", { class: "big-figure" }, h("strong", null, value), ` ${words}`);
}

function warning(used, limit) {
  if (used >= limit) return h("div", { class: "notice bad" }, icon("warning"), h("div", null, h("strong", null, "This month's events are used up"), h("p", null, "What comes now is refused (429). The tracker keeps it for up to 72 hours and sends it again; what is older then is lost.")));
  if (used >= 0.9 * limit) return h("div", { class: "notice warn" }, icon("warning"), h("div", null, h("strong", null, "Nearly used up"), h("p", null, "Past the limit, events are refused until the month ends.")));
  return null;
}

function planWords(account) {
  const next = { free: "pro", pro: "business" }[account.plan];
  const command = next && `analytics-server account plan ${account.email} ${next}`;
  const has = account.has_keys ? "It has API keys" : "It has no API keys";
  const counts = account.events_limit === null ? "counts without a limit" : `counts ${number(account.events_limit)} events a month`;
  return h(
    "div",
    { class: "stack" },
    h("p", null, "This account is on the ", h("strong", null, account.plan), ` plan. ${has} and ${counts}.`),
    next ? h("p", { class: "soft" }, `Who runs this server raises it to ${next} on its machine:`) : null,
    next ? h("pre", { class: "code-block wrapped", tabindex: "0" }, command) : null,
    next ? h("div", { class: "row" }, copyButton(command, "Copy command")) : null,
  );
}

// Account

function accountSection(parts, context) {
  const { account } = context;
  fill(
    parts,
    card("Time zone", zoneForm(context)),
    card("Password", passwordForm(account)),
    card("Sessions", sessions(context)),
    h("p", { class: "soft small-text" }, `Logged in as ${account.email} · Tally ${account.version}`),
  );
}

function zoneForm(context) {
  const select = h("select", { autocomplete: "off" }, h("option", { value: "" }, `The browser's own (${spokenZone(ownZone())})`), zones(context.account.time_zone));
  select.value = context.account.time_zone || "";
  const clock = h("span");
  const tell = () => (clock.textContent = `It is ${dateTime(Date.now(), select.value || ownZone())} there.`);
  tell();
  select.addEventListener("input", tell);
  const zone = field({ label: "Days and hours are shown in", name: "time_zone", input: select, hint: clock });
  return form({
    fields: [zone], action: "Save time zone", busy: "Saving…",
    submit: async (values) => {
      const answer = await send("PATCH", "/api/account", { time_zone: values.time_zone || null });
      if (!answer.ok) return answer;
      await context.refresh();
      notify("The time zone is saved.");
    },
  }).element;
}

/** All zones by region; the present one too where this browser does not list it. */
function zones(present) {
  const regions = new Map();
  for (const zone of allZones(present)) {
    const name = region(zone);
    regions.set(name, [...(regions.get(name) || []), h("option", { value: zone }, spokenZone(zone))]);
  }
  return [...regions].map(([name, options]) => h("optgroup", { label: name }, options));
}

function region(zone) {
  return zone.includes("/") ? zone.split("/")[0] : "Other";
}

function passwordForm(account) {
  // Password managers want to know whose password this is.
  const whose = h("input", { type: "email", autocomplete: "username", value: account.email, readonly: true, hidden: true, tabindex: "-1" });
  const current = passwordField({ label: "Current password", name: "current", autocomplete: "current-password", missing: "Enter the password you have now." });
  const next = passwordField({ label: "New password", name: "new", autocomplete: "new-password", missing: "Choose a new password.", email: () => account.email, hint: "At least 10 characters." });
  const made = form({
    fields: [whose, current, next], action: "Change password", busy: "Changing password…",
    submit: async (values) => {
      const answer = await send("POST", "/api/account/password", { current: values.current, new: values.new });
      if (answer.error?.code === "wrong_password") answer.error.field = "current";
      else if (answer.error?.field === "password") answer.error.field = "new";
      if (!answer.ok) return answer;
      made.element.reset();
      next.input.dispatchEvent(new Event("input"));
      notify("The password is changed. Everywhere else you are logged out.");
    },
  });
  return made.element;
}

function sessions(context) {
  const here = h("button", { class: "button", type: "button" }, "Log out");
  const everywhere = h("button", { class: "button", type: "button" }, "Log out everywhere");
  here.addEventListener("click", () => leave(context, "/api/account/logout"));
  everywhere.addEventListener("click", async () => {
    const agreed = await confirmDialog({ title: "Log out everywhere?", words: "Every browser that is logged in to this account, this one too, has to log in again.", action: "Log out everywhere" });
    if (agreed) leave(context, "/api/account/logout-everywhere");
  });
  return h("div", { class: "stack" }, h("p", { class: "soft" }, "A session lasts 30 days from its last use."), h("div", { class: "row" }, here, everywhere));
}

async function leave(context, path) {
  const left = await send("POST", path);
  if (!left.ok && left.status !== 401) return notify(left.error.message);
  context.signedOut();
}
