//! Platt scaling: a temperature and a bias per label, fitted to leave-one-out scores.
//!
//! In: scores and answers of the examples. Out: [`Platt`], which maps the scores of a query. The
//! penalty draws towards the scores as they are, and its strength is chosen by leaving examples out.

use super::metrics::Scored;
use super::peers::softmax;
use super::record::Rows;

/// The candidate strengths of the penalty, the strongest first.
const STRENGTHS: [f64; 5] = [100.0, 10.0, 1.0, 0.1, 0.01];

/// The most Newton steps; each lowers the loss, and a handful is enough.
const MOST_STEPS: usize = 50;

/// The mean change at which fitting ends.
const AIM: f64 = 1e-10;

/// A factor on all scores and a bias per label.
///
/// ```text
/// p(x) = softmax(s z(x) + b),   min  Σ_i −log p(x_i)_(y_i) + ½ λ ((s − 1)² + ‖b‖²)
/// ```
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Platt {
    /// `s`, then `b`.
    parameters: Vec<f64>,
}

impl Platt {
    /// Fits to examples; the strength is the one with the least leave-one-out log-loss, the stronger
    /// of equals.
    pub(super) fn fit(scores: &[Vec<f64>], answers: &[usize]) -> Self {
        let rows = centred(scores);
        let loss = |strength: &f64| -> f64 {
            let held = |out: usize| {
                let fitted = Self::newton(&rows, answers, *strength, Some(out));
                Scored::of(&fitted.centred_probabilities(&rows[out]), answers[out]).log_loss
            };
            (0..rows.len()).map(held).sum()
        };
        let losses: Vec<f64> = STRENGTHS.iter().map(loss).collect();
        let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
        let place = losses.iter().position(|&loss| loss <= least).unwrap_or(0);
        Self::newton(&rows, answers, STRENGTHS[place], None)
    }

    /// The probabilities of a query.
    pub(super) fn probabilities(&self, scores: &[f64]) -> Vec<f64> {
        self.centred_probabilities(&centred(std::slice::from_ref(&scores.to_vec()))[0])
    }

    fn centred_probabilities(&self, scores: &[f64]) -> Vec<f64> {
        let (scale, bias) = self.parameters.split_first().expect("there is a factor");
        let scaled: Vec<f64> = scores.iter().zip(bias).map(|(z, b)| scale * z + b).collect();
        softmax(&scaled)
    }

    /// Newton's method, each step halved until the loss falls.
    fn newton(rows: &Rows, answers: &[usize], strength: f64, out: Option<usize>) -> Self {
        let classes = rows[0].len();
        let mut at = Self { parameters: vec![0.0; classes + 1] };
        at.parameters[0] = 1.0;
        let problem = (rows, answers, strength, out);
        for _ in 0..MOST_STEPS {
            let (gradient, curvature) = at.derivatives(&problem);
            let step = solve(curvature, gradient);
            let before = at.objective(&problem);
            let mut share = 1.0;
            let next = loop {
                let moved = at.parameters.iter().zip(&step).map(|(p, s)| p - share * s);
                let moved = Self { parameters: moved.collect() };
                if share < 1e-9 || moved.objective(&problem) <= before {
                    break moved;
                }
                share *= 0.5;
            };
            at = next;
            if step.iter().map(|s| s.abs()).sum::<f64>() < AIM * step.len() as f64 {
                break;
            }
        }
        at
    }

    fn objective(&self, &(rows, answers, strength, out): &Fit<'_>) -> f64 {
        let kept = (0..rows.len()).filter(|&i| Some(i) != out);
        // Not cut off at the least probability: this one is lowered, not reported.
        let loss = |i: usize| {
            let p = self.centred_probabilities(&rows[i])[answers[i]];
            -p.max(f64::MIN_POSITIVE).ln()
        };
        let size = (self.parameters[0] - 1.0).powi(2)
            + self.parameters[1..].iter().map(|b| b * b).sum::<f64>();
        kept.map(loss).sum::<f64>() + 0.5 * strength * size
    }

    /// The gradient and the matrix of second derivatives.
    fn derivatives(&self, &(rows, answers, strength, out): &Fit<'_>) -> (Vec<f64>, Rows) {
        let count = self.parameters.len();
        let mut gradient: Vec<f64> = self.parameters.iter().map(|p| strength * p).collect();
        gradient[0] -= strength;
        let mut curvature = vec![vec![0.0; count]; count];
        (0..count).for_each(|k| curvature[k][k] = strength);
        for i in (0..rows.len()).filter(|&i| Some(i) != out) {
            let (z, p) = (&rows[i], self.centred_probabilities(&rows[i]));
            let mean: f64 = z.iter().zip(&p).map(|(z, p)| z * p).sum();
            gradient[0] += mean - z[answers[i]];
            for c in 0..p.len() {
                gradient[c + 1] += p[c] - f64::from(u8::from(c == answers[i]));
                let mixed = p[c] * (z[c] - mean);
                curvature[0][c + 1] += mixed;
                curvature[c + 1][0] += mixed;
                curvature[0][0] += mixed * z[c];
                curvature[c + 1][c + 1] += p[c];
                for d in 0..p.len() {
                    curvature[c + 1][d + 1] -= p[c] * p[d];
                }
            }
        }
        (gradient, curvature)
    }
}

