"""A model answers as the program does, to the last bit."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import fewstep
from fewstep import Failure, Model, Report, Task, errors

from . import places

DIGITS = "examples/digits.jsonl"


@pytest.fixture(scope="module")
def model():
    return Model.load()


@pytest.fixture(scope="module")
def tasks():
    return places.tasks(DIGITS)


@pytest.mark.parametrize(
    "flags, options",
    [
        ([], {}),
        (["--full"], {"full": True}),
        (["--policy", "paper"], {"policy": "paper"}),
        (["--policy", "paper", "--horizon", "8", "--full"], {"policy": fewstep.Policy.paper(), "horizon": 8, "full": True}),
        (["--dynamics", "linear"], {"dynamics": "linear"}),
        (["--dynamics", "steps", "--coverage", "0.5"], {"dynamics": "steps", "coverage": 0.5}),
        (["--horizon", "evidence"], {"horizon": "evidence"}),
        (["--horizon", "8", "--blocks", "value,output@last2"], {"horizon": 8, "blocks": "value,output@last2"}),
        (["--horizons", "0,1,2,4,8"], {"horizons": [0, 1, 2, 4, 8]}),
        (["--horizons", "0..5"], {"horizons": range(6)}),
        (["--horizons", "0..5"], {"horizons": "0..5"}),
        (["--step-scale", "0.25"], {"step_scale": 0.25}),
        (
            ["--adjoint", "whole", "--residuals", "leave-one-out"],
            {"adjoint": "whole", "residuals": "leave-one-out"},
        ),
        (["--select", "query-aware", "--budget", "3"], {"select": "query-aware", "budget": 3}),
        (
            ["--select", "random", "--budget", "2", "--seed", "5"],
            {"select": "random", "budget": 2, "seed": 5},
        ),
        (["--horizon", "bayes-filter", "--seed", "3"], {"horizon": "bayes-filter", "seed": 3}),
        (
            ["--blocks", "lora-value@last1", "--lora-rank", "2", "--seed", "4"],
            {"blocks": "lora-value@last1", "lora_rank": 2, "seed": 4},
        ),
        (
            ["--blocks", "lora-query@last1", "--lora-first", "inputs"],
            {"blocks": "lora-query@last1", "lora_first": "inputs"},
        ),
    ],
)
def test_reports_are_those_of_the_program(model, tasks, flags, options):
    expected = places.said("predict", DIGITS, *flags)
    reports = model.predict(tasks, **options)
    assert [report.to_json() for report in reports] == expected
    assert [report.to_dict() for report in reports] == [json.loads(line) for line in expected]
    assert model.predict(tasks[1], **options).to_json() == expected[1]


def test_explanations_are_those_of_the_program(model, tasks):
    expected = places.said("decide", DIGITS, "--full")
    reports = model.decide(tasks, full=True)
    assert [report.to_json() for report in reports] == expected
    assert model.decide(tasks[0]).prediction.adapted is None
    with pytest.raises(TypeError, match='"speed" is no keyword here'):
        model.decide(tasks[0], speed=1)


@pytest.mark.parametrize(
    "flags, settings",
    [
        ([], {}),
        (["--loo-order", "tree"], {"loo_order": "tree"}),
        (["--bos", "never", "--max-tokens-per-example", "3"], {"bos": "never", "max_tokens_per_example": 3}),
    ],
)
@pytest.mark.parametrize("name", ["fixtures/llama-plain", "fixtures/gguf/qwen2.gguf"])
def test_models_in_files_answer_as_in_the_program(name, flags, settings):
    path = places.root() / name
    expected = places.said("predict", "fixtures/tasks.jsonl", "--model", str(path), *flags)
    with Model.load(path, **settings) as model:
        found = model.predict(places.lines("fixtures/tasks.jsonl"))
    assert len(found) == len(expected)
    for answer, line in zip(found, expected):
        record = json.loads(line)
        if "error" in record:
            assert answer.to_dict() == record
        else:
            assert answer.to_json() == line


def test_failures_stand_in_their_places(model):
    lines = places.lines("examples/bad.jsonl")
    expected = [json.loads(line) for line in places.said("predict", "examples/bad.jsonl")]
    found = model.predict(lines)
    # The program refuses an id that was used before; here the place says which task it is.
    twice = 3
    assert isinstance(found[twice], Report) and "error" in expected[twice]
    for place, (answer, record) in enumerate(zip(found, expected)):
        if place != twice:
            assert answer.to_dict() == record
            assert isinstance(answer, Failure) == ("error" in record)
    strange = model.predict([3, lines[0], {"id": "a", "template": object()}])
    assert [type(answer) for answer in strange] == [Failure, Report, Failure]
    assert strange[0].to_dict() == {
        "id": None,
        "line": 1,
        "error": "a task is int; give a Task, a dictionary or a line of JSON",
    }
    assert (strange[2].line, strange[2].error[:20]) == (3, "a task holds object;")


def test_one_task_in_any_form_is_one_report(model, tasks):
    report = model.predict(tasks[0])
    assert isinstance(report, Report)
    assert model.predict(Task.from_dict(tasks[0])) == report
    assert model.predict(json.dumps(tasks[0])) == report
    assert model.predict(tasks[:1]) == [report]
    assert model.predict(iter(tasks[:1]), threads=1) == [report]
    assert model.predict([]) == []
    assert report != model.predict(tasks[1])
    with pytest.raises(errors.TooFewExamples):
        model.predict({**tasks[0], "examples": []})
    with pytest.raises(errors.Json):
        model.predict("no task")


def test_a_report_has_the_fields_of_its_json(model, tasks):
    report = model.predict(tasks[0], full=True, dynamics="steps")
    record = report.to_dict()
    for part in ("prediction", "when", "how_far", "which", "geometry", "passes"):
        found = getattr(report, part).to_dict()
        shown = {name: value for name, value in found.items() if name in record[part]}
        assert list(record[part]) == [name for name in found if name in record[part]]
        if part == "which":
            assert [block.name for block in report.which.blocks] == [
                block["name"] for block in record["which"]["blocks"]
            ]
        assert shown == record[part]
        # What the JSON leaves out is absent or empty.
        assert all(not value for name, value in found.items() if name not in record[part])
    assert isinstance(report.geometry.kernel, np.ndarray)
    assert report.geometry.kernel.shape == (len(report.geometry.residuals),) * 2
    brief = model.predict(tasks[0])
    assert brief.geometry.kernel is None and "blocks" not in brief.to_dict()["which"]
    assert len(brief.which.blocks) == len(report.which.blocks)
    assert repr(report.passes) == f"Passes(forward={report.passes.forward}, backward={report.passes.backward})"
    assert repr(report).startswith("Report('shift-2-clean', icl=0.")


def test_the_query_is_followed_where_all_is_asked_for(model, tasks):
    report = model.predict(tasks[3], policy="paper", horizon=5, full=True)
    prediction, geometry, far = report.prediction, report.geometry, report.how_far
    assert prediction.path.linear.shape == (31,) and prediction.path.steps.shape == (6,)
    assert (prediction.path.steps[0], prediction.path.steps[5]) == (prediction.icl, prediction.adapted)
    # Steps of the linearised model, taken one by one.
    moved, fit = 0.0, np.zeros(len(geometry.residuals))
    for after in prediction.path.linear:
        assert after == pytest.approx(prediction.icl + moved, abs=1e-12)
        left = far.step_size * (geometry.residuals - fit)
        moved, fit = moved + geometry.coupling @ left, fit + geometry.kernel @ left
    kept = (1 - far.step_size * geometry.eigenvalues) ** 5
    assert geometry.response == pytest.approx(1 - kept, abs=1e-12)
    fitted = fewstep.signal.SignalFit(fewstep.Spectrum(geometry.kernel), geometry.residuals)
    best = fitted.benchmark(geometry.residuals).response(geometry.eigenvalues)
    assert geometry.bayes_response == pytest.approx(best, abs=1e-9)
    brief = model.predict(tasks[3], policy="paper", horizon=5)
    assert brief.prediction.adapted == prediction.adapted
    assert brief.prediction.path is brief.geometry.response is brief.geometry.bayes_response is None
    # Nothing is carried out by a decision or by an update at once.
    assert model.decide(tasks[3], full=True).prediction.path.steps is None
    assert model.predict(tasks[3], policy="paper", horizon="gibbs", full=True).prediction.path.steps is None


def test_text_is_that_of_the_program(model, tasks):
    import subprocess

    words = [places.program(), "predict", str(places.root() / DIGITS)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for report in model.predict(tasks):
        assert str(report) in said


def test_notebooks_get_text_and_drawings(model, tasks):
    page = model.predict({**tasks[0], "id": "<b>&"})._repr_html_()
    assert page.count("<svg") == page.count("</svg>") > 0
    assert "<style" not in page and "<b>" not in page
    assert page.startswith("<pre>&lt;b&gt;&amp;\n")


def test_what_is_asked_for_must_make_sense(model, tasks):
    refused = [
        ({"blocks": "value"}, errors.BadChoice, "value"),
        ({"blocks": ["value.0.0"]}, errors.WrongType, "blocks is list; text is needed"),
        ({"select": "best"}, errors.UnknownName, "best"),
        ({"select": "trace-top"}, errors.Policy, "trace-top"),
        ({"select": "trace-top", "budget": 1000}, errors.Policy, "1000"),
        ({"horizon": "soon"}, errors.UnknownName, "soon"),
        ({"horizon": 100_001}, errors.Policy, "100001"),
        ({"horizons": "3..1"}, errors.Policy, "3..1"),
        ({"horizons": [2, 1]}, errors.Policy, "[2, 1]"),
        ({"horizons": []}, errors.Policy, "[]"),
        ({"horizons": range(10**9)}, errors.Policy, "[0, 1, 2, 3, …]"),
        ({"step_scale": 1.0}, errors.Policy, "step_scale"),
        ({"step_scale": float("nan")}, errors.Policy, "step_scale"),
        ({"dynamics": "fast"}, errors.UnknownName, "steps or linear"),
        ({"adjoint": "none"}, errors.UnknownName, "local or whole"),
        ({"residuals": "suffix"}, errors.UnknownName, "leave-one-out or prefix"),
        ({"orders": 3}, errors.Policy, "take no orders"),
        ({"shots": 0}, errors.Policy, "from 1"),
        ({"lora_rank": 2}, errors.NoLowRankBlocks, "lora_rank"),
        ({"blocks": "lora-value@last1", "lora_rank": 10**6}, errors.LoraRank, "1000000"),
        ({"lora_first": "last"}, errors.UnknownFirstFactor, "last"),
        ({"threads": 0}, errors.OutOfRange, "number of threads"),
        ({"budget": -1}, OverflowError, ""),
        ({"budget": "one"}, TypeError, ""),
        ({"speed": 1}, TypeError, '"speed" is no keyword here'),
        ({"progress": "often"}, ValueError, "'always'"),
    ]
    for options, error, words in refused:
        # Before any task is read, so that not every task fails of it.
        with pytest.raises(error) as raised:
            model.predict([tasks[0]], **options)
        assert words in str(raised.value), options
    nothing = dict.fromkeys(["blocks", "select", "budget", "horizon", "horizons", "step_scale"])
    assert model.predict(tasks[0], **nothing) == model.predict(tasks[0])
    with pytest.raises(errors.WrongType, match="tasks is one task"):
        model.predict_iter(tasks[0])
    with pytest.raises(TypeError):
        model.predict(3)


def test_what_is_loaded_must_be_a_model(tmp_path):
    with pytest.raises(errors.ModelNotFound):
        Model.load("no such/directory/here")
    with pytest.raises(errors.File):
        Model.load(tmp_path)
    with pytest.raises(errors.WrongType, match="source is int"):
        Model.load(3)
    with pytest.raises(errors.UnknownName, match="auto, always or never"):
        Model.load(bos="often")
    with pytest.raises(errors.UnknownOrder):
        Model.load(loo_order="half")
    with pytest.raises(errors.LoraRank):
        Model.load(lora_rank=0)
    with pytest.raises(TypeError, match='"speed" is no keyword of Model.load'):
        Model.load(speed=1)
    with pytest.raises(TypeError, match='"speed" is no keyword of Model.load'):
        Model.load(speed=None)
    with pytest.raises(errors.TooMuchMemory):
        Model.load(memory_limit=100).predict(places.tasks(DIGITS)[0])


def test_a_model_says_what_it_is(model):
    config = model.config
    assert (config["family"], config["vocabulary"], model.source) == ("gpt2", 256, "builtin")
    assert config["width"] == config["heads"] * config["head_width"]
    layers, heads = config["layers"], config["heads"]
    assert repr(model) == f"Model('builtin', {layers} layers, {heads} heads, width {config['width']})"
    assert model.blocks("value@last1") == [f"value.{layers - 1}.{head}" for head in range(heads)]
    upper = range(layers - (layers + 1) // 2, layers)
    assert model.blocks() == [f"mlp-up.{layer}" for layer in upper]
    assert model.blocks(["mlp-up.0"]) == ["mlp-up.0"]
    with pytest.raises(errors.BadBlockName):
        model.blocks(["mlp"])
    with pytest.raises(errors.BadLayers):
        model.blocks("value@0..99")


def test_a_closed_model_refuses_everything(tasks):
    with Model.load() as model:
        report = model.predict(tasks[0])
        seen = model.observe(tasks[0])
        decision = fewstep.decide(seen.geometry, horizon=1)
        update = model.act(tasks[0], decision).update
        kept = model.predict_iter(tasks[:1])
    calls = [
        lambda: model.config,
        lambda: model.blocks(),
        lambda: model.observe(tasks[0]),
        lambda: model.decide(tasks[0]),
        lambda: model.predict(tasks[0]),
        lambda: model.predict(tasks),
        lambda: model.predict_iter(tasks),
        lambda: model.load_update("nowhere"),
        lambda: model.act(tasks[0], decision),
        lambda: model.predict_with(tasks[0], update),
        lambda: model.__enter__(),
        lambda: pickle.dumps(model),
    ]
    for call in calls:
        with pytest.raises(errors.Closed, match='the model "builtin" is closed; load it again'):
            call()
    assert repr(model) == "Model('builtin', closed)"
    model.close()
    # What was made before goes on.
    assert next(kept) == report and len(seen.residuals) > 0


def test_a_copy_reads_the_model_again(tasks):
    model = Model.load(loo_order="tree", bos="never")
    copy = pickle.loads(pickle.dumps(model))
    assert copy.predict(tasks[0]) == model.predict(tasks[0])
    assert copy.predict(tasks[0]) != Model.load().predict(tasks[0])


def test_tasks_are_read_only_when_there_is_room(model, tasks):
    read = []

    def endless():
        while True:
            read.append(tasks[len(read) % len(tasks)])
            yield read[-1]

    expected = model.predict(tasks)
    answers = model.predict_iter(endless(), threads=2)
    assert read == [] and iter(answers) is answers
    for place in range(20):
        assert next(answers) == expected[place % len(tasks)]
        assert len(read) <= place + 1 + 2 * 4
    assert len(read) >= 20


def test_what_the_source_of_tasks_raises_comes_behind_the_answers_before(model, tasks):
    def broken():
        yield tasks[0]
        yield tasks[1]
        raise KeyError("source")

    answers = model.predict_iter(broken())
    assert [next(answers).id, next(answers).id] == [tasks[0]["id"], tasks[1]["id"]]
    with pytest.raises(KeyError, match="source"):
        next(answers)
    assert list(answers) == []
    with pytest.raises(KeyError, match="source"):
        model.predict(broken())

    def asks_itself():
        yield tasks[0]
        next(own)

    own = model.predict_iter(asks_itself())
    with pytest.raises(ValueError, match="being read already"):
        list(own)


def test_observing_is_what_the_report_rests_on(model, tasks):
    seen = model.observe(tasks[0], "value@last1")
    report = model.decide(tasks[0], blocks="value@last1", full=True)
    assert np.array_equal(seen.residuals, report.geometry.residuals)
    assert seen.query_prediction == report.prediction.icl
    values = {label["text"]: label["value"] for label in tasks[0]["labels"]}
    answers = np.array([values[example["y"]] for example in tasks[0]["examples"]])
    assert np.array_equal(answers - seen.predictions, seen.residuals)
    assert seen.passes.to_dict() == report.passes.to_dict()
    names = model.blocks("value@last1")
    again = model.observe(Task.from_dict(tasks[0]), names)
    assert np.array_equal(again.residuals, seen.residuals)
    assert len(model.observe(tasks[0]).geometry.blocks) == len(model.blocks())
    with pytest.raises(errors.NoSuchBlock):
        model.observe(tasks[0], ["value.99.0"])
    with pytest.raises(errors.Empty):
        model.observe(tasks[0], [])


def test_a_decision_is_carried_out(model, tasks, tmp_path):
    seen = model.observe(tasks[0], policy="paper")
    decision = fewstep.decide(seen.geometry, policy="paper", horizon=8)
    outcome = model.act(tasks[0], decision)
    report = model.predict(tasks[0], policy="paper", horizon=8)
    assert outcome.icl == report.prediction.icl
    # A report follows the query only at the end, so sums in single precision have another order:
    # the last places of a few sums over the width.
    last_places = 8 * np.finfo(np.float32).eps * abs(outcome.adapted)
    assert abs(outcome.adapted - report.prediction.adapted) <= last_places
    assert outcome.adapted != outcome.icl
    assert outcome.query_path.shape == outcome.linear_path.shape == (9,)
    assert outcome.prompt_path.shape == (9, len(tasks[0]["examples"]))
    assert (outcome.query_path[0], outcome.query_path[-1]) == (outcome.icl, outcome.adapted)
    assert np.array_equal(outcome.prompt_path[0], seen.predictions)
    assert outcome.linear_path[-1] == pytest.approx(report.prediction.linear, rel=1e-12)

    update = outcome.update
    assert update.blocks == model.blocks("value@last4")
    assert set(update.to_dict()) == set(update.blocks)
    assert model.predict_with(tasks[0], update) == outcome.adapted
    update.save(tmp_path / "update.safetensors")
    saved = model.load_update(tmp_path / "update.safetensors")
    assert model.predict_with(tasks[0], saved) == outcome.adapted
    update.save_peft(tmp_path / "peft")
    assert (tmp_path / "peft" / "adapter_config.json").is_file()
    again = model.load_update(str(tmp_path / "peft"))
    # Factors are rounded to single precision.
    assert model.predict_with(tasks[0], again) == pytest.approx(outcome.adapted, abs=1e-5)
    update.save_lora_gguf(tmp_path / "update.gguf")
    assert (tmp_path / "update.gguf").read_bytes()[:4] == b"GGUF"
    with pytest.raises(errors.File):
        update.save(tmp_path / "nowhere" / "update.safetensors")
    assert repr(update).startswith("Update(value.")

    alone = model.act(tasks[0], fewstep.decide(seen.geometry, policy="paper", horizon=0))
    assert alone.update is None and alone.adapted == alone.icl
    with pytest.raises(errors.SizeMismatch):
        fewer = {**tasks[0], "examples": tasks[0]["examples"][:3]}
        model.act(fewer, decision)
    # Blocks are found by what the model called them, not by their names.
    renamed = fewstep.Block("value.5.0", seen.geometry.blocks[0].kernel, layer=5)
    other = fewstep.decide(fewstep.Geometry(seen.residuals, [renamed]), horizon=1)
    with pytest.raises(errors.ForeignBlock, match='block "value.5.0" of the decision is not one'):
        model.act(tasks[0], other)
    with pytest.raises(TypeError):
        model.act(tasks[0], "decision")
