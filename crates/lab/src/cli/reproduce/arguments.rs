//! Flags of `fewstep-lab reproduce` and their texts.

use crate::reproduce::sweep::SWEEP_TASKS;
use crate::reproduce::theory::TheorySettings;
use crate::reproduce::{
    Choices, Experiment, Family, Kernel, MOST_QUERIES, RULES_LONGEST, Request, Shard, Traces,
};
use clap::{Args, Subcommand, ValueEnum, value_parser};
use fewstep::cli::{BosChoice, fraction, positive};
use fewstep::{BUILTIN, Dynamics};
use fewstep_core::MOST_HORIZONS;
use fewstep_engine::Order;
use std::path::PathBuf;

pub(in crate::cli) const EXAMPLES: &str = "\
Examples:
  fewstep-lab reproduce digit-shift --tasks 200
  fewstep-lab reproduce all --out reproduced                       # can be interrupted …
  fewstep-lab reproduce all --out reproduced --resume              # … and continued
  fewstep-lab reproduce digit-shift --seeds 5 --sweep
  fewstep-lab reproduce digit-shift --shard 1/2 --out first        # on one machine
  fewstep-lab reproduce digit-shift --shard 2/2 --out second       # on another
  fewstep-lab reproduce merge first second --out both
  fewstep-lab reproduce sst2 --data dev.tsv --model distilgpt2

Every run writes DIR/report.html, report.md, figures/, settings.json and one file of results per
part, one JSON object per task. The same seed gives the same numbers, whatever the threads.

The validation split of SST-2 is part of the GLUE benchmark: download SST-2.zip from
gluebenchmark.com/tasks and take the file dev.tsv in it, a table of 872 sentences with the columns
sentence and label.";

/// More tasks, or seeds, than anybody will wait for.
const MOST_TASKS: i64 = 10_000_000;
const MOST_SEEDS: u64 = 1000;
// No step is a candidate, too.
const MOST_STEPS: i64 = MOST_HORIZONS as i64 - 1;

/// What to reproduce.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum What {
    /// How far to go on digit-shift tasks: Exp. 1, Table 1
    DigitShift(Digits),
    /// Which heads to update on digit-shift tasks: Exp. 2
    Heads(Digits),
    /// Both questions on sentences of SST-2: App. J
    Sst2(Sentences),
    /// Which rule decides best, on tasks that differ: beyond the paper
    Rules(Rules),
    /// Calibration, probing and adaptation on tasks of classes, against what else people do
    #[command(after_help = super::classes::EXAMPLES)]
    Classes(Box<super::classes::Classes>),
    /// The paper's identities and bounds: predicted against measured
    Theory(Theory),
    /// Everything; sentences only with --data
    All(All),
    /// Put the results of several runs with --shard together
    Merge(Merge),
}

/// Where the model comes from and results go.
#[derive(Debug, Args)]
pub(in crate::cli) struct Place {
    /// The model: builtin, a directory, a GGUF file, or an id on the hub
    #[arg(long, default_value = BUILTIN)]
    pub(in crate::cli) model: String,
    /// Dequantise a GGUF file's weights when it is opened: four bytes each, and faster on short
    /// prompts
    #[arg(long)]
    pub(in crate::cli) expand: bool,
    /// The directory for results and report
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    pub(in crate::cli) out: PathBuf,
    /// Where all tasks come from
    #[arg(long, default_value_t = 0)]
    pub(in crate::cli) seed: u64,
}

/// Which tasks, and how they are written and measured.
#[derive(Debug, Args)]
pub(in crate::cli) struct Tasks {
    /// How many tasks per seed [default: as in the paper, 2000 for digit-shift, 500 for heads,
    /// 50 for sst2; in all of them together 500, 100 and 50]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=MOST_TASKS))]
    tasks: Option<u32>,
    /// Repeat with K seeds, from --seed on: independent tasks
    #[arg(long, value_name = "K", value_parser = value_parser!(u64).range(1..=MOST_SEEDS), default_value_t = 1)]
    seeds: u64,
    /// Measure the I-th of N shares of the tasks; fewstep-lab reproduce merge puts them together
    #[arg(long, value_name = "I/N")]
    pub(in crate::cli) shard: Option<Shard>,
    /// Continue with the results in DIR
    #[arg(long)]
    pub(in crate::cli) resume: bool,
    /// How many tasks at the same time [default: one per processor]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(in crate::cli) threads: Option<usize>,

    /// Candidate blocks: kinds, @, and layers, as in fewstep decide
    #[arg(
        long,
        value_name = "KINDS@LAYERS",
        default_value = "value@last4",
        help_heading = "Open choices"
    )]
    blocks: String,
    /// What stands between examples; \n is a line break
    #[arg(long, value_name = "TEXT", default_value = "\\n", help_heading = "Open choices")]
    separator: String,
    /// Whether a token is put before every prompt
    #[arg(long, value_enum, default_value_t = BosChoice::Auto, help_heading = "Open choices")]
    bos: BosChoice,
    /// How leave-one-out prompts order examples: original, or tree, which takes less time
    #[arg(long, value_name = "ORDER", default_value_t = Order::Original, help_heading = "Open choices")]
    loo_order: Order,
    /// Step size as a fraction of the largest stable one [default: by a pilot on 20 separate
    /// tasks; 0.1 for sst2]
    #[arg(long, value_name = "C", value_parser = fraction, help_heading = "Open choices")]
    step_scale: Option<f64>,
    /// What is measured: steps, taken in the model with the linearised model beside them, or linear,
    /// the linearised model alone
    #[arg(long, default_value_t = Dynamics::Steps, help_heading = "Open choices")]
    dynamics: Dynamics,
    /// Truncate every input to N tokens [default: 64 for sst2]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Open choices")]
    max_tokens_per_example: Option<usize>,
}

