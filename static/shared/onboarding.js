// The snippet for a website's pages, and the event monitor: a box that waits for an event and turns green when one
// arrives. Used by the setup, the list of websites, a website's settings and the dashboard while it has no events. While
// visible the monitor requests the website and its newest event every 1.5 seconds; it names origins whose events were
// refused, each with a button that allows it.

import { copyButton } from "./dialog.js";
import { fill, h, icon, loadStylesheet } from "./dom.js";
import { get, send } from "./api.js";
import { relativeTime, clockTime, plural, countryName, flag } from "./formats.js";
import { publicUrl } from "./paths.js";

// A refused origin is shown within two seconds; 80 small requests per minute of the 600 that an account may send.
const POLL_MS = 1500;
// A page that was just reloaded would have sent its event by then.
const HELP_AFTER_MS = 20_000;
// An older event does not show that events arrive now.
const NEW_MS = 600_000;

/**
 * Returns the snippet of a website with a copy button. `base`: the server's public address, or ""; `attributes`: more attributes.
 *
 * @param {Website} website
 * @param {string} base
 * @param {any} [options]
 */
export function snippetBox(website, base, { attributes = "" } = {}) {
  loadStylesheet("/assets/account/account.css");
  const at = publicUrl(base);
  const code = snippetText(website, at, attributes);
  return h(
    "div",
    { class: "snippet" },
    h("pre", { class: "code-block wrapped", tabindex: "0", "aria-label": "Snippet" }, code),
    h(
      "div",
      { class: "row apart" },
      h("p", { class: "soft grow" }, "Add it to the ", h("code", null, "<head>"), " of every page."),
      copyButton(code, "Copy snippet"),
    ),
    isLocal(at) ? localOnly(at) : null,
  );
}

/**
 * @param {Website} website
 * @param {string} at
 * @param {string} attributes
 */
function snippetText(website, at, attributes) {
  const own = `data-website-id="${website.id}"${attributes && ` ${attributes}`}`;
  return `<script defer src="${at.replace(/\/$/, "")}/tracker.js"\n  ${own}></script>`;
}

/**
 * @param {string} at
 */
function isLocal(at) {
  return /^https?:\/\/(localhost|127\.|\[::1\])/.test(at);
}

/**
 * @param {string} at
 */
function localOnly(at) {
  return h(
    "p",
    { class: "field-hint" },
    h("code", null, at),
    " is reachable from this computer only. On a public server, start Tally with ",
    h("code", null, "--base-url"),
    ".",
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
  const element = h("div", { class: "waiting-place" }, box, refused.element, checked);
  const began = Date.now();
  const check = async () => {
    const [answer, state] = await Promise.all([
      get(`/api/account/websites/${website.id}/events?limit=1`),
      get(`/api/account/websites/${website.id}`),
    ]);
    if (!element.isConnected) return true;
    if (state.ok) refused.draw(state.data);
    const event = answer.ok && answer.data[0];
    // The newest event is searched in recent days; imported events may be older.
    if (!event && state.ok && state.data.events && !website.events) {
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
    checked.textContent = answer.ok ? `Last checked at ${clockTime(Date.now())}` : answer.error.message;
    if (Date.now() - began > HELP_AFTER_MS && !element.querySelector(".aside")) element.append(help(website));
    return answer.status === 404;
  };
  poll(element, check);
  return element;
}

const MEANING =
  "Pages of an allowed origin can send events to this website. Allow only your own origins: anyone can cause such a refusal.";

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
      refused.length ? h("p", { class: "soft small-text" }, MEANING) : null,
    );
  };
  return { element, draw };
}

/**
 * @param {Website} website
 * @param {{ origin: string, events: number }} options
 * @param {string[]} origins
 * @param {() => void} allowed
 */
function refusedOrigin(website, { origin, events }, origins, allowed) {
  const allow = h("button", { class: "button small", type: "button" }, "Allow this origin");
  const failed = h("p", { class: "field-error", hidden: true });
  const element = h(
    "div",
    { class: "notice refused-origin" },
    h(
      "div",
      { class: "row" },
      h(
        "p",
        { class: "grow" },
        `${plural(events, "event")} from `,
        h("bdi", { class: "mono" }, origin),
        ` ${events === 1 ? "was" : "were"} refused:`,
      ),
      allow,
    ),
    failed,
  );
  allow.addEventListener("click", async () => {
    allow.disabled = true;
    const answer = await send("PATCH", `/api/account/websites/${website.id}`, { origins: [...origins, origin] });
    if (answer.ok) {
      allowed();
      return fill(element, h("p", null, h("bdi", { class: "mono" }, origin), " is now allowed. Reload that page."));
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
  const words = website.events ? "Waiting for the next event" : "Waiting for the first event";
  const what = `Open a page of ${website.domain}; the event appears here within seconds.`;
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
  const place = event.country ? `${flag(event.country)} ${countryName(event.country)}` : null;
  const from = [relativeTime(event.timestamp), event.browser, event.os, place].filter(Boolean).join(" · ");
  const isNew = Date.now() - new Date(event.timestamp).getTime() < NEW_MS;
  return [
    h("span", { class: "tick" }, icon("check")),
    h(
      "div",
      null,
      h("strong", null, isNew ? "Events are arriving" : "Newest event"),
      h("p", { class: "arrived-path mono" }, event.event_name || event.pathname || event.type),
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
    h("div", null, h("strong", null, "Events are stored"), h("p", null, plural(website.events, "event"))),
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
    h("summary", null, icon("right"), "No events?"),
    h(
      "ul",
      { class: "plain-list" },
      h("li", null, "Check that the page with the snippet is published, and reload it."),
      h(
        "li",
        null,
        `Only pages of ${website.domain}, its subdomains and its allowed origins are accepted. Refused origins are listed above.`,
      ),
      h("li", null, "A content blocker in your browser may block the tracker: try another browser."),
      h("li", null, "Send a pageview from the command line:"),
    ),
    h("pre", { class: "code-block", tabindex: "0" }, curl),
    h("div", { class: "row end" }, copyButton(curl, "Copy command")),
  );
}
