// Precedes the tracker where it is served under the names of other systems' scripts: /script.js (Umami),
// /js/script.js (Plausible), /count.js (GoatCounter). Reads their attributes and offers their functions.
(() => {
  /** @type {any} */
  const script =
    document.currentScript ||
    document.querySelector("script[data-website-id],script[data-domain],script[data-goatcounter]");
  if (!script) return;
  /** @type {any} */
  const page = window;
  const { dataset } = script;
  const file = script.src.split("/").pop();
  const goat = dataset.goatcounter;
  const isUmami = !!dataset.websiteId;
  const isGoat = goat !== undefined || /^count\.js/.test(file);
  const isPlausible = !isUmami && !isGoat;
  const tally = (page.tally ||= {});
  const before = page.plausible || {};
  const own = before.o || {};
  const counter = page.goatcounter || {};

  const set = (attribute, isSet, value = "") => {
    if (isSet) dataset[attribute] = value;
  };
  const stored = (key) => {
    try {
      return localStorage[key];
    } catch {}
  };
  // Before the tracker has started, events wait in its queue.
  const send = (event) => {
    if (tally.add) tally.add(event);
    else (tally.q ||= []).push(["add", event]);
  };
  const tag = isUmami && dataset.tag ? { tag: dataset.tag } : {};
  const sendEvent = (event_name, values) => send({ type: "event", event_name, event_data: { ...tag, ...values } });
  const sendView = (url) => send({ type: "pageview", url: new URL(url || location.href, location.href).href });

  const isLocal = /^(localhost|127\.[\d.]+|\[::1\])$/.test(location.hostname);
  set("off", isUmami && stored("umami.disabled"));
  set("off", isUmami && dataset.domains && !dataset.domains.split(/\s*,\s*/).includes(location.hostname));
  set("off", isUmami && dataset.doNotTrack === "true" && navigator.doNotTrack === "1");
  set("off", isPlausible && (stored("plausible_ignore") === "true" || (isLocal && !/local/.test(file))));
  set("off", isGoat && (stored("skipgc") === "t" || (isLocal && !counter.allow_local)));
  set("off", isGoat && window !== parent && !counter.allow_frame);
  set("manual", isUmami && dataset.autoTrack === "false");
  set("manual", isPlausible && (/manual/.test(file) || own.autoCapturePageviews === false));
  set("manual", isGoat && counter.no_onload);
  set("hash", isPlausible && (/hash/.test(file) || own.hashBasedRouting));
  set("links", isPlausible && /outbound|downloads/.test(file), file);
  set("vitals", isUmami && dataset.performance === "true");
  set("api", isUmami && dataset.hostUrl, `${(dataset.hostUrl || "").replace(/\/$/, "")}/api/send`);
  set("api", goat, goat);
  const domain = (dataset.domain || own.domain || "").split(",")[0].trim();
  set("websiteId", !isUmami, domain || (/\/count\/([^/?]+)/.exec(goat || "") || [])[1] || location.hostname);

  if (isPlausible) {
    page.plausible = (name, options) => {
      const { props, revenue, callback, u, url } = options || {};
      const money = revenue ? { value: Number(revenue.amount), currency: revenue.currency } : {};
      if (name === "pageview") sendView(u || url);
      else sendEvent(name, { ...props, ...money });
      if (callback) callback({ status: 202 });
    };
    page.plausible.init = () => {};
    for (const given of before.q || []) page.plausible(...given);
  } else if (isUmami) {
    const track = async (what, values) => {
      const given = typeof what === "function" ? what({ url: location.href }) : what;
      // A function returns nothing for what is not to be counted.
      if (typeof what === "function" && !given) return;
      if (typeof given === "string") sendEvent(given, values);
      else if (given && given.name) sendEvent(given.name, given.data);
      else sendView(given && given.url);
    };
    page.umami ||= { track, identify: async () => {} };
  } else {
    const count = (vars) => {
      const { path, event } = vars || {};
      const given = typeof path === "function" ? path(location.pathname + location.search) : path;
      if (given === null) return;
      if (event) sendEvent(given, {});
      else sendView(given && `/${given.replace(/^\/+/, "")}`);
    };
    page.goatcounter = { ...counter, count, bind_events: () => {} };
  }

  const act = (event) => {
    // Of the window, the document and shadow roots in the path of an event, none has matches().
    const tagged = "[data-umami-event],[data-goatcounter-click],[class*=plausible-event-name]";
    const node = event.composedPath().find((one) => one.matches?.(tagged));
    // Plausible counts a form when it is submitted, and no clicks in it.
    if (!node || (isPlausible && (node.tagName === "FORM") !== (event.type === "submit"))) return;
    const values = {};
    let name = node.dataset.umamiEvent || node.dataset.goatcounterClick;
    for (const attribute of node.attributes) {
      if (/^data-umami-event-/.test(attribute.name)) values[attribute.name.slice(17)] = attribute.value;
    }
    for (const one of node.classList) {
      const found = /^plausible-event-(.+?)(?:=|--)(.+)/.exec(one);
      const value = found && found[2].replace(/\+/g, " ");
      if (found && found[1] === "name") name = value;
      else if (found) values[found[1]] = value;
    }
    if (name) sendEvent(name, values);
  };
  addEventListener("click", act, true);
  if (isPlausible) addEventListener("submit", act, true);
})();
