// The section People: inviting a person by a link that is shown once and, where the account has several people, the list
// of them with their roles and websites, open invitations, and leaving. Only owners see and give the role owner.

import { confirmDialog, copyButton, failureNotice, notify, openDialog } from "../shared/dialog.js";
import { fill, h, icon } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { date, displayZone } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { publicUrl } from "../shared/paths.js";
import { readableHost } from "../shared/readable.js";
import { actionTable, sectionCard } from "./card.js";
import { ROLES, ROLE_MAY } from "./roles.js";

const t = await texts("account");
const shared = await texts("shared");

const LIMITED = ["viewer", "editor"];

/**
 * Draws the section into `parts`.
 *
 * @param {HTMLElement} parts
 * @param {Context} context
 */
export async function peopleSection(parts, context) {
  const section = { context, made: h("div"), rest: h("div", { class: "settings-parts" }) };
  fill(parts, invitation(section), section.rest);
  await listed(section);
}

/**
 * Returns the roles that the person may give.
 *
 * @param {PeopleSection} section
 */
function rolesOf({ context }) {
  const all = Object.entries(ROLES);
  return context.account.role === "owner" ? all : all.filter(([role]) => role !== "owner");
}

/**
 * @param {PeopleSection} section
 * @param {string} role
 */
function roleSelect(section, role) {
  return h(
    "select",
    { value: role },
    rolesOf(section).map(([value, label]) => h("option", { value, selected: value === role }, label)),
  );
}

/**
 * Returns a choice of websites: { element, value }; the value is null for all.
 *
 * @param {PeopleSection} section
 * @param {string[] | null} chosen
 */
function websiteChoice({ context }, chosen) {
  const boxes = context.websites.map((/** @type {Website} */ { id, name, domain }) =>
    h("input", {
      type: "checkbox",
      value: id,
      checked: chosen === null || chosen.includes(id),
      "aria-label": name || domain,
    }),
  );
  const rows = context.websites.map((/** @type {Website} */ { name, domain }, /** @type {number} */ at) =>
    h("label", { class: "check-row" }, boxes[at], name || readableHost(domain)),
  );
  const value = () => {
    const on = boxes.filter((/** @type {HTMLInputElement} */ one) => one.checked);
    return on.length === boxes.length ? null : on.map((/** @type {HTMLInputElement} */ one) => one.value);
  };
  return {
    element: h("fieldset", { class: "field check-list" }, h("legend", null, t("person_websites")), rows),
    value,
  };
}

/**
 * @param {PeopleSection} section
 */
function invitation(section) {
  const email = field({
    label: t("email"),
    name: "email",
    type: "email",
    inputmode: "email",
    autocomplete: "off",
    missing: t("enter_email"),
    check: (value) => (/^[^@\s]+@[^@\s]+$/.test(value.trim()) ? null : t("email_example")),
  });
  const select = roleSelect(section, "viewer");
  const role = field({ label: t("role"), name: "role", input: select, hint: ROLE_MAY.viewer });
  const websites = websiteChoice(section, null);
  const hint = role.element.querySelector(".field-hint");
  select.addEventListener("change", () => {
    if (hint) hint.textContent = ROLE_MAY[select.value];
    websites.element.hidden = !hasChoice(section, select.value);
  });
  websites.element.hidden = !hasChoice(section, "viewer");
  const made = form({
    fields: [email, role],
    action: t("invite"),
    busy: t("inviting"),
    submit: async (values) => {
      const limit = hasChoice(section, values.role) ? websites.value() : null;
      const sent = { email: values.email.trim(), role: values.role, websites: limit };
      const answer = await send("POST", "/api/account/invitations", sent);
      if (!answer.ok) return answer;
      email.input.value = "";
      showOnce(section, answer.data);
      await listed(section);
      return null;
    },
  });
  made.element.insertBefore(websites.element, made.element.lastElementChild);
  return sectionCard(t("invite_person"), h("p", { class: "soft" }, t("invite_lead")), made.element, section.made);
}

