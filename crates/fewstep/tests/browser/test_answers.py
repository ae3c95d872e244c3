"""What the page shows is the report of the command line: its lines, every number, and where marks lie."""

from __future__ import annotations

import json
import re

import pytest
from conftest import CommandLine
from playwright.sync_api import Page, expect
from support import TASKS, at, flags, fragment, number, run

PAPER = {"policy": "paper"}
HEADS = {**PAPER, "select": "query-aware", "budget": 4}
STEPS = {"dynamics": "steps"}
#: Which task is looked at with which options: the default policy on all, and every kind of line.
CASES = [(index, {}, "predict") for index in range(len(TASKS))] + [
    (3, PAPER, "predict"),
    (0, HEADS, "decide"),
    (2, {"horizon": "gibbs"}, "predict"),
    (4, {"horizon": "bayes-filter"}, "predict"),
    (3, {"horizon": 1, "blocks": "value@last1"}, "predict"),
    (5, {"horizon": "leave-one-out", "horizons": "0,1,2,4,8"}, "predict"),
    (1, {"blocks": "value,mlp-up@last2", "horizon": "evidence-fixed"}, "predict"),
    (3, {"horizon": 0}, "predict"),
    (3, STEPS, "predict"),
    (3, {"dynamics": "linear", **PAPER}, "predict"),
    # The largest candidate is chosen, which is pointed out.
    (3, {"horizon": "evidence", "horizons": "0..2"}, "predict"),
]


def show(page: Page, service: str, index: int, options: dict, action: str) -> None:
    page.goto(service + "/" + fragment(TASKS[index], options, action))
    run(page)


@pytest.mark.parametrize(("index", "options", "action"), CASES)
def test_words_are_those_of_the_command_line(
    page: Page, service: str, command_line: CommandLine, index: int, options: dict, action: str
) -> None:
    show(page, service, index, options, action)
    words = command_line.words(TASKS[index], *flags(options), action=action)
    report = command_line.report(TASKS[index], *flags(options), action=action)
    found = page.locator("[data-answer]").evaluate_all(
        "nodes => nodes.map((node) => [node.dataset.answer, node.textContent])"
    )
    # In their order, as the report and the terminal have them.
    assert [tuple(line) for line in found] == list(report["lines"].items())
    assert [name for name, _ in found] == ["when", "how_far", "which", "prediction", "error"]
    terminal = {"how_far": "how far", "which": "where"}
    assert {terminal.get(name, name): text for name, text in found} == words
    answer = page.locator('[data-answer="when"] strong').inner_text()
    assert answer == ("adapt" if report["when"]["adapt"] else "leave it alone")
    expect(page.locator("#status")).to_contain_text(f"Answered: {answer};")
    # Flags are for the command line.
    assert "--" not in page.locator("body").inner_text()


@pytest.mark.parametrize(
    ("index", "options", "action"),
    [(3, {}, "predict"), (3, STEPS, "predict"), (0, HEADS, "decide"), (5, PAPER, "predict")],
)
def test_every_number_shown_is_in_the_report(
    page: Page, service: str, command_line: CommandLine, index: int, options: dict, action: str
) -> None:
    show(page, service, index, options, action)
    for summary in page.locator("figure summary").all():
        summary.click()
    report = command_line.report(TASKS[index], *flags(options), action=action)
    found = page.locator("#report [data-path]").evaluate_all(
        """nodes => nodes.map((node) =>
            [node.dataset.path, node.textContent, node.getAttribute("value"), node.title])"""
    )
    assert len(found) > 100
    for path, text, value, title in found:
        wanted = at(report, path)
        assert text == (wanted if isinstance(wanted, str) else number(wanted)), path
        if value is not None:
            assert float(value) == wanted and float(title) == wanted, path
    seen = {re.sub(r"\[\d+\]", "[]", path) for path, *_ in found}
    assert {
        "lines.when",
        "lines.how_far",
        "lines.which",
        "lines.prediction",
        "lines.error",
        "prediction.icl",
        "prediction.linear",
        "prediction.standard_deviation",
        "how_far.evidence[]",
        "how_far.evidence_fixed[]",
        "how_far.posterior[]",
        "geometry.eigenvalues[]",
        "geometry.response[]",
        "geometry.bayes_response[]",
        "which.blocks[].query",
        "which.blocks[].trace",
        "prediction.path.linear[]",
    } <= seen
    if action == "predict":
        assert "prediction.adapted" in seen
        # The linearised model takes no steps.
        assert ("prediction.path.steps[]" in seen) == (report["policy"]["dynamics"] == "steps")
    assert ("how_far.leave_one_out[]" in seen) == ("leave_one_out" in report["when"])
    # Tables leave nothing out.
    assert len(report["how_far"]["horizons"]) == page.locator("#figure-evidence tbody tr").count()
    assert len(report["which"]["blocks"]) == page.locator("#figure-blocks tbody tr").count()
    assert len(report["geometry"]["eigenvalues"]) == page.locator("#figure-spectrum tbody tr").count()
    # Every row is about what it says it is about.
    rows = page.locator("figure tbody tr").evaluate_all(
        """nodes => nodes.map((node) => {
            const cells = [...node.querySelectorAll("[data-path]")];
            return [node.sectionRowIndex, cells.map((cell) => cell.dataset.path)];
        })"""
    )
    assert all(f"[{index}]" in path for index, paths in rows for path in paths if "[" in path)
    first = page.locator("#figure-evidence tbody th").all_text_contents()
    assert first == [str(horizon) for horizon in report["how_far"]["horizons"]]


