//! What the records say about how far to go: Table 1, its statistics, its figures and the paper's
//! claims.

use super::digit_shift::Regime;
use super::document::{Claim, Figure, Section, Table, Verdict};
use super::findings::{claim, estimate, interval, p_value, texts};
use super::methods::{HorizonMethod, Sample};
use super::plot::{Axis, Plot, Point, Series, Style};
use super::record::Record;
use super::settings::{Experiment, FIXED_HORIZON};
use super::statistics::{Paired, between};
use crate::assessment::Mean;
use crate::error::Error;
use fewstep::Dynamics;
use fewstep_theory::risk::decompose;

/// The part of a report about how far to go.
///
/// # Errors
///
/// None for records of finite numbers.
pub(crate) fn section(experiment: Experiment, records: &[Record]) -> Result<Section, Error> {
    let steps = Sample::new(records, Dynamics::Steps);
    let linear = Sample::new(records, Dynamics::Linear);
    let main = &Sample::preferred(records);
    let mut tables = vec![];
    for (sample, how) in [(&steps, "gradient steps in the model"), (&linear, "linear dynamics")]
    {
        if !sample.is_empty() {
            tables.push(errors(sample, how));
        }
    }
    tables.push(comparisons(main, HorizonMethod::Icl));
    tables.push(comparisons(main, HorizonMethod::Eight));
    tables.extend(gaps(main)?);
    let mut figures = vec![curve(experiment, main)];
    let mut claims = claims(experiment, main);
    if experiment == Experiment::DigitShift {
        figures.insert(0, ecdf(main));
        claims.extend(adaptive(main));
        claims.push(best_fixed(main));
    }
    Ok(Section { title: title(experiment), text: text(main), tables, figures, claims })
}

fn title(experiment: Experiment) -> String {
    let place = match experiment {
        Experiment::Sst2 => "App. J",
        _ => "Exp. 1",
    };
    format!("How far to go ({place})")
}

fn text(sample: &Sample<'_>) -> Vec<String> {
    vec![
        format!(
            "{} tasks. Errors are squared differences between the prediction for the query and \
             its clean label, whose values run from 0 to 1. Candidate horizons are 0 to {}.",
            sample.len(),
            sample.longest()
        ),
        "Improvements are paired by task: the error of the baseline minus that of the method, so \
         that positive numbers are good. Intervals hold the middle 95 % of 10,000 resampled \
         means; p-values count 20,000 random sign patterns. A claim held if the whole interval \
         is on its side of 0, it did not hold if the whole interval is on the other side, both \
         with p under 0.05, and it is undecided otherwise. From the best fixed T in hindsight on, \
         rows look at the answers or at how the tasks were made: they are bounds, not methods."
            .to_owned(),
    ]
}

/// All tasks, and those of each regime if there are regimes.
fn groups<'a>(sample: &Sample<'a>) -> Vec<(&'static str, Sample<'a>)> {
    let of = |regime| sample.only(|record| record.regime == Some(regime));
    let parts = [("clean", of(Regime::Clean)), ("noisy", of(Regime::Noisy))];
    let parts = parts.into_iter().filter(|(_, sample)| !sample.is_empty());
    std::iter::once(("all", sample.clone())).chain(parts).collect()
}

/// Table 1: mean squared errors and mean numbers of steps.
fn errors(sample: &Sample<'_>, how: &str) -> Table {
    let groups = groups(sample);
    let mut header = vec!["method".to_owned()];
    for (name, group) in &groups {
        header.push(format!("MSE ± SE, {name} ({})", group.len()));
    }
    header.extend(groups.iter().map(|(name, _)| format!("mean T, {name}")));
    let row = |method: HorizonMethod| {
        let mut row = vec![method.title().to_owned()];
        for (_, group) in &groups {
            row.push(estimate(Mean::of(&group.errors(method)?)));
        }
        for (_, group) in &groups {
            let steps = group.horizons(method).map(|steps| Mean::of(&steps).mean);
            row.push(steps.map_or("–".to_owned(), |mean| format!("{mean:.2}")));
        }
        Some(row)
    };
    let rows = HorizonMethod::ALL.into_iter().filter_map(row).collect();
    let caption = format!("Query error by method ({how})");
    Table { caption, header, rows }
}

