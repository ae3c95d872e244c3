//! Flags and their texts.

use super::serve;
use crate::adapter::Format;
use crate::builtin::BUILTIN;
use crate::error::{Error, refused};
use crate::options::Options;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fewstep_core::{
    Adjoint, Dynamics, HorizonName, Horizons, Overrides, Policy, ResidualsName, SelectionName,
};
use fewstep_engine::{Bos, FirstFactor, Order};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The version, with the commit where it is known.
pub const VERSION: &str = env!("FEWSTEP_VERSION");

const EXAMPLES: &str = "\
Examples:
  fewstep predict examples/digits.jsonl
  fewstep decide examples/digits.jsonl
  fewstep serve
  fewstep completions bash > ~/.local/share/bash-completion/completions/fewstep

Answers go to standard output, everything else to standard error. The exit code is 0 if all was
done, 1 if some task failed, 2 if nothing could run, 130 after an interrupt.";

const PREDICT_EXAMPLES: &str = "\
Without flags the default policy decides: the first MLP matrices of the last layers are updated by an
average over 0 to 64 gradient steps, computed in the linearised model; leave-one-out errors choose
the number of layers and weigh the steps. A decision flag changes only what it names.

Examples:
  fewstep predict examples/digits.jsonl
  fewstep predict examples/digits.jsonl --policy paper        # the paper's decision
  fewstep predict examples/digits.jsonl --step-scale 0.3      # the default with smaller steps
  fewstep predict examples/digit-classes.jsonl                # labels without values: classes
  fewstep predict tasks.jsonl --json > answers.jsonl
  fewstep predict tasks.jsonl --out answers.jsonl             # survives interruption:
  fewstep predict tasks.jsonl --out answers.jsonl --resume    # continue
  cat tasks.jsonl | fewstep predict - --horizon leave-one-out
  fewstep predict tasks.jsonl --model distilgpt2 --select query-aware --budget 1
  fewstep predict tasks.jsonl --save-adapter adapters
  fewstep predict tasks.jsonl --save-adapter lora --adapter-format peft
  fewstep predict more.jsonl --adapter adapters/t1.safetensors";

const DECIDE_EXAMPLES: &str = "\
The decision is that of predict, explained and not carried out.

Examples:
  fewstep decide examples/digits.jsonl
  fewstep decide examples/digits.jsonl --policy paper
  fewstep decide examples/digits.jsonl --figures figures
  fewstep decide tasks.jsonl --json --full > explained.jsonl
  fewstep decide tasks.jsonl --policy paper --blocks value,output@all --select query-aware --budget 8";

/// The largest file of a policy, in bytes.
const LARGEST_POLICY: u64 = 1 << 20;

/// When to adapt a model to a few-shot prompt, how far, and in which directions
#[derive(Debug, Parser)]
#[command(name = "fewstep", version = VERSION, after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Answer tasks: observe, decide, act
    #[command(after_help = PREDICT_EXAMPLES)]
    Predict(Predict),
    /// Explain tasks: observe and decide, and leave the model alone
    #[command(after_help = DECIDE_EXAMPLES)]
    Decide(Shared),
    /// Serve all of it over HTTP, with a page to look at
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::Serve),
    /// Print a script that completes commands in a shell
    #[command(after_help = "Example:\n  fewstep completions zsh > ~/.zfunc/_fewstep")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(super) struct Predict {
    #[command(flatten)]
    pub(super) shared: Shared,
    /// Write each task's update to DIR, named after its ID: the one that steps made, or the one along
    /// which the linearised model predicts
    #[arg(long, value_name = "DIR")]
    pub(super) save_adapter: Option<PathBuf>,
    /// What an update is written as
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = AdapterFormat::Fewstep,
        requires = "save_adapter")]
    pub(super) adapter_format: AdapterFormat,
    /// Decide nothing: apply a saved update (a file, a PEFT directory, or a directory with one
    /// of them per id)
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = [
            "save_adapter", "policy", "dynamics", "blocks", "select", "budget", "horizon",
            "horizons", "step_scale", "coverage", "confidence", "adjoint", "residuals", "orders", "shots",
            "seed", "full", "figures", "loo_order", "lora_rank", "lora_first",
        ]
    )]
    pub(super) adapter: Option<PathBuf>,
}

/// What an update is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AdapterFormat {
    /// DIR/ID.safetensors, which names every block
    Fewstep,
    /// DIR/ID/, a LoRA adapter for PEFT
    Peft,
    /// DIR/ID.gguf, a LoRA adapter for llama.cpp
    Gguf,
    /// DIR/ID/, the whole model with the update in it
    Merged,
}

