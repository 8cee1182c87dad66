// The snippet for a website's pages, and the event monitor: a box that waits for an event and turns green when one
// arrives. Used by the setup, the list of websites, a website's settings and the dashboard while it has no events. While
// visible the monitor requests the website, its newest event and its rejected events every 1.5 seconds; it names origins
// whose events were refused, each with a button that allows it, and every other reason, crawlers too.

import { copyButton } from "./dialog.js";
import { fill, h, icon, loadStylesheet } from "./dom.js";
import { get, send } from "./api.js";
import { field } from "./forms.js";
import { relativeTime, clockTime, countryName } from "./formats.js";
import { texts } from "./messages.js";
import { at, publicUrl } from "./paths.js";
import { readableHost, readablePath } from "./readable.js";

/** @typedef {{ name: string, code: string, file?: string, menu?: string }} Snippet */

const loading = loadSnippets();
const t = await texts("account");
const { url: EXAMPLE_URL, website_id: EXAMPLE_ID, snippets: SNIPPETS } = await loading;

// A refused origin is shown within two seconds; 80 small requests per minute of the 600 that an account may send.
const POLL_MS = 1500;
// A page that was just reloaded would have sent its event by then.
const HELP_AFTER_MS = 20_000;
const OPEN_HELP_AFTER_MS = 60_000;
// An older event does not show that events arrive now.
const NEW_MS = 600_000;

/**
 * Returns the snippet of a website with a copy button, and the choice of the system that its pages are made with.
 * `base`: the server's public address, or ""; `attributes`: more attributes of the tag, which has no choice then.
 *
 * @param {Website} website
 * @param {string} base
 * @param {any} [options]
 */
export function snippetBox(website, base, { attributes = "" } = {}) {
  loadStylesheet("/assets/account/account.css");
  const address = publicUrl(base);
  const shown = h("pre", { class: "code-block wrapped", tabindex: "0", "aria-label": t("snippet") });
  const place = h("p", { class: "soft grow" });
  const draw = (/** @type {Snippet} */ { code, file, menu }) => {
    fill(shown, filledIn(code, website, address, attributes));
    if (file) fill(place, t.rich("snippet_file", { file: h("code", { class: "breakable" }, file) }));
    else if (menu) fill(place, t.rich("snippet_menu", { menu: h("strong", null, menu) }));
    else fill(place, t.rich("snippet_place", { element: h("code", null, "<head>") }));
  };
  draw(SNIPPETS[0]);
  return h(
    "div",
    { class: "snippet" },
    attributes ? null : systemChoice(draw),
    shown,
    h(
      "div",
      { class: "row apart" },
      place,
      copyButton(() => shown.textContent || "", t("copy_snippet")),
    ),
    isLocal(address) ? localOnly(address) : null,
  );
}

/**
 * @param {(snippet: Snippet) => void} draw
 */
function systemChoice(draw) {
  const select = h(
    "select",
    null,
    SNIPPETS.map(({ name }) => h("option", null, name)),
  );
  select.addEventListener("input", () => draw(SNIPPETS[select.selectedIndex]));
  return field({ label: t("built_with"), name: "system", input: select }).element;
}

/**
 * Returns the code of a snippet with the server's address and the website's id in place of those of the examples.
 *
 * @param {string} code
 * @param {Website} website
 * @param {string} address
 * @param {string} attributes
 */
function filledIn(code, website, address, attributes) {
  const own = attributes && ` ${attributes}`;
  return code
    .replaceAll(EXAMPLE_URL, address.replace(/\/$/, ""))
    .replace(`${EXAMPLE_ID}"`, `${EXAMPLE_ID}"${own}`)
    .replaceAll(EXAMPLE_ID, website.id);
}

/**
 * Returns the snippets of docs/snippets.md, with the address and the id that they have there.
 *
 * @returns {Promise<{ url: string, website_id: string, snippets: Snippet[] }>}
 */
async function loadSnippets() {
  const answer = await fetch(at("/assets/shared/snippets.json"));
  if (!answer.ok) throw new Error(`The snippets did not load: ${answer.status}`);
  return answer.json();
}

/**
 * @param {string} address
 */
function isLocal(address) {
  return /^https?:\/\/(localhost|127\.|\[::1\])/.test(address);
}

/**
 * @param {string} address
 */
