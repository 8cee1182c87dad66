// The account pages (/account, /account/keys, /account/plan): one section of static/account/ each.

import { accountSection } from "../account/account_section.js";
import { apiKeysSection } from "../account/api_keys_section.js";
import { planSection } from "../account/plan_section.js";
import { failureNotice } from "../shared/dialog.js";
import { fill, h, loadStylesheet } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { texts } from "../shared/messages.js";

const t = await texts("account");
const shared = await texts("shared");

/** @type {Record<string, [title: string, draw: (parts: HTMLElement, context: Context) => any]>} */
const SECTIONS = {
  keys: [shared("nav_keys"), apiKeysSection],
  plan: [shared("nav_plan"), planSection],
  "": [shared("nav_account"), accountSection],
};

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  await loadStylesheet("/assets/account/account.css");
  const [title, section] = SECTIONS[context.params.section || ""];
  context.title(title);
  const parts = h("div", { class: "settings-parts" });
  fill(
    root,
    h("div", { class: "page narrow" }, h("div", { class: "page-head" }, h("h1", null, title)), sections(title), parts),
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
  await section(parts, { ...context, account: fresh.data });
}

/**
 * @param {string} current
 */
function sections(current) {
  const links = Object.entries(SECTIONS).map(([path, [title]]) =>
    h(
      "a",
      { class: "tab", href: path ? `/account/${path}` : "/account", "aria-current": title === current ? "page" : null },
      title,
    ),
  );
  return h("nav", { class: "tabs section-tabs", "aria-label": t("account_pages") }, links);
}
