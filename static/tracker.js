// tracker/README.md
{
const safe = (work) => (...given) => {
	try {
		const made = work(...given);
		made?.catch?.(() => {});
		return made;
	} catch {}
};

safe(() => {
	const { dataset, src } = document.currentScript;
	const website_id = dataset.websiteId, tally = (window.tally ||= {});
	if (tally[website_id]) return;
	tally[website_id] = 1;

	const api = dataset.api || new URL("api/collect", src), own = `tally.${website_id}.`;
	const shelf = safe(() => localStorage)() || {}, tab = safe(() => sessionStorage)() || {};
	const context = navigator.maxTouchPoints > 1 && /Macintosh/.test(navigator.userAgent) ? { device: "tablet", os: "iOS" } : {};
	let queue = [], timer, later, last, flying = 0;
	let off = !/^http/.test(location) || shelf["tally.ignore"] || "respectGpc" in dataset && navigator.globalPrivacyControl;

	const on = (type, work) => addEventListener(type, safe(work), true);
	const part = safe(async (name) => (await import(src.replace(/\.js[^/]*$/, `/${name}.js`))).default(push, flush, dataset, here));
	const kept = () => Object.keys(shelf).filter((key) => key.startsWith(own) && (shelf[key] > Date.now() - 2592e5 || !delete shelf[key]));
	const here = () => {
		const { origin, pathname, hash, search } = location;
		return origin + ("hash" in dataset ? pathname.replace(/\/?$/, hash.replace(/^#?!?\/?/, "/")) : pathname) + search;
	};

	const push = safe((event) => {
		const key = own + JSON.stringify({ url: here(), ...event, event_id: crypto.getRandomValues(new Uint32Array(4)).join() });
		if (!off && key.length < 19e3) queue.push(key);
		timer ||= setTimeout(flush, 1e3);
	});

	const flush = safe((all) => {
		timer = 0;
		while (queue[0] && !document.prerendering) post(queue, all);
	});

	const post = safe(async (list, all) => {
		let keys = [], now = Date.now(), done, size = 0;
		while (list[0] && (size += list[0].length) < 19e3 && keys.length < 50) keys.push(list.shift());
		const events = keys.map((key) => ({ ...JSON.parse(key.slice(own.length)), timestamp: shelf[key] && +shelf[key] }));
		const body = JSON.stringify({ website_id, context, events });
		flying += body.length;
		if (keys[0] && !(shelf["tally.until"] > now) && navigator.onLine && flying < 21e3)
			if (all && !("keepalive" in Request.prototype)) done = navigator.sendBeacon(api, body);
			else try {
				const { status, headers } = await fetch(api, { method: "POST", credentials: "omit", keepalive: true, body });
				done = status != 429 && status < 500;
				done || (shelf["tally.until"] = Date.now() + headers.get("Retry-After") * 1e3);
			} catch {}
		flying -= body.length;
		for (const key of keys) done ? delete shelf[key] : kept().length < 500 && (shelf[key] ||= now);
		clearTimeout(later);
		later = setTimeout(resend, done ? 99 : 3e4);
		return new Promise((work) => setTimeout(work, 99, done));
	});

	const resend = safe(() => {
		if (!off && kept()[0]) return navigator.locks?.request(own, { ifAvailable: true }, async (all) => {
			while (all && !off && kept()[0]) all = await post(kept());
		}) || post(kept());
	});

	const view = safe(() => {
		if (/^#tally-(ignore|count)$/.test(location.hash)) part("choice", (off = 1));
		if (last != here()) push({ type: "pageview", referrer: last || document.referrer });
		last = here();
	});

	const track = (what) => ({ target }) => {
		const data = {}, node = target.closest(what);
		for (const { name, value } of node.attributes) if (/^data-track-/.test(name)) data[name.slice(11)] = value;
		tally.track(node.dataset.track, data);
	};

	tally.track = (event_name, event_data) => push({ type: "event", event_name, event_data });
	tally.convert = (experiment, data) => push({ variant: tab["tally." + experiment], ...data, type: "ab_convert", experiment });
	tally.variant = safe((experiment, variants) => {
		const key = "tally." + experiment;
		if (off) return variants[0];
		if (!variants.includes(tab[key]))
			push({ type: "ab_assign", experiment, variant: (tab[key] = variants[Math.random() * variants.length | 0]) });
		return tab[key];
	});

	const start = () => {
		view();
		for (const [name, ...given] of tally.q || []) tally[name](...given);
		for (const name of ["vitals", "heatmap", "links"]) name in dataset && part(name);
		resend();
	};

	for (const name of ["pushState", "replaceState"]) {
		const work = history[name];
		history[name] = (...given) => view(work.apply(history, given));
	}
	on("pageshow", (event) => event.persisted && push({ type: "pageview" }));
	on("popstate", view);
	on("online", resend);
	on("pagehide", flush);
	on("submit", track("form[data-track]"));
	on("click", track("[data-track]:not(form)"));
	on("visibilitychange", flush);
	on("prerenderingchange", start);
	document.prerendering || start();
})();
}
