from __future__ import annotations

import fewstep
from fewstep.theory.drift import LocalConstants, Watch

from . import inputs


def fields(seen):
    return [
        seen.horizon,
        seen.predicted,
        seen.actual,
        seen.deviation,
        seen.relative_deviation,
        -1.0 if seen.kernel_drift is None else seen.kernel_drift,
        -1.0 if seen.lipschitz is None else seen.lipschitz,
    ]


def cases():
    constants = LocalConstants(1.75, 0.375, 2.5)
    spectrum = fewstep.Spectrum(inputs.kernel())
    step = fewstep.StepSize.fraction(0.25, spectrum)
    watch = Watch(spectrum, inputs.residuals(), step)
    watch.observe(1, [0.125, -0.25, 0.0625, 0.25])
    watch.observe(
        4,
        [0.25, -0.375, 0.125, 0.5],
        kernel=1.125 * inputs.kernel(),
        update_length=0.625,
    )
    first, second = watch.departures
    suggested = watch.constants
    return {
        "drift.LocalConstants": [
            constants.jacobian_bound,
            constants.jacobian_lipschitz,
            constants.residual_scale,
            constants.step_limit,
            constants.remainder_bound(0.3125),
            constants.deviation_bound(0.1875, 7),
            constants.deviation_sum(0.1875, 7),
            constants.kernel_drift_bound(0.1875, 7),
            constants.query_deviation_bound(0.625, 0.25, 0.1875, 7),
        ],
        "drift.Departure.first": fields(first),
        "drift.Departure.second": fields(second),
        "drift.Watch.trusted_until": watch.trusted_until(5.0),
        "drift.Watch.growth_exponent": watch.growth_exponent,
        "drift.Watch.constants": [
            suggested.jacobian_bound,
            suggested.jacobian_lipschitz,
            suggested.residual_scale,
        ],
    }
