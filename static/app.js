// The router: maps the address to a page module, loads the session, and swaps pages without reloading.
//
// A page is a module that exports `async function show(root, context)`. It fills `root` and may return
//   { update(context), leave(), board }
// `board` is that of a website's page, for the search over everything (shared/palette.js). `update` is called when only the query or the hash changed, also by the back button; without it the page is shown
// again. `leave` is called before another page is shown. `context` (Context in shared/types.d.ts):
//   path, params (named parts of the path), query (URLSearchParams), hash
//   account, websites   the answers of GET /api/account and /api/account/websites; null on pages without the sidebar
//   signal              aborted when the page is left
//   title(words)        sets the title of the tab
//   go(path, { replace })   navigates to another page; plain links navigate too
//   refresh()           loads account and websites again, redraws the sidebar, returns { account, websites }
//   signedOut()         clears the session and shows the login

import { failureNotice, openWhenLoaded } from "./shared/dialog.js";
import { fill, h } from "./shared/dom.js";
import { chooseAccount, chosenAccount } from "./shared/account_choice.js";
import { get, onLoggedOut } from "./shared/api.js";
import { language } from "./shared/language.js";
import { isPaletteKey } from "./shared/keyboard_shortcuts.js";
import { texts } from "./shared/messages.js";
import { frame } from "./shared/navigation.js";
import { at, here, local } from "./shared/paths.js";
import { readable } from "./shared/view_state.js";

const t = await texts("shared");

/** @type {[pattern: RegExp, name: string, isFramed: boolean][]} */
const ROUTES = [
  // path, module, whether it has the sidebar
  [/^\/$/, "websites", true],
  [/^\/login$/, "login", false],
  [/^\/setup$/, "setup", false],
  [/^\/invitation$/, "invitation", false],
  [/^\/oauth\/authorize$/, "authorize", false],
  [/^\/second-factor$/, "second_factor", false],
  [/^\/websites\/(?<id>[0-9a-f-]{36})$/, "dashboard", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/live$/, "live", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/events$/, "events", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/funnels$/, "funnels", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/journeys$/, "journeys", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/vitals$/, "vitals", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/heatmaps$/, "heatmaps", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/experiments$/, "experiments", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/crawlers$/, "crawlers", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/rejected$/, "rejected", true],
  [
    /^\/websites\/(?<id>[0-9a-f-]{36})\/settings(?:\/(?<section>tracking|goals|alerts|sharing|exclusions|data|danger))?$/,
    "website_settings",
    true,
  ],
  [/^\/account(?:\/(?<section>keys|people|notifications|activity|plan|sign-in))?$/, "account", true],
  [/^\/share\/(?<token>[A-Za-z0-9_-]+)$/, "share", false],
];

/**
 * Large modules of a page, loaded while the session is.
 *
 * @type {Record<string, string[]>}
 */
const PARTS = { dashboard: ["./dashboard/dashboard.js"], share: ["./dashboard/dashboard.js"] };

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
/** @type {Session | null} */
let session = null;
/** @type {ReturnType<typeof frame> | null} */
let frameView = null;
/** @type {{ key: string, context: Context, leaving: AbortController, page: PageHandle | null } | null} */
let current = null;
let drawCount = 0;

/** @returns {Promise<ApiError | null>} */
async function load() {
  const [account, websites] = await Promise.all([get("/api/account"), get("/api/account/websites")]);
  const failure = [account, websites].find((answer) => !answer.ok);
  if (failure?.error.code === "unknown_account" && chosenAccount()) {
    // The person has left it, or another person signed in.
    chooseAccount("");
    return load();
  }
  if (failure) return failure.error;
  session = { account: account.data, websites: websites.data };
  return null;
}

async function refresh() {
  await load();
  if (frameView && session) frameView.mark(session, here());
  return session;
}

/**
 * @param {string} path
 * @param {any} [options]
 */
function go(path, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", at(path));
  return draw();
}

let leavingForLogin = null;

/** Shows the login; once, however many requests were answered with not_logged_in. */
function toLogin() {
  session = null;
  leavingForLogin ||= findLogin().finally(() => (leavingForLogin = null));
  return leavingForLogin;
}

