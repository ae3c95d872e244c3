//! Sec. 7 and App. I: the criteria that choose a number of steps, and what they say about the gap.

use super::super::document::{Figure, Verdict};
use super::super::plot::{Axis, Plot, Point, Series, Style};
use super::TheorySettings;
use super::findings::{FAR, Findings, number};
use super::gap::STEP;
use super::plain::{
    Rows, World, dot, eliminate, multiply, norm, random_kernel, shifted, solve, subtract,
};
use crate::assessment::Mean;
use crate::error::Error;
use fewstep_core::risk::{Benchmark, prompt_gap};
use fewstep_core::{Evidence, GradientDescent, Noise, Rng, Spectrum, StepSize, evidence_curve};
use fewstep_theory::pac_bayes::{
    EvidenceFamily, PacBayes, Reference, variance_mismatch, variance_mismatch_floor,
};

/// What rounding may do to a criterion, relative to its terms.
const ROUNDING: f64 = 1e-9;
/// The longest horizon, as in App. I.
pub(super) const LONGEST: u32 = 30;

pub(super) fn examine(settings: &TheorySettings, found: &mut Findings) -> Result<(), Error> {
    let mut rng = settings.rng(1);
    criteria(&mut rng, found)?;
    gate(&mut rng, found)?;
    transfer(settings, &mut rng, found)?;
    vanishing(settings, &mut rng, found)
}

/// What the laws of the residuals are made of, without a spectrum.
pub(super) struct Literal {
    /// `I − ρK`.
    kept: Rows,
    /// `log det(I − ρK)`.
    log_determinant: f64,
    noise: f64,
}

impl Literal {
    pub(super) fn new(kernel: &Rows, step: f64, noise: f64) -> Self {
        let kept = shifted(kernel, -step, 1.0);
        let log_determinant = eliminate(&kept, &vec![0.0; kept.len()]).1;
        Self { kept, log_determinant, noise }
    }

    /// `rᵀ(I − ρK)^T r` for `T = 0, …, longest`, by products with the kernel.
    pub(super) fn quadratic_forms(&self, residuals: &[f64], longest: u32) -> Vec<f64> {
        let mut shrunk = residuals.to_vec();
        let mut forms = vec![dot(residuals, residuals)];
        for _ in 0..longest {
            shrunk = multiply(&self.kept, &shrunk);
            forms.push(dot(residuals, &shrunk));
        }
        forms
    }

    /// `−(T/n) log det(I − ρK)`: what App. I charges for `T` steps.
    fn charge(&self, horizon: usize) -> f64 {
        -(horizon as f64) * self.log_determinant / self.kept.len() as f64
    }

    /// `ℓ_T(r)` for `T = 0, …, longest`.
    pub(super) fn evidence(&self, residuals: &[f64], longest: u32) -> Vec<f64> {
        let n = residuals.len() as f64;
        let forms = self.quadratic_forms(residuals, longest);
        let value = |(horizon, form): (usize, &f64)| {
            0.5 * (self.noise.ln() + self.charge(horizon) + form / (n * self.noise))
        };
        forms.iter().enumerate().map(value).collect()
    }
}

/// The two criteria of App. I, written out, against the evidence of Sec. 7.
fn criteria(rng: &mut Rng, found: &mut Findings) -> Result<(), Error> {
    let (mut fixed, mut profiled, mut sec_7) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..20 {
        let world = World::new(rng, 10, 16);
        let residuals = world.draw(rng).residuals;
        let kernel = world.kernel();
        let spectrum = Spectrum::of(&kernel)?;
        let step = StepSize::fraction(STEP, &spectrum)?;
        let variance = dot(&residuals, &residuals) / 10.0;
        let literal = Literal::new(&kernel, step.get(), variance);
        let known = Noise::Fixed(variance);
        let by_fixed = evidence_curve(&spectrum, &residuals, step, known, LONGEST)?;
        let by_profiled =
            evidence_curve(&spectrum, &residuals, step, Noise::Profiled, LONGEST)?;
        let forms = literal.quadratic_forms(&residuals, LONGEST);
        let all = literal.evidence(&residuals, LONGEST);
        for (horizon, form) in forms.iter().enumerate() {
            let (charge, fit) = (literal.charge(horizon), form / 10.0);
            let scale = 1.0 + charge + fit / variance + variance.ln().abs();
            fixed.push((
                charge + fit / variance,
                2.0 * by_fixed[horizon] - variance.ln(),
                scale,
            ));
            let scale = 1.0 + charge + fit.ln().abs();
            profiled.push((charge + fit.ln(), 2.0 * by_profiled[horizon] - 1.0, scale));
            sec_7.push((all[horizon], by_fixed[horizon], scale));
        }
    }
    found.identity("Sec. 7: evidence by elimination, and by modes", &sec_7, ROUNDING);
    found.identity("App. I, fixed σ: the criterion, and 2ℓ_T − log σ²", &fixed, ROUNDING);
    found.identity(
        "App. I, σ by maximum likelihood: the criterion, and 2ℓ_T − 1",
        &profiled,
        ROUNDING,
    );
    found.conclude(
        "The criteria of App. I choose the T of largest evidence of Sec. 7",
        "the same minimiser",
    );
    Ok(())
}