impl From<AdapterFormat> for Format {
    fn from(format: AdapterFormat) -> Self {
        match format {
            AdapterFormat::Fewstep => Self::Fewstep,
            AdapterFormat::Peft => Self::Peft,
            AdapterFormat::Gguf => Self::Gguf,
            AdapterFormat::Merged => Self::Merged,
        }
    }
}

/// Whether a token is put before every prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BosChoice {
    /// If the model's tokenizer does so by itself
    Auto,
    /// Yes
    Always,
    /// No
    Never,
}

impl From<BosChoice> for Bos {
    fn from(choice: BosChoice) -> Self {
        match choice {
            BosChoice::Auto => Self::Auto,
            BosChoice::Always => Self::Always,
            BosChoice::Never => Self::Never,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Shared {
    /// Files of tasks, one JSON object per line; - is standard input
    #[arg(required = true, value_name = "TASKS")]
    pub(super) tasks: Vec<PathBuf>,

    /// The model: builtin, a directory, a GGUF file, or an id on the hub
    #[arg(long, default_value = BUILTIN, help_heading = "Model")]
    pub(super) model: String,
    /// Dequantise a GGUF file's weights when it is opened: four bytes each, and faster on short
    /// prompts
    #[arg(long, help_heading = "Model")]
    pub(super) expand: bool,
    /// Whether a token is put before every prompt
    #[arg(long, value_enum, default_value_t = BosChoice::Auto, help_heading = "Model")]
    pub(super) bos: BosChoice,
    /// Truncate every x to N tokens
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Model")]
    pub(super) max_tokens_per_example: Option<usize>,
    /// Order of the examples in leave-one-out prompts: original, as in the task, or tree, in which
    /// prompts share longer prefixes and take less time
    #[arg(long, value_name = "ORDER", default_value_t = Order::Original, help_heading = "Model")]
    pub(super) loo_order: Order,

    /// The policy that decides: default, paper, or a file with a policy in JSON, as reports print it
    #[arg(long, value_name = "POLICY", default_value = "default", help_heading = "Decision")]
    pub(super) policy: String,
    /// Candidate blocks: kinds (value, output, query, key, mlp-up, mlp-down, mlp-gate, lora-value,
    /// lora-query, norm; comma-separated), @, and layers (all, upper-half, lastN, or A..B without B)
    /// [default: mlp-up@upper-half; paper: value@last4]
    #[arg(long, value_name = "KINDS@LAYERS", help_heading = "Decision")]
    pub(super) blocks: Option<String>,
    /// Rank of the updates of lora-value and lora-query blocks [default: 8]
    #[arg(long, value_name = "K", value_parser = positive, help_heading = "Decision")]
    pub(super) lora_rank: Option<usize>,
    /// Where their fixed first factor comes from: random numbers, or inputs, the leading directions
    /// of the matrix's inputs over the examples [default: random]
    #[arg(long, value_name = "FIRST", help_heading = "Decision")]
    pub(super) lora_first: Option<FirstFactor>,
    /// How blocks are chosen among them: all, query-aware, query-score, trace-top, trace-bottom,
    /// random or depth [default: depth; paper: all]
    #[arg(long, value_name = "RULE", help_heading = "Decision")]
    pub(super) select: Option<SelectionName>,
    /// The number of blocks that is chosen, for every rule but all and depth
    #[arg(long, value_name = "K", help_heading = "Decision")]
    pub(super) budget: Option<usize>,
    /// How the number of steps is found: a number, evidence, evidence-fixed, gibbs, bayes-gap,
    /// leave-one-out, leave-one-out-average or bayes-filter
    /// [default: leave-one-out-average; paper: evidence]
    #[arg(long, value_name = "RULE", help_heading = "Decision")]
    pub(super) horizon: Option<HorizonName>,
    /// Candidate numbers of steps: A..B, both included, or a list
    /// [default: 0,1,2,4,8,16,32,64; paper: 0..30]
    #[arg(long, value_name = "LIST", help_heading = "Decision")]
    pub(super) horizons: Option<Horizons>,
    /// Step size as a fraction of the largest stable one, over 0 and under 1
    /// [default: 0.6; paper: 0.1]
    #[arg(long, value_name = "C", value_parser = fraction, help_heading = "Decision")]
    pub(super) step_scale: Option<f64>,
    /// How an update is carried out: steps, taken in the model, or linear, by the linearised model
    /// [default: linear; paper: steps]
    #[arg(long, value_name = "DYNAMICS", help_heading = "Decision")]
    pub(super) dynamics: Option<Dynamics>,
    /// How often the interval beside a prediction is meant to hold the answer [default: 0.8]
    #[arg(long, value_name = "SHARE", value_parser = fraction, help_heading = "Decision")]
    pub(super) coverage: Option<f64>,
    /// How often the set of labels beside a prediction is meant to hold the answer [default: 0.9]
    #[arg(long, value_name = "SHARE", value_parser = fraction, help_heading = "Decision")]
    pub(super) confidence: Option<f64>,
    /// Which part of a prediction's derivative is taken: whole, the sum over all tokens, or local,
    /// the term of the token where the prediction is read [default: local; paper: whole]
    #[arg(long, value_name = "PART", help_heading = "Decision")]
    pub(super) adjoint: Option<Adjoint>,
    /// What an example is predicted behind: leave-one-out, all other examples, or prefix, those
    /// before it [default: leave-one-out]
    #[arg(long, value_name = "RULE", help_heading = "Decision")]
    pub(super) residuals: Option<ResidualsName>,
    /// The number of orders in which examples are predicted behind those before them, from 1 to 64
    /// [default: 2]
    #[arg(long, value_name = "N", help_heading = "Decision")]
    pub(super) orders: Option<usize>,
    /// Show at most K examples in a prompt, and learn from all of them [default: as many as fit]
    #[arg(long, value_name = "K", help_heading = "Decision")]
    pub(super) shots: Option<usize>,
    /// Seed of the random selection, of the examples that are shown, and of the random first factors
    /// of lora-value and lora-query [default: 0]
    #[arg(long, help_heading = "Decision")]
    pub(super) seed: Option<u64>,

    /// Print reports as JSON, one object per line
    #[arg(long, help_heading = "Answers")]
    pub(super) json: bool,
    /// Add lists per block or arm, matrices, filters and the query after every step to the JSON
    #[arg(long, help_heading = "Answers")]
    pub(super) full: bool,
    /// Write reports as JSON to FILE, line by line, instead of printing them
    #[arg(long, value_name = "FILE", help_heading = "Answers")]
    pub(super) out: Option<PathBuf>,
    /// Continue FILE of --out: skip the tasks that it answers
    #[arg(long, requires = "out", help_heading = "Answers")]
    pub(super) resume: bool,
    /// Draw evidence curve and block scores of each task as SVG into DIR; of classes their
    /// probabilities, the leave-one-out log-loss and the weights of the arms
    #[arg(long, value_name = "DIR", help_heading = "Answers")]
    pub(super) figures: Option<PathBuf>,
    /// Number of tasks at the same time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Answers")]
    pub(super) threads: Option<usize>,
}

impl Shared {
    /// What the flags ask of a model.
    ///
    /// # Errors
    ///
    /// [`Error::File`] for a policy that cannot be read, and those of [`Policy::from_json`].
    pub(super) fn options(&self) -> Result<Options, Error> {
        Ok(Options {
            policy: policy(&self.policy)?,
            overrides: Overrides {
                blocks: self.blocks.clone(),
                select: self.select,
                budget: self.budget,
                seed: self.seed,
                horizon: self.horizon,
                horizons: self.horizons.clone(),
                step_scale: self.step_scale,
                dynamics: self.dynamics,
                coverage: self.coverage,
                confidence: self.confidence,
                adjoint: self.adjoint,
                residuals: self.residuals,
                orders: self.orders,
                shots: self.shots,
            },
            lora_rank: self.lora_rank,
            lora_first: self.lora_first,
            bos: self.bos.into(),
            max_tokens_per_example: self.max_tokens_per_example,
            loo_order: self.loo_order,
            full: self.full,
        })
    }
}

/// A policy by its name, or from a file.
fn policy(name: &str) -> Result<Policy, Error> {
    let named = Policy::named(name);
    if let (Err(error), false) = (&named, Path::new(name).exists()) {
        return Err(error.clone().into());
    }
    named.or_else(|_| {
        let file = Path::new(name);
        let mut json = String::new();
        let opened = File::open(file).map_err(refused(file, "read"))?;
        opened.take(LARGEST_POLICY).read_to_string(&mut json).map_err(refused(file, "read"))?;
        Ok(Policy::from_json(&json)?)
    })
}

/// A number of a flag: a whole number from 1.
///
/// # Errors
///
/// What it must be, if it is not.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("it must be a whole number from 1".to_owned()),
    }
}

/// A number of a flag: over 0 and under 1.
///
/// # Errors
///
/// What it must be, if it is not.
pub fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if 0.0 < number && number < 1.0 => Ok(number),
        _ => Err("it must be a number over 0 and under 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_fit_together() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }
}
