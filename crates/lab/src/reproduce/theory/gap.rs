//! Secs. 2, 4 and 5: what steps are, and how far they are from the best there is.

use super::super::document::Figure;
use super::super::plot::{Axis, Plot, Point, Series, Style};
use super::TheorySettings;
use super::findings::Findings;
use super::plain::{
    Rows, World, dot, eliminate, multiply, norm, normals, product, shifted, solve, subtract,
};
use crate::assessment::Mean;
use crate::digit_maps::{DIGITS, Prior, value};
use crate::error::Error;
use fewstep_core::risk::{
    Benchmark, prompt_benefit, prompt_gap, prompt_risk, query_gap, query_posterior_variance,
    query_risk,
};
use fewstep_core::{Filter, GradientDescent, Rng, Spectrum, StepSize};
use fewstep_theory::risk::decompose;

/// The step size as a share of the largest that is stable, as in App. I.
pub(super) const STEP: f64 = 0.1;
/// What rounding may do after a hundred steps, relative to the terms.
const ROUNDING: f64 = 1e-9;
/// A larger share, with which horizons up to 128 reach far down the spectrum.
const LARGE_STEP: f64 = 0.5;
/// Horizons that are simulated.
const HORIZONS: [u32; 9] = [0, 1, 2, 4, 8, 16, 32, 64, 128];

pub(super) fn examine(settings: &TheorySettings, found: &mut Findings) -> Result<(), Error> {
    let mut rng = settings.rng(0);
    steps_are_a_filter(&mut rng, found)?;
    gap_at_the_query(settings, &mut rng, found)?;
    gap_on_digit_maps(settings, &mut rng, found)?;
    fit_on_the_prompt(settings, &mut rng, found)
}

/// Props. 4.1 and E.1: steps in weights, a posterior mean by elimination, and the filter.
fn steps_are_a_filter(rng: &mut Rng, found: &mut Findings) -> Result<(), Error> {
    let (mut on_the_prompt, mut at_the_query) = (Vec::new(), Vec::new());
    for (examples, weights) in [(1, 3), (5, 3), (10, 16), (10, 64)] {
        let world = World::new(rng, examples, weights);
        let (kernel, residuals) = (world.kernel(), normals(rng, examples));
        let spectrum = Spectrum::of(&kernel)?;
        let step = StepSize::fraction(STEP, &spectrum)?;
        for horizon in [1, 8, 60] {
            let theta = &world.descend(&residuals, step.get(), &[horizon])[0];
            let fit = multiply(&world.features, theta);
            let mean = posterior_mean(&kernel, step.get(), horizon, &residuals);
            let size = norm(&residuals);
            on_the_prompt.extend(fit.iter().zip(&mean).map(|(&a, &b)| (a, b, size)));
            let filter = GradientDescent { step, horizon };
            let coupling = world.coupling();
            let steps = f64::from(horizon) * step.get() * norm(&coupling) * size;
            let corrected = filter.query_correction(&spectrum, &coupling, &residuals)?;
            at_the_query.push((dot(&world.query, theta), corrected, steps));
        }
    }
    found.identity(
        "Prop. 4.1: T steps on the prompt are a posterior mean",
        &on_the_prompt,
        ROUNDING,
    );
    found.conclude(
        "T gradient steps give the posterior mean of a Gaussian prior (Prop. 4.1)",
        "equal",
    );
    found.identity(
        "Prop. E.1: T steps at the query are k_xᵀ q_T(K) r",
        &at_the_query,
        ROUNDING,
    );
    found.conclude("T gradient steps move the query by k_xᵀ q_T(K) r (Prop. E.1)", "equal");
    Ok(())
}

/// `C(C + I)⁻¹ r` with the implicit prior `C = (I − ρK)^(−T) − I`, for a noise variance of 1.
fn posterior_mean(kernel: &Rows, step: f64, horizon: u32, residuals: &[f64]) -> Vec<f64> {
    // With P = (I − ρK)^T the mean is (P⁻¹ − I) P r; P⁻¹ by elimination, P by repeated products.
    let kept = shifted(kernel, -step, 1.0);
    let mut power = kept.clone();
    for _ in 1..horizon {
        power = product(&power, &kept);
    }
    let shrunk = multiply(&power, residuals);
    subtract(&eliminate(&power, &shrunk).0, &shrunk)
}

/// The place of `T = 8` among the horizons.
const EIGHT: usize = 4;

