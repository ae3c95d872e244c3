//! A task of classes as a model sees it: label scores behind examples and behind none, and how updates
//! change them.
//!
//! In: a [`Task`] whose labels have no values, and the arms of a policy. Out: [`ObservedClasses`], whose
//! geometry is all that [`decide_classes`](fewstep_core::decide_classes()) looks at, and which is kept for any number of queries.
//! Derivatives are local: one row back per label and prediction.

mod blocks;
mod prompts;
mod scores;

use crate::blocks::BlockId;
use crate::error::{Error, Place};
use crate::factors::{KernelForm, couplings, kernels};
use crate::label_tree::LabelTree;
use crate::memory::class_memory_plan;
use crate::network::Network;
use crate::passes::PassCount;
use crate::prompt::PromptSettings;
use crate::real::Real;
use crate::tape::{Context, Tape};
use crate::task::{Query, Task};
use crate::tokens::Tokenizer;
use blocks::{Arms, ClassPart};
use fewstep_core::{
    ArmBlocks, Base, ClassBase, ClassBlock, ClassCoupling, ClassGeometry, ClassKernel,
    ClassPolicy, ClassQuery, Matrix, QueryBase,
};
pub(crate) use prompts::ClassPrompts;
use prompts::{Known, Written};
use scores::scores;
use std::sync::Arc;

/// The largest number of outputs, of examples times tokens of labels, for which kernels of weights are
/// written out; beyond, arms that update weights are left out.
const MOST_OUTPUTS: usize = 2048;

/// Queries that are run together.
const QUERIES_AT_ONCE: usize = 32;

/// What a task of classes looks like to the arms of a policy.
///
/// # Examples
///
/// See [`Model::observe_classes`](crate::Model::observe_classes).
#[derive(Debug)]
pub struct ObservedClasses<R: Real = f32> {
    tree: LabelTree,
    shots: Vec<usize>,
    arms: Arms,
    bases: Vec<ObservedBase<R>>,
    geometry: ClassGeometry,
    first: ClassQuery,
    passes: PassCount,
    left_out: Vec<bool>,
}

/// What is kept of one base prompt for further queries.
#[derive(Debug)]
struct ObservedBase<R: Real> {
    tape: Tape<R>,
    context: Option<Arc<Context<R>>>,
    /// What the final norm puts out where labels begin, `[examples, width]`.
    roots: Vec<R>,
}

/// What one base prompt says of some prompts.
struct Seen<R: Real> {
    tape: Tape<R>,
    roots: Vec<R>,
    /// `[prompts, labels]`.
    scores: Vec<f64>,
}

impl<R: Real> ObservedClasses<R> {
    /// What the decision looks at.
    ///
    /// # Examples
    ///
    /// See [`Model::observe_classes`](crate::Model::observe_classes).
    #[must_use]
    pub fn geometry(&self) -> &ClassGeometry {
        &self.geometry
    }

    /// The blocks of each arm in the geometry, in the order of the policy.
    ///
    /// # Examples
    ///
    /// See [`Model::observe_classes`](crate::Model::observe_classes).
    #[must_use]
    pub fn arms(&self) -> &[ArmBlocks] {
        &self.arms.arms
    }

    /// Whether an arm was left without blocks because it has too many outputs to write its kernel
    /// out.
    ///
    /// # Examples
    ///
    /// See [`Model::observe_classes`](crate::Model::observe_classes).
    #[must_use]
    pub fn too_large(&self, arm: usize) -> bool {
        self.left_out.get(arm).copied().unwrap_or(false)
    }

    /// The task's own query, or the first of several.
    ///
    /// # Examples
    ///
    /// See [`Model::observe_classes`](crate::Model::observe_classes).
    #[must_use]
    pub fn first(&self) -> &ClassQuery {
        &self.first
    }

    /// The number of examples that few-shot prompts show; all of them are learnt from.
    ///
    /// # Examples
    ///
    /// See [`Model::observe_classes`](crate::Model::observe_classes).
    #[must_use]
    pub fn shown(&self) -> usize {
        self.shots.len()
    }

