from __future__ import annotations

import fewstep
from fewstep import risk, theory

from . import inputs


def shown(benefit):
    return [benefit.gap_icl, benefit.gap_adapted, benefit.improvement, benefit.helps]


def cases():
    spectrum = fewstep.Spectrum(inputs.kernel())
    step = fewstep.StepSize.fraction(0.25, spectrum)
    benchmark, other = risk.Benchmark(0.75, 0.375), risk.Benchmark(2.0, 0.5)
    coupling = spectrum.project([0.5, 0.25, -0.75, 1.0])
    filters = {
        "none": fewstep.NoUpdate(),
        "descent": fewstep.GradientDescent(step, 5),
        "benchmark": benchmark,
    }
    found = {}
    for name, filter in filters.items():
        values = {
            "prompt_risk": risk.prompt_risk(spectrum, filter, benchmark),
            "prompt_gap": risk.prompt_gap(spectrum, filter, benchmark),
            "prompt_benefit": shown(risk.prompt_benefit(spectrum, filter, benchmark)),
            "query_gap": risk.query_gap(spectrum, coupling, filter, benchmark),
            "query_risk": risk.query_risk(spectrum, coupling, 4.0, filter, benchmark),
            "query_benefit": shown(risk.query_benefit(spectrum, coupling, filter, benchmark)),
        }
        for what, value in values.items():
            found[f"risk.{what}.{name}"] = value
    variance = risk.query_posterior_variance(spectrum, coupling, 4.0, benchmark)
    signal, shrinkages = [3.0, 0.5, 0.0], [0.75, 0.5, 0.125]
    parts = theory.risk.decompose([0.5, 1.0, 0.25], [0.0, 1.0, 0.5], [1.0, 1.25, 0.0])
    for name in ["risk", "gap", "posterior_variance", "cross"]:
        estimate = getattr(parts, name)
        found[f"risk.decompose.{name}"] = [estimate.mean, estimate.standard_error]
    return found | {
        "risk.mode_weights": risk.mode_weights(spectrum, coupling, benchmark),
        "risk.query_posterior_variance": variance,
        "risk.floor": theory.risk.floor(spectrum, inputs.residuals()),
        "risk.projector_gap": theory.risk.projector_gap(3, 0.625, benchmark),
        "risk.separation_bound": theory.risk.separation_bound(3, benchmark, other),
        "risk.shrinkage_risk": theory.risk.shrinkage_risk(signal, shrinkages, 0.375),
        "risk.shrinkage_excess": theory.risk.shrinkage_excess(signal, shrinkages, 0.375),
        "risk.optimal_shrinkages": theory.risk.optimal_shrinkages(signal, 0.375),
    }
