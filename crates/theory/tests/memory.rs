//! Large prompts need memory in proportion to their size, never to its square.

#![allow(unsafe_code, reason = "counting what is allocated takes an allocator")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

use fewstep_core::{Matrix, Noise, Rng};
use fewstep_theory::matfree::{
    BlockSum, EvidenceSettings, FactorKernel, Stopping, block_scores, estimate_evidence,
    largest_eigenvalue,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged; only counters are added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as required of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Peak bytes, beyond what was there before, while evidence and scores are computed.
fn peak(n: usize) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let mut rng = Rng::new(1);
    let rank = 64;
    let blocks: Vec<FactorKernel> = (0..2)
        .map(|_| {
            let values = (0..n * rank).map(|_| rng.normal()).collect();
            FactorKernel::new(Matrix::new(n, rank, values).unwrap()).unwrap()
        })
        .collect();
    let residuals: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
    let total = BlockSum::new(blocks.iter().collect()).unwrap();
    let largest = largest_eigenvalue(&total, 20, 1e-6, &mut rng).unwrap();
    let settings = EvidenceSettings {
        step: largest.step(0.1).unwrap(),
        largest,
        horizons: &[0, 1, 2, 4, 8, 16, 30],
        noise: Noise::Profiled,
        probes: 2,
        lanczos_steps: 30,
    };
    let evidence = estimate_evidence(&total, &residuals, &settings, &mut rng).unwrap();
    assert!(evidence.values.iter().all(|value| value.mean.is_finite()));
    let stopping = Stopping { tolerance: 1e-3, iterations: 200 };
    let scores = block_scores(&blocks, 5e3, 2, stopping, &mut rng).unwrap();
    assert!(scores.iter().all(|score| score.mean > 0.0));
    MOST.load(Ordering::Relaxed) - before
}

/// App. H at `n = 20,000` with factors of rank 64: four times the prompt, four times the memory,
/// and a fiftieth of one `n × n` matrix.
#[test]
fn app_h_memory_is_linear() {
    let (small, large) = (peak(5_000), peak(20_000));
    assert!(large < 4 * small + (1 << 20), "{small} bytes at 5,000, {large} at 20,000");
    assert!(large < 20_000 * 20_000 * 8 / 50, "{large} bytes at 20,000");
}
