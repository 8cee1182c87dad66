// Which lists the dashboard has.

/** The cards of lists, in their order; the first field of each is open at first. */
export const CARDS = [
  { name: "pages", title: "Pages", fields: ["pathname"] },
  { name: "sources", title: "Sources", fields: ["referrer", "utm_source", "utm_medium", "utm_campaign"] },
  { name: "places", title: "Places", fields: ["country", "language"] },
  { name: "browsers", title: "Browsers and devices", fields: ["browser", "os", "os_version", "device"] },
  { name: "apps", title: "Hostnames and apps", fields: ["hostname", "platform", "app_version"] },
];
