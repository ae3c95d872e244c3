//! How long a decision takes.
//!
//! `cargo bench -p fewstep-core`. Shapes: `n = 10` is a few-shot prompt, 48 blocks are the heads of
//! four layers of a small GPT-2, `n = 1000` is token-level supervision.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up should stop")]

use criterion::{Criterion, criterion_group, criterion_main};
use fewstep_core::{
    Block, Evidence, Geometry, Noise, Policy, Rng, Selection, Spectrum, StepSize, decide,
    evidence_curve,
};
use std::hint::black_box;

mod support;
use support::{features, normals};

fn prompt(n: usize, blocks: usize) -> Geometry {
    let mut rng = Rng::new(1);
    let width = 64;
    let blocks = (0..blocks)
        .map(|head| {
            let query = normals(&mut rng, width);
            let features = features(&mut rng, n, width);
            Block::from_features(format!("value.0.{head}"), features, Some(&query)).unwrap()
        })
        .collect();
    Geometry::new(normals(&mut rng, n), blocks).unwrap()
}

/// The curve over 31 horizons, after the eigendecomposition: with the residuals already rotated
/// into modes, and with the rotation, which is `n²` operations and the larger part at `n = 1000`.
fn evidence(criterion: &mut Criterion) {
    for n in [10, 1000] {
        let geometry = prompt(n, 1);
        let spectrum = Spectrum::of(geometry.total().kernel()).unwrap();
        let step = StepSize::fraction(0.1, &spectrum).unwrap();
        let residuals = geometry.residuals();
        let prepared = Evidence::of(&spectrum, residuals, step).unwrap();
        criterion.bench_function(&format!("evidence, 31 horizons, n = {n}"), |bencher| {
            bencher.iter(|| prepared.curve_to(black_box(30), Noise::Profiled));
        });
        criterion.bench_function(&format!("rotate and evidence, n = {n}"), |bencher| {
            bencher.iter(|| evidence_curve(&spectrum, residuals, step, Noise::Profiled, 30));
        });
        let kernel = geometry.total().kernel().clone();
        let mut group = criterion.benchmark_group("eigendecomposition");
        group.sample_size(10);
        group.bench_function(format!("n = {n}"), |bencher| {
            bencher.iter(|| Spectrum::of(black_box(&kernel)));
        });
        group.finish();
    }
}

fn decisions(criterion: &mut Criterion) {
    let geometry = prompt(10, 48);
    let selection = Selection::QueryAware { budget: 32, lookahead: 8 };
    let greedy = Policy { selection, ..Policy::paper() };
    criterion.bench_function("decide, n = 10, 48 blocks, greedy budget 32", |bencher| {
        bencher.iter(|| decide(black_box(&geometry), &greedy));
    });
    criterion.bench_function("decide, n = 10, 48 blocks, all", |bencher| {
        bencher.iter(|| decide(black_box(&geometry), &Policy::paper()));
    });
    let leave_one_out = Policy::default();
    criterion.bench_function("decide, n = 10, 48 blocks, leave-one-out", |bencher| {
        bencher.iter(|| decide(black_box(&geometry), &leave_one_out));
    });
    let single = prompt(10, 1);
    criterion.bench_function("decide, n = 10, 1 block", |bencher| {
        bencher.iter(|| decide(black_box(&single), &Policy::paper()));
    });
}

criterion_group!(benches, evidence, decisions);
criterion_main!(benches);
