// What filters name by an id: the segments and goals that a website's owner has saved. Loaded when a page first needs
// their names.

import { get } from "./api.js";

/**
 * Returns whether the pages of a board have segments and goals: share links have none, nor do pages that take other fields
 * alone.
 *
 * @param {{ site: Site, fields: string[] }} board
 */
export function takesSaved({ site, fields }) {
  return Boolean(site.website) && fields.includes("goal");
}

/**
 * Returns { saved(), load() } of a website. `saved` returns { segments, goals (names by id) }, empty until loaded; `load`
 * fetches them and returns the error, or null.
 *
 * @param {string} base
 * @param {AbortSignal} signal
 */
export function savedFilters(base, signal) {
  /** @type {SavedFilters} */
  let found = { segments: [], goals: {}, isLoaded: false };
  return {
    saved: () => found,
    async load() {
      const [segments, goals] = await Promise.all(
        ["segments", "goals"].map((name) => get(`${base}/${name}`, { signal })),
      );
      if (!segments.ok || !goals.ok) return segments.error || goals.error;
      const named = goals.data.map((/** @type {SavedGoal} */ { id, name }) => [id, name]);
      found = { segments: segments.data, goals: Object.fromEntries(named), isLoaded: true };
      return null;
    },
  };
}
