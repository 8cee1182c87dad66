// The setup page, opened by the link that the server prints: the owner's email and password, the first website, its
// snippet, and the first event. A reload continues at the same step: the server's state decides, nothing is stored here.

import { failureNotice } from "../shared/dialog.js";
import { fill, h, icon, loadStylesheet, visuallyHidden } from "../shared/dom.js";
import { entrance } from "../shared/entrance.js";
import { get, send } from "../shared/api.js";
import { field, form, passwordField } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { snippetBox, eventMonitor } from "../shared/onboarding.js";
import { websiteForm } from "./websites.js";
import { at, publicUrl } from "../shared/paths.js";
import { readableHost } from "../shared/readable.js";
import { usableLocales } from "../shared/language.js";
import { defaultsOf } from "../account/browser_defaults.js";

const t = await texts("account");
const shared = await texts("shared");
const STEPS = [t("step_account"), t("step_website"), t("step_event")];

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  context.title(t("set_up"));
  await loadStylesheet("/assets/account/account.css");
  const setup = { root, context, token: context.hash.slice(1) };
  if (setup.token) await showInvited(setup);
  else await resume(setup);
  // Another setup link in the same tab changes only the hash.
  return { update: () => show(root, context) };
}

/**
 * Without a token: continues the setup, or shows where the link is.
 *
 * @param {Setup} setup
 */
async function resume(setup) {
  const { context } = setup;
  const state = await get("/api/account/state", { signal: context.signal });
  if (context.signal.aborted) return;
  if (!state.ok) {
    return step(
      setup,
      null,
      failureNotice(t("setup_failed"), state.error, () => resume(setup)),
    );
  }
  if (state.data.needs_setup) return linkInstructions(setup, t("set_up_tally"));
  if (!state.data.logged_in) return void context.go("/login", { replace: true });
  await afterAccount(setup);
}

/**
 * @param {Setup} setup
 */
async function showInvited(setup) {
  const answer = await get("/api/account/setup", {
    headers: { "Setup-Token": encodeURIComponent(setup.token) },
    signal: setup.context.signal,
  });
  if (setup.context.signal.aborted) return;
  if (answer.ok) return accountStep(setup, answer.data.email);
  if (answer.status !== 404) {
    return step(
      setup,
      null,
      failureNotice(t("setup_failed"), answer.error, () => showInvited(setup)),
    );
  }
  const state = await get("/api/account/state");
  if (state.ok && state.data.needs_setup) return linkInstructions(setup, t("link_invalid"));
  linkUsed(setup, state.ok && state.data.logged_in);
}

/**
 * @param {Setup} setup
 * @param {string} title
 */
function linkInstructions(setup, title) {
  step(
    setup,
    null,
    h("h1", { tabindex: "-1" }, title),
    h("p", null, t("setup_link_printed")),
    h("pre", { class: "code-block wrapped", tabindex: "0" }, `set up Tally: ${publicUrl("")}/setup#…`),
    h(
      "p",
      null,
      t.rich("setup_link_place", {
        journal: h("code", null, "journalctl"),
        docker: h("code", null, "docker logs"),
      }),
    ),
  );
}

/**
 * @param {Setup} setup
 * @param {boolean} loggedIn
 */
function linkUsed(setup, loggedIn) {
  step(
    setup,
    null,
    h("h1", { tabindex: "-1" }, t("link_used")),
    h("p", null, t("link_used_why")),
    h(
      "a",
      { class: "button primary", href: loggedIn ? "/" : "/login" },
      loggedIn ? shared("go_to_websites") : t("log_in"),
    ),
  );
}

/**
 * @param {Setup} setup
 * @param {string} known
 */
