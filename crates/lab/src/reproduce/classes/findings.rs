//! From records to numbers: what every method answered, prompt by prompt, and how good that was.
//!
//! In: directories of results, and answers of methods outside of this program. Out: [`Case`]s, one per
//! number of examples, of which tables are made.

use super::draw::Size;
use super::metrics::Scored;
use super::peers::{Peer, softmax};
use super::record::{PromptLine, PromptRecord, Rows};
use super::resample::{Interval, Resampling, average};
use super::sets::DataSet;
use super::settings::ClassSettings;
use super::store::{ClassStore, Found};
use crate::error::{Error, refused};
use fewstep::out::read_lines;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

/// What a report is made of.
///
/// # Examples
///
/// See [`measure`](super::measure).
#[derive(Clone, Debug)]
pub struct ClassFindings {
    pub(super) settings: ClassSettings,
    pub(super) found: Found,
    peers: Vec<Outside>,
}

/// A method outside of this program: its name, and its probabilities by prompt.
type Outside = (String, BTreeMap<String, Rows>);

/// A line of another method's file.
#[derive(Deserialize)]
struct OutsideLine {
    id: String,
    probabilities: Rows,
}

impl ClassFindings {
    /// Reads the results of one or more directories, and files of other methods' probabilities, with
    /// their names: one line `{"id": …, "probabilities": [[…], …]}` per prompt.
    ///
    /// # Errors
    ///
    /// [`Error::NoResults`], [`Error::OtherSettings`] or [`Error::DifferentPrompts`] for directories
    /// whose results do not belong together, [`Error::AllFailed`] if no prompt was measured,
    /// [`Error::BadPeer`] for a file that holds something else.
    pub fn read(directories: &[PathBuf], peers: &[(String, PathBuf)]) -> Result<Self, Error> {
        let (settings, found) = ClassStore::gather(directories)?;
        let failure = |line: &PromptLine| match line {
            PromptLine::Measured(_) => None,
            PromptLine::Failed { error, .. } => Some(error.clone()),
        };
        if found.values().all(|line| failure(line).is_some()) {
            let problem = found.values().find_map(failure).unwrap_or_default();
            return Err(Error::AllFailed { tasks: found.len(), problem });
        }
        let read = |(name, file): &(String, PathBuf)| Ok((name.clone(), outside(file)?));
        let peers = peers.iter().map(read).collect::<Result<_, Error>>()?;
        Ok(Self { settings, found, peers })
    }

    /// How many prompts could not be measured.
    #[must_use]
    pub fn failed(&self) -> usize {
        let failed = |line: &&PromptLine| matches!(line, PromptLine::Failed { .. });
        self.found.values().filter(failed).count()
    }

    /// How many prompts are missing.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.settings.keys().iter().filter(|key| !self.found.contains_key(key)).count()
    }

    /// The records of prompts of one size, set by set; sets without any are left out.
    pub(super) fn records(&self, size: Size) -> Vec<(DataSet, Vec<&PromptRecord>)> {
        let of = |set: DataSet| {
            let lines = self.found.iter().filter(|(key, _)| (key.set, key.size) == (set, size));
            let measured = lines.filter_map(|(_, line)| match line {
                PromptLine::Measured(record) => Some(&**record),
                PromptLine::Failed { .. } => None,
            });
            (set, measured.collect::<Vec<_>>())
        };
        let sets = self.settings.sets.iter().map(|&set| of(set));
        sets.filter(|(_, records)| !records.is_empty()).collect()
    }

    /// Everything that is compared on prompts of one size.
    pub(super) fn case(&self, size: Size) -> Case<'_> {
        let records = self.records(size);
        let counts: Vec<usize> = records.iter().map(|(_, records)| records.len()).collect();
        let mut methods: Vec<Method> = Vec::new();
        for peer in Peer::ALL {
            let answers = |record: &PromptRecord| peer.answer(record);
            methods.push(Method::of(peer.name(), Kind::Peer, &records, answers));
        }
        for (name, known) in &self.peers {
            let answers = |record: &PromptRecord| known.get(&record.key.to_string()).cloned();
            methods.push(Method::of(name, Kind::Peer, &records, answers));
        }
        for policy in &self.settings.policies {
            let answers = |record: &PromptRecord| {
                let found = record.policies.iter().find(|other| other.name == policy.name)?;
                found.refused.is_none().then(|| found.probabilities.clone())
            };
            methods.push(Method::of(&policy.name, Kind::Policy, &records, answers));
        }
        let arms: Vec<String> =
            self.settings.policies.first().map_or_else(Vec::new, |policy| {
                policy.classes.arms.iter().map(ToString::to_string).collect()
            });
        let own = |record: &PromptRecord| Some(oracle(record, |arm| arms.contains(arm)));
        methods.push(Method::of(ORACLE, Kind::Oracle, &records, own));
        let all = |record: &PromptRecord| Some(oracle(record, |_| true));
        methods.push(Method::of(ORACLE_OF_ALL, Kind::Oracle, &records, all));
        Case { size, records, methods, resampling: Resampling::new(&counts, 0) }
    }
}

