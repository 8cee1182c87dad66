// The settings of a website (/websites/{id}#settings): name and domain, allowed origins, exclusions, time zone and
// currency, goals, share link, snippet, imports, deletion.

import { sectionCard } from "../account/card.js";
import { exclusionsCard } from "../account/exclusions_card.js";
import { importsCard } from "../account/imports_card.js";
import { shareOptions } from "../account/share_options.js";
import { timeAndCurrency } from "../account/time_and_currency.js";
import { confirmDialog, copyButton, notify, openDialog } from "../shared/dialog.js";
import { goalsCard } from "../goals/goals_card.js";
import { fill, h, icon, loadStylesheet } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form, linesField } from "../shared/forms.js";
import { date, displayZone } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { showWebsiteNotFound } from "../shared/website_not_found.js";
import { snippetBox, eventMonitor } from "../shared/onboarding.js";
import { at } from "../shared/paths.js";
import { readableHost } from "../shared/readable.js";

const t = await texts("account");
const common = await texts("shared");

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  await loadStylesheet("/assets/account/account.css");
  const website = context.websites.find((one) => one.id === context.params.id);
  if (!website) return showWebsiteNotFound(root, context);
  const settings = { context, website, title: h("h1"), parts: h("div", { class: "settings-parts" }) };
  fill(root, h("div", { class: "page narrow" }, head(settings), settings.parts));
  draw(settings, website);
  return { update: () => {} };
}

/**
 * @param {Settings} settings
 */
function head({ website, title }) {
  return h(
    "div",
    { class: "page-head" },
    h(
      "div",
      null,
      h("p", { class: "small-text" }, h("a", { href: `/websites/${website.id}` }, icon("left"), t("dashboard"))),
      title,
    ),
  );
}

/**
 * Draws all cards for the website as it is now.
 *
 * @param {Settings} settings
 * @param {Website} website
 */
function draw(settings, website) {
  settings.website = website;
  const name = website.name || website.domain;
  settings.context.title(t("settings_of", { name }));
  fill(settings.title, t("settings_of", { name }));
  fill(
    settings.parts,
    nameCard(settings),
    originsCard(settings),
    exclusionsCard(website),
    timeAndCurrency(website, settings.context.account.time_zone, (body) => change(settings, body, t("time_saved"))),
    goalsCard(website),
    shareCard(settings),
    snippetCard(settings),
    importsCard(website),
    deletionCard(settings),
  );
}

/**
 * @param {Settings} settings
 * @param {any} body
 * @param {string} message
 */
async function change(settings, body, message) {
  const answer = await send("PATCH", `/api/account/websites/${settings.website.id}`, body);
  if (!answer.ok) return answer;
  await settings.context.refresh();
  notify([message, ...(answer.meta.notes || [])].join(" "));
  draw(settings, answer.data);
  return null;
}

/**
 * @param {Settings} settings
 */
function nameCard(settings) {
  const { website } = settings;
  const name = field({
    label: common("name"),
    name: "name",
    value: website.name || readableHost(website.domain),
    autocomplete: "off",
    autocapitalize: "sentences",
    missing: common("enter_name"),
    maxlength: 100,
  });
  const domain = field({
    label: t("domain"),
    name: "domain",
    value: readableHost(website.domain),
    inputmode: "url",
    autocomplete: "off",
    missing: t("enter_domain"),
    hint: t("domain_hint"),
  });
  const made = form({
    fields: [name, domain],
    action: t("save_name"),
    busy: common("saving"),
    submit: (values) => change(settings, { name: values.name.trim(), domain: values.domain.trim() }, t("name_saved")),
  });
  return sectionCard(t("name_and_domain"), made.element);
}

/**
 * @param {Settings} settings
 */
function originsCard(settings) {
  const origins = linesField({
    label: t("origins"),
    name: "origins",
    lines: settings.website.origins,
    hint: t("origins_hint", { examples: "https://partner.example, capacitor://localhost, http://localhost:5173" }),
  });
  const made = form({
    fields: [origins],
    action: t("save_origins"),
    busy: common("saving"),
    submit: (values) => change(settings, values, t("origins_saved")),
  });
  return sectionCard(t("allowed_origins"), h("p", { class: "soft" }, t("allowed_origins_lead")), made.element);
}

/**
 * @param {Settings} settings
 */
function shareCard(settings) {
  const { website } = settings;
  const body = h("div", { class: "stack" });
  if (website.share) shared(settings, body);
  else {
    const make = h("button", { class: "button", type: "button" }, icon("share"), t("create_link"));
    make.addEventListener("click", () => runOnce(make, () => share(settings, t("link_created"))));
    fill(body, h("p", { class: "soft" }, t("no_share_link")), h("div", { class: "row" }, make));
  }
  const card = sectionCard(t("share_link"), body);
  card.classList.add("share-card");
  return card;
}

/**
 * @param {Settings} settings
 * @param {HTMLElement} body
 */
