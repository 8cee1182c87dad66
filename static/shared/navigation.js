// The frame of every page behind the login: the left column with the websites, the pages of the one that is shown and,
// at the bottom, the user menu. On narrow screens the column is a drawer. It may read the session it is given, and log
// out; nothing else.

import { notify } from "./dialog.js";
import { fill, h, icon, logo } from "./dom.js";
import { number } from "./formats.js";
import { send } from "./api.js";
import { at } from "./paths.js";

// The pages of a website, each with what follows the website's own path; a line comes with its page's module.
const PAGES = [
  [
    null,
    [
      ["", "Overview"],
      ["/events", "Events"],
      ["/funnels", "Funnels"],
    ],
  ],
  [
    "Measurements",
    [
      ["/vitals", "Vitals"],
      ["/heatmaps", "Heatmaps"],
      ["/experiments", "Experiments"],
    ],
  ],
  [null, [["/rejected", "Left out"]]],
];
const SECTIONS = [
  ["/account/keys", "API keys", "key"],
  ["/account/plan", "Plan and usage", "check"],
  ["/account", "Account", "user"],
];

/** Says on a page that its figures are invented (`analytics-server demo`). */
export function demoBanner() {
  return h(
    "p",
    { class: "demo-banner", role: "note" },
    h("strong", null, "Demo data"),
    " All traffic shown here is generated.",
  );
}

/** Builds the frame; gives { element, main, mark(session, { pathname, hash }), closeDrawer }. */
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
  const setDrawer = (open) => {
    element.classList.toggle("drawer-open", open);
    toggle.setAttribute("aria-expanded", String(open));
    toggle.setAttribute("aria-label", open ? "Close the menu" : "Menu");
    if (open) sidebar.querySelector("a").focus();
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
    mark: (session, place) => {
      fill(
        list,
        session.websites.map((website) => entry(website, place)),
        addEntry(),
      );
      menu.mark(session.account, place.pathname);
      fill(warnings, warningsOf(session.account, place.pathname));
    },
  };
}

/** What the owner must know on every page: the month is used up, or nearly; the disk is full, or nearly. */
function warningsOf(account, path) {
  const { usage_warning: percent, events_this_month: used, events_limit: limit } = account;
  const plan = h("a", { href: "/account/plan" }, "Plan and usage");
  const usage =
    percent === 100
      ? ["bad", "This month's events are used up.", ["New events are refused until the month ends (UTC). ", plan]]
      : [
          "warn",
          `${Math.floor((100 * used) / limit)}% of this month's events are used.`,
          [`${number(used)} of ${number(limit)}. `, plan],
        ];
  const disk = [
    "bad",
    "The server's disk is almost full: events are refused.",
    ["Free disk space, or lower ", h("code", null, "--min-free-disk"), ". Reports and deletion keep working."],
  ];
  const shown = [account.disk_is_low && disk, percent && path !== "/account/plan" && usage].filter(Boolean);
  return shown.map(([kind, title, rest]) =>
    h(
      "div",
      { class: `notice ${kind}` },
      icon("warning"),
      h("div", null, h("strong", null, title), h("p", null, rest)),
    ),
  );
}

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

function pagesOf(own, path, label) {
  const page = ([end, words], isApart) => {
    const isCurrent = path === own + end;
    return h(
      "li",
      { class: isApart ? "nav-apart" : null },
      h("a", { class: "nav-item", href: own + end, "aria-current": isCurrent ? "page" : null }, words),
    );
  };
  const group = ([title, pages], place) => [
    title ? h("li", { class: "nav-group" }, title) : null,
    pages.map((one, i) => page(one, place && !title && !i)),
  ];
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
  element.addEventListener("click", (event) => event.target.closest("a") && close());
  element.addEventListener(
    "focusout",
    (event) => event.relatedTarget && !element.contains(event.relatedTarget) && close(),
  );
  document.addEventListener("pointerdown", (event) => !element.contains(event.target) && close());
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !element.open) return;
    event.stopPropagation();
    close();
    element.querySelector("summary").focus();
  });
  const mark = (account, path) => {
    name.textContent = account.email;
    name.title = account.email;
    for (const link of links) {
      if (link.getAttribute("href") === at(path)) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  };
  return { element, mark };
}
