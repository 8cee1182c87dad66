import type {
  CollectAnswer,
  Context,
  CsvOperation,
  Event,
  EventError,
  ManageOperations,
  ReadOperations,
} from "./schema.js";

export type * from "./schema.js";

export interface Connection {
  /** The server's address, such as https://stats.example.com. */
  url: string;
  /** How long one attempt may take, in milliseconds. Default: 10,000; of ReadClient 30,000. */
  timeout?: number;
  /** How often a request is sent again after no response, 429 and 5xx. Default: 3. */
  retries?: number;
  /** A longer Retry-After, in milliseconds, is not waited for. Default: 60,000. */
  maxWait?: number;
}

/** An error response, or none: `status` is then 0 and `code` is no_response. */
export declare class TallyError extends Error {
  status: number;
  code: string;
  /** The field or parameter at fault. */
  field?: string;
  /** The events that were rejected. */
  errors: EventError[];
  /** The time after which a request may succeed, in milliseconds. */
  retryAfter?: number;
  /** Whether the same request may succeed later. */
  isTemporary: boolean;
}

/**
 * Who sent the request to your server, as its headers say. `address` has an effect only where the server trusts yours as
 * a proxy (`--trusted-proxy`). Without an address all visitors with the same User-Agent are one; `session_id` of an event
 * then tells them apart.
 */
export interface Visitor {
  address?: string | null;
  userAgent?: string | null;
  language?: string | null;
}

export interface CollectOptions extends Connection {
  websiteId: string;
  /** Sets these fields in every event that does not have them. */
  context?: Context;
}

export interface EventOptions {
  url?: string;
  referrer?: string | null;
  session_id?: string;
  visitor?: Visitor;
}

/** Sends the events of one website from a server or an app. Promises resolve when the events are on the server's disk. */
export declare class CollectClient {
  constructor(options: CollectOptions);
  pageview(url: string, options?: Omit<EventOptions, "url">): Promise<CollectAnswer>;
  screenView(name: string, options?: Omit<EventOptions, "url">): Promise<CollectAnswer>;
  track(
    eventName: string,
    eventData?: Record<string, string | number | boolean | null>,
    options?: EventOptions,
  ): Promise<CollectAnswer>;
  /**
   * Sends 1 to 50 events of any type, all of the same visitor if one is given. The answer counts the events that were
   * accepted and lists those that were rejected; if all were, and for every other error, it throws TallyError.
   */
  send(events: Event[], options?: { visitor?: Visitor }): Promise<CollectAnswer>;
}

/** Reads statistics, with an API key. The arguments are the parameters of the API. */
export interface ReadClient extends ReadOperations {}
export declare class ReadClient {
  constructor(options: Connection & { apiKey: string });
  /** Returns an answer as CSV: client.csv("getTimeseries", websiteId, { period: "30d" }). */
  csv<Name extends CsvOperation>(operation: Name, ...given: Parameters<ReadOperations[Name]>): Promise<string>;
}

/** Changes websites and imports files, with an API key that has the scope `manage` or `import`. */
export interface ManageClient extends ManageOperations {}
export declare class ManageClient {
  constructor(options: Connection & { apiKey: string });
}
