// Types of the pages, for the type checker alone (tests/js): what the server answers, and what modules pass to each
// other. Declared globally, so that JSDoc can name them without imports. Not served.

// ---------------------------------------------------------------- answers of the server

/** The error of an answer. `message` is a sentence to show; `retryAfter` is in seconds, 0 where unknown. */
interface ApiError {
  code: string;
  message: string;
  field?: string | null;
  retryAfter?: number;
  /** Show it although the session has ended. */
  stay?: boolean;
}

interface Success<T, M> {
  ok: true;
  status: number;
  data: T;
  meta: M;
  error: null;
  etag: string | null;
  [more: string]: any;
}

interface Failure {
  ok: false;
  status: number;
  data: null;
  meta: Record<string, never>;
  error: ApiError;
  etag: null;
  [more: string]: any;
}

/** What shared/api.js returns. `data` and `meta` are the body's. */
type Answer<T = any, M = any> = Success<T, M> | Failure;

type Role = "owner" | "admin" | "editor" | "viewer";

interface Account {
  id: number;
  name: string;
  /** How many people are members. */
  people: number;
  /** All accounts of the person. */
  accounts: { id: number; name: string; role: Role }[];
  role: Role;
  email: string;
  plan: "free" | "pro" | "business";
  has_keys: boolean;
  events_this_month: number;
  events_limit: number | null;
  usage_warning: number | null;
  month_ends_at: string;
  time_zone: string | null;
  base_url: string;
  version: string;
  demo: boolean;
  disk_is_low: boolean;
  /** "header": a proxy signs the person in; "oidc": an OpenID provider has begun the session. */
  signed_in_by: "session" | "header" | "oidc";
  /** Where the pages go after logging out, to end the session of that proxy or provider. */
  logout_url: string | null;
  password_login: boolean;
  /** The text of the button of single sign-on, empty for that of the pages; null without. */
  single_sign_on: { name: string } | null;
  requires_second_factor: boolean;
  /** Null without one. */
  second_factor: { recovery_codes: number } | null;
  /** How many the person has. */
  passkeys: number;
}

interface Person {
  id: number;
  email: string;
  role: string;
  websites: string[] | null;
  last_seen: string | null;
  is_you: boolean;
}

interface Invitation {
  id: string;
  email: string;
  role: string;
  expires_at: string;
}

/** The section People: what an invitation has made, and the lists below it. */
interface PeopleSection {
  context: Context;
  made: HTMLElement;
  rest: HTMLElement;
}

interface Channel {
  id: string;
  kind: string;
  name: string;
  paused_at: string | null;
  failing_since: string | null;
  last_error: string | null;
  last_error_code: string | null;
  /** Shown to owners alone. */
  host: string | null;
  quiet: { from: string; to: string; time_zone: string } | null;
  /** Null for an address whose owner has not agreed yet, or has unsubscribed. */
  confirmed_at: string | null;
  /** The key of a webhook, and the path of a feed; only in the answer that makes it. */
  secret?: string;
  path?: string;
}

/** An alert, with the fields of its kind. */
interface Alert {
  id: string;
  kind: string;
  factor?: number;
  sensitive?: boolean;
  min_visits?: number | null;
  hours?: number | null;
  goal?: string;
  period?: string;
  min?: number;
  channels: string[] | null;
  state: "ok" | "firing";
  since: string;
  result: string;
  snoozed_until: string | null;
}

/** The card of a website's alerts, and what its dialogs choose among. */
interface AlertsCard {
  path: string;
  zone: string;
  body: HTMLElement;
  channels: Channel[];
  goals: SavedGoal[];
  load: () => Promise<void>;
}

interface Notice {
  number: number;
  channel: string;
  title: string;
  created_at: string;
  state: string;
  last_error: string | null;
  last_error_code: string | null;
}

interface Report {
  id: string;
  websites: string[] | null;
  period: string;
  channels: string[];
  /** Of a report of one website. */
  filters: string[];
  next_at: string;
}

