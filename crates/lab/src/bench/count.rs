//! How many operations the work takes, by formulas: two for each multiplication of a product.
//!
//! ```text
//! rows R, sequences S, pairs P of a token and a token it sees (itself too), seen L = Σ lengths
//! widths: stream d, all query heads a (h of them), all key-value heads k (j of them), MLP f with m
//! matrices (2, gated 3)
//!
//! layer       2R(da + 2dk + ad + mdf) + 4Pa            queries, keys and values, output, MLP; scores, mixing
//! last        2S(4da + mdf) + 4Lhd                     at the read-outs alone: queries, the same through the
//!                                                      keys' matrix, what they mix through the values'
//! … rotary    2Rdk + 2S(3da + mdf) + 2La + 2Lhd        keys that positions turn are made
//! again       2R(dk + ad + mdf) + 2Pa                  the lowest updated layer: only values moved
//! adjoint     2R(mdf + ad + da + 2dk) + 8Pa            values, probabilities, queries and keys
//! … last      2S(4da + mdf) + 8Lhd                     mixed inputs, what asks, inputs twice
//! … rotary    2Rdk + 2S(3da + mdf) + 4La + 4Lhd
//! … lowest    2R(mdf + ad) + 2Pa                       down to the values
//! gradient    2R·dk per updated layer, 2S·da in the last
//! kernels     per updated layer the smaller of
//!             L(L+1)(d + k + j)                        from inner products of tokens
//!             2L·dk + S(S+1)·dk                        from the derivatives
//! … last      the same with Sh/j for L and, at first, jd for d
//! ```
//!
//! Norms, activations, softmax and the labels' logits are left out: under a hundredth of it.
//! Plain is each prompt by itself: whole layers, logits of the whole vocabulary when observing,
//! adjoints of queries, keys and values in every updated layer, kernels from the derivatives.

use super::cases::Case;
use fewstep_engine::{Config, Family};

/// What prompts are made of when they are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rows {
    rows: f64,
    sequences: f64,
    pairs: f64,
    seen: f64,
}

impl Rows {
    /// Every distinct beginning once.
    fn shared(sequences: &[&[u32]]) -> Self {
        let mut sorted = sequences.to_vec();
        sorted.sort_unstable();
        let (mut rows, mut before) = (Self::nothing(sequences), &[][..]);
        for sequence in sorted {
            let known = sequence.iter().zip(before).take_while(|(a, b)| a == b).count();
            rows.rows += (sequence.len() - known) as f64;
            rows.pairs += up_to(sequence.len()) - up_to(known);
            before = sequence;
        }
        rows
    }

    /// Every sequence by itself.
    fn separate(sequences: &[&[u32]]) -> Self {
        let nothing = Self::nothing(sequences);
        let pairs = sequences.iter().map(|sequence| up_to(sequence.len())).sum();
        Self { rows: nothing.seen, pairs, ..nothing }
    }

    fn nothing(sequences: &[&[u32]]) -> Self {
        let seen = sequences.iter().map(|sequence| sequence.len() as f64).sum();
        Self { rows: 0.0, sequences: sequences.len() as f64, pairs: 0.0, seen }
    }
}

/// `1 + 2 + … + length`.
fn up_to(length: usize) -> f64 {
    let length = length as f64;
    length * (length + 1.0) / 2.0
}

/// Operations of the work, done and plain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Operations {
    pub(super) done: f64,
    pub(super) plain: f64,
}

/// The formulas for one model and the layers that may move.
#[derive(Debug)]
pub(super) struct Formulas {
    width: f64,
    attention: f64,
    key_values: f64,
    heads: f64,
    key_value_heads: f64,
    /// Whether positions turn keys.
    rotary: bool,
    /// `mdf`.
    mlp: f64,
    vocabulary: f64,
    layers: usize,
    first: usize,
}

impl Formulas {
    pub(super) fn new(config: &Config, first: usize) -> Self {
        let gated = matches!(config.family, Family::Llama(_));
        let matrices = if gated { 3.0 } else { 2.0 };
        Self {
            width: config.width as f64,
            attention: (config.heads * config.head_width()) as f64,
            key_values: (config.key_value_heads() * config.head_width()) as f64,
            heads: config.heads as f64,
            key_value_heads: config.key_value_heads() as f64,
            rotary: gated,
            mlp: matrices * config.width as f64 * config.inner as f64,
            vocabulary: config.vocabulary as f64,
            layers: config.layers,
            first,
        }
    }

