"""Goals in a website's settings and on its dashboard, and saved funnels: saved, shown, chosen, changed, deleted."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import violations, violations_in_each_scheme
from tests.browser.browsers import OpenPage
from tests.browser.history import SampleServer

pytestmark = pytest.mark.usefixtures("journeys")


def names(site: SampleServer, path: str) -> list[str]:
    return [row["name"] for row in site.ask(path)["data"]]


def bottom(locator: Any) -> float:
    """Return the lower edge of an element."""
    box = locator.bounding_box()
    return float(box["y"] + box["height"])


def add_goal(site: SampleServer, page: Any) -> None:
    """Add a goal of the event signup in the settings."""
    page.goto(f"{site.url}/websites/{site.website}/settings/goals")
    page.get_by_role("button", name="Add goal").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Add goal").click()
    expect(dialog.get_by_text("Enter a name.")).to_be_visible()
    dialog.get_by_label("Name", exact=True).fill("Signup")
    dialog.get_by_role("button", name="Add goal").click()
    expect(dialog.get_by_text("Enter a name or a path.")).to_be_visible()
    dialog.get_by_label("Name or path").fill("signup")
    dialog.get_by_role("button", name="Add goal").click()
    expect(page.get_by_role("button", name="Edit Signup")).to_be_visible()


def test_a_goal_from_the_settings_to_the_lists(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    add_goal(site, page)
    assert violations(page) == []
    (own,) = site.ask("goals")["data"]
    assert (own["type"], own["match"]) == ("event", ["filter_event_name=signup"])

    page.goto(f"{site.url}/websites/{site.website}?period=7d")
    goal = page.locator(".goal")
    expect(goal).to_contain_text("Signup")
    expect(goal.locator(".goal-count")).to_have_text("10")
    goal.click()
    expect(goal).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile(f"goal={own['id']}"))
    first = page.locator(".card-pages .bar").first
    expect(first.locator(".bar-aside")).to_have_text(re.compile("%"))
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert violations(page) == []
    # The sample's signups are on one page; the other rows of pages say that their rate is of the page itself.
    pages, note = page.locator(".card-pages"), page.locator(".card-pages .list-note")
    expect(pages.locator(".columns")).to_contain_text("Converted here")
    expect(note).to_contain_text("counts for the page on which it happened")
    expect(page.locator(".card-sources .columns")).to_have_text(re.compile("^Converted"))
    expect(page.locator(".list-note")).to_have_count(1)
    first.hover()
    expect(page.locator(".hint")).to_contain_text("conversion rate on this page")
    pages.get_by_role("button", name="All pages").click()
    expect(page.get_by_role("dialog").get_by_role("columnheader", name="Conversion rate here")).to_be_visible()
    page.keyboard.press("Escape")
    pages.get_by_role("tab", name="Entry").click()
    expect(pages.locator(".columns")).to_have_text(re.compile("^Converted(?! here)"))
    expect(note).to_have_count(0)
    pages.get_by_role("tab", name="Pages").click()
    goal.press("Enter")
    expect(goal).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".card-pages .columns", has_text="Converted")).to_have_count(0)

    page.goto(f"{site.url}/websites/{site.website}/settings/goals")
    page.get_by_role("button", name="Edit Signup").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name or path")).to_have_value("signup")
    dialog.get_by_label("Name", exact=True).fill("Registration")
    dialog.get_by_role("button", name="Save goal").click()
    page.get_by_role("button", name="Edit Registration").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete goal").click()
    expect(page.get_by_text("No goals yet.")).to_be_visible()
    assert names(site, "goals") == []


def test_mistakes_in_a_goal_are_shown_at_their_fields(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    page.goto(f"{site.url}/websites/{site.website}/settings/goals")
    page.get_by_role("button", name="Add goal").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Operator").locator("option:checked")).to_have_text("is")
    dialog.get_by_label("Name", exact=True).fill("Signup")
    dialog.get_by_label("Name or path").fill("signup")
    currency = dialog.get_by_label("Currency")
    currency.fill("eur")
    dialog.get_by_role("button", name="Add goal").click()
    expect(currency).to_have_accessible_description(re.compile("^! A currency needs a value. Enter a value, or leave"))
    currency.fill("eu")
    dialog.get_by_label("Value").fill("price")
    dialog.get_by_role("button", name="Add goal").click()
    expect(currency).to_have_accessible_description(re.compile("^! A currency is a code of three letters"))
    currency.fill("eur")
    dialog.get_by_label("Value").fill("price")
    dialog.get_by_role("button", name="Add goal").click()
    page.get_by_role("button", name="Edit Signup").click()
    expect(currency).to_have_value("EUR")
    # The dialog shows all of its content.
    button = dialog.get_by_role("button", name="Save goal")
    assert dialog.bounding_box()["y"] + dialog.bounding_box()["height"] - bottom(button) >= 20
    # Without a value, the currency that it begins with is not saved.
    dialog.get_by_label("Value").fill("")
    button.click()
    expect(page.get_by_text("Goal saved.")).to_be_visible()
    (own,) = site.ask("goals")["data"]
    assert (own["value"], own["currency"]) == (None, None)
    page.problems.discard("status of 400")


@pytest.mark.parametrize(
    ("locale", "words"),
    [
        (
            "en-GB",
            ["A currency is a code", "The name of a property", "The filters are not valid", "has at most 100 goals"],
        ),
        (
            "de-DE",
            ["Eine Währung ist ein", "Der Name einer Eigenschaft", "Die Filter sind nicht", "höchstens 100 Ziele"],
        ),
        (
            "fr-FR",
            ["Une devise est un code", "Le nom d’une propriété", "Les filtres ne sont pas", "a au plus 100 objectifs"],
        ),
        (
            "es-ES",
            ["Una moneda es un", "El nombre de una propiedad", "Los filtros no son", "como máximo 100 objetivos"],
        ),
    ],
)
def test_what_the_server_refuses_is_said_in_the_language_of_the_page(
    site: SampleServer, open_page: OpenPage, locale: str, words: list[str]
) -> None:
    """Currency, property, filters, and the number of goals, which is the server's answer to the last request."""
    page = site.log_in(open_page(locale=locale, viewport={"width": 390, "height": 900}))
    page.problems.ignore("status of 4")
    page.goto(f"{site.url}/websites/{site.website}/settings/goals")
    page.locator(".gap-above button").click()
    dialog = page.get_by_role("dialog")
    text, value, currency = (dialog.locator(f"[name={name}]") for name in ("text", "value", "currency"))
    submit = dialog.locator("[type=submit]")
    dialog.locator("[name=name]").fill("Refused")
    text.fill("signup")
    value.fill("price")
    currency.fill("eu")
    submit.click()
    expect(currency).to_have_accessible_description(re.compile(words[0]))
    assert violations_in_each_scheme(page) == []
    currency.fill("")
    value.fill("x" * 201)
    submit.click()
    expect(value).to_have_accessible_description(re.compile(words[1]))
    value.fill("")
    text.fill("x" * 9_000)
    submit.click()
    expect(dialog).to_contain_text(words[2])
    text.fill("signup")
    path = f"{site.url}/api/account/websites/{site.website}/goals"
    goal = {"name": "One", "type": "event", "match": ["filter_event_name=one"], "value": None, "currency": None}
    headers = {"Sec-Fetch-Site": "same-origin"}
    while page.request.post(path, data=goal, headers=headers).status == 201:
        pass
    submit.click()
    expect(dialog).to_contain_text(words[3])


