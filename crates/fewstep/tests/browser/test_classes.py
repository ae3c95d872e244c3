"""Tasks of classes: labels without values in the form, and the report of the command line in figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import CommandLine
from playwright.sync_api import Browser, Page, expect
from support import ROOT, at, field, flags, fragment, number, read_fragment, run
from test_look import SCHEMES, WIDTHS, check, shoot

ONE, MANY = [json.loads(line) for line in (ROOT / "examples/digit-classes.jsonl").read_text().splitlines()]

FIGURES = ["probabilities", "log-loss", "arms"]

READY_MADE = "Classes: the digit itself, y = x + 7, ten queries"


def lines(command_line: CommandLine, task: dict, *flags: str, action: str = "predict") -> list[dict]:
    """The reports of a task, one for each of its queries."""
    return [json.loads(line) for line in command_line.json(task, *flags, action=action).splitlines()]


def figures(page: Page) -> list[str]:
    return [name.removeprefix("figure-") for name in page.locator("figure").evaluate_all("all => all.map((one) => one.id)")]


@pytest.mark.parametrize(
    ("options", "action"), [({}, "predict"), ({"confidence": 0.8}, "predict"), ({"horizons": "0,2,8"}, "decide")]
)
def test_words_and_numbers_are_those_of_the_command_line(
    page: Page, service: str, command_line: CommandLine, options: dict, action: str
) -> None:
    page.goto(service + "/" + fragment(ONE, options, action))
    run(page)
    [report] = lines(command_line, ONE, *flags(options), action=action)
    words = page.locator("[data-answer]").evaluate_all("all => all.map((one) => [one.dataset.answer, one.textContent])")
    assert dict(words) == report["lines"]
    assert page.locator("#answers dt").all_text_contents()[2] == "Which arms?"
    assert figures(page) == FIGURES
    expect(page.locator("#query-choice")).to_be_hidden()
    for summary in page.locator("figure summary").all():
        summary.click()
    expect(page.locator("figure .table")).to_have_count(len(FIGURES))
    found = page.locator("#report [data-path]").evaluate_all(
        "nodes => nodes.map((node) => [node.dataset.path, node.textContent, node.getAttribute('value')])"
    )
    for path, text, value in found:
        wanted = at(report, path)
        assert text == (wanted if isinstance(wanted, str) else number(wanted)), path
        assert value is None or float(value) == wanted, path
    seen = {re.sub(r"\[\d+\]", "[]", path) for path, *_ in found}
    assert {
        "prediction.icl[]",
        "prediction.adapted[]",
        "prediction.abstention",
        "how_far.posterior[]",
        "when.leave_one_out.icl",
        "which.arms[].weight",
        "which.arms[].leave_one_out.best",
        "which.arms[].paths[].losses[]",
        "which.zero_shot.weight",
    } <= seen
    # Tables leave nothing out.
    assert page.locator("#figure-probabilities tbody tr").count() == 10
    assert page.locator("#figure-log-loss tbody tr").count() == len(report["how_far"]["horizons"])
    assert page.locator("#figure-arms tbody tr").count() == 6


def test_bars_and_marks_lie_where_the_numbers_are(page: Page, service: str, command_line: CommandLine) -> None:
    page.goto(service + "/" + fragment(ONE, {"confidence": 0.8}))
    run(page)
    [report] = lines(command_line, ONE, "--confidence", "0.8")
    for figure in ("probabilities", "arms"):
        bars = page.locator(f"#figure-{figure} rect[data-mark]").evaluate_all(
            "nodes => nodes.map((node) => [node.dataset.mark, Number(node.getAttribute('width'))])"
        )
        values = [at(report, path) for path, _ in bars]
        scale = max(width for _, width in bars) / max(values)
        assert len(bars) > 5
        # A bar of nothing can still be seen.
        assert all(abs(width - max(0.5, value * scale)) < 0.51 for (_, width), value in zip(bars, values))
    heights = page.locator("#figure-log-loss [data-mark*=losses]").evaluate_all(
        """nodes => nodes.map((node) => {
            const box = node.getBBox();
            return [node.dataset.mark, box.y + box.height / 2];
        })"""
    )
    assert len(heights) == sum(len(path["losses"]) for arm in report["which"]["arms"] for path in arm["paths"])
    ordered = sorted(heights, key=lambda one: at(report, one[0]))
    # The lower the loss, the lower the mark; a triangle's middle is not the middle of its box.
    assert all(lower >= higher - 1 for (_, lower), (_, higher) in zip(ordered, ordered[1:]))
    said = page.locator("#figure-probabilities svg").get_attribute("aria-label")
    prediction = report["prediction"]
    best = prediction["labels"].index(prediction["label"])
    assert f"{prediction['label']} {number(prediction['adapted'][best])}" in said
    assert f"the set at 80 %: {', '.join(prediction['set'])}" in said and said.endswith("the answer is 7")
    # A diamond for every label of the set, and one in the legend.
    assert page.locator("#figure-probabilities path.plain").count() == 1 + len(prediction["set"])


def test_the_slider_reads_every_arm(page: Page, service: str, command_line: CommandLine) -> None:
    page.goto(service + "/" + fragment(ONE))
    run(page)
    [report] = lines(command_line, ONE)
    expect(page.locator("#walk-steps")).to_have_value(str(report["how_far"]["horizon"]))
    page.locator("#walk-steps").fill("8")
    place = report["how_far"]["horizons"].index(8)
    arms = [
        f"{arm['name']} {number(path['losses'][path['horizons'].index(8)])}"
        for arm in report["which"]["arms"]
        for path in arm["paths"]
    ]
    weight = f"weight {number(report['how_far']['posterior'][place])}"
    expect(page.locator("#figure-log-loss .readout")).to_have_text(f"T = 8: {'; '.join([*arms, weight])}")
    page.locator("#walk-steps").fill("7")
    expect(page.locator("#figure-log-loss .readout")).to_have_text("T = 7 is not a candidate")


def test_several_queries_can_be_chosen_and_are_counted(
    page: Page, service: str, command_line: CommandLine, tmp_path: Path
) -> None:
    page.goto(service + "/" + fragment(MANY))
    expect(page.locator("#address-problem")).to_be_hidden()
    expect(page.locator("#queries tr")).to_have_count(2)
    expect(field(page, "queries[1].x")).to_have_value("6")
    with page.expect_response("**/v1/predict") as response:
        run(page)
    reports = [json.loads(line)["report"] for line in response.value.text().splitlines()]
    # The examples are observed once, for all queries.
    first, *further = [report["passes"]["backward"] for report in reports]
    assert all(one < first / 4 for one in further)
    for said, known in zip(reports, lines(command_line, MANY)):
        assert said["prediction"]["adapted"] == pytest.approx(known["prediction"]["adapted"], abs=1e-5)
    assert figures(page) == [*FIGURES, "confusion"]
    choice = page.get_by_label("Shown query")
    assert page.locator("#query-shown option").all_text_contents() == [
        f"{index}: {asked['x']} → {report['prediction']['label']}, answer {asked['y']}"
        for index, (asked, report) in enumerate(zip(MANY["queries"], reports))
    ]
    for index in (2, 0, 1):
        choice.select_option(str(index))
        expect(page.locator('[data-answer="prediction"]')).to_have_text(reports[index]["lines"]["prediction"])
    # Counted here from the reports, and there in the table.
    counted: dict[tuple[str, str], list[int]] = {}
    right = [0, 0]
    for report in reports:
        said = report["prediction"]
        before = said["labels"][max(range(10), key=lambda label: said["icl"][label])]
        for way, given in enumerate((before, said["label"])):
            counted.setdefault((said["target"], given), [0, 0])[way] += 1
            right[way] += given == said["target"]
    page.locator("#figure-confusion summary").click()
    # The table is filled once it is opened.
    expect(page.locator("#figure-confusion tbody tr")).to_have_count(len(counted))
    rows = page.locator("#figure-confusion tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert {(answer, given): [int(icl), int(adapted)] for answer, given, icl, adapted in rows} == counted
    said = page.locator("#figure-confusion svg").get_attribute("aria-label")
    assert f"without adapting: {right[0]} of 3 right" in said and f"adapted: {right[1]} of 3 right" in said
    with page.expect_download() as download:
        page.get_by_role("button", name="Save reports as JSON Lines").click()
    download.value.save_as(tmp_path / "reports.jsonl")
    assert download.value.suggested_filename == "class-shift-7.reports.jsonl"
    assert [json.loads(line) for line in (tmp_path / "reports.jsonl").read_text().splitlines()] == reports


def test_a_query_that_cannot_be_asked_stands_beside_the_others(page: Page, service: str) -> None:
    page.goto(service + "/" + fragment({**MANY, "queries": [{"x": " "}, *MANY["queries"]]}))
    run(page)
    expect(page.locator("#query-problems")).to_contain_text("Query 0:")
    expect(page.locator("#query-shown")).to_have_value("1")
    expect(page.locator("#query-shown option").first).to_be_disabled()


def test_the_form_takes_labels_without_values(page: Page, service: str, complaints: list[str]) -> None:
    page.goto(service)
    page.locator("#labels-box > summary").click()
    for value in page.locator("#labels [data-key=value]").all():
        value.fill("")
    run(page)
    asked = read_fragment(page.url)["task"]
    assert asked["labels"] == [{"text": str(digit)} for digit in range(10)]
    assert figures(page) == FIGURES
    # Some with and some without is refused, beside a label.
    complaints.append("422")
    field(page, "labels[4].value").fill("0.5")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#labels .field-error")).to_contain_text("value")
    # What concerns regression alone is refused by its name.
    field(page, "labels[4].value").fill("")
    page.locator("#decision-box > summary").click()
    field(page, "blocks").fill("value@all")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#problem")).to_contain_text("blocks")
    field(page, "blocks").fill("")
    # Without labels the classes are the answers of the examples, which the answer of the query is not among.
    field(page, "query.y").fill("")
    for _ in range(10):
        page.get_by_role("button", name="Remove label 0", exact=True).click()
    expect(page.locator("#labels-summary")).to_have_text("the answers of the examples")
    run(page)
    assert "labels" not in read_fragment(page.url)["task"]
    assert figures(page) == FIGURES


def test_labels_as_texts_are_read_from_an_address_and_from_a_paste(page: Page, service: str) -> None:
    page.goto(service)
    bare = {name: value for name, value in ONE.items() if name != "labels"}
    page.locator("#paste-box > summary").click()
    for task, count in ((ONE, 10), (bare, 0), (MANY, 10)):
        page.locator("#paste").fill(json.dumps(task))
        page.get_by_role("button", name="Add these").click()
        expect(page.locator("#labels tr")).to_have_count(count)
        expect(page.locator("#paste-error")).to_be_hidden()
    expect(page.locator("#queries-summary")).to_have_text("2 more")
    page.get_by_role("button", name="Add query").click()
    expect(field(page, "queries[3].x")).to_be_focused()
    page.get_by_role("button", name="Remove query 3", exact=True).click()
    expect(page.get_by_role("button", name="Remove query 2", exact=True)).to_be_focused()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_classes_fit_and_can_be_read(
    browser: Browser, service: str, screenshots: Path, width: int, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(service)
    page.locator("#ready-made").select_option(label=READY_MADE)
    page.get_by_role("button", name="Load").click()
    run(page)
    shoot(page, screenshots / f"classes-{width}-{scheme}.png")
    assert check(page, "overflow") == [0]
    assert check(page, "clashes") == []
    contrast = check(page, "contrast")
    assert [pair for pair in contrast["texts"] if pair[1] < 4.5] == []
    assert [pair for pair in contrast["marks"] if pair[1] < 3] == []
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    expect(page.locator("#figure-probabilities tbody tr")).to_have_count(10)
    assert check(page, "overflow") == [0]
    assert [html for html, name in check(page, "names") if not name] == []
    assert check(page, "dangling") == [] and check(page, "small") == []
    context.close()


def test_long_and_many_labels_fit(browser: Browser, service: str, screenshots: Path) -> None:
    texts = [f"{place} a label whose name is rather long" for place in range(60)]
    task = {
        "id": "many labels",
        "template": "{x}->{y}",
        "labels": texts,
        "examples": [{"x": str(x), "y": texts[x]} for x in range(3)],
        "queries": [{"x": "4", "y": texts[4]}, {"x": "5", "y": texts[59]}],
    }
    context = browser.new_context(viewport={"width": 360, "height": 900})
    page = context.new_page()
    page.goto(service + "/" + fragment(task))
    run(page)
    shoot(page, screenshots / "many-labels-360-light.png")
    assert check(page, "overflow") == [0]
    assert check(page, "clashes") == []
    assert page.locator("#figure-probabilities [data-mark]").count() == 80
    expect(page.locator("#figure-probabilities svg")).to_contain_text("and 20 less probable labels")
    context.close()
