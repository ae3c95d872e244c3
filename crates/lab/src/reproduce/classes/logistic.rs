//! A linear probe: multinomial logistic regression with a kernel, its strength chosen by held-out
//! log-loss.
//!
//! In: inner products of hidden states. Out: probabilities of queries. Hidden states are centred on
//! the examples and scaled to a mean square of 1, as a standardising probe would, and have a constant
//! entry for the bias.

use super::peers::softmax;
use crate::error::Error;
use fewstep_core::Matrix;
use fewstep_core::linear_algebra::eigen;

/// The candidate strengths of the penalty, the strongest first.
const STRENGTHS: [f64; 5] = [10.0, 1.0, 0.1, 0.01, 0.001];

/// Up to this number of examples each is left out alone; beyond, in as many folds as below.
const EXACT_UP_TO: usize = 32;
const FOLDS: usize = 10;

/// Where fitting ends: the largest entry of the gradient, or this number of steps.
const AIM: f64 = 1e-6;
const MOST_STEPS: usize = 5000;

/// Probabilities of queries by a linear probe on hidden states.
///
/// `gram` holds the inner products of the examples, `couplings` those of each query with them.
pub(super) fn probe(
    gram: &Matrix,
    couplings: &[&[f64]],
    answers: &[usize],
    classes: usize,
) -> Result<Vec<Vec<f64>>, Error> {
    let kernel = Centred::of(gram);
    let problem = Problem::new(&kernel.matrix, answers, classes)?;
    let strength = problem.strength();
    let found = problem.fit(strength, None, vec![0.0; answers.len() * classes]);
    let predict = |coupling: &&[f64]| problem.predict(&kernel.coupling(coupling), &found);
    Ok(couplings.iter().map(predict).collect())
}

/// A kernel of centred and scaled hidden states with a constant entry.
struct Centred {
    matrix: Matrix,
    means: Vec<f64>,
    mean: f64,
    scale: f64,
}

impl Centred {
    fn of(gram: &Matrix) -> Self {
        let n = gram.rows();
        let means: Vec<f64> =
            (0..n).map(|i| gram.row(i).iter().sum::<f64>() / n as f64).collect();
        let mean = means.iter().sum::<f64>() / n as f64;
        let centred = |i: usize, j: usize| gram[(i, j)] - means[i] - means[j] + mean;
        let size = (0..n).map(|i| centred(i, i)).sum::<f64>() / n as f64;
        // Hidden states that are all the same say nothing, whatever their scale.
        let scale = if size > 0.0 { 1.0 / size } else { 0.0 };
        let matrix = Matrix::from_fn(n, n, |i, j| scale * centred(i, j) + 1.0);
        Self { matrix, means, mean, scale }
    }

    fn coupling(&self, coupling: &[f64]) -> Vec<f64> {
        let own = coupling.iter().sum::<f64>() / coupling.len() as f64;
        let pairs = coupling.iter().zip(&self.means);
        pairs.map(|(c, mean)| self.scale * (c - own - mean + self.mean) + 1.0).collect()
    }
}

/// A penalised fit with a kernel.
///
/// ```text
/// min_a  Σ_i −log softmax(K a)_(i, y_i)  +  ½ λ tr(aᵀ K a)
/// ```
struct Problem<'a> {
    kernel: &'a Matrix,
    eigenvalues: Vec<f64>,
    /// One eigenvector per row.
    modes: Matrix,
    answers: &'a [usize],
    classes: usize,
}

impl<'a> Problem<'a> {
    fn new(kernel: &'a Matrix, answers: &'a [usize], classes: usize) -> Result<Self, Error> {
        let (eigenvalues, modes) = eigen(kernel)?;
        Ok(Self { kernel, eigenvalues, modes, answers, classes })
    }

    /// The strength with the least held-out log-loss, the stronger of equals.
    fn strength(&self) -> f64 {
        let n = self.answers.len();
        let folds = if n <= EXACT_UP_TO { n } else { FOLDS };
        let mut whole = vec![0.0; n * self.classes];
        let mut losses = Vec::new();
        for strength in STRENGTHS {
            // Solutions differ little from strength to strength and from fold to fold.
            whole = self.fit(strength, None, whole);
            let fold_loss = |fold: usize| {
                let held = |i: usize| i % folds == fold;
                let found = self.fit(strength, Some(&held), whole.clone());
                let of = (0..n).filter(|&i| held(i));
                of.map(|i| self.loss(i, &self.predict(self.kernel.row(i), &found))).sum::<f64>()
            };
            losses.push((0..folds).map(fold_loss).sum::<f64>());
        }
        let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
        let place = losses.iter().position(|&loss| loss <= least).unwrap_or(0);
        STRENGTHS[place]
    }

    fn loss(&self, example: usize, probabilities: &[f64]) -> f64 {
        super::metrics::Scored::of(probabilities, self.answers[example]).log_loss
    }

