// The frame of every page behind the login: a sidebar with the website switcher, the pages of the current website and, at
// the bottom, the user menu. On narrow screens the sidebar is a drawer.

import { fill, h, icon, logo } from "./dom.js";
import { number, percentOf } from "./formats.js";
import { PALETTE_KEYS } from "./keyboard_shortcuts.js";
import { menu } from "./menu.js";
import { texts } from "./messages.js";
import { websiteSwitcher } from "./website_switcher.js";
import { roleFor, showFor } from "./roles.js";

const t = await texts("shared");

// The pages of a website in groups, each as [the end of its path, label, icon].
/** @type {[end: string, label: string, icon: string][][]} */
const PAGES = [
  [
    ["", t("nav_overview"), "chart"],
    ["/live", t("nav_live"), "live"],
    ["/events", t("nav_events"), "event"],
    ["/funnels", t("nav_funnels"), "funnel"],
    ["/journeys", t("nav_journeys"), "journey"],
  ],
  [
    ["/vitals", t("nav_vitals"), "gauge"],
    ["/heatmaps", t("nav_heatmaps"), "heat"],
    ["/experiments", t("nav_experiments"), "split"],
  ],
  [
    ["/crawlers", t("nav_crawlers"), "crawler"],
    ["/rejected", t("nav_rejected"), "reject"],
    ["/settings", t("nav_settings"), "settings"],
  ],
];
/** Returns the banner of a server with generated data (`analytics-server demo`). */
export function demoBanner() {
  const words = [h("strong", null, t("demo_data")), " ", t("demo_note")];
  return h("aside", { class: "demo-banner", "aria-label": t("demo_data") }, words);
}

/**
 * Returns the frame: { element, main, mark(session, path), closeDrawer }. `search` opens the search over
 * everything.
 *
 * @param {Context} context
 * @param {() => void} search
 */
export function frame(context, search) {
  const main = h("main", { id: "main", tabindex: "-1" });
  const warnings = h("div", { class: "frame-notices no-print", role: "status" });
  const pages = h("div", { class: "sidebar-scroll" });
  const switcher = websiteSwitcher();
  const user = userMenu(context);
  const toggle = h(
    "button",
    {
      class: "button quiet square",
      type: "button",
      "aria-label": t("menu"),
      "aria-expanded": "false",
      "aria-controls": "sidebar",
    },
    icon("menu"),
  );
  const sidebar = h(
    "nav",
    { class: "sidebar", id: "sidebar", "aria-label": t("websites_and_account") },
    h("a", { class: "brand", href: "/" }, logo(), "Tally"),
    switcher.element,
    h(
      "button",
      { class: "nav-item", type: "button", onclick: search },
      icon("search"),
      h("span", { class: "nav-label grow" }, t("search_everything")),
      h("span", { class: "soft small-text", "aria-hidden": "true" }, PALETTE_KEYS),
    ),
    pages,
    user.element,
  );
  const shade = h("div", { class: "shade" });
  const element = h(
    "div",
    { class: "frame" },
    h("a", { class: "skip", href: "#main" }, t("skip_to_content")),
    context.account?.demo ? demoBanner() : null,
    h("header", { class: "topbar" }, toggle, h("a", { class: "brand", href: "/" }, logo(), "Tally")),
    sidebar,
    shade,
    h("div", { class: "frame-column" }, warnings, main),
  );
  const setDrawer = (/** @type {any} */ open) => {
    element.classList.toggle("drawer-open", open);
    toggle.setAttribute("aria-expanded", String(open));
    toggle.setAttribute("aria-label", open ? t("close_menu") : t("menu"));
    if (open) sidebar.querySelector("a")?.focus();
  };
  toggle.addEventListener("click", () => setDrawer(!element.classList.contains("drawer-open")));
  shade.addEventListener("click", () => setDrawer(false));
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !element.classList.contains("drawer-open")) return;
    event.stopPropagation();
    setDrawer(false);
    toggle.focus();
  });
  return {
    element,
    main,
    closeDrawer: () => setDrawer(false),
    mark: (/** @type {Session} */ session, /** @type {string} */ path) => {
      const id = /^\/websites\/([^/]+)/.exec(path)?.[1] || null;
      const website = session.websites.find((one) => one.id === id);
      switcher.mark(session.websites, id);
      showFor(roleFor(session.account, website));
      fill(pages, website ? pageLinks(website, path, session.account) : null);
      user.mark(session.account, path);
      fill(warnings, warningsOf(session.account, path));
    },
  };
}

