// The dialog that creates, replaces and revokes a website's share link.

import { confirmDialog, copyButton, failureNotice, openDialog } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { send } from "../shared/api.js";
import { at } from "../shared/paths.js";

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
    if (!answer.ok) return body.prepend(failureNotice("The share link could not be changed.", answer.error));
    website.share = answer.data ? answer.data.share : null;
    return draw();
  }

  const agreed = () =>
    confirmDialog({
      title: "Replace share link?",
      words: "The current link stops working at once.",
      action: "Replace link",
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
      const words =
        "Anyone with the link can view this website's dashboard and recent events, for any days and filters, without event data. They cannot see other websites or change anything. Search engines are asked not to index the page. You can revoke the link at any time.";
      return fill(
        body,
        h("p", null, words),
        h("div", { class: "row end gap-above" }, button("Create link", "primary", "POST")),
      );
    }
    const link = new URL(at(website.share), location.origin).href + location.search;
    const field = h("input", { value: link, readonly: true, "aria-label": "Share link", class: "mono" });
    field.addEventListener("focus", () => field.select());
    return fill(
      body,
      h(
        "p",
        null,
        "Anyone with this link can view the dashboard. It opens with the days and filters that are selected now.",
      ),
      h("div", { class: "row gap-above" }, h("div", { class: "grow" }, field), copyButton(link, "Copy link")),
      h(
        "div",
        { class: "row apart gap-above" },
        h("a", { href: website.share, target: "_blank", rel: "noopener" }, "Open shared page"),
        h("div", { class: "row" }, button("Replace link", "", "POST"), button("Revoke link", "warning", "DELETE")),
      ),
    );
  }
  draw();
  openDialog({ title: `Share ${website.name || website.domain}`, body });
}
