// What leads to the first event: the snippet for the website's pages, and a box that waits and turns green when an
// event comes. Used by the setup, the list of websites, a website's settings and the dashboard while it is empty.
// While visible it asks for the website and its newest event every 1.5 seconds, names the origins whose events were
// refused, and adds one of them to the allowed origins when the owner says so.

import { copyButton } from "./dialog.js";
import { fill, h, icon, loadStylesheet } from "./dom.js";
import { get, send } from "./api.js";
import { relativeTime, clockTime, plural, countryName, flag } from "./formats.js";
import { publicUrl } from "./paths.js";

// A refused page is named within two seconds; 80 small requests a minute, of the 600 that an account has.
const EACH_MS = 1500;
// our choice: by then a page that was just reloaded would have been here.
const HELP_AFTER_MS = 20_000;
// our choice: an older one does not say that events arrive now.
const NEW_MS = 600_000;

/** The snippet of a website, with `attributes` more, and a button that copies it. `base`: the server's public address, or empty. */
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
      h("p", { class: "soft grow" }, "Into the ", h("code", null, "<head>"), " of every page."),
      copyButton(code, "Copy snippet"),
    ),
    isLocal(at) ? localOnly(at) : null,
  );
}

function snippetText(website, at, attributes) {
  const own = `data-website-id="${website.id}"${attributes && ` ${attributes}`}`;
  return `<script defer src="${at.replace(/\/$/, "")}/tracker.js"\n  ${own}></script>`;
}

function isLocal(at) {
  return /^https?:\/\/(localhost|127\.|\[::1\])/.test(at);
}

function localOnly(at) {
  return h(
    "p",
    { class: "field-hint" },
    h("code", null, at),
    " is reached from this machine only. On a public server, start Tally with ",
    h("code", null, "--base-url"),
    ", and this names it.",
  );
}

/**
 * A box that waits for an event of the website and shows it; `onFirst(event)` is called once. It stops by itself when
 * it is no longer in the page.
 */
export function eventMonitor(website, onFirst = () => {}) {
  loadStylesheet("/assets/account/account.css");
  const box = h("div", { class: "waiting", role: "status" }, notYet(website));
  const looked = h("p", { class: "soft small-text" });
  const refused = refusedOrigins(website);
  const element = h("div", { class: "waiting-place" }, box, refused.element, looked);
  const began = Date.now();
  const look = async () => {
    const [answer, state] = await Promise.all([
      get(`/api/account/websites/${website.id}/events?limit=1`),
      get(`/api/account/websites/${website.id}`),
    ]);
    if (!element.isConnected) return true;
    if (state.ok) refused.draw(state.data);
    const event = answer.ok && answer.data[0];
    // Imported events may be older than the newest days, which is where the newest event is looked for.
    if (!event && state.ok && state.data.events && !website.events) {
      box.classList.add("arrived");
      fill(box, imported(state.data));
      fill(element, box);
      onFirst(null);
      return true;
    }
    if (event) {
      // The box stays the same element: then its new words are read out.
      box.classList.add("arrived");
      fill(box, arrived(event));
      fill(element, box);
      onFirst(event);
      return true;
    }
    looked.textContent = answer.ok ? `Last looked at ${clockTime(Date.now())}` : answer.error.message;
    if (Date.now() - began > HELP_AFTER_MS && !element.querySelector(".aside")) element.append(help(website));
    return answer.status === 404;
  };
  repeat(element, look);
  return element;
}

const MEANING =
  "Pages of an allowed origin can send events to this website. Allow only origins that are yours: anyone can cause such a refusal.";

/** Names the origins whose events were refused lately, each with a button that allows it. */
function refusedOrigins(website) {
  const element = h("div", { class: "refused-origins", role: "status" });
  let shown = "[]";
  const draw = ({ origins, refused_origins: refused }) => {
    // Drawn again only where something changed: a button must not move away under the pointer.
    const key = (rows) => JSON.stringify(rows.map(({ origin, events }) => [origin, events]));
    if (key(refused) === shown) return;
    shown = key(refused);
    const rest = (allowed) => key(refused.filter((other) => other !== allowed));
    fill(
      element,
      refused.map((one) => refusedOrigin(website, one, origins, () => (shown = rest(one)))),
      refused.length ? h("p", { class: "soft small-text" }, MEANING) : null,
    );
  };
  return { element, draw };
}

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
      return fill(element, h("p", null, h("bdi", { class: "mono" }, origin), " is allowed now: reload that page."));
    }
    allow.disabled = false;
    failed.hidden = false;
    fill(failed, answer.error.message);
  });
  return element;
}

function notYet(website) {
  const words = website.events ? "Waiting for the next event" : "Waiting for the first event";
  const what = `Open a page of ${website.domain}; it shows here within seconds.`;
  return [h("span", { class: "dot" }), h("div", null, h("strong", null, words), h("p", null, what))];
}

/** Calls `look` while the element is in the page and the page is seen, until it gives true. */
function repeat(element, look) {
  let timer = 0;
  let wasIn = false;
  const turn = async () => {
    clearTimeout(timer);
    wasIn ||= element.isConnected;
    if (wasIn && !element.isConnected) return end();
    if (wasIn && !document.hidden && (await look())) return end();
    // Not while it is hidden: it looks at once when it is seen again.
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(turn, wasIn ? EACH_MS : 50);
  };
  const seen = () => document.hidden || turn();
  const end = () => document.removeEventListener("visibilitychange", seen);
  document.addEventListener("visibilitychange", seen);
  timer = setTimeout(turn);
}

function arrived(event) {
  const place = event.country ? `${flag(event.country)} ${countryName(event.country)}` : null;
  const from = [relativeTime(event.timestamp), event.browser, event.os, place].filter(Boolean).join(" · ");
  const isNew = Date.now() - new Date(event.timestamp) < NEW_MS;
  return [
    h("span", { class: "tick" }, icon("check")),
    h(
      "div",
      null,
      h("strong", null, isNew ? "Events arrive" : "The newest event"),
      h("p", { class: "arrived-path mono" }, event.event_name || event.pathname || event.type),
      h("p", { class: "small-text" }, from),
    ),
  ];
}

function imported(website) {
  return [
    h("span", { class: "tick" }, icon("check")),
    h("div", null, h("strong", null, "Events are stored"), h("p", null, plural(website.events, "event"))),
  ];
}

function help(website) {
  const curl = `curl ${publicUrl("")}/api/collect -d '{"type": "pageview",\n  "website_id": "${website.id}",\n  "url": "https://${website.domain}/"}'`;
  return h(
    "details",
    { class: "aside" },
    h("summary", null, icon("right"), "Nothing comes?"),
    h(
      "ul",
      { class: "plain-list" },
      h("li", null, "Is the page with the snippet published, and did you reload it?"),
      h(
        "li",
        null,
        `Only pages of ${website.domain}, its subdomains and its allowed origins count. The origin of a page that was refused is shown above.`,
      ),
      h("li", null, "A content blocker in your own browser may hold it back: try another browser."),
      h("li", null, "Or send one view by hand, to see the way from here:"),
    ),
    h("pre", { class: "code-block", tabindex: "0" }, curl),
    h("div", { class: "row end" }, copyButton(curl, "Copy command")),
  );
}
