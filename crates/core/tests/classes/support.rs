//! A classifier in parameter space, written out: it shares nothing with the crate but its inputs.

use fewstep_core::{
    ArmBlocks, Base, ClassArm, ClassBase, ClassBlock, ClassCoupling, ClassDecision, ClassDepth,
    ClassGeometry, ClassKernel, ClassPolicy, ClassQuery, Matrix, Policy, QueryBase, Rng,
    decide_classes,
};

/// `z_c(x) = z₀_c(x) + φ_c(x) · θ`, its examples and a query.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) seed: u64,
    pub(crate) answers: Vec<usize>,
    /// `[example][label]`
    pub(crate) scores: Vec<Vec<f64>>,
    /// `[example][label][parameter]`
    pub(crate) features: Vec<Vec<Vec<f64>>>,
    pub(crate) query_scores: Vec<f64>,
    /// `[label][parameter]`
    pub(crate) query_features: Vec<Vec<f64>>,
}

pub(crate) fn normals(rng: &mut Rng, count: usize, scale: f64) -> Vec<f64> {
    (0..count).map(|_| scale * rng.normal()).collect()
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

pub(crate) fn softmax(z: &[f64]) -> Vec<f64> {
    let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = z.iter().map(|z| (z - top).exp()).sum();
    z.iter().map(|z| (z - top).exp() / sum).collect()
}

/// The largest difference of two lists.
pub(crate) fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

impl Model {
    pub(crate) fn random(seed: u64, [n, classes, width]: [usize; 3], scale: f64) -> Self {
        let mut rng = Rng::new(seed);
        let derivatives = |rng: &mut Rng| {
            (0..classes).map(|_| normals(rng, width, scale)).collect::<Vec<_>>()
        };
        Self {
            seed,
            features: (0..n).map(|_| derivatives(&mut rng)).collect(),
            query_features: derivatives(&mut rng),
            scores: (0..n).map(|_| normals(&mut rng, classes, 1.0)).collect(),
            query_scores: normals(&mut rng, classes, 1.0),
            answers: (0..n).map(|i| if i < 2 { i } else { rng.below(classes) }).collect(),
        }
    }

    pub(crate) fn n(&self) -> usize {
        self.answers.len()
    }

    pub(crate) fn classes(&self) -> usize {
        self.query_scores.len()
    }

    pub(crate) fn width(&self) -> usize {
        self.query_features[0].len()
    }

    /// `Y − softmax(z)` at the parameters, one row per example.
    pub(crate) fn residual(&self, example: usize, theta: &[f64]) -> Vec<f64> {
        let rows = self.scores[example].iter().zip(&self.features[example]);
        let z: Vec<f64> = rows.map(|(z, f)| z + dot(f, theta)).collect();
        let p = softmax(&z);
        p.iter()
            .enumerate()
            .map(|(c, p)| f64::from(u8::from(c == self.answers[example])) - p)
            .collect()
    }

    /// Steps of gradient descent on the cross-entropy of some examples.
    pub(crate) fn fit(&self, examples: &[usize], step: f64, steps: u32) -> Vec<f64> {
        let mut theta = vec![0.0; self.width()];
        for _ in 0..steps {
            let mut gradient = vec![0.0; self.width()];
            for &i in examples {
                for (residual, features) in
                    self.residual(i, &theta).iter().zip(&self.features[i])
                {
                    for (g, f) in gradient.iter_mut().zip(features) {
                        *g += residual * f;
                    }
                }
            }
            for (t, g) in theta.iter_mut().zip(gradient) {
                *t += step * g;
            }
        }
        theta
    }

    pub(crate) fn predict(&self, example: usize, theta: &[f64]) -> Vec<f64> {
        let rows = self.scores[example].iter().zip(&self.features[example]);
        softmax(&rows.map(|(z, f)| z + dot(f, theta)).collect::<Vec<_>>())
    }

    pub(crate) fn predict_query(&self, theta: &[f64]) -> Vec<f64> {
        let rows = self.query_scores.iter().zip(&self.query_features);
        softmax(&rows.map(|(z, f)| z + dot(f, theta)).collect::<Vec<_>>())
    }

    /// Every example predicted by steps on the others, each refitted alone.
    pub(crate) fn leave_one_out(&self, step: f64, steps: u32) -> Vec<Vec<f64>> {
        (0..self.n())
            .map(|i| {
                let others: Vec<usize> = (0..self.n()).filter(|&j| j != i).collect();
                self.predict(i, &self.fit(&others, step, steps))
            })
            .collect()
    }

    /// The mean log-loss of predictions for the examples.
    pub(crate) fn loss(&self, predictions: &[Vec<f64>]) -> f64 {
        self.losses(predictions).iter().sum::<f64>() / self.n() as f64
    }

    pub(crate) fn losses(&self, predictions: &[Vec<f64>]) -> Vec<f64> {
        let pairs = predictions.iter().zip(&self.answers);
        pairs.map(|(p, &answer)| -p[answer].max(1e-6).ln()).collect()
    }

    /// Derivatives of all outputs, one row each.
    pub(crate) fn rows(&self) -> Vec<Vec<f64>> {
        self.features.iter().flatten().cloned().collect()
    }

    pub(crate) fn dense(&self) -> (ClassKernel, ClassCoupling) {
        let rows = self.rows();
        let kernel = Matrix::from_fn(rows.len(), rows.len(), |i, j| dot(&rows[i], &rows[j]));
        let coupling = Matrix::from_fn(self.classes(), rows.len(), |c, j| {
            dot(&self.query_features[c], &rows[j])
        });
        (ClassKernel::Dense(kernel), ClassCoupling::Dense(coupling))
    }

    pub(crate) fn factored(&self) -> (ClassKernel, ClassCoupling) {
        let features = Matrix::from_rows(&self.rows()).unwrap();
        let query = Matrix::from_rows(&self.query_features).unwrap();
        (ClassKernel::Features(features), ClassCoupling::Features(query))
    }

    /// The task with some blocks behind the few-shot prompt.
    pub(crate) fn task(&self, blocks: Vec<(ClassBlock, ClassCoupling)>) -> Task {
        let (blocks, couplings): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
        let scores = Matrix::from_rows(&self.scores).unwrap();
        let base = ClassBase::new(Base::FewShot, scores, blocks).unwrap();
        let seen = QueryBase { scores: self.query_scores.clone(), couplings };
        Task {
            geometry: ClassGeometry::new(self.classes(), self.answers.clone(), vec![base])
                .unwrap(),
            query: ClassQuery { bases: vec![seen] },
        }
    }

    /// The task with one block.
    pub(crate) fn single(&self, (kernel, coupling): (ClassKernel, ClassCoupling)) -> Task {
        self.task(vec![(ClassBlock::new("block", kernel).unwrap(), coupling)])
    }
}

/// What is observed of a model.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) geometry: ClassGeometry,
    pub(crate) query: ClassQuery,
}

