// The settings of a website (/websites/{id}/settings, /websites/{id}/settings/{section}): an index, and one section of
// static/account/ each.

import { alertsCard } from "../account/alerts_card.js";
import { sectionCard } from "../account/card.js";
import { deletionCard } from "../account/deletion_card.js";
import { domainNotes } from "../account/domain_notes.js";
import { eventDeletionCard } from "../account/event_deletion_card.js";
import { exclusionsCard } from "../account/exclusions_card.js";
import { generalCard } from "../account/general_card.js";
import { importsCard } from "../account/imports_card.js";
import { SETTINGS, sectionsFor, settingsPath } from "../account/settings_sections.js";
import { shareLinks } from "../account/share_links.js";
import { pathRewritingCard } from "../account/path_rewriting_card.js";
import { pathRulesCard } from "../account/path_rules_card.js";
import { originsCard, snippetCard } from "../account/tracking_cards.js";
import { websitePeople } from "../account/website_people.js";
import { goalsCard } from "../goals/goals_card.js";
import { notify } from "../shared/dialog.js";
import { fill, h, icon, loadStylesheet } from "../shared/dom.js";
import { send } from "../shared/api.js";
import { texts } from "../shared/messages.js";
import { roleFor } from "../shared/roles.js";
import { showWebsiteNotFound } from "../shared/website_not_found.js";

const t = await texts("account");
const shared = await texts("shared");

/** @type {Record<string, (settings: Settings) => (Node | null)[]>} */
const CARDS = {
  "": (settings) => [generalCard(settings), websitePeople(settings.website, settings.context)],
  tracking: (settings) => [snippetCard(settings), originsCard(settings)],
  goals: ({ website }) => [goalsCard(website)],
  alerts: (settings) => [alertsCard(settings)],
  sharing: ({ website, context }) => [
    sectionCard(t("share_links"), shareLinks({ website, changed: () => context.refresh() })),
  ],
  exclusions: ({ website, context }) => [exclusionsCard(website, context.account)],
  data: (settings) => [
    importsCard(settings.website),
    pathRulesCard(settings),
    pathRewritingCard(settings.website),
    eventDeletionCard(settings.website),
  ],
  danger: (settings) => [deletionCard(settings)],
};

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  await loadStylesheet("/assets/account/account.css");
  const website = context.websites.find((one) => one.id === context.params.id);
  if (!website) return showWebsiteNotFound(root, context);
  const section = context.params.section || "";
  const sections = sectionsFor(roleFor(context.account, website));
  if (!sections.includes(section)) {
    // The first one that the role may change; for a viewer the dashboard.
    const path = sections.length ? settingsPath(website, sections[0]) : `/websites/${website.id}`;
    await context.go(`${path}${location.search}`, { replace: true });
    return {};
  }
  const title = h("h1");
  const parts = h("div", { class: "settings-parts" });
  /** @type {Settings} */
  const settings = { context, website, draw, change };

  /** Draws the section for the website as it is now. */
  function draw(/** @type {Website} */ now) {
    settings.website = now;
    const words = t("settings_of", { name: now.name || now.domain });
    context.title(`${SETTINGS[section][0]} · ${words}`);
    fill(title, words);
    fill(parts, CARDS[section](settings));
  }

  async function change(/** @type {any} */ body, /** @type {string} */ message) {
    const answer = await send("PATCH", `/api/account/websites/${settings.website.id}`, body);
    if (!answer.ok) return answer;
    await context.refresh();
    notify([message, domainNotes(answer)].filter(Boolean).join(" "));
    draw(answer.data);
    // The button that was pressed has been replaced.
    /** @type {HTMLElement | null} */ (parts.querySelector("[type=submit]"))?.focus();
    return null;
  }

  const back = h("a", { href: `/websites/${website.id}` }, icon("left"), t("dashboard"));
  const head = h("div", { class: "page-head" }, h("div", null, h("p", { class: "small-text" }, back), title));
  fill(root, h("div", { class: "page settings-page" }, head, index(website, section, sections), parts));
  draw(website);
  return { update: () => {} };
}

/**
 * @param {Website} website
 * @param {string} current
 * @param {string[]} sections
 */
function index(website, current, sections) {
  const links = sections.map((section) =>
    h(
      "a",
      { class: "tab", href: settingsPath(website, section), "aria-current": section === current ? "page" : null },
      SETTINGS[section][0],
    ),
  );
  return h("nav", { class: "tabs section-tabs", "aria-label": shared("nav_settings") }, links);
}
