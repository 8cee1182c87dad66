// The settings of a website (/websites/{id}#settings): name and domain, allowed origins, share link, snippet, deletion.

import { sectionCard } from "../account/card.js";
import { confirmDialog, copyButton, notify, openDialog } from "../shared/dialog.js";
import { fill, h, icon, loadStylesheet } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { plural, date, displayZone } from "../shared/formats.js";
import { showWebsiteNotFound } from "../shared/website_not_found.js";
import { snippetBox, eventMonitor } from "../shared/onboarding.js";
import { at } from "../shared/paths.js";

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
      h("p", { class: "small-text" }, h("a", { href: `/websites/${website.id}` }, icon("left"), "Dashboard")),
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
  settings.context.title(`Settings of ${name}`);
  fill(settings.title, `Settings of ${name}`);
  fill(
    settings.parts,
    nameCard(settings),
    originsCard(settings),
    shareCard(settings),
    snippetCard(settings),
    deletionCard(settings),
  );
}

/**
 * @param {Settings} settings
 * @param {any} body
 * @param {string} said
 */
async function change(settings, body, said) {
  const answer = await send("PATCH", `/api/account/websites/${settings.website.id}`, body);
  if (!answer.ok) return answer;
  await settings.context.refresh();
  notify([said, ...(answer.meta.notes || [])].join(" "));
  draw(settings, answer.data);
  return null;
}

/**
 * @param {Settings} settings
 */
function nameCard(settings) {
  const { website } = settings;
  const name = field({
    label: "Name",
    name: "name",
    value: website.name || website.domain,
    autocomplete: "off",
    autocapitalize: "sentences",
    missing: "Enter a name.",
    maxlength: 100,
  });
  const domain = field({
    label: "Domain",
    name: "domain",
    value: website.domain,
    inputmode: "url",
    autocomplete: "off",
    missing: "Enter the domain, such as example.com.",
    hint: "Its pages and those of its subdomains can send events. Changing it keeps stored events.",
  });
  const made = form({
    fields: [name, domain],
    action: "Save name and domain",
    busy: "Saving…",
    submit: (values) =>
      change(settings, { name: values.name.trim(), domain: values.domain.trim() }, "Name and domain saved."),
  });
  return sectionCard("Name and domain", made.element);
}

/**
 * @param {Settings} settings
 */
function originsCard(settings) {
  const area = h("textarea", {
    rows: Math.max(2, settings.website.origins.length + 1),
    spellcheck: "false",
    autocapitalize: "none",
    class: "mono",
  });
  area.value = settings.website.origins.join("\n");
  const origins = field({
    label: "Origins",
    name: "origins",
    input: area,
    hint: "One per line: https://partner.example, capacitor://localhost, http://localhost:5173.",
  });
  const made = form({
    fields: [origins],
    action: "Save origins",
    busy: "Saving…",
    submit: ({ origins: text }) => change(settings, { origins: text.split(/\s+/).filter(Boolean) }, "Origins saved."),
  });
  return sectionCard(
    "Allowed origins",
    h("p", { class: "soft" }, "Pages of other origins that can send events. Apps and servers do not need an entry."),
    made.element,
  );
}

/**
 * @param {Settings} settings
 */
function shareCard(settings) {
  const { website } = settings;
  const body = h("div", { class: "stack" });
  if (website.share) shared(settings, body);
  else {
    const make = h("button", { class: "button", type: "button" }, icon("share"), "Create link");
    make.addEventListener("click", () => runOnce(make, () => share(settings, "Share link created.")));
    fill(
      body,
      h(
        "p",
        { class: "soft" },
        "No share link. Anyone with a share link can view this website's dashboard without a login. They cannot change anything.",
      ),
      h("div", { class: "row" }, make),
    );
  }
  return sectionCard("Share link", body);
}

/**
 * @param {Settings} settings
 * @param {HTMLElement} body
 */
