-- Tally's database. One file, WAL, one writer (tally/ingest/store.py), read-only readers.
--
-- Times are milliseconds since 1970-01-01T00:00Z, UTC. Days are whole days since then.
-- A dimension is a small integer that points into `label`; 0 is unset. 14 of them sit in each row that /events shows,
-- in the order of tally/events/dimensions.py FIELDS. Nothing here holds an address, a User-Agent, a session_id or anything
-- computed from one: a visitor is a random number drawn in memory.
--
-- From the first release on, a change of this file needs a migration in tally/storage/database.py as well.

-- Facts about the file itself: key_salt (hex; API keys are stored as hashes keyed with it), next_id (see tally/ingest/writer.py).
create table meta (
  name   text not null primary key,
  value  any  not null
) strict, without rowid;

create table account (
  number         integer primary key,
  email          text    not null unique collate nocase,
  plan           text    not null check (plan in ('free', 'pro', 'business')),
  password_hash  text,                     -- argon2id; null until a password is set
  created_ms     integer not null,
  time_zone      text                      -- IANA name; null: the browser's own
) strict;

-- Who is logged in to the pages, a row a browser. Nothing here says which browser, or from where.
create table login (
  digest      blob    not null primary key check (length(digest) = 32),   -- of the cookie's value, keyed (tally/accounts/logins.py)
  account     integer not null references account (number) on delete cascade,
  created_ms  integer not null,
  ends_ms     integer not null             -- moved on while the browser comes back
) strict, without rowid;

-- Browsers from which an account was opened, whose tries of a password are counted by themselves (docs/sign-in.md).
create table device (
  digest      blob    not null primary key check (length(digest) = 32),   -- of the cookie's value, keyed (tally/accounts/logins.py)
  account     integer not null references account (number) on delete cascade,
  created_ms  integer not null,
  ends_ms     integer not null
) strict, without rowid;

create table website (
  number      integer primary key,         -- what every other table calls `website`
  id          text    not null unique check (length(id) = 36),   -- the public identifier, a lower-case UUID
  account     integer not null references account (number),
  domain      text    not null,            -- lower-case A-label host
  name        text    not null,
  created_ms  integer not null,
  keep_days   integer check (keep_days >= 0)   -- how long single events are kept; 0 for ever, null as the setting says
) strict;

-- Exact origins beyond the domain, for apps built on web views: capacitor://localhost.
create table website_origin (
  website  integer not null references website (number) on delete cascade,
  origin   text    not null,
  primary key (website, origin)
) strict, without rowid;

-- The link that shows a website to whoever has it, without an account. Kept as it is: its owner is to see it again.
create table share (
  website     integer not null primary key references website (number) on delete cascade,
  token       text    not null unique check (length(token) = 24),
  created_ms  integer not null
) strict;

-- Deleted websites: their rows in the tables below go in the background (tally/maintenance/deletion.py). A number stays here for good,
-- so that it is never given to another website and what arrives late under it goes as well.
create table gone (
  website     integer not null primary key,
  deleted_ms  integer not null,
  is_over     integer not null check (is_over in (0, 1))     -- nothing is left in any table
) strict;

create table api_key (
  number        integer primary key,
  account       integer not null references account (number),
  name          text    not null,
  prefix        text    not null,          -- the first characters, to tell keys apart
  digest        blob    not null unique check (length(digest) = 32),   -- the bearer check looks keys up by this
  created_ms    integer not null,
  last_used_ms  integer                    -- to the minute or so
) strict;

-- Accepted events of all types, by arrival: the monthly limit.
create table usage (
  account  integer not null,
  month    integer not null,               -- 202611
  events   integer not null check (events >= 0),
  primary key (account, month)
) strict, without rowid;

-- The same by website, while its account's plan has a limit: what is given back when the website is deleted.
create table website_usage (
  website  integer not null,
  month    integer not null,
  events   integer not null check (events >= 0),
  primary key (website, month)
) strict, without rowid;

-- Deduplication: events that came with an event_id, each as a keyed digest of its event_id and its content
-- (tally/ingest/writer.py). A copy is accepted, not stored, and renews the row, which expires 72 hours after the last copy.
create table event_id (
  website     integer not null,
  digest      blob    not null check (length(digest) = 16),
  arrived_ms  integer not null,            -- arrival of the last copy
  primary key (website, digest)
) strict, without rowid;

-- writer.forget_old: delete from event_id where arrived_ms < ?
create index event_id_by_arrival on event_id (arrived_ms);

