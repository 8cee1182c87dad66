// The dialog of a website's share links, whose addresses open the dashboard in the present range with its filters.

import { shareLinks } from "../account/share_links.js";
import { openDialog } from "../shared/dialog.js";
import { loadStylesheet } from "../shared/dom.js";
import { texts } from "../shared/messages.js";

const t = await texts("sharing");
await loadStylesheet("/assets/account/account.css");

/**
 * Opens the dialog. `website` is one of the session's; its `share_links` are updated.
 *
 * @param {Website} website
 */
export function shareDialog(website) {
  const links = shareLinks({
    ...{ website, query: location.search },
    changed: (now) => void (website.share_links = now),
  });
  openDialog({ title: t("share_website", { website: website.name || website.domain }), body: links, wide: true });
}