interface NotificationsSection {
  context: Context;
  /** Whether the server sends mail. */
  hasMail: boolean;
  made: HTMLElement;
  rest: HTMLElement;
}

interface RefusedOrigin {
  origin: string;
  events: number;
}

interface Website {
  id: string;
  name: string | null;
  domain: string;
  origins: string[];
  refused_origins: RefusedOrigin[];
  share_links: ShareLink[];
  events: number;
  events_exact: boolean;
  time_zone: string | null;
  /** Minutes from UTC to the time in which its days begin at midnight. */
  day_offset_minutes: number;
  week_start: "monday" | "sunday";
  currency: string | null;
  path_rules: { pattern: string; replacement: string }[];
  created_at: string;
  /** The number of its account, in the list of all websites. */
  account: number;
}

/** A line of the audit log. */
interface AuditLine {
  number: number;
  at: string;
  actor: string;
  via: string;
  action: string;
  website_id: string | null;
  target: string;
  detail: Record<string, any>;
}

/** The figures of a website in a list with `stats`. */
interface WebsiteFigures {
  visitors: number;
  visits: number;
  pageviews: number;
  previous: { visitors: number; visits: number; pageviews: number };
  change: { visitors: number | null; visits: number | null; pageviews: number | null };
  series: { time: string; visitors: number; pageviews: number }[];
  active_visitors: number;
}

type ListedWebsite = Website & { stats: WebsiteFigures | null };

interface ShareLink {
  id: string;
  name: string;
  /** On this server: /share/TOKEN */
  path: string;
  created_at: string;
  has_password: boolean;
  /** Origins whose pages may show the link's page in a frame. */
  origins: string[];
  /** As in a query: filter_country=DE */
  filters: string[];
  hide_events: boolean;
  badges: boolean;
}

type ExclusionKind = "addresses" | "countries" | "pages" | "hostnames" | "referrers" | "not_spam";

interface ExclusionEntry {
  value: string;
  note: string;
  /** An address, or `former member N`; null: an API key. */
  added_by: string | null;
}

/** A list on the page. `data`: all of them. */
interface ExclusionList {
  website: Website;
  kind: ExclusionKind;
  path: string;
  body: HTMLElement;
  entries: ExclusionEntry[];
  address: string;
  hasPeople: boolean;
  data: Exclusions;
}

/** A list of the server: what it came with, or a file that its administrator has set. */
interface ServerList {
  name: "crawlers" | "referrer_spam" | "datacenters";
  source: "bundled" | "file";
  date: string;
  entries: number;
  is_old: boolean;
}

/** The lists of events that are not counted, and the address of the request. */
interface Exclusions {
  addresses: ExclusionEntry[];
  countries: ExclusionEntry[];
  pages: ExclusionEntry[];
  hostnames: ExclusionEntry[];
  referrers: ExclusionEntry[];
  not_spam: ExclusionEntry[];
  /** Whether visits from the hosts of the list of referrer spam are excluded. */
  referrer_spam: boolean;
  crawlers: "reject" | "count";
  /** Whether the listed countries are the only ones that count. */
  only_countries: boolean;
  /** Whether web events from data centres are excluded; only where the server has a list of them. */
  datacenters?: boolean;
  your_address: string;
  lists: ServerList[];
}

interface ApiKey {
  id: number;
  name: string;
  prefix: string;
  created_at: string;
  last_used_at: string | null;
  scopes: string[];
  /** The ids of its websites; null: all of the account. */
  websites: string[] | null;
  expires_at: string | null;
  /** An address, or `former member N`; null: the command line. */
  created_by: string | null;
  /** Whether it stands for an assistant that a person has connected. */
  is_assistant: boolean;
  /** The key itself; only in the answer that creates it. */
  value: string;
}

