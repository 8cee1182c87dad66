// Passkeys (WebAuthn): a request to the browser to make or to use one, and its response in the form that the server takes.

import { send } from "./api.js";
import { texts } from "./messages.js";

const t = await texts("account");

/** Whether the browser has passkeys on this page: some have them on pages with https alone. */
export const HAS_PASSKEYS = "PublicKeyCredential" in window;

/**
 * Has the browser make a passkey; the answer's data is the credential.
 *
 * @param {any} options
 * @returns {Promise<Answer>}
 */
export function makePasskey(options) {
  return asked(() =>
    navigator.credentials.create({
      publicKey: {
        ...options,
        challenge: bytes(options.challenge),
        user: { ...options.user, id: bytes(options.user.id) },
        excludeCredentials: options.excludeCredentials.map((/** @type {any} */ one) => ({ ...one, id: bytes(one.id) })),
      },
    }),
  );
}

/**
 * Has the person choose and use a passkey; the answer's data is the credential.
 *
 * @returns {Promise<Answer>}
 */
export async function usePasskey() {
  const begun = await send("POST", "/api/account/login/passkey/begin");
  if (!begun.ok) return begun;
  const { challenge, ...options } = begun.data;
  return asked(() => navigator.credentials.get({ publicKey: { ...options, challenge: bytes(challenge) } }));
}

/**
 * Logs in by a passkey that the person chooses.
 *
 * @returns {Promise<Answer>}
 */
export async function logInByPasskey() {
  const used = await usePasskey();
  return used.ok ? explained(await send("POST", "/api/account/login/passkey/finish", { credential: used.data })) : used;
}

/**
 * Sends what changes the factors of a person, again with a passkey where the server asks for one.
 *
 * @param {(values: any) => Promise<Answer>} attempt
 * @param {any} values
 */
export async function withPasskey(attempt, values) {
  const answer = await attempt(values);
  if (answer.error?.code !== "passkey_required") return answer;
  const used = await usePasskey();
  return used.ok ? explained(await attempt({ ...values, passkey: used.data })) : used;
}

/**
 * Returns an answer with its error in the language of the page.
 *
 * @param {Answer} answer
 */
export function explained(answer) {
  if (answer.error?.code === "wrong_passkey") answer.error.message = t("wrong_passkey");
  return answer;
}

/**
 * @param {() => Promise<Credential | null>} ask
 * @returns {Promise<Answer>}
 */
async function asked(ask) {
  const rest = { status: 0, meta: {}, etag: null };
  try {
    return { ...rest, ok: true, data: written(await ask()), error: null };
  } catch (error) {
    // Cancelled, or its time was over; the browser does not say which. InvalidStateError: it has one already.
    const isKnown = error instanceof DOMException && error.name === "InvalidStateError";
    const message = isKnown ? t("passkey_known") : t("passkey_cancelled");
    return { ...rest, ok: false, data: null, error: { code: "passkey_cancelled", message } };
  }
}

/**
 * @param {any} credential
 */
function written({ id, type, response }) {
  const names = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"];
  const fields = names.filter((name) => response[name]).map((name) => [name, text(response[name])]);
  return { id, rawId: id, type, response: Object.fromEntries(fields) };
}

/**
 * @param {string} base64url
 */
function bytes(base64url) {
  const base64 = base64url.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/**
 * @param {ArrayBuffer} buffer
 */
function text(buffer) {
  const base64 = btoa(String.fromCharCode(...new Uint8Array(buffer)));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
