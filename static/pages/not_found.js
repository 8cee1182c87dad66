// The page of an address that has none: in the frame for who is signed in, alone for others.

import { fill, h } from "../shared/dom.js";
import { texts } from "../shared/messages.js";

const t = await texts("not_found");
const shared = await texts("shared");

/**
 * @param {HTMLElement} root
 * @param {Context} context
 */
export async function show(root, context) {
  context.title(t("page_not_found"));
  fill(
    root,
    h(
      "div",
      { class: "page" },
      h(
        "div",
        { class: "empty" },
        h("h1", null, t("page_not_found")),
        h("p", null, t("page_not_found_why")),
        h("a", { class: "button primary", href: "/" }, shared("go_to_websites")),
      ),
    ),
  );
}
