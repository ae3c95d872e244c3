//! Tables and drawings of a report: every method over all sets and on each, sets of labels, arms.
//!
//! In: [`Case`]s. Out: [`Table`]s and [`Figure`]s.

use super::super::document::{Figure, Table};
use super::super::plot::{Axis, Plot, Point, Reach, Row, Rows, Series, Style};
use super::findings::{Case, Kind, Method, Metric};
use super::metrics::{Scored, area, bin, calibration_error};
use super::record::PromptRecord;
use super::resample::{Interval, average};
use super::targets::sets_of;
use super::variants::JUDGED;

/// A number with its interval and its sign.
pub(super) fn plus(found: Interval, digits: usize) -> String {
    let Interval { at, low, high } = found;
    // A sum of differences that cancel may be a little under 0.
    let least = 0.5 * 0.1_f64.powi(i32::try_from(digits).unwrap_or(i32::MAX));
    let [at, low, high] = [at, low, high].map(|x| if x.abs() < least { 0.0 } else { x });
    format!("{at:+.digits$} [{low:+.digits$}, {high:+.digits$}]")
}

/// A share with its interval.
pub(super) fn share(found: Interval) -> String {
    let Interval { at, low, high } = found.times(100.0);
    format!("{at:.1} % [{low:.1}, {high:.1}]")
}

fn dash() -> String {
    "–".to_owned()
}

/// Every method in the mean over sets.
pub(super) fn overall(case: &Case<'_>) -> Table {
    let header = [
        "method",
        "accuracy, %",
        "against ICL",
        "log-loss",
        "against ICL",
        "Brier score",
        "calibration error",
        "share of the oracle's gain",
    ];
    let oracle = case.method(super::findings::ORACLE);
    let row = |method: &Method| {
        let number = |metric, digits: usize| {
            case.mean(method, metric).map_or_else(dash, |mean| format!("{:.digits$}", mean.at))
        };
        let change = |metric, digits| {
            case.over(method, case.icl(), metric).map_or_else(dash, |found| plus(found, digits))
        };
        let error = case.pooled(method, |scored| calibration_error(scored));
        let gain = oracle.filter(|_| method.name != "ICL");
        let gain = gain.and_then(|oracle| case.share(method, oracle));
        vec![
            method.name.clone(),
            number(Metric::Accuracy, 1),
            change(Metric::Accuracy, 1),
            number(Metric::LogLoss, 3),
            change(Metric::LogLoss, 3),
            number(Metric::Brier, 3),
            error.map_or_else(dash, |error| format!("{:.3}", error.at)),
            gain.map_or_else(dash, |gain| format!("{:.0} %", 100.0 * gain.at)),
        ]
    };
    Table {
        caption: format!("Mean over sets, {} examples; 95 % intervals over prompts", case.size),
        header: header.map(str::to_owned).to_vec(),
        rows: case.methods.iter().map(row).collect(),
    }
}

/// Every method on every set, by one metric; changes against in-context learning for the judged one.
pub(super) fn by_set(case: &Case<'_>, metric: Metric) -> Table {
    let digits = if metric == Metric::Accuracy { 1 } else { 3 };
    let places: Vec<usize> = (0..case.records.len()).collect();
    let cell = |method: &Method, set: usize| {
        let values = method.values(set, metric);
        let mean = values.map_or_else(dash, |values| format!("{:.digits$}", average(&values)));
        let change = (method.name == JUDGED)
            .then(|| case.over_on(set, (method, case.icl()), metric))
            .flatten();
        change.map_or(mean.clone(), |change| format!("{mean} ({})", plus(change, digits)))
    };
    let row = |method: &Method| {
        let cells = places.iter().map(|&set| cell(method, set));
        std::iter::once(method.name.clone()).chain(cells).collect()
    };
    let names = case.records.iter().map(|(set, records)| format!("{set} ({})", records.len()));
    Table {
        caption: format!(
            "{} by set, {} examples (number of prompts); {JUDGED} with its change against ICL",
            metric.name(),
            case.size
        ),
        header: std::iter::once("method".to_owned()).chain(names).collect(),
        rows: case.methods.iter().map(row).collect(),
    }
}

