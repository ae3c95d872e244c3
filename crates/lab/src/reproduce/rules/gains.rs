//! What the default policy gains, against no adaptation, the paper's rule and the best fixed number
//! of steps: a table with what is asked of it, and a drawing.
//!
//! In: [`Field`]s. Out: a [`Table`] and a [`Figure`]. Changes are shares of the mean squared error
//! without adaptation; negative is better.

use super::super::document::{Figure, Table};
use super::super::findings::texts;
use super::super::plot::{Axis, Reach, Row, Rows};
use super::super::policies::{DEFAULT_POLICY, observed};
use super::super::statistics::Paired;
use super::compare::{Field, means};

/// The most that adapting may cost, as a share of the error without it.
const LARGEST_HARM: f64 = 0.02;

/// What a change is shown against.
const SERIES: [&str; 4] = [
    "the default policy",
    "the paper's rule",
    "the best fixed T in hindsight",
    "the per-query oracle",
];

/// Kinds by name, where the default policy was followed.
pub(super) type Named<'a> = Vec<(String, Field<'a>)>;

/// What is asked of the default policy, family by family.
pub(super) fn table(fields: &Named<'_>, how: &str) -> Table {
    let row = |(seed, (name, field)): (usize, &(String, Field<'_>))| {
        let errors = means(&field.policy_errors(DEFAULT_POLICY));
        let over = |others: &[f64]| Paired::improvement(others, &errors, seed as u64);
        let (none, fixed, paper) =
            (over(&field.untouched), over(&field.hindsight.1), over(&field.paper));
        let change = reach(field, &none);
        vec![
            name.clone(),
            field.len().to_string(),
            written(change),
            if change.high <= LARGEST_HARM { "yes" } else { "not shown" }.to_owned(),
            written(reach(field, &fixed)),
            verdict(&fixed).to_owned(),
            written(reach(field, &paper)),
            verdict(&paper).to_owned(),
            format!("{:.0} %", 100.0 * field.share(&errors)),
            format!("{:.0} %", 100.0 * field.prompt_share(&errors)),
            format!("{:.0} %", 100.0 * field.share(&field.half_known)),
        ]
    };
    Table {
        caption: format!(
            "The default policy ({DEFAULT_POLICY}), against others by {how}: changes in % of the \
             squared error without adaptation, with intervals of 95 %; negative: it errs less"
        ),
        header: texts([
            "tasks",
            "how many",
            "against none",
            "costs at most 2 %",
            "against the best fixed T",
            "it is",
            "against the paper's rule",
            "it is",
            "share of the oracle's gain",
            "of the best T of each prompt",
            "share of T by half of the answers",
        ]),
        rows: fields.iter().enumerate().map(row).collect(),
    }
}

/// The default rules on what is observed in other ways, against the default policy.
pub(super) fn observed_table(fields: &Named<'_>, how: &str) -> Option<Table> {
    let followed = |name: &str| {
        let knows = |(_, field): &(String, Field<'_>)| {
            field.policies().iter().any(|known| known == name)
        };
        !fields.is_empty() && fields.iter().all(knows)
    };
    let others: Vec<&str> =
        observed().into_iter().map(|(name, _)| name).filter(|name| followed(name)).collect();
    if others.is_empty() {
        return None;
    }
    let row = |(seed, (name, field)): (usize, &(String, Field<'_>))| {
        let default = means(&field.policy_errors(DEFAULT_POLICY));
        let mut row = vec![name.clone(), field.len().to_string()];
        for other in &others {
            let errors = means(&field.policy_errors(other));
            let against = |all: &[f64]| Paired::improvement(all, &errors, seed as u64);
            let alone = reach(field, &against(&field.untouched));
            row.push(written(alone));
            row.push(percent(reach(field, &against(&default))));
        }
        row
    };
    let mut header = texts(["tasks", "how many"]);
    for other in &others {
        header.push(format!("{other}, against none"));
        header.push("against the default policy".to_owned());
    }
    Some(Table {
        caption: format!(
            "The default rules on what is observed in other ways, by {how}: changes in % of the \
             squared error without adaptation, with intervals of 95 %; negative: less error"
        ),
        header,
        rows: fields.iter().enumerate().map(row).collect(),
    })
}

/// The same as a drawing, beside what others gain.
pub(super) fn figure(fields: &Named<'_>, name: &str, how: &str) -> Figure {
    let mut words = vec![];
    let row = |(seed, (name, field)): (usize, &(String, Field<'_>))| {
        let default = means(&field.policy_errors(DEFAULT_POLICY));
        let all = [&default, &field.paper, &field.hindsight.1, &field.oracle];
        let marks = all.map(|errors| {
            reach(field, &Paired::improvement(&field.untouched, errors, seed as u64))
        });
        let said =
            SERIES.iter().zip(&marks).map(|(who, r)| format!("{who} {:+.0} %", 100.0 * r.at));
        words.push(format!("{name}: {}", said.collect::<Vec<_>>().join(", ")));
        let in_percent =
            |r: Reach| Reach { low: 100.0 * r.low, at: 100.0 * r.at, high: 100.0 * r.high };
        Row { name: name.clone(), marks: marks.map(in_percent).map(Some).to_vec() }
    };
    let rows = fields.iter().enumerate().map(row).collect();
    let drawing = Rows {
        title: "What adapting changes".to_owned(),
        x: Axis::new("change of the mean squared error against no adaptation, %"),
        series: SERIES.map(str::to_owned).to_vec(),
        rows,
    };
    Figure {
        name: name.to_owned(),
        caption: format!(
            "What the default policy changes, beside the paper's rule, the best fixed number of \
             steps in hindsight and the per-query oracle, the last three by {how} with all value \
             heads of the last four layers. Intervals of 95 %, tasks drawn again; left of 0 is \
             better."
        ),
        alternative: format!("Changes of the mean squared error. {}.", words.join("; ")),
        svg: drawing.svg(),
    }
}

/// An improvement as a change of the error without adaptation.
fn reach(field: &Field<'_>, paired: &Paired) -> Reach {
    let whole = field.untouched.iter().sum::<f64>() / field.len().max(1) as f64;
    let share = |value: f64| if whole > 0.0 { -value / whole } else { 0.0 };
    Reach {
        low: share(paired.high),
        at: share(paired.difference.mean),
        high: share(paired.low),
    }
}

fn written(reach: Reach) -> String {
    let Reach { low, at, high } = reach;
    format!("{:+.0} % [{:+.0}, {:+.0}]", 100.0 * at, 100.0 * low, 100.0 * high)
}

/// As [`written`], where tenths of a per cent matter.
fn percent(reach: Reach) -> String {
    let Reach { low, at, high } = reach;
    format!("{:+.1} % [{:+.1}, {:+.1}]", 100.0 * at, 100.0 * low, 100.0 * high)
}

/// What an interval says about an improvement.
fn verdict(paired: &Paired) -> &'static str {
    match paired {
        Paired { low, .. } if *low > 0.0 => "better",
        Paired { high, .. } if *high < 0.0 => "worse",
        _ => "not told apart",
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::tests::case_of;
    use super::*;
    use fewstep::Dynamics;

    /// Two tasks with the answer 0.4; the default policy says 0.25, steps of a tenth lead to 0.4.
    #[test]
    fn changes_are_shares_of_the_error_without_adaptation() {
        let cases =
            [case_of(DEFAULT_POLICY, 0.4, 0.1, 4), case_of(DEFAULT_POLICY, 0.4, 0.1, 4)];
        let fields = vec![("shift".to_owned(), Field::new(&cases, Dynamics::Steps).unwrap())];
        let table = table(&fields, "in the model");
        // 0.15² of 0.4² is left; four steps leave nothing.
        assert_eq!(table.rows[0][2..4], ["-86 % [-86, -86]", "yes"]);
        assert_eq!(table.rows[0][4..6], ["+14 % [+14, +14]", "worse"]);
        assert_eq!(table.rows[0][8], "86 %");
        assert_eq!(table.rows[0].len(), table.header.len());
        let figure = figure(&fields, "gains", "in the model");
        assert!(
            figure.alternative.contains("shift: the default policy -86 %, the paper's rule")
        );
        assert!(figure.alternative.contains("the best fixed T in hindsight -100 %"));

        // The answer is 0.1: 0.25 is further away than 0.
        let cases = [case_of(DEFAULT_POLICY, 0.1, 0.1, 4)];
        let fields = vec![("shift".to_owned(), Field::new(&cases, Dynamics::Steps).unwrap())];
        let row = &super::table(&fields, "").rows[0];
        assert_eq!(row[2..4], ["+125 % [+125, +125]", "not shown"]);

        // Where tasks differ, the ends lie on either side.
        let cases =
            [case_of(DEFAULT_POLICY, 0.4, 0.1, 4), case_of(DEFAULT_POLICY, 0.1, 0.1, 4)];
        let field = Field::new(&cases, Dynamics::Steps).unwrap();
        let default = means(&field.policy_errors(DEFAULT_POLICY));
        let paired = Paired::improvement(&field.untouched, &default, 0);
        let found = reach(&field, &paired);
        assert!(found.low < found.at && found.at < found.high, "{found:?}");
    }
}
