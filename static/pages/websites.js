// The list of websites (/): today's visitors, visitors now, and the last seven days of each; the dialog #add adds a
// website. Figures are loaded when a card scrolls into view.

import { openDialog } from "../shared/dialog.js";
import { fill, h, icon, loadStylesheet, svg, visuallyHidden } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { plural, number, displayZone } from "../shared/formats.js";
import { snippetBox, eventMonitor } from "../shared/onboarding.js";
import { here } from "../shared/paths.js";

// Slower than on the dashboard (10 s), since every visible website is requested.
const LIVE_MS = 30_000;

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  context.title("Websites");
  await loadStylesheet("/assets/account/account.css");
  const page = h("div", { class: "page" });
  const redraw = () => fill(page, head(context.websites.length), context.websites.length ? list(context) : empty());
  redraw();
  fill(root, page);
  const adding = {
    ...context,
    added(/** @type {Website[]} */ websites) {
      context.websites = websites;
      redraw();
    },
  };
  const opened = () => context.hash === "#add" && addDialog(adding);
  opened();
  return { update: opened };
}

/**
 * @param {number} many
 */
function head(many) {
  return h(
    "div",
    { class: "page-head" },
    h("h1", null, "Websites"),
    many ? h("a", { class: "button primary", href: "/#add" }, icon("plus"), "Add website") : null,
  );
}

function empty() {
  return h(
    "div",
    { class: "empty card" },
    h("h2", null, "No websites yet"),
    h("p", null, "Add a domain to get the snippet for its pages."),
    h("a", { class: "button primary", href: "/#add" }, icon("plus"), "Add website"),
  );
}

/**
 * @param {Context} context
 */
function list(context) {
  const zone = displayZone(context.account.time_zone);
  const cards = new Map(context.websites.map((website) => [card(website), website]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries.filter(({ isIntersecting }) => isIntersecting)) {
      const target = /** @type {HTMLLIElement} */ (entry.target);
      seen.unobserve(target);
      figures(target, /** @type {Website} */ (cards.get(target)), zone, context.signal);
    }
  });
  for (const one of cards.keys()) seen.observe(one);
  context.signal.addEventListener("abort", () => seen.disconnect());
  return h("ul", { class: "website-list" }, [...cards.keys()]);
}

/**
 * @param {Website} website
 */
function card(website) {
  const name = website.name || website.domain;
  const own = `/websites/${website.id}`;
  return h(
    "li",
    { class: "website-card card", dataset: { id: website.id } },
    h(
      "div",
      { class: "website-card-head" },
      h(
        "div",
        { class: "grow" },
        h("h2", null, h("a", { class: "stretched", href: own }, name)),
        name === website.domain ? null : h("p", { class: "soft" }, website.domain),
      ),
      h("p", { class: "website-now" }),
      h(
        "a",
        {
          class: "button quiet square above",
          href: `${own}#settings`,
          "aria-label": `Settings of ${name}`,
          title: "Settings",
        },
        icon("settings"),
      ),
    ),
    h("div", { class: "website-card-figures" }),
  );
}

/**
 * Loads the last seven days and the visitors now of one website; the latter repeatedly.
 *
 * @param {HTMLElement} element
 * @param {Website} website
 * @param {string} zone
 * @param {AbortSignal} signal
 */
async function figures(element, website, zone, signal) {
  const base = `/api/account/websites/${website.id}`;
  const place = /** @type {HTMLElement} */ (element.querySelector(".website-card-figures"));
  const now = /** @type {HTMLElement} */ (element.querySelector(".website-now"));
  const [week, live] = await Promise.all([
    get(`${base}/timeseries?interval=day&from=${day(zone, 6)}&to=${day(zone, 0)}&tz=${encodeURIComponent(zone)}`, {
      signal,
    }),
    get(`${base}/realtime`, { signal }),
  ]);
  if (signal.aborted) return;
  if (!week.ok) {
    const again = () => figures(element, website, zone, signal);
    const retry = h("button", { class: "button small above", type: "button", onclick: again }, "Try again");
    return fill(place, h("p", { class: "soft" }, week.error.message), retry);
  }
  const sum = week.data.reduce((/** @type {any} */ total, /** @type {any} */ row) => total + row.visitors, 0);
  if (!website.events && !sum) {
    return fill(place, h("p", { class: "soft" }, "No events yet. Open the website for its snippet."));
  }
  const today = week.data.at(-1);
  const figure = (/** @type {string} */ words, /** @type {number} */ value) =>
    h("div", null, h("dt", null, words), h("dd", null, number(value)));
  fill(
    place,
    h(
      "dl",
      { class: "website-numbers" },
      figure("Visitors today", today.visitors),
      figure("Pageviews today", today.pageviews),
    ),
    h(
      "figure",
      { class: "website-week" },
      line(week.data),
      h("figcaption", null, `${plural(sum, "visitor")} in 7 days`),
    ),
  );
  drawNow(now, live);
  const again = setInterval(async () => {
    // The card was redrawn, and the new one polls.
    if (!now.isConnected) return clearInterval(again);
    if (!document.hidden) drawNow(now, await get(`${base}/realtime`, { signal }));
  }, LIVE_MS);
  signal.addEventListener("abort", () => clearInterval(again));
}

