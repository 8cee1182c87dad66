// Requests to the server that the page came from. No function throws: every answer is one object
//   { ok, status, data, meta, error, etag }
// `error.message` is a sentence to show. `error.code` is the server's, or "unreachable" (no response), "unreadable" (the
// response is not JSON) or "aborted" (the page was left: show nothing).

import { chosenAccount, ofAccount } from "./account_choice.js";
import { reconnected } from "./connection.js";
import { texts } from "./messages.js";
import { at } from "./paths.js";

const t = await texts("shared");
const listeners = new Set();
// The last two: the header of a proxy was refused (docs/single-sign-on.md). The login shows the reason.
const SIGNED_OUT = ["not_logged_in", "bad_auth_header", "not_invited"];

/**
 * Sends a GET request. Without a connection it waits for it, below a banner, and is then sent once more.
 *
 * @param {string} path
 * @param {{ signal?: AbortSignal, headers?: Record<string, string> }} [options]
 * @returns {Promise<Answer>}
 */
export async function get(path, { signal, headers } = {}) {
  const options = { signal, headers: { Accept: "application/json", ...headers } };
  const answer = await request(path, options);
  if (!isLost(answer)) return answer;
  const left = new Promise((resolve) => signal?.addEventListener("abort", resolve));
  await Promise.race([left, reconnected(async () => !isLost(await request("/api/account/state", {})))]);
  return request(path, options);
}

/**
 * Returns whether the server was not reached: there was no response, or it is that of a proxy.
 *
 * @param {Answer} answer
 */
function isLost({ status, error }) {
  return error?.code === "unreachable" || (error?.code === "unreadable" && status > 501);
}

/**
 * Sends a POST, PATCH or DELETE request with a JSON body.
 *
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @param {{ signal?: AbortSignal, headers?: Record<string, string> }} [options]
 * @returns {Promise<Answer>}
 */
export function send(method, path, body, { signal, headers: more } = {}) {
  // The server requires the content type of JSON for each of these methods, also without a body.
  const headers = { "Content-Type": "application/json", ...more };
  return request(path, { method, headers, body: JSON.stringify(body === undefined ? {} : body), signal });
}

/**
 * Sends a request whose body is bytes.
 *
 * @param {string} method
 * @param {string} path
 * @param {Blob} bytes
 * @returns {Promise<Answer>}
 */
export function sendBytes(method, path, bytes) {
  return request(path, { method, headers: { "Content-Type": "application/octet-stream" }, body: bytes });
}

/**
 * Registers a function to call when the server answers not_logged_in; returns a function that removes it.
 *
 * @param {() => void} call
 */
export function onLoggedOut(call) {
  listeners.add(call);
  return () => listeners.delete(call);
}

/**
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<Answer>}
 */
async function request(path, options) {
  let response;
  try {
    response = await fetch(at(ofAccount(options.method || "GET", path, chosenAccount())), {
      credentials: "same-origin",
      ...options,
    });
  } catch {
    return options.signal?.aborted ? failure(0, "aborted", "") : failure(0, "unreachable", t("unreachable"));
  }
  const read = await readBody(response, options.signal);
  if (read.error && SIGNED_OUT.includes(read.error.code)) {
    read.error.code = "not_logged_in";
    for (const call of listeners) call();
  }
  return read;
}

/**
 * @param {Response} response
 * @param {AbortSignal | null | undefined} signal
 * @returns {Promise<Answer>}
 */
async function readBody(response, signal) {
  const { status } = response;
  if (status === 204) return { ok: true, status, data: null, meta: {}, error: null, etag: null };
  let read;
  try {
    read = await response.json();
  } catch {
    if (signal?.aborted) return failure(0, "aborted", "");
    return failure(status, "unreadable", t("unreadable", { status }));
  }
  if (response.ok) {
    return {
      ok: true,
      status,
      data: read.data,
      meta: read.meta || {},
      error: null,
      etag: response.headers.get("ETag"),
    };
  }
  const error = read.error || {};
  const retryAfter = Number(response.headers.get("Retry-After")) || 0;
  return failure(
    status,
    error.code || "unreadable",
    error.message || t("answered", { status }),
    error.field,
    retryAfter,
  );
}

/**
 * @param {number} status
 * @param {string} code
 * @param {string} message
 * @param {string | null} [field]
 * @param {number} [retryAfter]
 * @returns {Failure}
 */
function failure(status, code, message, field = null, retryAfter = 0) {
  return { ok: false, status, data: null, meta: {}, error: { code, message, field, retryAfter }, etag: null };
}
