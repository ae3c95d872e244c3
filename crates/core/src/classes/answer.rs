//! How a decision for classes answers a query, and what it leaves for whoever updates weights.
//!
//! In: a [`ClassDecision`] and a [`ClassQuery`]. Out: a [`ClassPrediction`], by a few products, or the
//! coefficients of an arm.

use super::decision::{ClassDecision, ClassPrediction};
use super::geometry::ClassGeometry;
use super::kernel::ClassKernel;
use super::loss::{Start, softmax};
use super::query::{ClassCoupling, ClassQuery, QueryBase};
use crate::checks::check_size;
use crate::error::Error;
use crate::linalg::{add_product, add_product_of_transpose};
use crate::matrix::Matrix;
use crate::policy::ClassLoss;
use crate::vectors::add_scaled;

/// The members of one descent that have weight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    pub(super) arm: usize,
    pub(super) base: usize,
    /// Positions of the blocks, each with `Fᵀa` if its kernel comes as features.
    blocks: Vec<(usize, Option<Matrix>)>,
    weights: Vec<f64>,
    /// `a`, `n·C` rows and a column per member.
    coefficients: Matrix,
}

impl Path {
    /// Keeps the members with weight; `None` if there are none.
    pub(super) fn of<'a>(
        (arm, base): (usize, usize),
        geometry: &ClassGeometry,
        blocks: &[usize],
        members: impl Iterator<Item = (f64, &'a Matrix)>,
    ) -> Option<Self> {
        let kept: Vec<(f64, &Matrix)> = members.filter(|(weight, _)| *weight > 0.0).collect();
        if kept.is_empty() {
            return None;
        }
        let outputs = geometry.examples() * geometry.classes();
        let coefficients = Matrix::from_fn(outputs, kept.len(), |output, member| {
            kept[member].1.values()[output]
        });
        let image = |&block: &usize| match geometry.bases()[base].blocks()[block].kernel() {
            ClassKernel::Features(features) => {
                let mut image = vec![0.0; features.columns() * kept.len()];
                add_product_of_transpose(
                    &mut image,
                    features,
                    coefficients.values(),
                    kept.len(),
                );
                let columns = kept.len();
                let entry = |row: usize, column: usize| image[row * columns + column];
                (block, Some(Matrix::from_fn(features.columns(), columns, entry)))
            }
            ClassKernel::Dense(_) | ClassKernel::Shared(_) => (block, None),
        };
        let blocks = blocks.iter().map(image).collect();
        let weights = kept.iter().map(|(weight, _)| *weight).collect();
        Some(Self { arm, base, blocks, weights, coefficients })
    }

    /// Adds the weighted probabilities of its members at a query.
    fn add_to(&self, adapted: &mut [f64], seen: &QueryBase, loss: ClassLoss) {
        let (classes, members) = (adapted.len(), self.weights.len());
        // C × members, and as a single row with C · members columns.
        let mut changes = vec![0.0; classes * members];
        let coefficients = self.coefficients.values();
        for (block, image) in &self.blocks {
            match (&seen.couplings[*block], image) {
                (ClassCoupling::Dense(coupling), _) => {
                    add_product(&mut changes, coupling, coefficients, members);
                }
                (ClassCoupling::Shared(coupling), _) => {
                    for (example, &share) in coupling.iter().enumerate() {
                        let width = classes * members;
                        let row = &coefficients[example * width..(example + 1) * width];
                        add_scaled(&mut changes, share, row);
                    }
                }
                (ClassCoupling::Features(coupling), image) => {
                    let image = image.as_ref().expect("kept for every block of features");
                    add_product(&mut changes, coupling, image.values(), members);
                }
            }
        }
        let start = Start::of(&seen.scores, loss);
        for (member, &weight) in self.weights.iter().enumerate() {
            let change: Vec<f64> =
                changes.chunks_exact(members).map(|labels| labels[member]).collect();
            add_scaled(adapted, weight, &start.predict(&change));
        }
    }

    /// Adds its members' coefficients by their weights.
    fn add_coefficients(&self, sum: &mut [f64]) {
        let rows = self.coefficients.values().chunks_exact(self.weights.len());
        for (entry, row) in sum.iter_mut().zip(rows) {
            *entry += crate::vectors::dot(row, &self.weights);
        }
    }
}

