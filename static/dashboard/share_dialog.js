// The dialog that creates, replaces and revokes a website's share link.

import { confirmDialog, copyButton, failureNotice, openDialog } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { send } from "../shared/api.js";
import { texts } from "../shared/messages.js";
import { at } from "../shared/paths.js";

const t = await texts("dashboard_dialogs");

/**
 * Opens the dialog. `website` is one of the session's; its `share` is updated.
 *
 * @param {Website} website
 */
export function shareDialog(website) {
  const body = h("div");
  const path = `/api/account/websites/${website.id}/share`;

  /**
   * @param {string} method
   * @param {HTMLButtonElement} button
   */
  async function change(method, button) {
    button.disabled = true;
    const answer = await send(method, path);
    button.disabled = false;
    if (!answer.ok) return body.prepend(failureNotice(t("share_failed"), answer.error));
    website.share = answer.data ? answer.data.share : null;
    return draw();
  }

  const agreed = () =>
    confirmDialog({
      title: t("replace_share_link"),
      words: t("replace_means"),
      action: t("replace_link"),
      danger: true,
    });

  function draw() {
    const button = (/** @type {string} */ words, /** @type {string} */ kind, /** @type {string} */ method) => {
      const one = h("button", { class: `button ${kind}`, type: "button" }, words);
      one.addEventListener("click", async () => {
        if (method !== "POST" || !website.share || (await agreed())) await change(method, one);
      });
      return one;
    };
    if (!website.share) {
      return fill(
        body,
        h("p", null, t("share_link_means")),
        h("div", { class: "row end gap-above" }, button(t("create_link"), "primary", "POST")),
      );
    }
    const link = new URL(at(website.share), location.origin).href + location.search;
    const field = h("input", { value: link, readonly: true, "aria-label": t("share_link"), class: "mono" });
    field.addEventListener("focus", () => field.select());
    return fill(
      body,
      h("p", null, t("shared_state")),
      h("div", { class: "row gap-above" }, h("div", { class: "grow" }, field), copyButton(link, t("copy_link"))),
      h(
        "div",
        { class: "row apart gap-above" },
        h("a", { href: website.share, target: "_blank", rel: "noopener" }, t("open_shared_page")),
        h(
          "div",
          { class: "row" },
          button(t("replace_link"), "", "POST"),
          button(t("revoke_link"), "warning", "DELETE"),
        ),
      ),
    );
  }
  draw();
  openDialog({ title: t("share_website", { website: website.name || website.domain }), body });
}
