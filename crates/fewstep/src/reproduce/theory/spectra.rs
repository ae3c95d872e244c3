//! App. G: gradient flow, and what random spectra mean for the time to stop.

use super::super::document::Figure;
use super::super::plot::{Axis, Plot, Point, Series, Style};
use super::TheorySettings;
use super::findings::Findings;
use super::plain::random_kernel;
use crate::assessment::Mean;
use crate::error::Error;
use fewstep_core::flow::{
    concentration_bound, discretisation_bound, flow_risk, mode_time, representative_eigenvalue,
};
use fewstep_core::random::MarchenkoPastur;
use fewstep_core::{
    BayesFilter, Filter, GradientDescent, GradientFlow, Rng, Spectrum, StepSize,
};

/// `τ²` and `σ²` of the random prompts.
const SIGNAL: f64 = 1.0;
const NOISE: f64 = 0.3;
/// Examples per feature direction.
const RATIOS: [f64; 3] = [0.25, 1.0, 4.0];
/// Sizes of the simulated kernels; twice the second's mean minus the first's is free of the first
/// order in `1/n`.
const SIZES: [usize; 2] = [40, 80];
/// Times at which spectra are looked at.
const TIMES: [f64; 8] = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

pub(super) fn examine(settings: &TheorySettings, found: &mut Findings) -> Result<(), Error> {
    let mut rng = settings.rng(4);
    flow_itself(settings, &mut rng, found)?;
    one_time_for_all(&mut rng, found)?;
    random_spectra(settings, &mut rng, found)
}

/// Prop. G.1, Lems. G.2 and G.5, Prop. G.6.
fn flow_itself(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let (mut filters, mut times, mut ahead) = (Vec::new(), Vec::new(), Vec::new());
    let spectrum = Spectrum::of(&[vec![4.0]])?;
    for eigenvalue in [0.01, 0.3, 1.0, 4.0] {
        for time in [0.1, 1.0, 5.0] {
            let literal = integrate(eigenvalue, time);
            filters.push((literal, GradientFlow::new(time)?.response(eigenvalue), 1.0));
        }
        for ratio in [0.1, 1.0, 10.0] {
            let at = GradientFlow::new(mode_time(eigenvalue, ratio)?)?.response(eigenvalue);
            times.push((at, BayesFilter::new(ratio)?.response(eigenvalue), 1.0));
        }
        for (fraction, horizon) in [(0.1, 1), (0.1, 30), (0.5, 4), (0.9, 2)] {
            let step = StepSize::fraction(fraction, &spectrum)?;
            let steps =
                (0..horizon).fold(0.0, |fit, _| fit + step.get() * eigenvalue * (1.0 - fit));
            let filter = GradientDescent { step, horizon };
            debug_assert!((filter.response(eigenvalue) - steps).abs() < 1e-12);
            let flow = GradientFlow::new(step.get() * f64::from(horizon))?.response(eigenvalue);
            ahead.push((steps - flow, discretisation_bound(step, horizon, eigenvalue)?));
        }
    }
    found.identity(
        "Prop. G.1: flow integrated in 2000 steps of fourth order, and 1 − e^(−tλ)",
        &filters,
        1e-9,
    );
    found.identity("Lem. G.5: flow at the mode's own time, and Bayes", &times, 1e-12);
    for (eigenvalue, ratio) in [(0.2, 1.0), (3.0, 1.0)] {
        let shares: Vec<f64> = (0..settings.draws)
            .map(|_| -(1.0 - rng.uniform()).ln() / ratio)
            .map(|time| 1.0 - (-time * eigenvalue).exp())
            .collect();
        let statement =
            format!("Prop. G.6: flow stopped at an exponential time, λ/λ★ = {eigenvalue}");
        found.mean(&statement, BayesFilter::new(ratio)?.response(eigenvalue), &shares);
    }
    found.conclude("The Bayes filter is gradient flow stopped at a random time (Props. G.1 and G.6, Lem. G.5)", "equal");
    found.bound("Lem. G.2: how far steps are ahead of flow, over the bound", &ahead);
    found.conclude("Steps are close to flow (Lem. G.2)", "within T(ρλ)²/(2(1 − ρλ)) e^(−tλ)");
    Ok(())
}

/// `f' = λ(1 − f)` from 0, by the classical method of Runge and Kutta.
fn integrate(eigenvalue: f64, time: f64) -> f64 {
    let (mut fit, step) = (0.0, time / 2000.0);
    let slope = |fit: f64| eigenvalue * (1.0 - fit);
    for _ in 0..2000 {
        let a = slope(fit);
        let b = slope(fit + 0.5 * step * a);
        let c = slope(fit + 0.5 * step * b);
        let d = slope(fit + step * c);
        fit += step / 6.0 * (a + 2.0 * b + 2.0 * c + d);
    }
    fit
}

