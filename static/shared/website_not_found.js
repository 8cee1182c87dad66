// The page shown for a website that does not exist or belongs to another account.

import { fill, h } from "./dom.js";
import { texts } from "./messages.js";

const t = await texts("shared");

/**
 * Shows it in `root`.
 *
 * @param {HTMLElement} root
 * @param {Context} context
 * @returns {PageHandle}
 */
export function showWebsiteNotFound(root, context) {
  context.title(t("website_not_found"));
  fill(
    root,
    h(
      "div",
      { class: "empty" },
      h("h1", null, t("website_not_found")),
      h("p", null, t("website_not_found_why")),
      h("a", { class: "button primary", href: "/" }, t("go_to_websites")),
    ),
  );
  return {};
}
