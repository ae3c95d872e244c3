//! Signal and noise, fitted and given.

use crate::{Lines, inputs};
use fewstep_core::signal::SignalFit;
use fewstep_core::{Error, Filter, Spectrum, StepSize};

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let spectrum = Spectrum::of(&inputs::kernel())?;
    let step = StepSize::fraction(0.3, &spectrum)?;
    for (name, fit) in [
        ("SignalFit", SignalFit::of(&spectrum, &inputs::residuals())?),
        ("SignalFit.at", SignalFit::at(&spectrum, &inputs::residuals(), 0.3, 0.7)?),
        ("SignalFit.at silent", SignalFit::at(&spectrum, &inputs::residuals(), 0.3, 0.0)?),
    ] {
        let values =
            [fit.signal_variance, fit.noise_variance, fit.evidence, fit.noise_to_signal()];
        lines.add(name, values);
        let best = fit.benchmark(&inputs::residuals())?;
        let both = [best.signal_variance(), best.noise_variance()];
        lines.add(&format!("{name}.benchmark"), both.into_iter().chain([best.response(2.0)]));
        let coupling = [0.5, -0.25, 1.0, 0.75];
        let (gaps, best) = fit.bayes_gap_horizon(&spectrum, &coupling, step, &[0, 3, 9])?;
        lines.add(&format!("{name}.bayes_gap_horizon gaps"), gaps);
        lines.add(&format!("{name}.bayes_gap_horizon"), [f64::from(best.horizon)]);
    }
    Ok(())
}
