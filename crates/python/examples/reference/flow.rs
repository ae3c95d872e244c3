//! Times of gradient flow.

use crate::{Lines, inputs};
use fewstep_core::{Error, Spectrum, StepSize};
use fewstep_theory::flow;

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let spectrum = &Spectrum::of(&inputs::kernel())?;
    let step = StepSize::fraction(0.25, spectrum)?;
    let (signal, noise, time) = (0.75, 0.375, 0.8125);
    let bounded = flow::discretisation_bound(step, 3, 1.25)?;
    lines.add("flow.mode_time", [flow::mode_time(1.5, 0.5)?, flow::mode_time(0.0, 0.25)?]);
    lines.add(
        "flow.representative_eigenvalue",
        [flow::representative_eigenvalue(spectrum, signal, noise)?],
    );
    lines.add("flow.match_time", [flow::match_time(spectrum, signal, noise)?]);
    lines.add("flow.flow_risk", [flow::flow_risk(spectrum, signal, noise, time)?]);
    lines.add("flow.oracle_time", [flow::oracle_time(spectrum, signal, noise)?]);
    lines.add("flow.discretisation_bound", [bounded]);
    lines.add(
        "flow.concentration_bound",
        [flow::concentration_bound(spectrum, signal, noise, time)?],
    );
    lines.add("flow.horizon_of", [f64::from(flow::horizon_of(time, step)?)]);
    Ok(())
}