@pytest.mark.parametrize(
    ("locale", "width", "words"),
    [
        ("en-GB", 1280, ["Add goal", "Name or path", "Value", "Filter", "Country is Germany"]),
        ("de-DE", 390, ["Ziel hinzufügen", "Name oder Pfad", "Wert", "Filter", "Land ist Deutschland"]),
        ("fr-FR", 1280, ["Ajouter un objectif", "Nom ou chemin", "Valeur", "Filtre", "Pays est Allemagne"]),
        ("es-ES", 390, ["Añadir objetivo", "Nombre o ruta", "Valor", "Filtro", "País es Alemania"]),
    ],
)
def test_a_goal_is_written_by_keyboard_from_what_has_arrived(
    site: SampleServer, open_page: OpenPage, locale: str, width: int, words: list[str]
) -> None:
    add, name_or_path, value, filter_, chip = words
    page = site.log_in(open_page(locale=locale, viewport={"width": width, "height": 900}))
    page.goto(f"{site.url}/websites/{site.website}/settings/goals")
    page.get_by_role("button", name=add, exact=True).press("Enter")
    form = page.get_by_role("dialog")
    expect(form.locator("[name=name]")).to_be_focused()
    page.keyboard.type("Orders")
    expect(form.locator("#goal-names option[value=signup]")).to_have_count(1)
    assert form.get_by_label(name_or_path).get_attribute("list") == "goal-names"
    form.get_by_label(name_or_path).focus()
    page.keyboard.type("signup")
    form.get_by_label(value).focus()
    expect(form.locator("#goal-properties option[value=price]")).to_have_count(1)
    page.keyboard.type("price")
    form.get_by_role("button", name=filter_, exact=True).press("Enter")
    dialog = page.get_by_role("dialog").last
    expect(dialog.locator("#filter-field option[value=goal]")).to_have_count(0)
    dialog.locator("#filter-field").select_option("country")
    dialog.locator("#filter-value").fill("DE")
    page.keyboard.press("Enter")
    expect(form.locator(".chip")).to_have_text(chip)
    assert violations_in_each_scheme(page) == []
    form.locator("[name=name]").press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    row = page.locator("#main li").filter(has_text="Orders")
    expect(row).to_contain_text(chip)
    (own,) = site.ask("goals")["data"]
    assert (own["match"], own["value"]) == (["filter_event_name=signup", "filter_country=DE"], "price")
    # The names of the other type, and the filters that it has.
    row.get_by_role("button").press("Enter")
    expect(form.locator(".chip")).to_have_text(chip)
    form.locator("[name=type]").select_option("page")
    expect(form.locator("#goal-names option[value='/pricing']")).to_have_count(1)
    expect(form.locator("#goal-names option[value=signup]")).to_have_count(0)


