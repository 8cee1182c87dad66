// Which module shows which path, and the session they share.
//
// A page is a module with `export async function show(root, context)`. It fills `root` and may give back an object
//   { update(context), leave() }
// `update` is called when only the query or the hash changed (back button included; without it the page is shown
// anew), `leave` before another page is shown. `context`:
//   path, params (named parts of the path), query (URLSearchParams), hash
//   account, websites   as GET /api/account and /api/account/websites gave them; null on pages without a frame
//   signal              aborted when the page is left
//   title(words)        the title of the tab
//   go(path, { replace })   to another page; also plain links work
//   refresh()           reads account and websites again and redraws the left column; gives { account, websites }
//   signedOut()         forgets the session and goes to the login

import { failureNotice } from "./shared/dialog.js";
import { fill, h } from "./shared/dom.js";
import { get, onLoggedOut } from "./shared/api.js";
import { frame } from "./shared/navigation.js";
import { at, here, local } from "./shared/paths.js";

const ROUTES = [
  // path, hash, module, whether it stands in the frame
  [/^\/$/, null, "websites", true],
  [/^\/login$/, null, "login", false],
  [/^\/setup$/, null, "setup", false],
  [/^\/websites\/(?<id>[0-9a-f-]{36})$/, "#settings", "website_settings", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})$/, null, "dashboard", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/events$/, null, "events", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/funnels$/, null, "funnels", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/vitals$/, null, "vitals", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/heatmaps$/, null, "heatmaps", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/experiments$/, null, "experiments", true],
  [/^\/websites\/(?<id>[0-9a-f-]{36})\/rejected$/, null, "rejected", true],
  [/^\/account(?:\/(?<section>[a-z-]+))?$/, null, "account", true],
  [/^\/share\/(?<token>[A-Za-z0-9_-]+)$/, null, "share", false],
];

const PARTS = { dashboard: ["./dashboard/page.js"], share: ["./dashboard/page.js"] };

const app = document.getElementById("app");
let session = null;
let frameView = null;
let current = null;
let drawCount = 0;

async function load() {
  const [account, websites] = await Promise.all([get("/api/account"), get("/api/account/websites")]);
  const failure = [account, websites].find((answer) => !answer.ok);
  if (failure) return failure.error;
  session = { account: account.data, websites: websites.data };
  return null;
}

async function refresh() {
  await load();
  if (frameView && session) frameView.mark(session, { pathname: here(), hash: location.hash });
  return session;
}

function go(path, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", at(path));
  return draw();
}

let leavingForLogin = null;

/** Once, however many answers say that nobody is logged in. */
function toLogin() {
  session = null;
  leavingForLogin ||= findLogin().finally(() => (leavingForLogin = null));
  return leavingForLogin;
}

async function findLogin() {
  if (/^\/(login|setup|share\/.*)$/.test(here())) return;
  const state = await get("/api/account/state");
  if (state.ok && state.data.needs_setup) return go("/setup", { replace: true });
  const next = here() + location.search + location.hash;
  await go(next === "/" ? "/login" : `/login?next=${encodeURIComponent(next)}`, { replace: true });
}

function route() {
  for (const [pattern, hash, name, inFrame] of ROUTES) {
    const match = pattern.exec(here());
    if (match && (!hash || hash === location.hash)) return { name, inFrame, params: { ...match.groups } };
  }
  return null;
}

/** Whose policy a page needs: the heatmaps of a website may frame its pages (tally/web/pages.py), all others nothing. */
function policyOf(found) {
  return found?.name === "heatmaps" ? here() : "";
}

// A browser keeps the policy that came with the shell.
const policy = policyOf(route());

/** Shows what the address says. */
async function draw() {
  const mine = ++drawCount;
  const found = route();
  if (policyOf(found) !== policy) return location.reload();
  if (!found) return (leave(), showNotFound());
  if (current && current.key === keyOf(found) && current.page?.update) {
    Object.assign(current.context, currentAddress());
    return current.page.update(current.context);
  }
  leave();
  // What the page is made of comes while the session is asked for.
  for (const module of [`./pages/${found.name}.js`, ...(PARTS[found.name] || [])]) import(module).catch(() => {});
  if (found.inFrame) {
    // Anew for each page: websites, counts and allowed origins also change by the command line and in other tabs.
    const error = await load();
    if (mine !== drawCount) return;
    if (error && (!session || error.code === "not_logged_in"))
      return error.code === "not_logged_in"
        ? undefined
        : showAlone(failureNotice("This page cannot be shown.", error, draw));
  }
  await show(found, mine);
}

