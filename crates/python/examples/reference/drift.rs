//! How far real steps are from linear ones.

use crate::{Lines, inputs};
use fewstep_core::{Error, Matrix, Spectrum, StepSize};
use fewstep_theory::drift::{LocalConstants, Observation, Watch};

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let constants = LocalConstants::new(1.75, 0.375, 2.5)?;
    lines.add(
        "drift.LocalConstants",
        [
            constants.jacobian_bound(),
            constants.jacobian_lipschitz(),
            constants.residual_scale(),
            constants.step_limit(),
            constants.remainder_bound(0.3125)?,
            constants.deviation_bound(0.1875, 7)?,
            constants.deviation_sum(0.1875, 7)?,
            constants.kernel_drift_bound(0.1875, 7)?,
            constants.query_deviation_bound(0.625, 0.25, 0.1875, 7)?,
        ],
    );
    let spectrum = Spectrum::of(&inputs::kernel())?;
    let step = StepSize::fraction(0.25, &spectrum)?;
    let mut watch = Watch::new(&spectrum, &inputs::residuals(), step)?;
    watch.observe(Observation::new(1, &[0.125, -0.25, 0.0625, 0.25]))?;
    let moved = Matrix::from_rows(&inputs::kernel())?;
    let kernel = Matrix::new(4, 4, moved.values().iter().map(|entry| 1.125 * entry).collect())?;
    watch.observe(Observation {
        horizon: 4,
        shift: &[0.25, -0.375, 0.125, 0.5],
        kernel: Some(&kernel),
        update_length: Some(0.625),
    })?;
    for (name, seen) in ["first", "second"].iter().zip(watch.departures()) {
        lines.add(
            &format!("drift.Departure.{name}"),
            [
                f64::from(seen.horizon),
                seen.predicted,
                seen.actual,
                seen.deviation,
                seen.relative_deviation,
                seen.kernel_drift.unwrap_or(-1.0),
                seen.lipschitz.unwrap_or(-1.0),
            ],
        );
    }
    lines.add("drift.Watch.trusted_until", [f64::from(watch.trusted_until(5.0)?)]);
    lines.add("drift.Watch.growth_exponent", watch.growth_exponent());
    let suggested = watch.constants().map(|constants| {
        [constants.jacobian_bound(), constants.jacobian_lipschitz(), constants.residual_scale()]
    });
    lines.add("drift.Watch.constants", suggested.into_iter().flatten());
    Ok(())
}
