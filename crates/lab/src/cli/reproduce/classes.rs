//! `fewstep-lab reproduce classes`: classification, measured and reported.

use super::{Progress, command, interrupted, model_name, publish};
use crate::cli::LAB;
use crate::error::{Error, refused};
use crate::reproduce::classes::{
    ClassFindings, ClassMeans, ClassSettings, ClassStore, DataSet, Half, LabelledRows, Size,
    measure, variants, write_tasks,
};
use crate::reproduce::{Shard, Store, shape};
use clap::{ArgGroup, Args, value_parser};
use fewstep::cli::{End, load, positive, processors};
use fewstep::{BUILTIN, Policy};
use fewstep_core::{Overrides, ResidualsName};
use fewstep_engine::Order;
use std::path::PathBuf;
use std::sync::Arc;

pub(in crate::cli) const EXAMPLES: &str = "\
Examples:
  fewstep-lab reproduce classes --model \"$(models/smollm2 | tail -1)\" --data ../shared/data \\
      --split dev --sets trec,agnews,subj,sst2,sst5 --prompts 24 --seed 1 --out DIR
  fewstep-lab reproduce classes … --out DIR --resume                # continues
  fewstep-lab reproduce classes --report DIR --report MORE --out BOTH  # the report, without a model
  fewstep-lab reproduce classes … --write-tasks TASKS.jsonl         # the prompts, for others
  bench/peers/minilm.py TASKS.jsonl MINILM.jsonl
  fewstep-lab reproduce classes --report DIR --peer MiniLM=MINILM.jsonl --out DIR";

/// Where prompts come from, and what is done with them.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["data", "report"]).required(true))]
pub(in crate::cli) struct Classes {
    /// The folder with sst2-dev.tsv and classes/*.csv
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Make the report of the results in DIR, without a model; may be given more than once, for runs
    /// of other sets, sizes, seeds or shares
    #[arg(long, value_name = "DIR", conflicts_with = "model")]
    report: Vec<PathBuf>,
    /// Probabilities of another method, as bench/peers writes them; may be given more than once
    #[arg(long, value_name = "NAME=FILE", value_parser = peer)]
    peer: Vec<(String, PathBuf)>,
    /// The model: builtin, a directory, a GGUF file, or an id on the hub
    #[arg(long, default_value = BUILTIN)]
    model: String,
    /// Dequantise a GGUF file's weights when it is opened
    #[arg(long)]
    expand: bool,
    /// The directory for results and report
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    out: PathBuf,
    /// Policies are made on dev and judged on test; the halves share no text
    #[arg(long, default_value_t = Half::Development)]
    split: Half,
    /// Data sets, separated by commas [default: sst2,sst5,trec,subj,agnews]
    #[arg(long, value_name = "SETS", value_delimiter = ',')]
    sets: Vec<DataSet>,
    /// How many prompts of each set, size and seed
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = 24)]
    prompts: usize,
    /// How many queries each prompt is asked
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=ClassSettings::MOST_QUERIES as i64), default_value_t = 6)]
    queries: u16,
    /// How many examples, drawn without a look at their labels; several, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = positive, default_value = "16")]
    examples: Vec<usize>,
    /// K examples of every label, instead of --examples
    #[arg(long, value_name = "K", value_parser = positive, conflicts_with = "examples")]
    per_class: Option<usize>,
    /// Prompts about K labels of the set, drawn for each [default: all of them]
    #[arg(long, value_name = "K", value_parser = value_parser!(u16).range(2..))]
    labels: Option<u16>,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds, from --seed on
    #[arg(long, value_name = "K", value_parser = value_parser!(u64).range(1..=1000), default_value_t = 1)]
    seeds: u64,
    /// Which policies are judged, by name, separated by commas; the default always is [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policies: Vec<String>,
    /// A further policy, from a file with its JSON; may be given more than once
    #[arg(long, value_name = "FILE")]
    policy: Vec<PathBuf>,
    /// How examples are predicted when prompts are observed [default: as the default policy says]
    #[arg(long, value_name = "HOW")]
    residuals: Option<ResidualsName>,
    /// How many examples a prompt shows [default: as the default policy says]
    #[arg(long, value_name = "K")]
    shots: Option<usize>,
    /// How leave-one-out prompts order examples: original, or tree, which takes less time
    #[arg(long, value_name = "ORDER", default_value_t = Order::Original)]
    loo_order: Order,
    /// Measure the I-th of N shares of the prompts
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Continue with the results in DIR
    #[arg(long)]
    resume: bool,
    /// How many prompts at the same time, each on one thread [default: one per processor]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
    /// Write the prompts to a file, a task per line, and measure nothing; it holds sentences of the
    /// data, so keep it out of what is published
    #[arg(long, value_name = "FILE")]
    write_tasks: Option<PathBuf>,
}

/// A method with its file.
fn peer(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => Err(format!("expected NAME=FILE, found {text:?}")),
    }
}