function accountStep(setup, known) {
  const given = known && known !== "owner@localhost" ? known : "";
  const email = field({
    label: t("email"),
    name: "email",
    type: "email",
    inputmode: "email",
    autocomplete: "username",
    value: given,
    readonly: Boolean(given),
    missing: t("enter_email"),
    hint: given ? t("email_given") : t("email_used"),
    check: (value) => (/^[^@\s]+@[^@\s]+$/.test(value.trim()) ? null : t("email_example")),
  });
  const password = passwordField({
    label: t("password"),
    name: "password",
    autocomplete: "new-password",
    missing: t("enter_password"),
    email: () => email.value(),
    hint: t("passphrase_hint"),
  });
  const made = form({
    fields: [email, password],
    action: given ? t("set_password") : t("create_account"),
    busy: given ? t("setting_password") : t("creating_account"),
    wide: true,
    submit: async ({ email: address, password: chosen }) => {
      const answer = await send("POST", "/api/account/setup", {
        token: setup.token,
        email: address.trim(),
        password: chosen,
      });
      if (!answer.ok) return answer.status === 404 ? void showInvited(setup) : answer;
      // The link is no longer valid: remove it from the history.
      history.replaceState(null, "", at("/setup"));
      return afterAccount(setup);
    },
  });
  const words = given ? t("set_password_lead") : t("create_account_lead");
  step(setup, 0, h("h1", { tabindex: "-1" }, t("set_up_tally")), h("p", { class: "lead" }, words), made.element);
  (given ? password : email).input.focus();
}

/**
 * @param {Setup} setup
 */
async function afterAccount(setup) {
  const { signal } = setup.context;
  const [account, websites] = await Promise.all([
    get("/api/account", { signal }),
    get("/api/account/websites", { signal }),
  ]);
  if (signal.aborted) return;
  const failure = [account, websites].find((answer) => !answer.ok);
  if (failure) {
    return step(
      setup,
      1,
      failureNotice(t("next_step_failed"), failure.error, () => afterAccount(setup)),
    );
  }
  setup.base = account.data.base_url;
  if (!websites.data.length) return websiteStep(setup);
  if (websites.data.length === 1 && !websites.data[0].events) return eventStep(setup, websites.data[0]);
  setup.context.go("/", { replace: true });
}

/**
 * @param {Setup} setup
 */
function websiteStep(setup) {
  const made = websiteForm(
    async (/** @type {Website} */ website, /** @type {string} */ notes) => {
      const defaults = defaultsOf(usableLocales(navigator.languages));
      const answer = await send("PATCH", `/api/account/websites/${website.id}`, defaults);
      // They can be set in the settings.
      return eventStep(setup, website, [notes, answer.ok ? storedWords(answer.data) : ""]);
    },
    { wide: true },
  );
  step(
    setup,
    1,
    h("h1", { tabindex: "-1" }, t("your_first_website")),
    h("p", { class: "lead" }, t("first_website_lead")),
    made.element,
  );
  made.focus();
}

/**
 * Returns what was stored of the browser's region.
 *
 * @param {Website} website
 */
function storedWords({ week_start: start, currency }) {
  const day = start === "sunday" ? t("sunday") : t("monday");
  return currency ? t("stored_week_and_currency", { day, currency }) : t("stored_week", { day });
}

/**
 * @param {Setup} setup
 * @param {Website} website
 * @param {string[]} [notes]
 */
function eventStep(setup, website, notes = []) {
  const on = h("a", { class: "button wide", href: `/websites/${website.id}` }, t("go_to_dashboard"));
  const box = eventMonitor(website, () => {
    on.classList.add("primary");
    setup.context.title(t("events_arriving"));
    setup.root.querySelector(".steps")?.replaceWith(progress(STEPS.length));
  });
  step(
    setup,
    2,
    h("h1", { tabindex: "-1" }, t("add_snippet")),
    h(
      "p",
      { class: "lead" },
      t.rich("add_snippet_lead", { domain: h("strong", null, readableHost(website.domain)) }),
      " ",
      notes.filter(Boolean).join(" "),
    ),
    snippetBox(website, setup.base || ""),
    box,
    on,
  );
  setup.root.querySelector("h1")?.focus();
}

/**
 * Returns the list of steps; those before `current` are done.
 *
 * @param {number} current
 */
function progress(current) {
  const steps = STEPS.map((words, number) =>
    h(
      "li",
      { class: number < current ? "done" : null, "aria-current": number === current ? "step" : null },
      h("span", { class: "step-sign", "aria-hidden": "true" }, number < current ? icon("check") : number + 1),
      words,
      number < current ? visuallyHidden(`, ${t("step_done")}`) : null,
    ),
  );
  return h("ol", { class: "steps", "aria-label": t("steps") }, steps);
}

/**
 * Draws one step; `current` is its index, or null for a page without steps.
 *
 * @param {Setup} setup
 * @param {number | null} current
 * @param {...Child} content
 */
function step(setup, current, ...content) {
  const card = h("div", { class: "card roomy" }, content);
  fill(setup.root, entrance(card, { isBroad: true, before: current === null ? null : progress(current) }));
}