/** Key figures of a range. Rates are in percent, durations in seconds; null where there are no visits. */
interface Stats {
  visitors: number;
  visits: number;
  pageviews: number;
  events: number;
  views_per_visit: number | null;
  bounce_rate: number | null;
  visit_duration: number | null;
  [figure: string]: any;
}

/** A bucket of a time series. */
interface Bucket {
  time: string;
  visitors: number;
  visits: number;
  pageviews: number;
  events: number;
  [figure: string]: any;
}

/** A row of a top list, of event names, or of entry and exit pages. */
interface TopRow {
  value: string;
  /** Of a page that has one. */
  title?: string;
  visitors: number;
  visits?: number;
  pageviews?: number;
  events?: number;
  [figure: string]: any;
}

/** A single event as the API lists it. */
interface EventRow {
  id: number;
  type: string;
  timestamp: string;
  pathname: string | null;
  referrer: string | null;
  event_name: string | null;
  event_data: Record<string, Scalar> | null;
  vitals: Record<string, number> | null;
  experiment: string | null;
  variant: string | null;
  goal: string | null;
  country: string | null;
  region: string | null;
  city: string | null;
  browser: string | null;
  os: string | null;
  platform: string | null;
  device: string | null;
}

interface Realtime {
  active_visitors: number;
  window_seconds: number;
  pages: { pathname: string; visitors: number }[];
}

type Scalar = string | number | boolean | null;

interface NumberSummary {
  samples: number;
  sum: number | null;
  mean: number | null;
  min: number | null;
  p50: number | null;
  p95: number | null;
  max: number | null;
}

interface PropertyValue {
  value: Scalar;
  events: number;
  visitors: number;
}

interface EventProperty {
  property: string;
  events: number;
  distinct: number;
  /** Whether `distinct` counts all values; else it is a lower bound. */
  exact: boolean;
  numbers: NumberSummary | null;
  values: PropertyValue[];
}

interface EventDataMeta {
  events: number;
  visitors: number;
  properties: number;
}

/** A step's figures; shares are in percent. */
interface FunnelRow {
  visits: number;
  visitors: number;
  of_first: number | null;
  of_previous: number | null;
  mean_seconds: number | null;
  previous?: FunnelRow;
  p_value?: number | null;
}

/** Names of ratings, in this order. */
type RatingName = "good" | "needs_improvement" | "poor";

/** A metric overall, on a day, or of a value. Shares are in percent. */
interface VitalsRow {
  metric: string;
  value: string;
  time: string;
  samples: number;
  p50: number | null;
  p75: number | null;
  p95: number | null;
  /** The three shares are null where `samples` is 0; read only where it is not. */
  good: number;
  needs_improvement: number;
  poor: number;
  previous?: VitalsRow;
}

/** Values up to `good` are good, values above `poor` are poor. */
interface Threshold {
  good: number;
  poor: number;
}

interface Variant {
  variant: string;
  visitors: number;
  conversions: number;
  rate: number | null;
  /** Null where `rate` is null; read only where it is not. */
  rate_low: number;
  rate_high: number;
  lift: number | null;
  p_value: number | null;
  p_value_any_time: number | null;
  enough_data: boolean;
}

interface Goal {
  goal: string | null;
  variants: Variant[];
}

interface Experiment {
  experiment: string;
  variants: { variant: string; visitors: number }[];
  split: { p_value: number | null; is_off: boolean };
  goals: Goal[];
}

interface ExperimentsMeta {
  confidence: number;
  least_of_a_kind: number;
  omitted: { experiments: number; variants: number; goals: number };
  [more: string]: any;
}

/** A cell with clicks: column, row, clicks. */
type Cell = [x: number, y: number, clicks: number];

/** The clicks and scroll depths of a page in one width class. `scroll`: percent of the pageviews that reached each row. */
interface Heatmap {
  texts: [column: number, row: number, text: string][];
  bins_x: number;
  bin_height: number;
  clicks: number;
  samples: number;
  grid: Cell[];
  scroll: number[];
  /** Cells with clicks, of which `grid` has the first ones. */
  cells: number;
}

