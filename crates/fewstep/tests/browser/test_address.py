"""The address holds the task and its options, and nothing in it is run."""

from __future__ import annotations

import base64
import json

import pytest
from playwright.sync_api import Page, expect
from support import TASKS, field, fragment, read_fragment, run

ODD = {
    "id": 'ö "quoted" 🙂',
    "template": "Frage: {x}\nAntwort:{y} ✓",
    "separator": "\n\t\\n--\n",
    "labels": [{"text": " a\\b", "value": -1.5e-7}, {"text": "\n1", "value": 1e12}],
    "examples": [{"x": "two\nlines", "y": " a\\b"}, {"x": "<b>&amp;", "y": "\n1"}],
    "query": {"x": "x = \\n", "y": "\n1"},
}


def test_an_answer_puts_its_task_into_the_address_and_a_new_page_has_it(page: Page, service: str) -> None:
    page.goto(service)
    page.locator("#ready-made").select_option(label="A shift it knows: y = x + 2")
    page.get_by_role("button", name="Load").click()
    field(page, "query.x").fill("5")
    page.locator("#decision-box > summary").click()
    field(page, "horizon").select_option("number")
    page.get_by_label("number of steps").fill("3")
    run(page)
    words = page.locator("#answers").inner_text()
    assert "3 steps" in words
    shared = page.url
    asked = read_fragment(shared)
    assert asked["task"] == {**TASKS[0], "separator": "\n", "query": {"x": "5", "y": "3"}}
    assert asked["options"]["horizon"] == 3 and asked["action"] == "predict"
    assert asked["options"]["policy"] == "default"

    page.goto("about:blank")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if "/v1/predict" in request.url else None)
    page.goto(shared)
    expect(field(page, "query.x")).to_have_value("5")
    # Filled in, but not run unasked.
    expect(page.locator("#report")).to_be_hidden()
    assert sent == []
    run(page)
    assert page.locator("#answers").inner_text() == words
    assert page.url == shared


def test_ready_made_tasks_are_those_of_the_examples(page: Page, service: str) -> None:
    page.goto(service)
    names = page.locator("#ready-made option").all_text_contents()
    assert len(names) == 9 and "language model" in names[-1]
    found = {}
    policies = []
    for name in names:
        page.locator("#ready-made").select_option(label=name)
        page.get_by_role("button", name="Load").click()
        page.get_by_role("button", name="Copy address").click()
        expect(page.locator("#share-status")).not_to_be_empty()
        asked = read_fragment(page.url)
        task = asked["task"]
        found[task["id"]] = task
        # What was changed before is gone with the task that it was changed for.
        assert set(asked["options"]) <= {"policy", "model"}
        policies.append(asked["options"]["policy"])
        said = f"{task['id']} is in the form, with the policy {policies[-1]}."
        expect(page.locator("#status")).to_have_text(said)
        page.locator("#step_scale").evaluate("(field) => { field.value = '0.3'; }")
    for task in TASKS:
        assert found[task["id"]] == {**task, "separator": "\n"}
    assert sorted(policies) == ["default"] * 8 + ["paper"]
    assert policies[[index for index, name in enumerate(names) if "paper" in name][0]] == "paper"


def test_an_address_without_a_policy_starts_from_the_default(page: Page, service: str) -> None:
    page.goto(service + "/" + fragment(TASKS[3], {"policy": "paper"}))
    expect(field(page, "policy")).to_have_value("paper")
    # As pages before this one wrote it.
    page.goto("about:blank")
    page.goto(service + "/" + fragment(TASKS[3], {"horizon": 3}))
    expect(field(page, "policy")).to_have_value("default")
    expect(page.locator("#decision-summary")).to_have_text("default, with horizon 3")
    run(page)
    options = read_fragment(page.url)["options"]
    assert {name: value for name, value in options.items() if name != "model"} == {
        "policy": "default",
        "horizon": 3,
    }


