// What the pages of a website show in place of figures as long as it has never had an event.

import { get } from "../shared/api.js";
import { h } from "../shared/dom.js";
import { texts } from "../shared/messages.js";

const t = await texts("events");

/**
 * Resolves to a sentence with a link to the snippet; null where the website has events, or where that is unknown.
 *
 * @param {Website} website
 * @param {AbortSignal} [signal]
 */
export async function noSnippetYet({ id }, signal) {
  const answer = await get(`/api/account/websites/${id}`, { signal });
  if (!answer.ok || answer.data.events) return null;
  return t.rich("no_snippet_yet", { link: h("a", { href: `/websites/${id}` }, t("add_snippet_to_pages")) });
}