    /// What examples and the first query cost.
    ///
    /// # Examples
    ///
    /// See [`Model::observe_classes`](crate::Model::observe_classes).
    #[must_use]
    pub fn passes(&self) -> PassCount {
        self.passes
    }

    /// About how many bytes are kept for further queries.
    ///
    /// # Examples
    ///
    /// See [`Model::observe_classes`](crate::Model::observe_classes).
    #[must_use]
    pub fn bytes(&self) -> usize {
        let base = |base: &ObservedBase<R>| {
            let context = base.context.as_ref().map_or(0, |context| context.bytes());
            base.tape.bytes() + context + base.roots.len() * size_of::<R>()
        };
        let kernels = self.geometry.bases().iter().flat_map(ClassBase::blocks);
        let kernels: usize = kernels.map(|block| block.kernel().entries()).sum();
        self.bases.iter().map(base).sum::<usize>() + kernels * size_of::<f64>()
    }

    /// Looks at prompts that were written before.
    pub(crate) fn new(
        model: &Network<R>,
        task: &Task,
        prompts: ClassPrompts,
        policy: &ClassPolicy,
        room: u64,
    ) -> Result<Self, Error> {
        let ClassPrompts { tree, bases: written, shots } = prompts;
        let whole = Arms::of(policy, model.config())?;
        let n = task.examples.len();
        let large = n * tree.edges().len() > MOST_OUTPUTS;
        let arms = if large { whole.clone().without_weights() } else { whole.clone() };
        let pairs = whole.arms.iter().zip(&arms.arms);
        let left_out = pairs
            .map(|(whole, kept)| kept.blocks.is_empty() && !whole.blocks.is_empty())
            .collect();
        let (mut bases, mut observed, mut first) = (Vec::new(), Vec::new(), Vec::new());
        let mut passes = PassCount::default();
        for (index, base) in written.iter().enumerate() {
            let blocks = arms.weights(index);
            let layout = base.layout(&tree)?;
            let outputs = (n + 1) * tree.edges().len();
            let plan = class_memory_plan(model, &layout, &blocks, outputs);
            if plan > room {
                return Err(Error::TooMuchMemory { needed: plan, limit: room });
            }
            let tape = Tape::of_labels(model, layout, &blocks, &tree, n)?;
            let mut seen = look(tape, &tree)?;
            let (own, query) = split(&arms.parts[index], &tree, &seen, n)?;
            let scores = seen.scores[..n * tree.paths().len()].to_vec();
            let scores = Matrix::new(n, tree.paths().len(), scores)?;
            bases.push(ClassBase::new(base.base, scores, own)?);
            first.push(query);
            passes += seen.tape.passes();
            let context = match base.base {
                Base::FewShot => seen.tape.take_context().map(Arc::new),
                Base::ZeroShot => None,
            };
            seen.roots.truncate(n * model.config().width);
            let (tape, roots) = (seen.tape.at_rest(), seen.roots);
            observed.push(ObservedBase { tape, context, roots });
        }
        let answer = |index: usize| {
            let found = &task.examples[index].y;
            task.label_of(found).ok_or_else(|| Error::UnknownLabel {
                task: task.id.clone(),
                place: Place::Example(index),
                found: found.clone(),
                allowed: task.labels.iter().map(|label| label.text.clone()).collect(),
            })
        };
        let answers = (0..n).map(answer).collect::<Result<Vec<_>, _>>()?;
        let geometry = ClassGeometry::new(task.labels.len(), answers, bases)?;
        let first = ClassQuery { bases: first };
        first.check(&geometry)?;
        Ok(Self { tree, shots, arms, bases: observed, geometry, first, passes, left_out })
    }