def test_a_funnel_is_saved_shown_and_deleted(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page(viewport={"width": 390, "height": 844}))
    page.goto(f"{site.url}/websites/{site.website}/funnels?step=pathname:/&step=event_name:signup")
    expect(page.locator(".step")).to_have_count(2)
    page.get_by_role("button", name="Save funnel").click()
    page.get_by_role("dialog").get_by_label("Name").fill("Signups")
    page.get_by_role("dialog").get_by_role("button", name="Save funnel").click()
    expect(page.get_by_role("button", name="Signups", exact=True)).to_be_visible()
    assert names(site, "funnels") == ["Signups"]

    page.goto(f"{site.url}/websites/{site.website}/funnels")
    page.get_by_role("button", name="Signups", exact=True).click()
    expect(page.locator(".step")).to_have_count(2)
    assert violations(page) == []
    page.get_by_role("button", name="Delete Signups").click()
    page.get_by_role("button", name="Delete funnel").click()
    expect(page.get_by_role("button", name="Signups", exact=True)).to_have_count(0)
    assert names(site, "funnels") == []


def add_by_api(site: SampleServer, page: Any, **fields: Any) -> str:
    """Save a goal and return its id."""
    answer = page.request.post(
        f"{site.url}/api/account/websites/{site.website}/goals",
        data={"value": None, "currency": None} | fields,
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    assert answer.status == 201, answer.text()
    return str(answer.json()["data"]["id"])


def test_settings_say_from_which_property_a_goal_has_its_value(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page())
    match = ["filter_event_name=order"]
    add_by_api(site, page, name="Order", type="event", match=match, value="value", currency="EUR")
    page.goto(f"{site.url}/websites/{site.website}/settings/goals")
    row = page.get_by_role("listitem").filter(has_text="Order")
    expect(row).to_contain_text("Event: Event name is order, value from the property value, in EUR")
    last, button = row.bounding_box(), page.get_by_role("button", name="Add goal").bounding_box()
    assert button["y"] >= last["y"] + last["height"] + 8


def test_a_goal_is_a_step_of_a_funnel(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page(viewport={"width": 390, "height": 844}))
    goal = add_by_api(site, page, name="Joined", type="event", match=["filter_event_name=signup"])
    page.goto(f"{site.url}/websites/{site.website}/funnels?period=7d&step=pathname:/")
    page.get_by_role("button", name="Add step").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("radio", name="Goal").check()
    expect(dialog.locator(".suggestions .bar")).to_have_text("Joined10 visitors")
    assert violations(page) == []
    # What is typed has to be a goal's name.
    dialog.get_by_label("Goal", exact=True).last.fill("join")
    dialog.get_by_role("button", name="Add step").click()
    expect(dialog.locator(".suggestions .bar")).to_have_count(1)
    dialog.get_by_label("Goal", exact=True).last.fill("joined")
    dialog.get_by_role("button", name="Add step").click()
    expect(page).to_have_url(re.compile(f"step=goal:{goal}"))
    step = page.locator(".step").last
    expect(step).to_have_attribute("data-visits", "10")
    expect(step.locator(".step-name")).to_have_text("Goal Joined")
    expect(page.get_by_role("button", name="Remove this step: Joined")).to_be_visible()
    page.get_by_text("Table of this funnel").click()
    expect(page.locator("tbody th").last).to_have_text("2. Joined")

    # The name comes with the page too, and a deleted goal can be removed from the steps.
    page.reload()
    expect(step.locator(".step-name")).to_have_text("Goal Joined")
    page.request.delete(
        f"{site.url}/api/account/websites/{site.website}/goals/{goal}", headers={"Sec-Fetch-Site": "same-origin"}
    )
    page.reload()
    expect(page.locator(".notice")).to_contain_text("must be followed by the id of a goal")
    page.get_by_role("button", name="Remove this step: (deleted goal)").click()
    expect(page.locator(".step")).to_have_count(1)
    page.problems.discard("status of 400")


def test_filters_on_events_and_goals_count_conversions(site: SampleServer, open_page: OpenPage) -> None:
    page = site.log_in(open_page(timezone_id="UTC"))
    dashboard = f"{site.url}/websites/{site.website}?period=7d"
    page.goto(f"{dashboard}&filter_event_name=signup&figure=pageviews")
    figure = page.locator("[data-figure=events]")
    expect(figure).to_contain_text("Conversions")
    expect(figure).to_have_attribute("data-value", "10")
    # The chart shows them in place of the pageviews that there are not.
    expect(figure).to_have_attribute("aria-pressed", "true")
    expect(page.locator("[data-figure=pageviews]")).to_have_count(0)
    expect(page.locator(".legend-item").first).to_contain_text("Conversions, ")
    page.get_by_text("Table of this chart").click()
    heads = page.locator(".series-table thead th")
    expect(heads.first).to_be_visible()
    assert heads.all_inner_texts()[:4] == ["Day", "Visitors", "Visits", "Conversions"]
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    page.locator(".card-browsers .bar").first.hover()
    expect(page.locator(".hint")).to_contain_text("conversions")
    expect(page.locator(".hint")).not_to_contain_text("pageview")
    assert violations(page) == []

    # A goal of pages: its conversions are pageviews.
    goal = add_by_api(site, page, name="Prices", type="page", match=["filter_pathname=/pricing"])
    page.goto(f"{dashboard}&filter_goal={goal}")
    expect(page.locator(".chip")).to_have_text("Goal is Prices")
    figure = page.locator("[data-figure=pageviews]")
    expect(figure).to_contain_text("Conversions")
    expect(figure).to_have_attribute("data-value", "20")
    expect(page.locator("[data-figure=events]")).to_have_count(0)

    # A chosen goal adds its rate to every list, entry pages too.
    page.goto(f"{dashboard}&goal={goal}")
    for card, tab in (("pages", "Entry"), ("pages", "Exit"), ("browsers", "OS")):
        page.locator(f".card-{card}").get_by_role("tab", name=tab, exact=True).click()
        expect(page.locator(f".card-{card} .columns")).to_contain_text("Converted")
        expect(page.locator(f".card-{card} .bar-aside").first).to_contain_text("%")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    exits = site.ask(f"top/exit_page?period=7d&goal={goal}")["data"]
    shown = page.locator(".card-pages .bar").all()
    rates = [f"{row['conversion_rate']:.1f}".removesuffix(".0") for row in exits]
    # The card has its last list, not the one before.
    expect(page.locator(".card-pages .bar-aside").first).to_have_text(re.compile(rf"^{re.escape(rates[0])}\s?%"))
    assert [one.locator(".bar-aside").inner_text().split("%")[0] for one in shown][: len(rates)] == rates