/// Paired improvements over a baseline.
fn comparisons(sample: &Sample<'_>, baseline: HorizonMethod) -> Table {
    let groups = groups(sample);
    let mut header = vec!["method".to_owned()];
    for (name, _) in &groups {
        header.extend([format!("improvement [95 %], {name}"), format!("p, {name}")]);
    }
    let row = |method: HorizonMethod| {
        let mut row = vec![method.title().to_owned()];
        for (_, group) in &groups {
            let found = improvement(group, baseline, method)?;
            row.extend([interval(&found), p_value(&found)]);
        }
        Some(row)
    };
    let others = HorizonMethod::ALL
        .into_iter()
        .filter(|&method| method != baseline && method != HorizonMethod::Oracle);
    let rows = others.filter_map(row).collect();
    Table { caption: format!("Improvement over {}", baseline.title()), header, rows }
}

/// The paired improvement of one method over another; `None` where one of them is not known.
pub(crate) fn improvement(
    sample: &Sample<'_>,
    baseline: HorizonMethod,
    method: HorizonMethod,
) -> Option<Paired> {
    let seed = method as u64 * 16 + baseline as u64;
    Some(Paired::improvement(&sample.errors(baseline)?, &sample.errors(method)?, seed))
}

/// Prop. 2.1, where the exact predictor is known.
fn gaps(sample: &Sample<'_>) -> Result<Option<Table>, Error> {
    let Some(bayes) = sample.predictions(HorizonMethod::Bayes).filter(|found| found.len() > 1)
    else {
        return Ok(None);
    };
    let targets = sample.targets();
    let mut rows = vec![];
    for method in HorizonMethod::ALL
        .into_iter()
        .filter(|method| !matches!(method, HorizonMethod::Oracle | HorizonMethod::Bayes))
    {
        let Some(found) = sample.predictions(method) else { continue };
        let parts = decompose(&found, &bayes, &targets)?;
        let mut row = vec![method.title().to_owned()];
        for part in [parts.risk, parts.gap, parts.posterior_variance, parts.cross] {
            row.push(estimate(Mean { mean: part.mean, error: part.standard_error }));
        }
        rows.push(row);
    }
    let exact = Mean::of(&sample.posterior_variances());
    Ok(Some(Table {
        caption: format!(
            "Risk = Bayes gap + posterior variance + cross term, whose expectation is 0 \
             (Prop. 2.1); the exact posterior variance is {} on average",
            estimate(exact)
        ),
        header: texts([
            "method",
            "risk",
            "Bayes gap",
            "error of the Bayes predictor",
            "cross term",
        ]),
        rows,
    }))
}

fn claims(experiment: Experiment, sample: &Sample<'_>) -> Vec<Claim> {
    let stated: &[(HorizonMethod, HorizonMethod, &str, &str)] = match experiment {
        Experiment::Sst2 => &[
            (
                HorizonMethod::Eight,
                HorizonMethod::EvidenceFixed,
                "Fixed-σ evidence improves over T = 8 (App. J)",
                "0.328 → 0.325",
            ),
            (
                HorizonMethod::Eight,
                HorizonMethod::Evidence,
                "MLE-σ evidence improves over T = 8 (App. J)",
                "0.328 → 0.324",
            ),
        ],
        _ => &[
            (
                HorizonMethod::Icl,
                HorizonMethod::Eight,
                "T = 8 improves over in-context learning (Table 1)",
                "0.0747 → 0.0734, [0.000648, 0.001796], p 5.0e-5",
            ),
            (
                HorizonMethod::Eight,
                HorizonMethod::EvidenceFixed,
                "Fixed-σ evidence improves over T = 8 (Sec. 9)",
                "0.0734 → 0.0722, [0.000545, 0.002894], p 0.00325",
            ),
            (
                HorizonMethod::Eight,
                HorizonMethod::Evidence,
                "MLE-σ evidence improves over T = 8 (Sec. 9)",
                "0.0734 → 0.0719, [0.000605, 0.003079], p 0.00250",
            ),
            (
                HorizonMethod::Icl,
                HorizonMethod::Evidence,
                "MLE-σ evidence improves over in-context learning (Table 1)",
                "0.0747 → 0.0719",
            ),
        ],
    };
    let found = stated.iter().filter_map(|&(baseline, method, statement, paper)| {
        Some(claim(statement, paper, &improvement(sample, baseline, method)?))
    });
    found.collect()
}