/// Does what the flags ask for.
pub(super) fn classes(flags: &Classes, version: &str) -> Result<End, Error> {
    let Some(data) = &flags.data else {
        return report(&flags.report, flags, version);
    };
    let policies = flags.judged()?;
    let sets =
        if flags.sets.is_empty() { DataSet::JUDGED.to_vec() } else { flags.sets.clone() };
    let read = |&set: &DataSet| LabelledRows::read(data, set, flags.split);
    let rows = sets.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
    let settings = flags.settings(policies, sets, &rows);
    settings.check()?;
    if let Some(file) = &flags.write_tasks {
        write_tasks(&settings, &rows, file)?;
        LAB.note(format!("{} prompts are in {}", settings.keys().len(), file.display()));
        return Ok(End::Done);
    }
    run(flags, settings, rows, version)
}

/// Measures, and makes the report if nothing is missing.
fn run(
    flags: &Classes,
    settings: ClassSettings,
    rows: Vec<LabelledRows>,
    version: &str,
) -> Result<End, Error> {
    let out = &flags.out;
    Store::check(out, flags.resume)?;
    let model = load(&flags.model, flags.expand)?;
    let settings = ClassSettings { shape: shape(&model), ..settings };
    let store = ClassStore::open(out, &settings, flags.resume)?;
    let shard = flags.shard.unwrap_or(Shard::WHOLE);
    let means = ClassMeans {
        model,
        rows: Arc::new(rows),
        threads: flags.threads.unwrap_or_else(processors),
        shard,
        stop: LAB.listen("finishing the prompts under way"),
    };
    let mut progress = Progress::new();
    let finished = measure(&store, &means, |event| progress.tell(event));
    progress.bar.finish();
    if !finished? {
        return Ok(interrupted(out, flags.resume));
    }
    if !shard.is_whole() {
        LAB.note(format!(
            "this share of the prompts is in {}; reproduce classes --report puts all together",
            out.display()
        ));
        return Ok(End::Done);
    }
    report(std::slice::from_ref(out), flags, version)
}

/// The report of results.
fn report(directories: &[PathBuf], flags: &Classes, version: &str) -> Result<End, Error> {
    let findings = ClassFindings::read(directories, &flags.peer)?;
    publish(&findings.document(&command(), version)?, &flags.out)?;
    Ok(if findings.failed() + findings.missing() > 0 { End::SomeFailed } else { End::Done })
}

impl Classes {
    /// What is judged: the default first, then the variants that are asked for, then files.
    fn judged(&self) -> Result<Vec<Policy>, Error> {
        let mut all = variants();
        for name in &self.policies {
            if !all.iter().any(|policy| policy.name == *name) {
                let allowed: Vec<String> =
                    all.iter().map(|policy| policy.name.clone()).collect();
                let (found, allowed) = (name.clone(), allowed.join(", "));
                return Err(Error::UnknownPolicy { found, allowed });
            }
        }
        if !self.policies.is_empty() {
            let default = all[0].name.clone();
            all.retain(|policy| policy.name == default || self.policies.contains(&policy.name));
        }
        for file in &self.policy {
            let text = std::fs::read_to_string(file).map_err(refused(file, "read"))?;
            let policy = Policy::from_json(&text)?;
            if all.iter().any(|known| known.name == policy.name) {
                return Err(Error::TwicePolicy { file: file.clone(), name: policy.name });
            }
            all.push(policy);
        }
        let overrides =
            Overrides { residuals: self.residuals, shots: self.shots, ..Overrides::default() };
        let observed = |policy: Policy| {
            let name = policy.name.clone();
            Ok(Policy { name, ..overrides.of(&policy)? })
        };
        all.into_iter().map(observed).collect()
    }

    fn settings(
        &self,
        policies: Vec<Policy>,
        sets: Vec<DataSet>,
        rows: &[LabelledRows],
    ) -> ClassSettings {
        let sizes = match self.per_class {
            Some(count) => vec![Size::PerClass(count)],
            None => self.examples.iter().map(|&count| Size::Examples(count)).collect(),
        };
        ClassSettings {
            program: concat!("fewstep ", env!("CARGO_PKG_VERSION")).to_owned(),
            model: model_name(&self.model),
            shape: String::new(),
            half: self.split,
            queries: usize::from(self.queries),
            labels: self.labels.map(usize::from),
            tree_order: self.loo_order == Order::Tree,
            policies,
            data: rows.iter().flat_map(|rows| rows.sources().to_vec()).collect(),
            sets,
            sizes,
            prompts: self.prompts,
            seeds: (0..self.seeds).map(|index| self.seed.wrapping_add(index)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_name_and_a_file() {
        assert_eq!(peer("MiniLM=a=b.jsonl"), Ok(("MiniLM".to_owned(), "a=b.jsonl".into())));
        for text in ["", "x", "=x", "x="] {
            assert!(peer(text).unwrap_err().contains("NAME=FILE"), "{text}");
        }
    }
}