def test_there_is_no_number_that_the_report_does_not_have(
    page: Page, service: str, command_line: CommandLine
) -> None:
    show(page, service, 3, PAPER, "predict")
    shown = json.loads(page.locator("#policy-text").text_content())
    assert shown == command_line.report(TASKS[3], *flags(PAPER))["policy"]
    rest = page.evaluate(
        """() => {
            const copy = document.querySelector("#report").cloneNode(true);
            copy.querySelectorAll("[data-path], #policy-text, svg").forEach((node) => node.remove());
            return copy.textContent;
        }"""
    )
    names = r"[a-z-]+\.\d+(\.\d+)?"
    assert re.findall(r"\d\.\d", re.sub(names, "", rest)) == []


def ticks(page: Page, figure: str, axis: str, panel: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two ticks of an axis, each with its value and its place; panels are told apart by their place."""
    place = "x" if axis == "x" else "y"
    found = page.locator(f"#figure-{figure} [data-tick-{axis}]").evaluate_all(
        f"""nodes => nodes.map((node) =>
            [node.dataset.tick{axis.upper()}, node.getAttribute("{place}")].map(Number))"""
    )
    if axis == "x":
        return tuple(found[0]), tuple(found[-1])
    panels: list[list] = []
    for value, at_y in found:
        # From one panel to the next the place jumps down; within one it goes up.
        if not panels or at_y > panels[-1][-1][1]:
            panels.append([])
        panels[-1].append((value, at_y - 4))
    return panels[panel][0], panels[panel][-1]


#: What is drawn in which panel of which figure.
CURVES = [
    ("evidence", 0, "how_far.leave_one_out"),
    ("evidence", 1, "how_far.evidence"),
    ("evidence", 1, "how_far.evidence_fixed"),
    ("path", 0, "prediction.path.steps"),
    ("path", 0, "prediction.path.linear"),
]

#: The middle of every mark; a triangle reaches further up than down.
MIDDLES = """nodes => nodes.map((node) => {
    const box = node.getBBox();
    const share = node.localName === "circle" ? 1 / 2 : 1.2 / 2.2;
    return [node.dataset.mark, box.x + box.width / 2, box.y + box.height * share];
})"""


def test_marks_lie_where_the_numbers_say(page: Page, service: str, command_line: CommandLine) -> None:
    # Few enough steps for a mark on each.
    options = {**STEPS, "horizon": "leave-one-out-average", "horizons": "0,1,2,4,8,16,30"}
    show(page, service, 3, options, "predict")
    report = command_line.report(TASKS[3], *flags(options))
    for figure, panel, path in CURVES:
        values = at(report, path)
        (low, low_y), (high, high_y) = ticks(page, figure, "y", panel)
        (first, first_x), (last, last_x) = ticks(page, figure, "x", panel)
        middles = page.locator(f'#figure-{figure} [data-mark^="{path}["]').evaluate_all(MIDDLES)
        assert len(middles) == len(values)
        for mark, x, y in middles:
            index = int(re.search(r"\[(\d+)\]$", mark)[1])
            # Curves over candidates have a point for each of them, paths one for every step.
            steps = report["how_far"]["horizons"][index] if path.startswith("how_far") else index
            assert abs(x - (first_x + (steps - first) / (last - first) * (last_x - first_x))) < 0.1, mark
            assert abs(y - (low_y + (values[index] - low) / (high - low) * (high_y - low_y))) < 0.1, mark


@pytest.mark.parametrize(
    ("options", "title"),
    [
        ({}, "weights by leave-one-out error"),
        # A single number of steps is chosen, and the weights are those of evidence.
        ({"horizon": "leave-one-out"}, "Gibbs posterior"),
        (PAPER, "Gibbs posterior"),
    ],
)
def test_weights_are_called_what_they_are(page: Page, service: str, options: dict, title: str) -> None:
    show(page, service, 3, options, "predict")
    titles = page.locator("#figure-evidence text.title").all_text_contents()
    assert titles[-1] == title
    assert ("leave-one-out error" in titles) == (options != PAPER)


def test_chosen_blocks_are_marked(page: Page, service: str, command_line: CommandLine) -> None:
    show(page, service, 0, HEADS, "decide")
    report = command_line.report(TASKS[0], *flags(HEADS), action="decide")
    cells = page.locator("#figure-blocks [data-mark]")
    marked = page.locator("#figure-blocks [data-chosen='true'] title").all_text_contents()
    assert cells.count() == len(report["which"]["blocks"]) == 48
    assert {title.split(":")[0] for title in marked} == set(report["which"]["selected"])
    # One dot per chosen block, and one in the key.
    assert page.locator("#figure-blocks .dot").count() == 4 + 1