/**
 * @param {HTMLElement} place
 * @param {Answer} live
 */
function drawNow(place, live) {
  if (!live.ok) return;
  const count = live.data.active_visitors;
  fill(
    place,
    h("span", { class: count ? "dot on" : "dot" }),
    `${number(count)} now`,
    visuallyHidden(`: ${plural(count, "visitor")} in the last five minutes`),
  );
}

/**
 * Returns seven days of visitors as a line; the last segment is dashed, since today is not over.
 *
 * @param {Bucket[]} rows
 */
function line(rows) {
  const most = Math.max(1, ...rows.map((row) => row.visitors));
  const [wide, high] = [120, 32];
  const points = rows.map((row, at) => [
    2 + (at * (wide - 4)) / Math.max(1, rows.length - 1),
    high - 3 - (row.visitors / most) * (high - 6),
  ]);
  const path = (/** @type {any} */ some) =>
    some
      .map(
        (/** @type {any[]} */ [x, y], /** @type {number} */ at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`,
      )
      .join("");
  return svg(
    "svg",
    {
      class: "website-line",
      viewBox: `0 0 ${wide} ${high}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `Visitors of the last 7 days: ${rows.map((row) => row.visitors).join(", ")}`,
    },
    svg("path", { class: "area", d: `${path(points)}L${wide - 2} ${high}L2 ${high}Z` }),
    svg("path", { d: path(points.slice(0, -1)) }),
    svg("path", { class: "unfinished", d: path(points.slice(-2)) }),
  );
}

/**
 * Returns the day in a zone `ago` days ago: 2026-11-21
 *
 * @param {string} zone
 * @param {number} ago
 */
function day(zone, ago) {
  const today = new Intl.DateTimeFormat("en-CA", { timeZone: zone }).format(new Date());
  return new Date(Date.parse(`${today}T12:00:00Z`) - ago * 86_400_000).toISOString().slice(0, 10);
}

/**
 * Returns the form that adds a website. `added(website, notes)` is called with the website and notes about its domain.
 *
 * @param {any} added
 * @param {any} [options]
 */
export function websiteForm(added, { wide = false, beside = null } = {}) {
  const domain = field({
    label: "Domain",
    name: "domain",
    inputmode: "url",
    autocomplete: "off",
    placeholder: "example.com",
    missing: "Enter the website's domain, such as example.com.",
    hint: "Subdomains are included. A URL is reduced to its domain.",
  });
  const name = field({
    label: "Name",
    soft: "optional",
    name: "name",
    autocomplete: "off",
    autocapitalize: "sentences",
    hint: "Default: the domain.",
    maxlength: 100,
  });
  // The domain that was rejected because a website has it: submitting it again adds a second website.
  /** @type {string | null} */
  let known = null;
  return form({
    fields: [domain, name],
    action: "Add website",
    busy: "Adding website…",
    wide,
    beside,
    submit: async (values) => {
      /** @type {{ domain: string, name?: string, again?: boolean }} */
      const body = { domain: values.domain.trim() };
      if (values.name.trim()) body.name = values.name.trim();
      if (body.domain === known) body.again = true;
      const answer = await send("POST", "/api/account/websites", body);
      if (answer.error?.code === "website_exists") {
        known = body.domain;
        answer.error.message = `You already have a website with the domain ${known}. Click “Add website” again to add a second one.`;
      }
      return answer.ok ? added(answer.data, answer.meta.notes || []) : answer;
    },
  });
}

/**
 * @param {Context & { added(websites: Website[]): void }} context
 */
function addDialog(context) {
  const away = () => here() === "/" && location.hash === "#add" && context.go("/", { replace: true });
  const made = websiteForm(
    async (/** @type {Website} */ website, /** @type {string[]} */ notes) => {
      const fresh = await context.refresh();
      if (fresh) context.added(fresh.websites);
      fill(dialog.title, `Add the snippet to ${website.domain}`);
      const on = h("a", { class: "button", href: `/websites/${website.id}` }, "Go to dashboard");
      const box = eventMonitor(website, () => on.classList.add("primary"));
      fill(
        dialog.body,
        notes.length ? h("p", { class: "soft" }, notes.join(" ")) : null,
        snippetBox(website, context.account.base_url),
        box,
        h("div", { class: "row end" }, on),
      );
      dialog.body.querySelector("pre")?.focus();
    },
    { beside: h("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Cancel") },
  );
  const dialog = openDialog({ title: "Add website", body: made.element, onclose: away });
  made.focus();
}
