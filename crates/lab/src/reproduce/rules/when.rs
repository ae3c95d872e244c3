//! The default policy, query by query: when it hurts, what a gate would save, and whether its error
//! bars hold.
//!
//! In: [`Case`]s for which the default policy was followed. Out: tables, over every query of every
//! prompt. All of it is looked at after the decision: no gate or interval here changes what was done.

use super::super::document::Table;
use super::super::families::Family;
use super::case::{Case, Outlook};
use crate::assessment::Mean;
use crate::error::Error;
use fewstep::Dynamics;

/// Shares of the weight on steps under which a gate leaves the model alone.
const GATES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 0.9];
/// How often intervals are meant to hold the answer.
const COVERAGES: [f64; 3] = [0.5, 0.8, 0.9];
/// Quarters of the tasks that are answered, the most certain ones first.
const ANSWERED: [usize; 4] = [4, 3, 2, 1];

/// What the default policy did at all queries of a family.
type Outlooks = Vec<(Family, Vec<Outlook>)>;

/// Tables about the default policy; none if it was not followed by these dynamics.
pub(super) fn tables(
    cases: &[(Family, Vec<Case>)],
    dynamics: Dynamics,
) -> Result<Vec<Table>, Error> {
    let mut families: Outlooks = vec![];
    for (family, cases) in cases {
        let mut found = vec![];
        for case in cases {
            found.extend(case.outlook(dynamics, &COVERAGES)?);
        }
        if !found.is_empty() {
            families.push((*family, found));
        }
    }
    if families.is_empty() {
        return Ok(vec![]);
    }
    Ok(vec![harm(&families), gates(&families), coverage(&families), abstention(&families)])
}

fn table(
    families: &Outlooks,
    caption: &str,
    first: &[&str],
    row: impl Fn(&[Outlook]) -> Vec<String>,
) -> Table {
    let rows = families.iter().map(|(family, all)| {
        let named = std::iter::once(family.to_string());
        named.chain(row(all)).collect()
    });
    let header = std::iter::once("tasks").chain(first.iter().copied()).map(str::to_owned);
    Table { caption: caption.to_owned(), header: header.collect(), rows: rows.collect() }
}

/// How often a single prediction gets worse, and by how much.
fn harm(families: &Outlooks) -> Table {
    let caption = "When the default policy hurts: squared errors of single predictions, and how the \
         changes of those made worse and of those made better add up";
    let header = [
        "predictions",
        "adapted to",
        "made worse",
        "by (mean)",
        "made better",
        "by (mean)",
        "worse / better",
    ];
    table(families, caption, &header, |all| {
        let adapted = share(all, |outlook| (outlook.adapted - outlook.base).abs() > 0.0);
        let changes = || all.iter().map(|outlook| outlook.error() - outlook.untouched());
        let worse: Vec<f64> = changes().filter(|change| *change > 0.0).collect();
        let better: Vec<f64> = changes().filter(|c| *c < 0.0).map(|change| -change).collect();
        let sum = |changes: &[f64]| changes.iter().sum::<f64>();
        let part = |changes: &[f64]| percent(changes.len() as f64 / all.len() as f64);
        let ratio = sum(&worse) / sum(&better);
        vec![
            all.len().to_string(),
            percent(adapted),
            part(&worse),
            format!("{:.4}", Mean::of(&worse).mean),
            part(&better),
            format!("{:.4}", Mean::of(&better).mean),
            if ratio.is_finite() { format!("{ratio:.2}") } else { "–".to_owned() },
        ]
    })
}

/// What leaving more prompts alone would have changed.
fn gates(families: &Outlooks) -> Table {
    let caption = "What a gate would save: the change of the squared error against no adaptation if the \
         model is left alone unless so much of the weight is on steps, and how many predictions get \
         worse then";
    let header = GATES.map(|gate| match gate {
        0.0 => "no gate".to_owned(),
        gate => format!("{} on steps", percent(gate)),
    });
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table(families, caption, &header, |all| {
        let untouched: f64 = all.iter().map(Outlook::untouched).sum();
        let gated = |gate: f64| {
            let error = move |outlook: &Outlook| match outlook.weight >= gate {
                true => outlook.error(),
                false => outlook.untouched(),
            };
            let total: f64 = all.iter().map(error).sum();
            let hurt = share(all, |outlook| error(outlook) > outlook.untouched());
            format!("{:+.0} %, {}", 100.0 * (total / untouched - 1.0), percent(hurt))
        };
        GATES.map(gated).to_vec()
    })
}

/// How often intervals hold the answer.
fn coverage(families: &Outlooks) -> Table {
    let caption = "How often error bars hold the answer: leave-one-out intervals (jackknife+, \
         clamped to the labels) with their mean width, and the prediction ± 1.28 posterior standard \
         deviations, which would hold 80 % of normal errors";
    let intervals = COVERAGES.map(|coverage| format!("meant {}", percent(coverage)));
    let header: Vec<&str> =
        intervals.iter().map(String::as_str).chain(["± 1.28 deviations"]).collect();
    table(families, caption, &header, |all| {
        let held = |index: usize| {
            let within = |outlook: &Outlook| outlook.holds(outlook.intervals[index]);
            let widths: Vec<f64> =
                all.iter().map(|o| o.intervals[index][1] - o.intervals[index][0]).collect();
            format!("{}, width {:.2}", with_error(all, within), Mean::of(&widths).mean)
        };
        let bars = |outlook: &Outlook| {
            let reach = 1.281_551_565_545 * outlook.deviation;
            outlook.holds([outlook.adapted - reach, outlook.adapted + reach])
        };
        (0..COVERAGES.len()).map(held).chain([with_error(all, bars)]).collect()
    })
}

