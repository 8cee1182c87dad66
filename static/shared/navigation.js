// The frame of every page behind the login: a sidebar with the website switcher, the pages of the current website and, at
// the bottom, the user menu. On narrow screens the sidebar is a drawer.

import { notify } from "./dialog.js";
import { fill, h, icon, logo } from "./dom.js";
import { number, percentOf } from "./formats.js";
import { LANGUAGES, chooseLanguage, chosenLanguage } from "./language.js";
import { send } from "./api.js";
import { menu } from "./menu.js";
import { texts } from "./messages.js";
import { themePicker } from "./theme.js";
import { websiteSwitcher } from "./website_switcher.js";
import { at } from "./paths.js";

const t = await texts("shared");

// The pages of a website in groups, each as [the end of its path, label, icon].
/** @type {[end: string, label: string, icon: string][][]} */
const PAGES = [
  [
    ["", t("nav_overview"), "chart"],
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
    ["/rejected", t("nav_rejected"), "reject"],
    ["#settings", t("nav_settings"), "settings"],
  ],
];
const SECTIONS = [
  ["/account/keys", t("nav_keys"), "key"],
  ["/account/plan", t("nav_plan"), "check"],
  ["/account", t("nav_account"), "user"],
];

/** Returns the banner of a server with generated data (`analytics-server demo`). */
export function demoBanner() {
  const words = [h("strong", null, t("demo_data")), " ", t("demo_note")];
  return h("aside", { class: "demo-banner", "aria-label": t("demo_data") }, words);
}

/**
 * Returns the frame: { element, main, mark(session, { pathname, hash }), closeDrawer }.
 *
 * @param {Context} context
 */
export function frame(context) {
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
    mark: (/** @type {Session} */ session, /** @type {{ pathname: string, hash: string }} */ place) => {
      const id = /^\/websites\/([^/]+)/.exec(place.pathname)?.[1] || null;
      const website = session.websites.find((one) => one.id === id);
      switcher.mark(session.websites, id);
      fill(pages, website ? pagesOf(website, place) : null);
      user.mark(session.account, place.pathname);
      fill(warnings, warningsOf(session.account, place.pathname));
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
 * Returns the pages of a website.
 *
 * @param {Website} website
 * @param {{ pathname: string, hash: string }} place
 */
function pagesOf({ id, name, domain }, { pathname, hash }) {
  const own = `/websites/${id}`;
  const current = hash === "#settings" ? `${own}#settings` : pathname;
  const page = (/** @type {[string, string, string]} */ [end, words, sign], /** @type {boolean} */ isApart) =>
    h(
      "li",
      { class: isApart ? "nav-apart" : null },
      h(
        "a",
        { class: "nav-item", href: own + end, "aria-current": current === own + end ? "page" : null },
        icon(sign),
        words,
      ),
    );
  return h(
    "ul",
    { class: "nav-list", "aria-label": t("pages_of", { website: name || domain }) },
    PAGES.map((group, place) => group.map((one, i) => page(one, place > 0 && i === 0))),
  );
}

/**
 * @param {Context} context
 */
function userMenu(context) {
  const name = h("span", { class: "nav-label grow" });
  const links = SECTIONS.map(([href, words, sign]) => h("a", { class: "nav-item", href }, icon(sign), words));
  const leave = h("button", { class: "nav-item", type: "button" }, icon("leave"), t("log_out"));
  leave.addEventListener("click", async () => {
    const left = await send("POST", "/api/account/logout");
    if (!left.ok && left.status !== 401) return notify(left.error.message);
    context.signedOut();
  });
  const { element } = menu({
    kind: "user-menu",
    label: [icon("user"), name, icon("updown")],
    items: [links, themePicker(), languagePicker(), leave],
  });
  const mark = (/** @type {Account} */ account, /** @type {string} */ path) => {
    name.textContent = account.email;
    name.title = account.email;
    for (const link of links) {
      if (link.getAttribute("href") === at(path)) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  };
  return { element, mark };
}

function languagePicker() {
  const choices = Object.entries(LANGUAGES).map(([code, name]) => h("option", { value: code, lang: code }, name));
  const select = h(
    "select",
    { id: "language", class: "small-text", value: chosenLanguage(), onchange: () => chooseLanguage(select.value) },
    h("option", { value: "" }, t("language_of_browser")),
    choices,
  );
  return h(
    "div",
    { class: "language-picker" },
    h("label", { class: "soft small-text", for: select.id }, t("language")),
    select,
  );
}
