"""The documentation agrees with the code: settings, routes, fields, codes, figures, commands, packages, links.

tests/api/test_doc_examples.py runs the examples of the pages.
"""

import argparse
import json
import re
from pathlib import Path
from typing import get_args

from clients.generate import DOCUMENT
from tally import clock, errors, timeranges
from tally.accounts import definitions, logins, passwords
from tally.accounts.audit import MORE
from tally.api import auth, badges, events, params, sharing, uploads, websites
from tally.cli import main
from tally.columns import deleted_rows
from tally.engine import values
from tally.events import identity, validation, visits
from tally.events.dimensions import FIELDS
from tally.events.validation import TYPES
from tally.http import body, connections, middleware
from tally.ingest import rejected_events
from tally.ingest.compat.formats import FORMATS
from tally.maintenance import retention
from tally.reports import event_data, experiments, heatmaps
from tally.rollups import goal_days, web_vitals
from tally.settings import SETTINGS, option_name, variable_name
from tally.sqlite import group_commit, realtime
from tally.storage import connections as readers
from tally.storage import disk_space, health, registry, value_limits
from tally.timestamps import DAY_MS, HOUR_MS
from tally.transfer import files
from tally.web import runner
from tally.web.routes import ROUTES
from tests.support.app import ROOT
from tests.support.cases import cases
from tests.support.endpoints import ENDPOINTS

DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / ".github").rglob("*.md"))
    if path.name != "CHANGELOG.md"
)
LINKED = [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "static").rglob("*.md"), *(ROOT / "tally").rglob("*.md")]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# README is an overview of two screens.
README_LINES = 160


