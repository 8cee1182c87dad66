// The settings of one website (/websites/{id}#settings): name and domain, other addresses that may send, the public
// link, the snippet, and the end of it. It may change and delete that website.

import { sectionCard } from "../account/card.js";
import { confirmDialog, copyButton, notify, openDialog } from "../shared/dialog.js";
import { fill, h, icon, loadStylesheet } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { plural, date, displayZone } from "../shared/formats.js";
import { showWebsiteNotFound } from "../shared/website_not_found.js";
import { snippetBox, eventMonitor } from "../shared/onboarding.js";
import { at } from "../shared/paths.js";

export async function show(root, context) {
  await loadStylesheet("/assets/account/account.css");
  const website = context.websites.find((one) => one.id === context.params.id);
  if (!website) return showWebsiteNotFound(root, context);
  const settings = { context, website, title: h("h1"), parts: h("div", { class: "settings-parts" }) };
  fill(root, h("div", { class: "page narrow" }, head(settings), settings.parts));
  draw(settings, website);
  return { update: () => {} };
}

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

/** Draws all parts for the website as it is now. */
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

async function change(settings, body, said) {
  const answer = await send("PATCH", `/api/account/websites/${settings.website.id}`, body);
  if (!answer.ok) return answer;
  await settings.context.refresh();
  notify([said, ...(answer.meta.notes || [])].join(" "));
  draw(settings, answer.data);
  return null;
}

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
    missing: "Enter the domain, as example.com.",
    hint: "Only its pages and those of its subdomains may send. What is stored stays, whatever it is changed to.",
  });
  const made = form({
    fields: [name, domain],
    action: "Save name and domain",
    busy: "Saving…",
    submit: (values) =>
      change(settings, { name: values.name.trim(), domain: values.domain.trim() }, "Name and domain are saved."),
  });
  return sectionCard("Name and domain", made.element);
}

function originsCard(settings) {
  const area = h("textarea", {
    rows: Math.max(2, settings.website.origins.length + 1),
    spellcheck: "false",
    autocapitalize: "none",
    class: "mono",
  });
  area.value = settings.website.origins.join("\n");
  const origins = field({
    label: "Other addresses",
    name: "origins",
    input: area,
    hint: "One a line, exactly as a browser names them: https://partner.example, capacitor://localhost, http://localhost:5173.",
  });
  const made = form({
    fields: [origins],
    action: "Save addresses",
    busy: "Saving…",
    submit: ({ origins: text }) =>
      change(settings, { origins: text.split(/\s+/).filter(Boolean) }, "The addresses are saved."),
  });
  return sectionCard(
    "Who else may send",
    h("p", { class: "soft" }, "Pages outside the domain that send events too. Apps and servers need no line here."),
    made.element,
  );
}

function shareCard(settings) {
  const { website } = settings;
  const body = h("div", { class: "stack" });
  if (website.share) shared(settings, body);
  else {
    const make = h("button", { class: "button", type: "button" }, icon("share"), "Make a public link");
    make.addEventListener("click", () => runOnce(make, () => share(settings, "The public link is made.")));
    fill(
      body,
      h(
        "p",
        { class: "soft" },
        "Off. With a public link anyone who has it sees this website's figures, and nothing else; no login, no changes.",
      ),
      h("div", { class: "row" }, make),
    );
  }
  return sectionCard("Public link", body);
}

function shared(settings, body) {
  const link = location.origin + at(settings.website.share);
  const shown = h("input", { type: "text", readonly: true, value: link, "aria-label": "Public link", class: "mono" });
  shown.addEventListener("focus", () => shown.select());
  const renew = h("button", { class: "button", type: "button" }, "Replace the link");
  renew.addEventListener("click", async () => {
    const agreed = await confirmDialog({
      title: "Replace the public link?",
      words: "The present link stops working at once. Whoever shall see the figures needs the new one.",
      action: "Replace the link",
    });
    if (agreed) runOnce(renew, () => share(settings, "The public link is replaced."));
  });
  const off = h("button", { class: "button", type: "button" }, "Turn the link off");
  off.addEventListener("click", async () => {
    const agreed = await confirmDialog({
      title: "Turn the public link off?",
      words: "It stops working at once. A new one can be made at any time, with another address.",
      action: "Turn the link off",
      danger: true,
    });
    if (agreed) runOnce(off, () => unshare(settings));
  });
  fill(
    body,
    h("p", { class: "soft" }, "On. Anyone who has this link sees this website's figures, and nothing else."),
    h("div", { class: "row copy-row" }, h("div", { class: "grow" }, shown), copyButton(link, "Copy link")),
    h("div", { class: "row" }, renew, off, h("a", { href: settings.website.share }, "See what they see")),
  );
}

async function share(settings, said) {
  const answer = await send("POST", `/api/account/websites/${settings.website.id}/share`);
  await applyShare(settings, answer, said, () => ({ share: answer.data.share }));
}

async function unshare(settings) {
  const answer = await send("DELETE", `/api/account/websites/${settings.website.id}/share`);
  await applyShare(settings, answer, "The public link is off.", () => ({ share: null }));
}

async function applyShare(settings, answer, said, changed) {
  if (!answer.ok) return notify(answer.error.message);
  await settings.context.refresh();
  notify(said);
  draw(settings, { ...settings.website, ...changed() });
  // The button that was pressed has gone with its card.
  settings.parts.querySelectorAll("section")[2].querySelector("button, input").focus();
}

/** Does it once, however often the button is pressed meanwhile. */
async function runOnce(button, work) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  await work();
  button.removeAttribute("aria-disabled");
}

function snippetCard(settings) {
  const { website, context } = settings;
  const check = h("button", { class: "button", type: "button" }, "Look for the newest event");
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

function deletionCard(settings) {
  const { website } = settings;
  const button = h("button", { class: "button danger", type: "button" }, deletionWords(website));
  button.addEventListener("click", () =>
    runOnce(button, async () => {
      // Events may have come since the page was opened.
      const fresh = await get(`/api/account/websites/${website.id}`);
      const words = deletionWords(fresh.ok ? fresh.data : website);
      fill(button, words);
      deletionDialog(settings, words);
    }),
  );
  return h(
    "section",
    { class: "card roomy ending" },
    h("h2", null, "Delete"),
    h(
      "p",
      { class: "soft" },
      "It stops taking events at once, and everything stored of it is erased from the file. There is no way back but a backup.",
    ),
    h("div", { class: "row" }, button),
  );
}

function deletionWords(website) {
  if (!website.events) return "Delete website";
  const events = website.events_exact ? `its ${plural(website.events, "event")}` : "all its events";
  return `Delete website and ${events}`;
}

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
      notify(`${website.name || website.domain} is deleted.`);
    },
  });
  const dialog = openDialog({
    title: `Delete ${website.name || website.domain}?`,
    body: [h("p", null, "Its figures, its public link and its events are erased, from the file too."), made.element],
  });
  made.focus();
}
