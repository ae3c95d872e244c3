//! Sec. 8: which directions of the weights tell most about the query.

use super::super::document::Verdict;
use super::TheorySettings;
use super::findings::{FAR, Findings};
use super::plain::{
    Rows, dot, multiply, normals, product, shifted, solve, subtract, transpose,
};
use crate::assessment::Mean;
use crate::error::Error;
use fewstep_core::{Block, Geometry, Rng, Spectrum, subspace};
use fewstep_theory::design::{
    GlobalInformation, LinearGaussian, PlugIn, Prior, QueryInformation, QueryMetric,
};

const EXAMPLES: usize = 8;
const WEIGHTS: usize = 12;
const QUERIES: usize = 6;
const NOISE: f64 = 0.4;

pub(super) fn examine(settings: &TheorySettings, found: &mut Findings) -> Result<(), Error> {
    let mut rng = settings.rng(3);
    posterior_mean(&mut rng, found)?;
    best_subspace(settings, &mut rng, found)?;
    block_scores(settings, &mut rng, found)?;
    learned_subspace(settings, &mut rng, found)
}

fn rows(rng: &mut Rng, count: usize) -> Rows {
    let scale = |j: usize| (1.0 + j as f64).powf(-0.5);
    let row = |rng: &mut Rng| (0..WEIGHTS).map(|j| scale(j) * rng.normal()).collect();
    (0..count).map(|_| row(rng)).collect()
}

/// `(JᵀJ/σ² + Σ⁻¹)⁻¹ Jᵀ/σ²`: the posterior mean as a matrix, by the information form.
fn posterior_matrix(jacobian: &Rows, variances: &[f64]) -> Rows {
    let turned = transpose(jacobian);
    let mut precision = shifted(&product(&turned, jacobian), 1.0 / NOISE, 0.0);
    for (i, variance) in variances.iter().enumerate() {
        precision[i][i] += 1.0 / variance;
    }
    let scaled: Rows =
        turned.iter().map(|row| row.iter().map(|x| x / NOISE).collect()).collect();
    solve(&precision, &scaled)
}

/// Lem. E.21: the posterior mean by two forms.
fn posterior_mean(rng: &mut Rng, found: &mut Findings) -> Result<(), Error> {
    let mut pairs = Vec::new();
    for _ in 0..20 {
        let (jacobian, residuals) = (rows(rng, EXAMPLES), normals(rng, EXAMPLES));
        let variances: Vec<f64> = (0..WEIGHTS).map(|_| 0.1 + rng.uniform()).collect();
        let literal = multiply(&posterior_matrix(&jacobian, &variances), &residuals);
        let model = LinearGaussian::new(&jacobian, Prior::Diagonal(variances), NOISE)?;
        let mean = model.posterior_mean(&residuals)?;
        let scale = dot(&mean, &mean).sqrt();
        pairs.extend(literal.into_iter().zip(mean).map(|(a, b)| (a, b, scale)));
    }
    found.identity("Lem. E.21: posterior mean of the weights, by two forms", &pairs, 1e-9);
    found.conclude(
        "The posterior mean of the weights is ΣJᵀ(JΣJᵀ + σ²I)⁻¹r (Lem. E.21)",
        "equal",
    );
    Ok(())
}

/// Thm. 8.2: the risk of the best subspace, simulated, and that no other one is better.
fn best_subspace(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let (jacobian, queries) = (rows(rng, EXAMPLES), rows(rng, QUERIES));
    let model = LinearGaussian::new(&jacobian, Prior::Isotropic(1.0), NOISE)?;
    let metric = QueryMetric::from_queries(&queries)?;
    let information = model.query_information(&metric)?;
    let gain = posterior_matrix(&jacobian, &[1.0; WEIGHTS]);
    for budget in [1, 2, 4] {
        let subspace = information.optimal_subspace(budget)?;
        let directions = subspace.directions(&metric)?.to_rows();
        let estimate = product(&onto(&directions, &queries), &gain);
        let losses = simulate(&jacobian, &queries, &estimate, settings.draws, rng);
        let statement = format!("Thm. 8.2: risk of the best {budget} of 6 directions");
        found.mean(&statement, subspace.risk(), &losses);
    }
    let best = information.optimal_subspace(2)?.risk();
    let others: Vec<(f64, f64)> = (0..500)
        .map(|_| {
            let drawn = rows(rng, 2);
            let estimate = product(&onto(&drawn, &queries), &gain);
            (best, exact_risk(&jacobian, &queries, &estimate))
        })
        .collect();
    found
        .bound("Thm. 8.2: risk of the best 2 directions over that of 500 drawn pairs", &others);
    found.conclude("The best subspace is spanned by the top eigenvectors of what the prompt tells about the queries (Thm. 8.2)", "risk tr(QΣ) − tr(ΠI_Q), and none is lower");
    Ok(())
}

/// The projection onto some directions that is closest for the queries.
fn onto(directions: &Rows, queries: &Rows) -> Rows {
    let seen = product(directions, &transpose(queries));
    let gram = product(&seen, &transpose(&seen));
    product(&transpose(directions), &solve(&gram, &product(&seen, queries)))
}

