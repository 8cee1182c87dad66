// Loads the server's tracker into a page and calls its functions. Outside a browser, as while pages are rendered on a
// server, every function does nothing.

/** @type {Promise<boolean>} */
let loaded = Promise.resolve(false);

// What is called before the tracker is there waits in `q`, which the tracker reads: docs/tracker.md, Events.
const queue = () => {
  /** @type {any} */
  const page = window;
  return (page.tally ??= {
    /** @type {any[][]} */
    q: [],
    track(/** @type {any[]} */ ...given) {
      this.q.push(["track", ...given]);
    },
    convert(/** @type {any[]} */ ...given) {
      this.q.push(["convert", ...given]);
    },
    pageview() {
      this.q.push(["pageview"]);
    },
  });
};

/** @type {typeof import("./browser.d.ts").load} */
export function load({ url, websiteId, scriptPath = "/tracker.js", ...options }) {
  if (typeof document === "undefined") return loaded;
  const src = new URL(url.replace(/\/$/, "") + scriptPath, document.baseURI).href;
  if ([...document.scripts].some((one) => one.src === src && one.dataset.websiteId === websiteId)) return loaded;
  queue();
  const script = document.createElement("script");
  script.src = src;
  script.dataset.websiteId = websiteId;
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && value !== false) script.dataset[name] = value === true ? "" : String(value);
  }
  loaded = new Promise((work) => {
    script.onload = () => work(true);
    script.onerror = () => work(false);
  });
  document.head.append(script);
  return loaded;
}

/** @type {typeof import("./browser.d.ts").track} */
export function track(eventName, eventData) {
  if (typeof window !== "undefined") queue().track(eventName, eventData);
}

/** @type {typeof import("./browser.d.ts").pageview} */
export function pageview() {
  if (typeof window !== "undefined") queue().pageview?.();
}

/** @type {typeof import("./browser.d.ts").convert} */
export function convert(experiment, options) {
  if (typeof window !== "undefined") queue().convert(experiment, options);
}

/** @type {typeof import("./browser.d.ts").variant} */
export async function variant(experiment, variants) {
  await loaded;
  return (typeof window !== "undefined" && queue().variant?.(experiment, variants)) || variants[0];
}
