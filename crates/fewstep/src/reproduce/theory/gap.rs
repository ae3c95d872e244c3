//! Secs. 2, 4, 5 and 6: what steps are, how far they are from the best there is, and where they end.

use super::super::document::Figure;
use super::super::plot::{Axis, Plot, Point, Series, Style};
use super::TheorySettings;
use super::findings::Findings;
use super::plain::{
    Rows, World, dot, eliminate, multiply, norm, normals, product, shifted, subtract,
};
use crate::assessment::Mean;
use crate::digit_maps::{DIGITS, Prior, value};
use crate::error::Error;
use fewstep_core::risk::{
    Benchmark, decompose, floor, projector_gap, prompt_benefit, prompt_gap, prompt_risk,
    query_gap, query_posterior_variance, query_risk, separation_bound,
};
use fewstep_core::{Filter, GradientDescent, JamesStein, Rng, Spectrum, StepSize};

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
    fit_on_the_prompt(settings, &mut rng, found)?;
    two_priors(settings, &mut rng, found)?;
    infinitely_many_steps(settings, &mut rng, found)?;
    outside_the_range(&mut rng, found)
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

/// One noise level: squared distances to the Bayes correction, one list per horizon.
struct Simulation {
    gaps: Vec<Vec<f64>>,
    /// At [`EIGHT`]: predictions, Bayes predictions and targets.
    outcomes: [Vec<f64>; 3],
}

/// The place of `T = 8` among the horizons.
const EIGHT: usize = 4;

fn simulate(world: &World, step: f64, draws: usize, rng: &mut Rng) -> Simulation {
    let weights = world.bayes_weights();
    let mut gaps = vec![Vec::with_capacity(draws); HORIZONS.len()];
    let mut outcomes = [const { Vec::new() }; 3];
    for _ in 0..draws {
        let task = world.draw(rng);
        let bayes = dot(&weights, &task.residuals);
        let path = world.descend(&task.residuals, step, &HORIZONS);
        for (place, theta) in path.iter().enumerate() {
            let correction = dot(&world.query, theta);
            gaps[place].push((correction - bayes).powi(2));
            if place == EIGHT {
                for (list, value) in outcomes.iter_mut().zip([correction, bayes, task.target]) {
                    list.push(value);
                }
            }
        }
    }
    Simulation { gaps, outcomes }
}

