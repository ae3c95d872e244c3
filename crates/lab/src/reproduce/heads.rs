//! What the records say about which blocks to update: figures (b) and (c), their statistics and
//! the paper's claims.

use super::document::{Claim, Figure, Section, Table};
use super::findings::{claim, estimate, interval, p_value, short, together, verdict};
use super::plot::{Axis, Plot, Point, Series, Style};
use super::record::{Both, Choice, Method, Record};
use super::settings::Experiment;
use super::statistics::Paired;
use crate::assessment::Mean;
use fewstep::Dynamics;
use std::collections::BTreeSet;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objective {
    /// The squared error at the query.
    Query,
    /// The mean squared error on the prompt.
    Fit,
}

impl Objective {
    fn title(self) -> &'static str {
        match self {
            Self::Query => "query error",
            Self::Fit => "prompt-fit error",
        }
    }
}

/// Tasks with choices of blocks, by the same dynamics.
#[derive(Clone, Debug)]
pub(crate) struct Chosen<'a> {
    records: Vec<&'a Record>,
    dynamics: Dynamics,
}

impl<'a> Chosen<'a> {
    /// The records that hold choices by these dynamics.
    pub(crate) fn new(
        records: impl IntoIterator<Item = &'a Record>,
        dynamics: Dynamics,
    ) -> Self {
        let known = |record: &&Record| {
            let both = record.heads.first().and_then(|choice| choice.query.first());
            both.is_some_and(|&both| both.by(dynamics).is_some())
        };
        Self { records: records.into_iter().filter(known).collect(), dynamics }
    }

    /// Steps in the model where some record holds them, and the linearised model otherwise.
    pub(crate) fn preferred(records: &'a [Record]) -> Self {
        let steps = Self::new(records, Dynamics::Steps);
        if steps.is_empty() { Self::new(records, Dynamics::Linear) } else { steps }
    }

    /// How many tasks there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The budgets that were measured, ascending.
    pub(crate) fn budgets(&self) -> Vec<usize> {
        let choices = self.records.iter().flat_map(|record| &record.heads);
        let choosing = choices.filter(|choice| choice.method != Method::All);
        choosing.map(|choice| choice.budget).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Errors of a method with a budget, task by task, averaged over its draws; `None` if some
    /// task lacks them. The budget does not matter for all blocks.
    pub(crate) fn errors(
        &self,
        objective: Objective,
        method: Method,
        budget: usize,
    ) -> Option<Vec<f64>> {
        let wanted = |choice: &&Choice| {
            choice.method == method && (choice.budget == budget || method == Method::All)
        };
        let error = |record: &&Record| {
            let choice = record.heads.iter().find(wanted)?;
            let mean = |errors: Vec<f64>| errors.iter().sum::<f64>() / errors.len() as f64;
            let query = |both: &Both| {
                both.by(self.dynamics).map(|found| (found - record.target).powi(2))
            };
            let errors: Option<Vec<f64>> = match objective {
                Objective::Query => choice.query.iter().map(query).collect(),
                Objective::Fit => {
                    choice.fit.iter().map(|both| both.by(self.dynamics)).collect()
                }
            };
            errors.filter(|errors| !errors.is_empty()).map(mean)
        };
        self.records.iter().map(error).collect()
    }

    /// The paired improvement of one method over another.
    pub(crate) fn improvement(
        &self,
        objective: Objective,
        pair: MethodPair,
        budget: usize,
    ) -> Option<Paired> {
        let MethodPair { baseline, method } = pair;
        let of = |method| self.errors(objective, method, budget);
        let seed = (method as u64 * 8 + baseline as u64) * 64 + budget as u64;
        Some(Paired::improvement(&of(baseline)?, &of(method)?, seed))
    }

    /// The paired improvement averaged over all budgets, task by task.
    pub(crate) fn overall(&self, objective: Objective, pair: MethodPair) -> Option<Paired> {
        let MethodPair { baseline, method } = pair;
        let budgets = self.budgets();
        let mut total = vec![0.0; self.len()];
        for &budget in &budgets {
            let first = self.errors(objective, baseline, budget)?;
            let second = self.errors(objective, method, budget)?;
            for ((total, a), b) in total.iter_mut().zip(first).zip(second) {
                *total += (a - b) / budgets.len() as f64;
            }
        }
        Some(Paired::of(&total, method as u64 * 8 + baseline as u64))
    }
}

/// A method, and what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MethodPair {
    pub(crate) baseline: Method,
    pub(crate) method: Method,
}

impl Method {
    /// This method against a baseline.
    pub(crate) const fn over(self, baseline: Self) -> MethodPair {
        MethodPair { baseline, method: self }
    }
}

