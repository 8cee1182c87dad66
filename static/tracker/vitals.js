// data-vitals: Core Web Vitals, one event a page, when it is left or hidden for the first time.
// @ts-expect-error: the server serves web-vitals beside this file.
import { onCLS, onFCP, onINP, onLCP, onTTFB } from "./web-vitals.js";

export default (push, flush, dataset, here) => {
  let vitals = {},
    isSent = false;
  // The figures are those of the page that was loaded, wherever a single-page app has gone since.
  const loaded = "hash" in dataset ? here() : performance.getEntriesByType("navigation")[0].name.split("#")[0];

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
  // Not while capturing, as web-vitals listens: it looks at its last figures first.
  addEventListener("visibilitychange", () => document.hidden && send());
  addEventListener("pagehide", send);
  // A page that comes back whole is measured anew.
  addEventListener("pageshow", (event) => event.persisted && ((vitals = {}), (isSent = false)));
};