async function findLogin() {
  if (/^\/(login|setup|invitation|share\/.*)$/.test(here())) return;
  const state = await get("/api/account/state");
  if (state.ok && state.data.needs_setup) return go("/setup", { replace: true });
  const next = here() + location.search + location.hash;
  await go(next === "/" ? "/login" : `/login?next=${encodeURIComponent(next)}`, { replace: true });
}

function route() {
  for (const [pattern, name, isFramed] of ROUTES) {
    const match = pattern.exec(here());
    if (match) return { name, isFramed, params: { ...match.groups } };
  }
  return null;
}

/** Returns the page for an address without one: it has the sidebar for who is signed in. */
async function noRoute() {
  const state = await get("/api/account/state");
  return { name: "not_found", isFramed: Boolean(state.data?.logged_in), params: {} };
}

/**
 * Returns which Content-Security-Policy a page needs: only heatmaps may frame the website (tally/web/pages.py).
 *
 * @param {ReturnType<typeof route>} found
 */
function policyOf(found) {
  return found?.name === "heatmaps" ? here() : "";
}

// The browser applies the policy that came with the HTML until the next full load.
const policy = policyOf(route());

/** @type {Promise<any>} */
let drawing = Promise.resolve();

/** Shows the page of the current address. */
function draw() {
  drawing = drawPage();
  return drawing;
}

async function drawPage() {
  const mine = ++drawCount;
  // Addresses in bookmarks of before: of the settings, and of events of all types on the dashboard.
  if (location.hash === "#settings") history.replaceState(null, "", at(`${here()}/settings${location.search}`));
  if (/^\/websites\/[^/]+$/.test(here()) && new URLSearchParams(location.search).has("recent")) {
    history.replaceState(null, "", at(`${here()}/live${location.search}`));
  }
  const found = route() || (await noRoute());
  if (mine !== drawCount) return;
  if (policyOf(found) !== policy) return location.reload();
  if (current && current.key === keyOf(found) && current.page?.update) {
    Object.assign(current.context, currentAddress());
    return current.page.update(current.context);
  }
  leave();
  // Load the page's modules while the session is requested.
  for (const module of [`./pages/${found.name}.js`, ...(PARTS[found.name] || [])]) import(module).catch(() => {});
  if (found.isFramed) {
    // For each page: websites, counts and allowed origins also change by the command line and in other tabs.
    const error = await load();
    if (mine !== drawCount) return;
    if (error?.code === "second_factor_due") return go("/second-factor", { replace: true });
    if (error && (!session || error.code === "not_logged_in")) {
      return error.code === "not_logged_in" ? undefined : showAlone(failureNotice(t("page_failed"), error, draw));
    }
  }
  await show(found, mine);
}

/**
 * @param {{ name: string, isFramed: boolean, params: Record<string, string> }} found
 * @param {number} mine
 */
async function show(found, mine) {
  const leaving = new AbortController();
  /** @type {Context} */
  const context = {
    ...currentAddress(),
    params: found.params,
    // Pages without the sidebar use neither.
    .../** @type {Session} */ (found.isFramed ? session : { account: null, websites: null }),
    signal: leaving.signal,
    title: (words) => void (document.title = words ? `${words} · Tally` : "Tally"),
    go,
    refresh,
    signedOut: () => {
      // After a deliberate logout the login does not lead back to this page.
      history.replaceState(null, "", at("/"));
      return toLogin();
    },
  };
  context.title("");
  /** @type {NonNullable<typeof current>} */
  const own = { key: keyOf(found), context, leaving, page: null };
  const root = found.isFramed ? framedRoot(context) : outside();
  current = own;
  try {
    const module = await import(`./pages/${found.name}.js`);
    if (mine !== drawCount) return;
    own.page = (await module.show(root, context)) || {};
    if (own !== current) own.page?.leave?.();
  } catch (failure) {
    console.error(failure);
    if (mine === drawCount) {
      fill(
        root,
        h(
          "div",
          { class: "page" },
          failureNotice(t("page_failed"), { message: t("script_failed") }, () => location.reload()),
        ),
      );
    }
  }
}