/// Sets of labels, abstention and calibration of the judged policy, set by set.
pub(super) fn trust(case: &Case<'_>) -> Table {
    let header = [
        "set",
        "sets hold the answer",
        "labels in a set",
        "labels",
        "calibration error",
        "of ICL",
        "area: wrong answers by abstention",
        "by largest probability",
        "area: out of scope by abstention",
        "by largest probability",
    ];
    let row = |(place, (set, records)): (usize, &(super::DataSet, Vec<&PromptRecord>))| {
        let at = |drawn: &[usize]| sets_of(records, drawn).map_or(f64::NAN, |found| found.0);
        let whole: Vec<usize> = (0..records.len()).collect();
        let held = case.resampling.interval(|draw| at(&draw[place]));
        let size = sets_of(records, &whole).map_or(f64::NAN, |found| found.1);
        let error = |method: Option<&Method>| {
            let prompts = method.and_then(|method| method.sets[place].as_ref());
            prompts.map_or_else(dash, |prompts| {
                format!("{:.3}", calibration_error(prompts.iter().flatten().copied()))
            })
        };
        let labels = average(&records.iter().map(|r| r.classes as f64).collect::<Vec<_>>());
        let areas =
            areas(records).map(|area| area.map_or_else(dash, |area| format!("{area:.3}")));
        let own = [
            set.to_string(),
            share(held),
            format!("{size:.2}"),
            format!("{labels:.0}"),
            error(case.method(JUDGED)),
            error(Some(case.icl())),
        ];
        own.into_iter().chain(areas).collect()
    };
    Table {
        caption: format!("What {JUDGED} says of its own answers, {} examples", case.size),
        header: header.map(str::to_owned).to_vec(),
        rows: case.records.iter().enumerate().map(row).collect(),
    }
}

/// Areas under the ROC curve for wrong answers and for what is out of scope: by the abstention score,
/// and by one less the largest probability. Ranks are within no prompt: all queries are pooled.
fn areas(records: &[&PromptRecord]) -> [Option<f64>; 4] {
    // Right and wrong answers, and what has none: abstention and one less the largest probability.
    let mut found: [[Vec<f64>; 3]; 2] = Default::default();
    for record in records {
        let judged = record.policies.iter().find(|policy| policy.name == JUDGED);
        let Some(judged) = judged.filter(|policy| policy.refused.is_none()) else { continue };
        let rows = judged.probabilities.iter().zip(&judged.abstention).zip(&record.targets);
        for ((row, &abstention), target) in rows {
            let scored = target.map(|target| Scored::of(row, target));
            let group = scored.map_or(2, |one| usize::from(one.right < 0.5));
            let largest = row.iter().copied().fold(0.0, f64::max);
            found[0][group].push(abstention);
            found[1][group].push(1.0 - largest);
        }
    }
    let wrong = |of: &[Vec<f64>; 3]| area(&of[1], &of[0]);
    let outside = |of: &[Vec<f64>; 3]| area(&of[2], &[of[0].clone(), of[1].clone()].concat());
    [wrong(&found[0]), wrong(&found[1]), outside(&found[0]), outside(&found[1])]
}

/// The mean weights of the judged policy's arms, set by set.
pub(super) fn weights(case: &Case<'_>) -> Table {
    let mut names: Vec<String> =
        vec!["ICL left alone".to_owned(), "zero-shot left alone".to_owned()];
    let judged = |record: &&PromptRecord| {
        record.policies.iter().find(|policy| policy.name == JUDGED).cloned()
    };
    let any = case.records.iter().flat_map(|(_, records)| records).find_map(judged);
    let arms: Vec<String> = any.map_or_else(Vec::new, |policy| {
        policy.arms.iter().map(|arm| arm.name.clone()).collect()
    });
    names.extend(arms.iter().map(|name| format!("{name} (loss)")));
    let row = |(set, records): &(super::DataSet, Vec<&PromptRecord>)| {
        let policies: Vec<_> = records.iter().filter_map(judged).collect();
        let mean = |of: &dyn Fn(&super::PolicyRecord) -> f64| {
            average(&policies.iter().map(of).collect::<Vec<_>>())
        };
        let mut cells = vec![
            set.to_string(),
            format!("{:.2}", mean(&|policy| 1.0 - policy.weight)),
            format!("{:.2}", mean(&|policy| policy.zero_shot)),
        ];
        for place in 0..arms.len() {
            let weight = mean(&|policy| policy.arms.get(place).map_or(0.0, |arm| arm.weight));
            let losses = policies.iter().filter_map(|policy| policy.arms.get(place)?.average);
            let loss = average(&losses.collect::<Vec<_>>());
            cells.push(format!("{weight:.2} ({loss:.3})"));
        }
        cells
    };
    Table {
        caption: format!(
            "Mean weights of {JUDGED}'s arms, and the leave-one-out log-loss of each one's average, \
             {} examples",
            case.size
        ),
        header: std::iter::once("set".to_owned()).chain(names).collect(),
        rows: case.records.iter().map(row).collect(),
    }
}