impl Task {
    /// Decides with one arm of all blocks of the few-shot prompt.
    pub(crate) fn decide(&self, policy: &Policy) -> ClassDecision {
        let blocks = (0..self.geometry.bases()[0].blocks().len()).collect();
        decide_classes(&self.geometry, &[ArmBlocks { base: 0, blocks }], policy).unwrap()
    }

    pub(crate) fn answer(&self, decision: &ClassDecision) -> Vec<f64> {
        decision.predict(&self.geometry, &self.query).unwrap().adapted
    }
}

pub(crate) fn arm(base: Base, depth: ClassDepth) -> ClassArm {
    ClassArm { base, blocks: "any".to_owned(), depth }
}

/// One few-shot arm and some numbers of steps.
pub(crate) fn one_arm(horizons: &[u32]) -> Policy {
    let arms = vec![arm(Base::FewShot, ClassDepth::All)];
    let classes = ClassPolicy { arms, ..ClassPolicy::default() };
    Policy { horizons: horizons.to_vec(), classes, ..Policy::default() }
}

/// Models of many shapes and magnitudes, with the seed of the one that fails.
pub(crate) fn for_models(mut check: impl FnMut(&Model)) {
    let shapes = [
        ([2, 2, 1], 1.0),
        ([2, 2, 5], 1e-3),
        ([3, 2, 4], 1.0),
        ([3, 4, 2], 1e3),
        ([5, 3, 30], 0.3),
        ([8, 6, 10], 1.0),
        ([12, 2, 40], 1e2),
        ([10, 5, 1], 1.0),
    ];
    for (seed, (shape, scale)) in (1..).zip(shapes) {
        let model = Model::random(seed, shape, scale);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&model)));
        if let Err(cause) = outcome {
            eprintln!("failed for the model with seed {seed}, {shape:?}, scale {scale}");
            std::panic::resume_unwind(cause);
        }
    }
}
