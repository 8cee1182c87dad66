// The browser globals that modules of static/ read when they are loaded. Tests of pure modules need no more of a browser.
import { readFile } from "node:fs/promises";

globalThis.document = { querySelector: () => null };
globalThis.location = { origin: "https://stats.example.com", protocol: "https:", pathname: "/" };
Object.defineProperty(globalThis, "navigator", {
  value: { language: "en-US", languages: ["en-US"] },
  configurable: true,
});
// The server serves static/messages/LANGUAGE.json in parts: /assets/messages/LANGUAGE/PART.json.
globalThis.fetch = async (path) => {
  const [, language, part] = /^\/assets\/messages\/(\w+)\/(\w+)\.json$/.exec(path);
  const file = new URL(`../../static/messages/${language}.json`, import.meta.url);
  return Response.json(JSON.parse(await readFile(file, "utf-8"))[part]);
};
