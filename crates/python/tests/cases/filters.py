from __future__ import annotations

import fewstep

from . import inputs

COUPLING = [0.5, -0.25, 1.0, 0.75]


def cases():
    spectrum = fewstep.Spectrum(inputs.kernel())
    residuals = inputs.residuals()
    step = fewstep.StepSize.fraction(0.3, spectrum)
    descent = lambda horizon: fewstep.GradientDescent(step, horizon)
    mixture = fewstep.Mixture([(0.1, descent(2)), (0.6, descent(5)), (0.2, descent(11))])
    filters = {
        "NoUpdate": fewstep.NoUpdate(),
        "GradientDescent": descent(7),
        "GradientFlow": fewstep.theory.GradientFlow(0.75),
        "BayesFilter": fewstep.BayesFilter(0.3),
        "ExponentialTime": fewstep.theory.ExponentialTime(0.7),
        "Projection": fewstep.theory.Projection(spectrum),
        "JamesStein": fewstep.theory.JamesStein(spectrum, residuals, 0.1),
        "Benchmark": fewstep.Benchmark(0.7, 0.3),
        "Mixture": mixture,
    }
    found = {
        "Mixture.parts": [weight for weight, _ in mixture.parts],
        "GradientDescent.prior_variance": descent(7).prior_variance(0.5, 0.3),
        "GradientFlow.time": fewstep.theory.GradientFlow(0.75).time,
        "Benchmark.noise_to_signal": fewstep.Benchmark(0.7, 0.3).noise_to_signal,
    }
    for name, one in filters.items():
        values = [0.0, 0.125, 1.0, 2.5]
        found[f"{name}.response"] = one.response(values)
        found[f"{name}.gain"] = [one.gain(value) for value in values]
        found[f"{name}.degrees_of_freedom"] = one.degrees_of_freedom(spectrum)
        found[f"{name}.prompt_fit"] = one.prompt_fit(spectrum, residuals)
        found[f"{name}.example_weights"] = one.example_weights(spectrum, residuals)
        found[f"{name}.query_correction"] = one.query_correction(spectrum, COUPLING, residuals)
    return found
