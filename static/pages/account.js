// The account pages (/account, /account/sign-in, /account/keys, /account/people, /account/notifications, /account/activity, /account/plan): one section of
// static/account/ each.

import { accountSection } from "../account/account_section.js";
import { activitySection } from "../account/activity_section.js";
import { apiKeysSection } from "../account/api_keys_section.js";
import { notificationsSection } from "../account/notifications_section.js";
import { peopleSection } from "../account/people_section.js";
import { planSection } from "../account/plan_section.js";
import { signInSection } from "../account/sign_in_section.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, loadStylesheet } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { texts } from "../shared/messages.js";
import { accountPages } from "../shared/account_pages.js";

const t = await texts("account");

/** @type {Record<string, (parts: HTMLElement, context: Context) => any>} */
const SECTIONS = {
  "/account/keys": apiKeysSection,
  "/account/people": peopleSection,
  "/account/notifications": notificationsSection,
  "/account/activity": activitySection,
  "/account/plan": planSection,
  "/account/sign-in": signInSection,
  "/account": accountSection,
};

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  await loadStylesheet("/assets/account/account.css");
  const pages = accountPages(context.account);
  const [path, title] = pages.find(([one]) => one === context.path) || pages[0];
  context.title(title);
  const parts = h("div", { class: "settings-parts" });
  fill(
    root,
    h(
      "div",
      { class: "page narrow" },
      h("div", { class: "page-head" }, h("h1", null, title)),
      sections(pages, path),
      parts,
    ),
  );
  // Usage changes while the page is open: loaded again for each section.
  const fresh = await get("/api/account", { signal: context.signal });
  if (context.signal.aborted) return;
  if (!fresh.ok) {
    return void fill(
      parts,
      failureNotice(t("account_failed"), fresh.error, () => show(root, context)),
    );
  }
  await SECTIONS[path](parts, { ...context, account: fresh.data });
}

/**
 * @param {string[][]} pages
 * @param {string} current
 */
function sections(pages, current) {
  const links = pages.map(([path, title]) =>
    h("a", { class: "tab", href: path, "aria-current": path === current ? "page" : null }, title),
  );
  return h("nav", { class: "tabs section-tabs", "aria-label": t("account_pages") }, links);
}
