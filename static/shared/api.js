// Talking to our own server. Nothing here throws on a refusal: every answer is one object
//   { ok, status, data, meta, error, etag }
// and `error.message` is a sentence to show. `error.code` is the server's, or "unreachable" (no answer came),
// "unreadable" (no JSON came) or "aborted" (the page that asked has gone: show nothing).

import { at } from "./paths.js";

const listeners = new Set();

/** Asks with GET. */
export function get(path, { signal, headers } = {}) {
  return request(path, { signal, headers: { Accept: "application/json", ...headers } });
}

/** Sends POST, PATCH or DELETE with a JSON body. */
export function send(method, path, body, { signal } = {}) {
  // Without a body there is none; what is sent is always JSON, which the server insists on.
  const headers = { "Content-Type": "application/json" };
  return request(path, { method, headers, body: JSON.stringify(body === undefined ? {} : body), signal });
}

/** Calls back when the server says that nobody is logged in; gives a function that ends it. */
export function onLoggedOut(call) {
  listeners.add(call);
  return () => listeners.delete(call);
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(at(path), { credentials: "same-origin", ...options });
  } catch {
    return options.signal?.aborted ? failure(0, "aborted", "") : failure(0, "unreachable", UNREACHABLE);
  }
  const read = await readBody(response, options.signal);
  if (response.status === 401 && read.error?.code === "not_logged_in") for (const call of listeners) call();
  return read;
}

const UNREACHABLE = "The server does not answer. Check the connection, then try again.";

async function readBody(response, signal) {
  const { status } = response;
  if (status === 204) return { ok: true, status, data: null, meta: {}, error: null, etag: null };
  let read;
  try {
    read = await response.json();
  } catch {
    if (signal?.aborted) return failure(0, "aborted", "");
    return failure(status, "unreadable", `The server answered ${status}, but not in a way that can be read here.`);
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
    error.message || `The server answered ${status}.`,
    error.field,
    retryAfter,
  );
}

function failure(status, code, message, field = null, retryAfter = 0) {
  return { ok: false, status, data: null, meta: {}, error: { code, message, field, retryAfter }, etag: null };
}