/// Errors on the tasks that are answered if the least certain ones are not.
fn abstention(families: &Outlooks) -> Table {
    let caption = "Abstention: the mean squared error of the predictions with the narrowest intervals \
         (meant 80 %)";
    let header = ANSWERED.map(|quarters| match quarters {
        4 => "all".to_owned(),
        quarters => format!("the surest {} %", 25 * quarters),
    });
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table(families, caption, &header, |all| {
        let mut sorted: Vec<&Outlook> = all.iter().collect();
        let width = |outlook: &Outlook| outlook.intervals[1][1] - outlook.intervals[1][0];
        sorted.sort_by(|a, b| width(a).total_cmp(&width(b)));
        let error = |quarters: usize| {
            let count = (quarters * all.len()).div_ceil(4);
            let errors: Vec<f64> = sorted.iter().take(count).map(|o| o.error()).collect();
            format!("{:.4}", Mean::of(&errors).mean)
        };
        ANSWERED.map(error).to_vec()
    })
}

fn share(all: &[Outlook], holds: impl Fn(&Outlook) -> bool) -> f64 {
    all.iter().filter(|outlook| holds(outlook)).count() as f64 / all.len().max(1) as f64
}

/// A share with its standard error. Prompts are independent, their queries are not: what these
/// differ by from the share is added up before it is squared. With one query per prompt this is
/// `√(p(1 − p)/n)`.
fn with_error(all: &[Outlook], holds: impl Fn(&Outlook) -> bool) -> String {
    let share = share(all, &holds);
    let off = |outlook: &Outlook| f64::from(u8::from(holds(outlook))) - share;
    let prompts = all.chunk_by(|_, next| next.further);
    let squares = prompts.map(|prompt| prompt.iter().map(off).sum::<f64>().powi(2));
    let error = squares.sum::<f64>().sqrt() / all.len().max(1) as f64;
    format!("{:.0} ± {:.0} %", 100.0 * share, 100.0 * error)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::super::super::policies::DEFAULT_POLICY;
    use super::super::case::tests::{case_of, two_cases};
    use super::*;

    fn column<'t>(table: &'t Table, name: &str) -> &'t str {
        let place = table.header.iter().position(|header| header == name);
        &table.rows[0][place.unwrap()]
    }

    /// The model says 0, the policy 0.25. It is better for an answer of 0.4 (0.0225 for 0.16), and
    /// worse for answers of 0.1 (0.0225 for 0.01) and 0 (0.0625 for 0).
    #[test]
    fn harm_and_help_are_told_apart() {
        let cases =
            [0.4, 0.1, 0.0, 0.4].map(|target| case_of(DEFAULT_POLICY, target, 0.1, 4)).to_vec();
        let families = [(Family::Swap, cases)];
        let tables = tables(&families, Dynamics::Steps).unwrap();
        let [harm, gates, coverage, abstention] = &tables[..] else { panic!("{tables:?}") };
        assert_eq!((column(harm, "adapted to"), column(harm, "made worse")), ("100 %", "50 %"));
        assert_eq!(harm.rows[0][4], "0.0375");
        assert_eq!(
            (harm.rows[0][6].as_str(), column(harm, "worse / better")),
            ("0.1375", "0.27")
        );
        // 0.13 in the place of 0.33.
        assert_eq!(column(gates, "no gate"), "-61 %, 50 %");
        let outlook = families[0].1[0].outlook(Dynamics::Steps, &COVERAGES).unwrap().unwrap();
        assert!(outlook.weight > 0.0 && outlook.weight < 0.9, "{}", outlook.weight);
        assert_eq!(column(gates, "90 % on steps"), "+0 %, 0 %");
        // Of three examples no interval of 80 % is finite, so that it ends at the labels.
        assert_eq!(column(coverage, "meant 80 %"), "100 ± 0 %, width 1.00");
        let [low, high] = outlook.intervals[0];
        let held = [0.4, 0.1, 0.0, 0.4].iter().filter(|t| (low..=high).contains(*t)).count();
        assert!(column(coverage, "meant 50 %").starts_with(&format!("{} ±", 25 * held)));
        assert_eq!((column(abstention, "all"), abstention.rows[0].len()), ("0.0325", 5));
        assert!(super::tables(&families[..0], Dynamics::Steps).unwrap().is_empty());
    }

    /// Of eight predictions six hold: a standard error of √(3/4·1/4/8) = 15 % if all are
    /// independent, and of √(3/4·1/4/4) = 22 % if they are pairs that agree.
    #[test]
    fn errors_of_shares_count_prompts() {
        let outlooks = |cases: &[Case]| -> Vec<Outlook> {
            let outlook = |case: &Case| case.outlook(Dynamics::Steps, &COVERAGES).unwrap();
            cases.iter().filter_map(outlook).collect()
        };
        let pair = |target: f64| two_cases(DEFAULT_POLICY, [target, target], [0.1, 0.1]);
        let pairs = outlooks(&[pair(0.2), pair(0.2), pair(0.2), pair(0.9)].concat());
        let holds = |outlook: &Outlook| outlook.holds([0.0, 0.5]);
        assert_eq!(with_error(&pairs, holds), "75 ± 22 %");
        let singles: Vec<Case> = [0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.9, 0.9]
            .map(|target| case_of(DEFAULT_POLICY, target, 0.1, 4))
            .to_vec();
        assert_eq!(with_error(&outlooks(&singles), holds), "75 ± 15 %");
        let families = [(Family::Swap, pair(0.2))];
        let tables = tables(&families, Dynamics::Steps).unwrap();
        assert_eq!(column(&tables[0], "predictions"), "2");
    }
}
