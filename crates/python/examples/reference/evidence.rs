//! Evidence, and the distribution over horizons that follows from it.

use crate::{Lines, inputs};
use fewstep_core::gibbs::{GibbsPosterior, relative_entropy};
use fewstep_core::{
    Error, Evidence, Filter, Noise, Spectrum, StepSize, best_horizon, evidence_curve,
};

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let (spectrum, residuals) = (Spectrum::of(&inputs::kernel())?, inputs::residuals());
    let step = StepSize::fraction(0.3, &spectrum)?;
    let evidence = Evidence::of(&spectrum, &residuals, step)?;
    let noises = [
        ("profiled", Noise::Profiled),
        ("plug-in", Noise::PlugIn),
        ("fixed", Noise::Fixed(0.2)),
    ];
    for (name, noise) in noises {
        lines.add(&format!("Evidence.at {name}"), [evidence.at(3.5, noise)?]);
        lines.add(&format!("Evidence.curve {name}"), evidence.curve(&[9, 0, 4], noise)?);
        lines.add(&format!("Evidence.curve_to {name}"), evidence.curve_to(12, noise)?);
        lines.add(&format!("Evidence.minimiser {name}"), [evidence.minimiser(noise)?]);
        let curve = evidence_curve(&spectrum, &residuals, step, noise, 5)?;
        lines.add(&format!("evidence_curve {name}"), curve);
    }
    lines.add("Evidence.noise_variance", [evidence.noise_variance(2.5)?]);
    lines.add("Evidence.gate", [evidence.gate()]);
    lines.add("Evidence.gate_given", [evidence.gate_given(0.2)?]);
    let curve = evidence.curve_to(4, Noise::Profiled)?;
    let choice = best_horizon(&[0, 1, 2, 3, 4], &curve)?;
    let edge = f64::from(u8::from(choice.at_edge));
    lines.add("best_horizon", [f64::from(choice.horizon), choice.index as f64, edge]);

    let horizons = [4, 0, 1, 3, 2];
    let curve = evidence.curve(&horizons, Noise::Profiled)?;
    let prior = [0.3, 0.1, 0.2, 0.9, 0.4];
    for (name, posterior) in [
        ("GibbsPosterior", GibbsPosterior::new(&horizons, &curve, 4, 0.7)?),
        (
            "GibbsPosterior.with_prior",
            GibbsPosterior::with_prior(&horizons, &prior, &curve, 4, 0.7)?,
        ),
    ] {
        lines.add(&format!("{name}.horizons"), posterior.horizons().iter().map(|&t| t.into()));
        lines.add(&format!("{name}.prior"), posterior.prior().to_vec());
        lines.add(&format!("{name}.weights"), posterior.weights().to_vec());
        lines.add(&format!("{name}.map"), [f64::from(posterior.map())]);
        lines.add(&format!("{name}.mean_horizon"), [posterior.mean_horizon()]);
        lines.add(&format!("{name}.expectation"), [posterior.expectation(&curve)?]);
        lines.add(&format!("{name}.relative_entropy"), [posterior.relative_entropy()]);
        let average = posterior.average(step);
        lines.add(&format!("{name}.average"), average.prompt_fit(&spectrum, &residuals)?);
    }
    lines.add("relative_entropy", [relative_entropy(&[0.0, 2.0, 1.0], &[1.0, 2.0, 3.0])?]);
    Ok(())
}
