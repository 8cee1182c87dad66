// The login page: email and password, or a passkey, then a redirect to ?next=..., or to #next=... where the path has a
// secret in its hash, which no request may contain.

import { problemNotice, providerAction } from "../account/sign_in_problems.js";
import { notify } from "../shared/dialog.js";
import { fill, h, icon, loadStylesheet } from "../shared/dom.js";
import { entrance } from "../shared/entrance.js";
import { get, send } from "../shared/api.js";
import { clockTime } from "../shared/formats.js";
import { field, form, passwordField } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { HAS_PASSKEYS, logInByPasskey } from "../shared/passkeys.js";
import { at } from "../shared/paths.js";

const t = await texts("account");
const shared = await texts("shared");

const CODE_ASKED = "code";
const FEW_CODES = 3;

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
  const secretNext = new URLSearchParams(context.hash.slice(1)).get("next");
  const next = nextOf(secretNext || context.query.get("next"));
  if (state.ok && state.data.needs_setup) return void context.go("/setup", { replace: true });
  const card = h("div", { class: "card roomy" });
  const failed = context.hash && !secretNext ? await byLink(context, card) : null;
  if (failed === "") return void context.go("/", { replace: true });
  if (state.ok && state.data.logged_in) return void context.go(next, { replace: true });
  const provider = state.data?.single_sign_on;
  // The address of a person with a password: it connects single sign-on.
  const connects = context.query.get("problem") === "password";
  const login =
    state.ok && (state.data.refused || !state.data.password_login)
      ? elsewhere(state.data, Boolean(provider))
      : loginForm(context, next, card, connects);
  if (failed !== CODE_ASKED) {
    const passkey = state.data?.passkeys && HAS_PASSKEYS ? passkeyButton(context, next) : null;
    fill(
      card,
      h("h1", null, t("log_in")),
      failed ? h("p", { class: "notice bad" }, failed) : problemNotice(context),
      connects ? h("p", { class: "notice" }, t("oidc_password")) : null,
      login.element,
      connects ? null : passkey,
      // A secret path stays out of the request.
      provider && !connects ? providerLink(provider, secretNext ? "/" : next, !login.focus) : null,
    );
  }
  fill(root, entrance(card, { after: state.data?.demo ? demo() : login.focus ? forgotten() : null }));
  if (failed !== CODE_ASKED) login.focus?.();
  else card.querySelector("input")?.focus();
}

/**
 * Logs in by the one-time link that `analytics-server person link` prints; returns what has failed, "" where nothing has,
 * CODE_ASKED where `card` asks for the code of a second factor.
 *
 * @param {Context} context
 * @param {HTMLElement} card
 */
async function byLink(context, card) {
  const token = context.hash.slice(1);
  const answer = await send("POST", "/api/account/login/link", { token });
  // The link is for one sign-in: remove it from the history.
  history.replaceState(null, "", at("/login"));
  if (answer.error?.code === "second_factor_required") {
    askForCode(context, card, async (code) => {
      const again = await send("POST", "/api/account/login/link", { token, code });
      return again.ok ? context.go("/", { replace: true }) : again;
    });
    return CODE_ASKED;
  }
  return answer.ok ? "" : answer.status === 404 ? t("sign_in_link_invalid") : answer.error.message;
}

/**
 * Returns where to go after the login: always a path of this server.
 *
 * @param {string | null} path
 */
function nextOf(path) {
  let requested;
  try {
    requested = new URL(path || "/", location.origin);
  } catch {
    return "/";
  }
  // A path that starts with two slashes would be another host.
  return requested.origin === location.origin && requested.pathname !== "/login"
    ? requested.pathname.replace(/^\/+/, "/") + requested.search + requested.hash
    : "/";
}

/**
 * @param {{ name: string }} provider
 * @param {string} next
 * @param {boolean} isOnly
 */
function providerLink(provider, next, isOnly) {
  const href = `/sign-in/oidc?next=${encodeURIComponent(next)}`;
  return h("a", { class: `button wide ${isOnly ? "primary" : ""}`, href }, providerAction(provider));
}

/**
 * @param {Context} context
 * @param {string} next
 * @param {HTMLElement} card
 * @param {boolean} connects
 */