/**
 * Returns the warnings shown on every page: the monthly limit is (nearly) reached, the disk is almost full.
 *
 * @param {Account} account
 * @param {string | null} path
 */
function warningsOf(account, path) {
  const { usage_warning: warning, events_this_month: used, events_limit: limit } = account;
  const plan = h("a", { href: "/account/plan" }, t("nav_plan"));
  const share = percentOf(used, limit || 1);
  const usage =
    warning === 100
      ? notice("bad", t("limit_reached"), [t("limit_reached_effect"), " ", plan])
      : notice("warn", t("limit_near", { share }), [t("limit_used", { used, limit: number(limit) }), " ", plan]);
  const disk = notice("bad", t("disk_full"), t.rich("disk_full_fix", { option: h("code", null, "--min-free-disk") }));
  return [account.disk_is_low ? disk : null, warning && path !== "/account/plan" ? usage : null];
}

/**
 * @param {string} kind
 * @param {string} title
 * @param {Child} words
 */
function notice(kind, title, words) {
  const text = h("div", null, h("strong", null, title), h("p", null, words));
  return h("div", { class: `notice ${kind}` }, icon("warning"), text);
}

/**
 * Returns the path and the label of each page of a website that is shown to the person.
 *
 * @param {Website} website
 * @param {Account} account
 */
export function pagesOf(website, account) {
  return groupsOf(website, account)
    .flat()
    .map(([end, words]) => [`/websites/${website.id}${end}`, words]);
}

/**
 * Returns the groups of PAGES that are shown to the person.
 *
 * @param {Website} website
 * @param {Account} account
 */
function groupsOf(website, account) {
  const isViewer = roleFor(account, website) === "viewer";
  return PAGES.map((group) => group.filter(([end]) => end !== "/settings" || !isViewer));
}

/**
 * Returns the links to the pages of a website.
 *
 * @param {Website} website
 * @param {string} path
 * @param {Account} account
 */
function pageLinks(website, path, account) {
  const { id, name, domain } = website;
  const own = `/websites/${id}`;
  const isCurrent = (/** @type {string} */ end) => (end ? `${path}/`.startsWith(`${own}${end}/`) : path === own);
  const page = (/** @type {[string, string, string]} */ [end, words, sign], /** @type {boolean} */ isApart) =>
    h(
      "li",
      { class: isApart ? "nav-apart" : null },
      h("a", { class: "nav-item", href: own + end, "aria-current": isCurrent(end) ? "page" : null }, icon(sign), words),
    );
  return h(
    "ul",
    { class: "nav-list", "aria-label": t("pages_of", { website: name || domain }) },
    groupsOf(website, account).map((group, place) => group.map((one, i) => page(one, place > 0 && i === 0))),
  );
}

/**
 * Returns the menu at the bottom, whose items are loaded when it opens: { element, mark(account, path) }.
 *
 * @param {Context} context
 */
function userMenu(context) {
  const name = h("span", { class: "nav-label grow" });
  const items = h("div");
  /** @type {{ account: Account, path: string } | null} */
  let shown = null;
  const draw = async () => {
    const { userMenuItems } = await import("./user_menu.js");
    if (shown) fill(items, userMenuItems(context, shown.account, shown.path));
  };
  const { element } = menu({ kind: "user-menu", label: [icon("user"), name, icon("updown")], items, opened: draw });
  const mark = (/** @type {Account} */ account, /** @type {string} */ path) => {
    shown = { account, path };
    name.textContent = account.email;
    name.title = account.email;
    if (element.open) void draw();
  };
  return { element, mark };
}