/// Squared errors at the queries, averaged over them, of a linear estimate of the weights.
fn simulate(
    jacobian: &Rows,
    queries: &Rows,
    estimate: &Rows,
    draws: usize,
    rng: &mut Rng,
) -> Vec<f64> {
    (0..draws)
        .map(|_| {
            let truth = normals(rng, WEIGHTS);
            let residuals: Vec<f64> = multiply(jacobian, &truth)
                .into_iter()
                .map(|clean| clean + NOISE.sqrt() * rng.normal())
                .collect();
            let error = multiply(queries, &subtract(&multiply(estimate, &residuals), &truth));
            dot(&error, &error) / QUERIES as f64
        })
        .collect()
}

/// The expectation of [`simulate`], written out: `E‖Q^(1/2)(A(Ju + ε) − u)‖²`.
fn exact_risk(jacobian: &Rows, queries: &Rows, estimate: &Rows) -> f64 {
    let missed = product(queries, &shifted(&product(estimate, jacobian), 1.0, -1.0));
    let noise = product(queries, estimate);
    let size = |a: &Rows| a.iter().map(|row| dot(row, row)).sum::<f64>();
    (size(&missed) + NOISE * size(&noise)) / QUERIES as f64
}

/// A prompt and a query whose weights are divided into blocks of three.
struct Blocks {
    jacobian: Rows,
    query: Vec<f64>,
    /// The posterior mean as a matrix, and its covariance `I`, by the information form.
    gain: Rows,
    information: Rows,
    /// In prompt space: Query-Aware and Trace-TopK.
    scores: Vec<f64>,
    traces: Vec<f64>,
}

impl Blocks {
    const STARTS: [usize; 4] = [0, 3, 6, 9];

    fn new(rng: &mut Rng) -> Result<Self, Error> {
        let (jacobian, query) = (rows(rng, EXAMPLES), rows(rng, 1).remove(0));
        let block = |&start: &usize| {
            let own = start..start + 3;
            let features: Rows = jacobian.iter().map(|row| row[own.clone()].to_vec()).collect();
            Block::from_features(format!("block {start}"), &features, Some(&query[own]))
        };
        let blocks: Result<Vec<Block>, _> = Self::STARTS.iter().map(block).collect();
        let geometry = Geometry::new(normals(rng, EXAMPLES), blocks?)?;
        let gain = posterior_matrix(&jacobian, &[1.0; WEIGHTS]);
        Ok(Self {
            information: product(&gain, &jacobian),
            scores: subspace::query_scores(&geometry, NOISE)?,
            traces: subspace::trace_scores(&geometry, NOISE)?,
            jacobian,
            query,
            gain,
        })
    }

    /// The query's derivative with respect to one block, and 0 elsewhere.
    fn alone(&self, start: usize) -> Vec<f64> {
        let own = start..start + 3;
        (0..WEIGHTS).map(|j| if own.contains(&j) { self.query[j] } else { 0.0 }).collect()
    }

    /// What keeping one block of the posterior mean takes from the risk of doing nothing.
    fn simulate(&self, draws: usize, rng: &mut Rng) -> Vec<Mean> {
        let mut reductions = vec![Vec::with_capacity(draws); Self::STARTS.len()];
        for _ in 0..draws {
            let truth = normals(rng, WEIGHTS);
            let residuals: Vec<f64> = multiply(&self.jacobian, &truth)
                .into_iter()
                .map(|clean| clean + NOISE.sqrt() * rng.normal())
                .collect();
            let (mean, target) = (multiply(&self.gain, &residuals), dot(&self.query, &truth));
            for (list, start) in reductions.iter_mut().zip(Self::STARTS) {
                let guess = dot(&self.alone(start), &mean);
                list.push(target * target - (target - guess).powi(2));
            }
        }
        reductions.iter().map(|list| Mean::of(list)).collect()
    }
}

/// Sec. 8.2: scores of blocks, and whether they are what a block takes from the risk.
fn block_scores(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let blocks = Blocks::new(rng)?;
    let (mut forms, mut sums) = (Vec::new(), Vec::new());
    for (start, (&score, &trace)) in
        Blocks::STARTS.into_iter().zip(blocks.scores.iter().zip(&blocks.traces))
    {
        let own = blocks.alone(start);
        forms.push((dot(&own, &multiply(&blocks.information, &own)), score, score));
        let diagonal: f64 = (start..start + 3).map(|j| blocks.information[j][j]).sum();
        sums.push((diagonal, trace, trace));
    }
    found.identity("Sec. 8.2: Query-Aware score in weights, and in prompt space", &forms, 1e-9);
    found.identity("Sec. 8.2: Trace-TopK score in weights, and in prompt space", &sums, 1e-9);
    found.conclude("Block scores can be computed in prompt space (Sec. 8.2)", "equal");

    let means = blocks.simulate(settings.draws, rng);
    let informed = multiply(&blocks.information, &blocks.query);
    let whole = dot(&blocks.query, &blocks.query);
    for (start, (score, &mean)) in
        Blocks::STARTS.into_iter().zip(blocks.scores.iter().zip(&means))
    {
        let end = start + 2;
        let statement = format!("Sec. 8.2: risk that weights {start} to {end} alone remove");
        let predicted = 2.0 * dot(&blocks.alone(start), &informed) - score;
        found.estimate(&statement, predicted, mean, whole);
    }
    found.conclude(
        "The risk reduction of a block is 2 j_bᵀ(I j)_b minus its score (Sec. 8.2, corrected)",
        "equal in expectation",
    );
    proportionality(&means, &blocks.scores, found);
    Ok(())
}

