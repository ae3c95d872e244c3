//! Decisions under every horizon rule and every selection.

use crate::Lines;
use fewstep_core::{Error, Filter, Rules, decide};
use fewstep_theory::pac_bayes::guarantee;

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let geometry = crate::geometry::geometry()?;
    let horizons = [
        "3",
        "evidence",
        "evidence-fixed",
        "gibbs",
        "bayes-gap",
        "leave-one-out",
        "leave-one-out-average",
        "bayes-filter",
    ];
    let selections = [
        "all",
        "query-aware",
        "query-score",
        "trace-top",
        "trace-bottom",
        "random",
        "leave-one-out",
        "depth",
    ];
    let rows = horizons
        .map(|horizon| (horizon, "all"))
        .into_iter()
        .chain(selections.map(|selection| ("evidence", selection)).into_iter().skip(1));
    for (horizon, selection) in rows {
        let budget = if ["all", "depth"].contains(&selection) { None } else { Some(2) };
        let rules = Rules {
            horizon: horizon.parse()?,
            select: selection.parse()?,
            horizons: (0..=12).collect(),
            step_scale: 0.3,
            coverage: 0.6,
            seed: 7,
            budget,
            ..Rules::default()
        };
        let decision = decide(&geometry, &rules)?;
        let name = |part: &str| format!("decide {horizon} {selection} {part}");
        let (when, how_far) = (&decision.when, &decision.how_far);
        let truth = |value: bool| f64::from(u8::from(value));
        lines
            .add(&name("when"), [truth(when.adapt), when.gate, when.gap_icl, when.gap_adapted]);
        lines.add(
            &name("how_far"),
            [
                f64::from(how_far.horizon),
                truth(how_far.at_edge),
                how_far.step_size,
                how_far.noise_variance,
                how_far.degrees_of_freedom,
            ],
        );
        lines.add(&name("evidence"), how_far.evidence.clone());
        lines.add(&name("evidence_fixed"), how_far.evidence_fixed.clone());
        lines.add(&name("posterior"), how_far.posterior.clone());
        lines.add(&name("left_out_risk"), how_far.left_out_risk.clone());
        let residuals = geometry.residuals();
        let bound = guarantee(residuals, &decision, &rules.horizons, 0.95)?.into_iter();
        lines.add(
            &name("pac_bayes"),
            bound.flat_map(|it| [it.bound, it.slack, it.confidence, it.inverse_temperature]),
        );
        lines.add(&name("selected"), decision.which.selected.iter().map(|&block| block as f64));
        lines.add(
            &name("blocks"),
            decision
                .which
                .blocks
                .iter()
                .flat_map(|it| [it.trace, it.query.unwrap_or(f64::NAN)]),
        );
        let query = decision.query.iter();
        lines.add(
            &name("query"),
            query.clone().flat_map(|it| [it.correction, it.standard_deviation]),
        );
        let intervals = query.filter_map(|it| it.interval);
        lines.add(&name("interval"), intervals.flat_map(|it| [it.lower, it.upper]));
        let signal = &decision.signal;
        lines.add(&name("signal"), [signal.signal_variance, signal.noise_variance]);
        lines.add(&name("eigenvalues"), decision.spectrum.eigenvalues().to_vec());
        lines.add(&name("kernel"), decision.block.kernel().values().to_vec());
        let fit = decision.update.prompt_fit(&decision.spectrum, geometry.residuals())?;
        lines.add(&name("update"), fit);
    }
    Ok(())
}
