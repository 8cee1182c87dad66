// First run: the printed link leads through the owner's e-mail and password, the first website, its snippet, and the
// first event. Each step is found again after a reload: what is done is asked of the server, nothing is kept here.
// It may set the first password, add the first website and look for events.

import { failureNotice } from "../shared/dialog.js";
import { fill, h, icon, logo, loadStylesheet, visuallyHidden } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { field, form, passwordField } from "../shared/forms.js";
import { snippetBox, eventMonitor } from "../shared/onboarding.js";
import { websiteForm } from "./websites.js";
import { at, publicUrl } from "../shared/paths.js";

const STEPS = ["Your account", "First website", "First event"];

export async function show(root, context) {
  context.title("Set up");
  await loadStylesheet("/assets/account/account.css");
  const setup = { root, context, token: context.hash.slice(1) };
  if (setup.token) await showInvited(setup);
  else await resume(setup);
  // Another link in the same tab changes only the hash.
  return { update: () => show(root, context) };
}

/** Without a link: goes on where an earlier visit stopped, or says where the link is. */
async function resume(setup) {
  const { context } = setup;
  const state = await get("/api/account/state", { signal: context.signal });
  if (context.signal.aborted) return;
  if (!state.ok)
    return step(
      setup,
      null,
      failureNotice("The setup cannot be shown.", state.error, () => resume(setup)),
    );
  if (state.data.needs_setup) return linkInstructions(setup, "Set up Tally");
  if (!state.data.logged_in) return void context.go("/login", { replace: true });
  await afterAccount(setup);
}

async function showInvited(setup) {
  const answer = await get("/api/account/setup", {
    headers: { "Setup-Token": encodeURIComponent(setup.token) },
    signal: setup.context.signal,
  });
  if (setup.context.signal.aborted) return;
  if (answer.ok) return accountStep(setup, answer.data.email);
  if (answer.status !== 404)
    return step(
      setup,
      null,
      failureNotice("The setup cannot be shown.", answer.error, () => showInvited(setup)),
    );
  const state = await get("/api/account/state");
  if (state.ok && state.data.needs_setup) return linkInstructions(setup, "This link is no longer valid");
  linkUsed(setup, state.ok && state.data.logged_in);
}

function linkInstructions(setup, title) {
  step(
    setup,
    null,
    h("h1", { tabindex: "-1" }, title),
    h("p", null, "When Tally starts and nobody has a password yet, it prints a link:"),
    h("pre", { class: "code-block wrapped", tabindex: "0" }, `set up Tally: ${publicUrl("")}/setup#…`),
    h(
      "p",
      null,
      "Open the newest one; each start prints another. It stands on standard error: in the terminal, or where the log goes (",
      h("code", null, "journalctl"),
      ", ",
      h("code", null, "docker logs"),
      ").",
    ),
  );
}

function linkUsed(setup, loggedIn) {
  step(
    setup,
    null,
    h("h1", { tabindex: "-1" }, "This link has been used"),
    h("p", null, "Tally is set up. A setup link works once, until a password is set."),
    h("a", { class: "button primary", href: loggedIn ? "/" : "/login" }, loggedIn ? "To the websites" : "Log in"),
  );
}

function accountStep(setup, known) {
  const given = known && known !== "owner@localhost" ? known : "";
  const email = field({
    label: "E-mail",
    name: "email",
    type: "email",
    inputmode: "email",
    autocomplete: "username",
    value: given,
    readonly: Boolean(given),
    missing: "Enter your e-mail address.",
    hint: given ? "The account that the command line made." : "You log in with it. Nothing is sent to it.",
    check: (value) =>
      /^[^@\s]+@[^@\s]+$/.test(value.trim()) ? null : "An e-mail address has the form name@example.com.",
  });
  const password = passwordField({
    label: "Password",
    name: "password",
    autocomplete: "new-password",
    missing: "Choose a password.",
    email: () => email.value(),
    hint: "At least 10 characters. Some words in a row are easier to keep than signs.",
  });
  const made = form({
    fields: [email, password],
    action: "Set password and go on",
    busy: "Setting password…",
    wide: true,
    submit: async ({ email: address, password: chosen }) => {
      const answer = await send("POST", "/api/account/setup", {
        token: setup.token,
        email: address.trim(),
        password: chosen,
      });
      if (!answer.ok) return answer.status === 404 ? void showInvited(setup) : answer;
      // The link is used up: it does not stay in the history.
      history.replaceState(null, "", at("/setup"));
      return afterAccount(setup);
    },
  });
  const words = given
    ? "Tally runs. Set a password for the account that is already there."
    : "Tally runs. Make the account that owns it.";
  step(setup, 0, h("h1", { tabindex: "-1" }, "Set up Tally"), h("p", { class: "lead" }, words), made.element);
  (given ? password : email).input.focus();
}

async function afterAccount(setup) {
  const { signal } = setup.context;
  const [account, websites] = await Promise.all([
    get("/api/account", { signal }),
    get("/api/account/websites", { signal }),
  ]);
  if (signal.aborted) return;
  const failure = [account, websites].find((answer) => !answer.ok);
  if (failure)
    return step(
      setup,
      1,
      failureNotice("The next step cannot be shown.", failure.error, () => afterAccount(setup)),
    );
  setup.base = account.data.base_url;
  if (!websites.data.length) return websiteStep(setup);
  if (websites.data.length === 1 && !websites.data[0].events) return eventStep(setup, websites.data[0]);
  setup.context.go("/", { replace: true });
}

function websiteStep(setup) {
  const made = websiteForm((website, notes) => eventStep(setup, website, notes), { wide: true });
  step(
    setup,
    1,
    h("h1", { tabindex: "-1" }, "Your first website"),
    h("p", { class: "lead" }, "Pages of this domain and its subdomains may send events."),
    made.element,
  );
  made.focus();
}

function eventStep(setup, website, notes = []) {
  const on = h("a", { class: "button wide", href: `/websites/${website.id}` }, "To the dashboard");
  const box = eventMonitor(website, () => {
    on.classList.add("primary");
    setup.context.title("Events arrive");
    setup.root.querySelector(".steps").replaceWith(progress(STEPS.length));
  });
  step(
    setup,
    2,
    h("h1", { tabindex: "-1" }, "Add the snippet"),
    h("p", { class: "lead" }, "Put these lines on ", h("strong", null, website.domain), ". ", notes.join(" ")),
    snippetBox(website, setup.base),
    box,
    on,
  );
  setup.root.querySelector("h1").focus();
}

/** The steps, those before `at` done. */
function progress(at) {
  const steps = STEPS.map((words, number) =>
    h(
      "li",
      { class: number < at ? "done" : null, "aria-current": number === at ? "step" : null },
      h("span", { class: "step-sign", "aria-hidden": "true" }, number < at ? icon("check") : number + 1),
      words,
      number < at ? visuallyHidden(", done") : null,
    ),
  );
  return h("ol", { class: "steps", "aria-label": "Steps" }, steps);
}

/** Draws one step; `at` is its number, or null where there is none. */
function step(setup, at, ...content) {
  const card = h("div", { class: "card roomy" }, content);
  const brand = h("div", { class: "entrance-brand" }, logo(), "Tally");
  fill(
    setup.root,
    h(
      "div",
      { class: "middle" },
      h("div", { class: "entrance broad" }, brand, at === null ? null : progress(at), card),
    ),
  );
}
