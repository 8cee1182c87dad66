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

interface Account {
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
  /** The path of the share link; null without one. */
  share: string | null;
  events: number;
  events_exact: boolean;
  created_at: string;
}

interface ApiKey {
  id: number;
  name: string;
  prefix: string;
  created_at: string;
  last_used_at: string | null;
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
  visitors: number;
  visits?: number;
  pageviews?: number;
  events?: number;
  [figure: string]: any;
}

/** A single event as the API lists it. */
interface EventRow {
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
  left_out: { experiments: number; variants: number; goals: number };
  [more: string]: any;
}

/** A cell with clicks: column, row, clicks. */
type Cell = [x: number, y: number, clicks: number];

/** The clicks and scroll depths of a page in one width class. `scroll`: percent of the pageviews that reached each row. */
interface Heatmap {
  bins_x: number;
  bin_height: number;
  clicks: number;
  samples: number;
  grid: Cell[];
  scroll: number[];
  /** Cells with clicks, of which `grid` has the first ones. */
  cells: number;
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

interface RejectedEvents {
  events: number;
  reasons: { reason: string; code: string; events: number }[];
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
  update?(context: Context): void;
  leave?(): void;
}

type Filter = [field: string, value: string];

/** What a page shows, as its address says it. Pages add fields of their own. */
interface View {
  range: string;
  /** Only of the range "custom". */
  from?: string;
  to?: string;
  zone: string;
  interval: "day" | "hour" | null;
  filters: Filter[];
  [own: string]: any;
}

/** The part of the address that only one page has. */
interface ViewState {
  read(query: URLSearchParams): Record<string, any>;
  write(view: View): any[][];
}

interface Days {
  from: string;
  to: string;
}

/** The days of a view as of now. */
interface Span extends Days {
  days: number;
  today: string;
  before: Days;
  /** The range before ends here where this range is not over, so that both are equally long. */
  beforeUntil: string;
  /** Whether the range is not over. */
  isOpen: boolean;
  interval: "day" | "hour";
  canHour: boolean;
}

interface LoadOptions {
  quietly?: boolean;
}

interface PanelOptions<A = any> {
  ask(signal: AbortSignal): Promise<A>;
  draw(answer: any): void;
  /** What cannot be shown, as a sentence. */
  what(): string;
}

type Load = (options?: LoadOptions) => Promise<boolean>;

/** Where a website's reports come from and what belongs to its pages: the owner's website or a shared one. */
interface Site {
  base: string;
  name: string;
  zone: string | null;
  website?: Website;
  server?: string;
  /** Above the heading. */
  banner?: Node;
  /** Beside the heading. */
  tools?: Node[];
  /** The path of the page of rejected events; null for shared pages. */
  rejected?: string;
}

/** What a page of a website works with (shared/website_page.js). */
interface Board {
  site: Site;
  website: Website;
  name: string;
  base: string;
  server: string;
  zone: string;
  fields: string[];
  signal: AbortSignal;
  view(): View;
  span(): Span;
  go(view: View): Promise<void> | void;
  toggle(field: string, value: string): void;
  question(more?: Record<string, any>): string;
  ask(report: string, more?: Record<string, any>, signal?: AbortSignal): Promise<Answer>;
  panel(element: HTMLElement, options: PanelOptions): Load;
  say(words: string): void;
  search?(): void;
}

interface PageBody {
  element: Child;
  load(options: { quietly: boolean; last: View | null }): any;
  /** Called when the view has changed, before load. */
  redraw?(): void;
  leave?(): void;
  nameAside?: Node;
  footLinks?: Child;
}

/** A page of a website. */
interface PageDefinition {
  title: string;
  about?: string;
  styles?: string[];
  fields?: string[];
  state?: ViewState;
  shortcuts?: [key: string, words: string, act: (board: Board) => void][];
  csv?(board: Board): any[][];
  foot?: string;
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
  [figure: string]: any;
}

/** What shared/chart.js draws. */
interface ChartData {
  label: string;
  now: (number | null)[];
  before: (number | null)[] | null;
  lines?: { at: number; colour: string }[];
  open: number;
  format(value: number): string;
  say(i: number): string;
  tip(i: number): Child;
  ticks(width: number): [number, string][];
  pick(first: number, last: number): void;
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

interface FunnelStep {
  field: string;
  value: string;
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
}

interface ListDialogOptions {
  title: string;
  load(): Promise<{ rows: any[]; note?: string; error?: undefined } | { error: ApiError; rows?: undefined }>;
  draw(rows: any[]): Child;
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
  inSeries?: boolean;
  up: number;
  say(value: any): string;
  exact(value: any): string;
  means: string;
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
  title: HTMLElement;
  parts: HTMLElement;
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
