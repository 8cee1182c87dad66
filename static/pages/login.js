// The login page: email and password, then a redirect to ?next=...

import { fill, h, icon, logo, loadStylesheet } from "../shared/dom.js";
import { get, send } from "../shared/api.js";
import { clockTime } from "../shared/formats.js";
import { field, form, passwordField } from "../shared/forms.js";
import { texts } from "../shared/messages.js";

const t = await texts("account");

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  context.title(t("log_in"));
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
        h("div", { class: "card roomy" }, h("h1", null, t("log_in")), login.element),
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
  let requested;
  try {
    requested = new URL(query.get("next") || "/", location.origin);
  } catch {
    return "/";
  }
  // A path that starts with two slashes would be another host.
  return requested.origin === location.origin && requested.pathname !== "/login"
    ? requested.pathname.replace(/^\/+/, "/") + requested.search + requested.hash
    : "/";
}

/**
 * @param {Context} context
 * @param {string} next
 */
function loginForm(context, next) {
  const email = field({
    label: t("email"),
    name: "email",
    type: "email",
    inputmode: "email",
    autocomplete: "username",
    missing: t("enter_email"),
  });
  const password = passwordField({
    label: t("password"),
    name: "password",
    autocomplete: "current-password",
    missing: t("enter_your_password"),
  });
  const made = form({
    fields: [email, password],
    action: t("log_in"),
    busy: t("logging_in"),
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
 * Disables the button until the server accepts attempts again, and shows when that is.
 *
 * @param {HTMLButtonElement} button
 * @param {ApiError} error
 * @param {AbortSignal} signal
 */
function waitOut(button, error, signal) {
  const ends = Date.now() + (error.retryAfter || 60) * 1000;
  error.message = t("too_many_attempts", { time: clockTime(ends) });
  button.disabled = true;
  const free = setTimeout(() => (button.disabled = false), ends - Date.now());
  signal.addEventListener("abort", () => clearTimeout(free));
}

function demo() {
  return h("p", { class: "soft" }, t.rich("demo_login", { command: h("code", null, "analytics-server demo") }));
}

function forgotten() {
  return h(
    "details",
    { class: "aside" },
    h("summary", null, icon("right"), t("forgot_password")),
    h("p", null, t("reset_password")),
    h("pre", { class: "code-block", tabindex: "0" }, "analytics-server account password EMAIL"),
  );
}