/** Cells of a heatmap: columns `left` to `right`, rows `top` to `bottom`, the ends excluded; and their clicks. */
interface Area {
  left: number;
  right: number;
  top: number;
  bottom: number;
  count: number;
}

interface HeatmapPage {
  value: string;
  clicks: number;
  samples: number;
}

interface RejectedSample {
  time: string;
  reason: string;
  code: string;
  type: string | null;
  field: string | null;
  host: string | null;
  crawler: string | null;
}

interface FoldedValues {
  day: string;
  field: string;
  new_values: number;
  events: number;
}

interface CrawlersReport {
  requests: number;
  previous_requests: number;
  /** Visits of people from AI assistants; null: their events are no longer kept. */
  assistant_visits: number | null;
  purposes: { purpose: string; requests: number; previous_requests: number }[];
  crawlers: {
    name: string;
    operator: string;
    purpose: string;
    requests: number;
    previous_requests: number;
    pages: number;
    last_day: string | null;
  }[];
  days: { date: string; requests: number; purposes: Record<string, number> }[];
  pages: {
    pathname: string;
    requests: number;
    purposes: Record<string, number>;
    assistant_visits: number | null;
    pageviews: number | null;
  }[];
}

interface RejectedEvents {
  events: number;
  reasons: { reason: string; code: string; events: number }[];
  warnings: { code: string; events: number }[];
  days: { time: string; codes: Record<string, number> }[];
  samples: RejectedSample[];
  folded: FoldedValues[];
}

// ---------------------------------------------------------------- what modules pass to each other

/** What may stand inside an element: nodes, texts, numbers, arrays of them; null, undefined and false are skipped. */
type Child = Node | string | number | boolean | null | undefined | Child[];

/** Attributes, `style`, `dataset` and `on...` handlers of an element that shared/dom.js creates. */
type Props = Record<string, any> | null;

interface Session {
  account: Account;
  websites: Website[];
}

/** What the router (app.js) gives a page. */
interface Context {
  path: string;
  params: Record<string, string>;
  query: URLSearchParams;
  hash: string;
  /** Of pages inside the frame; on other pages they must not be used. */
  account: Account;
  websites: Website[];
  signal: AbortSignal;
  title(words: string): void;
  go(path: string, options?: { replace?: boolean }): Promise<void> | void;
  refresh(): Promise<Session | null>;
  signedOut(): void;
}

/** What a page returns to the router. */
interface PageHandle {
  /** Of a page of a website, for the search over everything. */
  board?: Board;
  update?(context: Context): void;
  leave?(): void;
}

/** The key is a field with the sign of an operator (shared/filter_words.js). */
type Filter = [key: string, value: string];

/** What filters name by an id. */
interface SavedFilters {
  segments: Segment[];
  /** Names by id. */
  goals: Record<string, string>;
  isLoaded: boolean;
}

/** A saved segment; filters as in a query. */
interface Segment {
  id: string;
  name: string;
  filters: string[];
}

/** What a page shows, as its address says it. Pages add fields of their own. */
interface View {
  period: string;
  /** Only of the period "custom". */
  from?: string;
  to?: string;
  /** The day of the first event, of the period "all". */
  first?: string;
  zone: string;
  interval: string | null;
  compare: string;
  matchWeekday: boolean;
  /** Only of the comparison "custom". */
  compareFrom?: string;
  compareTo?: string;
  filters: Filter[];
  /** The id of a saved segment; "". */
  segment: string;
  /** The id of the goal whose conversions the dashboard shows; "". */
  goal?: string;
  [own: string]: any;
}

/** The part of the address that only one page has. */
interface ViewState {
  read(query: URLSearchParams, fields: string[]): Record<string, any>;
  write(view: View): any[][];
}

interface Days {
  from: string;
  to: string;
}

/** What `meta` says about the days of imported sums in a range. */
interface ImportedDays {
  days: number;
  counted_days: number;
  /** First and last day of those that count. */
  ranges: Days[];
  excluded_by?: string;
}

