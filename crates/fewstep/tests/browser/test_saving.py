"""Figures leave the page as files that need nothing else; the report leaves it as it came."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import CommandLine
from playwright.sync_api import Browser, Page
from support import TASKS, flags, fragment, run

FIGURES = ["prediction", "evidence", "spectrum", "blocks", "path"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("options", [{}, {"policy": "paper", "select": "query-aware", "budget": 4}])
def test_the_saved_report_is_that_of_the_command_line_to_the_byte(
    page: Page, service: str, command_line: CommandLine, tmp_path: Path, options: dict
) -> None:
    page.goto(service + "/" + fragment(TASKS[3], options))
    run(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save report as JSON").click()
    assert download.value.suggested_filename == "shift-7-clean.report.json"
    download.value.save_as(tmp_path / "report.json")
    assert (tmp_path / "report.json").read_text() == command_line.json(TASKS[3], *flags(options))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_figure_is_saved_as_a_drawing_of_its_own(
    browser: Browser, service: str, tmp_path: Path, scheme: str
) -> None:
    context = browser.new_context(color_scheme=scheme, accept_downloads=True)
    page = context.new_page()
    page.goto(service + "/" + fragment(TASKS[3]))
    run(page)
    papers = set()
    for name in FIGURES:
        with page.expect_download() as download:
            page.locator(f'[data-save="{name}"]').click()
        assert download.value.suggested_filename == f"shift-7-clean.{name}.svg"
        file = tmp_path / f"{name}.svg"
        download.value.save_as(file)
        text = file.read_text()
        root = ElementTree.fromstring(text)
        assert root.tag == f"{SVG}svg" and root.get("viewBox") and root.find(f"{SVG}title").text
        # No style sheet, no script, nothing from elsewhere, no variable of the page.
        assert not re.search(r"class=|<style|<script|href|url\(|var\(|data-", text)
        assert set(re.findall(r"https?://[^\"]+", text)) == {"http://www.w3.org/2000/svg"}
        drawn = [
            node
            for node in root.iter()
            if node.tag in {f"{SVG}{kind}" for kind in ("path", "rect", "line", "circle", "text")}
        ]
        assert len(drawn) > 10 and all(node.get("fill") and node.get("stroke") for node in drawn)
        papers.add(root.find(f"{SVG}rect").get("fill"))
        # It looks the same without the page: the browser draws it in the same size.
        alone = context.new_page()
        alone.goto(file.as_uri())
        size = page.locator(f"#figure-{name} svg").bounding_box()
        assert abs(alone.locator("svg").bounding_box()["width"] - size["width"]) < 1
        alone.close()
    context.close()
    assert papers == {"rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)"}


def test_names_of_files_hold_no_path(page: Page, service: str) -> None:
    page.goto(service + "/" + fragment({**TASKS[3], "id": "../../etc/pass wd"}))
    run(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save report as JSON").click()
    assert download.value.suggested_filename == "__.._etc_pass_wd.report.json"