function loginForm(context, next, card, connects) {
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
    submit: async (entered) => {
      const values = connects ? { ...entered, connect: true } : entered;
      const answer = await send("POST", "/api/account/login", values);
      if (answer.ok) return goOn(context, answer.data, next);
      if (answer.error.code === "second_factor_required") {
        askForCode(context, card, async (code) => {
          const again = await send("POST", "/api/account/login", { ...values, code });
          return again.ok ? goOn(context, again.data, next) : again;
        });
        return null;
      }
      if (answer.error.code === "passkey_required") {
        const lead = h("p", { class: "soft" }, t("passkey_required_lead"));
        const own = passkeyButton(context, next);
        fill(card, h("h1", null, t("second_factor")), lead, own);
        own.querySelector("button")?.focus();
        return null;
      }
      if (answer.error.code === "wrong_credentials") answer.error.field = "password";
      if (answer.status === 429) waitOut(made.button, answer.error, context.signal);
      return answer;
    },
  });
  return made;
}

/**
 * Returns the button that logs in by a passkey, with its errors below it.
 *
 * @param {Context} context
 * @param {string} next
 */
function passkeyButton(context, next) {
  const failed = h("div", { role: "alert" });
  const button = h("button", { class: "button wide", type: "button" }, t("use_passkey"));
  button.addEventListener("click", async () => {
    if (button.ariaDisabled === "true") return;
    button.ariaDisabled = "true";
    fill(failed);
    const answer = await logInByPasskey();
    button.ariaDisabled = null;
    if (answer.ok) return goOn(context, answer.data, next);
    fill(failed, h("p", { class: "notice bad" }, answer.error.message));
  });
  return h("div", { class: "stack" }, button, failed);
}

/**
 * Returns what stands for the form where a proxy or a provider signs people in: why it does not, and a button to try
 * again.
 *
 * @param {{ refused: { code: string, email: string | null } | null }} state
 * @param {boolean} hasProvider
 */
function elsewhere({ refused }, hasProvider) {
  if (!refused && hasProvider) return { element: null, focus: null };
  const again = h("button", { class: "button", type: "button", onclick: () => location.reload() }, shared("try_again"));
  const why = !refused ? "" : refused.email ? t("not_invited", { email: refused.email }) : t("bad_auth_header");
  const element = h(
    "div",
    { class: "stack" },
    refused ? h("p", { class: "notice bad", role: "alert" }, why) : h("p", null, t("no_password_login")),
    refused?.email ? h("p", { class: "soft" }, t("not_invited_hint")) : null,
    again,
  );
  return { element, focus: null };
}

/**
 * @param {Context} context
 * @param {{ second_factor?: { recovery_codes: number } | null, second_factor_due?: boolean }} account
 * @param {string} next
 */
function goOn(context, { second_factor: factor, second_factor_due: due }, next) {
  if (due) return context.go("/second-factor", { replace: true });
  if (factor && factor.recovery_codes <= FEW_CODES) notify(t("few_codes_left", { count: factor.recovery_codes }));
  return context.go(next, { replace: true });
}

/**
 * Asks in `card` for a code of the app, or for a recovery code; `attempt` sends it with what was sent before.
 *
 * @param {Context} context
 * @param {HTMLElement} card
 * @param {(code: string) => any} attempt
 * @param {boolean} [isRecovery]
 */
function askForCode(context, card, attempt, isRecovery = false) {
  const code = field({
    label: isRecovery ? t("recovery_code") : t("code_of_app"),
    name: "code",
    class: "mono",
    autocomplete: isRecovery ? "off" : "one-time-code",
    inputmode: isRecovery ? "text" : "numeric",
    missing: t("enter_code"),
  });
  const other = h(
    "button",
    { class: "button quiet", type: "button" },
    isRecovery ? t("use_app") : t("use_recovery_code"),
  );
  other.addEventListener("click", () => askForCode(context, card, attempt, !isRecovery));
  const made = form({
    fields: [code],
    action: t("log_in"),
    busy: t("logging_in"),
    wide: true,
    submit: async (values) => {
      const answer = await attempt(values.code);
      if (answer?.error?.code === "wrong_code") answer.error.message = t("wrong_code");
      if (answer?.status === 429) waitOut(made.button, answer.error, context.signal);
      return answer;
    },
  });
  const lead = isRecovery ? t("recovery_code_lead") : t("code_lead");
  fill(card, h("h1", null, t("second_factor")), h("p", { class: "soft" }, lead), made.element, other);
  made.focus();
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