-- Imported lines that had an id, so that importing a line again changes nothing (tally/transfer/line_format.py). Kept as long as raw
-- events; clustered by time, as files mostly are.
create table import_id (
  website  integer not null,
  ts       integer not null,
  digest   integer not null,               -- 64 bits, keyed, of the line's id, type and visitor or values
  primary key (website, ts, digest)
) strict, without rowid;

-- Every text that repeats. The unique index answers both ways: text -> id when storing and filtering.
create table label (
  id    integer primary key,
  text  text not null unique
) strict;
insert into label (id, text) values (0, '');

-- Traffic: pageview 0, screen_view 1, event 2, app_event 3. Clustered by website and time: every question is a range of it.
create table event (
  website       integer not null,
  ts            integer not null,
  id            integer not null,          -- grows with arrival, over all tables that have one
  type          integer not null check (type between 0 and 3),
  visitor       integer not null,          -- random, another one every UTC day
  visit         integer not null,          -- which visit of that visitor: 0, 1, 2 ...
  pathname      integer not null,
  referrer      integer not null,
  country       integer not null,
  browser       integer not null,
  os            integer not null,
  device        integer not null,
  language      integer not null,
  hostname      integer not null,
  utm_source    integer not null,
  utm_medium    integer not null,
  utm_campaign  integer not null,
  platform      integer not null,
  app_version   integer not null,
  os_version    integer not null,
  event_name    integer not null,
  event_data    text check (length(cast(event_data as blob)) <= 4096),
  primary key (website, ts, id)
) strict, without rowid;

-- event_data of more than 480 bytes, in parts (tally/storage/event_data.py); the event has an empty text.
create table event_data_part (
  number  integer primary key,             -- 16 times the event's id, plus 0 to 15
  text    text    not null check (length(cast(text as blob)) <= 480)
) strict;

-- A visit's whole life, written with its events. Clustered by its begin: a visit belongs to the moment it begins.
create table visit (
  website   integer not null,
  begin_ms  integer not null,
  visitor   integer not null,
  visit     integer not null check (visit between 0 and 47),
  ms        integer not null check (ms between 0 and 86400000),  -- last traffic event minus first
  views     integer not null,
  events    integer not null check (views + events > 0),         -- custom events
  primary key (website, begin_ms, visitor, visit)
) strict, without rowid;

-- The pages that visits begin (entry) and end (exit) with: over blocks of 8 and 64 whole UTC days (level 3, 6), and over
-- days (0) whose visits are gone (tally/rollups/visit_pages.py). A block is there once it has its row of value 0.
create table visit_page (
  website        integer not null,
  level          integer not null check (level in (0, 3, 6)),
  block          integer not null,
  value          integer not null,         -- label of the pathname; 0: visits without a view
  entries        integer not null,         -- visits
  entry_bounces  integer not null,
  entry_views    integer not null,         -- of their whole lives, as are ms
  entry_ms       integer not null,
  exits          integer not null,
  exit_bounces   integer not null,
  exit_views     integer not null,
  exit_ms        integer not null,
  primary key (website, level, block, value)
) strict, without rowid;

-- Totals of each quarter of an hour (quarter = ms / 900,000), kept by what every commit changes (tally/rollups/totals.py).
-- Visits belong to the quarter they begin in. Visitors: whose first, whose last event of the UTC day lies in the quarter;
-- and who has an event in the 60 minutes from its beginning on, cut at midnight.
create table moment (
  website        integer not null,
  quarter        integer not null,
  views          integer not null,
  events         integer not null,         -- custom events
  firsts         integer not null,
  lasts          integer not null,
  hour_visitors  integer not null,
  visits         integer not null,
  bounces        integer not null,
  visit_views    integer not null,
  visit_ms       integer not null,
  primary key (website, quarter)
) strict, without rowid;

-- The values of each field over 2^level whole UTC days (block = day >> level; level 1 is left out), for the top lists.
-- field: its place in tally/events/dimensions.py FIELDS; 14 is event_name, of custom events alone, and its value 0 all of the traffic.
create table rollup (
  website   integer not null,
  field     integer not null check (field between 0 and 14),
  level     integer not null check (level between 0 and 8),
  block     integer not null,
  value     integer not null,
  visitors  integer not null,
  views     integer not null,
  events    integer not null,
  primary key (website, field, level, block, value)
) strict, without rowid;