/// The gate in closed form: evidence asks for steps exactly if it is over 1.
fn gate(rng: &mut Rng, found: &mut Findings) -> Result<(), Error> {
    let mut disagree = Vec::new();
    for prompt in 0..400_u32 {
        let mut world = World::new(rng, 10, 16);
        world.signal = 0.2 * f64::from(prompt % 5);
        let residuals = world.draw(rng).residuals;
        let kernel = world.kernel();
        let spectrum = Spectrum::of(&kernel)?;
        let step = StepSize::fraction(STEP, &spectrum)?;
        let evidence = Evidence::of(&spectrum, &residuals, step)?;
        // A hundredth of a step, taken literally through the profiled criterion.
        let small = 1e-2;
        let at = |horizon| evidence.at(horizon, Noise::Profiled);
        let falls = at(small)? < at(0.0)?;
        // Where the optimum is nearer to 0 than that step, both answers are right.
        let clear = (evidence.gate() - 1.0).abs() > 0.02;
        disagree.push((
            f64::from(u8::from(clear && falls != (evidence.gate() > 1.0))),
            0.0,
            1.0,
        ));
    }
    found.identity(
        "Gate (closed form): evidence falls with the first bit of a step if it is over 1",
        &disagree,
        0.0,
    );
    found.conclude("Whether evidence asks for any step follows from one ratio (convexity of the criteria of App. I)", "no exception");
    Ok(())
}

/// Lems. E.15 and E.16: evidence that is close to the truth means a small gap.
fn transfer(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let scalars: Vec<(f64, f64)> = (1..400)
        .map(|i| 1.02_f64.powi(i - 200))
        .map(|ratio| (variance_mismatch_floor(ratio), variance_mismatch(ratio)))
        .collect();
    found.bound("Lem. E.15: quadratic floor over t − 1 − log t", &scalars);
    let horizons: Vec<u32> = (0..=LONGEST).collect();
    let (mut pairs, mut series) = (Vec::new(), Vec::new());
    for noise in [0.05, 0.5, 5.0] {
        let mut points = Vec::new();
        for prompt in 0..40 {
            let mut world = World::new(rng, 10, 16);
            world.noise = noise;
            let spectrum = Spectrum::of(&world.kernel())?;
            let step = StepSize::fraction(STEP, &spectrum)?;
            let family = EvidenceFamily::new(&spectrum, step, noise, &horizons)?;
            let truth =
                Reference::Benchmark { signal_variance: world.signal, noise_variance: noise };
            let bounds = PacBayes::new(&family, truth)?.gap_from_evidence()?;
            let benchmark = Benchmark::new(world.signal, noise)?;
            for (&horizon, &bound) in horizons.iter().zip(&bounds) {
                let filter = GradientDescent { step, horizon };
                let gap = prompt_gap(&spectrum, &filter, &benchmark) / 10.0;
                pairs.push((gap, bound));
                if prompt < 6 && horizon % 5 == 0 {
                    points.push(Point::new(bound / noise, gap / noise));
                }
            }
        }
        let name = format!("σ²/τ² = {noise}");
        series.push(Series { name, points, style: Style::Markers });
    }
    found.bound("Lem. E.16: gap on the prompt over 4σ² KL/n, 120 prompts, T = 0 to 30", &pairs);
    simulated_gap(settings, rng, found)?;
    found.conclude(
        "Evidence controls the Bayes gap (Lems. E.15 and E.16)",
        "gap at most 4σ² KL/n",
    );
    found.figures.push(transfer_figure(series));
    Ok(())
}

/// The gap of Lem. E.16 itself, by elimination and steps.
fn simulated_gap(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let world = World::new(rng, 10, 16);
    let kernel = world.kernel();
    let spectrum = Spectrum::of(&kernel)?;
    let step = StepSize::fraction(STEP, &spectrum)?;
    let covariance = shifted(&kernel, world.signal, world.noise);
    let bayes = solve(&covariance, &shifted(&kernel, world.signal, 0.0));
    let gaps: Vec<f64> = (0..settings.draws)
        .map(|_| {
            let residuals = world.draw(rng).residuals;
            let theta = &world.descend(&residuals, step.get(), &[15])[0];
            let fit = multiply(&world.features, theta);
            norm(&subtract(&fit, &multiply(&bayes, &residuals))).powi(2) / 10.0
        })
        .collect();
    let benchmark = Benchmark::new(world.signal, world.noise)?;
    let filter = GradientDescent { step, horizon: 15 };
    let predicted = prompt_gap(&spectrum, &filter, &benchmark) / 10.0;
    found.mean("Lem. E.16: normalised gap on the prompt, 15 steps", predicted, &gaps);
    Ok(())
}