/// Prop. 2.1 and Thm. 5.2, and the gap against the number of steps.
fn gap_at_the_query(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let mut world = World::new(rng, 10, 16);
    let spectrum = Spectrum::of(&world.kernel())?;
    let step = StepSize::fraction(LARGE_STEP, &spectrum)?;
    let (coupling, variance) = (world.coupling(), dot(&world.query, &world.query));
    let mut series = Vec::new();
    let mut middle = None;
    for noise in [0.1, 0.5, 5.0] {
        world.noise = noise;
        let benchmark = Benchmark::new(world.signal, noise)?;
        let gap = |horizon| {
            let filter = GradientDescent { step, horizon };
            query_gap(&spectrum, &coupling, &filter, &benchmark)
        };
        let seen = simulate(&world, step.get(), settings.draws, rng);
        let none = gap(0)?;
        for place in [0, 2, EIGHT, 6] {
            let horizon = HORIZONS[place];
            let statement =
                format!("Thm. 5.2: Bayes gap at the query, σ² = {noise}, T = {horizon}");
            found.mean(&statement, gap(horizon)?, &seen.gaps[place]);
        }
        let curve: Result<Vec<Point>, Error> =
            (1..=128).map(|t| Ok(Point::new(f64::from(t), gap(t)? / none))).collect();
        let name = format!("σ²/τ² = {noise}");
        series.push(Series { name: name.clone(), points: curve?, style: Style::Line });
        let points = HORIZONS.iter().zip(&seen.gaps).map(|(&horizon, gaps)| {
            let Mean { mean, error } = Mean::of(gaps);
            Point::new(f64::from(horizon), mean / none).with_error(error / none)
        });
        series.push(Series { name, points: points.collect(), style: Style::Markers });
        if noise == 0.5 {
            middle = Some((benchmark, seen.outcomes));
        }
    }
    found.conclude(
        "The Bayes gap at the query is a weighted mismatch between the filter of the steps and that \
         of Bayes (Thm. 5.2)",
        "equal in expectation",
    );
    found.figures.push(gap_figure(series));

    let (benchmark, [predictions, bayes, targets]) = middle.expect("0.5 is one of the levels");
    let filter = GradientDescent { step, horizon: HORIZONS[EIGHT] };
    let parts = decompose(&predictions, &bayes, &targets)?;
    let mean = |estimate: fewstep_core::Estimate| Mean {
        mean: estimate.mean,
        error: estimate.standard_error,
    };
    let least = query_posterior_variance(&spectrum, &coupling, variance, &benchmark)?;
    let risk = query_risk(&spectrum, &coupling, variance, &filter, &benchmark)?;
    let scale = risk.max(least);
    found.estimate("Prop. 2.1: risk of 8 steps", risk, mean(parts.risk), scale);
    found.estimate(
        "Prop. 2.1: posterior variance",
        least,
        mean(parts.posterior_variance),
        scale,
    );
    found.estimate("Prop. 2.1: cross term of 8 steps", 0.0, mean(parts.cross), scale);
    Ok(())
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
    let kernel = world.kernel();
    let spectrum = Spectrum::of(&kernel)?;
    let step = StepSize::fraction(LARGE_STEP, &spectrum)?;
    let benchmark = Benchmark::new(world.signal, world.noise)?;
    let covariance = shifted(&kernel, world.signal, world.noise);
    let bayes = super::plain::solve(&covariance, &shifted(&kernel, world.signal, 0.0));
    // (τ²K + σ²I)⁻¹ τ²K commutes with K and is symmetric: it is the Bayes fit.
    let (mut risks, mut gaps, mut gains) = (Vec::new(), Vec::new(), Vec::new());
    let mut modes = vec![Regression::default(); spectrum.examples()];
    for _ in 0..settings.draws {
        let task = world.draw(rng);
        let truth = multiply(&world.features, &task.truth);
        let fit =
            multiply(&world.features, &world.descend(&task.residuals, step.get(), &[8])[0]);
        let error = norm(&subtract(&fit, &truth)).powi(2);
        risks.push(error);
        gains.push(dot(&truth, &truth) - error);
        gaps.push(norm(&subtract(&fit, &multiply(&bayes, &task.residuals))).powi(2));
        let (signal, seen) = (spectrum.rotate(&truth)?, spectrum.rotate(&task.residuals)?);
        for (mode, (signal, seen)) in modes.iter_mut().zip(signal.iter().zip(&seen)) {
            mode.add(*seen, *signal);
        }
    }
    for mode in [0, 4, 9] {
        let eigenvalue = spectrum.eigenvalues()[mode];
        let statement = format!("Prop. E.3: share of mode {} that Bayes keeps", mode + 1);
        found.estimate(&statement, benchmark.response(eigenvalue), modes[mode].slope(), 1.0);
    }
    found.conclude(
        "On the prompt, Bayes keeps the share λ/(λ + σ²/τ²) of a mode (Prop. E.3)",
        "equal",
    );
    let filter = GradientDescent { step, horizon: 8 };
    found.mean(
        "Thm. E.4: risk on the prompt, 8 steps",
        prompt_risk(&spectrum, &filter, &benchmark),
        &risks,
    );
    found.mean(
        "Thm. E.4: Bayes gap on the prompt, 8 steps",
        prompt_gap(&spectrum, &filter, &benchmark),
        &gaps,
    );
    let gain = prompt_benefit(&spectrum, &filter, &benchmark).improvement;
    found.mean("Cor. E.5: what 8 steps gain over none on the prompt", gain, &gains);
    found.conclude(
        "Risk and Bayes gap on the prompt are sums over modes (Thm. E.4, Cor. E.5)",
        "equal in expectation",
    );
    found.figures.push(filter_figure(&spectrum, &benchmark, step, &modes));
    Ok(())
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
        title: "What is kept of each mode: steps against Bayes".to_owned(),
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

/// Props. 6.1 and E.6: on a projector kernel, one horizon cannot suit two worlds.
fn two_priors(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let (rank, noise, step) = (4, 0.5_f64, 0.1_f64);
    let signals = [2.0_f64, 0.1];
    let worlds = [Benchmark::new(signals[0], noise)?, Benchmark::new(signals[1], noise)?];
    let least = separation_bound(rank, &worlds[0], &worlds[1]);
    let shares = |horizon: i32| 1.0 - (1.0 - step).powi(horizon);
    let mut pairs = Vec::new();
    for horizon in 0..=200 {
        let gaps = [
            projector_gap(rank, shares(horizon), &worlds[0])?,
            projector_gap(rank, shares(horizon), &worlds[1])?,
        ];
        pairs.push((least, gaps[0].max(gaps[1])));
    }
    for (signal, benchmark) in signals.into_iter().zip(&worlds) {
        let best = signal / (signal + noise);
        let gaps: Vec<f64> = (0..settings.draws)
            .map(|_| {
                let mode = |rng: &mut Rng| {
                    let seen = signal.sqrt() * rng.normal() + noise.sqrt() * rng.normal();
                    // Eight steps on one mode, one by one.
                    let fit = (0..8).fold(0.0, |fit, _| fit + step * (seen - fit));
                    (fit - best * seen).powi(2)
                };
                (0..rank).map(|_| mode(rng)).sum()
            })
            .collect();
        let statement = format!("Prop. E.6: gap of 8 steps on a projector, τ² = {signal}");
        found.mean(&statement, projector_gap(rank, shares(8), benchmark)?, &gaps);
    }
    found.bound(
        "Prop. 6.1: least gap in the worse of two worlds, over that of 0 to 200 steps",
        &pairs,
    );
    found.conclude(
        "No fixed number of steps suits two priors (Props. 6.1 and E.6)",
        "at least the bound in one of them",
    );
    Ok(())
}

/// Props. 6.2 and E.7: infinitely many steps fit everything, and shrinking that is better.
fn infinitely_many_steps(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let world = World::new(rng, 9, 6);
    let spectrum = Spectrum::of(&world.kernel())?;
    let noise = 0.8_f64;
    let full = 6.0 * noise;
    let signal = multiply(&world.features, &normals(rng, 6));
    let (mut ratios, mut shrunk, mut projected) = (Vec::new(), Vec::new(), Vec::new());
    for length in [0.0, 1.0, 3.0] {
        let target: Vec<f64> = signal.iter().map(|x| length * x / norm(&signal)).collect();
        let (mut losses, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..settings.draws {
            let residuals: Vec<f64> =
                target.iter().map(|f| f + noise.sqrt() * rng.normal()).collect();
            let fit = spectrum.project(&residuals)?;
            let filter = JamesStein::of(&spectrum, &residuals, noise)?;
            let smaller = filter.prompt_fit(&spectrum, &residuals)?;
            losses.push(norm(&subtract(&smaller, &target)).powi(2));
            plain.push(norm(&subtract(&fit, &target)).powi(2));
        }
        let mean = Mean::of(&losses);
        ratios.push((mean.mean + super::findings::FAR * mean.error, full));
        if length == 0.0 {
            (shrunk, projected) = (losses, plain);
        }
    }
    found.mean("Prop. 6.2: risk of infinitely many steps, six modes", full, &projected);
    found.mean("Prop. E.7: risk of the shrunken fit without signal", 2.0 * noise, &shrunk);
    found.bound(
        "Prop. E.7: risk of the shrunken fit (and 4 standard errors), over the full fit's",
        &ratios,
    );
    found.conclude(
        "Fitting everything is beaten by shrinking it (Props. 6.2 and E.7)",
        "beaten for every signal",
    );
    Ok(())
}

/// Props. 6.3 and E.9: what lies outside the range stays, whatever the number of steps.
fn outside_the_range(rng: &mut Rng, found: &mut Findings) -> Result<(), Error> {
    let mut pairs = Vec::new();
    let mut limits = Vec::new();
    for _ in 0..20 {
        let world = World::new(rng, 10, 4);
        let spectrum = Spectrum::of(&world.kernel())?;
        let target = normals(rng, 10);
        let least = floor(&spectrum, &target)?;
        let step = 0.9 / spectrum.largest();
        let path = world.descend(&target, step, &[0, 1, 10, 100, 3000]);
        let errors: Vec<f64> = path
            .iter()
            .map(|theta| norm(&subtract(&multiply(&world.features, theta), &target)).powi(2))
            .collect();
        pairs.extend(errors.iter().map(|&error| (least, error)));
        limits.push((least, errors[4], least));
    }
    found.bound(
        "Prop. 6.3: part outside the range, over the error after 0 to 3000 steps",
        &pairs,
    );
    found.identity(
        "Prop. E.9: part outside the range, and the error after 3000 steps",
        &limits,
        1e-6,
    );
    found.conclude(
        "The error outside the range of the kernel is irreducible (Props. 6.3 and E.9)",
        "no number of steps removes it",
    );
    Ok(())
}
