"""The form: rows, several lines at once, the keyboard alone, and typing while an answer is on its way."""

from __future__ import annotations

import json

from playwright.sync_api import Page, expect
from support import TASKS, answered, field, fragment, read_fragment, run


def examples(page: Page) -> list[tuple[str, str]]:
    rows = page.locator("#examples tr").count()
    return [tuple(field(page, f"examples[{row}].{key}").input_value() for key in "xy") for row in range(rows)]


def test_rows_are_added_and_removed(page: Page, service: str) -> None:
    page.goto(service)
    before = examples(page)
    page.get_by_role("button", name="Remove example 1", exact=True).click()
    expect(page.get_by_role("button", name="Remove example 1", exact=True)).to_be_focused()
    assert examples(page) == before[:1] + before[2:]
    page.get_by_role("button", name="Add example").click()
    expect(field(page, "examples[9].x")).to_be_focused()
    page.keyboard.type("9")
    page.keyboard.press("Tab")
    page.keyboard.type("6")
    assert examples(page) == before[:1] + before[2:] + [("9", "6")]
    page.locator("#labels-box > summary").click()
    page.get_by_role("button", name="Add label").click()
    page.keyboard.type("ten")
    expect(page.locator("#labels-summary")).to_contain_text("9 ten")


def test_several_lines_are_read_in_every_form(page: Page, service: str) -> None:
    page.goto(service)
    page.locator("#paste-box > summary").click()
    page.locator("#paste").fill('1\t8\n2->9\n\n3, 0\n{"x": "4", "y": "1"}\r\na, b\t5\n')
    page.get_by_role("button", name="Replace the examples").click()
    assert examples(page) == [("1", "8"), ("2", "9"), ("3", "0"), ("4", "1"), ("a, b", "5")]
    page.locator("#paste").fill("6\t3")
    page.get_by_role("button", name="Add these").click()
    assert examples(page)[-1] == ("6", "3") and len(examples(page)) == 6
    page.locator("#paste").fill("7\t4\nnothing here")
    page.get_by_role("button", name="Add these").click()
    expect(page.locator("#paste-error")).to_contain_text("line 2 has no x and y")
    assert len(examples(page)) == 6
    # Typed by a browser's own command this takes longer than the page takes.
    page.locator("#paste").evaluate("(box) => { box.value = '1\\t2\\n'.repeat(2001); }")
    page.get_by_role("button", name="Add these").click()
    expect(page.locator("#paste-error")).to_contain_text("at most 2000")
    page.locator("#paste").fill(json.dumps(TASKS[1]))
    page.get_by_role("button", name="Add these").click()
    expect(field(page, "id")).to_have_value("shift-4-clean")
    assert examples(page) == [(one["x"], one["y"]) for one in TASKS[1]["examples"]]


def test_lines_pasted_into_a_cell_become_rows(page: Page, service: str) -> None:
    page.goto(service)

    def paste(text: str) -> bool:
        """Whether the page took the text itself."""
        return page.evaluate(
            """(text) => {
                const clipboardData = new DataTransfer();
                clipboardData.setData("text/plain", text);
                const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
                document.activeElement.dispatchEvent(event);
                return event.defaultPrevented;
            }""",
            text,
        )

    before = examples(page)
    field(page, "examples[1].x").focus()
    assert paste("5\t2\n6\t3\n")
    assert examples(page) == before[:2] + [("5", "2"), ("6", "3")] + before[2:]
    # A text of several lines that are no examples is one x.
    assert not paste("a line\nanother one")
    page.get_by_role("button", name="Add example").click()
    assert paste("7\t4\n8\t5")
    assert examples(page)[-2:] == [("7", "4"), ("8", "5")] and ("", "") not in examples(page)


