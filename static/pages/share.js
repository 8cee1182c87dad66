// The dashboard of a website for anyone who has its share link (/share/{token}): read-only. Pages of other origins may
// show it in a frame; a link may require a password first.

import { DASHBOARD } from "../dashboard/dashboard.js";
import { failureNotice } from "../shared/dialog.js";
import { h, loadStylesheet, logo, refill } from "../shared/dom.js";
import { entrance } from "../shared/entrance.js";
import { get, send } from "../shared/api.js";
import { form, passwordField } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { themePicker } from "../shared/theme_picker.js";
import { websitePage } from "../shared/website_page.js";

const t = await texts("share");
const shared = await texts("shared");

/**
 * @param {HTMLElement} root
 * @param {Context} context
 * @returns {Promise<PageHandle | null>}
 */
export async function show(root, context) {
  const base = `/api/share/${context.params.token}`;
  let answer = await get(base, { signal: context.signal });
  for (let tries = 0; answer.error?.code === "share_password_required"; tries++) {
    await unlocked(root, context, base, tries > 0);
    answer = await get(base, { signal: context.signal });
  }
  if (answer.error?.code === "aborted") return null;
  if (!answer.ok) {
    const isGone = answer.status === 404;
    const notice = isGone
      ? failureNotice(t("share_link_invalid"), { message: t("share_link_revoked") })
      : failureNotice(shared("page_failed"), answer.error, () => show(root, context));
    refill(root, h("div", { class: "page narrow" }, notice));
    return null;
  }
  const { name, domain, time_zone: zone, day_offset_minutes: dayOffset, demo, filters } = answer.data;
  const words = demo ? t("demo_shared_with_tally") : t("shared_with_tally");
  const home = h("p", { class: "share-home small-text soft" }, logo(), words);
  const banner = h("div", { class: "share-head" }, home, h("div", { class: "no-print" }, themePicker()));
  return websitePage(root, context, DASHBOARD, {
    base,
    domain,
    name: name || domain,
    zone,
    dayOffset,
    banner,
    filters,
    hidesEvents: answer.data.hides_events,
  });
}

/**
 * Shows the form for the link's password until the server has accepted it, or the page is left.
 *
 * @param {HTMLElement} root
 * @param {Context} context
 * @param {string} base
 * @param {boolean} isAgain
 * @returns {Promise<void>}
 */
async function unlocked(root, context, base, isAgain) {
  await loadStylesheet("/assets/account/account.css");
  context.title(t("password"));
  return new Promise((resolve) => {
    context.signal.addEventListener("abort", () => resolve());
    const password = passwordField({
      label: t("password"),
      name: "password",
      autocomplete: "current-password",
      missing: t("enter_password"),
    });
    const made = form({
      fields: [password],
      action: t("view_statistics"),
      busy: t("checking"),
      wide: true,
      submit: async (values) => {
        const answer = await send("POST", `${base}/password`, values, { signal: context.signal });
        if (!answer.ok) return answer;
        resolve();
        return null;
      },
    });
    const card = h("div", { class: "card roomy" }, h("h1", null, t("password_required")), made.element);
    refill(root, entrance(card));
    made.focus();
    if (isAgain) {
      made.fail({ code: "", message: t("access_not_kept") });
    }
  });
}
