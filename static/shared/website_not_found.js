// The page shown for a website that does not exist or belongs to another account.

import { fill, h } from "./dom.js";

/**
 * Shows it in `root`.
 *
 * @param {HTMLElement} root
 * @param {Context} context
 * @returns {PageHandle}
 */
export function showWebsiteNotFound(root, context) {
  context.title("Website not found");
  fill(
    root,
    h(
      "div",
      { class: "empty" },
      h("h1", null, "Website not found"),
      h("p", null, "It was deleted, or it belongs to another account."),
      h("a", { class: "button primary", href: "/" }, "Go to websites"),
    ),
  );
  return {};
}