    /// Observing.
    pub(super) fn observe(&self, case: &Case) -> Operations {
        let sequences = case.sequences();
        let (shared, apart) = (Rows::shared(&sequences), Rows::separate(&sequences));
        let kernels = (self.updated() - 1.0) * self.kernel(&apart) + self.last_kernel(&apart);
        let done = self.forward(&shared) + self.adjoint(&apart) + kernels;
        let logits = 2.0 * 2.0 * apart.rows * self.width * self.vocabulary;
        let plain = self.plain_pass(&apart) + logits + self.updated() * self.explicit(&apart);
        Operations { done, plain }
    }

    /// Steps, which begin with the pass forward of the observation.
    pub(super) fn steps(&self, case: &Case) -> Operations {
        let sequences = case.sequences();
        let (prompts, query) = sequences.split_at(sequences.len() - 1);
        let seeded = Rows::shared(prompts);
        let gradients = |rows: &Rows| {
            (self.updated() - 1.0) * 2.0 * rows.rows * self.width * self.key_values
                + 2.0 * rows.sequences * self.width * self.attention
        };
        let between = self.adjoint(&seeded) + gradients(&seeded) + self.forward_again(&seeded);
        let steps = case.steps() as f64;
        // The gradient of the first is made of what was observed, and after the last only the query
        // is predicted, by itself.
        let (prompts, query) = (Rows::separate(prompts), Rows::separate(query));
        let ends = gradients(&prompts) + self.forward_from_lowest(&query);
        let done = if steps > 0.0 { (steps - 1.0) * between + ends } else { 0.0 };
        let plain = steps * self.plain_pass(&prompts) + self.plain_forward(&query);
        Operations { done, plain }
    }

    /// Predictions of further queries.
    pub(super) fn further(&self, case: &Case) -> Operations {
        let sequences: Vec<&[u32]> = case.further.iter().map(Vec::as_slice).collect();
        let plain = self.plain_forward(&Rows::separate(&sequences));
        Operations { done: self.forward(&Rows::shared(&sequences)), plain }
    }

    fn updated(&self) -> f64 {
        (self.layers - self.first) as f64
    }

    /// Of queries and of the output, per row.
    fn asked(&self) -> f64 {
        2.0 * self.width * self.attention
    }

    fn layer(&self, rows: &Rows) -> f64 {
        let keys_values = 2.0 * self.width * self.key_values;
        2.0 * rows.rows * (self.asked() + keys_values + self.mlp)
            + 4.0 * rows.pairs * self.attention
    }

    fn last(&self, rows: &Rows) -> f64 {
        let matrices = rows.sequences * self.width * self.attention;
        let mlp = 2.0 * rows.sequences * self.mlp;
        let looked = rows.seen * self.heads * self.width;
        if !self.rotary {
            return 8.0 * matrices + mlp + 4.0 * looked;
        }
        let keys = 2.0 * rows.rows * self.width * self.key_values;
        keys + 6.0 * matrices + mlp + 2.0 * rows.seen * self.attention + 2.0 * looked
    }

    fn forward(&self, rows: &Rows) -> f64 {
        (self.layers - 1) as f64 * self.layer(rows) + self.last(rows)
    }

    /// From the lowest updated layer up.
    fn forward_from_lowest(&self, rows: &Rows) -> f64 {
        (self.updated() - 1.0) * self.layer(rows) + self.last(rows)
    }

    /// The same, where only values of the lowest were moved.
    fn forward_again(&self, rows: &Rows) -> f64 {
        let values = 2.0 * rows.rows * self.width * self.key_values;
        let output = self.width * self.attention + self.mlp;
        if self.first + 1 == self.layers {
            return 2.0 * rows.sequences * (self.width * self.attention + output);
        }
        let lowest = values + 2.0 * rows.rows * output + 2.0 * rows.pairs * self.attention;
        lowest + (self.updated() - 2.0) * self.layer(rows) + self.last(rows)
    }

    /// From the read-outs down to the values of the lowest updated layer.
    fn adjoint(&self, rows: &Rows) -> f64 {
        let output = self.width * self.attention + self.mlp;
        if self.first + 1 == self.layers {
            return 2.0 * rows.sequences * output;
        }
        // Twice as many products of what is looked at as on the way forward.
        let looked = rows.seen * self.heads * self.width;
        let again =
            if self.rotary { looked + rows.seen * self.attention } else { 2.0 * looked };
        let last = self.last(rows) + 2.0 * again;
        let whole = self.layer(rows) + 4.0 * rows.pairs * self.attention;
        let lowest = 2.0 * rows.rows * output + 2.0 * rows.pairs * self.attention;
        last + (self.updated() - 2.0) * whole + lowest
    }

