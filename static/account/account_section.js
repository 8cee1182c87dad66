// The section Account: time zone, password, sessions, the share links of all websites.

import { confirmDialog, notify } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { send } from "../shared/api.js";
import { field, form, passwordField } from "../shared/forms.js";
import { dateTime, browserZone, displayZone } from "../shared/formats.js";
import { canLogOut, logOut } from "../shared/log_out.js";
import { texts } from "../shared/messages.js";
import { zoneLabel } from "../shared/time_zones.js";
import { sectionCard } from "./card.js";
import { personalSummary } from "./personal_summary.js";
import { revokeAllButton } from "./revoke_all.js";
import { settingsPath } from "./settings_sections.js";
import { zoneOptions } from "./zone_options.js";

const t = await texts("account");
const shared = await texts("shared");

const SESSIONS = { session: t("session_expires"), header: t("signed_in_by_proxy"), oidc: t("signed_in_by_provider") };

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
    sectionCard(t("time_zone"), zoneForm(context)),
    account.password_login ? sectionCard(t("password"), passwordForm(context)) : null,
    personalSummary(context),
    sectionCard(t("sessions"), sessions(context)),
    sectionCard(t("share_links"), shareLinks(context)),
    h(
      "p",
      { class: "soft small-text" },
      t("logged_in_as", { email: account.email, version: account.version }),
      " · ",
      h("a", { href: "/api/account/changelog", target: "_blank" }, t("release_changes")),
    ),
  );
}

/**
 * @param {Context} context
 */
function zoneForm(context) {
  const select = h(
    "select",
    { autocomplete: "off" },
    h("option", { value: "" }, t("browser_zone", { zone: zoneLabel(browserZone()) })),
    zoneOptions(context.account.time_zone),
  );
  select.value = context.account.time_zone || "";
  const clock = h("span");
  const drawClock = () =>
    (clock.textContent = t("current_time", { time: dateTime(Date.now(), displayZone(select.value)) }));
  drawClock();
  select.addEventListener("input", drawClock);
  const zone = field({ label: t("zone_of_reports"), name: "time_zone", input: select, hint: clock });
  return form({
    fields: [zone],
    action: t("save_zone"),
    busy: shared("saving"),
    submit: async (values) => {
      const answer = await send("PATCH", "/api/account", { time_zone: values.time_zone || null });
      if (!answer.ok) return answer;
      await context.refresh();
      notify(t("zone_saved"));
    },
  }).element;
}

/**
 * @param {Context} context
 */
function passwordForm(context) {
  const { account } = context;
  // Password managers need the user name.
  const username = h("input", {
    type: "email",
    autocomplete: "username",
    value: account.email,
    readonly: true,
    hidden: true,
    tabindex: "-1",
  });
  const current = passwordField({
    label: t("current_password"),
    name: "current",
    autocomplete: "current-password",
    missing: t("enter_current_password"),
  });
  const next = passwordField({
    label: t("new_password"),
    name: "new",
    autocomplete: "new-password",
    missing: t("enter_new_password"),
    email: () => account.email,
    hint: t("password_length"),
  });
  const made = form({
    fields: [username, current, next],
    action: t("change_password"),
    busy: t("changing_password"),
    submit: async (values) => {
      const answer = await send("POST", "/api/account/password", values);
      if (answer.error?.code === "wrong_password") answer.error.field = "current";
      else if (answer.error?.field === "password") answer.error.field = "new";
      if (!answer.ok) return answer;
      made.element.reset();
      next.input.dispatchEvent(new Event("input"));
      notify(t("password_changed"));
    },
  });
  return made.element;
}

/**
 * @param {Context} context
 */
function sessions(context) {
  const { account } = context;
  const here = h("button", { class: "button", type: "button" }, shared("log_out"));
  const everywhere = h("button", { class: "button", type: "button" }, t("log_out_everywhere"));
  here.addEventListener("click", () => logOut(context, account));
  everywhere.addEventListener("click", async () => {
    const agreed = await confirmDialog({
      title: t("log_out_everywhere_question"),
      words: t("log_out_everywhere_effect"),
      action: t("log_out_everywhere"),
    });
    if (agreed) logOut(context, account, "/api/account/logout-everywhere");
  });
  return h(
    "div",
    { class: "stack" },
    h("p", { class: "soft" }, SESSIONS[account.signed_in_by]),
    h("div", { class: "row" }, canLogOut(account) ? here : null, everywhere),
  );
}

/**
 * @param {Context} context
 */
function shareLinks(context) {
  const opened = context.websites.filter(({ share_links: links }) => links.length);
  const body = h("div", { class: "stack" });
  const none = () => fill(body, h("p", { class: "soft", tabindex: "-1" }, t("no_share_links")));
  if (!opened.length) {
    none();
    return body;
  }
  const links = opened.map((website) =>
    h("li", null, h("a", { href: settingsPath(website, "sharing") }, website.name || website.domain)),
  );
  const revoke = revokeAllButton({
    ...{ action: t("revoke_links"), effect: t("revoke_links_hint"), path: "/api/account/share-links" },
    async done() {
      await context.refresh();
      notify(t("links_revoked"));
      none();
      body.querySelector("p")?.focus();
    },
  });
  fill(
    body,
    h("p", { class: "soft" }, t("websites_with_links")),
    h("ul", { class: "plain-list" }, links),
    h("div", { class: "row" }, revoke),
  );
  return body;
}
