// A program that uses the types of clients/js; tests/api/test_clients.py compiles it against the packed package.
import { CollectClient, ManageClient, ReadClient, TallyError, type Event, type Filters } from "tally-analytics-client";
import { convert, load, track, variant } from "tally-analytics-client/browser";

const url = "https://stats.example.com";
const websiteId = "c66653dc-e3f4-4325-a39f-da606931a543";

const collect = new CollectClient({ url, websiteId, context: { device: "tv" }, timeout: 5_000 });
const events: Event[] = [
  { type: "pageview", url: "https://example.com/", referrer: null },
  { type: "vitals", lcp: 1_840.5 },
];
const answer = await collect.send(events, { visitor: { address: "203.0.113.7", userAgent: undefined } });
const rejected: number = answer.rejected;
await collect.track("signup", { plan: "pro", seats: 3 }, { url: "https://example.com/" });
// @ts-expect-error: a pageview has a url.
await collect.send([{ type: "pageview" }]);
// @ts-expect-error: event_data is flat.
await collect.track("signup", { plan: { name: "pro" } });

const read = new ReadClient({ url, apiKey: "key" });
const filters: Filters = { country: ["DE", "AT"], "pathname^": "/docs", "prop.plan!": "free" };
const stats = await read.getStats(websiteId, { from: new Date(0), to: "2026-11-18", compare: "previous", filters });
const rate: number | null | undefined = stats.data.previous?.bounce_rate;
const pages: { value: string; visitors?: number }[] = (await read.getTop(websiteId, "pathname")).data;
const csv: string = await read.csv("getTimeseries", websiteId, { interval: "hour" });
// @ts-expect-error: an unknown interval.
await read.getTimeseries(websiteId, { interval: "year" });
// @ts-expect-error: a funnel has steps.
await read.getFunnel(websiteId);
// @ts-expect-error: there is no such field.
await read.getTop(websiteId, "colour");
// @ts-expect-error: there is no such filter.
await read.getStats(websiteId, { filters: { colour: "red" } });
// @ts-expect-error: it has no CSV.
await read.csv("getStats", websiteId);

const manage = new ManageClient({ url, apiKey: "key" });
const id: string = (await manage.createAnnotation(websiteId, { from: "2026-11-20", text: "Launch" })).data.id;
await manage.deleteAnnotation(websiteId, id);
// @ts-expect-error: a goal has filters.
await manage.createGoal(websiteId, { name: "Signup", type: "event" });

try {
  await read.listWebsites();
} catch (error) {
  if (error instanceof TallyError && error.isTemporary) console.log(error.status, error.code, error.retryAfter);
}

const runs: boolean = await load({ url, websiteId, links: "outbound", vitals: true, heatmap: 0.2 });
track("signup", { plan: "pro" });
const colour: "green" | "blue" = await variant("button", ["green", "blue"]);
convert("button", { goal: "order", value: 49.9 });
// @ts-expect-error: links are outbound, downloads or both.
await load({ url, websiteId, links: "all" });

export { colour, csv, pages, rate, rejected, runs };
