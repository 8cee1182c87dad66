// The dashboard of a website for anyone who has its share link (/share/{token}): read-only.

import { DASHBOARD } from "../dashboard/dashboard.js";
import { failureNotice } from "../shared/dialog.js";
import { h, logo, refill } from "../shared/dom.js";
import { get } from "../shared/api.js";
import { websitePage } from "../shared/website_page.js";

/**
 * @param {HTMLElement} root
 * @param {Context} context
 * @returns {Promise<PageHandle | null>}
 */
export async function show(root, context) {
  const base = `/api/share/${context.params.token}`;
  const answer = await get(base, { signal: context.signal });
  if (answer.error?.code === "aborted") return null;
  if (!answer.ok) {
    const isGone = answer.status === 404;
    const notice = isGone
      ? failureNotice("This share link is not valid.", { message: "It may be mistyped, or its owner has revoked it." })
      : failureNotice("This page cannot be shown.", answer.error, () => show(root, context));
    refill(root, h("div", { class: "page narrow" }, notice));
    return null;
  }
  const { name, domain, time_zone: zone, demo } = answer.data;
  const words = demo ? "Demo data, shared with Tally, read-only" : "Shared with Tally, read-only";
  const banner = h("p", { class: "share-home small-text soft" }, logo(), words);
  return websitePage(root, context, DASHBOARD, { base, name: name || domain, zone, banner });
}