function shared(settings, body) {
  const link = location.origin + at(settings.website.share || "");
  const shown = h("input", { type: "text", readonly: true, value: link, "aria-label": "Share link", class: "mono" });
  shown.addEventListener("focus", () => shown.select());
  const renew = h("button", { class: "button", type: "button" }, "Replace link");
  renew.addEventListener("click", async () => {
    const agreed = await confirmDialog({
      title: "Replace share link?",
      words: "The current link stops working at once.",
      action: "Replace link",
    });
    if (agreed) runOnce(renew, () => share(settings, "Share link replaced."));
  });
  const off = h("button", { class: "button", type: "button" }, "Revoke link");
  off.addEventListener("click", async () => {
    const agreed = await confirmDialog({
      title: "Revoke share link?",
      words: "The link stops working at once. You can create a new one at any time.",
      action: "Revoke link",
      danger: true,
    });
    if (agreed) runOnce(off, () => unshare(settings));
  });
  fill(
    body,
    h("p", { class: "soft" }, "Anyone with this link can view this website's dashboard."),
    h("div", { class: "row copy-row" }, h("div", { class: "grow" }, shown), copyButton(link, "Copy link")),
    h("div", { class: "row" }, renew, off, h("a", { href: settings.website.share }, "Open shared page")),
  );
}

/**
 * @param {Settings} settings
 * @param {string} said
 */
async function share(settings, said) {
  const answer = await send("POST", `/api/account/websites/${settings.website.id}/share`);
  await applyShare(settings, answer, said, () => ({ share: answer.data.share }));
}

/**
 * @param {Settings} settings
 */
async function unshare(settings) {
  const answer = await send("DELETE", `/api/account/websites/${settings.website.id}/share`);
  await applyShare(settings, answer, "Share link revoked.", () => ({ share: null }));
}

/**
 * @param {Settings} settings
 * @param {any} answer
 * @param {string} said
 * @param {() => Partial<Website>} changed
 */
async function applyShare(settings, answer, said, changed) {
  if (!answer.ok) return notify(answer.error.message);
  await settings.context.refresh();
  notify(said);
  draw(settings, { ...settings.website, ...changed() });
  // The clicked button was replaced with its card: focus the new card.
  /** @type {HTMLElement | null} */ (
    settings.parts.querySelectorAll("section")[2].querySelector("button, input")
  )?.focus();
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
  const check = h("button", { class: "button", type: "button" }, "Check for events");
  const place = h("div", { class: "stack" }, h("div", { class: "row" }, check));
  check.addEventListener("click", () => fill(place, eventMonitor(website)));
  return sectionCard(
    "Snippet",
    snippetBox(website, context.account.base_url),
    place,
    h(
      "p",
      { class: "soft small-text" },
      "Website id ",
      h("code", { class: "breakable" }, website.id),
      `, added ${date(website.created_at, displayZone(context.account.time_zone))}`,
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
    h("h2", null, "Delete website"),
    h(
      "p",
      { class: "soft" },
      "The website stops accepting events at once, and all of its data is deleted. This cannot be undone, except from a backup.",
    ),
    h("div", { class: "row" }, button),
  );
}

/**
 * @param {Website} website
 */
function deletionWords(website) {
  if (!website.events) return "Delete website";
  const events = website.events_exact ? `its ${plural(website.events, "event")}` : "all its events";
  return `Delete website and ${events}`;
}

/**
 * @param {Settings} settings
 * @param {string} words
 */
function deletionDialog(settings, words) {
  const { website, context } = settings;
  const typed = field({
    label: `Type ${website.domain} to confirm`,
    name: "domain",
    autocomplete: "off",
    missing: `Type ${website.domain} here.`,
    check: (text) =>
      text.trim().toLowerCase() === website.domain.toLowerCase() ? null : `This is not ${website.domain}.`,
  });
  const made = form({
    fields: [typed],
    action: words,
    busy: "Deleting…",
    danger: true,
    beside: h("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Cancel"),
    submit: async (values) => {
      const answer = await send("DELETE", `/api/account/websites/${website.id}`, { domain: values.domain.trim() });
      if (!answer.ok) return answer;
      dialog.close();
      await context.refresh();
      await context.go("/", { replace: true });
      notify(`Website deleted: ${website.name || website.domain}`);
    },
  });
  const dialog = openDialog({
    title: `Delete ${website.name || website.domain}?`,
    body: [h("p", null, "Its events, reports and share link are deleted from the database."), made.element],
  });
  made.focus();
}