/**
 * @param {PeopleSection} section
 * @param {string} role
 */
function hasChoice({ context }, role) {
  return LIMITED.includes(role) && context.websites.length > 1;
}

/**
 * @param {PeopleSection} section
 * @param {{ email: string, link: string }} invitation
 */
function showOnce(section, { email, link }) {
  const address = link.startsWith("/") ? publicUrl("") + link : link;
  const value = h("input", {
    type: "text",
    class: "mono",
    readonly: true,
    value: address,
    "aria-label": t("invitation_link", { email }),
    autocomplete: "off",
  });
  value.addEventListener("focus", () => value.select());
  const words = h("div", null, h("strong", null, t("invited", { email })), h("p", null, t("invitation_once")));
  fill(
    section.made,
    h(
      "div",
      { class: "key-made", role: "group", "aria-label": t("invited", { email }) },
      h("div", { class: "notice good" }, icon("check"), words),
      h("div", { class: "row copy-row" }, h("div", { class: "grow" }, value), copyButton(address)),
    ),
  );
  value.focus();
}

/**
 * @param {PeopleSection} section
 */
async function listed(section) {
  const { signal } = section.context;
  const [people, invitations] = await Promise.all([
    get("/api/account/people", { signal }),
    get("/api/account/invitations", { signal }),
  ]);
  if (signal.aborted) return;
  const failure = [people, invitations].find((answer) => !answer.ok);
  if (failure) {
    return void fill(
      section.rest,
      failureNotice(t("people_failed"), failure.error, () => listed(section)),
    );
  }
  const hasOthers = people.data.length > 1;
  fill(
    section.rest,
    invitations.data.length
      ? sectionCard(
          t("open_invitations"),
          actionTable(
            [t("email"), t("role"), t("valid_until")],
            invitations.data.map((/** @type {Invitation} */ one) => invitationRow(section, one)),
          ),
        )
      : null,
    hasOthers
      ? sectionCard(
          t("people"),
          actionTable(
            [t("email"), t("role"), t("person_websites"), t("last_used")],
            people.data.map((/** @type {Person} */ one) => personRow(section, one)),
          ),
        )
      : null,
    policy(section, hasOthers),
  );
}

/**
 * Returns the card of the second factor of all members, for owners; nothing for one person alone.
 *
 * @param {PeopleSection} section
 * @param {boolean} hasOthers
 */
function policy(section, hasOthers) {
  const { role, requires_second_factor: isRequired, second_factor: codes, passkeys } = section.context.account;
  if (role !== "owner" || (!hasOthers && !isRequired)) return null;
  const words = isRequired ? t("stop_requiring_factor") : t("require_factor");
  const button = h("button", { class: "button", type: "button" }, words);
  button.addEventListener("click", async () => {
    const question = { title: `${words}?`, words: t("require_factor_effect"), action: words };
    if (!isRequired && !(await confirmDialog(question))) return;
    const answer = await send("PATCH", "/api/account", { requires_second_factor: !isRequired });
    if (!answer.ok) return notify(answer.error.message);
    section.context.account = answer.data;
    notify(isRequired ? t("factor_not_required") : t("factor_required"));
    await listed(section);
  });
  const link = h("a", { href: "/account/sign-in" }, t("set_up_factor"));
  return sectionCard(
    t("second_factor"),
    h("p", { class: "soft" }, isRequired ? t("factor_required") : t("factor_not_required")),
    codes || passkeys || isRequired
      ? h("div", { class: "row" }, button)
      : h("p", null, t("own_factor_first"), " ", link),
  );
}

/**
 * @param {PeopleSection} section
 * @param {Invitation} one
 */