/// A prompt at one noise level, and what was simulated there.
struct Level {
    world: World,
    spectrum: Spectrum,
    step: StepSize,
    benchmark: Benchmark,
    /// Squared distances to the Bayes correction, one list per horizon.
    gaps: Vec<Vec<f64>>,
    /// At [`EIGHT`]: predictions, Bayes predictions and targets.
    outcomes: [Vec<f64>; 3],
}

impl Level {
    fn simulate(world: World, draws: usize, rng: &mut Rng) -> Result<Self, Error> {
        let spectrum = Spectrum::of(&world.kernel())?;
        let step = StepSize::fraction(LARGE_STEP, &spectrum)?;
        let benchmark = Benchmark::new(world.signal, world.noise)?;
        let weights = world.bayes_weights();
        let mut gaps = vec![Vec::with_capacity(draws); HORIZONS.len()];
        let mut outcomes = [const { Vec::new() }; 3];
        for _ in 0..draws {
            let task = world.draw(rng);
            let bayes = dot(&weights, &task.residuals);
            let path = world.descend(&task.residuals, step.get(), &HORIZONS);
            let corrections: Vec<f64> =
                path.iter().map(|theta| dot(&world.query, theta)).collect();
            for (list, correction) in gaps.iter_mut().zip(&corrections) {
                list.push((correction - bayes).powi(2));
            }
            let outcome = [corrections[EIGHT], bayes, task.target];
            outcomes.iter_mut().zip(outcome).for_each(|(list, value)| list.push(value));
        }
        Ok(Self { world, spectrum, step, benchmark, gaps, outcomes })
    }

    /// Thm. 5.2.
    fn predicted(&self, horizon: u32) -> Result<f64, Error> {
        let filter = GradientDescent { step: self.step, horizon };
        Ok(query_gap(&self.spectrum, &self.world.coupling(), &filter, &self.benchmark)?)
    }

    /// The predicted curve and the simulated points, relative to no step.
    fn series(&self) -> Result<[Series; 2], Error> {
        let none = self.predicted(0)?;
        let curve: Result<Vec<Point>, Error> = (1..=128)
            .map(|t| Ok(Point::new(f64::from(t), self.predicted(t)? / none)))
            .collect();
        let points = HORIZONS.iter().zip(&self.gaps).map(|(&horizon, gaps)| {
            let Mean { mean, error } = Mean::of(gaps);
            Point::new(f64::from(horizon), mean / none).with_error(error / none)
        });
        let name = format!("σ²/τ² = {}", self.world.noise);
        Ok([
            Series { name: name.clone(), points: curve?, style: Style::Line },
            Series { name, points: points.collect(), style: Style::Markers },
        ])
    }

    /// Prop. 2.1 for eight steps.
    fn decompose(&self, found: &mut Findings) -> Result<(), Error> {
        let [predictions, bayes, targets] = &self.outcomes;
        let parts = decompose(predictions, bayes, targets)?;
        let (coupling, query) = (self.world.coupling(), &self.world.query);
        let variance = dot(query, query);
        let filter = GradientDescent { step: self.step, horizon: HORIZONS[EIGHT] };
        let (spectrum, benchmark) = (&self.spectrum, &self.benchmark);
        let least = query_posterior_variance(spectrum, &coupling, variance, benchmark)?;
        let risk = query_risk(spectrum, &coupling, variance, &filter, benchmark)?;
        for (name, predicted, measured) in [
            ("risk of 8 steps", risk, parts.risk),
            ("posterior variance", least, parts.posterior_variance),
            ("cross term of 8 steps", 0.0, parts.cross),
        ] {
            let measured = Mean { mean: measured.mean, error: measured.standard_error };
            found.estimate(&format!("Prop. 2.1: {name}"), predicted, measured, risk);
        }
        Ok(())
    }
}

/// Prop. 2.1 and Thm. 5.2, and the gap against the number of steps.
fn gap_at_the_query(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let world = World::new(rng, 10, 16);
    let mut levels = Vec::new();
    for noise in [0.1, 0.5, 5.0] {
        levels.push(Level::simulate(World { noise, ..world.clone() }, settings.draws, rng)?);
    }
    let mut series = Vec::new();
    for level in &levels {
        for place in [0, 2, EIGHT, 6] {
            let (noise, horizon) = (level.world.noise, HORIZONS[place]);
            let statement =
                format!("Thm. 5.2: Bayes gap at the query, σ² = {noise}, T = {horizon}");
            found.mean(&statement, level.predicted(horizon)?, &level.gaps[place]);
        }
        series.extend(level.series()?);
    }
    found.conclude(
        "The Bayes gap at the query is a weighted mismatch between the filter of the steps and that \
         of Bayes (Thm. 5.2)",
        "equal in expectation",
    );
    found.figures.push(gap_figure(series));
    levels[1].decompose(found)
}

