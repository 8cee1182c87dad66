// The dashboard of one of the account's websites (/websites/{id}), with its share dialog and a link to its settings. A
// website without events shows the snippet until the first event arrives.

import { DASHBOARD } from "../dashboard/dashboard.js";
import { openWhenLoaded } from "../shared/dialog.js";
import { h, icon } from "../shared/dom.js";
import { texts } from "../shared/messages.js";
import { publicUrl } from "../shared/paths.js";
import { ownSite, websitePage } from "../shared/website_page.js";

const t = await texts("dashboard");
const shared = await texts("shared");

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  const website = context.websites.find((one) => one.id === context.params.id);
  return website?.events === 0 ? showSnippet(root, context, website) : showDashboard(root, context);
}

function showDashboard(/** @type {HTMLElement} */ root, /** @type {Context} */ context) {
  const site = ownSite(context);
  if (!site?.website) return websitePage(root, context, DASHBOARD, null);
  const { website } = site;
  const share = h(
    "button",
    {
      class: "button quiet for-editors",
      type: "button",
      "aria-label": t("share_dashboard"),
      onclick: () => openShare(website),
    },
    icon("share"),
    h("span", { class: "wide-only" }, t("share_dashboard")),
  );
  const path = `/websites/${website.id}`;
  const settings = h(
    "a",
    {
      class: "button quiet square",
      href: `${path}/settings`,
      "aria-label": t("website_settings"),
      title: shared("nav_settings"),
    },
    icon("settings"),
  );
  return websitePage(root, context, DASHBOARD, { ...site, tools: [share, settings], rejected: `${path}/rejected` });
}

/**
 * @param {Website} website
 */
function openShare(website) {
  return openWhenLoaded(import("../dashboard/share_dialog.js"), ({ shareDialog }) => shareDialog(website));
}

/**
 * Shows the snippet, and the dashboard as soon as the first event has arrived.
 *
 * @param {HTMLElement} root
 * @param {Context} context
 * @param {Website} website
 * @returns {Promise<PageHandle>}
 */
async function showSnippet(root, context, website) {
  // Most dashboards never need it.
  const { eventMonitor, snippetBox } = await import("../shared/onboarding.js");
  const name = website.name || website.domain;
  context.title(name);
  /** @type {PageHandle | null} */
  let dashboard = null;
  let hasLeft = false;
  const onFirst = async () => {
    const session = await context.refresh();
    if (hasLeft) return;
    if (session) context.websites = session.websites;
    dashboard = await showDashboard(root, context);
  };
  const base = publicUrl(context.account.base_url);
  root.append(
    h(
      "div",
      { class: "page narrow" },
      h(
        "header",
        { class: "page-head" },
        h("h1", null, name),
        h("a", { class: "button", href: `/websites/${website.id}/settings` }, icon("settings"), shared("nav_settings")),
      ),
      h(
        "section",
        { class: "card roomy" },
        h("h2", null, t("add_snippet")),
        h("div", { class: "stack" }, snippetBox(website, base), eventMonitor(website, onFirst)),
      ),
    ),
  );
  return {
    update: (changed) => dashboard?.update?.(changed),
    leave() {
      hasLeft = true;
      dashboard?.leave?.();
    },
  };
}