/// Prop. G.7: one time for all modes costs at most what the spread of the spectrum says.
fn one_time_for_all(rng: &mut Rng, found: &mut Findings) -> Result<(), Error> {
    let bayes = BayesFilter::new(NOISE / SIGNAL)?;
    let mut pairs = Vec::new();
    for features in [5, 10, 40, 400] {
        let spectrum = Spectrum::of(&random_kernel(rng, 10, features))?;
        for time in TIMES {
            let flow = GradientFlow::new(time)?;
            let cost = |&eigenvalue: &f64| {
                let apart = flow.response(eigenvalue) - bayes.response(eigenvalue);
                (SIGNAL * eigenvalue + NOISE) * apart * apart
            };
            let gap: f64 = spectrum.eigenvalues().iter().map(cost).sum();
            pairs.push((gap, concentration_bound(&spectrum, SIGNAL, NOISE, time)?));
        }
    }
    found.bound("Prop. G.7: mismatch of one time for all modes, over the bound", &pairs);
    found.conclude(
        "The mismatch of one time is bounded by the spread of the spectrum (Prop. G.7)",
        "at most the bound",
    );
    Ok(())
}

/// Props. G.9 and G.10: risk curves and representative eigenvalues of random spectra.
fn random_spectra(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let mut series = Vec::new();
    let counts = [settings.draws / 40, settings.draws / 80].map(|count| count.clamp(2, 400));
    let mut eigenvalues = Vec::new();
    for ratio in RATIOS {
        let law = MarchenkoPastur::new(ratio)?;
        let mut spectra = Vec::new();
        for (examples, count) in SIZES.into_iter().zip(counts) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small number"
            )]
            let features = (examples as f64 / ratio).round() as usize;
            let drawn: Result<Vec<Spectrum>, _> = (0..count)
                .map(|_| Spectrum::of(&random_kernel(rng, examples, features)))
                .collect();
            spectra.push(drawn?);
        }
        let mut points = Vec::new();
        for (place, time) in TIMES.into_iter().enumerate() {
            let risk = |spectrum: &Spectrum| {
                let total = flow_risk(spectrum, SIGNAL, NOISE, time)?;
                Ok(total / spectrum.examples() as f64)
            };
            let limit = extrapolated(&spectra, risk)?;
            if [2, 4, 6].contains(&place) {
                let statement = format!(
                    "Prop. G.9: risk of flow on random spectra, γ = {ratio}, t = {time}"
                );
                let predicted = law.risk_limit(time, SIGNAL, NOISE)?;
                found.estimate(&statement, predicted, limit, predicted);
            }
            let largest: Result<Vec<f64>, Error> = spectra[1].iter().map(risk).collect();
            let Mean { mean, error } = Mean::of(&largest?);
            points.push(Point::new(time, mean).with_error(error));
        }
        let mean = extrapolated(&spectra, |spectrum| {
            Ok(representative_eigenvalue(spectrum, SIGNAL, NOISE)?)
        })?;
        eigenvalues.push((ratio, law.representative_eigenvalue(SIGNAL, NOISE)?, mean));
        let curve: Result<Vec<Point>, Error> = (0..=100)
            .map(|i| 0.03 * (15.0_f64 / 0.03).powf(f64::from(i) / 100.0))
            .map(|time| Ok(Point::new(time, law.risk_limit(time, SIGNAL, NOISE)?)))
            .collect();
        let name = format!("γ = n/d = {ratio}");
        series.push(Series { name: name.clone(), points: curve?, style: Style::Line });
        series.push(Series { name, points, style: Style::Markers });
    }
    found.conclude("The risk of flow on random features settles to an integral over the Marchenko–Pastur law (Prop. G.9)", "equal in the limit");
    for (ratio, predicted, measured) in eigenvalues {
        let statement = format!("Prop. G.10: representative eigenvalue, γ = {ratio}");
        found.estimate(&statement, predicted, measured, predicted);
    }
    found.conclude(
        "The representative eigenvalue settles to (1 + γ + λ★)/(1 + λ★) (Prop. G.10)",
        "equal in the limit",
    );
    found.figures.push(risk_figure(series));
    Ok(())
}

/// A mean in the limit of large prompts, from two sizes one of which is twice the other.
fn extrapolated(
    spectra: &[Vec<Spectrum>],
    quantity: impl Fn(&Spectrum) -> Result<f64, Error>,
) -> Result<Mean, Error> {
    let mean = |size: usize| -> Result<Mean, Error> {
        let values: Result<Vec<f64>, Error> = spectra[size].iter().map(&quantity).collect();
        Ok(Mean::of(&values?))
    };
    let (small, large) = (mean(0)?, mean(1)?);
    Ok(Mean {
        mean: 2.0 * large.mean - small.mean,
        error: (2.0 * large.error).hypot(small.error),
    })
}

fn risk_figure(series: Vec<Series>) -> Figure {
    let plot = Plot {
        title: "Risk of gradient flow on random spectra".to_owned(),
        x: Axis::new("time t = ρT").log(),
        y: Axis::new("squared error per example"),
        series,
    };
    Figure {
        name: "random-matrix-risk".to_owned(),
        caption: "Expected squared error per example of gradient flow stopped at time t, for kernels \
                  XXᵀ/d with independent normal entries (signal variance 1, noise variance 0.3). \
                  Lines: the limit of Prop. G.9. Marks: means over simulated kernels of 80 examples; \
                  bars are one standard error, where they are larger than the mark."
            .to_owned(),
        alternative: "Three curves that fall to a minimum and rise again; the more examples per \
                      feature direction, the lower the minimum and the earlier it comes. Simulated \
                      marks lie on the curves."
            .to_owned(),
        svg: plot.svg(),
    }
}
