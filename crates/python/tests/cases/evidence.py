from __future__ import annotations

import fewstep
from fewstep.gibbs import GibbsPosterior, relative_entropy

from . import inputs


def cases():
    spectrum, residuals = fewstep.Spectrum(inputs.kernel()), inputs.residuals()
    step = fewstep.StepSize.fraction(0.3, spectrum)
    evidence = fewstep.Evidence(spectrum, residuals, step)
    choice = fewstep.best_horizon(range(5), evidence.curve_to(4))
    found = {
        "Evidence.noise_variance": evidence.noise_variance(2.5),
        "Evidence.gate": evidence.gate(),
        "Evidence.gate_given": evidence.gate_given(0.2),
        "best_horizon": [choice.horizon, choice.index, choice.at_edge],
        "relative_entropy": relative_entropy([0.0, 2.0, 1.0], [1.0, 2.0, 3.0]),
    }
    for name, noise in [("profiled", "profiled"), ("plug-in", "plug-in"), ("fixed", 0.2)]:
        found[f"Evidence.at {name}"] = evidence.at(3.5, noise)
        found[f"Evidence.curve {name}"] = evidence.curve([9, 0, 4], noise)
        found[f"Evidence.curve_to {name}"] = evidence.curve_to(12, noise)
        found[f"Evidence.minimiser {name}"] = evidence.minimiser(noise)
        found[f"evidence_curve {name}"] = fewstep.evidence_curve(
            spectrum, residuals, step, noise, 5
        )
    horizons = [4, 0, 1, 3, 2]
    curve, prior = evidence.curve(horizons), [0.3, 0.1, 0.2, 0.9, 0.4]
    posteriors = {
        "GibbsPosterior": GibbsPosterior(horizons, curve, 4, 0.7),
        "GibbsPosterior.with_prior": GibbsPosterior.with_prior(horizons, prior, curve, 4, 0.7),
    }
    for name, posterior in posteriors.items():
        found[f"{name}.horizons"] = posterior.horizons
        found[f"{name}.prior"] = posterior.prior
        found[f"{name}.weights"] = posterior.weights
        found[f"{name}.map"] = posterior.map()
        found[f"{name}.mean_horizon"] = posterior.mean_horizon()
        found[f"{name}.expectation"] = posterior.expectation(curve)
        found[f"{name}.relative_entropy"] = posterior.relative_entropy()
        found[f"{name}.average"] = posterior.average(step).prompt_fit(spectrum, residuals)
    return found
