//! What can be wrong with a model's files or a task.
//!
//! Every variant carries what was found and what is allowed, so that a program can read it and
//! a person can act on the message. Model files are not trusted: what does not fit is refused.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Where in a task something stands.
///
/// # Examples
///
/// ```
/// use fewstep_engine::Place;
///
/// assert_eq!(Place::Example(2).to_string(), "example 2");
/// assert_eq!(Place::Query.to_string(), "the query");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A labelled example, counted from 0.
    Example(usize),
    /// The query.
    Query,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Example(index) => write!(formatter, "example {index}"),
            Self::Query => formatter.write_str("the query"),
        }
    }
}

/// Everything that can go wrong in this crate.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Config, Error};
///
/// let refused = Config::from_json(br#"{"model_type": "bert"}"#);
/// assert!(matches!(
///     refused,
///     Err(Error::Unsupported { setting: "model_type", found, .. }) if found == "\"bert\""
/// ));
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // Files.
    /// The operating system refused to read or write a file.
    #[error("cannot {action} {}: {kind}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What was tried: `read` or `write`.
        action: &'static str,
        /// Why it was refused.
        kind: ErrorKind,
    },
    /// Something that must be a file is a directory, a pipe or a device.
    #[error("{} is not a regular file; give the file itself", file.display())]
    NotAFile {
        /// The path.
        file: PathBuf,
    },
    /// A file is longer than any real one of its kind.
    #[error("{} has {found} bytes; at most {limit} are read", file.display())]
    FileTooLarge {
        /// The file.
        file: PathBuf,
        /// Its length in bytes.
        found: u64,
        /// The longest length that is accepted.
        limit: u64,
    },
    /// A file that must be JSON of a certain form is not.
    #[error("{} is invalid at line {line}, column {column}: {problem}",
        file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// Line of the first problem, counted from 1.
        line: usize,
        /// Column of the first problem, counted from 1.
        column: usize,
        /// What the parser expected there.
        problem: String,
    },

    // Configuration.
    /// A setting of the model that this crate does not implement.
    #[error("{}: {setting} is {found}, which is not implemented; it must be {allowed}",
        file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// The setting, as the file names it.
        setting: &'static str,
        /// Its value, as JSON.
        found: String,
        /// The accepted values in words.
        allowed: &'static str,
    },
    /// A size of the model outside its allowed range.
    #[error("{}: {setting} is {found}; it must be from 1 to {largest}", file.display())]
    SizeOutOfRange {
        /// The file.
        file: PathBuf,
        /// The setting, as the file names it.
        setting: &'static str,
        /// Its value.
        found: usize,
        /// The largest value that is accepted.
        largest: usize,
    },
    /// The norms' epsilon is not a small positive number.
    #[error("{}: {setting} is {found}; it must be over 0 and at most 1", file.display())]
    EpsilonOutOfRange {
        /// The file.
        file: PathBuf,
        /// The setting, as the file names it.
        setting: &'static str,
        /// The value.
        found: f64,
    },
    /// The attention heads do not share the model's width evenly.
    #[error("{}: {heads} heads cannot share a width of {width}; their number must divide it, \
         unless head_dim is given where the family has it", file.display())]
    HeadsDoNotDivide {
        /// The file.
        file: PathBuf,
        /// Number of attention heads.
        heads: usize,
        /// The model's width.
        width: usize,
    },
    /// The key-value heads do not serve the query heads evenly.
    #[error("{}: {key_value_heads} key-value heads cannot serve {heads} heads; \
         num_key_value_heads must divide num_attention_heads", file.display())]
    KeyValueHeadsDoNotDivide {
        /// The file.
        file: PathBuf,
        /// Number of query heads.
        heads: usize,
        /// Number of heads that keys and values have.
        key_value_heads: usize,
    },

    // Weights.
    /// A directory holds no weights in a form that is read.
    #[error("{} holds neither model.safetensors nor model.safetensors.index.json; convert the \
         weights to safetensors", directory.display())]
    NoWeights {
        /// The directory.
        directory: PathBuf,
    },
    /// An index names a shard that does not lie beside it.
    #[error("{}: invalid shard {shard:?}: expected the plain name of a file beside the index",
        file.display())]
    ShardName {
        /// The index.
        file: PathBuf,
        /// The name it gives.
        shard: String,
    },
    /// An index names more shards than any real model has.
    #[error("{} names {found} shards; it must name from 1 to {limit}", file.display())]
    ShardCount {
        /// The index.
        file: PathBuf,
        /// How many it names.
        found: usize,
        /// The most that are accepted.
        limit: usize,
    },
    /// The header of a weight file is cut off, or says that it is longer than it can be.
    #[error("{}: the header needs {claimed} bytes, but the file has {available} and at most {limit} \
         are read; the file is incomplete or not a safetensors file", file.display())]
    HeaderLength {
        /// The file.
        file: PathBuf,
        /// The bytes that the header needs, with its 8-byte length.
        claimed: u64,
        /// The bytes of the file.
        available: u64,
        /// The longest header that is accepted.
        limit: u64,
    },
    /// A tensor's place in the file does not fit its shape, its neighbours or the file.
    #[error("{}: tensor {tensor:?} claims the bytes {start} to {end} of the data; {expected} \
         bytes from {earliest} within {available} are needed: the file is incomplete or damaged",
        file.display())]
    TensorBytes {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// First byte of the tensor, counted from the end of the header.
        start: u64,
        /// One past its last byte.
        end: u64,
        /// Where it must start: where the one before it ends.
        earliest: u64,
        /// How many bytes its type and shape ask for.
        expected: u64,
        /// How many bytes of data there are.
        available: u64,
    },
    /// A weight file continues after its last tensor.
    #[error("{}: {found} bytes of data, but the tensors cover {expected}; the file is damaged",
        file.display())]
    UncoveredBytes {
        /// The file.
        file: PathBuf,
        /// The bytes after the header.
        found: u64,
        /// The bytes that tensors account for.
        expected: u64,
    },
    /// The same tensor is there twice.
    #[error("tensor {tensor:?} is in {} and again in {}; remove one", first.display(),
        second.display())]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
        /// The file that holds it.
        first: PathBuf,
        /// The file that holds it again.
        second: PathBuf,
    },
    /// A tensor that the model needs is not there.
    #[error("{}: tensor {tensor:?} is missing; the weights are incomplete or belong to another \
         configuration", file.display())]
    MissingTensor {
        /// The file, or the directory of the shards.
        file: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A tensor that the configured model does not have.
    #[error("{}: tensor {tensor:?} does not belong to the configured model; check the number \
         of layers and the architecture in config.json", file.display())]
    UnknownTensor {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A tensor has another shape than the configuration asks for.
    #[error("{}: tensor {tensor:?} has shape {found:?}, but the configuration asks for \
         {expected:?}", file.display())]
    TensorShape {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape that the configuration asks for.
        expected: Vec<usize>,
    },
    /// A tensor's numbers are of a type that is not read.
    #[error("{}: tensor {tensor:?} holds {found}; it must hold F32, F16 or BF16",
        file.display())]
    TensorType {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The type, as the file names it.
        found: String,
    },
    /// A weight is NaN or infinite, or would become so in the asked precision.
    #[error("{}: tensor {tensor:?} has the entry {value} at position {index}; every weight must \
         be a finite number in the file's precision", file.display())]
    WeightNotFinite {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// Where the entry stands, counted from 0, row by row.
        index: usize,
        /// The entry.
        value: f32,
    },
    /// Input and output embedding are tied, yet both are there and differ.
    #[error("{}: tie_word_embeddings is true, but {tensor:?} differs from the token embedding at \
         position {index}; set it to false or remove the tensor", file.display())]
    TiedWeightsDiffer {
        /// The file.
        file: PathBuf,
        /// The output embedding.
        tensor: String,
        /// The first entry that differs, counted from 0, row by row.
        index: usize,
    },

    // GGUF files.
    /// A file that is read as GGUF does not start as one.
    #[error("{} is not a GGUF file: it does not start with the letters GGUF; give a GGUF file, or a \
         directory with safetensors weights", file.display())]
    NotGguf {
        /// The file.
        file: PathBuf,
    },
    /// A GGUF file has a version that is not read.
    #[error("{} is a GGUF file of version {found}; versions 2 and 3, little-endian, are read: \
         convert the model again", file.display())]
    GgufVersion {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A GGUF file ends before what it announces.
    #[error("{}: {what} at byte {position} needs {needed} bytes, but {available} are left; the \
         file is incomplete or damaged", file.display())]
    GgufCut {
        /// The file.
        file: PathBuf,
        /// What is cut off.
        what: &'static str,
        /// Where it starts.
        position: u64,
        /// How many bytes it needs.
        needed: u64,
        /// How many there are from there on.
        available: u64,
    },
    /// A GGUF file announces more of something than any real one has.
    #[error("{}: {what} is {found}; at most {limit} are read: the file is damaged",
        file.display())]
    GgufCount {
        /// The file.
        file: PathBuf,
        /// What there is too much of.
        what: &'static str,
        /// How much.
        found: u64,
        /// The most that is accepted.
        limit: u64,
    },
    /// An entry of a GGUF file's metadata is missing or cannot be used.
    #[error("{}: metadata {key:?} is {found}; it must be {allowed}", file.display())]
    Metadata {
        /// The file.
        file: PathBuf,
        /// The name of the entry.
        key: String,
        /// What is there, in words.
        found: String,
        /// What is accepted, in words.
        allowed: &'static str,
    },
    /// A tensor has an encoding that is not read.
    #[error("{}: tensor {tensor:?} is encoded as {found}; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, \
         Q8_0 and Q2_K to Q6_K are read: quantise the model to one of them", file.display())]
    TensorEncoding {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The name of the encoding, or its number.
        found: String,
    },
    /// A tensor's rows cannot be cut into blocks.
    #[error("{}: tensor {tensor:?} has shape {shape:?}; it must have from 1 to 4 sides over 0, \
         the last a multiple of {block}: the file is damaged", file.display())]
    TensorBlocks {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its shape, outermost first.
        shape: Vec<usize>,
        /// How many numbers make a block.
        block: usize,
    },

    // Adapters.
    /// A setting of an adapter that is not known and may change what it computes.
    #[error("{}: {setting} is {found}, which is not understood; it must be null, false or absent",
        file.display())]
    UnknownSetting {
        /// The file.
        file: PathBuf,
        /// The setting, as the file names it.
        setting: String,
        /// Its value, as JSON.
        found: String,
    },
    /// A pattern for the names of matrices cannot be read.
    #[error("{}: {setting} has the pattern {found:?}, which cannot be read; it must be a name or a \
         plain regular expression", file.display())]
    BadPattern {
        /// The file.
        file: PathBuf,
        /// The setting, as the file names it.
        setting: &'static str,
        /// The pattern.
        found: String,
    },
    /// A tensor of an adapter that is not a factor of a matrix of the model.
    #[error("{}: tensor {tensor:?} is not part of an adapter for this model; it must be \
         base_model.model., {allowed}, and .lora_A.weight or .lora_B.weight, or a norm of a layer: \
         embeddings and biases are not adapted", file.display())]
    NotAdaptable {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The matrices that the model has, in words.
        allowed: String,
    },
    /// An update could not be written as a product.
    #[error(
        "the factors of the update differ from it by {residual:e}, and {allowed:e} is \
         allowed; save it in another format than an adapter of low rank"
    )]
    NotFactorised {
        /// The norm of the difference.
        residual: f64,
        /// The largest norm that is accepted.
        allowed: f64,
    },

    // The model hub.
    /// A model that is neither a directory nor a file nor can be an id on the hub.
    #[error(
        "there is no directory or file {model:?}, and it is not a hub id either; give an existing \
         directory or GGUF file, or an id such as distilgpt2 or openai-community/gpt2"
    )]
    ModelNotFound {
        /// The model that was asked for.
        model: String,
    },
    /// A model is not in the cache and may not be downloaded.
    #[error("model {model} is not complete in the cache: {file} was looked for under {} and \
         HF_HUB_OFFLINE forbids downloading it; run `hf download {model}` where there is a \
         network, unset HF_HUB_OFFLINE, or give a directory", directory.display())]
    NotInCache {
        /// The model's id.
        model: String,
        /// The first file that is missing.
        file: String,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// The hub has the model, but not in a form that is read.
    #[error(
        "model {model} has no {file} on the hub; choose a model with safetensors weights and \
         a byte-level BPE tokenizer, or convert it and give the directory"
    )]
    NotOnHub {
        /// The model's id.
        model: String,
        /// The file that is missing.
        file: &'static str,
    },
    /// A download failed.
    #[error("could not download {file} of model {model} from {endpoint} ({problem}); it was not \
         under {} either: check the id and the network, run `hf download {model}` where there is \
         one, or give a directory", directory.display())]
    Download {
        /// The model's id.
        model: String,
        /// The file, or `the list of files`.
        file: String,
        /// The hub's address.
        endpoint: String,
        /// Where in the cache it was looked for first.
        directory: PathBuf,
        /// What the hub or the network answered.
        problem: String,
    },

    // Tokens.
    /// A directory holds no tokenizer in a form that is read.
    #[error("{} holds neither tokenizer.json nor vocab.json and merges.txt; copy them from the \
         model", directory.display())]
    NoTokenizer {
        /// The directory.
        directory: PathBuf,
    },
    /// A merge of a tokenizer joins or makes tokens that do not exist.
    #[error("{}: merge {index} joins {left:?} and {right:?}; both and their union must be in the \
         vocabulary", file.display())]
    BadMerge {
        /// The file.
        file: PathBuf,
        /// The merge, counted from 0.
        index: usize,
        /// Its first part.
        left: String,
        /// Its second part; empty if the merge has not exactly two parts.
        right: String,
    },
    /// Two tokens share an id.
    #[error("{}: tokens {first:?} and {second:?} share the id {id}; every token needs its own",
        file.display())]
    DuplicateToken {
        /// The file.
        file: PathBuf,
        /// One of the tokens.
        first: String,
        /// The other.
        second: String,
        /// Their id.
        id: u32,
    },
    /// A token's id is beyond the model's vocabulary.
    #[error("{}: token {token:?} has id {id}, but the model's vocabulary has {vocabulary}; the \
         tokenizer belongs to another model", file.display())]
    TokenBeyondVocabulary {
        /// The file.
        file: PathBuf,
        /// The token.
        token: String,
        /// Its id.
        id: u32,
        /// The size of the model's vocabulary.
        vocabulary: usize,
    },
    /// A text is longer than the tokenizer takes.
    #[error(
        "text has {length} bytes; at most {limit} are tokenised at once: use fewer or shorter \
         examples"
    )]
    TextTooLong {
        /// Its length in bytes.
        length: usize,
        /// The longest length that is accepted.
        limit: usize,
    },
    /// A text holds something that the tokenizer has no token for.
    #[error(
        "text has no tokens from byte {position} on, at {character:?}; use only characters \
         of the tokenizer's vocabulary"
    )]
    UnknownText {
        /// The first byte that is lost.
        position: usize,
        /// The character there.
        character: char,
    },
    /// A token was asked for at the start of prompts, but the model names none.
    #[error(
        "a token at the start was asked for, but neither tokenizer nor config.json names one \
         within the vocabulary; do not ask for it"
    )]
    NoBos,

    // Tasks.
    /// A template does not hold a placeholder exactly once.
    #[error(
        "task {task:?}: template {template:?} holds {placeholder} {found} times; it must hold \
         it once"
    )]
    Placeholder {
        /// The task's id.
        task: String,
        /// The template.
        template: String,
        /// `{x}` or `{y}`.
        placeholder: &'static str,
        /// Number of times that it occurs.
        found: usize,
    },
    /// A template asks for the label before it shows the input.
    #[error(
        "task {task:?}: template {template:?} has {{y}} before {{x}}; the prediction at {{y}} \
         would not see {{x}}: put {{x}} first"
    )]
    PlaceholderOrder {
        /// The task's id.
        task: String,
        /// The template.
        template: String,
    },
    /// A task has too few labelled examples.
    #[error(
        "task {task:?} has {found} examples; leave-one-out needs at least 2: add examples, or \
         ask the model without adapting it"
    )]
    TooFewExamples {
        /// The task's id.
        task: String,
        /// How many it has.
        found: usize,
    },
    /// A task has too few labels to choose from.
    #[error("task {task:?} has {found} labels; it needs at least 2")]
    TooFewLabels {
        /// The task's id.
        task: String,
        /// How many it has.
        found: usize,
    },
    /// A label has no text.
    #[error("task {task:?}: label {label} has no text; every label needs one")]
    EmptyLabel {
        /// The task's id.
        task: String,
        /// The label, counted from 0.
        label: usize,
    },
    /// Two labels have the same text.
    #[error("task {task:?}: label {label:?} is listed twice; list every label once")]
    DuplicateLabel {
        /// The task's id.
        task: String,
        /// The label's text.
        label: String,
    },
    /// Some labels have values, and one has none.
    #[error(
        "task {task:?}: label {label:?} has no value and others have one; give all labels a value \
         (regression) or none (classes)"
    )]
    LabelWithoutValue {
        /// The task's id.
        task: String,
        /// The label's text.
        label: String,
    },
    /// More labels than a task of classes may have.
    #[error(
        "task {task:?}: {found} labels, and a task of classes may have {limit}; give fewer, or \
         values if they are numbers"
    )]
    TooManyLabels {
        /// The task's id.
        task: String,
        /// The number of labels.
        found: usize,
        /// The largest number that is allowed.
        limit: usize,
    },
    /// A task of classes where one of numbers is expected.
    #[error(
        "task {task:?}: its labels have no values, so that it asks for a class; this needs values"
    )]
    NotRegression {
        /// The task's id.
        task: String,
    },
    /// A task of numbers where one of classes is expected.
    #[error(
        "task {task:?}: its labels have values, so that it asks for a number; this needs labels \
         without values"
    )]
    NotClassification {
        /// The task's id.
        task: String,
    },
    /// A label's value is not a number, or too large.
    #[error(
        "task {task:?}: label {label:?} has the value {value}; it must be a number between \
         -{limit:e} and {limit:e}: use larger units"
    )]
    LabelValue {
        /// The task's id.
        task: String,
        /// The label's text.
        label: String,
        /// Its value.
        value: f64,
        /// The largest size that a value may have.
        limit: f64,
    },
    /// An input has no text.
    #[error("task {task:?}: x of {place} is blank; give it text or leave it out")]
    EmptyInput {
        /// The task's id.
        task: String,
        /// Which input.
        place: Place,
    },
    /// An answer is not among the labels.
    #[error("task {task:?}: y of {place} is {found:?}; it must be one of {allowed:?}")]
    UnknownLabel {
        /// The task's id.
        task: String,
        /// Whose answer.
        place: Place,
        /// The answer.
        found: String,
        /// The texts of the labels.
        allowed: Vec<String>,
    },

    // Prompts.
    /// The limit for one example leaves no token.
    #[error("max_tokens_per_example is 0; it must be at least 1")]
    NoTokensPerExample,
    /// A label is not one token after the prompt.
    #[error(
        "task {task:?}: label {label:?} is the pieces {pieces:?} after the prompt of {place}; \
         every label must be exactly one token where the labels begin to differ: choose other \
         label texts"
    )]
    LabelPieces {
        /// The task's id.
        task: String,
        /// Whose prompt.
        place: Place,
        /// The label's text.
        label: String,
        /// What remains of it, token by token.
        pieces: Vec<String>,
    },
    /// The blocks of an arm are not what they can be.
    #[error(
        "blocks {found:?}: expected bias, scale, readout and kinds with layers, divided by commas, \
         for example \"readout,mlp-up@upper-half\""
    )]
    BadClassBlocks {
        /// What was given.
        found: String,
    },
    /// An arm names a block twice.
    #[error("blocks {found:?}: one of them is named twice; name each once")]
    DuplicateClassBlock {
        /// What was given.
        found: String,
    },
    /// In tokens one label begins with another, and nothing that follows tells them apart.
    #[error(
        "task {task:?}: in tokens label {second:?} begins with label {first:?}; put text behind \
         {{y}} in the template, or a separator between examples, that ends a label"
    )]
    LabelBegins {
        /// The task's id.
        task: String,
        /// The shorter label.
        first: String,
        /// The label that begins with it.
        second: String,
    },
    /// Two labels are the same token.
    #[error(
        "task {task:?}: labels {first:?} and {second:?} are the same token to this model; \
         choose other label texts"
    )]
    LabelsCollide {
        /// The task's id.
        task: String,
        /// One label.
        first: String,
        /// The other.
        second: String,
    },
    /// A label is another token in one prompt than in the first.
    #[error(
        "task {task:?}: label {label:?} is the token {found:?} after the prompt of {place}, \
         but {expected:?} after that of example 0; end the template's prefix so that labels do \
         not join it"
    )]
    LabelsDisagree {
        /// The task's id.
        task: String,
        /// Whose prompt.
        place: Place,
        /// The label's text.
        label: String,
        /// The token in this prompt.
        found: String,
        /// The token in the prompt of example 0.
        expected: String,
    },
    /// Nothing of a prompt remains before the labels.
    #[error(
        "task {task:?}: the prompt of {place} has no token before the labels; add text before \
         {{y}} to the template"
    )]
    EmptyPrompt {
        /// The task's id.
        task: String,
        /// Whose prompt.
        place: Place,
    },
    /// A prompt does not fit into the model.
    #[error(
        "task {task:?}: the prompt of {place} has {length} tokens, but the model takes \
         {limit}; use fewer or shorter examples, or set max_tokens_per_example"
    )]
    ContextTooLong {
        /// The task's id.
        task: String,
        /// Whose prompt.
        place: Place,
        /// Its length in tokens.
        length: usize,
        /// The longest length that the model takes.
        limit: usize,
    },
    /// The prompts of a task are too long together.
    #[error(
        "task {task:?}: {prompts} prompts of up to {length} tokens are too much; all prompts \
         together may have {limit}: use fewer or shorter examples"
    )]
    TooManyTokens {
        /// The task's id.
        task: String,
        /// How many prompts it has, one per example and the query's.
        prompts: usize,
        /// The length of one of them in tokens.
        length: usize,
        /// The most tokens that all may have.
        limit: usize,
    },

    // Pretraining.
    /// A model that cannot be trained from nothing.
    #[error(
        "only models of the GPT-2 family can be trained; give a configuration whose model_type \
         is gpt2"
    )]
    CannotTrain,
    /// A target stands at a position that its sequence does not have.
    #[error(
        "sequence {sequence} has a target at position {position}, but only {length} tokens; \
         positions are counted from 0"
    )]
    TargetOutOfRange {
        /// The sequence, counted from 0.
        sequence: usize,
        /// Where the target stands.
        position: usize,
        /// Number of tokens of the sequence.
        length: usize,
    },
    /// The loss or its gradient is NaN or infinite.
    #[error(
        "after {steps} steps the loss is {loss} and the gradient has norm {gradient_norm}; both \
         must be finite: lower the learning rate or the largest gradient norm"
    )]
    Diverged {
        /// The number of steps taken.
        steps: usize,
        /// The loss.
        loss: f64,
        /// The norm of its gradient.
        gradient_norm: f64,
    },
    /// A file that is read as a checkpoint of a training run is not one.
    #[error("{} is not a checkpoint of a training run: its metadata has no {entry:?}; to read a \
         model, load it as weights", file.display())]
    NotACheckpoint {
        /// The file.
        file: PathBuf,
        /// The entry of the metadata that is missing.
        entry: &'static str,
    },
    /// A checkpoint belongs to a training run with other settings.
    #[error("{}: {setting} of the saved run is {found}, but {expected} was asked for; give the \
         same or start a new run", file.display())]
    OtherRun {
        /// The file.
        file: PathBuf,
        /// The setting that differs.
        setting: String,
        /// Its value in the file, or `absent`.
        found: String,
        /// The value that was asked for, or `absent`.
        expected: String,
    },
    /// A running mean of squared gradients is negative.
    #[error("{}: tensor {tensor:?} has the entry {value} at position {index}; means of squares \
         are at least 0: the file is damaged", file.display())]
    NegativeMoment {
        /// The file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// Where the entry stands, counted from 0, row by row.
        index: usize,
        /// The entry.
        value: f32,
    },

    /// A number of shots that is 0, or larger than the number of examples.
    #[error(
        "task {task:?}: {found} shots were asked for, but it has {examples} examples; choose from 1 \
         to {examples}, or leave it open to show as many as fit"
    )]
    Shots {
        /// The task's id.
        task: String,
        /// The number asked for.
        found: usize,
        /// How many examples there are.
        examples: usize,
    },
    /// A block whose derivative is made of other tokens' keys, with local adjoints.
    #[error(
        "the block {block} has no derivative at the read-out position alone: key matrices act on the \
         other tokens; choose other blocks (value, output, query, mlp-up, mlp-down, mlp-gate, \
         lora-value, lora-query, norm), or whole adjoints"
    )]
    NoLocalForm {
        /// Its name.
        block: String,
    },

    // Passes.
    /// Something that must hold at least one entry holds none.
    #[error("{quantity} is empty; give at least one entry")]
    Empty {
        /// What is empty.
        quantity: &'static str,
    },
    /// Two sizes that must agree do not.
    #[error("{quantity} has size {found}, but {expected} is needed to match the rest")]
    SizeMismatch {
        /// What has the wrong size.
        quantity: &'static str,
        /// Its size.
        found: usize,
        /// The size that the other inputs ask for.
        expected: usize,
    },
    /// A number outside its allowed range.
    #[error("{quantity} is {found}; it must be {allowed}")]
    OutOfRange {
        /// What is out of range.
        quantity: &'static str,
        /// Its value.
        found: f64,
        /// The allowed range in words.
        allowed: &'static str,
    },
    /// A sequence without tokens.
    #[error("sequence {sequence} has no tokens; a prediction needs at least one")]
    EmptySequence {
        /// The sequence, counted from 0.
        sequence: usize,
    },
    /// A sequence is longer than the model's context.
    #[error(
        "sequence {sequence} has {found} tokens; the model takes at most {limit}: use fewer or \
         shorter examples"
    )]
    SequenceTooLong {
        /// The sequence, counted from 0.
        sequence: usize,
        /// Its number of tokens.
        found: usize,
        /// The model's number of positions.
        limit: usize,
    },
    /// A sequence is longer than the window within which a token sees those before it.
    #[error(
        "sequence {sequence} has {found} tokens; the model's sliding window is {window}, and \
         longer sequences are not implemented: use fewer or shorter examples"
    )]
    BeyondWindow {
        /// The sequence, counted from 0.
        sequence: usize,
        /// Its number of tokens.
        found: usize,
        /// The model's window.
        window: usize,
    },
    /// A token id that the model does not have.
    #[error(
        "token id {token} is not in the model's vocabulary of {vocabulary}; use the model's own \
         tokenizer"
    )]
    TokenOutOfRange {
        /// The id.
        token: u32,
        /// The size of the vocabulary.
        vocabulary: usize,
    },
    /// A kind of block that does not exist.
    #[error(
        "block kind {found:?} is unknown; it must be one of value, output, query, key, mlp-up, \
         mlp-down, mlp-gate, lora-value, lora-query, norm"
    )]
    UnknownKind {
        /// What was given.
        found: String,
    },
    /// An unknown first factor of low-rank updates.
    #[error("first factor {found:?} is unknown; it must be random or inputs")]
    UnknownFirstFactor {
        /// What was given.
        found: String,
    },
    /// The rank of a low-rank update is not possible.
    #[error(
        "rank {found} of a low-rank update is not possible; it must be from 1 to {largest}, the \
         number of inputs of the matrix"
    )]
    LoraRank {
        /// The rank.
        found: usize,
        /// The largest that is possible.
        largest: usize,
    },
    /// The first factor of a low-rank update is known on a tape alone.
    #[error(
        "the first factor of {block} comes from the inputs of prompts; take the update from a \
         tape that ran them, or set the first factor to random"
    )]
    FirstFactorOfPrompts {
        /// The block's name.
        block: String,
    },
    /// A decision that was made for blocks of another owner.
    #[error(
        "block {name:?} of the decision is not one of this model's; decide on what the model \
         observed"
    )]
    ForeignBlock {
        /// The block's name.
        name: String,
    },
    /// An unknown order of examples.
    #[error("order of examples {found:?} is unknown; it must be original or tree")]
    UnknownOrder {
        /// What was given.
        found: String,
    },
    /// A choice of layers that cannot be read or that the model does not have.
    #[error(
        "layers {found:?} cannot be chosen; write all, upper-half, lastN with N from 1, or A..B \
         with A under B and B at most {layers}"
    )]
    BadLayers {
        /// What was given.
        found: String,
        /// The model's number of layers.
        layers: usize,
    },
    /// A choice of blocks without the sign between kinds and layers.
    #[error(
        "blocks {found:?} cannot be read; write kinds, @ and layers, such as value@last4 or \
         query,key@all"
    )]
    BadChoice {
        /// What was given.
        found: String,
    },
    /// A block's name cannot be read.
    #[error(
        "block {found:?} cannot be read; write kind.layer.head such as value.5.3, or \
         kind.layer for mlp-up, mlp-down, mlp-gate, lora-value, lora-query and norm"
    )]
    BadBlockName {
        /// What was given.
        found: String,
    },
    /// A block that the model does not have.
    #[error(
        "block {block} does not exist: the model has {layers} layers with {heads} heads for \
         this kind, counted from 0"
    )]
    NoSuchBlock {
        /// The block's name.
        block: String,
        /// The model's number of layers.
        layers: usize,
        /// Its number of heads per layer; of key-value heads for values and keys.
        heads: usize,
    },
    /// A gate was asked for in a model whose MLP has none.
    #[error(
        "block {block} does not exist: the model's MLP has no gate; take mlp-up or mlp-down"
    )]
    NoGate {
        /// The block's name, or its kind.
        block: String,
    },
    /// A block is named twice.
    #[error("block {block} is named twice; name every block once")]
    DuplicateBlock {
        /// The block's name.
        block: String,
    },
    /// An update has a block that a tape was not made for.
    #[error("block {block} was not asked for when the forward pass was started; name it then")]
    BlockNotOnTape {
        /// The block's name.
        block: String,
    },
    /// The single-position form was asked for a block that it does not exist for.
    #[error("block {block} has no single-position kernel; only value blocks have one")]
    NotAValueBlock {
        /// The block's name.
        block: String,
    },
    /// Observing would hold more memory than it may.
    #[error(
        "observing needs about {needed} bytes beside the model, but at most {limit} are \
         allowed; use fewer or shorter examples or fewer blocks, or raise the limit"
    )]
    TooMuchMemory {
        /// What it would hold at once, in bytes.
        needed: u64,
        /// What it may hold.
        limit: u64,
    },
    /// A prediction is NaN or infinite.
    #[error(
        "prediction {sequence} is not finite after {steps} steps; take a smaller step size, or \
         check the model's weights if no step was taken"
    )]
    NotFinite {
        /// The sequence, counted from 0.
        sequence: usize,
        /// The number of steps taken.
        steps: usize,
    },
    /// The decision side refused what was observed.
    #[error(transparent)]
    Core(#[from] fewstep_core::Error),
}

impl Error {
    /// Whether it is about a task's query alone, so that another query on the same examples may be
    /// answered.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{Error, Place};
    ///
    /// let task = "t1".to_owned();
    /// assert!(Error::EmptyInput { task: task.clone(), place: Place::Query }.is_about_query());
    /// assert!(!Error::EmptyInput { task, place: Place::Example(0) }.is_about_query());
    /// ```
    #[must_use]
    pub fn is_about_query(&self) -> bool {
        match self {
            Self::EmptyInput { place, .. }
            | Self::UnknownLabel { place, .. }
            | Self::LabelPieces { place, .. }
            | Self::LabelsDisagree { place, .. }
            | Self::EmptyPrompt { place, .. }
            | Self::ContextTooLong { place, .. } => *place == Place::Query,
            _ => false,
        }
    }
}