/// The oracle among the first policy's arms.
pub(super) const ORACLE: &str = "oracle";

/// The oracle among all arms that were observed.
pub(super) const ORACLE_OF_ALL: &str = "oracle of all arms";

/// Reads a file of another method.
fn outside(path: &PathBuf) -> Result<BTreeMap<String, Rows>, Error> {
    let mut found = BTreeMap::new();
    let mut number = 0;
    let mut bad: Option<(usize, String)> = None;
    let file = File::open(path).map_err(refused(path, "read"))?;
    read_lines(&file, path, |text| {
        number += 1;
        let line: Result<OutsideLine, _> = serde_json::from_str(text);
        let problem = match line {
            Err(error) => error.to_string(),
            Ok(line)
                if line.probabilities.iter().flatten().any(|p| !(0.0..=1.0).contains(p)) =>
            {
                "a probability is not from 0 to 1".to_owned()
            }
            Ok(line) if found.contains_key(&line.id) => format!("{} comes twice", line.id),
            Ok(line) => {
                found.insert(line.id, line.probabilities);
                return Some(());
            }
        };
        bad.get_or_insert((number, problem));
        Some(())
    })?;
    match bad {
        Some((line, problem)) => Err(Error::BadPeer { file: path.clone(), line, problem }),
        None => Ok(found),
    }
}

/// The probabilities of the member that would have been best on the prompt's own queries: both
/// prompts left alone, and every arm at every number of steps.
pub(super) fn oracle(record: &PromptRecord, takes_part: impl Fn(&String) -> bool) -> Rows {
    let of = |scores: &Rows| scores.iter().map(|row| softmax(row)).collect::<Rows>();
    let mut members = vec![of(&record.queries.few_shot)];
    if !record.queries.zero_shot.is_empty() {
        members.push(of(&record.queries.zero_shot));
    }
    let candidates = record.candidates.iter().filter(|candidate| takes_part(&candidate.arm));
    members.extend(candidates.map(|candidate| candidate.probabilities.clone()));
    let loss = |rows: &Rows| mean_loss(rows, &record.targets);
    let least = members.iter().map(loss).fold(f64::INFINITY, f64::min);
    let place = members.iter().position(|rows| loss(rows) <= least).unwrap_or(0);
    members.swap_remove(place)
}

fn mean_loss(rows: &Rows, targets: &[Option<usize>]) -> f64 {
    average(&scored(rows, targets).iter().map(|one| one.log_loss).collect::<Vec<_>>())
}

/// What predictions are worth, of queries that have an answer.
fn scored(rows: &Rows, targets: &[Option<usize>]) -> Vec<Scored> {
    let pairs = rows.iter().zip(targets);
    pairs.filter_map(|(row, target)| Some(Scored::of(row, (*target)?))).collect()
}

/// What a method is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Something else that people do.
    Peer,
    /// A policy.
    Policy,
    /// What sees the answers of the queries.
    Oracle,
}

/// What is measured of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Accuracy,
    LogLoss,
    Brier,
}

impl Metric {
    pub(super) const ALL: [Self; 3] = [Self::Accuracy, Self::LogLoss, Self::Brier];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy, %",
            Self::LogLoss => "log-loss",
            Self::Brier => "Brier score",
        }
    }

    fn of(self, one: &Scored) -> f64 {
        match self {
            Self::Accuracy => 100.0 * one.right,
            Self::LogLoss => one.log_loss,
            Self::Brier => one.brier,
        }
    }
}

/// A method with what it answered: for every set, if it answered all of it, for every prompt.
#[derive(Clone, Debug)]
pub(super) struct Method {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) sets: Vec<Option<Vec<Vec<Scored>>>>,
}

impl Method {
    fn of(
        name: &str,
        kind: Kind,
        records: &[(DataSet, Vec<&PromptRecord>)],
        answers: impl Fn(&PromptRecord) -> Option<Rows>,
    ) -> Self {
        let one = |record: &&PromptRecord| {
            // An answer to other queries or labels does not count.
            let rows = answers(record).filter(|rows| {
                let shape = rows.iter().all(|row| row.len() == record.classes);
                shape && rows.len() == record.targets.len()
            })?;
            Some(scored(&rows, &record.targets))
        };
        let sets = records.iter().map(|(_, records)| records.iter().map(one).collect());
        Self { name: name.to_owned(), kind, sets: sets.collect() }
    }