impl Tasks {
    /// What the flags ask for.
    pub(in crate::cli) fn request(
        &self,
        experiments: Vec<Experiment>,
        seed: u64,
        sweep: Option<usize>,
    ) -> Request {
        let choices = Choices {
            blocks: self.blocks.clone(),
            separator: self.separator.replace("\\n", "\n"),
            bos: match self.bos {
                BosChoice::Auto => None,
                BosChoice::Always => Some(true),
                BosChoice::Never => Some(false),
            },
            tree_order: self.loo_order == Order::Tree,
            step_scale: self.step_scale,
            kernel: Kernel::AllTokens,
            max_tokens_per_example: self.max_tokens_per_example,
            linear_only: self.dynamics == Dynamics::Linear,
            ..Choices::default()
        };
        let tasks = self.tasks.map(|tasks| tasks as usize);
        Request { experiments, tasks, tour: false, seed, seeds: self.seeds, sweep, choices }
    }
}

/// Open choices taken otherwise.
#[derive(Debug, Args)]
pub(in crate::cli) struct Sweep {
    /// Take every open choice otherwise, one at a time, on the first N tasks
    #[arg(
        long, value_name = "N", value_parser = positive, num_args = 0..=1,
        default_missing_value = SWEEP_DEFAULT
    )]
    pub(in crate::cli) sweep: Option<usize>,
}

// Flags want texts; the numbers are those of the library.
const SWEEP_DEFAULT: &str = "200";
const _: () = assert!(SWEEP_TASKS == 200, "the text says so");
const DRAWS: &str = "20000";
const _: () = assert!(TheorySettings::DRAWS == 20_000, "the text says so");

#[derive(Debug, Args)]
pub(in crate::cli) struct Digits {
    #[command(flatten)]
    pub(in crate::cli) place: Place,
    #[command(flatten)]
    pub(in crate::cli) tasks: Tasks,
    #[command(flatten)]
    pub(in crate::cli) sweep: Sweep,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Sentences {
    #[command(flatten)]
    pub(in crate::cli) place: Place,
    #[command(flatten)]
    pub(in crate::cli) tasks: Tasks,
    /// Labelled sentences: a table with the columns sentence and label, such as dev.tsv of SST-2
    #[arg(long, value_name = "FILE.tsv")]
    pub(in crate::cli) data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Rules {
    #[command(flatten)]
    pub(in crate::cli) place: Place,
    #[command(flatten)]
    pub(in crate::cli) tasks: Tasks,
    /// Tasks to develop rules on, or to judge them by: never the same
    #[arg(long, value_enum, default_value_t = Split::Development)]
    split: Split,
    /// What tasks hide, divided by commas [default: all that the model and the data allow]
    #[arg(long = "kinds", value_name = "KINDS", value_delimiter = ',')]
    families: Vec<Family>,
    /// The largest number of steps
    #[arg(long, value_name = "T", value_parser = value_parser!(u32).range(1..=MOST_STEPS), default_value_t = RULES_LONGEST)]
    longest: u32,
    /// How many queries every prompt is asked about: more of them cost little beside the prompt, and
    /// average out what is special about one
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..=MOST_QUERIES as i64), default_value_t = 1)]
    queries: u8,
    /// Labelled sentences: a table with the columns sentence and label, such as dev.tsv of SST-2
    #[arg(long, value_name = "FILE.tsv")]
    pub(in crate::cli) data: Option<PathBuf>,
}

/// What tasks are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Split {
    Development,
    Test,
}

impl Rules {
    /// What the flags ask for; the built-in model reads digits alone.
    pub(in crate::cli) fn traces(&self) -> Traces {
        let Request { tasks, seeds, choices, seed, .. } =
            self.tasks.request(vec![], self.place.seed, None);
        let mut families = self.families.clone();
        if families.is_empty() && self.place.model == BUILTIN {
            families = Family::ALL.into_iter().filter(|family| family.is_digits()).collect();
        }
        let queries = usize::from(self.queries);
        let choices = Choices { longest: self.longest, queries, ..choices };
        let tasks = tasks.unwrap_or(Experiment::Rules.paper_tasks());
        Traces { families, test: self.split == Split::Test, tasks, seed, seeds, choices }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct All {
    #[command(flatten)]
    pub(in crate::cli) place: Place,
    #[command(flatten)]
    pub(in crate::cli) tasks: Tasks,
    #[command(flatten)]
    pub(in crate::cli) sweep: Sweep,
    #[command(flatten)]
    pub(in crate::cli) draws: Draws,
    /// Labelled sentences for sst2, which is left out without them
    #[arg(long, value_name = "FILE.tsv")]
    pub(in crate::cli) data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Draws {
    /// How many prompts are simulated for every statement of the theory; at least 100
    #[arg(
        long, value_name = "N", value_parser = value_parser!(u32).range(100..=MOST_TASKS),
        default_value = DRAWS
    )]
    pub(in crate::cli) draws: u32,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Theory {
    #[command(flatten)]
    pub(in crate::cli) place: Place,
    #[command(flatten)]
    pub(in crate::cli) draws: Draws,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Merge {
    /// Directories with results of the same settings
    #[arg(required = true, value_name = "DIR")]
    pub(in crate::cli) directories: Vec<PathBuf>,
    /// The directory for all results and their report
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) out: PathBuf,
}
