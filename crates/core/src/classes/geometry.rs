//! Everything that is observed of the examples of a classification task.
//!
//! In: label scores of each example behind the others, and [`ClassBlock`]s. Out: [`ClassGeometry`],
//! from which [`decide_classes`](crate::decide_classes()) decides. Sizes are checked here once.

use super::kernel::ClassBlock;
use crate::checks::check_size;
use crate::error::Error;
use crate::matrix::Matrix;
use crate::policy::Base;

/// What one base prompt says about the examples, and the blocks that may be updated behind it.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Base, ClassBase, ClassBlock, Error, Matrix};
///
/// let scores = Matrix::new(2, 2, vec![-0.1, -2.3, -0.7, -0.7])?;
/// let base = ClassBase::new(Base::FewShot, scores, vec![ClassBlock::bias(2)?])?;
/// assert_eq!((base.base(), base.blocks().len()), (Base::FewShot, 1));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClassBase {
    base: Base,
    scores: Matrix,
    blocks: Vec<ClassBlock>,
}

impl ClassBase {
    /// The log-scores of each example's labels, one row per example, and the blocks.
    ///
    /// `scores` is `z₀`: the log-probabilities of the labels behind the other examples (few-shot) or
    /// behind none (zero-shot), each row up to a shift.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without scores, [`Error::NotFinite`] for NaN or infinite ones,
    /// [`Error::OutOfRange`] for fewer than two labels, [`Error::SizeMismatch`] for a block of
    /// other examples or labels, and [`Error::DuplicateBlock`] for two blocks of one name.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Base, ClassBase, ClassBlock, Error, Matrix};
    ///
    /// let refused = ClassBase::new(Base::FewShot, Matrix::zeros(2, 3), vec![ClassBlock::bias(5)?]);
    /// assert!(matches!(refused, Err(Error::SizeMismatch { found: 5, expected: 2, .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(base: Base, scores: Matrix, blocks: Vec<ClassBlock>) -> Result<Self, Error> {
        if scores.rows() == 0 {
            return Err(Error::Empty { quantity: "label scores" });
        }
        check_classes(scores.columns())?;
        crate::checks::check_finite("label scores", scores.values())?;
        for (index, block) in blocks.iter().enumerate() {
            block.check(scores.rows(), scores.columns())?;
            if blocks[..index].iter().any(|other| other.name() == block.name()) {
                return Err(Error::DuplicateBlock { name: block.name().to_owned() });
            }
        }
        Ok(Self { base, scores, blocks })
    }

    /// Which base prompt it is.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Base, ClassBase, Error, Matrix};
    /// let base = ClassBase::new(Base::ZeroShot, Matrix::zeros(2, 3), vec![])?;
    /// assert_eq!(base.base(), Base::ZeroShot);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn base(&self) -> Base {
        self.base
    }

    /// `z₀`: the log-scores, one row per example.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Base, ClassBase, Error, Matrix};
    /// let base = ClassBase::new(Base::ZeroShot, Matrix::zeros(2, 3), vec![])?;
    /// assert_eq!(base.scores().row(1), [0.0; 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn scores(&self) -> &Matrix {
        &self.scores
    }

    /// The blocks of all its arms together.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Base, ClassBase, Error, Matrix};
    /// let base = ClassBase::new(Base::ZeroShot, Matrix::zeros(2, 3), vec![])?;
    /// assert!(base.blocks().is_empty());
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn blocks(&self) -> &[ClassBlock] {
        &self.blocks
    }
}

/// A classification task in prompt space: the examples' answers and what each base prompt says.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Base, ClassBase, ClassBlock, ClassGeometry, Error, Matrix};
///
/// let scores = Matrix::new(2, 2, vec![-0.1, -2.3, -0.7, -0.7])?;
/// let few_shot = ClassBase::new(Base::FewShot, scores, vec![ClassBlock::bias(2)?])?;
/// let geometry = ClassGeometry::new(2, vec![0, 1], vec![few_shot])?;
/// assert_eq!((geometry.examples(), geometry.classes()), (2, 2));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClassGeometry {
    classes: usize,
    answers: Vec<usize>,
    bases: Vec<ClassBase>,
}

