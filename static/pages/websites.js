// The list of websites: today's visitors, who is here now, and the last seven days of each; a dialog (#add) adds one.
// It may add websites and ask for their figures, only of those that are seen.

import { openDialog } from "../shared/dialog.js";
import { fill, h, icon, loadStylesheet, svg, visuallyHidden } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { plural, number, displayZone } from "../shared/formats.js";
import { snippetBox, eventMonitor } from "../shared/onboarding.js";
import { here } from "../shared/paths.js";

// our choice: as the dashboard's own live number.
const LIVE_MS = 30_000;

export async function show(root, context) {
  context.title("Websites");
  await loadStylesheet("/assets/account/account.css");
  const page = h("div", { class: "page" });
  const redraw = () => fill(page, head(context.websites.length), context.websites.length ? list(context) : empty());
  redraw();
  fill(root, page);
  const adding = { ...context, added: (websites) => ((context.websites = websites), redraw()) };
  const opened = () => context.hash === "#add" && addDialog(adding);
  opened();
  return { update: opened };
}

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
    h("h2", null, "No website yet"),
    h("p", null, "Add the domain whose visits you want to see. You get two lines to put on its pages."),
    h("a", { class: "button primary", href: "/#add" }, icon("plus"), "Add website"),
  );
}

function list(context) {
  const zone = displayZone(context.account.time_zone);
  const cards = new Map(context.websites.map((website) => [card(website), website]));
  const seen = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
      seen.unobserve(target);
      figures(target, cards.get(target), zone, context.signal);
    }
  });
  for (const one of cards.keys()) seen.observe(one);
  context.signal.addEventListener("abort", () => seen.disconnect());
  return h("ul", { class: "website-list" }, [...cards.keys()]);
}

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

/** Asks for one website's week and who is there now, and looks again for the latter. */
async function figures(element, website, zone, signal) {
  const base = `/api/account/websites/${website.id}`;
  const place = element.querySelector(".website-card-figures");
  const now = element.querySelector(".website-now");
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
  const sum = week.data.reduce((total, row) => total + row.visitors, 0);
  if (!website.events && !sum) return fill(place, h("p", { class: "soft" }, "No event yet. Open it for the snippet."));
  const today = week.data.at(-1);
  const figure = (words, value) => h("div", null, h("dt", null, words), h("dd", null, number(value)));
  fill(
    place,
    h(
      "dl",
      { class: "website-numbers" },
      figure("Visitors today", today.visitors),
      figure("Views today", today.pageviews),
    ),
    h(
      "figure",
      { class: "website-week" },
      line(week.data),
      h("figcaption", null, `${plural(sum, "visitor")} in 7 days`),
    ),
  );
  sayNow(now, live);
  const again = setInterval(async () => {
    // The card was drawn anew, and the new one asks for itself.
    if (!now.isConnected) return clearInterval(again);
    if (!document.hidden) sayNow(now, await get(`${base}/realtime`, { signal }));
  }, LIVE_MS);
  signal.addEventListener("abort", () => clearInterval(again));
}

function sayNow(place, live) {
  if (!live.ok) return;
  const count = live.data.active_visitors;
  fill(
    place,
    h("span", { class: count ? "dot on" : "dot" }),
    `${number(count)} now`,
    visuallyHidden(`: ${plural(count, "visitor")} in the last five minutes`),
  );
}

/** Seven days of visitors as a line, the last one dashed since it is not over. */
function line(rows) {
  const most = Math.max(1, ...rows.map((row) => row.visitors));
  const [wide, high] = [120, 32];
  const points = rows.map((row, at) => [
    2 + (at * (wide - 4)) / Math.max(1, rows.length - 1),
    high - 3 - (row.visitors / most) * (high - 6),
  ]);
  const path = (some) => some.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
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

/** A day in a zone as 2026-11-21, so many days ago. */
function day(zone, ago) {
  const today = new Intl.DateTimeFormat("en-CA", { timeZone: zone }).format(new Date());
  return new Date(Date.parse(`${today}T12:00:00Z`) - ago * 86_400_000).toISOString().slice(0, 10);
}

/** The form that adds a website; `added(website, notes)` is called with it and what was changed of the domain. */
export function websiteForm(added, { wide = false, beside = null } = {}) {
  const domain = field({
    label: "Domain",
    name: "domain",
    inputmode: "url",
    autocomplete: "off",
    placeholder: "example.com",
    missing: "Enter the website's domain, as example.com.",
    hint: "Its subdomains belong to it. An address is cut to its domain.",
  });
  const name = field({
    label: "Name",
    soft: "optional",
    name: "name",
    autocomplete: "off",
    autocapitalize: "sentences",
    hint: "How it is called here; its domain where you leave it out.",
    maxlength: 100,
  });
  // The domain that was refused because there is a website of it: the same once more adds a second one.
  let known = null;
  return form({
    fields: [domain, name],
    action: "Add website",
    busy: "Adding website…",
    wide,
    beside,
    submit: async (values) => {
      const body = { domain: values.domain.trim() };
      if (values.name.trim()) body.name = values.name.trim();
      if (body.domain === known) body.again = true;
      const answer = await send("POST", "/api/account/websites", body);
      if (answer.error?.code === "website_exists") {
        known = body.domain;
        answer.error.message = `${known} is already one of your websites. Press “Add website” again to add a second one.`;
      }
      return answer.ok ? added(answer.data, answer.meta.notes || []) : answer;
    },
  });
}

function addDialog(context) {
  const away = () => here() === "/" && location.hash === "#add" && context.go("/", { replace: true });
  const made = websiteForm(
    async (website, notes) => {
      const fresh = await context.refresh();
      if (fresh) context.added(fresh.websites);
      fill(dialog.element.querySelector("h2"), `Add the snippet to ${website.domain}`);
      const on = h("a", { class: "button", href: `/websites/${website.id}` }, "To the dashboard");
      const box = eventMonitor(website, () => on.classList.add("primary"));
      fill(
        dialog.body,
        notes.length ? h("p", { class: "soft" }, notes.join(" ")) : null,
        snippetBox(website, context.account.base_url),
        box,
        h("div", { class: "row end" }, on),
      );
      dialog.body.querySelector("pre").focus();
    },
    { beside: h("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Cancel") },
  );
  const dialog = openDialog({ title: "Add website", body: made.element, onclose: away });
  made.focus();
}
