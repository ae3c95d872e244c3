//! Sec. 3 and App. H: kernels, couplings and query variances, and the ranges they span.

use crate::support::*;
use fewstep_core::{Block, Factors, Geometry, Rng, Spectrum};

/// Sec. 3, App. H.1.6: kernels, couplings and query variances add over blocks, as the features
/// of all blocks side by side say.
#[test]
fn sec_3_blocks_add() {
    for_prompts(|p| {
        let width = p.query.len();
        let cut = width / 2;
        let side = |name: &str, range: std::ops::Range<usize>| {
            let rows: Vec<Vec<f64>> =
                p.features.iter().map(|row| row[range.clone()].to_vec()).collect();
            Block::from_features(name, &rows, Some(&p.query[range])).unwrap()
        };
        let mut blocks = vec![side("right", cut..width)];
        if cut > 0 {
            blocks.push(side("left", 0..cut));
        }
        let total = Geometry::new(p.residuals.clone(), blocks).unwrap().total();

        let scale =
            p.features.iter().map(|row| norm(row)).fold(norm(&p.query), f64::max).powi(2);
        for (found, expected) in total.kernel().to_rows().iter().zip(&p.kernel()) {
            assert_all_close(found, expected, scale, width);
        }
        let query = total.query().unwrap();
        assert_all_close(&query.coupling, &p.coupling(), scale, width);
        assert_close(query.variance, dot(&p.query, &p.query), scale, width);
        assert_eq!(total.parameters(), Some(width));
    });
}

/// One sequence through a linear layer: its inputs, and an output that is quadratic in `W`, so
/// that central differences with any step are exact up to rounding.
struct Sequence {
    inputs: Vec<Vec<f64>>,
    slopes: Vec<Vec<f64>>,
}

impl Sequence {
    fn random(rng: &mut Rng, tokens: usize, width: usize, out: usize) -> Self {
        let mut rows = |columns: usize| (0..tokens).map(|_| normals(rng, columns)).collect();
        Self { inputs: rows(width), slopes: rows(out) }
    }

    /// `s(W) = Σ_t c_t · y_t + ‖y_t‖²/2` with `y_t = W x_t`.
    fn output(&self, weights: &[Vec<f64>]) -> f64 {
        let token = |(x, c): (&Vec<f64>, &Vec<f64>)| {
            let y = multiply(weights, x);
            dot(c, &y) + 0.5 * dot(&y, &y)
        };
        self.inputs.iter().zip(&self.slopes).map(token).sum()
    }

    /// Inputs `x_t` and adjoints `∂s/∂y_t = c_t + y_t`.
    fn factors(&self, weights: &[Vec<f64>]) -> Factors {
        let adjoints: Vec<Vec<f64>> = self
            .inputs
            .iter()
            .zip(&self.slopes)
            .map(|(x, c)| multiply(weights, x).iter().zip(c).map(|(y, c)| c + y).collect())
            .collect();
        Factors::new(matrix(&self.inputs), matrix(&adjoints)).unwrap()
    }

    /// `∂s/∂vec(W)`, one weight at a time.
    fn gradient(&self, weights: &[Vec<f64>]) -> Vec<f64> {
        let mut gradient = Vec::new();
        for column in 0..weights[0].len() {
            for row in 0..weights.len() {
                let moved = |step: f64| {
                    let mut weights = weights.to_vec();
                    weights[row][column] += step;
                    self.output(&weights)
                };
                gradient.push((moved(1.0) - moved(-1.0)) / 2.0);
            }
        }
        gradient
    }
}

/// Lem. H.1, summed over tokens: a linear layer's Jacobian is the outer product of input and
/// adjoint, so its kernel needs their inner products only; couplings to a query likewise.
#[test]
fn lem_h_1_outer_product_jacobian() {
    let mut rng = Rng::new(1);
    for (n, tokens, width, out) in [(1, 1, 1, 1), (4, 1, 5, 3), (3, 6, 4, 2), (5, 3, 2, 7)] {
        let weights: Vec<Vec<f64>> = (0..out).map(|_| normals(&mut rng, width)).collect();
        let sequences: Vec<Sequence> =
            (0..=n).map(|_| Sequence::random(&mut rng, tokens, width, out)).collect();

        let factors: Vec<Factors> =
            sequences.iter().map(|sequence| sequence.factors(&weights)).collect();
        let block = Block::from_factors("layer", &factors[..n], Some(&factors[n])).unwrap();

        let gradients: Vec<Vec<f64>> =
            sequences.iter().map(|sequence| sequence.gradient(&weights)).collect();
        let scale = gradients.iter().map(|g| dot(g, g)).fold(0.0, f64::max);
        let query = block.query().unwrap();
        for i in 0..n {
            for j in 0..n {
                let literal = dot(&gradients[i], &gradients[j]);
                assert_close(block.kernel()[(i, j)], literal, scale, width * out);
            }
            let literal = dot(&gradients[i], &gradients[n]);
            assert_close(query.coupling[i], literal, scale, width * out);
        }
        assert_close(query.variance, dot(&gradients[n], &gradients[n]), scale, width * out);
        assert_eq!(block.parameters(), Some(width * out));
    }
}

