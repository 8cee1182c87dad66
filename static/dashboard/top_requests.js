// Top lists that are requested at the same time, for the same range and filters, share one request, for which the
// server reads events once.

import { get } from "../shared/api.js";

/**
 * Returns load(field, query, signal), which resolves to the answer that the report of the field's top list gives. The
 * request is aborted when all its signals are aborted.
 *
 * @param {string} base
 * @returns {(field: string, query: string, signal: AbortSignal) => Promise<Answer>}
 */
export function topRequests(base) {
  /** @typedef {{ fields: Set<string>, signals: AbortSignal[], answer: Promise<Answer> }} Group */
  /** @type {Map<string, Group>} */
  const groups = new Map();

  /** @param {string} query */
  function begin(query) {
    const abort = new AbortController();
    /** @type {Group} */
    const group = {
      fields: new Set(),
      signals: [],
      // Sent after all cards have called.
      answer: Promise.resolve().then(() => {
        groups.delete(query);
        const end = () => group.signals.every(({ aborted }) => aborted) && abort.abort();
        end();
        for (const signal of group.signals) signal.addEventListener("abort", end);
        return get(`${base}/top?fields=${[...group.fields].join(",")}&${query}`, { signal: abort.signal });
      }),
    };
    groups.set(query, group);
    return group;
  }

  return async (field, query, signal) => {
    const group = groups.get(query) ?? begin(query);
    group.fields.add(field);
    group.signals.push(signal);
    const answer = await group.answer;
    if (!answer.ok) return answer;
    const { data, ...meta } = answer.data.find((/** @type {{ field: string }} */ list) => list.field === field);
    return { ...answer, data, meta: { ...answer.meta, ...meta } };
  };
}
