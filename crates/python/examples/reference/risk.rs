//! Risks, gaps and benefits.

use crate::{Lines, inputs};
use fewstep_core::risk::{self, Benchmark};
use fewstep_core::{Error, Filter, GradientDescent, NoUpdate, Spectrum, StepSize};
use fewstep_theory::risk as theory;

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let spectrum = &Spectrum::of(&inputs::kernel())?;
    let step = StepSize::fraction(0.25, spectrum)?;
    let (benchmark, other) = (&Benchmark::new(0.75, 0.375)?, &Benchmark::new(2.0, 0.5)?);
    let coupling = spectrum.project(&[0.5, 0.25, -0.75, 1.0])?;
    let descent = GradientDescent { step, horizon: 5 };
    let filters: [(&str, &dyn Filter); 3] =
        [("none", &NoUpdate), ("descent", &descent), ("benchmark", benchmark)];
    for (name, filter) in filters {
        let prompt = risk::prompt_benefit(spectrum, filter, benchmark);
        let query = risk::query_benefit(spectrum, &coupling, filter, benchmark)?;
        let shown = |benefit: risk::Benefit| {
            let helps = f64::from(u8::from(benefit.helps()));
            [benefit.gap_icl, benefit.gap_adapted, benefit.improvement, helps]
        };
        let mut add = |what: &str, values: &[f64]| {
            lines.add(&format!("risk.{what}.{name}"), values.to_vec());
        };
        add("prompt_risk", &[risk::prompt_risk(spectrum, filter, benchmark)]);
        add("prompt_gap", &[risk::prompt_gap(spectrum, filter, benchmark)]);
        add("prompt_benefit", &shown(prompt));
        add("query_gap", &[risk::query_gap(spectrum, &coupling, filter, benchmark)?]);
        add("query_risk", &[risk::query_risk(spectrum, &coupling, 4.0, filter, benchmark)?]);
        add("query_benefit", &shown(query));
    }
    lines.add("risk.mode_weights", risk::mode_weights(spectrum, &coupling, benchmark)?);
    lines.add(
        "risk.query_posterior_variance",
        [risk::query_posterior_variance(spectrum, &coupling, 4.0, benchmark)?],
    );
    lines.add("risk.floor", [theory::floor(spectrum, &inputs::residuals())?]);
    lines.add("risk.projector_gap", [theory::projector_gap(3, 0.625, benchmark)?]);
    lines.add("risk.separation_bound", [theory::separation_bound(3, benchmark, other)]);
    let (signal, shrinkages) = ([3.0, 0.5, 0.0], [0.75, 0.5, 0.125]);
    lines.add("risk.shrinkage_risk", [theory::shrinkage_risk(&signal, &shrinkages, 0.375)?]);
    lines
        .add("risk.shrinkage_excess", [theory::shrinkage_excess(&signal, &shrinkages, 0.375)?]);
    lines.add("risk.optimal_shrinkages", theory::optimal_shrinkages(&signal, 0.375)?);
    let found = theory::decompose(&[0.5, 1.0, 0.25], &[0.0, 1.0, 0.5], &[1.0, 1.25, 0.0])?;
    for (name, estimate) in [
        ("risk", found.risk),
        ("gap", found.gap),
        ("posterior_variance", found.posterior_variance),
        ("cross", found.cross),
    ] {
        let name = format!("risk.decompose.{name}");
        lines.add(&name, [estimate.mean, estimate.standard_error]);
    }
    Ok(())
}
