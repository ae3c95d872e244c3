//! Sec. 6: why the number of steps and the directions have to follow the prompt.

use super::TheorySettings;
use super::findings::{FAR, Findings};
use super::plain::{World, multiply, norm, normals, subtract};
use crate::assessment::Mean;
use crate::error::Error;
use fewstep_core::risk::Benchmark;
use fewstep_core::{Filter, Rng, Spectrum};
use fewstep_theory::JamesStein;
use fewstep_theory::risk::{floor, projector_gap, separation_bound};

pub(super) fn examine(settings: &TheorySettings, found: &mut Findings) -> Result<(), Error> {
    let mut rng = settings.rng(7);
    two_priors(settings, &mut rng, found)?;
    infinitely_many_steps(settings, &mut rng, found)?;
    outside_the_range(&mut rng, found)
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
        ratios.push((mean.mean + FAR * mean.error, full));
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