    /// The kernels of the heads of one layer.
    fn kernel(&self, rows: &Rows) -> f64 {
        let products = self.width + self.key_values + self.key_value_heads;
        let ghost = rows.seen * (rows.seen + 1.0) * products;
        let size = self.width * self.key_values;
        let explicit = 2.0 * rows.seen * size + rows.sequences * (rows.sequences + 1.0) * size;
        ghost.min(explicit)
    }

    /// Those of the last layer.
    fn last_kernel(&self, rows: &Rows) -> f64 {
        let mixed = rows.sequences * self.heads / self.key_value_heads;
        let heads = self.key_value_heads;
        let products = heads * self.width + self.key_values + heads;
        let ghost = mixed * (mixed + 1.0) * products;
        let size = self.width * self.key_values;
        let explicit = 2.0 * mixed * size + rows.sequences * (rows.sequences + 1.0) * size;
        ghost.min(explicit)
    }

    fn explicit(&self, rows: &Rows) -> f64 {
        let size = self.width * self.key_values;
        2.0 * rows.seen * size + 2.0 * rows.sequences * rows.sequences * size
    }

    fn plain_forward(&self, rows: &Rows) -> f64 {
        self.layers as f64 * self.layer(rows)
    }

    /// Forward through all layers and back to the lowest updated one.
    fn plain_pass(&self, rows: &Rows) -> f64 {
        let inputs = 2.0 * rows.rows * self.width * (self.attention + 2.0 * self.key_values);
        let whole = self.layer(rows) + 4.0 * rows.pairs * self.attention;
        // A gradient of the joint matrix of queries, keys and values costs as much as going back
        // through it, which the lowest layer does not.
        self.plain_forward(rows) + self.updated() * (whole + inputs) - inputs
    }
}

#[cfg(test)]
mod tests {
    use super::super::models::{Shelf, open};
    use super::super::works::Work;
    use super::*;
    use fewstep_engine::Prepared;