impl ClassDecision {
    /// Answers a query: probabilities by in-context learning alone and by the average, and a set of
    /// labels that holds the answer with the policy's confidence.
    ///
    /// ```text
    /// p(x) = w_alone softmax(z₀(x)) + Σ_k w_k softmax(z₀_k(x) + k_x a_k)
    /// ```
    ///
    /// Costs as many multiplications as the couplings have entries, for every candidate with weight.
    ///
    /// # Errors
    ///
    /// Those of [`ClassQuery::check`], and [`Error::SizeMismatch`] for a geometry other than the one
    /// that was decided.
    ///
    /// # Examples
    ///
    /// See [`decide_classes`](crate::decide_classes()).
    pub fn predict(
        &self,
        geometry: &ClassGeometry,
        query: &ClassQuery,
    ) -> Result<ClassPrediction, Error> {
        let decided = (self.probabilities.rows(), self.probabilities.columns());
        check_size("number of examples", geometry.examples(), decided.0)?;
        check_size("number of labels", geometry.classes(), decided.1)?;
        query.check(geometry)?;
        let icl = softmax(&query.bases[0].scores);
        let mut adapted = vec![0.0; icl.len()];
        add_scaled(&mut adapted, 1.0 - self.when.weight, &icl);
        if let (Some(alone), Some(seen)) = (self.zero_shot, query.bases.get(1)) {
            add_scaled(&mut adapted, alone.weight, &softmax(&seen.scores));
        }
        for path in &self.paths {
            path.add_to(&mut adapted, &query.bases[path.base], self.policy.classes.loss);
        }
        let sum: f64 = adapted.iter().sum();
        adapted.iter_mut().for_each(|probability| *probability /= sum);
        let set = self.held.set(&adapted);
        let abstention = self.held.abstention(&adapted);
        Ok(ClassPrediction { label: set[0], icl, adapted, set, abstention })
    }

    /// The coefficients of one arm, averaged over its candidates: what its update is made of.
    ///
    /// ```text
    /// θ = Σ_ic a_ic φ_ic,      a = Σ_k w_k a_k / Σ_k w_k
    /// ```
    ///
    /// One row per example and one column per label; `None` for an arm without weight. Where depths are
    /// pooled not every candidate updates every block: take those of [`block_coefficients`] then.
    ///
    /// [`block_coefficients`]: ClassDecision::block_coefficients
    ///
    /// # Examples
    ///
    /// See [`decide_classes`](crate::decide_classes()).
    #[must_use]
    pub fn coefficients(&self, arm: usize) -> Option<Matrix> {
        self.averaged(arm, |_| true)
    }

    /// The coefficients of one block of an arm, averaged over the arm's candidates: those that do not
    /// update the block count as 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::*;
    /// # let few_shot = ClassBase::new(Base::FewShot, Matrix::zeros(2, 2), vec![ClassBlock::bias(2)?])?;
    /// # let geometry = ClassGeometry::new(2, vec![0, 0], vec![few_shot])?;
    /// let one = ClassArm { base: Base::FewShot, blocks: "bias".to_owned(), depth: ClassDepth::All };
    /// let classes = ClassPolicy { arms: vec![one], ..ClassPolicy::default() };
    /// let policy = Policy { classes, ..Policy::default() };
    /// let decision = decide_classes(&geometry, &[ArmBlocks { base: 0, blocks: vec![0] }], &policy)?;
    /// assert_eq!(decision.block_coefficients(0, 0), decision.coefficients(0));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn block_coefficients(&self, arm: usize, block: usize) -> Option<Matrix> {
        self.averaged(arm, |path| path.blocks.iter().any(|(index, _)| *index == block))
    }

    fn averaged(&self, arm: usize, counts: impl Fn(&Path) -> bool) -> Option<Matrix> {
        let weight = self.arms.get(arm).map(|arm| arm.weight).filter(|&weight| weight > 0.0)?;
        let (n, classes) = (self.probabilities.rows(), self.probabilities.columns());
        let mut sum = vec![0.0; n * classes];
        for path in self.paths.iter().filter(|path| path.arm == arm && counts(path)) {
            path.add_coefficients(&mut sum);
        }
        Some(Matrix::from_fn(n, classes, |i, label| sum[i * classes + label] / weight))
    }
}
