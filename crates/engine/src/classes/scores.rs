//! From what the final norm puts out to label scores, and back.
//!
//! In: a row per question, prompt by prompt. Out: the log-scores of all labels, and the adjoint of each
//! edge of the labels' tree.
//!
//! ```text
//! z_c = Σ_edges of c log p(token | prompt, tokens before)
//! ```
//!
//! At the root all labels share the normaliser, which a shift of all scores takes no notice of: there
//! logits serve, of the labels' tokens alone. Below, the whole vocabulary counts.

use crate::buffer::{Buffer, list};
use crate::label_tree::LabelTree;
use crate::memory::LOGITS_AT_ONCE;
use crate::network::Network;
use crate::ops::{View, ViewMut, Write, product, softmax};
use crate::real::Real;

/// Log-scores, and what they are made of.
pub(crate) struct Scores<R> {
    /// `[prompts, labels]`.
    pub(crate) labels: Vec<f64>,
    /// The derivative of each edge for what the final norm puts out, `[prompts · edges, width]`, if it
    /// was asked for.
    pub(crate) adjoints: Option<Vec<R>>,
}

/// The scores of all labels from `hidden [prompts · nodes, width]`.
pub(crate) fn scores<R: Real>(
    model: &Network<R>,
    tree: &LabelTree,
    hidden: &[R],
    with_adjoints: bool,
) -> Scores<R> {
    let width = model.config().width;
    let (nodes, edges) = (tree.nodes(), tree.edges());
    let prompts = hidden.len() / width / nodes;
    let tokens: Vec<u32> = edges.iter().map(|edge| edge.1).collect();
    let embedding = model.unembedding_of(&tokens);
    let mut values = vec![0.0; prompts * edges.len()];
    let mut adjoints = with_adjoints.then(|| {
        let mut rows = list(prompts * edges.len() * width);
        rows.chunks_exact_mut(embedding.len()).for_each(|row| row.copy_from_slice(&embedding));
        rows
    });
    let row = |question: usize| &hidden[question * width..][..width];
    let at_root = edges.iter().take_while(|edge| edge.0 == 0).count();
    let roots: Vec<R> = (0..prompts).flat_map(|prompt| row(prompt * nodes)).copied().collect();
    let mut logits: Vec<R> = list(prompts * at_root);
    let labels = View::new(&embedding[..at_root * width], at_root, width).transposed();
    let target = ViewMut::new(&mut logits, prompts, at_root);
    product(Write::Over, target, View::new(&roots, prompts, width), labels, R::ONE);
    for (values, logits) in
        values.chunks_exact_mut(edges.len()).zip(logits.chunks_exact(at_root.max(1)))
    {
        for (value, logit) in values.iter_mut().zip(logits) {
            *value = logit.wide();
        }
    }
    let vocabulary = model.config().vocabulary;
    let below: Vec<usize> =
        (0..prompts * nodes).filter(|question| question % nodes != 0).collect();
    for some in below.chunks((LOGITS_AT_ONCE / vocabulary).max(1)) {
        let asked: Vec<R> = some.iter().flat_map(|&question| row(question)).copied().collect();
        let mut logits = Buffer::new(some.len() * vocabulary);
        model.unembedding().project(Write::Over, &asked, &mut logits);
        for (&question, logits) in some.iter().zip(logits.chunks_exact_mut(vocabulary)) {
            let (prompt, node) = (question / nodes, question % nodes);
            below_root(tree, node, logits, &mut values[prompt * edges.len()..][..edges.len()]);
        }
        let Some(adjoints) = &mut adjoints else { continue };
        let mut means = Buffer::new(some.len() * width);
        model.unembedding().back(Write::Over, &logits, &mut means);
        for (&question, mean) in some.iter().zip(means.chunks_exact(width)) {
            let (prompt, node) = (question / nodes, question % nodes);
            for edge in (0..edges.len()).filter(|&edge| edges[edge].0 == node) {
                let place = (prompt * edges.len() + edge) * width;
                let row = &mut adjoints[place..place + width];
                for (entry, &mean) in row.iter_mut().zip(mean) {
                    *entry += -mean;
                }
            }
        }
    }
    let labels = values.chunks_exact(edges.len()).flat_map(|edges| tree.sums(edges)).collect();
    Scores { labels, adjoints }
}

/// The log-probabilities of a node's edges, from the logits of the vocabulary, which become
/// probabilities.
fn below_root<R: Real>(tree: &LabelTree, node: usize, logits: &mut [R], values: &mut [f64]) {
    let own = || tree.edges().iter().enumerate().filter(|(_, edge)| edge.0 == node);
    for (edge, &(_, token)) in own() {
        values[edge] = logits[token as usize].wide();
    }
    let largest = logits.iter().map(|logit| logit.wide()).fold(f64::NEG_INFINITY, f64::max);
    softmax(logits);
    // The most probable token has the probability 1/Σ exp(logit − largest).
    let most = logits.iter().map(|probability| probability.wide()).fold(0.0, f64::max);
    for (edge, _) in own() {
        values[edge] += most.ln() - largest;
    }
}
