"""The policy: what the form starts from, what is changed of it, and the one that decided, to be copied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import CommandLine
from playwright.sync_api import Page, Route, expect
from support import TASKS, field, flags, fragment, run


def empty(page: Page) -> dict[str, str]:
    """What every empty override says that the policy has."""
    found = page.locator("#overrides [data-option]").evaluate_all(
        """nodes => nodes.map((node) =>
            [node.dataset.option, node.options ? node.options[0].text : node.placeholder])"""
    )
    return dict(found)


def test_empty_overrides_show_what_the_chosen_policy_has(page: Page, service: str) -> None:
    page.goto(service)
    page.locator("#decision-box > summary").click()
    expect(page.locator("#step_scale")).to_have_attribute("placeholder", "0.6")
    shown = empty(page)
    adjoints = [f"{part}, as the policy has it" for part in ("local", "whole")]
    assert shown.pop("adjoint") in adjoints
    assert shown == {
        "blocks": "mlp-up@upper-half",
        "select": "depth, as the policy has it",
        "budget": "",
        "seed": "0",
        "horizon": "leave-one-out-average, as the policy has it",
        "horizons": "0,1,2,4,8,16,32,64",
        "step_scale": "0.6",
        "dynamics": "linear, as the policy has it",
        "coverage": "0.8",
        "confidence": "0.9",
        "residuals": "leave-one-out, as the policy has it",
        "orders": "",
        "shots": "as many as fit",
    }
    hint = page.locator("#policy-hint").inner_text()
    field(page, "policy").select_option("paper")
    assert empty(page) == {
        "blocks": "value@last4",
        "select": "all, as the policy has it",
        "budget": "",
        "seed": "0",
        "horizon": "evidence, as the policy has it",
        "horizons": "0..30",
        "step_scale": "0.1",
        "dynamics": "steps, as the policy has it",
        "coverage": "0.8",
        "confidence": "0.9",
        "adjoint": "whole, as the policy has it",
        "residuals": "leave-one-out, as the policy has it",
        "orders": "",
        "shots": "as many as fit",
    }
    assert page.locator("#policy-hint").inner_text() not in ("", hint)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "Policy: default"),
        ({"policy": "default"}, "Policy: default"),
        ({"policy": "paper"}, "Policy: paper"),
        ({"step_scale": 0.6}, "Policy: default"),
        (
            {"step_scale": 0.3, "horizon": "evidence"},
            "Policy: custom, differs from the default in: horizon, step_scale",
        ),
        (
            {"policy": "paper", "select": "random", "budget": 2, "seed": 7},
            "Policy: custom, differs from the paper’s in: selection, shots",
        ),
        ({"horizons": "0..7", "coverage": 0.5, "dynamics": "steps", "blocks": "value@all"}, None),
    ],
)
def test_the_policy_that_decided_is_named_and_shown_whole(
    page: Page, service: str, command_line: CommandLine, tmp_path: Path, options: dict, line: str | None
) -> None:
    page.goto(service + "/" + fragment(TASKS[3], options))
    run(page)
    report = command_line.report(TASKS[3], *flags(options))
    fields = "blocks, horizons, dynamics, coverage"
    expected = line or f"Policy: custom, differs from the default in: {fields}"
    expect(page.locator("#policy-line")).to_have_text(expected)
    shown = page.locator("#policy-text").text_content()
    assert json.loads(shown) == report["policy"]
    # A line for each field, and nothing but blanks beside what the report has.
    assert len(shown.splitlines()) == len(report["policy"]) + 2
    assert json.dumps(json.loads(shown)) == json.dumps(report["policy"])
    # Given back, it decides the same.
    file = tmp_path / "policy.json"
    file.write_text(shown)
    again = command_line.json(TASKS[3], "--policy", str(file))
    assert again == command_line.json(TASKS[3], *flags(options))


def test_digits_that_javascript_would_lose_are_kept(page: Page, service: str) -> None:
    # Larger than a seed of the form may be, so that only the service can have said it.
    seed = 2**64 - 1

    def seeded(route: Route) -> None:
        body = {**json.loads(route.request.post_data), "select": "random", "budget": 2, "seed": seed}
        route.continue_(post_data=json.dumps(body))

    page.route("**/v1/predict", seeded)
    page.goto(service + "/" + fragment(TASKS[3]))
    run(page)
    assert json.loads(page.locator("#policy-text").text_content())["selection"]["seed"] == seed


def test_the_policy_is_copied(page: Page, service: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(service + "/" + fragment(TASKS[3], {"step_scale": 0.3}))
    run(page)
    page.locator("#policy-answer summary").click()
    page.get_by_role("button", name="Copy policy").click()
    expect(page.locator("#policy-status")).to_have_text("The policy was copied.")
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied == page.locator("#policy-text").text_content()
    assert json.loads(copied)["step_scale"] == 0.3


def test_a_policy_that_cannot_be_copied_is_selected(page: Page, service: str) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.goto(service + "/" + fragment(TASKS[3]))
    run(page)
    page.locator("#policy-answer summary").click()
    page.get_by_role("button", name="Copy policy").click()
    expect(page.locator("#policy-status")).to_contain_text("it is selected")
    assert page.evaluate("getSelection().toString()") == page.locator("#policy-text").text_content()


def test_without_the_policies_of_the_service_the_page_still_works(
    page: Page, service: str, complaints: list[str]
) -> None:
    complaints.append("503")
    problem = {"title": "Models are being loaded", "status": 503, "detail": "try again", "field": None}
    page.route("**/v1/models", lambda route: route.fulfill(status=503, body=json.dumps(problem)))
    page.goto(service + "/" + fragment(TASKS[3], {"step_scale": 0.3}))
    expect(page.locator("#model-note")).to_have_text("try again")
    assert empty(page)["select"] == "as the policy has it" and empty(page)["blocks"] == ""
    run(page)
    expect(page.locator("#policy-line")).to_have_text("Policy: custom")