fn transfer_figure(mut series: Vec<Series>) -> Figure {
    let ends = series.iter().flat_map(|series| &series.points).map(|point| point.x);
    let (low, high) =
        ends.fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    let points = vec![Point::new(low, low), Point::new(high, high)];
    series.push(Series { name: "bound".to_owned(), points, style: Style::Line });
    let plot = Plot {
        title: "Bayes gap against what evidence promises".to_owned(),
        x: Axis::new("4 KL/n, distance of evidence from truth").log(),
        y: Axis::new("Bayes gap on the prompt, over σ²").log(),
        series,
    };
    Figure {
        name: "evidence-gap".to_owned(),
        caption:
            "Lem. E.16: the Bayes gap per example of T = 0, 5, …, 30 steps, over σ², against 4 \
                  KL/n, which bounds it; six prompts for each ratio of noise to signal."
                .to_owned(),
        alternative:
            "A cloud of points that lies below the diagonal, which is the bound, and closer \
                      to it where the noise is large."
                .to_owned(),
        svg: plot.svg(),
    }
}

/// Thm. E.19 where it is well specified: the gap of the horizon of largest evidence vanishes.
fn vanishing(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let confidence = 0.9;
    let mut means = Vec::new();
    for (examples, draws) in
        [(10, settings.draws / 10), (40, settings.draws / 10), (160, settings.draws / 40)]
    {
        let chosen = ChosenGaps::simulate(examples, draws, confidence, rng)?;
        let statement =
            format!("Thm. E.19: gap of the chosen T over the bound, n = {examples}");
        found.frequency(&statement, 1.0 - confidence, chosen.outside, draws);
        means.push(Mean::of(&chosen.gaps));
    }
    found.conclude(
        "With high probability the gap of the chosen T is within four terms (Thm. E.19)",
        "failures at most 0.1",
    );
    let apart = |a: Mean, b: Mean| (a.mean - b.mean) / a.error.hypot(b.error);
    let least = apart(means[0], means[1]).min(apart(means[1], means[2]));
    found.conclude_with(
        "The normalised gap of the chosen T vanishes as the prompt grows, where one T is right (Thm. \
         E.19)",
        "falls with n",
        &format!(
            "{}, {} and {} of the noise variance for 10, 40 and 160 examples",
            number(means[0].mean),
            number(means[1].mean),
            number(means[2].mean)
        ),
        match least {
            least if least > FAR => Verdict::Held,
            least if least < -FAR => Verdict::NotHeld,
            _ => Verdict::Undecided,
        },
    );
    Ok(())
}

/// Gaps of the horizons that evidence chooses where 8 steps are right, over the noise variance.
struct ChosenGaps {
    gaps: Vec<f64>,
    /// How many are over the bound of Thm. E.19.
    outside: usize,
}

impl ChosenGaps {
    fn simulate(
        examples: usize,
        draws: usize,
        confidence: f64,
        rng: &mut Rng,
    ) -> Result<Self, Error> {
        let kernel = random_kernel(rng, examples, 2 * examples);
        let spectrum = Spectrum::of(&kernel)?;
        let step = StepSize::fraction(STEP, &spectrum)?;
        let horizons: Vec<u32> = (0..=LONGEST).collect();
        let family = EvidenceFamily::new(&spectrum, step, 1.0, &horizons)?;
        let bounds = PacBayes::new(&family, Reference::Horizon(8))?;
        let bound = bounds.vanishing_gap(8, confidence)?.bound;
        // Σ_8 = (I − ρK)⁻⁸, mode by mode; its Bayes fit keeps 1 − (1 − ρλ)⁸.
        let kept: Vec<f64> =
            spectrum.eigenvalues().iter().map(|value| 1.0 - step.get() * value).collect();
        let gap_of = |horizon: i32| {
            let mode = |kept: &f64| (kept.powi(8) - kept.powi(horizon)).powi(2) / kept.powi(8);
            kept.iter().map(mode).sum::<f64>() / examples as f64
        };
        let literal = Literal::new(&kernel, step.get(), 1.0);
        let mut chosen = Self { gaps: Vec::with_capacity(draws), outside: 0 };
        for _ in 0..draws {
            let amounts: Vec<f64> =
                kept.iter().map(|kept| rng.normal() * kept.powi(-4)).collect();
            let evidence = literal.evidence(&spectrum.rotate_back(&amounts)?, LONGEST);
            let horizon = i32::try_from(best(&evidence)).expect("there are 31 candidates");
            let gap = gap_of(horizon);
            chosen.outside += usize::from(gap > bound);
            chosen.gaps.push(gap);
        }
        Ok(chosen)
    }
}

/// Where a curve is lowest; of equals the first.
pub(super) fn best(curve: &[f64]) -> usize {
    let lowest = curve.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
    lowest.map_or(0, |(place, _)| place)
}