    fn tiny(layers: usize) -> Config {
        let json = format!(
            r#"{{"model_type": "gpt2", "n_layer": {layers}, "n_head": 1, "n_embd": 2, "n_ctx": 8,
                "vocab_size": 5}}"#
        );
        Config::from_json(json.as_bytes()).unwrap()
    }

    #[test]
    fn rows_and_pairs_are_those_of_distinct_beginnings() {
        let sequences: [&[u32]; 3] = [&[1, 2, 3], &[1, 2], &[1, 4]];
        // 1, 1 2, 1 2 3 and 1 4, which see 1, 2, 3 and 2 tokens.
        let shared = Rows { rows: 4.0, sequences: 3.0, pairs: 8.0, seen: 7.0 };
        assert_eq!(Rows::shared(&sequences), shared);
        let apart = Rows { rows: 7.0, sequences: 3.0, pairs: 12.0, seen: 7.0 };
        assert_eq!(Rows::separate(&sequences), apart);
    }

    /// Two prompts `1 2` and `1 3`: three rows, five pairs, four tokens seen. d = a = k = 2 and
    /// f = 8, so queries, keys, values and output take 2·2·2 = 8 operations a row, an MLP
    /// 2·2·(2·8) = 64, and scores or mixing 2·2 = 4 a pair.
    #[test]
    fn passes_take_what_is_counted_by_hand() {
        let rows = Rows::shared(&[&[1, 2], &[1, 3]]);
        let formulas = Formulas::new(&tiny(3), 1);
        let layer = 3.0 * (4.0 * 8.0 + 64.0) + 5.0 * 2.0 * 4.0;
        let last = 2.0 * (4.0 * 8.0 + 64.0) + 4.0 * 2.0 * 4.0;
        assert_eq!((layer, last), (328.0, 224.0));
        assert!(same(formulas.forward(&rows), 2.0 * layer + last));
        // Layer 1 again: values, output and MLP at three rows, mixing of five pairs.
        let again = 3.0 * (8.0 + 8.0 + 64.0) + 5.0 * 4.0;
        assert!(same(formulas.forward_again(&rows), again + last));
        // Back: layer 2 as forward and probabilities and queries more, layer 1 to its values.
        let adjoint = (last + 4.0 * 2.0 * 4.0) + 3.0 * (64.0 + 8.0) + 5.0 * 4.0;
        assert!(same(formulas.adjoint(&rows), adjoint));
        // One layer more between them, with four products of pairs where forward has two.
        let all = Formulas::new(&tiny(3), 0);
        let between = layer + 5.0 * 2.0 * 4.0;
        assert!(same(all.adjoint(&rows), adjoint + between));
        assert!(same(all.forward_again(&rows), again + layer + last));
        // Only the last layer: MLP and output at two read-outs, and forward the values.
        let alone = Formulas::new(&tiny(3), 2);
        assert!(same(alone.adjoint(&rows), 2.0 * (64.0 + 8.0)));
        assert!(same(alone.forward_again(&rows), 2.0 * (8.0 + 72.0)));
        // Kernels: 4·5 products of tokens, of 2 + 2 numbers and one sum, are 100; derivatives are
        // 4·8 and three products of 4 numbers, 24.
        assert!(same(formulas.kernel(&rows), 56.0));
        // In the last layer 2·3 products of 2 + 2 numbers and one sum are the fewest.
        assert!(same(formulas.last_kernel(&rows), 30.0));
    }

    #[test]
    fn plain_passes_take_what_is_counted_by_hand() {
        let rows = Rows::separate(&[&[1, 2], &[1, 3]]);
        let formulas = Formulas::new(&tiny(3), 1);
        let (layer, attention) = (4.0 * (4.0 * 8.0 + 64.0) + 6.0 * 2.0 * 4.0, 6.0 * 4.0);
        assert!(same(formulas.plain_forward(&rows), 3.0 * layer));
        // Back through layer 2 with the gradient of 2 × 6 weights at four rows, then layer 1
        // with its gradient but not through queries, keys and values.
        let gradient = 4.0 * 3.0 * 8.0;
        let second = layer + 2.0 * attention + gradient;
        let first = 4.0 * (64.0 + 8.0) + 4.0 * attention + gradient;
        assert!(same(formulas.plain_pass(&rows), 3.0 * layer + second + first));
    }

    /// Two query heads of width 2 share one key-value head, d = a = 4, k = 2; a gated MLP has three
    /// matrices of 4 × 6.
    #[test]
    fn gates_and_shared_heads_are_counted_by_hand() {
        let config = Config::from_json(
            br#"{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 2,
                "num_key_value_heads": 1, "hidden_size": 4, "intermediate_size": 6,
                "max_position_embeddings": 8, "vocab_size": 5}"#,
        );
        let formulas = Formulas::new(&config.unwrap(), 0);
        let rows = Rows::separate(&[&[1, 2]]);
        let row = 2.0 * (4.0 * 4.0 + 2.0 * 4.0 * 2.0 + 4.0 * 4.0 + 3.0 * 4.0 * 6.0);
        assert!(same(formulas.layer(&rows), 2.0 * row + 3.0 * 2.0 * 2.0 * 4.0));
        // One read-out: queries, mixed inputs, output and MLP; keys of two tokens; two heads look at
        // two keys of width 2 and at two inputs of width 4.
        let (asked, keys) = (2.0 * (3.0 * 16.0 + 72.0), 2.0 * 2.0 * 8.0);
        assert!(same(
            formulas.last(&rows),
            asked + keys + 2.0 * 2.0 * 4.0 + 2.0 * 2.0 * 2.0 * 4.0
        ));
    }

    /// The formulas count the rows that the engine says it computes.
    #[test]
    fn rows_are_those_that_the_engine_counts() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path(), folder.path(), true);
        for work in Work::ALL {
            let shape = work.shape(true);
            let network = open(&shelf.directory(shape.model).unwrap().unwrap()).unwrap();
            let case = Case::new(&shape, 2, &network).unwrap();
            let (task, blocks) = (case.task().unwrap(), case.blocks(network.config()).unwrap());
            let sequences = case.sequences();
            let (shared, apart) = (Rows::shared(&sequences), Rows::separate(&sequences));
            let prepared = Prepared::new(&network, &task, &blocks).unwrap();
            let seen = prepared.observation().passes;
            assert!(same(seen.forward_tokens as f64, shared.rows), "{work}");
            assert!(same(seen.backward_tokens as f64, apart.rows), "{work}");
            let steps = prepared.descend(&blocks, &case.settings()).unwrap().passes;
            let seeded = Rows::shared(&sequences[..case.task().unwrap().examples()]);
            assert!(seeded.rows < shared.rows);
            let query = sequences.last().unwrap().len();
            let forward = 7.0 * seeded.rows + query as f64;
            assert!(same(steps.forward_tokens as f64, forward), "{work}");
            assert!(same(steps.backward_tokens as f64, 7.0 * seeded.rows), "{work}");
        }
    }

    fn same(found: f64, expected: f64) -> bool {
        assert_eq!(found.to_bits(), expected.to_bits(), "{found} instead of {expected}");
        true
    }
}
