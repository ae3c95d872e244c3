"""What is wrong is said beside the field at fault and in a live region."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, Route, expect
from support import TASKS, answered, field, fragment, run


def press_run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


def expect_problem(page: Page, name: str, part: str) -> None:
    """The field is marked, described by the message, and has the focus; the live region says the same."""
    at_fault = field(page, name)
    expect(at_fault).to_have_attribute("aria-invalid", "true")
    expect(at_fault).to_be_focused()
    described = at_fault.get_attribute("aria-describedby").split()[-1]
    expect(page.locator(f"#{described}")).to_contain_text(part)
    expect(page.locator(f"#{described}")).to_be_visible()
    expect(page.locator("#problem[role=alert]")).to_contain_text(part)


@pytest.mark.parametrize(
    ("name", "typed", "part"),
    [
        ("template", "no places", "{x}"),
        ("examples[3].y", "eleven", "eleven"),
        ("examples[2].x", "", "x of example 2 is blank"),
        ("query.x", " ", "x of the query is blank"),
        ("query.y", "eleven", "eleven"),
        ("labels[4].text", "3", "3"),
    ],
)
def test_the_service_names_the_field(
    page: Page, service: str, complaints: list[str], name: str, typed: str, part: str
) -> None:
    complaints.append("422")
    page.goto(service)
    page.locator("#labels-box summary").click()
    field(page, name).fill(typed)
    press_run(page)
    expect_problem(page, name, part)
    # Mended, it runs, and nothing of the problem is left.
    page.get_by_role("button", name="Load").click()
    run(page)
    expect(page.locator("[aria-invalid]")).to_have_count(0)
    expect(page.locator("#problem")).to_be_empty()


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("blocks", "nothing@last4"),
        ("horizons", "8,1"),
        ("budget", "1000"),
        ("step_scale", "2"),
        ("coverage", "1"),
        ("orders", "3"),
        ("shots", "0"),
        ("lora_rank", "4"),
    ],
)
def test_options_are_named_too(
    page: Page, service: str, complaints: list[str], name: str, typed: str
) -> None:
    complaints.append("422")
    page.goto(service)
    page.locator("#decision-box > summary").click()
    page.locator("#reading-box > summary").click()
    field(page, name).fill(typed)
    if name == "budget":
        field(page, "select").select_option("query-aware")
    press_run(page)
    expect_problem(page, name, "")


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("labels[2].value", "two"),
        ("budget", "many"),
        ("seed", "-1"),
        ("step_scale", "0.1.2"),
        ("max_tokens_per_example", "1.5"),
        ("token", "no blanks"),
    ],
)
def test_what_cannot_be_sent_is_said_without_a_request(
    page: Page, service: str, name: str, typed: str
) -> None:
    page.goto(service)
    # What stands in a closed box is found as well.
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = true; })")
    field(page, name).fill(typed)
    page.evaluate("document.querySelectorAll('details').forEach((box) => { box.open = false; })")
    # The page may still be asking for the models; what is sent would be posted.
    sent: list[str] = []
    page.on("request", lambda request: sent.append(f"{request.method} {request.url}"))
    press_run(page)
    expect_problem(page, name, "")
    assert not [request for request in sent if request.startswith("POST")]


def test_a_policy_that_the_service_does_not_know_is_named_too(
    page: Page, service: str, complaints: list[str]
) -> None:
    complaints.append("422")
    page.goto(service + "/" + fragment(TASKS[3], {"policy": "best"}))
    press_run(page)
    expect_problem(page, "policy", "default, paper")


def answer_with(page: Page, status: int, body: dict | str, headers: dict | None = None) -> None:
    def answer(route: Route) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        route.fulfill(
            status=status, body=text, headers={"Content-Type": "application/problem+json", **(headers or {})}
        )

    page.route("**/v1/predict", answer)


def test_too_many_requests_say_when_to_try_again(page: Page, service: str, complaints: list[str]) -> None:
    complaints.append("429")
    page.goto(service + "/" + fragment(TASKS[3]))
    run(page)
    words = page.locator("#answers").inner_text()
    problem = {
        "type": "/problems/busy",
        "title": "Too many requests wait",
        "status": 429,
        "detail": "the queue is full",
        "field": None,
    }
    answer_with(page, 429, problem, {"Retry-After": "7"})
    press_run(page)
    expect(page.locator("#problem")).to_contain_text(
        "Too many requests wait. the queue is full. Try again in 7 s, after "
    )
    # The last answer and what was typed are still there.
    assert page.locator("#answers").inner_text() == words
    expect(field(page, "query.x")).to_have_value("8")
    page.unroute("**/v1/predict")
    run(page)
    expect(page.locator("#problem")).to_be_empty()


def test_a_date_says_when_to_try_again_too(page: Page, service: str) -> None:
    page.goto(service)
    found = page.evaluate(
        """async () => {
            const { retryText } = await import("/page/problems.js");
            const now = new Date("Tue, 17 Nov 2026 12:00:00 GMT");
            const headers = ["Tue, 17 Nov 2026 12:00:09 GMT", "soon", null, "0"];
            return headers.map((header) => retryText(header, now));
        }"""
    )
    assert (
        found[0].startswith("Try again in 9 s")
        and found[1:3] == [None, None]
        and found[3].startswith("Try again in 0 s")
    )


def test_a_service_that_asks_for_a_token_gets_it_and_nobody_else_does(
    page: Page, service: str, complaints: list[str]
) -> None:
    complaints.append("401")
    seen: list[str | None] = []

    def guard(route: Route) -> None:
        seen.append(route.request.headers.get("authorization"))
        if seen[-1] == "Bearer secret-token":
            route.continue_()
        else:
            problem = {
                "type": "/problems/unauthorized",
                "title": "A bearer token is needed",
                "status": 401,
                "detail": "send it",
                "field": None,
            }
            route.fulfill(
                status=401, body=json.dumps(problem), headers={"Content-Type": "application/problem+json"}
            )

    page.route("**/v1/**", guard)
    page.goto(service + "/" + fragment(TASKS[3]))
    expect(page.locator("#model-note")).to_contain_text("asks for a token")
    press_run(page)
    expect_problem(page, "token", "send it")
    page.keyboard.type("secret-token")
    page.keyboard.press("Enter")
    answered(page)
    assert seen[0] is None and seen[-1] == "Bearer secret-token"
    assert "secret-token" not in page.url
    kept = page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])")
    assert kept == '[{},{},""]'
    page.reload()
    expect(page.locator("#token")).to_have_value("")


@pytest.mark.parametrize("body", ["<h1>no JSON</h1>", "[]", '{"title": 7, "detail": {}, "field": []}', ""])
def test_an_answer_that_is_no_problem_object_is_a_problem(
    page: Page, service: str, complaints: list[str], body: str
) -> None:
    complaints.append("500")
    page.goto(service)
    answer_with(page, 500, body)
    press_run(page)
    expect(page.locator("#problem")).to_have_text("The service answers with 500")


def test_a_field_that_the_form_does_not_have_leads_to_the_nearest_one(
    page: Page, service: str, complaints: list[str]
) -> None:
    complaints.append("422")
    page.goto(service)
    for named, shown in [
        ("task.examples[2].z", "examples[2].x"),
        ("task.query", "query.x"),
        ("examples[99].x", "examples"),
    ]:
        page.unroute("**/v1/predict")
        answer_with(page, 422, {"title": "wrong", "status": 422, "detail": "this is wrong", "field": named})
        press_run(page)
        expect(field(page, shown)).to_have_attribute("aria-invalid", "true")
    answer_with(page, 422, {"title": "wrong", "status": 422, "detail": "something else", "field": "nowhere"})
    press_run(page)
    expect(page.locator("#problem")).to_contain_text("something else")
    expect(page.locator("[aria-invalid]")).to_have_count(0)


def test_a_service_that_has_gone_is_said_to_be_gone(page: Page, service: str, complaints: list[str]) -> None:
    complaints.append("ERR_CONNECTION_REFUSED")
    page.goto(service)
    page.route("**/v1/predict", lambda route: route.abort("connectionrefused"))
    press_run(page)
    expect(page.locator("#problem")).to_contain_text("The service does not answer")


def test_text_from_outside_is_never_markup(page: Page, service: str, complaints: list[str]) -> None:
    complaints.append("422")
    attack = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    page.goto(service)
    answer_with(page, 422, {"title": attack, "status": 422, "detail": attack, "field": "template"})
    press_run(page)
    expect(page.locator("#problem")).to_contain_text("<script>")
    assert page.locator("#problem img, #problem script, .field-error img").count() == 0
    assert page.title().startswith("fewstep")


def test_a_report_with_names_that_look_like_markup_is_text(page: Page, service: str, command_line) -> None:
    attack = "<img src=x onerror=alert(1)>"
    report = {**command_line.report(TASKS[3]), "id": attack}
    report["lines"] = {line: f"{attack}: {attack}" for line in report["lines"]}
    report["policy"] = {**report["policy"], "name": attack, "blocks": attack}
    page.goto(service)
    answer_with(page, 200, {"report": report})
    run(page)
    for line in report["lines"]:
        expect(page.locator(f'[data-answer="{line}"]')).to_have_text(f"{attack}: {attack}")
    expect(page.locator("#policy-line")).to_contain_text(attack)
    expect(page.locator("#policy-text")).to_contain_text(attack)
    assert page.locator("#answer img").count() == 0