def test_every_character_survives(page: Page, service: str) -> None:
    options = {
        "policy": "paper",
        "seed": 7,
        "coverage": 0.5,
        "blocks": "value@all",
        "select": "random",
        "budget": 2,
        "bos": "never",
        "loo_order": "tree",
    }
    page.goto(service + "/" + fragment(ODD, options, "decide"))
    expect(page.locator("#address-problem")).to_be_hidden()
    page.get_by_role("button", name="Copy address").click()
    expect(page.locator("#share-status")).not_to_be_empty()
    asked = read_fragment(page.url)
    assert asked["task"] == ODD and asked["action"] == "decide"
    assert {name: value for name, value in asked["options"].items() if name != "model"} == options


def test_characters_that_a_field_cannot_hold_are_pointed_out(page: Page, service: str) -> None:
    task = {**ODD, "query": {"x": "a\rb"}}
    page.goto(service + "/" + fragment(task))
    expect(page.locator("#address-problem")).to_contain_text("cannot show")


def coded(content: object) -> str:
    return "#task=" + base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


WHOLE = {"action": "predict", "task": TASKS[0], "options": {}}


@pytest.mark.parametrize(
    ("damaged", "part"),
    [
        (fragment(TASKS[0])[:-9], "cut off or damaged"),
        ("#task=%%%", "cut off or damaged"),
        ("#task=" + base64.urlsafe_b64encode(b"\xff\xfe{}").decode(), "cut off or damaged"),
        ("#task=", "cut off or damaged"),
        ("#task=" + "A" * 40_000, "at most 32768 are read"),
        (coded([]), "not a task"),
        (coded(None), "not a task"),
        (coded({**WHOLE, "more": 1}), "not a task"),
        (coded({**WHOLE, "action": "delete"}), "not a task"),
        (coded({**WHOLE, "options": {"model": {"a": 1}}}), "not a task"),
        (coded({**WHOLE, "options": {"__proto__x": 1}}), "not a task"),
        (coded({**WHOLE, "options": {"token": "secret"}}), "not a task"),
        (coded({**WHOLE, "options": {"policy": {"step_scale": 0.3}}}), "not a task"),
        (coded({**WHOLE, "task": {**TASKS[0], "examples": [{"x": 1, "y": "2"}]}}), "not a task"),
        (coded({**WHOLE, "task": {**TASKS[0], "labels": "all"}}), "not a task"),
    ],
)
def test_damaged_addresses_are_said_to_be_damaged(page: Page, service: str, damaged: str, part: str) -> None:
    page.goto(service + "/" + damaged)
    expect(page.locator("#address-problem")).to_be_visible()
    expect(page.locator("#address-problem")).to_contain_text(part)
    # The form is one that runs.
    expect(field(page, "template")).to_have_value("{x}->{y}")


def test_another_address_in_the_same_window_is_read(page: Page, service: str) -> None:
    page.goto(service)
    page.evaluate("(address) => { location.hash = address; }", fragment(TASKS[1]))
    expect(field(page, "template")).to_have_value("{x}:{y}")
    page.evaluate("() => { location.hash = '#task=AAAA'; }")
    expect(page.locator("#address-problem")).to_be_visible()
    expect(field(page, "template")).to_have_value("{x}:{y}")


def test_text_in_an_address_is_not_executed(page: Page, service: str) -> None:
    attack = '"><img src=x onerror="document.title=\'owned\'">'
    task = {
        **TASKS[0],
        "id": attack,
        "examples": [{"x": attack, "y": "1"}] * 3,
        "query": {"x": "javascript:alert(1)"},
    }
    page.goto(service + "/" + fragment(task, {"model": attack, "blocks": attack}))
    expect(field(page, "examples[0].x")).to_have_value(attack)
    assert page.locator("img").count() == 0
    assert page.title().startswith("fewstep")


def test_a_task_that_is_too_long_for_an_address_is_said_to_be(page: Page, service: str) -> None:
    page.goto(service)
    field(page, "query.x").fill("a" * 40_000)
    page.get_by_role("button", name="Copy address").click()
    expect(page.locator("#share-status")).to_contain_text("too long for an address")
    assert "#task" not in page.url


def test_an_address_that_cannot_be_copied_is_shown(page: Page, service: str) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.goto(service)
    page.get_by_role("button", name="Copy address").click()
    expect(page.get_by_label("Address of this task")).to_be_visible()
    assert (
        read_fragment(page.get_by_label("Address of this task").input_value())["task"]["id"]
        == "shift-7-clean"
    )