    /// As [`Model::ask_classes`](crate::Model::ask_classes).
    pub(crate) fn ask(
        &self,
        task: &Task,
        tokenizer: &Tokenizer,
        settings: &PromptSettings,
        queries: &[Query],
    ) -> Result<(Vec<Result<ClassQuery, Error>>, PassCount), Error> {
        let known = Known { tree: &self.tree, bases: &self.arms.bases, shots: &self.shots };
        let written = ClassPrompts::further(task, tokenizer, settings, &known, queries)?;
        let (mut answers, mut passes) =
            (Vec::with_capacity(queries.len()), PassCount::default());
        for some in written.chunks(QUERIES_AT_ONCE) {
            let prompts: Vec<&Written> = some.iter().flatten().collect();
            let (seen, cost) = self.look_further(&prompts)?;
            passes += cost;
            let mut seen = seen.into_iter();
            let answer = |written: &Result<_, Error>| match written {
                Ok(_) => Ok(seen.next().expect("there is one for every prompt")),
                Err(error) => Err(error.clone()),
            };
            answers.extend(some.iter().map(answer));
        }
        Ok((answers, passes))
    }

    /// What the bases say of some queries, each given by its prompt behind every base.
    fn look_further(
        &self,
        prompts: &[&Written],
    ) -> Result<(Vec<ClassQuery>, PassCount), Error> {
        let mut queries = vec![ClassQuery { bases: Vec::new() }; prompts.len()];
        let mut passes = PassCount::default();
        if prompts.is_empty() {
            return Ok((queries, passes));
        }
        for (index, base) in self.bases.iter().enumerate() {
            let nodes = self.tree.nodes();
            let own = prompts.iter().flat_map(|prompt| self.tree.questions(&prompt[index]));
            let own: Vec<Vec<u32>> = own.collect();
            // Queries share nothing with each other, so that none changes how another is computed.
            let limit = |at: usize| if at.is_multiple_of(nodes) { 0 } else { usize::MAX };
            let limits: Vec<usize> = (1..own.len()).map(limit).collect();
            let tape =
                base.tape.asking_labels(base.context.as_ref(), &own, &limits, &self.tree)?;
            let seen = look(tape, &self.tree)?;
            passes += seen.tape.passes();
            let parts = &self.arms.parts[index];
            let found = further(parts, &self.tree, &seen, &self.geometry, base)?;
            for (query, found) in queries.iter_mut().zip(found) {
                query.bases.push(found);
            }
        }
        Ok((queries, passes))
    }
}

/// Label scores of the prompts of a tape, and the derivatives of their edges.
fn look<R: Real>(mut tape: Tape<R>, tree: &LabelTree) -> Result<Seen<R>, Error> {
    let width = tape.model().config().width;
    let hidden = tape.hidden().to_vec();
    let with_adjoints = !tape.blocks().is_empty();
    let found = scores(tape.model(), tree, &hidden, with_adjoints);
    let count = found.labels.len() / tree.paths().len();
    if let Some(output) = found.labels.iter().position(|score| !score.is_finite()) {
        return Err(Error::NotFinite { sequence: output / tree.paths().len(), steps: 0 });
    }
    if let Some(mut adjoints) = found.adjoints {
        tape = tape.pulled_back(&mut adjoints);
    }
    let nodes = tree.nodes();
    let roots = (0..count).flat_map(|prompt| &hidden[prompt * nodes * width..][..width]);
    Ok(Seen { roots: roots.copied().collect(), scores: found.labels, tape })
}