def page(name: str) -> str:
    return (DOCS / name).read_text()


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@cases("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_documented_with_its_default(setting: object) -> None:
    rows = page("configuration.md").splitlines()
    row = next((line for line in rows if line.startswith(f"| `{option_name(setting)}`")), "")
    assert row, f"docs/configuration.md lacks {option_name(setting)}: add a row"
    assert variable_name(setting) in row, f"docs/configuration.md: add {variable_name(setting)} to the row {row!r}"
    default = setting.default
    shown = (
        ", ".join(default) or "none"
        if isinstance(default, tuple)
        else f"{default:,}"
        if isinstance(default, int) and setting.name != "port"
        else str(default or "none")
    )
    assert f"| {shown} |" in row, f"docs/configuration.md: the default, {shown}, is not in {row!r}"


COMPAT = {form.path for form in FORMATS}


READ = {"/api/v1/websites", *(endpoint.template for endpoint in ENDPOINTS)}


def page_of(method: str, path: str) -> str:
    """Return the page that documents a route."""
    if path.startswith(("/api/v1/channels", "/api/v1/notices", "/api/v1/reports")):
        return "reference/management-api.md"
    if path.startswith("/api/v1/websites") and (method != "GET" or path not in READ):
        return "reference/management-api.md"
    if path.startswith(("/api/account", "/api/share")):
        return "reference/account-api.md"
    if path in COMPAT or path.startswith(("/script", "/js/", "/count")):
        return "migrating-trackers.md"
    if path.startswith("/api/") or path in ("/healthz", "/metrics"):
        return "reference/collect-api.md" if path.endswith("/collect") else "reference/read-api.md"
    if path.startswith(("/feeds/", "/confirm/", "/unsubscribe/")):
        return "notifications.md"
    if path == "/mcp" or "oauth" in path:
        return "mcp.md"
    return "tracker.md" if path.startswith(("/tracker", "/pixel")) else "dashboard.md"


@cases("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_is_documented(route: object) -> None:
    path = re.sub(r"{(\w+)}", r":\1", route.path)
    name = page_of(route.method, route.path)
    text = page(name).replace("/top/pathname", "/top/:field")
    assert re.search(rf"{re.escape(path)}(?![\w/-])", text), f"docs/{name} must describe {path}"


def test_every_type_and_dimension_is_documented() -> None:
    text = page("reference/collect-api.md")
    lacking = [name for name in (*TYPES, *FIELDS) if f"`{name}`" not in text]
    assert lacking == [], f"add to docs/reference/collect-api.md: {lacking}"


def test_every_error_code_is_documented() -> None:
    codes = {kind.code: kind for kind in vars(errors).values() if isinstance(kind, errors.Kind)}
    assert len(codes) > 30
    text, of_pages = page("reference/errors.md"), page("reference/account-api.md")
    lacking = [
        code for code, kind in codes.items() if f"`{code}`" not in (of_pages if kind in errors.OF_PAGES else text)
    ]
    assert lacking == [], f"add to docs/reference/errors.md, or account-api.md for errors.OF_PAGES: {lacking}"


def test_every_rejection_code_is_documented() -> None:
    """The codes are those of openapi.yaml, which tests compare with what the server sends."""
    codes = DOCUMENT["components"]["schemas"]["EventErrorCode"]["enum"]
    section = page("reference/errors.md").split("## Rejected events")[1].split("\n## ")[0]
    lacking = [code for code in codes if f"| `{code}` |" not in section]
    assert lacking == [], f"add to docs/reference/errors.md, section Rejected events: {lacking}"


def test_every_package_is_described() -> None:
    packages = [path.parent.name for path in (ROOT / "tally").glob("*/__init__.py")]
    text = page("architecture.md")
    lacking = [name for name in packages if f"`tally/{name}/`" not in text]
    assert lacking == [], f"add to the table of docs/architecture.md: {lacking}"


def test_every_command_is_documented() -> None:
    text = page("cli.md")
    found = [" ".join(words) for words in command_words()]
    assert {"serve", "help", "account list", "website remove", "key revoke"} <= set(found)
    lacking = [words for words in found if not re.search(rf"(`|### |server |, ){re.escape(words)}\b", text)]
    assert lacking == [], f"add to docs/cli.md: {lacking}"


def command_words(parser: argparse.ArgumentParser | None = None, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return every command with its subcommands, from the parser."""
    parser = parser or main._parser()
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not nested:
        return [before]
    return [words for name, own in nested[0].choices.items() for words in command_words(own, (*before, name))]


@cases("source", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_has_a_target(source: Path) -> None:
    """Relative links and their anchors; external links are not checked."""
    text = FENCED.sub("", source.read_text())
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", text):
        link = target[0] or target[1]
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        path = (source.parent / name).resolve() if name else source
        if not path.exists() or (anchor and anchor not in anchors(path.read_text())):
            broken.append(link)
    assert broken == []


def test_the_index_lists_every_page() -> None:
    index = page("README.md")
    names = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if path.name != "README.md"]
    index += page("deployment.md")
    decisions = page("decisions/README.md")
    lacking = [
        name for name in names if f"({name})" not in index and f"({name.removeprefix('decisions/')})" not in decisions
    ]
    assert lacking == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


def test_the_readme_has_the_two_commands_that_ci_runs() -> None:
    """.ci/run takes the first two blocks marked sh: how to start, how to run the tests."""
    start, test = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert start.rstrip().endswith(" && .venv/bin/analytics-server")
    assert "pytest" in test


def test_the_changelog_has_the_version_of_pyproject() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text()


@cases("source", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_named_file_exists(source: Path) -> None:
    named = re.findall(r"`((?:tally|tests|static|deploy|docs|bench|\.ci|\.github)/[\w./-]*)`", source.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_named_in_the_code_exists() -> None:
    suffixes = (".py", ".js", ".sql", ".c", ".toml", ".yaml", ".service", ".socket", ".sh")
    sources = [path for path in tracked_files() if path.suffix in suffixes]
    assert len(sources) > 200
    named = {(path, name) for path in sources for name in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text())}
    assert len(named) > 20
    assert [(str(path.relative_to(ROOT)), name) for path, name in named if not (ROOT / name).exists()] == []


def tracked_files() -> list[Path]:
    """Return the files of the repository, without generated ones."""
    names = ("tally", "tests", "static", "deploy", "docs", "bench")
    found = [path for name in names for path in (ROOT / name).rglob("*") if path.is_file()]
    return [path for path in found if not {"node_modules", "__pycache__", "vendor"} & set(path.parts)]


def test_snippets_are_those_of_the_pages() -> None:
    """docs/snippets.md has a section of the name of each snippet, with its place and its code."""
    text, known = page("snippets.md"), json.loads((ROOT / "static" / "shared" / "snippets.json").read_text())
    for snippet in known["snippets"]:
        assert f"\n## {snippet['name']}\n" in text, f"add {snippet['name']} to docs/snippets.md"
        section = text.split(f"\n## {snippet['name']}\n")[1].split("\n## ")[0]
        assert f"\n{snippet['code']}\n```" in section, f"docs/snippets.md: another code for {snippet['name']}"
        for place in re.split(" → |, ", snippet.get("file") or snippet.get("menu") or "<head>"):
            assert place in section, f"docs/snippets.md: {snippet['name']} is added to {place}"


# How docs/privacy.md writes each dimension.
IN_PRIVACY = dict.fromkeys(
    ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term"), "five UTM values"
) | {
    **{"pathname": "path", "hostname": "host", "referrer": "referrer's host", "channel": "the channel"},
    **{"browser": "browser", "browser_version": "browser and its major version", "os": "operating system"},
    **{"os_version": "operating system and its version", "device": "device type", "language": "language"},
    **{"country": "country", "region": "region", "city": "city", "platform": "platform", "app_version": "app version"},
}


def test_the_privacy_page_names_every_dimension() -> None:
    (row,) = [line for line in page("privacy.md").splitlines() if line.startswith("| per event:")]
    assert [name for name in FIELDS if IN_PRIVACY.get(name, name) not in row] == []


def test_the_privacy_page_names_what_the_tracker_reads_of_the_browser() -> None:
    scripts = [ROOT / "static" / "tracker.js", *(ROOT / "static" / "tracker").glob("*.js")]
    source = "".join(path.read_text() for path in scripts)
    found = {*re.findall(r"navigator\??\.(\w+)", source), *re.findall(r"\b\w+Storage\b", source)}
    assert found > {"localStorage", "sessionStorage", "userAgent"}
    text = page("privacy.md")
    # Locks read nothing of the browser.
    assert [name for name in sorted(found - {"locks"}) if name not in text] == []


MIB = 1_048_576
# Sentences of the pages, with the figures of the code.
FIGURES = (
    ("architecture.md", f"at most {group_commit.MAX_GROUP_EVENTS:,} events, and writes it in one transaction"),
    ("architecture.md", f"read them again, at most {1 / registry.REFRESH_S:.0f} times per second"),
    ("architecture.md", f"at most {realtime.MAX_WEBSITES} websites and {realtime.MAX_VISITORS:,} visitors"),
    ("backup.md", f"The minimum is {retention.MIN_KEEP_DAYS} days"),
    ("decisions/columns-of-days.md", f"days of more than {deleted_rows.MAX_EVENTS:,} events"),
    ("embedding.md", f"once in {sharing.ACCESS_LASTS_MS // HOUR_MS} hours"),
    ("embedding.md", f"| 1 to {badges.MAX_LABEL_CHARACTERS} printable characters |"),
    ("embedding.md", f"`Cache-Control: public, max-age={badges.LASTS_S}`"),
    (
        "importing.md",
        f"to more than {files.MAX_RATIO} times its size, and more than {files.RATIO_FREE_BYTES // MIB} MiB",
    ),
    ("importing.md", f"is at most {files.MAX_LINE_BYTES // MIB} MiB long"),
    ("monitoring.md", f"if a check of {health.START_CHECK_S} seconds at most finds the damage"),
    ("monitoring.md", f"that does not respond for {health.STUCK_S:.0f} seconds"),
    ("monitoring.md", f"after the server has run with it for {clock.CONFIRMED_AFTER_MS // HOUR_MS} hours"),
    ("reference/account-api.md", f"(at most {uploads.MAX_PIECE_BYTES:,} bytes"),
    ("reference/account-api.md", f"at most {websites.MAX_ORIGINS} origins"),
    ("reference/collect-api.md", f"a batch of 1 to {validation.MAX_EVENTS} events"),
    (
        "reference/collect-api.md",
        f"at most {middleware.MAX_DRAINED_BYTES // MIB} MiB, for at most {middleware.DRAIN_S:.0f} s",
    ),
    ("reference/collect-api.md", f"At most {validation.OLDEST_MS // HOUR_MS} hours old. Up to"),
    ("reference/collect-api.md", f"Up to {validation.AHEAD_MS // 60_000} minutes ahead counts as now"),
    ("reference/collect-api.md", f"at most {validation.MAX_EVENT_DATA_BYTES:,} bytes as compact UTF-8 JSON"),
    ("reference/definitions.md", f"no gap is longer than {visits.VISIT_GAP_MS // 60_000} minutes"),
    ("reference/definitions.md", f"at most {identity.KEPT_PAST_DAY_MS // HOUR_MS} hours past the end of their day"),
    ("reference/definitions.md", f"below {goal_days.MAX_VALUE:,}."),
    ("reference/limits.md", f"| body | {validation.MAX_BODY_BYTES:,} bytes |"),
    ("reference/limits.md", f"| events in a request | {validation.MAX_EVENTS} |"),
    ("reference/limits.md", f"| events waiting to be written | {group_commit.MAX_QUEUED_EVENTS:,} |"),
    ("reference/limits.md", f"| half, at least {value_limits.MIN_SHARE} |"),
    ("reference/limits.md", f"at most {value_limits.MAX_SHARES:,} combinations"),
    ("reference/limits.md", f"A value of more than {value_limits.CHARACTERS_A_VALUE} characters counts once per"),
    ("reference/limits.md", f"or {disk_space.MIN_FREE_SHARE:.0%} of the".replace("%", " percent")),
    ("reference/limits.md", f"| rows of a list | {params.MAX_ROWS:,} |"),
    ("reference/limits.md", f"| buckets of a time series | {timeranges._MAX_BUCKETS:,} |"),
    ("reference/limits.md", f"{readers.LINK_SECONDS:.0f} seconds each"),
    ("reference/limits.md", f"{readers.MAX_WAITING_OF_LINK} waiting per link"),
    ("reference/limits.md", f"| {connections.HEAD_S:.0f} seconds from its first byte |"),
    ("reference/limits.md", f"| {body.BODY_S:.0f} seconds; {body.MAX_CONCURRENT_BODIES:,} incomplete at once |"),
    (
        "reference/limits.md",
        f"{connections.STALLED_S:.0f} seconds without a byte, {connections.RESPONSE_S:.0f} seconds in all",
    ),
    ("reference/limits.md", f"| {connections.MAX_HEADS_BYTES // MIB} MB each |"),
    ("reference/limits.md", f"| {connections.MAX_UNREAD_BYTES // MIB} MB each |"),
    (
        "reference/limits.md",
        f"{runner.RUNNER_OPTIONS['max_line_size']:,} bytes; {runner.RUNNER_OPTIONS['max_field_size']:,} bytes; 128",
    ),
    ("reference/read-api.md", f"At most {params.MAX_FILTERS} filters"),
    ("reference/read-api.md", f"up to {params.MAX_PARTS} values each"),
    ("reference/read-api.md", f"`offset` (0 to {params.MAX_OFFSET:,})"),
    ("reference/read-api.md", f"very long texts ({events.MAX_PAGE_CHARACTERS // 10**6} million characters)"),
    ("reference/read-api.md", f"in the last {realtime.WINDOW_MS // 1_000} seconds"),
    ("reference/read-api.md", f"at most {realtime.MAX_PAGES} pages"),
    ("reference/read-api.md", f"relative error of at most {web_vitals.RELATIVE_ERROR:.0%}".replace("%", " %")),
    (
        "reference/read-api.md",
        f"At most {experiments.MAX_EXPERIMENTS} experiments, with at most {experiments.MAX_VARIANTS} variants",
    ),
    ("reference/read-api.md", f"and {experiments.MAX_GOALS} goals each"),
    ("reference/read-api.md", f"more than {experiments.MAX_ROWS:,} counts in the range"),
    ("reference/read-api.md", f"If more than {heatmaps.MAX_CELLS:,} cells were clicked"),
    ("reference/read-api.md", f'"bins_x": {values.BINS_X}, "bin_height": {values.BIN_HEIGHT_PX},'),
    ("reference/read-api.md", f"`steps` is 1 to {values.MAX_JOURNEY_STEPS}, default 3"),
    ("reference/read-api.md", f"the first {event_data.MAX_PROPERTIES} by events"),
    ("reference/read-api.md", f"up to {event_data.MAX_BYTES // 10**6} MB of distinct values"),
    ("reference/read-api.md", f"Days are kept for {rejected_events.KEPT_DAYS} days"),
    ("reference/read-api.md", f"samples for {rejected_events.SAMPLES_KEPT_DAYS} days"),
    ("reference/read-api.md", f"| {definitions.MAX_OF_KIND['annotation']:,} |"),
    ("privacy.md", f"| {rejected_events.KEPT_DAYS} days; {rejected_events.SAMPLES_KEPT_DAYS} days |"),
    ("sign-in.md", f"Passwords have {passwords.MIN_CHARACTERS} to {passwords.MAX_CHARACTERS} characters"),
    ("sign-in.md", f"({passwords.MEMORY_KIB // 1_024} MiB, {passwords.PASSES} passes, {passwords.LANES} lane:"),
    ("sign-in.md", f"more than {auth.MAX_WAITING} attempts waiting to be checked"),
    ("sign-in.md", f"at most {logins.MAX_OF_PERSON} sessions"),
    ("sign-in.md", f"SameSite=Lax, {logins.LASTS_MS // DAY_MS} days from the last visit"),
)


@cases("figure", FIGURES, ids=lambda figure: f"{figure[0]}: {figure[1][:60]}")
def test_figures_of_the_pages_are_those_of_the_code(figure: tuple[str, str]) -> None:
    name, sentence = figure
    assert sentence in " ".join(page(name).split()), f"docs/{name} should have: {sentence}"


def test_pages_install_files() -> None:
    """No package registry has the releases yet: anyone could register the name that a page installs from there."""
    pages = [*PAGES, *(ROOT / "clients").glob("*/README.md")]
    text = "\n".join(path.read_text() for path in pages)
    installed = re.findall(r"\b(?:pip|npm) install ([^`\n]+)", text)
    assert len(installed) > 10
    names = [word.strip("'\"") for words in installed for word in words.split(" && ")[0].split()]
    assert [name for name in names if re.match("(tally|@tally)", name)] == []


def test_each_action_of_the_audit_log_has_words() -> None:
    """On the page Activity, and in docs/audit.md."""
    sources = "".join(path.read_text() for path in (ROOT / "tally").rglob("*.py"))
    actions = {*re.findall(r'\bEntry\(\s*"(\w+)"', sources), "person_limited", "person_role_changed", MORE}
    assert len(actions) > 25
    saved = {f"{kind}_{verb}" for kind in get_args(definitions.Kind) for verb in ("created", "changed", "deleted")}
    page = (ROOT / "static/account/activity_section.js").read_text()
    # The command `audit` alone shows what concerns the whole server.
    of_server = {"backup_failed", "database_restored", "database_upgraded", "settings_changed"}
    assert set(re.findall(r'^  (\w+): t\("did_', page, re.MULTILINE)) == actions - of_server | saved
    documented = (ROOT / "docs/audit.md").read_text()
    assert [action for action in sorted(actions) if f"`{action}`" not in documented] == []


def test_messages_of_the_runbook_are_those_of_the_code() -> None:
    """What an operator searches for is in the source as it stands."""
    rows = [line for line in page("runbook.md").splitlines() if line.startswith("| ")]
    seen = {text for row in rows for text in re.findall(r"`([^`]+)`", row.split(" | ")[0]) if " " in text}
    source = "".join(path.read_text() for path in (ROOT / "tally").rglob("*.py"))
    unknown = {text for text in seen if re.sub(r"\b\d+\b", "%d", text) not in source and text not in source}
    assert {
        text for text in unknown if not text.startswith(("refused a statement", "cluster ", "code ", "SQLite answers"))
    } == set()
