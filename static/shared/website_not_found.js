// What stands in the place of a page about a website that is not there, or not this account's.

import { fill, h } from "./dom.js";

export function showWebsiteNotFound(root, context) {
  context.title("Not found");
  fill(
    root,
    h(
      "div",
      { class: "empty" },
      h("h1", null, "This website is not here"),
      h("p", null, "It was deleted, or it belongs to another account."),
      h("a", { class: "button primary", href: "/" }, "To the websites"),
    ),
  );
  return {};
}
