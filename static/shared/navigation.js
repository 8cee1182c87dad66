// The frame of every page behind the login: a sidebar with the websites, the pages of the current one and, at the bottom,
// the user menu. On narrow screens the sidebar is a drawer.

import { notify } from "./dialog.js";
import { fill, h, icon, logo } from "./dom.js";
import { number } from "./formats.js";
import { send } from "./api.js";
import { at } from "./paths.js";

// The pages of a website in groups, each as [the end of its path, label].
/** @type {[end: string, label: string][][]} */
const PAGES = [
  [
    ["", "Overview"],
    ["/events", "Events"],
    ["/funnels", "Funnels"],
  ],
  [
    ["/vitals", "Performance"],
    ["/heatmaps", "Heatmaps"],
    ["/experiments", "Experiments"],
  ],
  [["/rejected", "Rejected events"]],
];
const SECTIONS = [
  ["/account/keys", "API keys", "key"],
  ["/account/plan", "Plan and usage", "check"],
  ["/account", "Account", "user"],
];

/** Returns the banner of a server with generated data (`analytics-server demo`). */
export function demoBanner() {
  return h(
    "p",
    { class: "demo-banner", role: "note" },
    h("strong", null, "Demo data"),
    " All traffic shown here is generated.",
  );
}

/**
 * Returns the frame: { element, main, mark(session, { pathname, hash }), closeDrawer }.
 *
 * @param {Context} context
 */
export function frame(context) {
  const main = h("main", { id: "main", tabindex: "-1" });
  const warnings = h("div", { class: "frame-notices no-print", role: "status" });
  const list = h("ul", { class: "nav-list" });
  const menu = userMenu(context);
  const toggle = h(
    "button",
    {
      class: "button quiet square",
      type: "button",
      "aria-label": "Menu",
      "aria-expanded": "false",
      "aria-controls": "sidebar",
    },
    icon("menu"),
  );
  const sidebar = h(
    "nav",
    { class: "sidebar", id: "sidebar", "aria-label": "Websites and account" },
    h("a", { class: "brand", href: "/" }, logo(), "Tally"),
    h("div", { class: "sidebar-scroll" }, h("a", { class: "nav-title", href: "/" }, "Websites"), list),
    menu.element,
  );
  const shade = h("div", { class: "shade" });
  const element = h(
    "div",
    { class: "frame" },
    h("a", { class: "skip", href: "#main" }, "Skip to content"),
    context.account?.demo ? demoBanner() : null,
    h("header", { class: "topbar" }, toggle, h("a", { class: "brand", href: "/" }, logo(), "Tally")),
    sidebar,
    shade,
    h("div", { class: "frame-column" }, warnings, main),
  );
  const setDrawer = (/** @type {any} */ open) => {
    element.classList.toggle("drawer-open", open);
    toggle.setAttribute("aria-expanded", String(open));
    toggle.setAttribute("aria-label", open ? "Close menu" : "Menu");
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
      fill(
        list,
        session.websites.map((/** @type {Website} */ website) => entry(website, place)),
        addEntry(),
      );
      menu.mark(session.account, place.pathname);
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
  const { usage_warning: percent, events_this_month: used, events_limit: limit } = account;
  const plan = h("a", { href: "/account/plan" }, "Plan and usage");
  const share = Math.floor((100 * used) / (limit || 1));
  const usage =
    percent === 100
      ? notice("bad", "The monthly event limit is reached.", [
          "New events are refused until the month ends (UTC). ",
          plan,
        ])
      : notice("warn", `${share}% of the monthly event limit is used.`, [
          `${number(used)} of ${number(limit)}. `,
          plan,
        ]);
  const disk = notice("bad", "The server's disk is almost full: events are refused.", [
    "Free disk space, or lower ",
    h("code", null, "--min-free-disk"),
    ". Reports and deletion keep working.",
  ]);
  return [account.disk_is_low ? disk : null, percent && path !== "/account/plan" ? usage : null];
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
 * @param {Website} website
 * @param {{ pathname: string, hash: string }} options
 */
function entry(website, { pathname, hash }) {
  const own = `/websites/${website.id}`;
  const label = website.name || website.domain;
  const isShown = pathname === own || pathname.startsWith(`${own}/`);
  return h(
    "li",
    null,
    h(
      "a",
      { class: "nav-item", href: own, "aria-current": isShown ? "true" : null, title: label },
      h("span", { class: "nav-label" }, label),
    ),
    isShown ? pagesOf(own, hash === "#settings" ? null : pathname, label) : null,
  );
}

/**
 * @param {any} own
 * @param {string | null} path
 * @param {string} label
 */
function pagesOf(own, path, label) {
  const page = (/** @type {any[]} */ [end, words], /** @type {any} */ isApart) => {
    const isCurrent = path === own + end;
    return h(
      "li",
      { class: isApart ? "nav-apart" : null },
      h("a", { class: "nav-item", href: own + end, "aria-current": isCurrent ? "page" : null }, words),
    );
  };
  const group = (/** @type {[string, string][]} */ pages, /** @type {number} */ place) =>
    pages.map((/** @type {any} */ one, /** @type {number} */ i) => page(one, place > 0 && i === 0));
  return h("ul", { class: "nav-pages", "aria-label": `Pages of ${label}` }, PAGES.map(group));
}

function addEntry() {
  return h(
    "li",
    null,
    h(
      "a",
      { class: "nav-item nav-add", href: "/#add" },
      icon("plus"),
      h("span", { class: "nav-label" }, "Add website"),
    ),
  );
}

/**
 * @param {Context} context
 */
function userMenu(context) {
  const name = h("span", { class: "nav-label" });
  const links = SECTIONS.map(([href, words, sign]) => h("a", { class: "nav-item", href }, icon(sign), words));
  const leave = h("button", { class: "nav-item", type: "button" }, icon("right"), "Log out");
  leave.addEventListener("click", async () => {
    const left = await send("POST", "/api/account/logout");
    if (!left.ok && left.status !== 401) return notify(left.error.message);
    context.signedOut();
  });
  const element = h(
    "details",
    { class: "user-menu" },
    h("summary", { class: "nav-item" }, icon("user"), name),
    h("div", { class: "user-menu-items" }, links, leave),
  );
  const close = () => (element.open = false);
  element.addEventListener("click", (event) => event.target instanceof Element && event.target.closest("a") && close());
  element.addEventListener(
    "focusout",
    (event) => event.relatedTarget && !element.contains(/** @type {Node} */ (event.relatedTarget)) && close(),
  );
  document.addEventListener("pointerdown", (event) => !element.contains(/** @type {Node} */ (event.target)) && close());
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !element.open) return;
    event.stopPropagation();
    close();
    element.querySelector("summary")?.focus();
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
