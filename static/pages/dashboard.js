// The dashboard of one of the account's websites, with what only its owner may do: share it, set it up. A website that has
// had no event yet shows the snippet and waits instead.

import { dashboard, noDashboard } from "../dashboard/page.js";
import { shareDialog } from "../dashboard/share_dialog.js";
import { h, icon } from "../shared/dom.js";
import { publicUrl } from "../shared/paths.js";

export async function show(root, context) {
  const website = context.websites.find((one) => one.id === context.params.id);
  if (!website) {
    const words = { message: "No website of this account has this address. It may have been deleted." };
    return noDashboard(root, "There is no such website.", words);
  }
  if (website.events === 0) return untilFirst(root, context, website);
  return full(root, context, website);
}

function full(root, context, website) {
  const share = h(
    "button",
    { class: "button quiet", type: "button", "aria-label": "Share", onclick: () => shareDialog(website) },
    icon("share"),
    h("span", { class: "wide-only" }, "Share"),
  );
  const settings = h(
    "a",
    {
      class: "button quiet square",
      href: `/websites/${website.id}#settings`,
      "aria-label": "Settings of this website",
      title: "Settings",
    },
    icon("settings"),
  );
  return dashboard(root, context, {
    base: `/api/account/websites/${website.id}`,
    name: website.name || website.domain,
    zone: context.account.time_zone,
    tools: [share, settings],
    leftOut: `/websites/${website.id}/rejected`,
  });
}

/** The snippet, and the dashboard as soon as the first event has come. */
async function untilFirst(root, context, website) {
  const { snippetBox, eventMonitor } = await import("../shared/onboarding.js");
  const name = website.name || website.domain;
  context.title(name);
  let page = null;
  let hasGone = false;
  const first = async () => {
    const session = await context.refresh();
    const known = session?.websites.find((one) => one.id === website.id);
    if (!hasGone) page = await full(root, context, known ? { ...known, events: known.events || 1 } : website);
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
        h("a", { class: "button", href: `/websites/${website.id}#settings` }, icon("settings"), "Settings"),
      ),
      h(
        "section",
        { class: "card roomy" },
        h("h2", null, "Put this into your pages"),
        h("div", { class: "stack" }, snippetBox(website, base), eventMonitor(website, first)),
      ),
    ),
  );
  return {
    update: (changed) => page?.update(changed),
    leave() {
      hasGone = true;
      page?.leave();
    },
  };
}