/// Methods that are compared with random blocks.
const COMPARED: [Method; 4] =
    [Method::QueryAware, Method::QueryScore, Method::TraceTop, Method::TraceBottom];

/// The part of a report about which blocks to update.
pub(crate) fn section(experiment: Experiment, records: &[Record]) -> Section {
    let steps = Chosen::new(records, Dynamics::Steps);
    let linear = Chosen::new(records, Dynamics::Linear);
    let main = &Chosen::preferred(records);
    let mut tables = vec![];
    for (sample, how) in [(&steps, "gradient steps in the model"), (&linear, "linear dynamics")]
    {
        for objective in [Objective::Query, Objective::Fit] {
            if !sample.is_empty() {
                tables.push(over_random(sample, objective, how));
            }
        }
    }
    tables.push(errors(main));
    tables.push(between_methods(main));
    let figures = [(Objective::Query, "b"), (Objective::Fit, "c")];
    let figures = figures.map(|(objective, panel)| figure(experiment, main, objective, panel));
    let place = if experiment == Experiment::Sst2 { "App. J" } else { "Exp. 2" };
    Section {
        title: format!("Which blocks to update ({place})"),
        text: text(main),
        tables,
        figures: figures.into(),
        claims: claims(experiment, main),
    }
}

fn text(sample: &Chosen<'_>) -> Vec<String> {
    let blocks = sample.records.iter().flat_map(|record| &record.heads);
    let blocks =
        blocks.filter(|choice| choice.method == Method::All).map(|choice| choice.budget);
    vec![format!(
        "{} tasks, {} candidate blocks, eight steps with the chosen ones. Random is the mean over \
         five draws per task and budget. Query-Aware is the greedy rule of App. I, query score the \
         quadratic form of Sec. 8.2. Budgets beyond the candidates are left out. A claim about \
         all budgets held if it held at each of them, and did not if it failed at one.",
        sample.len(),
        blocks.max().unwrap_or(0)
    )]
}

/// Improvements over random blocks.
fn over_random(sample: &Chosen<'_>, objective: Objective, how: &str) -> Table {
    let mut header = vec!["budget".to_owned()];
    for method in COMPARED {
        header.extend([method.title().to_owned(), "p".to_owned()]);
    }
    let cells = |found: &dyn Fn(Method) -> Option<Paired>| -> Vec<String> {
        let cells = COMPARED.into_iter().flat_map(|method| match found(method) {
            Some(paired) => [interval(&paired), p_value(&paired)],
            None => ["–".to_owned(), "–".to_owned()],
        });
        cells.collect()
    };
    let row = |budget: usize| {
        let found =
            |method: Method| sample.improvement(objective, method.over(Method::Random), budget);
        let mut row = vec![budget.to_string()];
        row.extend(cells(&found));
        row
    };
    let mut rows: Vec<Vec<String>> = sample.budgets().into_iter().map(row).collect();
    let mut mean = vec!["mean over budgets".to_owned()];
    mean.extend(cells(&|method: Method| {
        sample.overall(objective, method.over(Method::Random))
    }));
    rows.push(mean);
    let caption =
        format!("Improvement of the {} over Random [95 %] ({how})", objective.title());
    Table { caption, header, rows }
}

/// Mean errors of every method.
fn errors(sample: &Chosen<'_>) -> Table {
    let methods = Method::CHOOSING.into_iter().chain([Method::All]);
    let budgets = sample.budgets();
    let mut header = vec!["method".to_owned()];
    header.extend(budgets.iter().map(|budget| format!("budget {budget}")));
    let row = |method: Method| {
        let mut row = vec![match method {
            Method::All => format!("T = 8, {}", method.title()),
            _ => method.title().to_owned(),
        }];
        row.extend(budgets.iter().map(|&budget| {
            let errors = sample.errors(Objective::Query, method, budget);
            errors.map_or("–".to_owned(), |errors| estimate(Mean::of(&errors)))
        }));
        row
    };
    let caption = "Mean squared error at the query by method and budget".to_owned();
    Table { caption, header, rows: methods.map(row).collect() }
}

