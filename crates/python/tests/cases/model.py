from __future__ import annotations

import fewstep

TASK = {
    "id": "t1",
    "template": "{x}->{y}",
    "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.25}, {"text": "2", "value": 1.0}],
    "examples": [("3", "1"), ("5", "2"), ("7", "1"), ("2", "0")],
    "query": {"x": "4", "y": "1"},
}


def cases():
    with fewstep.Model.load() as model:
        seen = model.observe(TASK, "value@last2", policy="paper")
        outcome = model.act(TASK, fewstep.decide(seen.geometry, policy="paper", horizon=3))
        default = model.predict(TASK).prediction
        report = model.predict(TASK, full=True, dynamics="steps")
    prediction, how_far = report.prediction, report.how_far
    interval = prediction.interval
    return {
        "Model.act.icl": [outcome.icl, outcome.adapted],
        "Model.act.query_path": outcome.query_path,
        "Model.act.linear_path": outcome.linear_path,
        "Model.act.prompt_path": outcome.prompt_path,
        "Model.observe.predictions": seen.predictions,
        "Block.id": [block.id for block in seen.geometry.blocks],
        "Model.observe.residuals": seen.residuals,
        "Model.observe.query_prediction": seen.query_prediction,
        "Model.predict.default": [default.adapted, default.linear],
        "Model.predict.prediction": [prediction.icl, prediction.adapted, prediction.linear],
        "Model.predict.interval": [interval.lower, interval.upper, interval.coverage],
        "Model.predict.path.linear": prediction.path.linear,
        "Model.predict.path.steps": prediction.path.steps,
        "Model.predict.evidence": how_far.evidence,
        "Model.predict.posterior": how_far.posterior,
        "Model.predict.leave_one_out": how_far.leave_one_out,
        "Model.predict.eigenvalues": report.geometry.eigenvalues,
        "Model.predict.response": report.geometry.response,
        "Model.predict.bayes_response": report.geometry.bayes_response,
        "Model.predict.kernel": report.geometry.kernel,
    }