/** The days of a view as of now. */
/** A row of the report of changes. */
interface ChangedValue {
  field: string;
  value: string;
  visitors: number;
  previous: Record<string, number>;
  p_value: number;
  explained_by: ChangedValue | null;
}

interface Span extends Days {
  days: number;
  today: string;
  /** The range that is compared with; null where none is. */
  before: Days | null;
  /** The range before ends here where this range is not over, so that both are equally long; else null. */
  beforeUntil: string | null;
  /** Whether the range is not over. */
  isOpen: boolean;
  interval: string;
  /** The intervals that its length allows. */
  intervals: string[];
}

interface LoadOptions {
  quietly?: boolean;
}

interface PanelOptions<A = any> {
  request(signal: AbortSignal): Promise<A>;
  draw(answer: any): void;
  /** What cannot be shown, as a sentence. */
  what(): string;
}

type Load = (options?: LoadOptions) => Promise<boolean>;

/** Where a website's reports come from and what belongs to its pages: the owner's website or a shared one. */
interface Site {
  base: string;
  domain: string;
  name: string;
  zone: string | null;
  /** Minutes from UTC to the time in which its days begin at midnight. */
  dayOffset: number;
  website?: Website;
  server?: string;
  /** Above the heading. */
  banner?: Node;
  /** Beside the heading. */
  tools?: Node[];
  /** The path of the page of rejected events; null for shared pages. */
  rejected?: string;
  /** Filters that a share link fixes, by field and operator. */
  filters?: Record<string, string[]>;
  /** Whether a share link hides single events. */
  hidesEvents?: boolean;
}

/** What a page of a website works with (shared/website_page.js). */
interface Board {
  site: Site;
  website: Website;
  name: string;
  base: string;
  server: string;
  compares: boolean;
  zone: string;
  fields: string[];
  signal: AbortSignal;
  view(): View;
  first(): string;
  span(): Span;
  go(view: View, options?: { replace?: boolean }): Promise<void> | void;
  toggle(field: string, value: string): void;
  saved(): SavedFilters;
  /** Returns the error, or null. */
  loadSaved(): Promise<ApiError | null>;
  query(more?: Record<string, any>): string;
  request(report: string, more?: Record<string, any>, signal?: AbortSignal): Promise<Answer>;
  panel(element: HTMLElement, options: PanelOptions): Load;
  announce(words: string): void;
  search?(): void;
}

type CsvFile = [label: string, path: string, name: string];

interface PageBody {
  element: Child;
  load(options: { quietly: boolean; last: View | null }): any;
  /** Called when the view has changed, before load. */
  redraw?(): void;
  leave?(): void;
  /** The CSV files of the menu Export. */
  files?(): CsvFile[] | Promise<CsvFile[]>;
  nameAside?: Node;
  footLinks?: Child;
}

/** A page of a website. */
interface PageDefinition {
  title: string;
  about?: string;
  styles?: string[];
  fields?: string[];
  /** Whether its figures are compared with those of another range. */
  compares?: boolean;
  state?: ViewState;
  shortcuts?: [key: string, words: string, act: ((board: Board) => void) | null][];
  foot?: string | ((site: Site) => string);
  /** A line more at the head of the printed page. */
  printLine?(board: Board): string;
  build(board: Board): PageBody;
}

/** A row of shared/bar_list.js. `share` is 0 to 1; `bar` is the bar's length, 0 to 1. */
interface BarRow {
  key: string;
  value: any;
  text: string;
  label: Child;
  count: number | null;
  share: number | null;
  bar: number;
  pressed?: boolean;
  more?: Child;
  changed?: Child;
  link?: Child;
  [figure: string]: any;
}

/** A value of a field that typed words can mean (shared/suggestions.js). */
interface FieldValue {
  field: string;
  value: string;
  text: string;
  count: number;
}

