// The collect API, the read API and the management API, for Node.js and other places with `fetch`. Pages use the tracker: browser.js.
//
// A request is sent again after no response, 429 and 5xx: after the time of Retry-After, otherwise after half a second,
// one, two and so on. Every event has an event_id, so that an event which is sent again counts once; ids that
// begin with the time are stored with the least writing.

import { MANAGEMENT, OPERATIONS } from "./operations.js";

/** @typedef {import("./index.d.ts").Visitor} Visitor */
/** @typedef {{ url: string, timeout: number, retries: number, maxWait: number }} Settings */

const LIMITS = { retries: 3, maxWait: 60_000 };

/** @implements {import("./index.d.ts").TallyError} */
export class TallyError extends Error {
  /**
   * @param {string} message
   * @param {Partial<import("./index.d.ts").TallyError>} [details]
   */
  constructor(message, { status = 0, code = "no_response", field, errors = [], retryAfter, cause } = {}) {
    super(status ? `${status} ${code}: ${message}` : message, { cause });
    this.name = "TallyError";
    this.status = status;
    this.code = code;
    this.field = field;
    this.errors = errors;
    this.retryAfter = retryAfter;
  }

  get isTemporary() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** @implements {import("./index.d.ts").CollectClient} */
export class CollectClient {
  #settings;
  #common;

  /** @param {import("./index.d.ts").CollectOptions} options */
  constructor({ websiteId, context, ...connection }) {
    this.#settings = { timeout: 10_000, ...LIMITS, ...connection };
    this.#common = { website_id: websiteId, context };
  }

  /**
   * @param {string} url
   * @param {Omit<import("./index.d.ts").EventOptions, "url">} [options]
   */
  pageview(url, { visitor, ...fields } = {}) {
    return this.send([{ type: "pageview", url, ...fields }], { visitor });
  }

  /**
   * @param {string} name
   * @param {Omit<import("./index.d.ts").EventOptions, "url">} [options]
   */
  screenView(name, { visitor, ...fields } = {}) {
    return this.send([{ type: "screen_view", name, ...fields }], { visitor });
  }

  /**
   * @param {string} eventName
   * @param {Record<string, string | number | boolean | null>} [eventData]
   * @param {import("./index.d.ts").EventOptions} [options]
   */
  track(eventName, eventData, { visitor, ...fields } = {}) {
    return this.send([{ type: "event", event_name: eventName, event_data: eventData, ...fields }], { visitor });
  }

  /**
   * @param {import("./schema.d.ts").Event[]} events
   * @param {{ visitor?: Visitor }} [options]
   * @returns {Promise<import("./schema.d.ts").CollectAnswer>}
   */
  async send(events, { visitor } = {}) {
    const named = events.map((event) => ({
      ...event,
      event_id: event.event_id || `${Date.now()}-${crypto.randomUUID()}`,
    }));
    const answer = await request(this.#settings, "/api/collect", {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headersOf(visitor) },
      body: JSON.stringify({ ...this.#common, events: named }),
    });
    return JSON.parse(answer);
  }
}

export class ReadClient {
  #settings;
  #headers;

  /** @param {import("./index.d.ts").Connection & { apiKey: string }} options */
  constructor({ apiKey, ...connection }) {
    this.#settings = { timeout: 30_000, ...LIMITS, ...connection };
    this.#headers = { Authorization: `Bearer ${apiKey}` };
    for (const name of /** @type {(keyof typeof OPERATIONS)[]} */ (Object.keys(OPERATIONS))) {
      /** @type {any} */ (this)[name] = async (/** @type {any[]} */ ...given) =>
        JSON.parse(await this.#read(name, given, {}));
    }
  }

  /**
   * @param {import("./schema.d.ts").CsvOperation} operation
   * @param {...any} given
   */
  csv(operation, ...given) {
    return this.#read(operation, given, { format: "csv" });
  }

  /**
   * Returns the text of a response. `given`: the parameters of the path in its order, then those of the query.
   *
   * @param {keyof typeof OPERATIONS} name
   * @param {any[]} given
   * @param {Record<string, string>} more
   */
  #read(name, given, more) {
    const rest = [...given];
    const path = OPERATIONS[name].replace(/{\w+}/g, () => encodeURIComponent(rest.shift()));
    const { filters = {}, ...parameters } = rest[0] ?? {};
    const query = new URLSearchParams(more);
    const add = (/** @type {string} */ key, /** @type {any} */ value) => {
      if (value !== undefined) query.append(key, value instanceof Date ? value.toISOString() : value);
    };
    for (const [key, value] of Object.entries(parameters)) {
      // A funnel's steps are a parameter each; other lists are one parameter.
      for (const one of key === "step" ? value : [value]) add(key, one);
    }
    for (const [key, value] of Object.entries(filters)) for (const one of [value].flat()) add(`filter_${key}`, one);
    return request(this.#settings, `${path}?${query}`, { headers: this.#headers });
  }
}

export class ManageClient {
  #settings;
  #headers;

