// The browser globals that modules of static/ read when they are loaded. Tests of pure modules need no more of a browser.

globalThis.document = { querySelector: () => null };
globalThis.location = { origin: "https://stats.example.com", protocol: "https:", pathname: "/" };
Object.defineProperty(globalThis, "navigator", {
  value: { language: "en-US", languages: ["en-US"] },
  configurable: true,
});