/** What shared/chart.js draws. */
interface Annotation {
  id: string;
  /** A date, or a time in UTC. */
  from: string;
  to: string | null;
  text: string;
}

/** A row of the report of goals. `value` is an exact decimal number; null for a goal without values. */
interface GoalRow {
  id: string;
  name: string;
  type: "event" | "page";
  conversions: number;
  visitors: number;
  conversion_rate: number | null;
  value: string | null;
  currency: string | null;
  without_value: number | null;
  previous?: { conversions: number; conversion_rate: number | null };
}

/** A saved goal. */
interface SavedGoal {
  id: string;
  name: string;
  type: "event" | "page";
  match: string[];
  value: string | null;
  currency: string | null;
}

/** The card of a website's imports: what it shows, and whether this page is sending a file. */
interface ImportsCard {
  path: string;
  upload: HTMLElement;
  list: HTMLElement;
  status: HTMLElement;
  shown: string;
  sending: boolean;
  element?: HTMLElement;
  timer?: ReturnType<typeof setTimeout>;
  bar?: HTMLProgressElement;
  figure?: HTMLElement;
}

/** The card that deletes events of a website: what it shows. */
interface EventChangeCard {
  kind: "delete" | "rewrite";
  /** Begins a change. */
  path: string;
  website: Website;
  choice: HTMLElement;
  preview: HTMLElement;
  list: HTMLElement;
  element?: HTMLElement;
  timer?: ReturnType<typeof setTimeout>;
}

/** The texts that differ between a deletion of events and a rewriting of paths. */
interface EventChangeWords {
  preview: string;
  not_covered: string;
  repeat: (count: number) => string;
  action: string;
  list: string;
  failed: string;
  changed: (count: number) => string;
  stop: string;
  stop_effect: string;
}

/** A saved funnel; steps as in the address. */
interface SavedFunnel {
  id: string;
  name: string;
  steps: string[];
}

/** A marker at a bucket of a chart. */
interface ChartMark {
  at: number;
  label: string;
  annotations: Annotation[];
}

interface ChartData {
  label: string;
  now: (number | null)[];
  before: (number | null)[] | null;
  lines?: { at: number; colour: string }[];
  marks?: ChartMark[];
  open: number;
  likely?: number | null;
  partial?: number[];
  hatched?: number[];
  bars?: boolean;
  format(value: number): string;
  /** The days of a bucket, for its markers. */
  when?(i: number): string;
  text(i: number): string;
  tip(i: number): Child;
  ticks(width: number): [number, string][];
  pick(first: number, last: number): void;
  /** Called with a marker that is clicked; without it markers only show their text. */
  openMark?(mark: ChartMark): void;
}

interface Dialog {
  element: HTMLDialogElement;
  title: HTMLElement;
  body: HTMLElement;
  close(): void;
}

interface FormField {
  element: HTMLElement;
  input: HTMLInputElement;
  name: string;
  value(): any;
  fail(words: string): void;
  settle(): void;
  fault(): string | null;
  hide?(): void;
}

/** A link of the report of journeys. `field` is null for the other values and, with a null `value`, for the end. */
interface JourneyRow {
  step: number;
  from_field: string | null;
  from_value: string | null;
  field: string | null;
  value: string | null;
  visits: number;
}

