-- The schema of Tally's database: one SQLite file in WAL mode with one writer and several read-only connections.
--
-- Conventions:
-- * `website` is website.number and `account` is account.number; ids in the API are website.id.
-- * Times are milliseconds since 1970-01-01T00:00Z (`_ms`; `ts` is the event's timestamp). `day` is the number of whole
--   days since then, `quarter` the number of quarter hours (ms / 900,000). Times of events and visits, and the days and
--   quarters of rollups, are in website time: UTC plus website.day_offset_minutes.
-- * A dimension is the id of a text in `label`; 0 is the empty text, that is, unset, and 1 is Direct, the channel of
--   visits without an acquisition. `field` is the number of a dimension, its position in DIMENSIONS of
--   tally/events/fields.py, or of another field: 100 event_name, 101 experiment, 102 variant, 103 goal, 104 property
--   name of event_data, 105 entry_page, 106 exit_page, 107 all traffic of imported sums.
-- * `level` and `block` name a block of 2^level whole days: block = day >> level.
-- * `visitor` is a number that is drawn in memory for each visitor and day: the time of its first event that
--   arrived, and 32 bits of a random sequence (tally/events/sessions.py); of imported events it is computed from the
--   file's visitor (tally/transfer/line_format.py). No table stores an IP address, a User-Agent, a session_id or
--   anything computed from them, but for the keys of imported lines (import_id) and the digests of files (import).
-- * Tables whose rows belong to a website are listed in tally/maintenance/deletion.py.
--
-- From the first release on, a change of this file needs a step in tally/storage/migrations.py as well.


-- --- Accounts and websites

-- Properties of the database file, such as key_salt (hex; the key of the API key and cookie digests) and next_id (the
-- next event id). Names and readers: tally/storage/meta.py.
create table meta (
  name   text    not null primary key,
  value  any     not null
) strict, without rowid;

-- What owns websites and API keys, and has a plan. The people who sign in are its members.
create table account (
  number      integer primary key,
  name        text    not null unique collate nocase,  -- at first the address of the person it was created for
  plan        text    not null check (plan in ('free', 'pro', 'business')),
  created_ms  integer not null,
  requires_second_factor  integer not null default 0 check (requires_second_factor in (0, 1))
) strict;

create table person (
  number         integer primary key autoincrement,  -- of one person for ever
  email          text    not null unique collate nocase,
  password_hash  text,     -- argon2id; null until a password is set
  time_zone      text,     -- IANA name; null: the browser's time zone
  totp_secret    blob    check (length(totp_secret) = 20),  -- of RFC 6238; null: no second factor
  totp_step      integer,  -- of the last code that was used: codes of it and of earlier steps do not count
  created_ms     integer not null,
  last_seen_day  integer,  -- UTC days since 1970; updated about once a day of use
  check ((totp_secret is null) = (totp_step is null))
) strict;

-- Digests of a person's unused recovery codes, keyed with the file's salt.
create table recovery_code (
  person  integer not null references person (number) on delete cascade,
  digest  blob    not null check (length(digest) = 32),
  primary key (person, digest)
) strict, without rowid;

-- Public keys of passkeys (WebAuthn), each of which signs in alone.
create table passkey (
  id             blob    not null primary key check (length(id) between 1 and 1023),  -- of the credential
  person         integer not null references person (number) on delete cascade,
  public_key     blob    not null,  -- COSE
  sign_count     integer not null,  -- signatures that it has made; 0: the authenticator does not count
  name           text    not null,
  created_ms     integer not null,
  last_used_day  integer            -- UTC days since 1970
) strict, without rowid;

create index passkey_of_person on passkey (person);

create table membership (
  account     integer not null references account (number) on delete cascade,
  person      integer not null references person (number) on delete cascade,
  role        text    not null check (role in ('owner', 'admin', 'editor', 'viewer')),
  is_limited  integer not null default 0 check (is_limited = 0 or is_limited = 1 and role in ('editor', 'viewer')),
  created_ms  integer not null,
  primary key (account, person)
) strict, without rowid;

-- The websites of a limited member.
create table membership_website (
  account  integer not null,
  person   integer not null,
  website  integer not null references website (number) on delete cascade,
  primary key (account, person, website),
  foreign key (account, person) references membership (account, person) on delete cascade
) strict, without rowid;

-- Open invitations. The token is in the link alone, which is shown once.
create table invitation (
  id          text    not null primary key check (length(id) = 16),  -- random, hex
  account     integer not null references account (number) on delete cascade,
  email       text    not null collate nocase,
  role        text    not null check (role in ('owner', 'admin', 'editor', 'viewer')),
  websites    text    check (websites like '[%]'),                      -- numbers; null: all
  digest      blob    not null unique check (length(digest) = 32),      -- keyed, of the token
  created_by  integer references person (number) on delete cascade,  -- null: the command line
  created_ms  integer not null,
  expires_ms  integer not null
) strict, without rowid;

-- One-time links to sign in, which `person link` prints.
create table sign_in_link (
  digest      blob    not null primary key check (length(digest) = 32),  -- keyed, of the token
  person      integer not null references person (number) on delete cascade,
  expires_ms  integer not null
) strict, without rowid;

-- Who a person is at an OpenID provider (tally/accounts/identities.py).
create table identity (
  issuer      text    not null,
  subject     text    not null,
  person      integer not null references person (number) on delete cascade,
  created_ms  integer not null,
  primary key (issuer, subject),
  unique (person, issuer)
) strict, without rowid;

-- Sessions of the pages, one row a browser. A row contains nothing about the browser or its address
-- (tally/accounts/logins.py).
create table login (
  digest      blob    not null primary key check (length(digest) = 32),  -- keyed, of the cookie's value
  person      integer not null references person (number) on delete cascade,
  created_ms  integer not null,
  expires_ms  integer not null,  -- extended while the session is used, unless an OpenID provider has begun it
  via         text    not null check (via in ('session', 'oidc'))
) strict, without rowid;

-- Device cookies: browsers in which a person has logged in before. Their login attempts are limited separately
-- (docs/sign-in.md).
create table device_cookie (
  digest      blob    not null primary key check (length(digest) = 32),  -- keyed, of the cookie's value
  person      integer not null references person (number) on delete cascade,
  created_ms  integer not null,
  expires_ms  integer not null
) strict, without rowid;

create table website (
  number      integer primary key,                              -- the internal id, `website` in other tables
  id          text    not null unique check (length(id) = 36),  -- public, a lower-case UUID
  account     integer not null references account (number),
  domain      text    not null,                                 -- lower-case host, international names as A-labels
  name        text    not null,
  created_ms  integer not null,
  keep_days   integer check (keep_days >= 0),  -- retention of raw events; 0: unlimited, null: the setting
  time_zone   text,                            -- IANA name, of reports whose query names none; null: UTC
  week_start  text    not null default 'monday' check (week_start in ('monday', 'sunday')),
  currency    text    check (length(currency) = 3),  -- ISO 4217, of values without one; null: not chosen
  -- Minutes from UTC to website time: a day of the website begins at midnight of it (docs/architecture.md)
  day_offset_minutes  integer not null default 0
    check (day_offset_minutes between -720 and 840 and day_offset_minutes % 15 = 0),
  counts_referrer_spam  integer not null default 0 check (counts_referrer_spam in (0, 1)),  -- of the bundled list
  counts_crawlers       integer not null default 0 check (counts_crawlers in (0, 1)),
  excludes_datacenters  integer not null default 0 check (excludes_datacenters in (0, 1)),  -- of --datacenter-ranges
  only_countries        integer not null default 0 check (only_countries in (0, 1)),  -- the listed ones count, no others
  -- Pattern and replacement of each rule for the paths of events that arrive, in their order
  path_rules            text    not null default '[]' check (path_rules like '[%]')
) strict;

-- Origins allowed besides the website's domain, for apps built on web views, such as capacitor://localhost.
create table allowed_origin (
  website  integer not null references website (number) on delete cascade,
  origin   text    not null,
  primary key (website, origin)
) strict, without rowid;

-- Events that are not counted (tally/accounts/exclusions.py): excluded addresses, networks, countries, pages and
-- referrers, the hosts whose pages count, and the referrers that count although they are in the list of referrer spam.
create table exclusion (
  website  integer not null references website (number) on delete cascade,
  kind     text    not null check (kind in ('addresses', 'countries', 'pages', 'hostnames', 'referrers', 'not_spam')),
  value    text    not null,
  note     text    not null default '' check (length(note) <= 50),
  added_by integer,  -- a person, who may have left; null: an API key
  primary key (website, kind, value)
) strict, without rowid;

-- Share links: a link shows one website without an account. The token is stored as it is, because the owner can view
-- the link again.
create table share_link (
  website        integer not null references website (number) on delete cascade,
  id             text    not null check (length(id) = 16),  -- random, hex; it stays where the token is replaced
  name           text    not null,
  token          text    not null unique check (length(token) = 24),
  created_ms     integer not null,
  password_hash  text    not null default '',    -- argon2id; '': no password
  origins        text    not null default '[]' check (origins like '[%]'),  -- may show the page in a frame
  filters        text    not null default '[]' check (filters like '[%]'),  -- filter_<field>=<value>, fixed
  hides_events   integer not null default 1 check (hides_events in (0, 1)),
  shows_badges   integer not null default 0 check (shows_badges in (0, 1)),
  primary key (website, id)
) strict, without rowid;

-- What an owner defines for a website: annotations, segments, goals and funnels (tally/accounts/definitions.py).
create table definition (
  website     integer not null references website (number) on delete cascade,
  id          text    not null check (length(id) = 16),  -- random, hex
  kind        text    not null check (kind in ('annotation', 'segment', 'goal', 'funnel')),
  created_ms  integer not null,
  content     text    not null check (content like '{%}'),  -- its fields as the API shows them, but for id
  primary key (website, id)
) strict, without rowid;

-- Deleted websites. Their rows in other tables are deleted in the background (tally/maintenance/deletion.py). The row
-- is kept, so that its number is not assigned again.
create table deleted_website (
  website      integer not null primary key,
  deleted_ms   integer not null,
  is_complete  integer not null check (is_complete in (0, 1))  -- 1: no table has a row of the website any more
) strict;

create table api_key (
  number        integer primary key,
  account       integer not null references account (number),
  name          text    not null,
  prefix        text    not null,                                     -- the first characters, shown in lists
  digest        blob    not null unique check (length(digest) = 32),  -- keyed; authenticates requests
  created_ms    integer not null,
  last_used_ms  integer,                                              -- updated about once a minute
  scopes        text    not null default '["read"]' check (scopes like '["%"]'),
  websites      text    check (websites like '["%"]'),                -- their ids; null: all of the account
  expires_ms    integer,                                              -- null: never
  created_by    integer,                                              -- a person, who may have left; null: a command
  -- Of an assistant that a person has connected (tally/accounts/assistants.py): the id that it has registered, and the
  -- refresh token before the one of `digest`. Null: a key.
  client           text,
  previous_digest  blob    unique check (length(previous_digest) = 32),
  renewed_ms       integer
) strict;

-- Where an account's notices go (tally/notices/channels.py). `config` and the secrets are as they are sent: a URL of
-- others' servers, which often contains a secret, and tokens.
create table channel (
  id          text    not null primary key check (length(id) = 16),  -- random, hex
  account     integer not null references account (number) on delete cascade,
  kind        text    not null check (kind in ('webhook', 'ntfy', 'slack', 'discord', 'apprise', 'feed', 'email')),
  name        text    not null,
  config      text    not null check (config like '{%}'),  -- url, topic, token, address
  quiet       text    check (quiet like '[%]'),            -- minutes from and to, time zone; null: none
  secret      text,                                        -- signing key of a webhook, token of a feed
  old_secret  text,                                        -- the one before it, which signs too until:
  old_secret_until_ms  integer,
  created_ms  integer not null,
  failing_since_ms  integer,                               -- null: the last attempt succeeded
  failures    integer not null default 0,                  -- notices that failed in a row
  last_error  text,
  paused_ms   integer,                                     -- null: notices are sent
  language    text    not null check (language in ('en', 'de', 'fr', 'es')),
  confirmed_ms  integer,                                   -- null: an address whose owner has not agreed, or has unsubscribed
  person      integer,                                     -- the one person whose channel it is; null: the account
  foreign key (account, person) references membership (account, person) on delete cascade
) strict, without rowid;

create index channel_of_account on channel (account);

-- The outbox (tally/notices/outbox.py): a row for each channel of a notice. Rows are deleted by age.
create table notice (
  number      integer primary key,
  key         text    not null unique,  -- what happened, and the channel: a second row of it is not stored
  account     integer not null,
  channel     text    not null references channel (id) on delete cascade,
  kind        text    not null,         -- such as server.problem
  priority    text    not null check (priority in ('normal', 'urgent')),
  created_ms  integer not null,
  due_ms      integer not null,
  expires_ms  integer not null,
  payload     text    not null check (payload like '{%}'),  -- title, text, path of a page, data
  message     integer,                  -- number of the first notice of the request with which it is sent
  attempts    integer not null default 0,
  state       text    not null check (state in ('waiting', 'sending', 'sent', 'failed', 'expired')),
  last_error  text,
  sent_ms     integer,
  website     integer references website (number) on delete cascade  -- null: not about one
) strict;

create index notice_of_channel on notice (channel, number);
create index notice_of_account on notice (account, number);
create index notice_of_website on notice (website) where website is not null;
create index notice_due on notice (channel, due_ms) where state = 'waiting';

-- Summaries of periods (tally/notices/reports.py). Websites and channels are ids.
create table report (
  id          text    not null primary key check (length(id) = 16),  -- random, hex
  account     integer not null references account (number) on delete cascade,
  websites    text    check (websites like '[%]'),  -- null: all of the account
  period      text    not null check (period in ('day', 'week', 'month')),
  hour        integer not null check (hour between 0 and 23),
  channels    text    not null check (channels like '[%]'),
  skip_empty  integer not null check (skip_empty in (0, 1)),  -- 1: nothing is sent about a period without visitors
  created_ms  integer not null,
  next_ms     integer not null,                               -- when the next is due
  person      integer,                                        -- the one person who has it; null: the account
  filters     text    not null default '[]' check (filters like '[%]'),  -- as in a query; of one website alone
  foreign key (account, person) references membership (account, person) on delete cascade
) strict, without rowid;

create index report_of_account on report (account);

-- Alerts of websites (tally/notices/alerts.py).
create table alert (
  id          text    not null primary key check (length(id) = 16),  -- random, hex
  website     integer not null references website (number) on delete cascade,
  kind        text    not null check (kind in ('spike', 'drop', 'silence', 'goal', 'new_source', 'quota')),
  params      text    not null check (params like '{%}'),  -- of the kind
  channels    text    check (channels like '[%]'),         -- ids; null: all channels of the account
  created_ms  integer not null,
  state       text    not null default 'ok' check (state in ('ok', 'firing')),
  since_ms    integer not null,                            -- beginning of the state
  judged_ms   integer,                                     -- end of the last hour that was looked at; null: none
  result      text    not null default 'waiting'           -- of that hour
    check (result in ('waiting', 'judged', 'not_judged', 'too_few_weeks', 'not_enough_traffic')),
  fired_ms    integer,                                     -- end of the hour for which it fired last; null: never
  snoozed_until_ms  integer                                -- null: never
) strict, without rowid;

create index alert_of_website on alert (website, created_ms);

-- What people and commands have changed (tally/accounts/audit.py): no IP address, no browser, no secret. A line is
-- written in the transaction of its change.
create table audit (
  number   integer primary key,
  account  integer,           -- null: what concerns the whole server
  ms       integer not null,
  person   integer references person (number) on delete set null,
  actor    text    not null,  -- email address at that time, `command line`, `server`, or of a deleted person `former member N`
  via      text    not null check (via in ('session', 'header', 'oidc', 'key', 'cli', 'system')),
  action   text    not null,
  website  text,              -- id, also of a deleted website
  target   text    not null,  -- name of what was changed
  detail   text    not null check (detail like '{%}')
) strict;

create index audit_of_account on audit (account, number);

-- Accepted events of all types by month of arrival (202611 is November 2026), for the plan's monthly limit.
create table account_usage (
  account  integer not null,
  month    integer not null,
  events   integer not null check (events >= 0),
  primary key (account, month)
) strict, without rowid;

-- The same by website, for accounts with a monthly limit: deleting a website gives its events back.
create table website_usage (
  website  integer not null,
  month    integer not null,
  events   integer not null check (events >= 0),
  primary key (website, month)
) strict, without rowid;

-- --- Deduplication

-- Events with an event_id that arrived within the last 72 hours, as keyed digests of event_id and content
-- (tally/sqlite/event_ids.py). A copy is accepted but not stored, and updates arrived_ms.
create table event_id (
  website     integer not null,
  minute_ms   integer not null,  -- the minute of arrival, if the event_id begins with a time of it; otherwise 0
  digest      blob    not null check (length(digest) = 16),
  arrived_ms  integer not null,  -- arrival of the newest copy
  row_ts      integer,           -- of a leave, its row in web_vitals, whose values later copies increase
  row_id      integer,
  primary key (website, minute_ms, digest)
) strict, without rowid;

-- For the deletion of expired rows. The others are found by minute_ms, which is the minute of arrived_ms.
create index event_id_without_time on event_id (arrived_ms) where minute_ms = 0;

-- Imported lines that had an id, so that a line that is imported again is not stored again
-- (tally/transfer/line_format.py). Expires with raw events. Clustered by time, because files are mostly sorted by it.
create table import_id (
  website  integer not null,
  ts       integer not null,
  digest   integer not null,  -- 64 bits, keyed: the line's id and type, and its visitor or values
  import   integer not null,  -- number of the import that stored the line
  primary key (website, ts, digest)
) strict, without rowid;

-- --- Imports

-- Imports of files, one row each (tally/storage/import_records.py).
create table import (
  website     integer not null,
  number      integer not null check (number > 0),  -- counts the imports of the website
  format      text    not null,                     -- name of a row of IMPORTERS, as digest identifies the file
  digest      text    not null,                     -- '' where the file cannot be read again
  file        text    not null,                     -- name of the file, for lists
  state       text    not null check (state in ('running', 'interrupted', 'complete', 'undoing', 'undone',
                                                     'following')),
  begun_ms    integer not null,
  changed_ms  integer not null,                     -- of a running import: its newest transaction
  events      integer not null,                     -- stored lines of events
  duplicates  integer not null,
  rejected    integer not null,
  sums        integer not null,                     -- stored lines of imported sums
  crawls      integer not null,                     -- counted requests of crawlers
  skipped     text    not null check (skipped like '{%}'),  -- number of lines by reason
  first_day   integer,                              -- of what was stored, as last_day
  last_day    integer,
  position    integer not null,                     -- bytes of the file that were read, of size
  size        integer not null,
  progress    text,                                 -- JSON; null where there is nothing to continue
  primary key (website, number)
) strict, without rowid;

-- Ids of the events of imports: an id belongs to the range with the greatest first_id up to it, if it is below end_id.
create table import_range (
  website   integer not null,
  first_id  integer not null,
  end_id    integer not null check (end_id > first_id),
  import    integer not null,
  primary key (website, first_id)
) strict, without rowid;

-- Visits of visitors of whom several imports have events on one day, as they would be with the events of one import
-- alone, so that an import can be undone (tally/transfer/visit_merge.py). Columns: as in visit.
create table import_visit (
  website            integer not null,
  day                integer not null,
  visitor            integer not null,
  import             integer not null,
  visit              integer not null,
  start_ms           integer not null,
  duration_ms        integer not null check (duration_ms between 0 and 86400000),
  pageviews          integer not null,
  events             integer not null check (pageviews + events > 0),
  entry_page         integer not null,
  exit_page          integer not null,
  entry_after_ms     integer not null check (entry_after_ms between 0 and duration_ms),
  exit_before_ms     integer not null check (exit_before_ms between 0 and duration_ms),
  referrer           integer not null,
  utm_source         integer not null,
  utm_medium         integer not null,
  utm_campaign       integer not null,
  utm_content        integer not null,
  utm_term           integer not null,
  channel            integer not null,
  acquired_after_ms  integer not null check (acquired_after_ms between 0 and duration_ms),
  primary key (website, day, visitor, import, visit)
) strict, without rowid;

-- Deletions of events by filter, and rewriting of their paths by a rule, one row each
-- (tally/storage/deletion_records.py). Times are in website time.
create table deletion (
  website   integer not null,
  number    integer not null check (number > 0),  -- counts the deletions of the website
  kind      text    not null check (kind in ('delete', 'rewrite')),
  state     text    not null check (state in ('running', 'done', 'stopped')),
  begun_ms  integer not null,                     -- in UTC, as ended_ms
  ended_ms  integer,
  events    integer not null,                     -- that were to be deleted or to get another path
  changed   integer not null,                     -- that are deleted or have it
  from_ms   integer not null,                     -- events in [from_ms, to_ms)
  to_ms     integer not null,
  filters   text    not null check (filters like '[%]'),  -- field, operator and values of each
  rule      text    not null check (rule like '[%]'),     -- pattern and replacement of a path; empty: events are deleted
  last_id   integer not null,                     -- events with greater ids stay
  days      text    not null check (days like '[%]'),     -- with such events, by source; empty when it has ended
  progress  text,                                 -- JSON; null when it has ended
  has_texts integer not null default 1 check (has_texts in (0, 1)),  -- 0: texts that no event has any more are deleted
  primary key (website, number)
) strict, without rowid;

-- Imported sums (tally/rollups/imported_sums.py): figures of a day by value of a field, as another system exports them. A
-- day that has no events of the website is built from them. Which import they are of, and which figures it has.
create table imported_field (
  website  integer not null,
  field    integer not null check (field between 0 and 107),
  day      integer not null,  -- of the source's time zone
  import   integer not null,  -- number of the import
  figures  integer not null check (figures between 1 and 63),  -- bit n: the n-th figure of imported_sum
  primary key (website, field, day)
) strict, without rowid;

-- For whether a day has sums: where website = ? and day = ?
create index imported_field_by_day on imported_field (website, day);

-- A figure that the source does not have is 0.
create table imported_sum (
  website      integer not null,
  field        integer not null check (field between 0 and 107),
  day          integer not null,
  value        integer not null,  -- label; 0 for all traffic
  visitors     integer not null,
  visits       integer not null,
  pageviews    integer not null,
  events       integer not null,
  bounces      integer not null,
  duration_ms  integer not null,
  primary key (website, field, day, value)
) strict, without rowid;

-- --- Events

-- Every repeated text, once. The unique index maps a text to its id when events are stored and filters are applied.
create table label (
  id    integer primary key,
  text  text    not null unique
) strict;

insert into label (id, text) values (0, ''), (1, 'Direct');

-- Traffic: pageview 0, screen_view 1, event 2, app_event 3. Clustered by website and time: each report reads a range.
create table event (
  website       integer not null,
  ts            integer not null,
  id            integer not null,  -- grows with arrival, unique over event, web_vitals and experiment_event
  type          integer not null check (type >= 0),
  visitor       integer not null,  -- random, a new one each day
  visit         integer not null,  -- number of the visitor's visit that day: 0, 1, 2 ...
  pathname      integer not null,
  country       integer not null,
  browser       integer not null,
  os            integer not null,
  device        integer not null,
  language      integer not null,
  hostname      integer not null,
  platform      integer not null,
  app_version   integer not null,
  os_version    integer not null,
  browser_version  integer not null,
  region        integer not null,
  city          integer not null,
  event_name    integer not null,
  event_data    text    check (length(cast(event_data as blob)) <= 4096),  -- JSON; empty if stored in event_data_part
  primary key (website, ts, id)
) strict, without rowid;

-- The title that a page had when it was viewed last (tally/storage/page_titles.py). '' where that view had none.
create table page_title (
  website   integer not null,
  pathname  integer not null,
  title     text    not null check (length(title) <= 200),
  ts        integer not null,  -- of the pageview that brought it, in website time
  primary key (website, pathname)
) strict, without rowid;

-- For retention: where website = ? and ts < ?
create index page_title_by_time on page_title (website, ts);

-- event_data of more than 480 bytes, in parts (tally/storage/event_data.py).
create table event_data_part (
  number  integer primary key,  -- 16 times the event's id, plus 0 to 15
  text    text    not null check (length(cast(text as blob)) <= 480)
) strict;

-- Visits, updated in the transaction that stores their events. A visit belongs to the time at which it starts. What all
-- events of a visit have in common is here and not in table event (tally/storage/visit_rows.py).
create table visit (
  website            integer not null,
  day                integer not null,  -- the day of its events
  visitor            integer not null,
  visit              integer not null check (visit between 0 and 47),
  start_ms           integer not null,  -- timestamp of the first traffic event
  duration_ms        integer not null check (duration_ms between 0 and 86400000),  -- last traffic event minus first
  pageviews          integer not null,  -- pageviews and screen views
  events             integer not null check (pageviews + events > 0),  -- events and app events
  entry_page         integer not null,  -- pathname of the first pageview by (ts, id); 0: no pageview
  exit_page          integer not null,  -- pathname of the last pageview
  entry_after_ms     integer not null check (entry_after_ms between 0 and duration_ms),  -- start to first pageview
  exit_before_ms     integer not null check (exit_before_ms between 0 and duration_ms),  -- last pageview to end
  referrer           integer not null,  -- acquisition: of the first event, by (ts, id), which carries a referrer or a
  utm_source         integer not null,  -- UTM value, taken whole from that event
  utm_medium         integer not null,
  utm_campaign       integer not null,
  utm_content        integer not null,
  utm_term           integer not null,
  channel            integer not null,  -- follows from these (tally/events/channels.py)
  acquired_after_ms  integer not null check (acquired_after_ms between 0 and duration_ms),  -- start to that event
  primary key (website, day, visitor, visit)
) strict, without rowid;

-- Web vitals events. Metrics in microseconds, cls in millionths (`stored` in tally/rollups/web_vitals.py); null
-- if not sent. A row with time_on_page (milliseconds) and scroll_depth (thousandths of a percent) is of a leave, and has
-- no other metric.
create table web_vitals (
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
  browser_version  integer not null,
  region        integer not null,
  city          integer not null,
  utm_content   integer not null,
  utm_term      integer not null,
  channel       integer not null,
  lcp           integer check (lcp between 0 and 3600000000),
  inp           integer check (inp between 0 and 3600000000),
  fcp           integer check (fcp between 0 and 3600000000),
  ttfb          integer check (ttfb between 0 and 3600000000),
  cls           integer check (cls between 0 and 100000000),
  time_on_page  integer check (time_on_page between 0 and 1800000),
  scroll_depth  integer check (scroll_depth between 0 and 100000),
  primary key (website, ts, id)
) strict, without rowid;

-- Experiment events: ab_assign 6 and ab_convert 7. A conversion without a variant has the assigned one. Heatmap events
-- without points (5) are stored here too, with visitor 0, because they have dimensions only.
create table experiment_event (
  website       integer not null,
  ts            integer not null,
  id            integer not null,
  type          integer not null check (type >= 0),
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
  browser_version  integer not null,
  region        integer not null,
  city          integer not null,
  utm_content   integer not null,
  utm_term      integer not null,
  channel       integer not null,
  experiment    integer not null,
  variant       integer not null,
  goal          integer not null,
  value         real,
  primary key (website, ts, id)
) strict, without rowid;

-- --- Rollups: precomputed counts. rollup_state has which of their days and blocks are complete.

-- Totals of each quarter hour, updated in every transaction that stores traffic (tally/rollups/totals.py). A visit
-- counts in the quarter in which it starts.
create table total_15m (
  website            integer not null,
  quarter            integer not null,
  pageviews          integer not null,
  events             integer not null,  -- events and app events
  first_seen         integer not null,  -- visitors whose first event of the day is in the quarter
  last_seen          integer not null,  -- visitors whose last event of the day is in the quarter
  hour_visitors      integer not null,  -- visitors with an event in the 60 minutes from its start, cut at midnight
  visits             integer not null,
  bounces            integer not null,
  visit_pageviews    integer not null,  -- of the visits that start in the quarter, as visit_duration_ms
  visit_duration_ms  integer not null,
  primary key (website, quarter)
) strict, without rowid;

-- Counts by value of each field, as arrays of up to CHUNK values in ascending order, encoded by `encoded` in
-- tally/rollups/value_blocks.py: over blocks of 32 final days (level 5), and over single days whose events have expired
-- (level 0). field 100 is event_name, of events and app events only; 105 and 106 are the figures of visits by entry page
-- and exit page; value 0: visits without a pageview. With rowids, as day_column.
create table rollup_block (
  website      integer not null,
  field        integer not null check (field between 0 and 106),
  level        integer not null check (level in (0, 5)),
  block        integer not null,
  first_value  integer not null,
  content      blob    not null,
  primary key (website, field, level, block, first_value)
) strict;

-- The state of each day that has traffic (level 0): 0 stale, 1 open, 2 final, 3 kept (final, and raw events have
-- expired), 4 imported (no events; built from imported_sum). Of a block of days, and of a day of a goal: 1 is being built,
-- 2 final.
create table rollup_state (
  website          integer not null,
  kind             integer not null,  -- 0 traffic, others: saved_goal of goal_day
  level            integer not null,
  block            integer not null,
  state            integer not null check (state between 0 and 4),
  is_over          integer not null check (is_over in (0, 1)),  -- of a day: it has ended, and each late event changes version
  version          integer not null,  -- of a day: increases with every change of complete data; of a goal: as counted
  primary key (website, kind, level, block)
) strict, without rowid;

-- For days that are not final: where website = ? and kind = 0 and level = 0 and state < 2
create index rollup_state_unfinished on rollup_state (website, block) where kind = 0 and level = 0 and state < 2;

-- For days of imported sums: where website = ? and kind = 0 and level = 0 and state = 4
create index rollup_state_imported on rollup_state (website, block) where kind = 0 and level = 0 and state = 4;

-- Conversions of saved goals on final days (tally/rollups/goal_days.py), by value of each dimension. field 100 with value
-- 0: all conversions of the day. saved_goal: a number that follows from what the goal counts.
create table goal_day (
  website        integer not null,
  saved_goal     integer not null,
  field          integer not null check (field between 0 and 100),
  day            integer not null,
  value          integer not null,  -- label
  conversions    integer not null check (conversions > 0),
  visitors       integer not null,
  value_high     integer not null,  -- of the sum of values, in millionths: value_high * 10^9 + value_low
  value_low      integer not null check (value_low between 0 and 999999999),
  without_value  integer not null,
  primary key (website, saved_goal, field, day, value)
) strict, without rowid;

-- Stored days: traffic events and visits of past days by column (tally/columns/column_days.py), and web vitals and
-- experiment events (tally/columns/measurement_days.py). Those of final days have no rows in their tables any more
-- (tally/columns/deleted_rows.py), but for very large days; measurements that arrive later have, until they are
-- packed too.
-- The version of the day in rollup_state that was packed (0 of measurements), and LAYOUT of
-- tally/columns/statements.py at that time; of traffic events is 0 where the day could not be packed.
create table packed_day (
  website  integer not null,
  source   integer not null check (source between 0 and 2),  -- 0 traffic, 1 web_vitals, 2 experiment_event
  day      integer not null,
  version  integer not null,
  layout   integer not null,
  visits   integer not null,
  events   integer not null,
  raw_rows integer not null check (raw_rows between 0 and 2),  -- 0 deleted, 1 present, 2 present and to be kept
  checksum integer not null,                                   -- CRC-32 of the columns
  data_length integer,  -- characters of the different texts of event_data; null where event_data is not packed
  primary key (website, source, day)
) strict, without rowid;

-- The columns of stored days, encoded by `encoded` in tally/columns/format.py. field: a number of COLUMNS in
-- tally/columns/statements.py plus 200 times the source; of dimensions and event_name as in rollup. With rowids:
-- SQLite stores what exceeds 4 KB of a row in pages of its own, in a table without them what exceeds 1 KB.
create table day_column (
  website  integer not null,
  field    integer not null,
  day      integer not null,
  content  blob    not null,
  primary key (website, field, day)
) strict;

-- What is left of web vitals whose events have expired, by device and by pathname (tally/rollups/vitals_histogram.py).
-- label to count are columns, encoded as in day_column: a row for each metric and rounded value of a label. With rowids,
-- as day_column.
create table web_vitals_histogram (
  website  integer not null,
  day      integer not null,
  field    integer not null,  -- as in rollup
  events   integer not null,  -- number of events with a metric
  label    blob    not null,
  metric   blob    not null,  -- 0 lcp, 1 inp, 2 fcp, 3 ttfb, 4 cls, 5 time_on_page, 6 scroll_depth; 7: one value 0 for each event of web vitals
  value    blob    not null,
  count    blob    not null,
  primary key (website, day, field)
) strict;

-- The variant of each visitor in an experiment on a day: that of the first assignment by ts and id, in whatever
-- order assignments arrive (tally/rollups/experiments.py).
create table experiment_assignment (
  website     integer not null,
  day         integer not null,
  experiment  integer not null,
  visitor     integer not null,
  variant     integer not null,
  ts          integer not null,  -- of the assignment, as id
  id          integer not null,
  primary key (website, day, experiment, visitor)
) strict, without rowid;

-- The goals that each visitor has reached on a day.
create table experiment_conversion (
  website     integer not null,
  day         integer not null,
  experiment  integer not null,
  visitor     integer not null,
  goal        integer not null,
  primary key (website, day, experiment, visitor, goal)
) strict, without rowid;

-- Visitors of each day by assigned variant (converted 0, goal 0), and those of them that converted (1) by goal.
create table experiment_total (
  website     integer not null,
  day         integer not null,
  experiment  integer not null,
  variant     integer not null,
  converted   integer not null check (converted between 0 and 1),
  goal        integer not null,
  visitors    integer not null check (visitors > 0),
  primary key (website, day, experiment, variant, converted, goal)
) strict, without rowid;

-- Heatmap points that have not been packed yet, counted by cell (tally/rollups/heatmap_grid.py).
create table heatmap_point (
  website   integer not null,
  day       integer not null,
  pathname  integer not null,
  viewport  integer not null check (viewport between 0 and 2),  -- 0 mobile, 1 tablet, 2 desktop
  kind      integer not null check (kind between 0 and 1),      -- 0 click, 1 scroll
  bin_y     integer not null check (bin_y between 0 and 50000),
  bin_x     integer not null check (bin_x between 0 and 49),    -- 0 for scroll
  points    integer not null check (points > 0),
  primary key (website, day, pathname, viewport, kind, bin_y, bin_x)
) strict, without rowid;

-- Packed heatmap points of a page (tally/rollups/heatmaps.py): over days (level 0), and sums over blocks of 8 and 64
-- days (3 and 6) of pages with many. Clustered by page, because a heatmap shows one.
create table heatmap_block (
  website   integer not null,
  pathname  integer not null,
  band      integer not null check (band between 0 and 200),  -- 20-pixel rows / 250
  level     integer not null check (level in (0, 3, 6)),
  block     integer not null,
  mobile    blob    not null,  -- the cells of each viewport class, encoded by `packed` in heatmap_grid.py
  tablet    blob    not null,
  desktop   blob    not null,
  primary key (website, pathname, band, level, block)
) strict, without rowid;

-- The text of the element that was clicked last in a cell, where the page allows it (tally/storage/heatmap_texts.py).
create table heatmap_text (
  website   integer not null,
  pathname  integer not null,
  viewport  integer not null check (viewport between 0 and 2),  -- as in heatmap_point
  bin_y     integer not null check (bin_y between 0 and 50000),
  bin_x     integer not null check (bin_x between 0 and 49),
  text      text    not null check (length(text) between 1 and 80),
  ts        integer not null,  -- of the event with the click, in UTC
  primary key (website, pathname, viewport, bin_y, bin_x)
) strict, without rowid;

-- Number of packed points of each page, for the list of pages that have heatmaps.
create table heatmap_count (
  website          integer not null,
  level            integer not null check (level between 0 and 8),
  block            integer not null,
  pathname         integer not null,
  mobile_clicks    integer not null,
  mobile_samples   integer not null,  -- pageviews with a scroll depth
  tablet_clicks    integer not null,
  tablet_samples   integer not null,
  desktop_clicks   integer not null,
  desktop_samples  integer not null,
  primary key (website, level, block, pathname)
) strict, without rowid;

-- --- Limits and rejected events

-- Number of events that were rejected, by quarter hour of arrival and reason: a position in REASONS of
-- tally/ingest/rejected_events.py. Expires after 400 days.
create table rejected_event (
  website  integer not null,
  quarter  integer not null,
  reason   integer not null check (reason between 0 and 63),
  events   integer not null check (events > 0),
  primary key (website, quarter, reason)
) strict, without rowid;

-- The newest distinct examples of each reason, without data about the client.
create table rejected_sample (
  website     integer not null,
  reason      integer not null check (reason between 0 and 63),
  id          integer not null,                                -- grows with arrival
  arrived_ms  integer not null,                                -- arrival of the newest event like it, to the second
  type        integer check (type >= 0),                       -- null: not a known type
  field       text    not null,                                -- name of the field at fault, or ''
  detail      text    not null check (length(detail) <= 253),  -- host of a refused page, name of a crawler, or ''
  primary key (website, reason, id)
) strict, without rowid;

-- Pages that crawlers requested, by day of the website (tally/storage/crawler_days.py). Expires after 400 days.
create table crawler_day (
  website   integer not null,
  day       integer not null,
  crawler   integer not null,                                -- its name in the list; 0: it has none
  pathname  integer not null,
  source    integer not null check (source between 0 and 3),  -- 0 event, 1 pixel, 2 access log, 3 API
  import    integer not null,                                -- number of the import that counted them; 0: none
  requests  integer not null check (requests > 0),
  primary key (website, day, crawler, pathname, source, import)
) strict, without rowid;

-- Every value that a website has used in a field. A value without a row here is new (tally/storage/value_limits.py).
create table field_value (
  website  integer not null,
  field    integer not null check (field between 0 and 104),
  value    integer not null,  -- label
  primary key (website, field, value)
) strict, without rowid;

-- New values per website, day of arrival and field, and the events of which a value was stored as `(other)`
-- because the day's limit was reached. field 105 is event_data: its bytes, and the events stored without it. Expires
-- after 400 days.
create table new_value (
  website  integer not null,
  day      integer not null,
  field    integer not null check (field between 0 and 105),
  used     integer not null,  -- part of the limit that is used; a value counts once per 200 characters
  events   integer not null,
  primary key (website, day, field)
) strict, without rowid;
