// The overview of all websites (/): the sums of their figures, and a card for each, in one request; the dialog #add adds a
// website.

import { domainNotes } from "../account/domain_notes.js";
import { zoneOptions } from "../account/zone_options.js";
import { openDialog } from "../shared/dialog.js";
import { sorted } from "../shared/list_dialog.js";
import { fill, h, icon, loadStylesheet, refill } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { browserZone, displayZone } from "../shared/formats.js";
import { field, form } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { snippetBox, eventMonitor } from "../shared/onboarding.js";
import { createPanel } from "../shared/panel.js";
import { at, here } from "../shared/paths.js";
import { roleFor } from "../shared/roles.js";
import { searchInput } from "../shared/search_input.js";
import { currentName } from "../shared/time_zones.js";
import { matchingWebsites } from "../shared/website_switcher.js";
import { ORDERS, PERIODS, overviewPath, readOverview, totalsOf } from "../websites/overview.js";
import { figure, online, websiteCard } from "../websites/website_card.js";

const shared = await texts("shared");
const t = await texts("websites");
const REFRESH_MS = 60_000;

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  context.title(t("websites"));
  await loadStylesheet("/assets/account/account.css");
  const page = h("div", { class: "page" });
  /** @type {ReturnType<typeof overview> | null} */
  let shown = null;
  function redraw() {
    shown = context.websites.length ? overview(context) : null;
    fill(page, head(context.websites.length), shown ? shown.nodes : empty());
    shown?.load({ quietly: false });
  }
  redraw();
  fill(root, page);
  const adding = {
    ...context,
    added(/** @type {Website[]} */ websites) {
      context.websites = websites;
      redraw();
    },
  };
  const timer = setInterval(() => !document.hidden && shown?.load({ quietly: true }), REFRESH_MS);
  const opened = () => context.hash === "#add" && addDialog(adding);
  opened();
  return {
    update() {
      opened();
      shown?.update();
    },
    leave: () => clearInterval(timer),
  };
}

/**
 * @param {number} many
 */
function head(many) {
  return h(
    "div",
    { class: "page-head" },
    h("h1", null, t("websites")),
    many ? h("a", { class: "button primary for-admins", href: "/#add" }, icon("plus"), shared("add_website")) : null,
  );
}

function empty() {
  return h(
    "div",
    { class: "empty card" },
    h("h2", null, t("no_websites")),
    h("p", { class: "for-admins" }, t("add_domain")),
    h("a", { class: "button primary for-admins", href: "/#add" }, icon("plus"), shared("add_website")),
  );
}

/**
 * Returns the overview: { nodes, load(options), update() }.
 *
 * @param {Context} context
 */
function overview(context) {
  // As it was when the page was opened: the addresses of before keep their meaning.
  const kept = keptPeriod();
  const view = () => readOverview(context.query, kept);
  const pathOf = (/** @type {ReturnType<typeof view>} */ next) => overviewPath(next, kept);
  if (here() === "/") history.replaceState(null, "", at(pathOf(view()) + context.hash));
  // Of the websites without a time zone of their own, as on their pages.
  const tz = displayZone(context.account.time_zone);
  /** @type {ListedWebsite[]} */
  let websites = [];
  const { element: searchRow, input: search } = searchInput(shared("search_websites"));
  const order = h(
    "select",
    { class: "quiet", "aria-label": t("sort_by") },
    Object.entries(ORDERS).map(([name, [label]]) => h("option", { value: name }, label)),
  );
  const periods = h("div", { class: "segments", role: "group", "aria-label": t("period") });
  const totals = h("div", { class: "overview-totals" });
  const list = h("div", { class: "overview-list" });
  search.addEventListener("input", drawList);
  order.addEventListener("change", () => context.go(pathOf({ ...view(), order: order.value })));

  function drawControls() {
    const { period, order: by } = view();
    order.value = by;
    refill(
      periods,
      PERIODS.map(([name, label]) =>
        h(
          "button",
          {
            class: "segment",
            type: "button",
            "aria-pressed": String(name === period),
            dataset: { key: name },
            onclick: () => {
              keepPeriod(name);
              void context.go(pathOf({ ...view(), period: name }));
            },
          },
          label,
        ),
      ),
    );
  }

  function drawList() {
    const { order: by, period } = view();
    const found = sorted(matchingWebsites(websites, search.value), ORDERS[by][1], by !== "name");
    fill(
      list,
      found.length
        ? byAccount(context.account, found).map(([name, of]) => [
            name ? h("h2", { class: "overview-account" }, name) : null,
            h(
              "ul",
              { class: "website-list" },
              of.map((one) => websiteCard(one, period, roleFor(context.account, one) !== "viewer")),
            ),
          ])
        : h("p", { class: "empty soft" }, shared("no_matches")),
    );
  }

  const load = createPanel(list, {
    what: () => t("figures_failed"),
    request: (signal) => get(`/api/account/websites?${new URLSearchParams({ stats: view().period, tz })}`, { signal }),
    draw: ({ data }) => {
      websites = data;
      const sums = totalsOf(websites);
      fill(totals, sums && websites.length > 1 ? totalsNodes(sums) : null);
      drawList();
    },
    until: context.signal,
  });
  let period = view().period;
  drawControls();
  return {
    nodes: [
      h(
        "div",
        { class: "overview-tools" },
        searchRow,
        h("label", { class: "row" }, h("span", { class: "soft" }, t("sort_by")), order),
        periods,
      ),
      totals,
      list,
    ],
    load,
    update() {
      drawControls();
      if (period === view().period) return drawList();
      period = view().period;
      return load({ quietly: false });
    },
  };
}

