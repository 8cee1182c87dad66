// The section Account: time zone, password, sessions.

import { confirmDialog, notify } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { send } from "../shared/api.js";
import { checkbox, field, form, passwordField } from "../shared/forms.js";
import { dateTime, browserZone, displayZone } from "../shared/formats.js";
import { allZones, zoneLabel } from "../shared/time_zones.js";
import { sectionCard } from "./card.js";

/**
 * Draws the section into `parts`.
 *
 * @param {HTMLElement} parts
 * @param {Context} context
 */
export function accountSection(parts, context) {
  const { account } = context;
  fill(
    parts,
    sectionCard("Time zone", zoneForm(context)),
    sectionCard("Password", passwordForm(context)),
    sectionCard("Sessions", sessions(context)),
    h("p", { class: "soft small-text" }, `Logged in as ${account.email} · Tally ${account.version}`),
  );
}

/**
 * @param {Context} context
 */
function zoneForm(context) {
  const select = h(
    "select",
    { autocomplete: "off" },
    h("option", { value: "" }, `Browser time zone (${zoneLabel(browserZone())})`),
    zones(context.account.time_zone),
  );
  select.value = context.account.time_zone || "";
  const clock = h("span");
  const drawClock = () =>
    (clock.textContent = `Current time there: ${dateTime(Date.now(), displayZone(select.value))}`);
  drawClock();
  select.addEventListener("input", drawClock);
  const zone = field({ label: "Time zone of reports", name: "time_zone", input: select, hint: clock });
  return form({
    fields: [zone],
    action: "Save time zone",
    busy: "Saving…",
    submit: async (values) => {
      const answer = await send("PATCH", "/api/account", { time_zone: values.time_zone || null });
      if (!answer.ok) return answer;
      await context.refresh();
      notify("Time zone saved.");
    },
  }).element;
}

/**
 * Returns all zones by region, and `present` where this browser does not list it.
 *
 * @param {string | null} present
 */
function zones(present) {
  const regions = new Map();
  for (const zone of allZones(present)) {
    const name = region(zone);
    regions.set(name, [...(regions.get(name) || []), h("option", { value: zone }, zoneLabel(zone))]);
  }
  return [...regions].map(([name, options]) => h("optgroup", { label: name }, options));
}

/**
 * @param {string} zone
 */
function region(zone) {
  return zone.includes("/") ? zone.split("/")[0] : "Other";
}

/**
 * @param {Context} context
 */
function passwordForm(context) {
  const { account } = context;
  // Password managers need the user name.
  const whose = h("input", {
    type: "email",
    autocomplete: "username",
    value: account.email,
    readonly: true,
    hidden: true,
    tabindex: "-1",
  });
  const current = passwordField({
    label: "Current password",
    name: "current",
    autocomplete: "current-password",
    missing: "Enter your current password.",
  });
  const next = passwordField({
    label: "New password",
    name: "new",
    autocomplete: "new-password",
    missing: "Enter a new password.",
    email: () => account.email,
    hint: "At least 10 characters.",
  });
  const keys = checkbox({
    label: "Revoke all API keys",
    name: "revoke_keys",
    hint: "Programs that use them need new keys.",
  });
  const links = checkbox({
    label: "Revoke all share links",
    name: "revoke_share_links",
    hint: "The share links of all websites stop working.",
  });
  const made = form({
    fields: [whose, current, next, keys, links],
    action: "Change password",
    busy: "Changing password…",
    submit: async (values) => {
      const answer = await send("POST", "/api/account/password", values);
      if (answer.error?.code === "wrong_password") answer.error.field = "current";
      else if (answer.error?.field === "password") answer.error.field = "new";
      if (!answer.ok) return answer;
      made.element.reset();
      next.input.dispatchEvent(new Event("input"));
      if (values.revoke_share_links) await context.refresh();
      notify(
        [
          "Password changed. All other sessions are logged out.",
          values.revoke_keys ? "All API keys revoked." : "",
          values.revoke_share_links ? "All share links revoked." : "",
        ]
          .filter(Boolean)
          .join(" "),
      );
    },
  });
  return made.element;
}

/**
 * @param {Context} context
 */
function sessions(context) {
  const here = h("button", { class: "button", type: "button" }, "Log out");
  const everywhere = h("button", { class: "button", type: "button" }, "Log out everywhere");
  here.addEventListener("click", () => leave(context, "/api/account/logout"));
  everywhere.addEventListener("click", async () => {
    const agreed = await confirmDialog({
      title: "Log out everywhere?",
      words: "All browsers, including this one, have to log in again.",
      action: "Log out everywhere",
    });
    if (agreed) leave(context, "/api/account/logout-everywhere");
  });
  return h(
    "div",
    { class: "stack" },
    h("p", { class: "soft" }, "A session expires 30 days after its last use."),
    h("div", { class: "row" }, here, everywhere),
  );
}

/**
 * @param {Context} context
 * @param {string} path
 */
async function leave(context, path) {
  const left = await send("POST", path);
  if (!left.ok && left.status !== 401) return notify(left.error.message);
  context.signedOut();
}