def test_the_keyboard_alone_is_enough(page: Page, service: str) -> None:
    page.goto(service)
    expect(page.locator("#examples tr")).to_have_count(10)

    def tab_to(selector: str, most: int = 80, key: str = "Tab") -> None:
        for _ in range(most):
            page.keyboard.press(key)
            if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"{selector} cannot be reached by {key}")

    page.keyboard.press("Tab")
    expect(page.locator("#skip")).to_be_focused()
    tab_to("#ready-made")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    tab_to("#load")
    page.keyboard.press("Enter")
    expect(field(page, "id")).to_have_value("shift-8-clean")
    tab_to("#query-x")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("6")
    tab_to("#decision-box > summary")
    page.keyboard.press("Enter")
    tab_to("#policy")
    page.keyboard.type("paper")
    tab_to("#horizon")
    page.keyboard.type("evidence")
    tab_to("#run")
    page.keyboard.press("Enter")
    answered(page)
    asked = read_fragment(page.url)
    assert (asked["task"]["query"]["x"], asked["options"]["horizon"]) == ("6", "evidence")
    assert asked["options"]["policy"] == "paper"
    tab_to("#save-report")
    tab_to("#policy-answer summary")
    page.keyboard.press("Enter")
    tab_to("#policy-text")
    tab_to("#copy-policy")
    page.keyboard.press("Enter")
    expect(page.locator("#policy-status")).not_to_be_empty()
    tab_to("#walk-steps")
    value = int(page.locator("#walk-steps").input_value())
    page.keyboard.press("ArrowRight" if value < 30 else "ArrowLeft")
    expect(page.locator("#walk-value")).to_have_text(f"T = {value + 1 if value < 30 else value - 1}")
    tab_to("#figure-evidence summary")
    page.keyboard.press("Enter")
    expect(page.locator("#figure-evidence tbody tr")).to_have_count(31)
    tab_to("[data-save=path]")
    with page.expect_download():
        page.keyboard.press("Enter")


def test_enter_runs_and_shift_enter_breaks_a_line(page: Page, service: str) -> None:
    page.goto(service)
    field(page, "query.x").focus()
    page.keyboard.press("End")
    page.keyboard.press("Shift+Enter")
    expect(field(page, "query.x")).to_have_value("8\n")
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    answered(page)
    expect(field(page, "query.x")).to_have_value("8")


def test_what_is_typed_while_an_answer_is_on_its_way_stays(page: Page, service: str) -> None:
    page.goto(service + "/" + fragment(TASKS[3]))
    held = []
    page.route("**/v1/predict", lambda route: held.append(route))
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#status")).to_have_text("Working …")
    field(page, "query.x").fill("55")
    field(page, "query.x").focus()
    while not held:
        page.wait_for_timeout(20)
    held.pop().continue_()
    answered(page)
    expect(field(page, "query.x")).to_have_value("55")
    expect(field(page, "query.x")).to_be_focused()
    # The answer is shown, and said to be one to another question.
    expect(page.locator("#stale")).to_be_visible()
    field(page, "query.x").fill("8")
    expect(page.locator("#stale")).to_be_hidden()


def test_only_the_last_question_is_answered_and_a_question_can_be_stopped(
    page: Page, service: str, complaints: list[str]
) -> None:
    page.goto(service + "/" + fragment(TASKS[3]))
    held = []
    page.route("**/v1/predict", lambda route: held.append(route) if not held else route.continue_())
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#status")).to_have_text("Working …")
    field(page, "query.x").fill("1")
    run(page)
    assert read_fragment(page.url)["task"]["query"]["x"] == "1"
    page.unroute("**/v1/predict")
    page.route("**/v1/predict", lambda route: held.append(route))
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#status")).to_have_text("Stopped.")
    expect(page.locator("#report")).to_be_visible()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_focused()


def test_the_decision_in_the_form_is_said_in_its_head(page: Page, service: str) -> None:
    page.goto(service)
    summary = page.locator("#decision-summary")
    expect(summary).to_have_text("default")
    page.locator("#decision-box > summary").click()
    field(page, "policy").select_option("paper")
    expect(summary).to_have_text("paper")
    field(page, "seed").fill("3")
    field(page, "horizon").select_option("number")
    expect(summary).to_have_text("paper, with horizon 8, seed 3")
    page.get_by_role("button", name="Clear the overrides").click()
    expect(summary).to_have_text("paper")
    expect(field(page, "seed")).to_have_value("")
    page.locator("#reading-box > summary").click()
    expect(page.locator("#reading-summary")).to_have_text("default")
    page.get_by_label("what is done").select_option("decide")
    expect(page.locator("#reading-summary")).to_have_text("decide only")
    # How an update would be carried out is part of the policy, though nothing is carried out.
    field(page, "dynamics").select_option("linear")
    run(page)
    line = "Policy: custom, differs from the paper’s in: dynamics"
    expect(page.locator("#policy-line")).to_have_text(line)
    expect(page.locator('[data-answer="prediction"]')).not_to_contain_text("adapted")


def test_the_models_of_the_service_can_be_chosen(page: Page, service: str) -> None:
    page.goto(service)
    expect(page.get_by_label("Model", exact=True)).to_have_value("builtin")
    expect(page.locator("#model-note")).to_contain_text("6 layers, 12 heads")
