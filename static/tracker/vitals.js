// data-vitals: Core Web Vitals, one event per page, when the page is left or hidden for the first time.
// @ts-expect-error: the server serves web-vitals beside this file.
import { onCLS, onFCP, onINP, onLCP, onTTFB } from "./web-vitals.js";

export default (push, flush, dataset, here) => {
  let vitals = {},
    isSent = false;
  // Values belong to the page that was loaded, also after a single-page app has changed its page.
  const address = "hash" in dataset ? here() : performance.getEntriesByType("navigation")[0].name.split("#")[0];
  const loaded = address.slice(0, 9e3);

  const keep = ({ name, value }) => {
    vitals[name.toLowerCase()] = name === "CLS" ? Math.round(value * 1e4) / 1e4 : Math.round(value);
  };
  for (const watch of [onCLS, onFCP, onINP, onLCP, onTTFB]) watch(keep, { reportAllChanges: true });

  const send = () => {
    if (isSent || !Object.keys(vitals).length) return;
    isSent = true;
    push({ type: "vitals", vitals, url: loaded });
    flush(true);
  };
  // In the bubbling phase: web-vitals listens in the capturing phase and reports its last values first.
  addEventListener("visibilitychange", () => document.hidden && send());
  addEventListener("pagehide", send);
  // A page restored from the back/forward cache is measured again.
  addEventListener("pageshow", (event) => event.persisted && ((vitals = {}), (isSent = false)));
};