/// Sec. 3.3: with one supervised token per example the value kernel is the Hadamard product
/// `(MMᵀ) ∘ (BBᵀ)`; with one gradient for all it is `‖β‖² A(ZZᵀ)Aᵀ`.
#[test]
fn sec_3_3_hadamard_and_sandwich() {
    let mut rng = Rng::new(2);
    let (n, model, head) = (7, 5, 3);
    let stream: Vec<Vec<f64>> = (0..n).map(|_| normals(&mut rng, model)).collect();
    let attention = causal_attention(&mut rng, n);
    let mixed = product(&attention, &stream);
    let shared = normals(&mut rng, head);
    for gradients in
        [(0..n).map(|_| normals(&mut rng, head)).collect::<Vec<_>>(), vec![shared.clone(); n]]
    {
        let factors: Vec<Factors> = mixed
            .iter()
            .zip(&gradients)
            .map(|(m, b)| {
                let row = |v: &Vec<f64>| matrix(std::slice::from_ref(v));
                Factors::new(row(m), row(b)).unwrap()
            })
            .collect();
        let block = Block::from_factors("value", &factors, None).unwrap();
        let sandwich = product(
            &product(&attention, &product(&stream, &transpose(&stream))),
            &transpose(&attention),
        );
        let scale = mixed.iter().map(|m| dot(m, m)).fold(0.0, f64::max)
            * gradients.iter().map(|b| dot(b, b)).fold(0.0, f64::max);
        for i in 0..n {
            for j in 0..n {
                let hadamard = dot(&mixed[i], &mixed[j]) * dot(&gradients[i], &gradients[j]);
                assert_close(block.kernel()[(i, j)], hadamard, scale, model);
                if gradients[0] == gradients[n - 1] {
                    let global = dot(&shared, &shared) * sandwich[i][j];
                    assert_close(block.kernel()[(i, j)], global, scale, n * model);
                }
            }
        }
    }
}

/// Rows of positive weights over the tokens so far that sum to 1.
fn causal_attention(rng: &mut Rng, n: usize) -> Vec<Vec<f64>> {
    (0..n)
        .map(|k| {
            let weights: Vec<f64> =
                (0..n).map(|s| if s <= k { rng.normal().exp() } else { 0.0 }).collect();
            let sum: f64 = weights.iter().sum();
            weights.iter().map(|w| w / sum).collect()
        })
        .collect()
}

/// Lem. H.3: with one gradient for all tokens, value updates of a set of heads reach exactly the
/// span of the columns of their attention-mixed streams. App. H.2: their step limit obeys the
/// stated bounds.
#[test]
fn lem_h_3_representable_range() {
    let mut rng = Rng::new(3);
    let (n, model) = (9, 2);
    let stream: Vec<Vec<f64>> = (0..n).map(|_| normals(&mut rng, model)).collect();
    let heads: Vec<(Vec<Vec<f64>>, f64)> = (0..3)
        .map(|_| (product(&causal_attention(&mut rng, n), &stream), 0.1 + rng.uniform()))
        .collect();
    let blocks: Vec<Block> = heads
        .iter()
        .enumerate()
        .map(|(head, (mixed, strength))| {
            let rows: Vec<Vec<f64>> =
                mixed.iter().map(|m| m.iter().map(|x| x * strength).collect()).collect();
            Block::from_features(format!("value.0.{head}"), &rows, None).unwrap()
        })
        .collect();
    let geometry = Geometry::new(vec![0.0; n], blocks).unwrap();

    for chosen in [vec![0], vec![1, 2], vec![0, 1, 2]] {
        let spectrum = Spectrum::of(geometry.sum(&chosen).unwrap().kernel()).unwrap();
        // Three streams of two columns each are independent for random attention.
        assert_eq!(spectrum.rank(), chosen.len() * model);
        for &head in &chosen {
            for column in transpose(&heads[head].0) {
                let outside = spectrum.project_outside(&column).unwrap();
                // A range is known to ε times the condition of the nonzero spectrum.
                let condition =
                    spectrum.largest() / spectrum.eigenvalues()[spectrum.rank() - 1];
                assert_close(norm(&outside), 0.0, norm(&column) * condition, n);
            }
        }
        let bound: f64 = chosen
            .iter()
            .map(|&head| Spectrum::of(geometry.blocks()[head].kernel()).unwrap().largest())
            .sum();
        assert!(spectrum.largest() <= bound * (1.0 + 1e3 * n as f64 * f64::EPSILON));
    }
}
