from __future__ import annotations

import inspect

import fewstep
from fewstep.theory import matfree

from . import inputs


def pair(estimate):
    return [estimate.mean, estimate.standard_error]


def defaults(function):
    parameters = inspect.signature(function).parameters
    return [parameters["tolerance"].default, parameters["iterations"].default]


def cases():
    residuals = inputs.residuals()
    dense = matfree.DenseKernel(inputs.kernel())
    factor = matfree.FactorKernel(inputs.features(1, inputs.EXAMPLES, 3))
    parts = [dense, factor]
    total = matfree.BlockSum(parts)
    noisy = matfree.Shifted(total, 0.375)
    solution = matfree.conjugate_gradients(noisy, residuals)
    found = {
        "matfree.DenseKernel.apply": dense.apply(residuals),
        "matfree.FactorKernel.apply": factor.apply(residuals),
        "matfree.BlockSum.apply": total @ residuals,
        "matfree.Shifted.apply": noisy @ residuals,
        "matfree.LinearOperator.size": [dense.size, noisy.size],
        "matfree.Stopping.default": defaults(matfree.conjugate_gradients),
        "matfree.conjugate_gradients.vector": solution.vector,
        "matfree.conjugate_gradients.effort": [solution.iterations, solution.residual],
    }
    for function in [matfree.lanczos_top, matfree.block_scores, matfree.query_scores]:
        assert defaults(function) == defaults(matfree.conjugate_gradients)
    rng = fewstep.Rng(3)
    for index, eigen in enumerate(matfree.lanczos_top(total, 2, rng)):
        found[f"matfree.lanczos_top.{index}"] = [eigen.value, eigen.bound]
        found[f"matfree.lanczos_top.vector.{index}"] = eigen.vector
    largest = matfree.largest_eigenvalue(total, 3, 1e-6, rng)
    step = largest.step(0.25)
    found["matfree.largest_eigenvalue"] = [
        largest.value,
        largest.bound,
        largest.upper,
        float(step),
    ]
    found["matfree.hutchinson_trace"] = pair(matfree.hutchinson_trace(noisy, 6, rng))
    scores = matfree.block_scores(parts, 0.375, 5, rng)
    found["matfree.block_scores"] = [pair(score) for score in scores]
    couplings = inputs.features(4, 2, inputs.EXAMPLES)
    found["matfree.query_scores"] = matfree.query_scores(parts, couplings, 0.375)
    descent = fewstep.GradientDescent(step, 5)
    found["matfree.query_correction"] = matfree.query_correction(
        total, couplings[0], residuals, descent
    )
    for name, noise in [("profiled", "profiled"), ("plug-in", "plug-in"), ("fixed", 0.5)]:
        evidence = matfree.estimate_evidence(
            total,
            residuals,
            rng,
            step=step,
            largest=largest,
            horizons=[0, 1, 4, 9],
            noise=noise,
            probes=4,
            lanczos_steps=3,
        )
        values = {
            "values": [pair(value) for value in evidence.values],
            "log_trace": pair(evidence.log_trace),
            "quadratic_forms": evidence.quadratic_forms,
            "quadrature_errors": evidence.quadrature_errors,
        }
        for what, value in values.items():
            found[f"matfree.estimate_evidence.{what}.{name}"] = value
    return found