  /** @param {import("./index.d.ts").Connection & { apiKey: string }} options */
  constructor({ apiKey, ...connection }) {
    this.#settings = { timeout: 30_000, ...LIMITS, ...connection };
    this.#headers = { Authorization: `Bearer ${apiKey}` };
    for (const [name, [method, pattern, kind]] of Object.entries(MANAGEMENT)) {
      /** @type {any} */ (this)[name] = (/** @type {any[]} */ ...given) => this.#send(method, pattern, kind, given);
    }
  }

  /**
   * Returns the JSON of a response, nothing where it has no content. `given`: the parameters in their order, then the body.
   *
   * @param {string} method
   * @param {string} pattern
   * @param {string} kind
   * @param {any[]} given
   */
  async #send(method, pattern, kind, given) {
    const rest = [...given];
    const path = pattern.replace(/{\w+}/g, () => encodeURIComponent(rest.shift()));
    /** @type {RequestInit} */
    const init = { method, headers: { ...this.#headers } };
    if (kind) {
      const type = kind === "bytes" ? "application/octet-stream" : "application/json";
      init.headers = { ...this.#headers, "Content-Type": type };
      init.body = kind === "bytes" ? rest[0] : JSON.stringify(kind === "empty" ? {} : rest[0]);
    }
    // After no response or 5xx a change may have been made.
    const canHelp = (/** @type {TallyError} */ error) => (method === "GET" ? error.isTemporary : error.status === 429);
    const text = await request(this.#settings, path, init, canHelp);
    return text ? JSON.parse(text) : undefined;
  }
}

/**
 * @param {Visitor} [visitor]
 * @returns {Record<string, string>}
 */
function headersOf({ address, userAgent, language } = {}) {
  const named = { "X-Forwarded-For": address, "User-Agent": userAgent, "Accept-Language": language };
  return /** @type {any} */ (Object.fromEntries(Object.entries(named).filter(([, value]) => value)));
}

/**
 * Returns the text of a response; sends the request again where that can help.
 *
 * @param {Settings} settings
 * @param {string} path
 * @param {RequestInit} init
 * @param {(error: TallyError) => boolean} canHelp
 */
async function request(settings, path, init, canHelp = (error) => error.isTemporary) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await requestOnce(settings, path, init);
    } catch (error) {
      if (!(error instanceof TallyError) || !canHelp(error) || attempt === settings.retries) throw error;
      const wait = error.retryAfter ?? 500 * 2 ** attempt;
      if (wait > settings.maxWait) throw error;
      await new Promise((work) => setTimeout(work, wait));
    }
  }
}

/**
 * @param {Settings} settings
 * @param {string} path
 * @param {RequestInit} init
 */
async function requestOnce({ url, timeout }, path, init) {
  const address = new URL(url.replace(/\/$/, "") + path);
  let response, text;
  try {
    response = await fetch(address, { ...init, signal: AbortSignal.timeout(timeout) });
    text = await response.text();
  } catch (error) {
    const { name, message, cause } = /** @type {any} */ (error);
    const why = name === "TimeoutError" ? `timeout after ${timeout} ms` : cause?.message || cause?.code || message;
    throw new TallyError(`no response from ${url}: ${why}`, { cause: error });
  }
  if (response.ok) return text;
  throw errorOf(response, text, url);
}

/**
 * Returns the error of a response, also of one that is not from the server, such as a proxy's page.
 *
 * @param {Response} response
 * @param {string} text
 * @param {string} url
 */
function errorOf(response, text, url) {
  const { status, headers } = response;
  const seconds = headers.get("Retry-After") ?? "";
  const retryAfter = /^\d+$/.test(seconds) ? Number(seconds) * 1000 : undefined;
  try {
    const { error, errors } = JSON.parse(text);
    return new TallyError(error.message, { status, code: error.code, field: error.field, errors, retryAfter });
  } catch {
    const words = `no answer of Tally from ${url}: ${response.statusText}`;
    return new TallyError(words, { status, code: "http_error", retryAfter });
  }
}
