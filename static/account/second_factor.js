// The second factor: its setup in three steps (password, code of the app, recovery codes that are shown once), used by the
// section Sign-in and by the page that is shown while an account requires one.

import { copyButton } from "../shared/dialog.js";
import { fill, h, icon } from "../shared/dom.js";
import { send } from "../shared/api.js";
import { field, form, passwordField } from "../shared/forms.js";
import { clockTime } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { withPasskey } from "../shared/passkeys.js";

const t = await texts("account");

/**
 * Returns the error of an answer with words in the language of the page, at the field that it is about.
 *
 * @param {Answer} answer
 */
export function explained(answer) {
  const { error } = answer;
  if (error?.code === "wrong_code") Object.assign(error, { field: "code", message: t("wrong_code") });
  if (error?.code === "second_factor_required") Object.assign(error, { field: "code", message: t("enter_code") });
  if (error?.code === "rate_limited") {
    error.message = t("too_many_attempts", { time: clockTime(Date.now() + (error.retryAfter || 60) * 1000) });
  }
  return answer;
}

/**
 * Returns the field for a code of the app or, where `takesRecovery`, a recovery code.
 *
 * @param {{ takesRecovery?: boolean }} [options]
 */
export function codeField({ takesRecovery = false } = {}) {
  return field({
    label: takesRecovery ? t("code_or_recovery_code") : t("code_of_app"),
    name: "code",
    class: "mono",
    autocomplete: "one-time-code",
    inputmode: takesRecovery ? "text" : "numeric",
    missing: t("enter_code"),
  });
}

/**
 * Returns the fields that show who changes the second factor.
 *
 * @param {string} email
 * @param {boolean} isSet
 */
export function proofFields(email, isSet) {
  const username = h("input", {
    type: "email",
    autocomplete: "username",
    value: email,
    readonly: true,
    hidden: true,
    tabindex: "-1",
  });
  const password = passwordField({
    label: t("current_password"),
    name: "password",
    autocomplete: "current-password",
    missing: t("enter_current_password"),
  });
  return [username, password, ...(isSet ? [codeField({ takesRecovery: true })] : [])];
}

/**
 * Begins the setup in `root`; `done` is called when the person has seen the recovery codes.
 *
 * @param {HTMLElement} root
 * @param {{ email: string, isSet: boolean, beside?: HTMLElement | null, done: () => any }} options
 */
export function setUpFactor(root, { email, isSet, beside = null, done }) {
  const made = form({
    fields: proofFields(email, isSet),
    action: t("continue"),
    busy: t("checking"),
    beside,
    submit: async (values) => {
      const answer = await withPasskey((sent) => send("POST", "/api/account/second-factor/begin", sent), values);
      if (!answer.ok) return explained(answer);
      confirmFactor(root, answer.data, done);
      return null;
    },
  });
  fill(root, made.element);
  return made;
}

/**
 * @param {HTMLElement} root
 * @param {{ secret: string, uri: string, svg: string }} begun
 * @param {() => any} done
 */
function confirmFactor(root, { secret, uri, svg }, done) {
  const made = form({
    fields: [codeField()],
    action: t("confirm"),
    busy: t("checking"),
    submit: async (values) => {
      const answer = await send("POST", "/api/account/second-factor/confirm", values);
      if (!answer.ok) return explained(answer);
      showCodes(root, answer.data.codes, done);
      return null;
    },
  });
  // In groups of four, as apps show it.
  const grouped = (secret.match(/.{1,4}/g) || []).join(" ");
  fill(
    root,
    h("p", null, t("scan_code")),
    h("img", { class: "qr-code", src: `data:image/svg+xml,${encodeURIComponent(svg)}`, alt: t("qr_code") }),
    h("p", { class: "soft" }, t("or_enter_secret")),
    h(
      "div",
      { class: "row copy-row" },
      h("code", { class: "factor-secret", tabindex: "0" }, grouped),
      copyButton(secret),
      // On a telephone the app is beside the browser.
      h("a", { class: "button", href: uri }, t("open_app")),
    ),
    made.element,
  );
  made.focus();
}

/**
 * Shows recovery codes, once.
 *
 * @param {HTMLElement} root
 * @param {string[]} codes
 * @param {() => any} done
 */
export function showCodes(root, codes, done) {
  const text = `${codes.join("\n")}\n`;
  const heading = h("h3", { tabindex: "-1" }, t("recovery_codes"));
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const stored = h("button", { class: "button primary", type: "button" }, t("codes_stored"));
  stored.addEventListener("click", () => {
    URL.revokeObjectURL(address);
    done();
  });
  fill(
    root,
    heading,
    h("div", { class: "notice warn" }, icon("warning"), h("div", null, h("p", null, t("codes_once")))),
    h(
      "ul",
      { class: "plain-list recovery-codes mono", "aria-label": t("recovery_codes") },
      codes.map((code) => h("li", null, code)),
    ),
    h(
      "div",
      { class: "row" },
      copyButton(text),
      h("a", { class: "button", href: address, download: "tally-recovery-codes.txt" }, t("download")),
    ),
    h("div", { class: "form-actions" }, stored),
  );
  heading.focus();
}
