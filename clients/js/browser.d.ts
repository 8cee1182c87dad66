/** The attributes of the tracker's tag, without `data-`: docs/tracker.md describes them. */
export interface TrackerOptions {
  /** The server's address, such as https://stats.example.com. */
  url: string;
  websiteId: string;
  /** The tracker's path, where the server has another (`--script-path`). Default: /tracker.js. */
  scriptPath?: string;
  /** The full URL of the collect API, where it is not beside the script. */
  api?: string;
  /** Fragments are paths. */
  hash?: boolean;
  /** A change of the query counts as a pageview too. */
  query?: boolean;
  /** Counts clicks on links to other hosts, on files, or (true) both. */
  links?: boolean | "outbound" | "downloads";
  /** Measures web vitals. */
  vitals?: boolean;
  /** Sends clicks and scroll depth of this share of pageviews; true is 0.1. */
  heatmap?: boolean | number;
  /** Counts no visitor whose browser sends Global Privacy Control. */
  respectGpc?: boolean;
}

/**
 * Adds the tracker to the page, once. It counts pageviews, also when a single-page application changes the path.
 * Returns whether the tracker runs: false where a blocker or the page's policy stopped it, and outside a browser.
 */
export declare function load(options: TrackerOptions): Promise<boolean>;

/** Sends an event, with data if needed; lists and objects become JSON text. May be called before the tracker is there. */
export declare function track(eventName: string, eventData?: Record<string, unknown>): void;

/** Sends a pageview of the current address, whatever was counted before. May be called before the tracker is there. */
export declare function pageview(): void;

/** Sends a conversion of an experiment, for the variant chosen. May be called before the tracker is there. */
export declare function convert(
  experiment: string,
  options?: { goal?: string; value?: number; variant?: string },
): void;

/** Returns a random variant, kept for this tab; the first one where the tracker does not run. Call `load` before. */
export declare function variant<Name extends string>(experiment: string, variants: Name[]): Promise<Name>;