function shared(settings, body) {
  const link = location.origin + at(settings.website.share || "");
  const shown = h("input", { type: "text", readonly: true, value: link, "aria-label": t("share_link"), class: "mono" });
  shown.addEventListener("focus", () => shown.select());
  const renew = h("button", { class: "button", type: "button" }, t("replace_link"));
  renew.addEventListener("click", async () => {
    const agreed = await confirmDialog({
      title: t("replace_link_question"),
      words: t("replace_link_effect"),
      action: t("replace_link"),
    });
    if (agreed) runOnce(renew, () => share(settings, t("link_replaced")));
  });
  const off = h("button", { class: "button", type: "button" }, t("revoke_link"));
  off.addEventListener("click", async () => {
    const agreed = await confirmDialog({
      title: t("revoke_link_question"),
      words: t("revoke_link_effect"),
      action: t("revoke_link"),
      danger: true,
    });
    if (agreed) runOnce(off, () => unshare(settings));
  });
  fill(
    body,
    h("p", { class: "soft" }, t("link_means")),
    h("div", { class: "row copy-row" }, h("div", { class: "grow" }, shown), copyButton(link, t("copy_link"))),
    h("div", { class: "row" }, renew, off, h("a", { href: settings.website.share }, t("open_shared_page"))),
    shareOptions(settings.website, link, async (options, message) => {
      await settings.context.refresh();
      notify(message);
      draw(settings, { ...settings.website, share_options: options });
    }),
  );
}

/**
 * @param {Settings} settings
 * @param {string} message
 */
async function share(settings, message) {
  const answer = await send("POST", `/api/account/websites/${settings.website.id}/share`);
  await applyShare(settings, answer, message, () => answer.data);
}

/**
 * @param {Settings} settings
 */
async function unshare(settings) {
  const answer = await send("DELETE", `/api/account/websites/${settings.website.id}/share`);
  await applyShare(settings, answer, t("link_revoked"), () => ({ share: null, share_options: null }));
}

/**
 * @param {Settings} settings
 * @param {any} answer
 * @param {string} message
 * @param {() => Partial<Website>} changed
 */
async function applyShare(settings, answer, message, changed) {
  if (!answer.ok) return notify(answer.error.message);
  await settings.context.refresh();
  notify(message);
  draw(settings, { ...settings.website, ...changed() });
  // The clicked button was replaced with its card: focus the new card.
  /** @type {HTMLElement | null} */ (settings.parts.querySelector(".share-card :is(button, input)"))?.focus();
}

/**
 * Runs `work`, unless it is still running from an earlier click on the button.
 *
 * @param {HTMLButtonElement} button
 * @param {() => any} work
 */
async function runOnce(button, work) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  await work();
  button.removeAttribute("aria-disabled");
}

/**
 * @param {Settings} settings
 */
function snippetCard(settings) {
  const { website, context } = settings;
  const check = h("button", { class: "button", type: "button" }, t("check_for_events"));
  const place = h("div", { class: "stack" }, h("div", { class: "row" }, check));
  check.addEventListener("click", () => fill(place, eventMonitor(website)));
  return sectionCard(
    t("snippet"),
    snippetBox(website, context.account.base_url),
    place,
    h(
      "p",
      { class: "soft small-text" },
      t.rich("website_id", {
        id: h("code", { class: "breakable" }, website.id),
        date: date(website.created_at, displayZone(context.account.time_zone)),
      }),
    ),
  );
}

/**
 * @param {Settings} settings
 */
function deletionCard(settings) {
  const { website } = settings;
  const button = h("button", { class: "button danger", type: "button" }, deletionWords(website));
  button.addEventListener("click", () =>
    runOnce(button, async () => {
      // Events may have arrived since the page was opened.
      const fresh = await get(`/api/account/websites/${website.id}`);
      const words = deletionWords(fresh.ok ? fresh.data : website);
      fill(button, words);
      deletionDialog(settings, words);
    }),
  );
  return h(
    "section",
    { class: "card roomy ending" },
    h("h2", null, t("delete_website")),
    h("p", { class: "soft" }, t("deletion_effect")),
    h("div", { class: "row" }, button),
  );
}

/**
 * @param {Website} website
 */
function deletionWords(website) {
  if (!website.events) return t("delete_website");
  return website.events_exact ? t("delete_with_events", { count: website.events }) : t("delete_with_all_events");
}

/**
 * @param {Settings} settings
 * @param {string} words
 */
function deletionDialog(settings, words) {
  const { website, context } = settings;
  const domain = readableHost(website.domain);
  const typed = field({
    label: t("type_to_confirm", { domain }),
    name: "domain",
    autocomplete: "off",
    missing: t("type_here", { domain }),
    check: (text) =>
      [website.domain, domain].includes(text.trim().toLowerCase()) ? null : t("not_the_domain", { domain }),
  });
  const made = form({
    fields: [typed],
    action: words,
    busy: t("deleting"),
    danger: true,
    beside: h("button", { class: "button", type: "button", onclick: () => dialog.close() }, common("cancel")),
    submit: async () => {
      const answer = await send("DELETE", `/api/account/websites/${website.id}`, { domain: website.domain });
      if (!answer.ok) return answer;
      dialog.close();
      await context.refresh();
      await context.go("/", { replace: true });
      notify(t("website_deleted", { name: website.name || website.domain }));
    },
  });
  const dialog = openDialog({
    title: t("delete_question", { name: website.name || website.domain }),
    body: [h("p", null, t("deletion_means")), made.element],
  });
  made.focus();
}