function localOnly(address) {
  return h(
    "p",
    { class: "field-hint" },
    t.rich("local_only", { address: h("code", null, address), option: h("code", null, "--base-url") }),
  );
}

/**
 * Returns a box that waits for an event of the website and shows it. `onFirst(event)` is called once. Polling stops when
 * the box is removed from the page.
 *
 * @param {Website} website
 * @param {any} [onFirst]
 */
export function eventMonitor(website, onFirst = () => {}) {
  loadStylesheet("/assets/account/account.css");
  const box = h("div", { class: "waiting", role: "status" }, notYet(website));
  const checked = h("p", { class: "soft small-text" });
  const refused = refusedOrigins(website);
  const others = notCounted(website);
  const element = h("div", { class: "waiting-place" }, box, refused.element, others.element, checked);
  const began = Date.now();
  let hasEvents = false;
  const check = async () => {
    const [answer, state, rejected] = await Promise.all([
      get(`/api/account/websites/${website.id}/events?limit=1`),
      get(`/api/account/websites/${website.id}`),
      get(`/api/account/websites/${website.id}/rejected?period=today`),
    ]);
    if (!element.isConnected) return true;
    if (rejected.ok) await others.draw(rejected.data);
    if (state.ok) refused.draw(state.data);
    const event = answer.ok && answer.data[0];
    // The newest event is searched in recent days; imported events may be older. One that came between both answers is
    // in those of the next check.
    const hadEvents = hasEvents;
    hasEvents = state.ok && Boolean(state.data.events);
    if (!event && hasEvents && hadEvents && !website.events) {
      box.classList.add("arrived");
      fill(box, imported(state.data));
      fill(element, box);
      onFirst(null);
      return true;
    }
    if (event) {
      // The same element with new text: screen readers announce it.
      box.classList.add("arrived");
      fill(box, arrived(event));
      fill(element, box);
      onFirst(event);
      return true;
    }
    checked.textContent = answer.ok ? t("last_checked", { time: clockTime(Date.now()) }) : answer.error.message;
    if (Date.now() - began > HELP_AFTER_MS && !element.querySelector(".aside")) element.append(help(website));
    const aside = element.querySelector("details");
    if (aside && Date.now() - began > OPEN_HELP_AFTER_MS && !aside.dataset.shown) {
      // Once: the user may close it.
      Object.assign(aside, { open: true }).dataset.shown = "true";
    }
    return answer.status === 404;
  };
  poll(element, check);
  return element;
}

/**
 * Returns the list of origins whose events were refused recently, each with a button that allows it.
 *
 * @param {Website} website
 */
function refusedOrigins(website) {
  const element = h("div", { class: "refused-origins", role: "status" });
  let shown = "[]";
  const draw = (/** @type {{ origins: string[], refused_origins: any }} */ { origins, refused_origins: refused }) => {
    // Redrawn only on changes: a button must not move away under the pointer.
    const key = (/** @type {any[]} */ rows) =>
      JSON.stringify(
        rows.map((/** @type {{ origin: string, events: number }} */ { origin, events }) => [origin, events]),
      );
    if (key(refused) === shown) return;
    shown = key(refused);
    const rest = (/** @type {() => void} */ allowed) =>
      key(refused.filter((/** @type {any} */ other) => other !== allowed));
    fill(
      element,
      refused.map((/** @type {any} */ one) => refusedOrigin(website, one, origins, () => (shown = rest(one)))),
      refused.length ? h("p", { class: "soft small-text" }, t("allowing_means")) : null,
    );
  };
  return { element, draw };
}

/**
 * Returns the list of reasons for which today's events were not counted, but for origins: how many, whose, and what to do.
 *
 * @param {Website} website
 */
function notCounted(website) {
  const element = h("div", { class: "stack", role: "status" });
  let shown = "";
  async function draw(/** @type {{ reasons: { code: string, events: number }[], samples: RejectedSample[] }} */ data) {
    const reasons = data.reasons.filter(({ code }) => code !== "origin_not_allowed");
    const key = JSON.stringify(reasons);
    if (key === shown) return;
    shown = key;
    // Most websites never need it.
    const { explanation, recentDetails } = await import("../rejected/reasons.js");
    fill(
      element,
      reasons.map(({ code, events }) => {
        const { title, means, todo } = explanation(code, website);
        const whose = recentDetails(data.samples, code).join(", ");
        const values = { count: events, from: h("bdi", null, whose), reason: title };
        const words = whose ? t.rich("not_counted_from", values) : t.rich("not_counted", values);
        return h(
          "div",
          { class: "notice" },
          h("div", null, h("p", null, words), h("p", { class: "soft" }, code === "crawler" ? means : todo)),
        );
      }),
    );
  }
  return { element, draw };
}