-- What of rollup and moment is right. Every day with traffic has a row of level 0, blocks above it once they are built.
create table built (
  website    integer not null,
  level      integer not null,
  block      integer not null,
  state      integer not null check (state between 0 and 3),     -- stale, open, final, kept (raw rows gone)
  folded_ms  integer not null,             -- of an open day: its events before this moment are in rollup
  version    integer not null,             -- another one after every change of what was complete
  primary key (website, level, block)
) strict, without rowid;

-- rollups.unfinished: where website = ? and level = 0 and state < 2
create index built_unfinished on built (website, block) where level = 0 and state < 2;

-- The visitors of an open day whose events are in rollup, each with the values of one of these events: what tells a fold
-- whether a visitor is new to a value (tally/storage/visitor_values.py).
create table open_day_visitor (
  website       integer not null,
  day           integer not null,
  visitor       integer not null,
  pathname      integer not null,
  referrer      integer not null,
  country       integer not null,
  browser       integer not null,
  os            integer not null,
  device        integer not null,
  language      integer not null,
  hostname      integer not null,
  utm_source    integer not null,
  utm_medium    integer not null,
  utm_campaign  integer not null,
  platform      integer not null,
  app_version   integer not null,
  os_version    integer not null,
  event_name    integer not null,
  primary key (website, day, visitor)
) strict, without rowid;

-- The values of such a visitor that differ from those. field: as in rollup.
create table open_day_visitor_value (
  website  integer not null,
  day      integer not null,
  visitor  integer not null,
  field    integer not null check (field between 0 and 14),
  value    integer not null,
  primary key (website, day, visitor, field, value)
) strict, without rowid;

-- Web vitals. Metrics in microseconds, cls in millionths (tally/rollups/vitals_histogram.py `stored`); null where not sent.
create table vitals (
  website       integer not null,
  ts            integer not null,
  id            integer not null,
  pathname      integer not null,
  referrer      integer not null,
  country       integer not null,
  browser       integer not null,
  os            integer not null,
  device        integer not null,
  language      integer not null,
  hostname      integer not null,
  utm_source    integer not null,
  utm_medium    integer not null,
  utm_campaign  integer not null,
  platform      integer not null,
  app_version   integer not null,
  os_version    integer not null,
  lcp           integer check (lcp between 0 and 3600000000),
  inp           integer check (inp between 0 and 3600000000),
  fcp           integer check (fcp between 0 and 3600000000),
  ttfb          integer check (ttfb between 0 and 3600000000),
  cls           integer check (cls between 0 and 100000000),
  primary key (website, ts, id)
) strict, without rowid;

-- Histograms of web vitals, added to by every commit (tally/rollups/web_vitals.py): of all events, by device, by pathname; over
-- quarters of days (level -1), UTC days (0) and blocks of 8 and 64 days (3, 6; -3 and -6 while one is being built).
create table histogram (
  website    integer not null,
  cut        integer not null check (cut between 0 and 2),        -- all, device, pathname
  level      integer not null check (level in (-6, -3, -1, 0, 3, 6)),
  block      integer not null,
  value      integer not null,             -- label of the device or pathname; 0 of all
  events     integer not null,
  poor_lcp   integer not null,             -- how many values are rated poor
  poor_inp   integer not null,
  poor_fcp   integer not null,
  poor_ttfb  integer not null,
  poor_cls   integer not null,
  cells      blob    not null,             -- tally/rollups/vitals_histogram.py `packed`
  primary key (website, cut, level, block, value)
) strict, without rowid;

-- A/B: ab_assign 6, ab_convert 7, as they came; variant is the assigned one where a conversion named none. A heatmap
-- event without points, 5, is here too: a row of labels alone, with visitor 0.
create table ab (
  website       integer not null,
  ts            integer not null,
  id            integer not null,
  type          integer not null check (type in (5, 6, 7)),
  visitor       integer not null,
  pathname      integer not null,
  referrer      integer not null,
  country       integer not null,
  browser       integer not null,
  os            integer not null,
  device        integer not null,
  language      integer not null,
  hostname      integer not null,
  utm_source    integer not null,
  utm_medium    integer not null,
  utm_campaign  integer not null,
  platform      integer not null,
  app_version   integer not null,
  os_version    integer not null,
  experiment    integer not null,
  variant       integer not null,
  goal          integer not null,
  value         real,
  primary key (website, ts, id)
) strict, without rowid;

-- The first assignment of a visitor to an experiment on a day: it wins, and conversions without a variant need it.
create table assignment (
  website     integer not null,
  day         integer not null,
  experiment  integer not null,
  visitor     integer not null,
  variant     integer not null,
  ts          integer not null,            -- of the event that assigned: the first by ts and id, whenever it arrived
  id          integer not null,
  primary key (website, day, experiment, visitor)
) strict, without rowid;