    /// One number per prompt of a set.
    pub(super) fn values(&self, set: usize, metric: Metric) -> Option<Vec<f64>> {
        let prompts = self.sets[set].as_ref()?;
        let mean = |prompt: &Vec<Scored>| {
            average(&prompt.iter().map(|one| metric.of(one)).collect::<Vec<_>>())
        };
        Some(prompts.iter().map(mean).collect())
    }

    /// The same of every set, if it answered all.
    pub(super) fn all(&self, metric: Metric) -> Option<Vec<Vec<f64>>> {
        (0..self.sets.len()).map(|set| self.values(set, metric)).collect()
    }
}

/// Prompts of one size and everything that is compared on them.
pub(super) struct Case<'a> {
    pub(super) size: Size,
    pub(super) records: Vec<(DataSet, Vec<&'a PromptRecord>)>,
    pub(super) methods: Vec<Method>,
    pub(super) resampling: Resampling,
}

impl Case<'_> {
    pub(super) fn method(&self, name: &str) -> Option<&Method> {
        self.methods.iter().find(|method| method.name == name)
    }

    /// In-context learning, which every comparison starts from.
    pub(super) fn icl(&self) -> &Method {
        &self.methods[0]
    }

    /// The mean over sets, if the method answered all.
    pub(super) fn mean(&self, method: &Method, metric: Metric) -> Option<Interval> {
        Some(self.resampling.mean(&method.all(metric)?))
    }

    /// By how much a method is over another, in the mean over sets: paired by prompt.
    pub(super) fn over(
        &self,
        method: &Method,
        other: &Method,
        metric: Metric,
    ) -> Option<Interval> {
        let (a, b) = (method.all(metric)?, other.all(metric)?);
        let differences: Vec<Vec<f64>> =
            a.iter().zip(&b).map(|(a, b)| differences(a, b)).collect();
        Some(self.resampling.mean(&differences))
    }

    /// The same on one set.
    pub(super) fn over_on(
        &self,
        set: usize,
        (method, other): (&Method, &Method),
        metric: Metric,
    ) -> Option<Interval> {
        let (a, b) = (method.values(set, metric)?, other.values(set, metric)?);
        Some(self.resampling.mean_of(set, &differences(&a, &b)))
    }

    /// The share of the oracle's gain over in-context learning in log-loss that a method captures.
    pub(super) fn share(&self, method: &Method, oracle: &Method) -> Option<Interval> {
        let losses = |method: &Method| method.all(Metric::LogLoss);
        let (icl, own, best) = (losses(self.icl())?, losses(method)?, losses(oracle)?);
        Some(self.resampling.interval(|draw| {
            let mean = |of: &[Vec<f64>]| {
                let sets = draw.iter().zip(of).filter(|(drawn, _)| !drawn.is_empty());
                let means = sets.map(|(drawn, of)| super::resample::mean_at(of, drawn));
                average(&means.collect::<Vec<_>>())
            };
            let icl = mean(&icl);
            (icl - mean(&own)) / (icl - mean(&best))
        }))
    }

    /// The mean over sets of a statistic of the scored queries of drawn prompts, such as the
    /// calibration error.
    pub(super) fn pooled(
        &self,
        method: &Method,
        statistic: impl Fn(&mut dyn Iterator<Item = Scored>) -> f64,
    ) -> Option<Interval> {
        let sets: Vec<&Vec<Vec<Scored>>> =
            method.sets.iter().map(Option::as_ref).collect::<Option<_>>()?;
        Some(self.resampling.interval(|draw| {
            let of = |(drawn, prompts): (&Vec<usize>, &&Vec<Vec<Scored>>)| {
                statistic(&mut drawn.iter().flat_map(|&place| prompts[place].iter().copied()))
            };
            average(&draw.iter().zip(&sets).map(of).collect::<Vec<_>>())
        }))
    }
}