// Where the browser keeps nothing, the overview opens with a week.
function keepPeriod(/** @type {string} */ period) {
  try {
    localStorage.setItem("overview-period", period);
  } catch {}
}

function keptPeriod() {
  try {
    return localStorage.getItem("overview-period");
  } catch {
    return null;
  }
}

/**
 * Returns the websites of each account with its name; "" for a person who is a member of one account alone.
 *
 * @param {Account} account
 * @param {ListedWebsite[]} websites
 * @returns {[name: string, websites: ListedWebsite[]][]}
 */
function byAccount({ accounts }, websites) {
  if (accounts.length < 2) return [["", websites]];
  const groups = accounts.map(({ id, name }) => [name, websites.filter(({ account }) => account === id)]);
  return /** @type {[string, ListedWebsite[]][]} */ (groups.filter(([, of]) => of.length));
}

/**
 * @param {NonNullable<ReturnType<typeof totalsOf>>} sums
 */
function totalsNodes(sums) {
  return h(
    "section",
    { class: "card overview-sums", "aria-label": shared("all_websites") },
    h("dl", { class: "website-numbers" }, [
      figure("visitors", sums),
      figure("visits", sums),
      figure("pageviews", sums),
    ]),
    online(sums.active_visitors),
  );
}

/**
 * Returns the form that adds a website. `added(website, notes)` is called with the website and notes about its domain.
 *
 * @param {any} added
 * @param {any} [options]
 */
export function websiteForm(added, { wide = false, beside = null } = {}) {
  const domain = field({
    label: t("domain"),
    name: "domain",
    inputmode: "url",
    autocomplete: "off",
    placeholder: "example.com",
    missing: t("enter_domain"),
    hint: t("domain_hint"),
  });
  const name = field({
    label: shared("name"),
    soft: shared("optional"),
    name: "name",
    autocomplete: "off",
    autocapitalize: "sentences",
    hint: t("name_hint"),
    maxlength: 100,
  });
  const own = currentName(browserZone());
  const zones = h("select", { autocomplete: "off" }, zoneOptions(own));
  zones.value = own;
  const zone = field({ label: t("time_zone"), name: "time_zone", input: zones, hint: t("time_zone_hint") });
  // The domain that was rejected because a website has it: submitting it again adds a second website.
  /** @type {string | null} */
  let known = null;
  return form({
    fields: [domain, name, zone],
    action: shared("add_website"),
    busy: t("adding_website"),
    wide,
    beside,
    submit: async (values) => {
      /** @type {{ domain: string, name?: string, again?: boolean, time_zone: string }} */
      const body = { domain: values.domain.trim(), time_zone: values.time_zone };
      if (values.name.trim()) body.name = values.name.trim();
      if (body.domain === known) body.again = true;
      const answer = await send("POST", "/api/account/websites", body);
      if (answer.error?.code === "website_exists") {
        known = body.domain;
        answer.error.message = t("website_exists", { domain: body.domain });
      }
      return answer.ok ? added(answer.data, domainNotes(answer)) : answer;
    },
  });
}

/**
 * @param {Context & { added(websites: Website[]): void }} context
 */
function addDialog(context) {
  const away = () => here() === "/" && location.hash === "#add" && context.go("/", { replace: true });
  const made = websiteForm(
    async (/** @type {Website} */ website, /** @type {string} */ notes) => {
      const fresh = await context.refresh();
      if (fresh) context.added(fresh.websites);
      fill(dialog.title, t("add_snippet_to", { domain: website.domain }));
      const on = h("a", { class: "button", href: `/websites/${website.id}` }, t("go_to_dashboard"));
      const box = eventMonitor(website, () => on.classList.add("primary"));
      fill(
        dialog.body,
        notes ? h("p", { class: "soft" }, notes) : null,
        snippetBox(website, context.account.base_url),
        box,
        h("div", { class: "row end" }, on),
      );
      dialog.body.querySelector("pre")?.focus();
    },
    { beside: h("button", { class: "button", type: "button", onclick: () => dialog.close() }, shared("cancel")) },
  );
  const dialog = openDialog({ title: shared("add_website"), body: made.element, onclose: away });
  made.focus();
}