interface JourneyNode {
  key: string;
  kind: "page" | "event" | "other" | "end";
  step: number;
  field: string | null;
  value: string | null;
  visits: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** `start` and `end` are the heights of its middle at both ends. */
interface JourneyLink {
  from: JourneyNode;
  to: JourneyNode;
  visits: number;
  start: number;
  end: number;
  thickness: number;
}

interface JourneyGraph {
  columns: JourneyNode[][];
  links: JourneyLink[];
  width: number;
  height: number;
}

interface FunnelStep {
  field: string;
  value: string;
}

/** A step with its value as it is shown: a goal's name in place of its id. */
interface ShownStep extends FunnelStep {
  text: string;
}

/** A width class of heatmaps. */
interface WidthClass {
  device: string;
  title: string;
  many: string;
  says: string;
  width: number;
  screen: number;
}

interface Navigator {
  globalPrivacyControl?: boolean;
}

interface Document {
  prerendering?: boolean;
}

/** As the tracker calls it: 1 stands for true. */
declare function addEventListener(type: string, listener: any, capture: number): void;

interface Window {
  uPlot: any;
  tally: any;
}

// ---------------------------------------------------------------- private parts of modules

interface FieldOptions {
  label: string;
  name: string;
  hint?: Child;
  /** The message where the field is required and empty. */
  missing?: string;
  check?(value: string): string | null;
  /** The control where it is not an <input>. */
  input?: any;
  soft?: string;
  email?(): string;
  [attribute: string]: any;
}

interface FormOptions {
  fields: any[];
  action: string;
  busy?: string;
  submit(values: any): any;
  danger?: boolean;
  beside?: Child;
  wide?: boolean;
  label?: string | null;
}

interface DialogOptions {
  title: Child;
  body: Child;
  actions?: Child;
  onclose?(): void;
  wide?: boolean;
  full?: boolean;
}

/** How the table of a list dialog is sorted; "" is the order of the answer. */
interface Sort {
  by: string;
  isDown: boolean;
  choose(by: string): void;
}

interface ListDialogOptions {
  title: string;
  load(): Promise<{ rows: any[]; note?: string; error?: undefined } | { error: ApiError; rows?: undefined }>;
  draw(rows: any[], sort: Sort): Child;
  sorts?: Record<string, (row: any) => number | string | null>;
  /** The column that the rows are sorted by at first, after "-" in descending order; and a function that is called with another one. */
  sorted?: string;
  onsort?(sorted: string): void;
  onclose?(): void;
  full?: boolean;
  matches(row: any, text: string): boolean;
  failed(error: ApiError, retry: () => void): Child;
  actions?: Child;
}

interface FunnelActions {
  add(): void;
  change(i: number): void;
  move(i: number, to: number): void;
  remove(i: number): void;
}

/** A web vital (vitals/web_vitals.js). */
interface Metric {
  name: string;
  short: string;
  long: string;
  isCore: boolean;
  means: string;
  helps: string;
}

/** A figure of the dashboard (dashboard/key_figures.js). */
interface Figure {
  name: string;
  title: string;
  /** What a rate is of; by default visits. */
  partOf?: string;
  inSeries?: boolean;
  isLead?: boolean;
  up: number;
  format(value: any): string;
  exact(value: any): string;
  /** The exact value with the name of the figure. */
  described(value: any): string;
  means: string;
}

/** An hour of the week (dashboard/week_hours.js); `mean` is null where no day of the range has it. */
interface WeekCell {
  sum: number;
  days: number;
  mean: number | null;
}

/** A card of lists on the dashboard (dashboard/list_cards.js). */
interface ListCard {
  name: string;
  title: string;
  fields: string[];
  menu?: { title: string; fields: string[] };
  optional?: string[];
  mayHide?: { least: number };
}

/** A list of a dashboard card (dashboard/list_cards.js). */
interface TopList {
  name: string;
  path: string;
  field: string;
  counts: string;
  title: string;
  all: string;
  none: string;
}

/** The state of a website's settings page (pages/website_settings.js). */
interface Settings {
  context: Context;
  website: Website;
  /** Draws the section for the website as it is now. */
  draw: (website: Website) => void;
  /** Changes the website, says so and draws the section; returns the answer where it failed. */
  change: (body: any, message: string) => Promise<any>;
}

/** The state of the setup page (pages/setup.js). */
interface Setup {
  root: HTMLElement;
  context: Context;
  token: string;
  base?: string;
}

/** The parts of the API keys section (account/api_keys_section.js). */
interface KeysSection {
  context: Context;
  form: HTMLElement;
  made: HTMLElement;
  list: HTMLElement;
  name: HTMLInputElement;
}