/// The judged policy, in-context learning and the other methods by the number of examples.
pub(super) fn by_size(cases: &[Case<'_>]) -> Table {
    let names: Vec<&String> = cases[0]
        .methods
        .iter()
        .filter(|method| method.kind == Kind::Peer || method.name == JUDGED)
        .map(|method| &method.name)
        .collect();
    let row = |name: &&String| {
        let cell = |case: &Case<'_>| {
            let mean = |metric| case.method(name).and_then(|method| case.mean(method, metric));
            match (mean(Metric::Accuracy), mean(Metric::LogLoss)) {
                (Some(right), Some(loss)) => format!("{:.1}, {:.3}", right.at, loss.at),
                _ => dash(),
            }
        };
        std::iter::once((*name).clone()).chain(cases.iter().map(cell)).collect()
    };
    let mut rows: Vec<Vec<String>> = names.iter().map(row).collect();
    let change = |place: usize| match place.checked_sub(1) {
        None => dash(),
        Some(before) => super::targets::added(&cases[before], &cases[place])
            .map_or_else(dash, |change| plus(change, 1)),
    };
    let changes = (0..cases.len()).map(change);
    rows.push(
        std::iter::once(format!("{JUDGED}, accuracy against fewer")).chain(changes).collect(),
    );
    Table {
        caption: "Accuracy (%) and log-loss by the number of examples, mean over sets"
            .to_owned(),
        header: std::iter::once("method".to_owned())
            .chain(cases.iter().map(|case| format!("{} examples", case.size)))
            .collect(),
        rows,
    }
}

/// Gains over in-context learning in the mean over sets, method by method.
pub(super) fn gains(case: &Case<'_>) -> Figure {
    let row = |method: &Method| {
        let change = case.over(method, case.icl(), Metric::Accuracy)?;
        let Interval { at, low, high } = change;
        Some(Row { name: method.name.clone(), marks: vec![Some(Reach { low, at, high })] })
    };
    let rows = case.methods[1..].iter().filter_map(row).collect();
    let title = format!("Accuracy against in-context learning, {} examples", case.size);
    let x = Axis::new("change of the accuracy, points, mean over sets");
    let drawing = Rows { title, x, series: vec!["95 % interval".to_owned()], rows };
    Figure {
        name: format!("accuracy-{}", case.size),
        caption: "What each method gains over in-context learning. To the right is better; what sees \
                  the answers stands last."
            .to_owned(),
        alternative: "Intervals of the change of accuracy, one per method; the first table has the \
                      numbers."
            .to_owned(),
        svg: drawing.svg(),
    }
}

/// How often answers are right, by how sure they are: in-context learning and the judged policy.
pub(super) fn reliability(case: &Case<'_>) -> Figure {
    let mut series = vec![Series {
        name: "as sure as right".to_owned(),
        points: vec![Point::new(0.0, 0.0), Point::new(1.0, 1.0)],
        style: Style::Line,
    }];
    for method in [Some(case.icl()), case.method(JUDGED)].into_iter().flatten() {
        let mut bins = [(0.0, 0.0, 0.0); 10];
        for one in method.sets.iter().flatten().flatten().flatten() {
            let bin = &mut bins[bin(one.confidence)];
            *bin = (bin.0 + one.confidence, bin.1 + one.right, bin.2 + 1.0);
        }
        let full = bins.iter().filter(|(_, _, count)| *count > 0.0);
        let points = full.map(|(sum, right, count)| Point::new(sum / count, right / count));
        let points: Vec<Point> = points.collect();
        for style in [Style::Line, Style::Markers] {
            series.push(Series { name: method.name.clone(), points: points.clone(), style });
        }
    }
    let plot = Plot {
        title: "Confidence and accuracy".to_owned(),
        x: Axis::new("largest probability").within(0.0, 1.0),
        y: Axis::new("share of right answers").within(0.0, 1.0),
        series,
    };
    Figure {
        name: format!("calibration-{}", case.size),
        caption:
            "Answers of all sets in ten bins of their largest probability. Under the line they \
                  are surer than right."
                .to_owned(),
        alternative: "Accuracy by confidence for in-context learning and the default policy."
            .to_owned(),
        svg: plot.svg(),
    }
}
