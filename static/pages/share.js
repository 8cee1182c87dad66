// The dashboard of a website for whoever has its link: the same figures, nothing to change, no other website.

import { dashboard, noDashboard } from "../dashboard/page.js";
import { h, logo } from "../shared/dom.js";
import { get } from "../shared/api.js";

export async function show(root, context) {
  const base = `/api/share/${context.params.token}`;
  const answer = await get(base, { signal: context.signal });
  if (answer.error?.code === "aborted") return null;
  if (!answer.ok) {
    const isGone = answer.status === 404;
    const words = { message: "The link may be mistyped, or its owner has taken it back." };
    return noDashboard(
      root,
      isGone ? "This link shows nothing." : "This page cannot be shown.",
      isGone ? words : answer.error,
      isGone ? null : () => show(root, context),
    );
  }
  const { name, domain, time_zone: zone, demo } = answer.data;
  const home = h(
    "p",
    { class: "share-home small-text soft" },
    logo(),
    demo ? "Demo data, shared with Tally, read-only" : "Shared with Tally, read-only",
  );
  return dashboard(root, context, { base, name: name || domain, zone, home });
}
