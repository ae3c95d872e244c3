//! Decisions under every horizon rule and every selection.

use crate::Lines;
use fewstep_core::{Error, Filter, Overrides, Policy, decide};
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
    let selections =
        ["all", "query-aware", "query-score", "trace-top", "trace-bottom", "random", "depth"];
    let rows = horizons
        .map(|horizon| (horizon, "all"))
        .into_iter()
        .chain(selections.map(|selection| ("evidence", selection)).into_iter().skip(1));
    for (horizon, selection) in rows {
        let budget = if ["all", "depth"].contains(&selection) { None } else { Some(2) };
        let overrides = Overrides {
            horizon: Some(horizon.parse()?),
            select: Some(selection.parse()?),
            horizons: Some("0..12".parse()?),
            step_scale: Some(0.3),
            coverage: Some(0.6),
            seed: Some(7),
            budget,
            ..Overrides::default()
        };
        let policy = overrides.of(&Policy::paper())?;
        let decision = decide(&geometry, &policy)?;
        let name = |part: &str| format!("decide {horizon} {selection} {part}");
        let (when, how_far) = (&decision.when, &decision.how_far);
        let truth = |value: bool| f64::from(u8::from(value));
        lines.add(&name("when"), [truth(when.adapt), when.weight]);
        let evidence = when.evidence.into_iter();
        lines.add(
            &name("when.evidence"),
            evidence.flat_map(|it| [it.gate, it.gap_icl, it.gap_adapted]),
        );
        let errors = when.leave_one_out.into_iter();
        lines.add(&name("when.leave_one_out"), errors.flat_map(|it| [it.icl, it.adapted]));
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
        lines.add(&name("leave_one_out"), how_far.leave_one_out.clone());
        let residuals = geometry.residuals();
        let bound = guarantee(residuals, &decision, 0.95)?.into_iter();
        lines.add(
            &name("pac_bayes"),
            bound.flat_map(|it| [it.bound, it.slack, it.confidence, it.inverse_temperature]),
        );
        lines.add(&name("selected"), decision.which.selected.iter().map(|&block| block as f64));
        let depth = decision.which.depth.iter();
        lines.add(&name("depth"), depth.flat_map(|it| it.risks.clone()));
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
        let fit = decision.plan.prompt_fit(&decision.spectrum, geometry.residuals())?;
        lines.add(&name("plan"), fit);
    }
    Ok(())
}
