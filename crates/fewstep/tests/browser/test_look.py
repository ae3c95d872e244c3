"""The page for every eye and every width: names, text alternatives, contrast, no overflow, no movement."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from support import TASKS, fragment, run

WIDTHS = [360, 768, 1280]
SCHEMES = ["light", "dark"]

CHECKS = (Path(__file__).parent / "checks.js").read_text()


def check(page: Page, name: str) -> Any:
    """What one of the checks finds on the page."""
    return page.evaluate(f"(() => {{ {CHECKS} return checks.{name}(); }})()")


def shoot(page: Page, file: Path) -> None:
    """The whole page on one picture, in a window so high that no bar sticks to its edge."""
    width = page.viewport_size["width"]
    page.set_viewport_size({"width": width, "height": page.evaluate("document.documentElement.scrollHeight")})
    page.screenshot(path=file, full_page=True)
    page.set_viewport_size({"width": width, "height": 900})


def opened(browser: Browser, service: str, width: int, scheme: str, options: dict) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(service + "/" + fragment(TASKS[3], options))
    return page


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_everything_fits_and_can_be_read(
    browser: Browser, service: str, screenshots: Path, width: int, scheme: str
) -> None:
    page = opened(browser, service, width, scheme, {})
    shoot(page, screenshots / f"empty-{width}-{scheme}.png")
    assert check(page, "overflow") == [0]
    run(page)
    shoot(page, screenshots / f"default-{width}-{scheme}.png")
    assert check(page, "overflow") == [0]
    assert check(page, "clashes") == []
    contrast = check(page, "contrast")
    assert len(contrast["texts"]) > 100 and len(contrast["marks"]) > 50
    assert [pair for pair in contrast["texts"] if pair[1] < 4.5] == []
    assert [pair for pair in contrast["marks"] if pair[1] < 3] == []
    # Everything opened, and every T.
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    expect(page.locator("#figure-path tbody tr")).to_have_count(65)
    assert check(page, "overflow") == [0]
    shoot(page, screenshots / f"opened-{width}-{scheme}.png")
    for steps in (0, 32, 64):
        page.locator("#walk-steps").fill(str(steps))
        assert check(page, "clashes") == []
    page.context.close()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("heads", {"policy": "paper", "select": "query-aware", "budget": 4}),
        ("paper", {"policy": "paper"}),
        ("overrides", {"step_scale": 0.3, "horizon": "leave-one-out", "horizons": "0..12", "coverage": 0.5}),
        ("kinds", {"blocks": "value,key,mlp-up,mlp-down@all", "adjoint": "whole"}),
        ("filter", {"horizon": "bayes-filter"}),
    ],
)
@pytest.mark.parametrize("width", WIDTHS)
def test_other_decisions_fit_too(
    browser: Browser, service: str, screenshots: Path, width: int, name: str, options: dict
) -> None:
    scheme = SCHEMES[WIDTHS.index(width) % 2]
    page = opened(browser, service, width, scheme, options)
    run(page)
    shoot(page, screenshots / f"{name}-{width}-{scheme}.png")
    assert check(page, "overflow") == [0]
    assert check(page, "clashes") == []
    page.context.close()


def test_problems_fit_too(browser: Browser, service: str, screenshots: Path) -> None:
    for scheme in SCHEMES:
        page = opened(browser, service, 360, scheme, {})
        page.locator('[data-field="examples[1].y"]').fill("eleven")
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".field-error")).to_be_visible()
        page.screenshot(path=screenshots / f"problem-360-{scheme}.png")
        assert check(page, "overflow") == [0]
        assert [pair for pair in check(page, "contrast")["texts"] if pair[1] < 4.5] == []
        page.context.close()


def test_a_window_that_becomes_narrow_draws_again(page: Page, service: str) -> None:
    page.goto(service + "/" + fragment(TASKS[3]))
    run(page)
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function("document.querySelector('#figure-path svg').clientWidth < 400")
    assert check(page, "overflow") == [0]


def test_everything_has_a_name(page: Page, service: str) -> None:
    page.goto(service + "/" + fragment(TASKS[3]))
    run(page)
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    expect(page.locator("#figure-path tbody tr")).to_have_count(65)
    names = check(page, "names")
    assert len(names) > 60
    assert [html for html, name in names if not name] == []
    # Names that are heard alike would not tell buttons apart.
    buttons = [name for html, name in names if html.startswith("<button")]
    assert len(set(buttons)) == len(buttons)


def test_figures_have_text_alternatives_and_tables(page: Page, service: str) -> None:
    page.goto(service + "/" + fragment(TASKS[3]))
    run(page)
    figures = page.locator("figure")
    assert figures.count() == 5
    for figure in figures.all():
        drawing = figure.locator("svg[role=img]")
        assert len(drawing.get_attribute("aria-label")) > 40
        figure.locator("summary").click()
        expect(figure.locator("table caption")).not_to_be_empty()
        assert figure.locator("thead th[scope=col]").count() >= 2
        assert figure.locator("tbody th[scope=row]").count() == figure.locator("tbody tr").count() > 0


def test_the_structure_is_sound(page: Page, service: str) -> None:
    page.goto(service + "/" + fragment(TASKS[3]))
    run(page)
    assert page.evaluate("document.documentElement.lang") == "en"
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))
    levels = check(page, "headings")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))
    assert page.locator("main").count() == 1
    assert check(page, "dangling") == []
    assert check(page, "small") == []


def test_nothing_moves_unasked(page: Page, service: str) -> None:
    page.goto(service + "/" + fragment(TASKS[3]))
    run(page)
    assert check(page, "moving") == [0]
    before = page.evaluate("[scrollX, scrollY]")
    page.wait_for_timeout(500)
    assert page.evaluate("[scrollX, scrollY]") == before


#: Words that were this project's own for something that has a name.
RETIRED = r"\busual\b|\bleft.out\b|\bmoved?\b|\bmoves\b|linear (form|picture)|\bis no\b"


@pytest.mark.parametrize(
    "options", [{}, {"policy": "paper"}, {"horizon": "leave-one-out", "step_scale": 0.3}]
)
def test_the_page_speaks_the_words_of_the_field(page: Page, service: str, options: dict) -> None:
    page.goto(service + "/" + fragment(TASKS[3], options))
    before = page.locator("body").text_content()
    run(page)
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    labels = page.locator("[aria-label]").evaluate_all("nodes => nodes.map((node) => node.ariaLabel)")
    for text in [before, page.locator("body").text_content(), *labels]:
        assert not re.search(RETIRED, text), re.search(f".{{0,40}}({RETIRED})", text)[0]


def test_nothing_comes_from_elsewhere(page: Page, service: str) -> None:
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    response = page.goto(service)
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy
    run(page)
    assert seen and all(url.startswith(service + "/") for url in seen if not url.startswith("blob:"))