/// Claims about the chosen horizons: they differ between prompts, and are longer on clean ones.
fn adaptive(sample: &Sample<'_>) -> Vec<Claim> {
    let of = |regime| {
        sample
            .only(|record| record.regime == Some(regime))
            .horizons(HorizonMethod::EvidenceFixed)
    };
    let mut claims = vec![];
    if let (Some(clean), Some(noisy)) = (of(Regime::Clean), of(Regime::Noisy)) {
        let statement = "Fixed-σ evidence takes more steps on clean prompts than on noisy ones \
                         (Fig. a)";
        let apart = between(&clean, &noisy, 1);
        let mut found = claim(statement, "stated without a number", &apart);
        let Paired { difference, low, high, .. } = apart;
        found.measured = format!(
            "{:+.2} steps [{low:+.2}, {high:+.2}], p {}",
            difference.mean,
            p_value(&apart)
        );
        claims.push(found);
    }
    let Some(horizons) =
        sample.horizons(HorizonMethod::EvidenceFixed).filter(|all| !all.is_empty())
    else {
        return claims;
    };
    let count = |wanted: f64| {
        horizons.iter().filter(|found| found.to_bits() == wanted.to_bits()).count()
    };
    let most = horizons.iter().copied().max_by_key(|&found| count(found)).unwrap_or(0.0);
    let share: Vec<f64> = horizons
        .iter()
        .map(|found| f64::from(u8::from(found.to_bits() == most.to_bits())))
        .collect();
    let Mean { mean, error } = Mean::of(&share);
    let verdict = match mean {
        _ if mean + 1.96 * error < 0.5 => Verdict::Held,
        _ if mean - 1.96 * error > 0.5 => Verdict::NotHeld,
        _ => Verdict::Undecided,
    };
    claims.push(Claim {
        statement:
            "No single horizon serves most prompts: fewer than half choose the commonest \
                    (Fig. a, C2)"
                .to_owned(),
        paper: "substantial variation across prompts".to_owned(),
        measured: format!(
            "T = {most} is chosen by {:.1} ± {:.1} %",
            100.0 * mean,
            100.0 * error
        ),
        verdict,
    });
    claims
}

/// Whether eight is the best fixed number of steps: another one is chosen on one half of the
/// tasks and compared on the other.
fn best_fixed(sample: &Sample<'_>) -> Claim {
    let half = |rest| sample.only(move |record| record.task % 2 == rest);
    let best = half(0).hindsight();
    let test = half(1);
    let eight = test.errors_at(FIXED_HORIZON as usize);
    let found = Paired::improvement(&test.errors_at(best), &eight, 2);
    let verdict = match super::findings::verdict(&found) {
        _ if best == FIXED_HORIZON as usize => Verdict::Held,
        Verdict::NotHeld => Verdict::NotHeld,
        Verdict::Held | Verdict::Undecided => Verdict::Undecided,
    };
    Claim {
        statement:
            "T = 8 is the best fixed horizon (Sec. 9); here another is chosen on one half \
                    of the tasks and compared with it on the other"
                .to_owned(),
        paper: "T = 8".to_owned(),
        measured: match best == FIXED_HORIZON as usize {
            true => "T = 8 is best on the first half".to_owned(),
            false => format!(
                "T = {best} is best on the first half; T = 8 over it on the second: {}",
                interval(&found)
            ),
        },
        verdict,
    }
}

/// Figure (a): which share of the tasks is done after each number of steps.
fn ecdf(sample: &Sample<'_>) -> Figure {
    let longest = sample.longest();
    let mut series = vec![];
    let mut medians = vec![];
    for (method, rule) in
        [(HorizonMethod::EvidenceFixed, "fixed σ"), (HorizonMethod::Evidence, "MLE σ")]
    {
        for (name, group) in groups(sample).into_iter().skip(1) {
            let mut steps = group.horizons(method).unwrap_or_default();
            steps.sort_by(f64::total_cmp);
            let count = steps.len() as f64;
            let share = |horizon: usize| {
                let reached = steps.iter().filter(|&&found| found <= horizon as f64).count();
                Point { x: horizon as f64, y: reached as f64 / count, error: None }
            };
            let name = format!("{name}, {rule}");
            medians.push(format!("{name}: median {}", steps[steps.len() / 2]));
            let points = (0..=longest).map(share).collect();
            series.push(Series { name, points, style: Style::Steps });
        }
    }
    let plot = Plot {
        title: "Chosen number of steps".to_owned(),
        x: axis("number of steps T", Some((0.0, longest as f64))),
        y: axis("share of tasks with at most T", Some((0.0, 1.0))),
        series,
    };
    Figure {
        name: "chosen-horizons".to_owned(),
        caption:
            "Figure (a): the distribution of the number of steps that evidence chooses, by \
                  regime. A curve further to the right takes more steps."
                .to_owned(),
        alternative: format!("Cumulative shares of tasks. {}.", medians.join("; ")),
        svg: plot.svg(),
    }
}