/// Paired differences between the rules themselves.
fn between_methods(sample: &Chosen<'_>) -> Table {
    let pairs = [
        Method::QueryAware.over(Method::TraceTop),
        Method::QueryAware.over(Method::QueryScore),
        Method::QueryScore.over(Method::TraceTop),
        Method::TraceTop.over(Method::TraceBottom),
        Method::QueryAware.over(Method::All),
    ];
    let mut header = vec!["budget".to_owned()];
    for MethodPair { baseline, method } in pairs {
        header.push(format!("{} over {}", method.title(), baseline.title()));
    }
    let cell = |found: Option<Paired>| found.map_or("–".to_owned(), |found| interval(&found));
    let row = |budget: usize| {
        let mut row = vec![budget.to_string()];
        let of = |pair| cell(sample.improvement(Objective::Query, pair, budget));
        row.extend(pairs.map(of));
        row
    };
    let mut rows: Vec<Vec<String>> = sample.budgets().into_iter().map(row).collect();
    let mut mean = vec!["mean over budgets".to_owned()];
    mean.extend(pairs.map(|pair| cell(sample.overall(Objective::Query, pair))));
    rows.push(mean);
    let caption = "Improvement of the query error between methods [95 %]".to_owned();
    Table { caption, header, rows }
}

/// Figures (b) and (c): improvement over random blocks by budget.
fn figure(
    experiment: Experiment,
    sample: &Chosen<'_>,
    objective: Objective,
    panel: &str,
) -> Figure {
    let mut series = vec![];
    let mut words = vec![];
    for method in COMPARED {
        let point = |budget: usize| {
            let paired = sample.improvement(objective, method.over(Method::Random), budget)?;
            let Mean { mean, error } = paired.difference;
            Some(Point { x: budget as f64, y: mean, error: Some(error) })
        };
        let points: Vec<Point> = sample.budgets().into_iter().filter_map(point).collect();
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            let name = method.title();
            words.push(format!("{name}: {:+.4} to {:+.4}", first.y, last.y));
        }
        let name = method.title().to_owned();
        let marks =
            Series { name: name.clone(), points: points.clone(), style: Style::Markers };
        series.extend([Series { name, points, style: Style::Line }, marks]);
    }
    let axis = |label: &str, log| Axis { label: label.to_owned(), log, range: None };
    let plot = Plot {
        title: format!("Improvement of the {} over Random", objective.title()),
        x: axis("budget (blocks)", true),
        y: axis("mean squared error of Random minus that of the method", false),
        series,
    };
    let name = match objective {
        Objective::Query => "query",
        Objective::Fit => "prompt-fit",
    };
    Figure {
        name: format!("{experiment}-{name}-improvement"),
        caption: format!(
            "Figure ({panel}): improvement of the {} over random blocks after eight steps; bars \
             are one standard error of the mean to either side.",
            objective.title()
        ),
        alternative: format!(
            "Improvement by budget, from the smallest to the largest. {}.",
            words.join("; ")
        ),
        svg: plot.svg(),
    }
}

/// A claim of the paper: one method improves something over another, up to some budget.
struct Stated {
    objective: Objective,
    pair: MethodPair,
    largest: usize,
    statement: &'static str,
    paper: &'static str,
}

/// Exp. 2.
const DIGITS: [Stated; 3] = [
    Stated {
        objective: Objective::Query,
        pair: Method::QueryAware.over(Method::Random),
        largest: usize::MAX,
        statement: "Query-Aware improves the query error over Random at all budgets (Fig. b)",
        paper: "consistently; shown as a figure",
    },
    Stated {
        objective: Objective::Query,
        pair: Method::QueryAware.over(Method::TraceTop),
        largest: usize::MAX,
        statement: "Query-Aware improves the query error over Trace-TopK at all budgets (Fig. b)",
        paper: "consistently; shown as a figure",
    },
    Stated {
        objective: Objective::Fit,
        pair: Method::TraceTop.over(Method::Random),
        largest: usize::MAX,
        statement: "Trace-TopK improves the prompt fit over Random at all budgets (Fig. c)",
        paper: "tends to; shown as a figure",
    },
];

/// App. J.
const SENTENCES: [Stated; 3] = [
    Stated {
        objective: Objective::Query,
        pair: Method::QueryAware.over(Method::Random),
        largest: usize::MAX,
        statement: "Query-Aware improves over Random at all budgets (App. J)",
        paper: "+0.0010 to +0.0059",
    },
    Stated {
        objective: Objective::Query,
        pair: Method::QueryAware.over(Method::TraceTop),
        largest: 8,
        statement: "Query-Aware is stronger than Trace-TopK up to budget 8 (App. J)",
        paper: "+0.0005 to +0.0014",
    },
    Stated {
        objective: Objective::Query,
        pair: Method::Random.over(Method::TraceBottom),
        largest: usize::MAX,
        statement: "Trace-BottomK hurts at all budgets (App. J)",
        paper: "0.0001 to 0.0047 worse than Random",
    },
];