/// Whether the reductions of all blocks are the same multiple of their scores.
fn proportionality(reductions: &[Mean], scores: &[f64], found: &mut Findings) {
    let ratios: Vec<Mean> = reductions
        .iter()
        .zip(scores)
        .map(|(found, score)| Mean { mean: found.mean / score, error: found.error / score })
        .collect();
    let pairs = ratios.iter().flat_map(|a| ratios.iter().map(move |b| (*a, *b)));
    let apart = |(a, b): &(Mean, Mean)| (b.mean - a.mean) / a.error.hypot(b.error);
    let Some((low, high)) = pairs.max_by(|a, b| apart(a).total_cmp(&apart(b))) else { return };
    let distance = apart(&(low, high));
    found.conclude_with(
        "The risk reduction of a block is proportional to its Query-Aware score (Sec. 8.2)",
        "one ratio for all blocks",
        &format!(
            "{:.2} for one block and {:.2} for another, {distance:.1} standard errors apart",
            low.mean, high.mean
        ),
        if distance > FAR { Verdict::NotHeld } else { Verdict::Undecided },
    );
}

/// Prompts to learn from, and what all of them together say.
struct Population {
    prompts: Vec<QueryInformation>,
    mean: QueryInformation,
    /// `R` and the variance of Thm. E.25: how far single prompts are from the mean.
    bound: f64,
    variance: f64,
}

impl Population {
    fn new(rng: &mut Rng) -> Result<Self, Error> {
        let metric = QueryMetric::from_queries(&rows(rng, QUERIES))?;
        let prompts: Result<Vec<QueryInformation>, _> = (0..40)
            .map(|_| {
                LinearGaussian::new(&rows(rng, EXAMPLES), Prior::Isotropic(1.0), NOISE)?
                    .query_information(&metric)
            })
            .collect();
        let prompts = prompts?;
        let mean = mean_of(&prompts.iter().collect::<Vec<_>>())?;
        let dimension = mean.matrix().rows();
        let (mut bound, mut second) = (0.0_f64, vec![vec![0.0; dimension]; dimension]);
        for prompt in &prompts {
            let pairs = prompt.matrix().to_rows().into_iter().zip(mean.matrix().to_rows());
            let apart: Rows = pairs.map(|(a, b)| subtract(&a, &b)).collect();
            let square = product(&apart, &apart);
            bound = bound.max(Spectrum::of(&square)?.largest().sqrt());
            for (sum, row) in second.iter_mut().zip(&square) {
                sum.iter_mut().zip(row).for_each(|(s, x)| *s += x / prompts.len() as f64);
            }
        }
        let variance = Spectrum::of(&second)?.largest();
        Ok(Self { prompts, mean, bound, variance })
    }
}

fn mean_of(prompts: &[&QueryInformation]) -> Result<QueryInformation, Error> {
    let dimension = prompts.first().map_or(0, |prompt| prompt.matrix().rows());
    let mut global = GlobalInformation::new(dimension);
    for prompt in prompts {
        global.add(prompt)?;
    }
    Ok(global.mean()?)
}

/// Thm. E.25: the regret of a subspace that was learned from prompts.
fn learned_subspace(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let all = Population::new(rng)?;
    let (failure, budget, runs) = (0.1, 2, settings.draws / 20);
    let best = all.mean.optimal_subspace(budget)?.risk();
    for prompts in [10, 100] {
        let dimension = all.mean.matrix().rows();
        let plug_in = PlugIn::independent(prompts, dimension, all.bound, all.variance)?;
        let allowed = plug_in.regret(budget, failure)?;
        let mut outside = 0;
        for _ in 0..runs {
            let chosen: Vec<&QueryInformation> =
                (0..prompts).map(|_| &all.prompts[rng.below(all.prompts.len())]).collect();
            let learned = mean_of(&chosen)?.optimal_subspace(budget)?;
            outside += usize::from(all.mean.risk(&learned)? - best > allowed);
        }
        let statement = format!(
            "Thm. E.25: regret of 2 directions learned from {prompts} prompts over the bound"
        );
        found.frequency(&statement, failure, outside, runs);
    }
    found.conclude(
        "A subspace learned from prompts has small regret (Thm. E.25)",
        "failures at most 0.1",
    );
    Ok(())
}
