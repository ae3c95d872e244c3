"""The slider walks through T: every figure in which T means something follows, and nothing is asked for."""

from __future__ import annotations

from conftest import CommandLine
from playwright.sync_api import Page, expect
from support import TASKS, flags, fragment, number, run


def test_the_slider_moves_every_mark_and_asks_for_nothing(
    page: Page, service: str, command_line: CommandLine
) -> None:
    options = {"dynamics": "steps"}
    page.goto(service + "/" + fragment(TASKS[3], options))
    run(page)
    report = command_line.report(TASKS[3], *flags(options))
    chosen = report["how_far"]["horizon"]
    requests: list[str] = []
    # The browser asks for the icon whenever it likes.
    page.on(
        "request",
        lambda request: None if request.url.endswith("/icon.svg") else requests.append(request.url),
    )
    slider = page.get_by_role("slider", name="Walk through T")
    expect(slider).to_have_value(str(chosen))

    def place() -> list[float]:
        return page.locator("#figure-evidence line.now, #figure-path line.now").evaluate_all(
            "nodes => nodes.map((node) => Number(node.getAttribute('x1')))"
        )

    before = place()
    slider.focus()
    page.keyboard.press("Home")
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    expect(slider).to_have_value("8")
    steps, linear = (report["prediction"]["path"][form][8] for form in ("steps", "linear"))
    expect(page.locator("#walk-value")).to_have_text("T = 8")
    expect(slider).to_have_attribute(
        "aria-valuetext", f"T = 8, steps {number(steps)}, linearised {number(linear)}"
    )
    expect(page.locator("#figure-path .readout")).to_have_text(
        f"T = 8: steps in the model {number(steps)}; linearised model {number(linear)}"
    )
    how_far = report["how_far"]
    place_of = how_far["horizons"].index(8)
    expect(page.locator("#figure-evidence .readout")).to_have_text(
        f"T = 8: leave-one-out error {number(how_far['leave_one_out'][place_of])}; "
        f"negative log-evidence, noise profiled {number(how_far['evidence'][place_of])}; "
        f"negative log-evidence, noise fixed {number(how_far['evidence_fixed'][place_of])}; "
        f"weight {number(how_far['posterior'][place_of])}"
    )
    expect(page.locator('#figure-prediction [data-path="prediction.path.steps[8]"]')).to_have_text(
        number(steps)
    )
    # The sample in the legend stays; the lines in the panels go to the left.
    after = place()
    moved = [two - one for one, two in zip(before, after, strict=True)]
    assert sum(move < 0 for move in moved) == 4 and sum(move == 0 for move in moved) == len(moved) - 4
    page.keyboard.press("End")
    expect(slider).to_have_value("64")
    page.get_by_role("button", name="To the chosen T").click()
    expect(slider).to_have_value(str(chosen))
    assert place() == before
    assert requests == []


def test_a_number_of_steps_that_is_not_a_candidate_is_said_not_to_be(page: Page, service: str) -> None:
    page.goto(service + "/" + fragment(TASKS[3], {"horizons": "0,1,8"}))
    run(page)
    page.get_by_role("slider").fill("5")
    expect(page.locator("#figure-evidence .readout")).to_have_text("T = 5 is not a candidate")
    expect(page.locator("#figure-path .readout")).to_contain_text("linearised model")


def test_one_update_without_steps_can_be_walked_in_the_linearised_model(page: Page, service: str) -> None:
    page.goto(service + "/" + fragment(TASKS[3], {"horizon": "bayes-filter"}))
    run(page)
    page.get_by_role("slider").fill("3")
    expect(page.locator("#figure-path .readout")).to_contain_text("T = 3: ")
    expect(page.locator("#figure-evidence .chosen")).to_have_count(0)
