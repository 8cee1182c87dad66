// The setup page, opened by the link that the server prints: the owner's email and password, the first website, its
// snippet, and the first event. A reload continues at the same step: the server's state decides, nothing is stored here.

import { failureNotice } from "../shared/dialog.js";
import { fill, h, icon, logo, loadStylesheet, visuallyHidden } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form, passwordField } from "../shared/forms.js";
import { snippetBox, eventMonitor } from "../shared/onboarding.js";
import { websiteForm } from "./websites.js";
import { at, publicUrl } from "../shared/paths.js";

const STEPS = ["Your account", "First website", "First event"];

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  context.title("Set up");
  await loadStylesheet("/assets/account/account.css");
  const setup = { root, context, token: context.hash.slice(1) };
  if (setup.token) await showInvited(setup);
  else await resume(setup);
  // Another setup link in the same tab changes only the hash.
  return { update: () => show(root, context) };
}

/**
 * Without a token: continues the setup, or says where the link is.
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
      failureNotice("Setup cannot be shown.", state.error, () => resume(setup)),
    );
  }
  if (state.data.needs_setup) return linkInstructions(setup, "Set up Tally");
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
      failureNotice("Setup cannot be shown.", answer.error, () => showInvited(setup)),
    );
  }
  const state = await get("/api/account/state");
  if (state.ok && state.data.needs_setup) return linkInstructions(setup, "This link is no longer valid");
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
    h("p", null, "When Tally starts and no account has a password, it prints a setup link:"),
    h("pre", { class: "code-block wrapped", tabindex: "0" }, `set up Tally: ${publicUrl("")}/setup#…`),
    h(
      "p",
      null,
      "Open the newest link; each start prints a new one. It is printed to standard error: in the terminal or the log (",
      h("code", null, "journalctl"),
      ", ",
      h("code", null, "docker logs"),
      ").",
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
    h("h1", { tabindex: "-1" }, "This setup link has been used"),
    h("p", null, "Tally is set up. A setup link works only until a password is set."),
    h("a", { class: "button primary", href: loggedIn ? "/" : "/login" }, loggedIn ? "Go to websites" : "Log in"),
  );
}

/**
 * @param {Setup} setup
 * @param {string} known
 */
function accountStep(setup, known) {
  const given = known && known !== "owner@localhost" ? known : "";
  const email = field({
    label: "Email",
    name: "email",
    type: "email",
    inputmode: "email",
    autocomplete: "username",
    value: given,
    readonly: Boolean(given),
    missing: "Enter your email address.",
    hint: given ? "The account was created on the command line." : "Used to log in. No email is sent.",
    check: (value) =>
      /^[^@\s]+@[^@\s]+$/.test(value.trim()) ? null : "Enter an email address such as name@example.com.",
  });
  const password = passwordField({
    label: "Password",
    name: "password",
    autocomplete: "new-password",
    missing: "Enter a password.",
    email: () => email.value(),
    hint: "At least 10 characters. A passphrase is easier to remember.",
  });
  const made = form({
    fields: [email, password],
    action: given ? "Set password" : "Create account",
    busy: given ? "Setting password…" : "Creating account…",
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
  const words = given ? "Set a password for the existing account." : "Create the owner account.";
  step(setup, 0, h("h1", { tabindex: "-1" }, "Set up Tally"), h("p", { class: "lead" }, words), made.element);
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
      failureNotice("The next step cannot be shown.", failure.error, () => afterAccount(setup)),
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
    (/** @type {Website} */ website, /** @type {string[]} */ notes) => eventStep(setup, website, notes),
    { wide: true },
  );
  step(
    setup,
    1,
    h("h1", { tabindex: "-1" }, "Your first website"),
    h("p", { class: "lead" }, "Pages of this domain and its subdomains can send events."),
    made.element,
  );
  made.focus();
}

/**
 * @param {Setup} setup
 * @param {Website} website
 * @param {string[]} [notes]
 */
function eventStep(setup, website, notes = []) {
  const on = h("a", { class: "button wide", href: `/websites/${website.id}` }, "Go to dashboard");
  const box = eventMonitor(website, () => {
    on.classList.add("primary");
    setup.context.title("Events are arriving");
    setup.root.querySelector(".steps")?.replaceWith(progress(STEPS.length));
  });
  step(
    setup,
    2,
    h("h1", { tabindex: "-1" }, "Add the snippet"),
    h(
      "p",
      { class: "lead" },
      "Add these lines to the pages of ",
      h("strong", null, website.domain),
      ". ",
      notes.join(" "),
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
      number < current ? visuallyHidden(", done") : null,
    ),
  );
  return h("ol", { class: "steps", "aria-label": "Steps" }, steps);
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
  const brand = h("div", { class: "entrance-brand" }, logo(), "Tally");
  fill(
    setup.root,
    h(
      "div",
      { class: "middle" },
      h("div", { class: "entrance broad" }, brand, current === null ? null : progress(current), card),
    ),
  );
}