/// The blocks of a base and how the last prompt, the query's, meets them.
fn split<R: Real>(
    parts: &[ClassPart],
    tree: &LabelTree,
    seen: &Seen<R>,
    n: usize,
) -> Result<(Vec<ClassBlock>, QueryBase), Error> {
    let (labels, edges) = (tree.paths().len(), tree.edges().len());
    let own = Matrix::new(n, labels, seen.scores[..n * labels].to_vec())?;
    let asked = &seen.scores[n * labels..];
    let mut weights = kernels(&seen.tape, KernelForm::Cheapest).into_iter();
    let (mut blocks, mut couplings) = (Vec::new(), Vec::new());
    for part in parts {
        let (block, coupling) = match part {
            ClassPart::Bias => (ClassBlock::bias(n)?, ClassCoupling::bias(n)),
            ClassPart::Scale => (ClassBlock::scale(&own)?, ClassCoupling::scale(asked)),
            ClassPart::Readout => {
                let gram = inner_products(&seen.roots, &seen.roots, n + 1);
                let row = |i: usize| gram[i * (n + 1)..][..n].to_vec();
                let shared = Matrix::new(n, n, (0..n).flat_map(row).collect())?;
                let block = ClassBlock::new("readout", ClassKernel::Shared(shared))?;
                (block, ClassCoupling::Shared(row(n)))
            }
            ClassPart::Block(block) => {
                let kernel = weights.next().expect("the tape has a kernel for every block");
                let whole = tree.products(&kernel, (n + 1) * edges, 0..n, n);
                let coupling = tree.products(&kernel, (n + 1) * edges, n..n + 1, n);
                let whole = Matrix::new(n * labels, n * labels, whole)?;
                let coupling = Matrix::new(labels, n * labels, coupling)?;
                (of_weights(*block, whole)?, ClassCoupling::Dense(coupling))
            }
        };
        blocks.push(block);
        couplings.push(coupling);
    }
    Ok((blocks, QueryBase { scores: asked.to_vec(), couplings }))
}

fn of_weights(block: BlockId, kernel: Matrix) -> Result<ClassBlock, Error> {
    let made = ClassBlock::new(block.to_string(), ClassKernel::Dense(kernel))?;
    Ok(made.in_layer(block.layer()).with_id(block.number()))
}

/// How further prompts meet the blocks of a base.
fn further<R: Real>(
    parts: &[ClassPart],
    tree: &LabelTree,
    seen: &Seen<R>,
    geometry: &ClassGeometry,
    base: &ObservedBase<R>,
) -> Result<Vec<QueryBase>, Error> {
    let (n, labels, edges) = (geometry.examples(), tree.paths().len(), tree.edges().len());
    let count = seen.scores.len() / labels;
    let weights = if parts.iter().any(|part| matches!(part, ClassPart::Block(_))) {
        couplings(&seen.tape, &base.tape)
    } else {
        Vec::new()
    };
    let readout = inner_products(&seen.roots, &base.roots, count);
    let one = |prompt: usize| {
        let scores = seen.scores[prompt * labels..][..labels].to_vec();
        let mut sides = weights.iter();
        let coupling = |part: &ClassPart| {
            Ok(match part {
                ClassPart::Bias => ClassCoupling::bias(n),
                ClassPart::Scale => ClassCoupling::scale(&scores),
                ClassPart::Readout => {
                    ClassCoupling::Shared(readout[prompt * n..][..n].to_vec())
                }
                ClassPart::Block(_) => {
                    let side = sides.next().expect("the tapes have the same blocks");
                    let columns = (n + 1) * edges;
                    let found = tree.products(&side.products, columns, prompt..prompt + 1, n);
                    ClassCoupling::Dense(Matrix::new(labels, n * labels, found)?)
                }
            })
        };
        let couplings = parts.iter().map(coupling).collect::<Result<_, Error>>()?;
        Ok(QueryBase { scores, couplings })
    };
    (0..count).map(one).collect()
}

/// `[rows, others]`: inner products of rows in double precision.
fn inner_products<R: Real>(left: &[R], right: &[R], rows: usize) -> Vec<f64> {
    let width = left.len() / rows.max(1);
    let wide = |values: &[R]| values.iter().map(|value| value.wide()).collect::<Vec<f64>>();
    let (left, right) = (wide(left), wide(right));
    let (left, right) = (left.chunks_exact(width), right.chunks_exact(width));
    left.flat_map(|a| right.clone().map(|b| a.iter().zip(b).map(|(a, b)| a * b).sum()))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
mod tests;