-- Who converted, once a visitor, goal and day (tally/rollups/experiments.py).
create table conversion (
  website     integer not null,
  day         integer not null,
  experiment  integer not null,
  visitor     integer not null,
  goal        integer not null,
  primary key (website, day, experiment, visitor, goal)
) strict, without rowid;

-- Visitors of each UTC day who were assigned a variant (converted 0, goal 0), and of these who converted (1), by goal.
create table trial (
  website     integer not null,
  day         integer not null,
  experiment  integer not null,
  variant     integer not null,
  converted   integer not null check (converted between 0 and 1),
  goal        integer not null,
  visitors    integer not null check (visitors > 0),
  primary key (website, day, experiment, variant, converted, goal)
) strict, without rowid;

-- Heatmap points, binned as they arrive (tally/rollups/heatmap_grid.py), until they are packed: never a row a click.
create table heat (
  website   integer not null,
  day       integer not null,
  pathname  integer not null,
  width     integer not null check (width between 0 and 2),      -- phone, tablet, desktop
  kind      integer not null check (kind between 0 and 1),       -- click, scroll
  bin_y     integer not null check (bin_y between 0 and 50000),
  bin_x     integer not null check (bin_x between 0 and 49),     -- 0 for scroll
  points    integer not null check (points > 0),
  primary key (website, day, pathname, width, kind, bin_y, bin_x)
) strict, without rowid;

-- Heatmap points, packed in the background (tally/rollups/heatmaps.py): of each page over UTC days (level 0), with sums over
-- blocks of 8 and 64 of them (3, 6) where there are many. Clustered by page: a question is about one.
create table heat_block (
  website   integer not null,
  pathname  integer not null,
  band      integer not null check (band between 0 and 200),     -- rows of 20 pixels / 250
  level     integer not null check (level in (0, 3, 6)),
  block     integer not null,
  mobile    blob    not null,              -- the cells of each width: tally/rollups/heatmap_grid.py `packed`
  tablet    blob    not null,
  desktop   blob    not null,
  primary key (website, pathname, band, level, block)
) strict, without rowid;

-- How many of the packed points each page has, over 2^level whole UTC days: which pages have heatmaps.
create table heat_count (
  website          integer not null,
  level            integer not null check (level between 0 and 8),
  block            integer not null,
  pathname         integer not null,
  mobile_clicks    integer not null,
  mobile_samples   integer not null,       -- views that told how far they were seen
  tablet_clicks    integer not null,
  tablet_samples   integer not null,
  desktop_clicks   integer not null,
  desktop_samples  integer not null,
  primary key (website, level, block, pathname)
) strict, without rowid;

-- Events of a website that were not taken, by the quarter of an hour of their arrival (quarter = ms / 900,000) and why:
-- a place in tally/ingest/rejected_events.py REASONS. Kept for 400 days.
create table left_out (
  website  integer not null,
  quarter  integer not null,
  reason   integer not null check (reason between 0 and 63),
  events   integer not null check (events > 0),
  primary key (website, quarter, reason)
) strict, without rowid;

-- The newest few of each reason that differ, without anything of their senders.
create table left_out_sample (
  website  integer not null,
  reason   integer not null check (reason between 0 and 63),
  id       integer not null,               -- grows
  ms       integer not null,               -- of the last one's arrival, to the second
  type     integer check (type between 0 and 7),   -- null: none of ours
  field    text    not null,               -- one of ours, or ''
  detail   text    not null check (length(detail) <= 253),   -- a refused page's host, a crawler's name of our list, or ''
  primary key (website, reason, id)
) strict, without rowid;

-- Every value that a website has used in a field, once. What is not here is new (tally/storage/value_limits.py).
-- field: 0 to 13 the columns of `event`, 14 event_name, 15 experiment, 16 variant, 17 goal, 18 a property's name.
create table field_value (
  website  integer not null,
  field    integer not null check (field between 0 and 18),
  value    integer not null,               -- label
  primary key (website, field, value)
) strict, without rowid;

-- New values per website, UTC day of arrival and field, and the events of which a value was stored as `(other)` because
-- the day's limit was reached. Kept for 400 days.
create table new_value (
  website  integer not null,
  day      integer not null,
  field    integer not null check (field between 0 and 18),
  used     integer not null,               -- of the limit: a value of more than 200 characters takes room several times
  events   integer not null,
  primary key (website, day, field)
) strict, without rowid;