    /// `a`, fitted without the examples that are held out.
    ///
    /// The curvature of the loss is at most ½, so that the step `(½K + λ)⁻¹ (p − Y + λ a)` never
    /// overshoots.
    fn fit(
        &self,
        strength: f64,
        held: Option<&dyn Fn(usize) -> bool>,
        mut a: Vec<f64>,
    ) -> Vec<f64> {
        let shrink: Vec<f64> = self
            .eigenvalues
            .iter()
            .map(|value| 1.0 / (0.5 * value.max(0.0) + strength))
            .collect();
        for _ in 0..MOST_STEPS {
            let gradient = self.gradient(strength, held, &a);
            if gradient.iter().all(|entry| entry.abs() < AIM) {
                break;
            }
            for (mode, shrink) in shrink.iter().enumerate() {
                let row = self.modes.row(mode);
                for label in 0..self.classes {
                    let at = |i: usize| i * self.classes + label;
                    let along: f64 =
                        row.iter().enumerate().map(|(i, u)| u * gradient[at(i)]).sum();
                    for (i, u) in row.iter().enumerate() {
                        a[at(i)] -= shrink * along * u;
                    }
                }
            }
        }
        a
    }

    /// `p − Y + λ a`: the gradient, without a factor `K`.
    fn gradient(
        &self,
        strength: f64,
        held: Option<&dyn Fn(usize) -> bool>,
        a: &[f64],
    ) -> Vec<f64> {
        let mut gradient: Vec<f64> = a.iter().map(|entry| strength * entry).collect();
        for (i, row) in gradient.chunks_exact_mut(self.classes).enumerate() {
            if held.is_some_and(|held| held(i)) {
                continue;
            }
            let probabilities = self.predict(self.kernel.row(i), a);
            for (label, (entry, p)) in row.iter_mut().zip(probabilities).enumerate() {
                *entry += p - f64::from(u8::from(label == self.answers[i]));
            }
        }
        gradient
    }

    fn predict(&self, coupling: &[f64], a: &[f64]) -> Vec<f64> {
        let mut scores = vec![0.0; self.classes];
        for (k, row) in coupling.iter().zip(a.chunks_exact(self.classes)) {
            scores.iter_mut().zip(row).for_each(|(score, a)| *score += k * a);
        }
        softmax(&scores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fewstep_core::Rng;

    fn gram(points: &[Vec<f64>], others: &[Vec<f64>]) -> Matrix {
        Matrix::from_fn(points.len(), others.len(), |i, j| {
            points[i].iter().zip(&others[j]).map(|(a, b)| a * b).sum()
        })
    }

    fn points(rng: &mut Rng, answers: &[usize]) -> Vec<Vec<f64>> {
        let point = |&answer: &usize| -> Vec<f64> {
            (0..4).map(|d| 30.0 + rng.normal() + if d == answer { 3.0 } else { 0.0 }).collect()
        };
        answers.iter().map(point).collect()
    }

    /// The penalised loss itself, in weights: its gradient by differences is 0 at the fit.
    #[test]
    fn a_fit_is_where_the_loss_is_flat() {
        let mut rng = Rng::new(4);
        let answers: Vec<usize> = (0..12).map(|i| i % 3).collect();
        let points = points(&mut rng, &answers);
        let kernel = Centred::of(&gram(&points, &points)).matrix;
        let problem = Problem::new(&kernel, &answers, 3).unwrap();
        for strength in [0.01, 1.0] {
            let held = |i: usize| i == 5;
            let a = problem.fit(strength, Some(&held), vec![0.0; 36]);
            let objective = |a: &[f64]| {
                let mut sum = 0.0;
                for i in (0..12).filter(|&i| i != 5) {
                    sum += problem.loss(i, &problem.predict(kernel.row(i), a));
                }
                for i in 0..12 {
                    for j in 0..12 {
                        let pair: f64 = (0..3).map(|c| a[i * 3 + c] * a[j * 3 + c]).sum();
                        sum += 0.5 * strength * kernel[(i, j)] * pair;
                    }
                }
                sum
            };
            for place in 0..36 {
                let at = |step: f64| {
                    let mut moved = a.clone();
                    moved[place] += step;
                    objective(&moved)
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!(slope.abs() < 1e-4, "{slope} at {place}, strength {strength}");
            }
            assert!(a[15..18].iter().all(|entry| entry.abs() < 1e-4), "{:?}", &a[15..18]);
        }
    }

    /// Points around three corners are told apart, however far from 0 they all are.
    #[test]
    fn a_probe_tells_clusters_apart() {
        let mut rng = Rng::new(9);
        for count in [16, 48] {
            let answers: Vec<usize> = (0..count).map(|i| i % 3).collect();
            let (known, asked) = (points(&mut rng, &answers), points(&mut rng, &answers));
            let couplings = gram(&asked, &known);
            let rows: Vec<&[f64]> = (0..count).map(|i| couplings.row(i)).collect();
            let found = probe(&gram(&known, &known), &rows, &answers, 3).unwrap();
            let right = found.iter().zip(&answers);
            let right = right.filter(|(p, a)| super::super::metrics::first_largest(p) == **a);
            assert!(right.count() as f64 > 0.8 * count as f64);
            for row in &found {
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
        // Hidden states that do not differ leave the frequencies of the labels.
        let same = Matrix::from_fn(4, 4, |_, _| 2.0);
        let found = probe(&same, &[&[2.0; 4]], &[0, 0, 0, 1], 2).unwrap();
        assert!(found[0][0] > 0.5);
    }
}
