// The login page: email and password, then a redirect to ?next=...

import { fill, h, icon, logo, loadStylesheet } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { clockTime } from "../shared/formats.js";
import { field, form, passwordField } from "../shared/forms.js";

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  context.title("Log in");
  const [state] = await Promise.all([
    get("/api/account/state", { signal: context.signal }),
    loadStylesheet("/assets/account/account.css"),
  ]);
  if (context.signal.aborted) return;
  const next = nextOf(context.query);
  if (state.ok && state.data.needs_setup) return void context.go("/setup", { replace: true });
  if (state.ok && state.data.logged_in) return void context.go(next, { replace: true });
  const login = loginForm(context, next);
  fill(
    root,
    h(
      "div",
      { class: "middle" },
      h(
        "div",
        { class: "entrance" },
        h("div", { class: "entrance-brand" }, logo(), "Tally"),
        h("div", { class: "card roomy" }, h("h1", null, "Log in"), login.element),
        state.data?.demo ? demo() : forgotten(),
      ),
    ),
  );
  login.focus();
}

/**
 * Returns where to go after the login: always a path of this server.
 *
 * @param {URLSearchParams} query
 */
function nextOf(query) {
  let asked;
  try {
    asked = new URL(query.get("next") || "/", location.origin);
  } catch {
    return "/";
  }
  // A path that starts with two slashes would be another host.
  return asked.origin === location.origin && asked.pathname !== "/login"
    ? asked.pathname.replace(/^\/+/, "/") + asked.search + asked.hash
    : "/";
}

/**
 * @param {Context} context
 * @param {string} next
 */
function loginForm(context, next) {
  const email = field({
    label: "Email",
    name: "email",
    type: "email",
    inputmode: "email",
    autocomplete: "username",
    missing: "Enter your email address.",
  });
  const password = passwordField({
    label: "Password",
    name: "password",
    autocomplete: "current-password",
    missing: "Enter your password.",
  });
  const made = form({
    fields: [email, password],
    action: "Log in",
    busy: "Logging in…",
    wide: true,
    submit: async (values) => {
      const answer = await send("POST", "/api/account/login", values);
      if (answer.ok) return context.go(next, { replace: true });
      if (answer.error.code === "wrong_credentials") answer.error.field = "password";
      if (answer.status === 429) waitOut(made.button, answer.error, context.signal);
      return answer;
    },
  });
  return made;
}

/**
 * Disables the button until the server accepts attempts again, and says when that is.
 *
 * @param {HTMLButtonElement} button
 * @param {ApiError} error
 * @param {AbortSignal} signal
 */
function waitOut(button, error, signal) {
  const ends = Date.now() + (error.retryAfter || 60) * 1000;
  error.message = `Too many failed attempts. Try again after ${clockTime(ends)}.`;
  button.disabled = true;
  const free = setTimeout(() => (button.disabled = false), ends - Date.now());
  signal.addEventListener("abort", () => clearTimeout(free));
}

function demo() {
  return h(
    "p",
    { class: "soft" },
    "This server shows demo data. ",
    h("code", null, "analytics-server demo"),
    " prints the email and password when it starts.",
  );
}

function forgotten() {
  return h(
    "details",
    { class: "aside" },
    h("summary", null, icon("right"), "Forgot your password?"),
    h("p", null, "To set a new password, run this command on the server:"),
    h("pre", { class: "code-block", tabindex: "0" }, "analytics-server account password EMAIL"),
  );
}