impl ClassGeometry {
    /// The number of labels, the label of each example, and the base prompts, few-shot first.
    ///
    /// A label that no example has is a label all the same.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without examples, [`Error::OutOfRange`] for fewer than two labels, for an
    /// answer that is no label, and unless the few-shot base comes first and no base twice;
    /// [`Error::SizeMismatch`] for scores of other examples or labels.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Base, ClassBase, ClassGeometry, Error, Matrix};
    ///
    /// let base = ClassBase::new(Base::FewShot, Matrix::zeros(2, 3), vec![])?;
    /// let refused = ClassGeometry::new(3, vec![0, 3], vec![base]);
    /// assert!(matches!(refused, Err(Error::OutOfRange { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(
        classes: usize,
        answers: Vec<usize>,
        bases: Vec<ClassBase>,
    ) -> Result<Self, Error> {
        check_classes(classes)?;
        if answers.is_empty() {
            return Err(Error::Empty { quantity: "list of answers" });
        }
        if let Some(&answer) = answers.iter().find(|&&answer| answer >= classes) {
            return Err(Error::OutOfRange {
                quantity: "answer of an example",
                found: answer as f64,
                allowed: "the position of a label, counted from 0",
            });
        }
        check_bases(&bases)?;
        for base in &bases {
            check_size("rows of label scores", base.scores.rows(), answers.len())?;
            check_size("row of label scores", base.scores.columns(), classes)?;
        }
        Ok(Self { classes, answers, bases })
    }

    /// `C`: the number of labels.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Base, ClassBase, ClassGeometry, Error, Matrix};
    /// # let base = ClassBase::new(Base::FewShot, Matrix::zeros(2, 3), vec![])?;
    /// assert_eq!(ClassGeometry::new(3, vec![0, 2], vec![base])?.classes(), 3);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The label of each example.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Base, ClassBase, ClassGeometry, Error, Matrix};
    /// # let base = ClassBase::new(Base::FewShot, Matrix::zeros(2, 3), vec![])?;
    /// assert_eq!(ClassGeometry::new(3, vec![0, 2], vec![base])?.answers(), [0, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn answers(&self) -> &[usize] {
        &self.answers
    }

    /// The base prompts, few-shot first.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Base, ClassBase, ClassGeometry, Error, Matrix};
    /// # let base = ClassBase::new(Base::FewShot, Matrix::zeros(2, 3), vec![])?;
    /// assert_eq!(ClassGeometry::new(3, vec![0, 2], vec![base])?.bases().len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn bases(&self) -> &[ClassBase] {
        &self.bases
    }

    /// `n`: the number of examples.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Base, ClassBase, ClassGeometry, Error, Matrix};
    /// # let base = ClassBase::new(Base::FewShot, Matrix::zeros(2, 3), vec![])?;
    /// assert_eq!(ClassGeometry::new(3, vec![0, 2], vec![base])?.examples(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn examples(&self) -> usize {
        self.answers.len()
    }
}

/// Refuses fewer than two labels.
fn check_classes(classes: usize) -> Result<(), Error> {
    if classes < 2 {
        return Err(Error::OutOfRange {
            quantity: "number of labels",
            found: classes as f64,
            allowed: "at least 2",
        });
    }
    Ok(())
}

/// Refuses base prompts unless the few-shot one comes first and none comes twice.
fn check_bases(bases: &[ClassBase]) -> Result<(), Error> {
    for (quantity, base, least) in [
        ("number of few-shot bases", Base::FewShot, 1),
        ("number of zero-shot bases", Base::ZeroShot, 0),
    ] {
        let found = bases.iter().filter(|other| other.base == base).count();
        if !(least..=1).contains(&found) {
            let allowed = if least == 1 { "1" } else { "0 or 1" };
            return Err(Error::OutOfRange { quantity, found: found as f64, allowed });
        }
    }
    match bases.iter().position(|base| base.base == Base::FewShot) {
        Some(first) if first > 0 => Err(Error::OutOfRange {
            quantity: "position of the few-shot base",
            found: first as f64,
            allowed: "0, the first",
        }),
        _ => Ok(()),
    }
}