/// Mean errors against the number of steps.
fn curve(experiment: Experiment, sample: &Sample<'_>) -> Figure {
    let longest = sample.longest();
    let mut series = vec![];
    let mut words = vec![];
    for (name, group) in groups(sample) {
        let point = |horizon: usize| {
            let mean = Mean::of(&group.errors_at(horizon));
            Point { x: horizon as f64, y: mean.mean, error: Some(mean.error) }
        };
        let points: Vec<Point> = (0..=longest).map(point).collect();
        let best = group.hindsight();
        let (first, least) = (points[0].y, points[best].y);
        words.push(format!("{name}: {first:.4} without steps, least {least:.4} at T = {best}"));
        series.push(Series {
            name: name.to_owned(),
            points: points.clone(),
            style: Style::Band,
        });
        series.push(Series { name: name.to_owned(), points, style: Style::Line });
    }
    let plot = Plot {
        title: "Query error against steps".to_owned(),
        x: axis("number of steps T", Some((0.0, longest as f64))),
        y: axis("mean squared error at the query", None),
        series,
    };
    Figure {
        name: format!("{experiment}-error-by-steps"),
        caption: "Mean squared error at the query after T steps on every task; bands are one \
                  standard error of the mean to either side."
            .to_owned(),
        alternative: format!("Mean errors by number of steps. {}.", words.join("; ")),
        svg: plot.svg(),
    }
}

fn axis(label: &str, range: Option<(f64, f64)>) -> Axis {
    Axis { label: label.to_owned(), log: false, range }
}

#[cfg(test)]
mod tests {
    use super::super::methods::tests::record;
    use super::*;

    fn find<'a>(section: &'a Section, start: &str) -> &'a Claim {
        section.claims.iter().find(|claim| claim.statement.starts_with(start)).unwrap()
    }

    /// Predictions that steps improve on every task: what must hold holds, what must not does not.
    #[test]
    fn claims_follow_the_records() {
        let slope = |task: usize| -0.01 - 0.001 * (task % 7) as f64;
        let chosen = |task: usize| {
            let clean = task.is_multiple_of(2);
            (if clean { 20 } else { 4 }) + u32::try_from(task % 5).unwrap()
        };
        let records: Vec<Record> =
            (0..60).map(|task| record(task, 1.0, slope(task), chosen(task))).collect();
        let section = section(Experiment::DigitShift, &records).unwrap();
        assert_eq!(find(&section, "T = 8 improves").verdict, Verdict::Held);
        assert_eq!(find(&section, "MLE-σ evidence improves over T = 8").verdict, Verdict::Held);
        assert_eq!(find(&section, "Fixed-σ evidence takes more").verdict, Verdict::Held);
        assert_eq!(find(&section, "No single horizon").verdict, Verdict::Held);
        // Thirty steps are better than eight.
        assert_eq!(find(&section, "T = 8 is the best").verdict, Verdict::NotHeld);
        let table = &section.tables[0];
        assert_eq!(table.header.len(), 7);
        assert_eq!(table.rows.len(), HorizonMethod::ALL.len());
        let icl = &table.rows[0];
        assert_eq!((icl[1].as_str(), icl[4].as_str()), ("1.0000 ± 0.0000", "0.00"));
        assert!(section.figures.iter().any(|figure| figure.name == "chosen-horizons"));
    }

    /// The same records with every step in the wrong direction.
    #[test]
    fn claims_that_fail_are_reported_as_failing() {
        let records: Vec<Record> = (0..60)
            .map(|task| record(task, 1.0, 0.01 + 0.001 * (task % 7) as f64, 12))
            .collect();
        let section = section(Experiment::DigitShift, &records).unwrap();
        assert_eq!(find(&section, "T = 8 improves").verdict, Verdict::NotHeld);
        assert_eq!(
            find(&section, "MLE-σ evidence improves over T = 8").verdict,
            Verdict::NotHeld
        );
        assert_eq!(find(&section, "No single horizon").verdict, Verdict::NotHeld);
        assert_eq!(find(&section, "Fixed-σ evidence takes more").verdict, Verdict::Undecided);
    }
}
