//! Flags and their texts.

use super::reproduce::arguments as reproduce;
use crate::bench::{RowName, Side};
use crate::pretraining::Recipe;
use clap::{Args, Parser, Subcommand};
use fewstep::cli::{VERSION, positive};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  fewstep-lab reproduce digit-shift --tasks 200
  fewstep-lab pretrain --out again
  fewstep-lab bench --quick

Results go to standard output, everything else to standard error. The exit code is 0 if all was
done, 1 if some task failed, 2 if nothing could run, 130 after an interrupt.";

const PRETRAIN_EXAMPLES: &str = "\
Examples:
  fewstep-lab pretrain --out again                  # the built-in model, in about half an hour
  fewstep-lab pretrain --out again --resume         # continues after an interrupt
  fewstep-lab pretrain --out small --layers 2 --heads 4 --width 32 --steps 500 --batch 16
  fewstep predict examples/digits.jsonl --model again";

const BENCH_EXAMPLES: &str = "\
Works:
  observe     observe and decide, distilgpt2's shape, prompts of 40 tokens
  steps       … and eight steps, examples in the order of the task
  steps-tree  … and eight steps, examples in tree order
  linear      … and eight steps of the linearised model, against steps in PyTorch
  smollm2     SmolLM2, prompts of 250 tokens, the last four layers, eight steps, tree order
  many        64 examples of 20 tokens, eight steps, tree order
  further     100 further queries on one prompt
  memory-40   peak memory above the weights, prompts of 40 tokens
  memory-250  the same, prompts of 250 tokens
  icl-10      SmolLM2, 10 examples of 30 tokens: an answer against a plain forward pass
  icl-64      … 64 examples of 20 tokens
  icl-further … further queries on one prompt
  icl-llama   … a plain forward pass of 300 tokens against llama.cpp
  icl-memory  … peak memory above the weights
  icl         all of these

Examples:
  bench/run                                   # installs PyTorch and compares with it
  bench/run --work observe --work steps --out /tmp/bench
  fewstep-lab bench --quick                       # see that everything works
  fewstep-lab bench --torch python3 --curves";

/// Experiments, benchmarks and the making of the built-in model
#[derive(Debug, Parser)]
#[command(name = "fewstep-lab", version = VERSION, after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the paper's experiments: tables, figures and a report that says what held
    #[command(after_help = reproduce::EXAMPLES)]
    Reproduce {
        #[command(subcommand)]
        what: reproduce::What,
    },
    /// Train the built-in model again, measure it and write its card
    #[command(after_help = PRETRAIN_EXAMPLES)]
    Pretrain(Pretrain),
    /// Measure how long the work takes, here and in PyTorch
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(Bench),
}

/// The defaults are those of [`Recipe::default`].
#[derive(Debug, Args)]
pub(super) struct Pretrain {
    /// The directory for the model, its card and what is needed to continue
    #[arg(long, value_name = "DIR", default_value = "pretrained")]
    pub(super) out: PathBuf,
    /// Continue the run in DIR; if its model is finished, measure it again
    #[arg(long)]
    pub(super) resume: bool,
    /// How many tasks it is adapted to when it is measured
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 500)]
    pub(super) tasks: usize,
    /// How many threads; they change nothing but the time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) threads: Option<usize>,

    /// Number of layers
    #[arg(long, value_name = "N", default_value_t = Recipe::default().layers, help_heading = "Recipe")]
    layers: usize,
    /// Attention heads per layer
    #[arg(long, value_name = "N", default_value_t = Recipe::default().heads, help_heading = "Recipe")]
    heads: usize,
    /// Numbers per token between layers; a multiple of the heads
    #[arg(long, value_name = "N", default_value_t = Recipe::default().width, help_heading = "Recipe")]
    width: usize,
    /// Gradient steps
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = Recipe::default().steps, help_heading = "Recipe")]
    steps: usize,
    /// Tasks per step
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = Recipe::default().batch, help_heading = "Recipe")]
    batch: usize,
    /// The highest learning rate
    #[arg(long, value_name = "RATE", default_value_t = Recipe::default().learning_rate, help_heading = "Recipe")]
    learning_rate: f64,
    /// Where the initial parameters and all tasks come from
    #[arg(long, default_value_t = Recipe::default().seed, help_heading = "Recipe")]
    seed: u64,
}

impl Pretrain {
    /// The recipe that the flags ask for.
    pub(super) fn recipe(&self) -> Recipe {
        let &Self { layers, heads, width, steps, batch, learning_rate, seed, .. } = self;
        Recipe { layers, heads, width, steps, batch, learning_rate, seed }
    }
}

#[derive(Debug, Args)]
pub(super) struct Bench {
    /// A Python with the packages of bench/torch/requirements.txt; without one only this program
    /// is measured
    #[arg(long, value_name = "PYTHON")]
    pub(super) torch: Option<PathBuf>,
    /// A work to measure, by its name below; may be given more than once [default: all]
    #[arg(long, value_name = "NAME")]
    pub(super) work: Vec<RowName>,
    /// Where npm has installed node-llama-cpp; without it llama.cpp is not measured [default:
    /// fewstep/bench-llama in the user's cache]
    #[arg(long, value_name = "DIR")]
    pub(super) llama: Option<PathBuf>,
    /// How many timed runs of each [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) rounds: Option<usize>,
    /// Tiny shapes, whose times say nothing; the report is written only with --out
    #[arg(long)]
    pub(super) quick: bool,
    /// Measure how time and memory grow, too, and draw it
    #[arg(long)]
    pub(super) curves: bool,
    /// The directory for the report [default: bench/runs/DATE-PROCESSOR]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// How many tasks at the same time
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 2)]
    pub(super) threads: usize,
    /// Work on one task in this process and print its memory: model, task, further
    #[arg(long, hide = true, num_args = 2..=3)]
    pub(super) child: Vec<PathBuf>,
    /// Answer one task in this process and print its memory
    #[arg(long, hide = true)]
    pub(super) peak: Option<Side>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_fit_together() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }
}