fn gap_figure(series: Vec<Series>) -> Figure {
    let plot = Plot {
        title: "Bayes gap at the query against steps".to_owned(),
        x: Axis::new("steps T").log(),
        y: Axis::new("Bayes gap, relative to no step").log(),
        series,
    };
    Figure {
        name: "bayes-gap".to_owned(),
        caption: "Bayes gap at the query after T steps (step size 0.5/λ_max, 10 examples, 16 \
                  weights), for three ratios of noise to signal. Lines: Thm. 5.2. Marks: means over \
                  simulated tasks; bars are one standard error, where they are larger than the mark."
            .to_owned(),
        alternative: "Three curves that fall, and rise again sooner the noisier the prompt is: the \
                      more noise, the fewer steps are best. Simulated marks lie on the curves."
            .to_owned(),
        svg: plot.svg(),
    }
}

/// Prop. 2.1 where nothing is Gaussian: digit maps, with a predictor that trusts the last pair.
fn gap_on_digit_maps(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let prior = Prior::paper();
    let (mut differences, mut crosses, mut risks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..settings.draws {
        let pairs = prior.draw(11, rng).pairs;
        let ((x, y), shown) = (pairs[10], &pairs[..10]);
        let (last_x, last_y) = shown[9];
        let guess = value((x + last_y + DIGITS - last_x) % DIGITS);
        let chances = prior.predict(shown, x);
        let mean = |power: i32| -> f64 {
            chances.iter().enumerate().map(|(y, chance)| chance * value(y).powi(power)).sum()
        };
        let (best, square) = (mean(1), mean(2));
        let (risk, gap) = ((guess - value(y)).powi(2), (guess - best).powi(2));
        differences.push(risk - gap - (square - best * best));
        crosses.push(2.0 * (guess - best) * (best - value(y)));
        risks.push(risk);
    }
    let scale = Mean::of(&risks).mean;
    let difference = Mean::of(&differences);
    let statement = "Prop. 2.1, digit maps: risk minus gap minus posterior variance";
    found.estimate(statement, 0.0, difference, scale);
    found.estimate("Prop. 2.1, digit maps: cross term", 0.0, Mean::of(&crosses), scale);
    found.conclude(
        "The risk of any predictor is its Bayes gap plus the posterior variance (Prop. 2.1)",
        "equal in expectation",
    );
    Ok(())
}

/// Prop. E.3, Thm. E.4 and Cor. E.5, and how well the filters match.
fn fit_on_the_prompt(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let world = World::new(rng, 10, 16);
    let spectrum = Spectrum::of(&world.kernel())?;
    let step = StepSize::fraction(LARGE_STEP, &spectrum)?;
    let benchmark = Benchmark::new(world.signal, world.noise)?;
    let fits = Fits::simulate(&world, &spectrum, step, settings.draws, rng)?;
    for mode in [0, 4, 9] {
        let eigenvalue = spectrum.eigenvalues()[mode];
        let statement = format!("Prop. E.3: share of mode {} that Bayes keeps", mode + 1);
        let slope = fits.modes[mode].slope();
        found.estimate(&statement, benchmark.response(eigenvalue), slope, 1.0);
    }
    found.conclude(
        "On the prompt, Bayes keeps the share λ/(λ + σ²/τ²) of a mode (Prop. E.3)",
        "equal",
    );
    let filter = GradientDescent { step, horizon: 8 };
    let risk = prompt_risk(&spectrum, &filter, &benchmark);
    found.mean("Thm. E.4: risk on the prompt, 8 steps", risk, &fits.risks);
    let gap = prompt_gap(&spectrum, &filter, &benchmark);
    found.mean("Thm. E.4: Bayes gap on the prompt, 8 steps", gap, &fits.gaps);
    let gain = prompt_benefit(&spectrum, &filter, &benchmark).improvement;
    found.mean("Cor. E.5: what 8 steps gain over none on the prompt", gain, &fits.gains);
    found.conclude(
        "Risk and Bayes gap on the prompt are sums over modes (Thm. E.4, Cor. E.5)",
        "equal in expectation",
    );
    found.figures.push(filter_figure(&spectrum, &benchmark, step, &fits.modes));
    Ok(())
}

/// Fits on the prompt after eight steps, simulated.
struct Fits {
    /// Squared errors, squared distances to the Bayes fit, and what is gained over no step.
    risks: Vec<f64>,
    gaps: Vec<f64>,
    gains: Vec<f64>,
    /// The signal on the residual, mode by mode.
    modes: Vec<Regression>,
}

impl Fits {
    fn simulate(
        world: &World,
        spectrum: &Spectrum,
        step: StepSize,
        draws: usize,
        rng: &mut Rng,
    ) -> Result<Self, Error> {
        let kernel = world.kernel();
        let covariance = shifted(&kernel, world.signal, world.noise);
        // (τ²K + σ²I)⁻¹ τ²K commutes with K and is symmetric: it is the Bayes fit.
        let bayes = solve(&covariance, &shifted(&kernel, world.signal, 0.0));
        let (mut risks, mut gaps, mut gains) = (Vec::new(), Vec::new(), Vec::new());
        let mut modes = vec![Regression::default(); spectrum.examples()];
        for _ in 0..draws {
            let task = world.draw(rng);
            let truth = multiply(&world.features, &task.truth);
            let theta = &world.descend(&task.residuals, step.get(), &[8])[0];
            let fit = multiply(&world.features, theta);
            let error = norm(&subtract(&fit, &truth)).powi(2);
            risks.push(error);
            gains.push(dot(&truth, &truth) - error);
            gaps.push(norm(&subtract(&fit, &multiply(&bayes, &task.residuals))).powi(2));
            let (signal, seen) = (spectrum.rotate(&truth)?, spectrum.rotate(&task.residuals)?);
            for (mode, (signal, seen)) in modes.iter_mut().zip(signal.iter().zip(&seen)) {
                mode.add(*seen, *signal);
            }
        }
        Ok(Self { risks, gaps, gains, modes })
    }
}

/// A regression through the origin.
#[derive(Clone, Copy, Debug, Default)]
struct Regression {
    count: f64,
    seen: f64,
    shared: f64,
    signal: f64,
}

impl Regression {
    fn add(&mut self, seen: f64, signal: f64) {
        self.count += 1.0;
        self.seen += seen * seen;
        self.shared += seen * signal;
        self.signal += signal * signal;
    }

    /// The slope of the signal on what is seen.
    fn slope(&self) -> Mean {
        let slope = self.shared / self.seen;
        let left = (self.signal - slope * self.shared).max(0.0) / (self.count - 1.0);
        Mean { mean: slope, error: (left / self.seen).sqrt() }
    }
}

fn filter_figure(
    spectrum: &Spectrum,
    benchmark: &Benchmark,
    step: StepSize,
    modes: &[Regression],
) -> Figure {
    let ratio = benchmark.noise_to_signal();
    let (largest, smallest) = (spectrum.largest(), spectrum.eigenvalues()[modes.len() - 1]);
    let along: Vec<f64> = (0..=80)
        .map(|i| smallest / 1.5 * (1.5 * 1.05 * largest / smallest).powf(f64::from(i) / 80.0))
        .collect();
    let line = |name: String, filter: &dyn Filter| Series {
        name,
        points: along.iter().map(|&l| Point::new(l / ratio, filter.response(l))).collect(),
        style: Style::Line,
    };
    let measured = spectrum.eigenvalues().iter().zip(modes).map(|(eigenvalue, mode)| {
        let Mean { mean, error } = mode.slope();
        Point::new(eigenvalue / ratio, mean).with_error(error)
    });
    let bayes = "Bayes filter".to_owned();
    let mut series = vec![line(bayes.clone(), benchmark)];
    for horizon in [2, 8, 32] {
        series.push(line(format!("{horizon} steps"), &GradientDescent { step, horizon }));
    }
    series.push(Series { name: bayes, points: measured.collect(), style: Style::Markers });
    let plot = Plot {
        title: "What is kept of a mode: steps, Bayes".to_owned(),
        x: Axis::new("eigenvalue over noise-to-signal ratio, λ/λ★").log(),
        y: Axis::new("share of the mode that is fitted").within(0.0, 1.02),
        series,
    };
    Figure {
        name: "filter-match".to_owned(),
        caption: "Share of a mode's residual that is fitted, by eigenvalue: the Bayes filter λ/(λ + \
                  λ★) and 1 − (1 − ρλ)^T after 2, 8 and 32 steps (step size 0.5/λ_max). Marks: the \
                  share that simulated signals have in their residuals, mode by mode; bars are one \
                  standard error, where they are larger than the mark."
            .to_owned(),
        alternative: "The Bayes filter rises evenly from small to large eigenvalues; every number of \
                      steps gives a steeper curve, and more steps move it towards smaller eigenvalues, \
                      so that none follows the Bayes curve everywhere. Simulated marks lie on it."
            .to_owned(),
        svg: plot.svg(),
    }
}