fn claims(experiment: Experiment, sample: &Chosen<'_>) -> Vec<Claim> {
    let stated = if experiment == Experiment::Sst2 { &SENTENCES } else { &DIGITS };
    let mut claims: Vec<Claim> =
        stated.iter().filter_map(|stated| claim_of(stated, sample)).collect();
    if experiment != Experiment::Sst2 {
        let statement = "Query-Aware improves the query error over Random on average over \
                         budgets (Fig. b)";
        let overall = sample.overall(Objective::Query, Method::QueryAware.over(Method::Random));
        claims.extend(overall.map(|found| claim(statement, "shown as a figure", &found)));
    }
    claims
}

/// What became of a claim at every budget.
fn claim_of(stated: &Stated, sample: &Chosen<'_>) -> Option<Claim> {
    let &Stated { objective, pair, largest, statement, paper } = stated;
    let budgets = sample.budgets().into_iter().filter(|&budget| budget <= largest);
    let single: Vec<(usize, Paired)> = budgets
        .filter_map(|budget| Some((budget, sample.improvement(objective, pair, budget)?)))
        .collect();
    let words = |(budget, paired): &(usize, Paired)| {
        format!("{budget} {} ({:+.4})", short(verdict(paired)), paired.difference.mean)
    };
    let words: Vec<String> = single.iter().map(words).collect();
    let measured = format!("by budget: {}", words.join(", "));
    let verdict = together(single.iter().map(|(_, paired)| verdict(paired)));
    let (statement, paper) = (statement.to_owned(), paper.to_owned());
    (!single.is_empty()).then_some(Claim { statement, paper, measured, verdict })
}

#[cfg(test)]
mod tests {
    use super::super::document::Verdict;
    use super::*;

    /// A task in which blocks chosen by a method leave a known error at the query and on the
    /// prompt.
    fn record(
        task: usize,
        query: impl Fn(Method) -> f64,
        fit: impl Fn(Method) -> f64,
    ) -> Record {
        let noise = 0.001 * (task % 5) as f64;
        let both = |value: f64| Both { steps: Some(value), linear: value };
        let choice = |method: Method, budget: usize| {
            let draws = if method == Method::Random { 5 } else { 1 };
            let query = vec![both(query(method) + noise); draws];
            Choice { method, budget, query, fit: vec![both(fit(method) + noise); draws] }
        };
        let mut heads = vec![choice(Method::All, 48)];
        for budget in [1, 2] {
            heads.extend(Method::CHOOSING.map(|method| choice(method, budget)));
        }
        Record {
            task,
            regime: None,
            shift: None,
            target: 0.0,
            bayes: None,
            path: None,
            heads,
            trace: None,
        }
    }

    #[test]
    fn claims_follow_the_records() {
        let query = |method| match method {
            Method::QueryAware => 0.1,
            Method::TraceTop => 0.4,
            _ => 0.3,
        };
        let fit = |method| if method == Method::TraceTop { 0.1 } else { 0.2 };
        let records: Vec<Record> = (0..30).map(|task| record(task, query, fit)).collect();
        let section = section(Experiment::Heads, &records);
        assert!(section.claims.iter().all(|claim| claim.verdict == Verdict::Held));
        let sample = Chosen::new(&records, Dynamics::Steps);
        assert_eq!(sample.budgets(), [1, 2]);
        let found =
            sample.improvement(Objective::Query, Method::TraceTop.over(Method::Random), 2);
        assert!(found.unwrap().high < 0.0);
        let reversed: Vec<Record> = (0..30).map(|task| record(task, fit, query)).collect();
        let section = super::section(Experiment::Heads, &reversed);
        let verdicts: Vec<Verdict> = section.claims.iter().map(|claim| claim.verdict).collect();
        use Verdict::{NotHeld, Undecided};
        assert_eq!(verdicts, [Undecided, NotHeld, NotHeld, Undecided]);
    }

    /// Draws are averaged as errors, not as predictions.
    #[test]
    fn random_draws_count_by_their_errors() {
        let mut only = record(0, |_| 0.0, |_| 0.0);
        let random =
            only.heads.iter_mut().find(|choice| choice.method == Method::Random).unwrap();
        random.query[0].steps = Some(1.0);
        random.query[1].steps = Some(-1.0);
        let records = [only];
        let sample = Chosen::new(&records, Dynamics::Steps);
        let errors = sample.errors(Objective::Query, Method::Random, 1).unwrap();
        assert!((errors[0] - 0.4).abs() < 1e-12);
        assert_eq!(sample.errors(Objective::Query, Method::Random, 3), None);
    }
}