/**
 * @param {Website} website
 * @param {{ origin: string, events: number }} options
 * @param {string[]} origins
 * @param {() => void} allowed
 */
function refusedOrigin(website, { origin, events }, origins, allowed) {
  const allow = h("button", { class: "button small for-admins", type: "button" }, t("allow_origin"));
  const failed = h("p", { class: "field-error", hidden: true });
  const element = h(
    "div",
    { class: "notice refused-origin" },
    h(
      "div",
      { class: "row" },
      h("p", { class: "grow" }, t.rich("refused_from", { count: events, origin: h("bdi", { class: "mono" }, origin) })),
      allow,
    ),
    failed,
  );
  allow.addEventListener("click", async () => {
    allow.disabled = true;
    const answer = await send("PATCH", `/api/account/websites/${website.id}`, { origins: [...origins, origin] });
    if (answer.ok) {
      allowed();
      return fill(element, h("p", null, t.rich("origin_allowed", { origin: h("bdi", { class: "mono" }, origin) })));
    }
    allow.disabled = false;
    failed.hidden = false;
    fill(failed, answer.error.message);
  });
  return element;
}

/**
 * @param {Website} website
 */
function notYet(website) {
  const words = website.events ? t("waiting_next") : t("waiting_first");
  const what = t("open_page", { domain: readableHost(website.domain) });
  return [h("span", { class: "dot" }), h("div", null, h("strong", null, words), h("p", null, what))];
}

/**
 * Calls `check` while the element is in the page and the tab is visible, until it resolves to true.
 *
 * @param {HTMLElement} element
 * @param {() => Promise<boolean>} check
 */
function poll(element, check) {
  let timer = 0;
  let wasIn = false;
  const turn = async () => {
    clearTimeout(timer);
    wasIn ||= element.isConnected;
    if (wasIn && !element.isConnected) return end();
    if (wasIn && !document.hidden && (await check())) return end();
    // Polling pauses while the tab is hidden and resumes at once.
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(turn, wasIn ? POLL_MS : 50);
  };
  const seen = () => document.hidden || turn();
  const end = () => document.removeEventListener("visibilitychange", seen);
  document.addEventListener("visibilitychange", seen);
  timer = setTimeout(turn);
}

/**
 * @param {EventRow} event
 */
function arrived(event) {
  const place = event.country ? countryName(event.country) : null;
  const from = [relativeTime(event.timestamp), event.browser, event.os, place].filter(Boolean).join(" · ");
  const isNew = Date.now() - new Date(event.timestamp).getTime() < NEW_MS;
  return [
    h("span", { class: "tick" }, icon("check")),
    h(
      "div",
      null,
      h("strong", null, isNew ? t("events_arriving") : t("newest_event")),
      h("p", { class: "arrived-path mono" }, event.event_name || readablePath(event.pathname || "") || event.type),
      h("p", { class: "small-text" }, from),
    ),
  ];
}

/**
 * @param {Website} website
 */
function imported(website) {
  return [
    h("span", { class: "tick" }, icon("check")),
    h("div", null, h("strong", null, t("events_stored")), h("p", null, t("events", { count: website.events }))),
  ];
}

/**
 * @param {Website} website
 */
function help(website) {
  const curl = `curl ${publicUrl("")}/api/collect -d '{"type": "pageview",\n  "website_id": "${website.id}",\n  "url": "https://${website.domain}/"}'`;
  return h(
    "details",
    { class: "aside" },
    h("summary", null, icon("right"), t("no_events_question")),
    h(
      "ul",
      { class: "plain-list" },
      h("li", null, t("check_published")),
      h("li", null, t("check_origin", { domain: readableHost(website.domain) })),
      h("li", null, t("check_blocker")),
      h("li", null, t("check_curl")),
    ),
    h("pre", { class: "code-block", tabindex: "0" }, curl),
    h("div", { class: "row end" }, copyButton(curl, t("copy_command"))),
  );
}