/// Centred scores, answers, the strength, and who is left out.
type Fit<'a> = (&'a Rows, &'a [usize], f64, Option<usize>);

/// Scores less their mean per prediction, so that the factor acts on differences alone.
fn centred(scores: &[Vec<f64>]) -> Rows {
    let of = |row: &Vec<f64>| {
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        row.iter().map(|z| z - mean).collect()
    };
    scores.iter().map(of).collect()
}

/// The solution of a positive definite system, by elimination.
fn solve(mut matrix: Rows, mut right: Vec<f64>) -> Vec<f64> {
    let count = right.len();
    for pivot in 0..count {
        for row in pivot + 1..count {
            let factor = matrix[row][pivot] / matrix[pivot][pivot];
            let (above, below) = matrix.split_at_mut(row);
            for (entry, over) in below[0][pivot..].iter_mut().zip(&above[pivot][pivot..]) {
                *entry -= factor * over;
            }
            right[row] -= factor * right[pivot];
        }
    }
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|k| matrix[row][k] * right[k]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;
    use fewstep_core::Rng;

    fn made(seed: u64, count: usize) -> (Rows, Vec<usize>) {
        let mut rng = Rng::new(seed);
        let answers: Vec<usize> = (0..count).map(|_| rng.below(3)).collect();
        let row = |&answer: &usize| -> Vec<f64> {
            let score = |c: usize| rng.normal() + if c == answer { 1.0 } else { c as f64 };
            (0..3).map(score).collect()
        };
        (answers.iter().map(row).collect(), answers)
    }

    #[test]
    fn derivatives_are_those_of_the_loss() {
        let (rows, answers) = made(1, 9);
        let rows = centred(&rows);
        let problem: Fit<'_> = (&rows, &answers, 0.7, Some(4));
        let at = Platt { parameters: vec![0.8, 0.3, -0.2, 0.5] };
        let moved = |place: usize, step: f64| {
            let mut other = at.clone();
            other.parameters[place] += step;
            other
        };
        let (gradient, curvature) = at.derivatives(&problem);
        for place in 0..4 {
            let (up, down) = (moved(place, 1e-5), moved(place, -1e-5));
            let slope = (up.objective(&problem) - down.objective(&problem)) / 2e-5;
            assert!((slope - gradient[place]).abs() < 1e-8, "{slope} against {gradient:?}");
            let (up, down) = (up.derivatives(&problem).0, down.derivatives(&problem).0);
            for other in 0..4 {
                let bend = (up[other] - down[other]) / 2e-5;
                assert!((bend - curvature[place][other]).abs() < 1e-7);
            }
        }
        let found = Platt::newton(&rows, &answers, 0.7, Some(4));
        assert!(found.derivatives(&problem).0.iter().all(|slope| slope.abs() < 1e-8));
    }

    /// Two labels and a bias alone, by hand: the odds of the answers.
    #[test]
    fn a_bias_gives_the_odds_of_the_answers() {
        let (rows, answers) = (vec![vec![0.0, 0.0]; 40], [vec![0; 30], vec![1; 10]].concat());
        let found = Platt::newton(&rows, &answers, 1e-6, None);
        let p = found.probabilities(&[7.0, 7.0]);
        assert!((p[0] - 0.75).abs() < 1e-5, "{p:?}");
        // A strong penalty leaves the scores as they are.
        let held = Platt::newton(&rows, &answers, 1e9, None).probabilities(&[1.0, 0.0]);
        assert!((held[0] - softmax(&[1.0, 0.0])[0]).abs() < 1e-6);
    }

    #[test]
    fn scaling_mends_a_bias_and_a_temperature() {
        let (rows, answers) = made(5, 60);
        let wrong: Rows = rows
            .iter()
            .map(|row| vec![4.0 * row[0], 4.0 * row[1] + 6.0, 4.0 * row[2]])
            .collect();
        let fitted = Platt::fit(&wrong, &answers);
        let loss = |p: &dyn Fn(&Vec<f64>) -> Vec<f64>| -> f64 {
            let (rows, answers) = made(6, 200);
            let wrong = rows
                .iter()
                .map(|row| vec![4.0 * row[0], 4.0 * row[1] + 6.0, 4.0 * row[2]])
                .collect::<Rows>();
            let all = wrong.iter().zip(&answers);
            all.map(|(row, &answer)| Scored::of(&p(row), answer).log_loss).sum::<f64>() / 200.0
        };
        let (before, after) =
            (loss(&|row| softmax(row)), loss(&|row| fitted.probabilities(row)));
        assert!(after < 0.5 * before, "{before} became {after}");
    }

    #[test]
    fn elimination_solves() {
        let matrix = vec![vec![4.0, 1.0, 0.5], vec![1.0, 3.0, 0.2], vec![0.5, 0.2, 2.0]];
        let x = [1.0, -2.0, 3.0];
        let right: Vec<f64> =
            matrix.iter().map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect();
        let found = solve(matrix, right);
        assert!(found.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-14));
    }
}