function currentAddress() {
  return { path: here(), query: new URLSearchParams(location.search), hash: location.hash };
}

/**
 * @param {{ name: string, isFramed: boolean, params: Record<string, string> }} found
 */
function keyOf(found) {
  return JSON.stringify([found.name, found.params]);
}

function leave() {
  if (!current) return;
  current.leaving.abort();
  current.page?.leave?.();
  current = null;
  for (const dialog of document.querySelectorAll("dialog")) if (dialog.open) dialog.close();
}

/**
 * @param {Context} context
 */
function framedRoot(context) {
  if (!frameView) frameView = frame(context, search);
  if (!frameView.element.isConnected) fill(app, frameView.element);
  if (session) frameView.mark(session, here());
  frameView.closeDrawer();
  const moved = frameView.main.hasChildNodes();
  fill(frameView.main);
  window.scrollTo(0, 0);
  // Screen readers and the keyboard continue at the new page; not when the first page opens.
  if (moved) frameView.main.focus({ preventScroll: true });
  return frameView.main;
}

function outside() {
  const main = h("main", { id: "main", class: "outside", tabindex: "-1" });
  fill(app, main);
  frameView = null;
  return main;
}

/**
 * @param {Node} node
 */
function showAlone(node) {
  fill(outside(), h("div", { class: "page" }, node));
}

const WEBSITE = /^\/websites\/([0-9a-f-]{36})(\/[a-z-]+)*$/;
const CARRIED = [
  ...["period", "from", "to", "tz", "interval", "figure"],
  ...["compare", "compare_from", "compare_to", "match_weekday"],
];

/**
 * Returns the query to keep on another page: range and zone, filters and segment on pages of the same website.
 *
 * @param {string} path
 */
function carriedQuery(path) {
  const [to, from] = [path, here()].map((one) => WEBSITE.exec(one));
  if (!to || !from || path === here()) return "";
  const isKept = (/** @type {string} */ name) =>
    CARRIED.includes(name) || (to[1] === from[1] && (name === "segment" || name.startsWith("filter_")));
  const kept = [...new URLSearchParams(location.search)].filter(([name]) => isKept(name));
  return kept.length ? `?${readable(new URLSearchParams(kept))}` : "";
}

/**
 * Opens a page, with the range of the present one.
 *
 * @param {string} address
 */
function visit(address) {
  const { pathname, search: query, hash } = new URL(address, location.href);
  return go(pathname + (query || carriedQuery(pathname)) + hash);
}

/** Opens the search over everything, on the page that is being loaded if one is; pages without the frame have none. */
function search() {
  const loaded = Promise.all([import("./shared/palette.js"), drawing]);
  void openWhenLoaded(loaded, ([{ openPalette }]) => {
    if (!session || !frameView) return;
    openPalette({ session, id: current?.context.params.id || null, board: current?.page?.board || null, visit });
  });
}

document.addEventListener("keydown", (event) => {
  if (!isPaletteKey(event) || !frameView) return;
  event.preventDefault();
  if (!document.querySelector("dialog[open]")) search();
});
document.addEventListener("click", (event) => {
  const link = /** @type {HTMLAnchorElement | null} */ (
    event.target instanceof Element ? event.target.closest("a[href]") : null
  );
  if (
    !link ||
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  ) {
    return;
  }
  const url = new URL(link.href, location.href);
  const path = local(url.pathname);
  if (
    url.origin !== location.origin ||
    path === null ||
    link.target ||
    link.hasAttribute("download") ||
    path.startsWith("/api/") ||
    path.startsWith("/sign-in/")
  ) {
    return;
  }
  if (link.classList.contains("skip")) {
    event.preventDefault();
    return document.getElementById("main")?.focus();
  }
  event.preventDefault();
  void visit(path + url.search + url.hash);
});
window.addEventListener("popstate", draw);
document.documentElement.lang = language;
onLoggedOut(toLogin);
draw();
