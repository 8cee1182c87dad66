// How it works as a whole: tracker/README.md. The server removes comments and spaces from this file (tally/web/minifier.py).
{
  // Errors of the tracker, also in promises, never reach the page.
  const safe =
    (work) =>
    (...given) => {
      try {
        const made = work(...given);
        made?.catch?.(() => {});
        return made;
      } catch {}
    };

  safe(() => {
    // document.currentScript is null in modules; the first URL of a stack is the script's own, in WebKit without its query.
    const trace = (/\w+:\/\/\S+(?=:\d+:\d)/.exec(Error().stack) || location) + "";
    /** @type {any} */
    const script = document.currentScript ||
      [...document.scripts].find((one) => one.src.startsWith(trace)) || { dataset: {} };
    const dataset = script.dataset;
    const source = script.src || trace;
    const website_id = dataset.websiteId || /[?&]id=([^&#]*)/.exec(source)?.[1];
    const tally = (window.tally ||= {});
    if (tally[website_id]) return;
    tally[website_id] = 1;

    const api = dataset.api || new URL("api/collect", source);
    const own = `tally.${website_id}.`;
    const tab = safe(() => sessionStorage)() || {};
    // An iPad identifies itself as a Mac; only the browser can tell them apart.
    const context =
      navigator.maxTouchPoints > 1 && /Macintosh/.test(navigator.userAgent) ? { device: "tablet", os: "iOS" } : {};
    const queue = [];
    let shelf = safe(() => localStorage)() || {};
    let flight = [];
    let timer;
    let later;
    let last;
    let count = 1e5;
    let warned;
    // Pages without a host (file:, about:, data:) are not counted.
    /** @type {any} */
    let off = !location.host || shelf["tally.ignore"] || ("respectGpc" in dataset && navigator.globalPrivacyControl);
    // compat: off ||= "off" in dataset;

    const on = (type, work) => addEventListener(type, safe(work), 1);
    const part = safe(async (name) =>
      (await import(source.replace(/\.js(\?.*)?$/, `/${name}.js`))).default(add, flush, dataset, here),
    );
    // The time of an event: its key has {"event_id":" and then the time, up to a point.
    const timeOf = (key) => parseInt(key.slice(own.length + 13));
    // What is stored, the oldest first; older than 72 hours is deleted.
    const stored = () =>
      Object.keys(shelf)
        .filter((key) => key.startsWith(own) && (timeOf(key) > Date.now() - 2592e5 || !delete shelf[key]))
        .sort();
    const kept = () => stored().filter((key) => !flight.includes(key));
    // Not location.origin, which some browsers give as "null" for schemes such as capacitor:.
    const here = () =>
      "hash" in dataset ? location.href.replace(/\/?(\?[^#]*)?(#!?\/?(.*))?$/, "/$3$1") : location.href.split("#")[0];

    const add = safe((given) => {
      // compat: if ("manual" in dataset && given.type == "pageview" && !given.url) return;
      // Ids that begin with the time are stored with the least writing; then comes the order of a page's events.
      const event_id = Date.now() + "." + count++ + Math.random();
      // @ts-expect-error: it comes first in the key, whatever is given.
      const key = own + JSON.stringify({ event_id, url: here(), ...given, event_id }); // eslint-disable-line no-dupe-keys
      if (!off && key.length < 19e3) queue.push(key);
      timer ||= setTimeout(flush, 1e3);
    });

    // At most 500 events wait; where the storage is full, those that do not fit wait in memory.
    const store = (batch) => {
      let free = 500 - stored().length;
      for (const key of batch)
        if (!shelf[key] && free-- > 0)
          try {
            shelf[key] = 1;
          } catch {
            shelf = { [key]: 1 };
          }
    };

    const drop = (batch) => batch.map((key) => delete shelf[key]);

    // leaving: the page may be gone before an answer arrives, so all that is on its way is stored too.
    const flush = safe((leaving) => {
      timer = 0;
      if (document.prerendering) return;
      if ((off ||= shelf["tally.ignore"])) drop(stored());
      else if (leaving) {
        while (queue[0]) post(queue);
        store(flight);
      }
      // @ts-expect-error: 1 stands for true.
      else return (kept()[0] && navigator.locks?.request(own, { ifAvailable: 1 }, send)) || send(!navigator.locks);
    });

    // With the lock, or where there are none, also what is stored; one tab at a time. After a failure the rest is stored.
    const send = async (lock) => {
      let list;
      while (!off && (list = lock ? [...queue, ...kept()] : queue)[0] && (await post(list)))
        await new Promise((work) => setTimeout(work, 99));
      off || store(queue.splice(0));
    };

    // Sends the first events of a list that begins with the queue; whether they are done with.
    const post = safe(async (list) => {
      let size = 0;
      /** @type {any} */
      let done = 0;
      /** @type {any} */
      let answer;
      const batch = list.filter((key, at) => at < 50 && (size += key.length) < 19e3);
      queue.splice(0, batch.length);
      flight.push(...batch);
      if (!(shelf["tally.until"] > Date.now())) {
        answer = await fetch(api, {
          method: "POST",
          credentials: "omit",
          // @ts-expect-error: 1 stands for true.
          keepalive: 1,
          body: JSON.stringify({
            website_id,
            context,
            events: batch.map((key) => ({
              ...JSON.parse(key.slice(own.length)),
              timestamp: shelf[key] && timeOf(key),
            })),
          }),
        }).catch(() => 0);
        done = answer.status < 500 && answer.status != 429;
        // Once a page, and only if the first answer is a refusal that stays.
        warned ||=
          answer.status == 202 ||
          answer.status > 428 ||
          // @ts-expect-error: console.warn returns undefined.
          !console.warn(
            `Tally: ${answer.status || "no answer"} from ${api}; see data-website-id, data-api, allowed origins`,
          );
      }
      flight = flight.filter((key) => !batch.includes(key));
      if (done || off) drop(batch);
      else store(batch);
      clearTimeout(later);
      later = setTimeout(flush, 3e4);
      if (answer && !done) shelf["tally.until"] = Date.now() + answer.headers.get("Retry-After") * 1e3;
      return done;
    });

    const view = safe(() => {
      if (/^#tally-(ignore|count)$/.test(location.hash)) part("choice", (off = 1));
      if (last != here()) add({ type: "pageview", referrer: last || document.referrer });
      last = here();
    });

    const track =
      (what) =>
      ({ target }) => {
        const data = {};
        const node = target.closest(what);
        for (const { name, value } of node.attributes) if (/^data-track-/.test(name)) data[name.slice(11)] = value;
        tally.track(node.dataset.track, data);
      };

    // compat: tally.add = add;
    tally.track = (event_name, event_data) => add({ type: "event", event_name, event_data });
    tally.convert = (experiment, data) =>
      add({ variant: tab["tally." + experiment], ...data, type: "ab_convert", experiment });
    tally.variant = safe((experiment, variants) => {
      const key = "tally." + experiment;
      if (off) return variants[0];
      if (!variants.includes(tab[key]))
        add({ type: "ab_assign", experiment, variant: (tab[key] = variants[(Math.random() * variants.length) | 0]) });
      return tab[key];
    });

    const start = () => {
      view();
      for (const [name, ...given] of tally.q || []) tally[name](...given);
      for (const name of ["vitals", "heatmap", "links"]) name in dataset && part(name);
    };

    for (const name of ["pushState", "replaceState"]) {
      const work = history[name];
      history[name] = (...given) => view(work.apply(history, given));
    }
    window.navigation?.addEventListener("currententrychange", view);
    on("popstate", view);
    on("pageshow", (event) => event.persisted && add({ type: "pageview" }));
    on("online", () => flush());
    on("pagehide", flush);
    on("visibilitychange", () => flush(document.hidden));
    on("submit", track("form[data-track]"));
    on("click", track("[data-track]:not(form)"));
    on("prerenderingchange", start);
    document.prerendering || start();
  })();
}
