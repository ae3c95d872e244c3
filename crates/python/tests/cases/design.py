from __future__ import annotations

import numpy as np

from fewstep.theory.design import GlobalInformation, LinearGaussian, PlugIn, QueryMetric

from . import inputs


def cases():
    jacobian = inputs.features(1, 4, 5)
    rows = inputs.features(2, 5, 5)
    metric = QueryMetric.from_queries(inputs.features(3, 3, 5))
    identity = QueryMetric.from_matrix(np.eye(5))
    vector = [0.5, -0.25, 0.125, 0.75, -0.375]
    found = {
        "design.QueryMetric": [metric.dimension, metric.parameters, identity.dimension],
        "design.QueryMetric.whiten": metric.whiten(vector),
        "design.QueryMetric.unwhiten": metric.unwhiten([0.5, 0.25, -1.0]),
    }
    priors = {
        "isotropic": 0.75,
        "diagonal": [0.5, 0.0, 1.0, 0.25, 2.0],
        "full": rows @ rows.T,
    }
    average = GlobalInformation(metric.dimension)
    for name, prior in priors.items():
        model = LinearGaussian(jacobian, prior, 0.375)
        information = model.query_information(metric)
        subspace = information.optimal_subspace(2)
        average.add(information)
        values = {
            "posterior_mean": model.posterior_mean(inputs.residuals()),
            "posterior_covariance": model.posterior_covariance(vector),
            "information": model.information(vector),
            "information_matrix": model.information_matrix(),
            "query_information": information.matrix,
            "total": information.total,
            "subspace": [subspace.captured, subspace.risk],
            "basis": subspace.basis,
            "directions": subspace.directions(metric),
        }
        for what, value in values.items():
            found[f"design.{what}.{name}"] = value
    mean = average.mean()
    best = mean.optimal_subspace(1)
    found["design.GlobalInformation.prompts"] = average.prompts
    found["design.GlobalInformation.mean"] = mean.matrix
    found["design.QueryInformation.risk"] = [mean.risk(best), mean.total]
    any_prompts, independent = PlugIn(10, 3, 1.5, 8.0), PlugIn.independent(10, 3, 1.5, 0.25)
    found["design.PlugIn"] = [
        any_prompts.deviation(0.125),
        any_prompts.regret(2, 0.125),
        independent.deviation(0.125),
    ]
    return found