function invitationRow(section, one) {
  const zone = displayZone(section.context.account.time_zone);
  const label = t("revoke_invitation", { email: one.email });
  const revoke = h("button", { class: "button small", type: "button", "aria-label": label }, t("revoke"));
  revoke.addEventListener("click", async () => {
    const answer = await send("DELETE", `/api/account/invitations/${one.id}`);
    if (!answer.ok && answer.status !== 404) return notify(answer.error.message);
    fill(section.made);
    await listed(section);
  });
  return h(
    "tr",
    null,
    h("th", { scope: "row", class: "key-name" }, one.email),
    h("td", { dataset: { head: t("role") } }, ROLES[one.role]),
    h("td", { dataset: { head: t("valid_until") } }, date(one.expires_at, zone)),
    h("td", { class: "num" }, revoke),
  );
}

/**
 * @param {PeopleSection} section
 * @param {Person} one
 */
function personRow(section, one) {
  const mayChange = section.context.account.role === "owner" || one.role !== "owner";
  const select = roleSelect(section, one.role);
  select.setAttribute("aria-label", t("role_of", { email: one.email }));
  select.addEventListener("change", () => changed(section, one, { role: select.value }));
  const websites = one.websites === null ? shared("all_websites") : t("websites_count", { count: one.websites.length });
  const limit = h("button", { class: "button small", type: "button" }, websites);
  limit.addEventListener("click", () => chooseWebsites(section, one));
  const words = one.is_you ? t("leave_account") : t("remove_person");
  const label = one.is_you ? words : t("remove_person_named", { email: one.email });
  const remove = h("button", { class: "button small", type: "button", "aria-label": label }, words);
  remove.addEventListener("click", () => removed(section, one));
  return h(
    "tr",
    null,
    h(
      "th",
      { scope: "row", class: "key-name" },
      one.email,
      one.is_you ? h("span", { class: "soft" }, ` ${t("you")}`) : null,
    ),
    h("td", { dataset: { head: t("role") } }, mayChange ? select : ROLES[one.role]),
    h("td", { dataset: { head: t("person_websites") } }, hasChoice(section, one.role) ? limit : websites),
    h("td", { dataset: { head: t("last_used") } }, one.last_seen ? date(one.last_seen, "UTC") : t("never")),
    h("td", { class: "num" }, mayChange ? remove : null),
  );
}

/**
 * @param {PeopleSection} section
 * @param {Person} one
 * @param {object} sent
 */
async function changed(section, one, sent) {
  const answer = await send("PATCH", `/api/account/people/${one.id}`, sent);
  notify(answer.ok ? t("person_changed", { email: one.email }) : answer.error.message);
  // One's own role decides what the pages show.
  if (answer.ok && one.is_you) return section.context.go("/account");
  await listed(section);
}

/**
 * @param {PeopleSection} section
 * @param {Person} one
 */
function chooseWebsites(section, one) {
  const choice = websiteChoice(section, one.websites);
  const save = h("button", { class: "button primary", type: "button" }, t("save_websites"));
  const dialog = openDialog({
    title: t("websites_of", { email: one.email }),
    body: choice.element,
    actions: [save],
  });
  save.addEventListener("click", () => {
    dialog.close();
    changed(section, one, { websites: choice.value() });
  });
}

/**
 * @param {PeopleSection} section
 * @param {Person} one
 */
async function removed(section, one) {
  const agreed = await confirmDialog({
    title: one.is_you ? t("leave_question") : t("remove_question", { email: one.email }),
    words: one.is_you ? t("leave_effect") : t("remove_effect"),
    action: one.is_you ? t("leave_account") : t("remove_person"),
    danger: true,
  });
  if (!agreed) return;
  const answer = one.is_you
    ? await send("POST", "/api/account/leave")
    : await send("DELETE", `/api/account/people/${one.id}`);
  if (!answer.ok) return notify(answer.error.message);
  if (one.is_you) return section.context.go("/");
  notify(t("person_removed", { email: one.email }));
  await listed(section);
}