fn differences(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::draw::PromptKey;
    use super::super::record::{CandidateRecord, Passes, PolicyRecord, Scores, Seconds};
    use super::*;

    /// A made-up record with two labels: in-context learning is undecided, zero-shot is wrong, and
    /// the default policy gives 0.8 to the answers, which are 0.
    pub(in super::super) fn record(number: usize, queries: usize) -> PromptRecord {
        let rows = |row: [f64; 2], count: usize| vec![row.to_vec(); count];
        let logs = |row: [f64; 2], count: usize| rows(row.map(f64::ln), count);
        let scores = |count: usize| Scores {
            few_shot: logs([0.5, 0.5], count),
            zero_shot: logs([0.2, 0.8], count),
        };
        let policy = PolicyRecord {
            refused: None,
            probabilities: rows([0.8, 0.2], queries),
            sets: vec![vec![0, 1]; queries],
            abstention: vec![0.25; queries],
            weight: 0.5,
            ..PolicyRecord::refused("default", String::new())
        };
        let candidate = CandidateRecord {
            arm: "few-shot bias".to_owned(),
            horizon: 8,
            loss: 0.3,
            held_out: vec![0.7; 4],
            probabilities: rows([0.9, 0.1], queries),
        };
        PromptRecord {
            key: PromptKey { set: DataSet::Sst2, size: Size::Examples(4), seed: 0, number },
            classes: 2,
            shown: 4,
            answers: vec![0, 1, 0, 1],
            targets: vec![Some(0); queries],
            examples: scores(4),
            queries: scores(queries),
            content_free: scores(3),
            probe: None,
            policies: vec![policy],
            candidates: vec![candidate],
            seconds: Seconds::default(),
            passes: Passes::default(),
        }
    }

    #[test]
    fn an_oracle_takes_what_is_best_on_the_queries() {
        let mut one = record(0, 2);
        assert_eq!(oracle(&one, |_| true)[0], [0.9, 0.1]);
        // Without candidates the prompts left alone are what there is.
        let alone = oracle(&one, |_| false);
        assert!((alone[0][0] - 0.5).abs() < 1e-12);
        one.targets = vec![Some(1); 2];
        assert!((oracle(&one, |_| true)[0][1] - 0.8).abs() < 1e-12);
        // What is out of scope has no answer to be judged by.
        one.targets = vec![Some(1), None];
        one.candidates[0].probabilities = vec![vec![0.1, 0.9], vec![0.5, 0.5]];
        assert_eq!(oracle(&one, |_| true)[0], [0.1, 0.9]);
    }

    #[test]
    fn a_share_of_the_gain_by_hand() {
        let (a, b) = (record(0, 2), record(1, 2));
        let records = vec![(DataSet::Sst2, vec![&a, &b])];
        let of = |name: &str, kind: Kind, p: f64| {
            Method::of(name, kind, &records, move |_| Some(vec![vec![p, 1.0 - p]; 2]))
        };
        let methods = vec![
            of("ICL", Kind::Peer, 0.5),
            of("default", Kind::Policy, 0.8),
            of(ORACLE, Kind::Oracle, 0.9),
        ];
        let resampling = Resampling::new(&[2], 0);
        let case = Case { size: Size::Examples(4), records, methods, resampling };
        let own = case.method("default").unwrap();
        let share = case.share(own, case.method(ORACLE).unwrap()).unwrap();
        let expected = (0.8_f64 / 0.5).ln() / (0.9_f64 / 0.5).ln();
        assert!((share.at - expected).abs() < 1e-12 && (share.low - expected).abs() < 1e-12);
        let gain = case.over(own, case.icl(), Metric::LogLoss).unwrap();
        assert!((gain.at + (0.8_f64 / 0.5).ln()).abs() < 1e-12);
        let right = case.mean(own, Metric::Accuracy).unwrap();
        assert!((right.at - 100.0).abs() < 1e-12);
        let error = case.pooled(own, |scored| super::super::metrics::calibration_error(scored));
        assert!((error.unwrap().at - 0.2).abs() < 1e-12);
    }

    #[test]
    fn a_method_that_answers_something_else_does_not_count() {
        let one = record(0, 2);
        let records = vec![(DataSet::Sst2, vec![&one])];
        let with =
            |rows: Rows| Method::of("x", Kind::Peer, &records, move |_| Some(rows.clone()));
        assert!(with(vec![vec![0.5, 0.5]; 2]).sets[0].is_some());
        assert!(with(vec![vec![0.5, 0.5]]).sets[0].is_none());
        assert!(with(vec![vec![0.2, 0.3, 0.5]; 2]).sets[0].is_none());
    }

    #[test]
    fn files_of_other_methods_are_checked() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_path_buf();
        let line = r#"{"id": "trec-16-0-0", "probabilities": [[0.25, 0.75]]}"#;
        std::fs::write(&path, format!("{line}\n")).unwrap();
        assert_eq!(outside(&path).unwrap()["trec-16-0-0"], [[0.25, 0.75]]);
        for (text, said) in [
            (format!("{line}\n{line}\n"), "trec-16-0-0 comes twice"),
            (format!("{line}\n{}\n", line.replace("0.75", "1.75")), "not from 0 to 1"),
            (format!("{line}\n{{\"id\": 3}}\n"), "invalid type"),
        ] {
            std::fs::write(&path, text).unwrap();
            let refused = outside(&path).unwrap_err();
            assert!(matches!(refused, Error::BadPeer { line: 2, .. }), "{refused}");
            assert!(refused.to_string().contains(said), "{refused}");
        }
    }
}
