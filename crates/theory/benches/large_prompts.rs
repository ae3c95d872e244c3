//! How long a prompt takes that is far past what an `n × n` matrix allows.
//!
//! `cargo bench -p fewstep-theory`. Shape: `n = 20,000`, two blocks of rank 64.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up should stop")]

use criterion::{Criterion, criterion_group, criterion_main};
use fewstep_core::{Noise, Rng};
use fewstep_theory::matfree::{
    BlockSum, EvidenceSettings, FactorKernel, Stopping, block_scores, estimate_evidence,
    largest_eigenvalue,
};

#[path = "../../core/benches/support/mod.rs"]
mod support;
use support::{features, normals};

/// Evidence and block scores from products with rank-64 factors alone.
fn large_prompts(criterion: &mut Criterion) {
    let mut rng = Rng::new(2);
    let n = 20_000;
    let blocks: Vec<FactorKernel> =
        (0..2).map(|_| FactorKernel::new(features(&mut rng, n, 64)).unwrap()).collect();
    let total = BlockSum::new(blocks.iter().collect()).unwrap();
    let residuals = normals(&mut rng, n);
    let largest = largest_eigenvalue(&total, 20, 1e-6, &mut rng).unwrap();
    let horizons: Vec<u32> = (0..=30).collect();
    let settings = EvidenceSettings {
        step: largest.step(0.1).unwrap(),
        largest,
        horizons: &horizons,
        noise: Noise::Profiled,
        probes: 10,
        lanczos_steps: 50,
    };
    let mut group = criterion.benchmark_group("matrix-free, n = 20,000, rank 64 per block");
    group.sample_size(10);
    group.bench_function("evidence, 31 horizons, 10 probes", |bencher| {
        bencher.iter(|| estimate_evidence(&total, &residuals, &settings, &mut rng.clone()));
    });
    let stopping = Stopping { tolerance: 1e-6, iterations: 500 };
    group.bench_function("scores of 2 blocks, 10 probes", |bencher| {
        bencher.iter(|| block_scores(&blocks, 10.0, 10, stopping, &mut rng.clone()));
    });
    group.finish();
}

criterion_group!(benches, large_prompts);
criterion_main!(benches);
