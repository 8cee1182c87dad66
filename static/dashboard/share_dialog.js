// The link by which anybody may look at a website's figures, made and taken back by its owner.

import { confirmDialog, copyButton, failureNotice, openDialog } from "../shared/dialog.js";
import { fill, h } from "../shared/dom.js";
import { send } from "../shared/api.js";
import { at } from "../shared/paths.js";

/** Opens the dialog. `website` is one of the session's; its `share` is kept up to date. */
export function shareDialog(website) {
  const body = h("div");
  const path = `/api/account/websites/${website.id}/share`;

  async function change(method, button) {
    button.disabled = true;
    const answer = await send(method, path);
    button.disabled = false;
    if (!answer.ok) return body.prepend(failureNotice("The link could not be changed.", answer.error));
    website.share = answer.data ? answer.data.share : null;
    return draw();
  }

  const agreed = () =>
    confirmDialog({
      title: "Make a new link?",
      words: "Whoever has the present one sees nothing any more.",
      action: "Make a new link",
      danger: true,
    });

  function draw() {
    const button = (words, kind, method) => {
      const one = h("button", { class: `button ${kind}`, type: "button" }, words);
      one.addEventListener("click", async () => {
        if (method !== "POST" || !website.share || (await agreed())) await change(method, one);
      });
      return one;
    };
    if (!website.share) {
      const words =
        "Whoever has the link sees this website's figures and single events, for any days and filters, without event data: no other website, no account, nothing to change. Search engines are told to stay away, and you can take the link back.";
      return fill(
        body,
        h("p", null, words),
        h("div", { class: "row end gap-above" }, button("Create link", "primary", "POST")),
      );
    }
    const link = new URL(at(website.share), location.origin).href + location.search;
    const field = h("input", { value: link, readonly: true, "aria-label": "The link", class: "mono" });
    field.addEventListener("focus", () => field.select());
    return fill(
      body,
      h("p", null, "Whoever has this link sees this website, at first with the days and filters chosen just now."),
      h("div", { class: "row gap-above" }, h("div", { class: "grow" }, field), copyButton(link, "Copy link")),
      h(
        "div",
        { class: "row apart gap-above" },
        h("a", { href: website.share, target: "_blank", rel: "noopener" }, "See it as others do"),
        h("div", { class: "row" }, button("New link", "", "POST"), button("Revoke link", "warning", "DELETE")),
      ),
    );
  }
  draw();
  openDialog({ title: `Share ${website.name || website.domain}`, body });
}