async function show(found, mine) {
  const leaving = new AbortController();
  const context = {
    ...currentAddress(),
    params: found.params,
    account: found.inFrame ? session.account : null,
    websites: found.inFrame ? session.websites : null,
    signal: leaving.signal,
    title: (words) => (document.title = words ? `${words} · Tally` : "Tally"),
    go,
    refresh,
    signedOut: () => {
      // Who leaves on purpose is not led back to where he was.
      history.replaceState(null, "", at("/"));
      return toLogin();
    },
  };
  context.title("");
  const own = { key: keyOf(found), context, leaving, page: null };
  const root = found.inFrame ? inFrame(context) : outside();
  current = own;
  try {
    const module = await import(`./pages/${found.name}.js`);
    if (mine !== drawCount) return;
    own.page = (await module.show(root, context)) || {};
    if (own !== current) own.page.leave?.();
  } catch (failure) {
    console.error(failure);
    if (mine === drawCount)
      fill(
        root,
        h(
          "div",
          { class: "page" },
          failureNotice("This page cannot be shown.", BROKEN, () => location.reload()),
        ),
      );
  }
}

const BROKEN = {
  message: "A part of it did not load, or failed. Loading it again may help; the browser's console says more.",
};

function currentAddress() {
  return { path: here(), query: new URLSearchParams(location.search), hash: location.hash };
}

function keyOf(found) {
  return JSON.stringify([found.name, found.params]);
}

function leave() {
  if (!current) return;
  current.leaving.abort();
  current.page?.leave?.();
  current = null;
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
}

function inFrame(context) {
  if (!frameView) frameView = frame(context);
  if (!frameView.element.isConnected) fill(app, frameView.element);
  frameView.mark(session, { pathname: here(), hash: location.hash });
  frameView.closeDrawer();
  const moved = frameView.main.hasChildNodes();
  fill(frameView.main);
  window.scrollTo(0, 0);
  // Who reads by ear or moves by keyboard starts at the new page, but not when the first one opens.
  if (moved) frameView.main.focus({ preventScroll: true });
  return frameView.main;
}

function outside() {
  const main = h("main", { id: "main", class: "outside", tabindex: "-1" });
  fill(app, main);
  frameView = null;
  return main;
}

function showAlone(node) {
  fill(outside(), h("div", { class: "page" }, node));
}

function showNotFound() {
  document.title = "Not found · Tally";
  showAlone(
    h(
      "div",
      { class: "empty" },
      h("h1", null, "There is nothing here"),
      h("p", null, "The address may be mistyped, or what was here is gone."),
      h("a", { class: "button primary", href: "/" }, "To the websites"),
    ),
  );
}

const WEBSITE = /^\/websites\/([0-9a-f-]{36})(\/[a-z-]+)?$/;
const CARRIED = ["range", "from", "to", "tz", "interval", "figure"];

/** From page to page the days stay; filters do on pages of the same website, they are of it. */
function carriedQuery(path) {
  const [to, from] = [path, here()].map((one) => WEBSITE.exec(one));
  if (!to || !from || path === here()) return "";
  const isKept = (name) => CARRIED.includes(name) || (to[1] === from[1] && name.startsWith("filter_"));
  const kept = [...new URLSearchParams(location.search)].filter(([name]) => isKept(name));
  // Slashes are allowed in a query, as shared/view_state.js writes them.
  return kept.length ? `?${new URLSearchParams(kept)}`.replaceAll("%2F", "/").replaceAll("%3A", ":") : "";
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (
    !link ||
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  const url = new URL(link.href, location.href);
  const path = local(url.pathname);
  if (
    url.origin !== location.origin ||
    path === null ||
    link.target ||
    link.hasAttribute("download") ||
    path.startsWith("/api/")
  )
    return;
  if (link.classList.contains("skip")) {
    event.preventDefault();
    return document.getElementById("main").focus();
  }
  event.preventDefault();
  go(path + (url.search || carriedQuery(path)) + url.hash);
});
window.addEventListener("popstate", draw);
onLoggedOut(toLogin);
draw();
