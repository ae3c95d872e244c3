//! App. G: gradient flow, and what random spectra mean for the time to stop.

use super::super::document::Figure;
use super::super::plot::{Axis, Plot, Point, Series, Style};
use super::TheorySettings;
use super::findings::Findings;
use super::plain::random_kernel;
use crate::assessment::Mean;
use crate::error::Error;
use fewstep_core::{BayesFilter, Filter, GradientDescent, Rng, Spectrum, StepSize};
use fewstep_theory::GradientFlow;
use fewstep_theory::flow::{
    concentration_bound, discretisation_bound, flow_risk, mode_time, representative_eigenvalue,
};
use fewstep_theory::random::MarchenkoPastur;

/// `τ²` and `σ²` of the random prompts.
const SIGNAL: f64 = 1.0;
const NOISE: f64 = 0.3;
/// Sizes of the simulated kernels; twice the second's mean minus the first's is free of the first
/// order in `1/n`.
const SIZES: [usize; 2] = [40, 80];
/// Examples per feature direction, and the directions for each size.
const RATIOS: [(f64, [usize; 2]); 3] = [(0.25, [160, 320]), (1.0, [40, 80]), (4.0, [10, 20])];
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
    let counts = [settings.draws / 40, settings.draws / 80].map(|count| count.clamp(2, 400));
    let mut ensembles = Vec::new();
    for (ratio, features) in RATIOS {
        let law = MarchenkoPastur::new(ratio)?;
        let mut spectra = Vec::new();
        for ((examples, features), count) in SIZES.into_iter().zip(features).zip(counts) {
            let drawn: Result<Vec<Spectrum>, _> = (0..count)
                .map(|_| Spectrum::of(&random_kernel(rng, examples, features)))
                .collect();
            spectra.push(drawn?);
        }
        ensembles.push((ratio, law, spectra));
    }
    let mut series = Vec::new();
    for (ratio, law, spectra) in &ensembles {
        for time in [0.2, 1.0, 5.0] {
            let statement =
                format!("Prop. G.9: risk of flow on random spectra, γ = {ratio}, t = {time}");
            let predicted = law.risk_limit(time, SIGNAL, NOISE)?;
            let measured = extrapolated(spectra, |spectrum| risk(spectrum, time))?;
            found.estimate(&statement, predicted, measured, predicted);
        }
        series.extend(risk_series(&format!("γ = n/d = {ratio}"), law, &spectra[1])?);
    }
    found.conclude(
        "The risk of flow on random features settles to an integral over the Marchenko–Pastur law \
         (Prop. G.9)",
        "equal in the limit",
    );
    for (ratio, law, spectra) in &ensembles {
        let statement = format!("Prop. G.10: representative eigenvalue, γ = {ratio}");
        let predicted = law.representative_eigenvalue(SIGNAL, NOISE)?;
        let of_one =
            |spectrum: &Spectrum| Ok(representative_eigenvalue(spectrum, SIGNAL, NOISE)?);
        found.estimate(&statement, predicted, extrapolated(spectra, of_one)?, predicted);
    }
    found.conclude(
        "The representative eigenvalue settles to (1 + γ + λ★)/(1 + λ★) (Prop. G.10)",
        "equal in the limit",
    );
    found.figures.push(risk_figure(series));
    Ok(())
}

/// The expected squared error per example of flow stopped at a time.
fn risk(spectrum: &Spectrum, time: f64) -> Result<f64, Error> {
    Ok(flow_risk(spectrum, SIGNAL, NOISE, time)? / spectrum.examples() as f64)
}

/// The curve of the limit, and means over spectra.
fn risk_series(
    name: &str,
    law: &MarchenkoPastur,
    spectra: &[Spectrum],
) -> Result<[Series; 2], Error> {
    let curve: Result<Vec<Point>, Error> = (0..=100)
        .map(|i| 0.03 * (15.0_f64 / 0.03).powf(f64::from(i) / 100.0))
        .map(|time| Ok(Point::new(time, law.risk_limit(time, SIGNAL, NOISE)?)))
        .collect();
    let marks: Result<Vec<Point>, Error> = TIMES
        .into_iter()
        .map(|time| {
            let risks: Result<Vec<f64>, Error> =
                spectra.iter().map(|spectrum| risk(spectrum, time)).collect();
            let Mean { mean, error } = Mean::of(&risks?);
            Ok(Point::new(time, mean).with_error(error))
        })
        .collect();
    let series = |points, style| Series { name: name.to_owned(), points, style };
    Ok([series(curve?, Style::Line), series(marks?, Style::Markers)])
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
