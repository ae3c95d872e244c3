//! Which rule decides best: all of them, on stored tasks of every family.
//!
//! In: the records of [`Experiment::Rules`](super::Experiment::Rules), each with a trace: what was
//! observed of a task and where real steps led. Out: a [`Section`]. A task is measured once; a rule
//! is a look at what is stored, and takes microseconds. A prompt may be asked about several queries:
//! it is then one task, whose errors are means over them. Rules are developed on some tasks and judged
//! on others, and the report says on how many rules there were.

mod candidates;
mod case;
mod compare;
mod gains;
mod when;

use super::document::{Figure, Section, Table};
use super::families::Family;
use super::findings::{interval, texts};
use super::policies::DEFAULT_POLICY;
use super::record::Record;
use super::settings::{Part, Role};
use super::statistics::Paired;
use crate::assessment::Mean;
use crate::error::Error;
use candidates::{FINALISTS, Rule, SHOWN};
use case::Case;
use compare::{Errors, Field, Judged};
use fewstep::Dynamics;

/// Cases by what they hide, in the order of families.
type ByFamily = Vec<(Family, Vec<Case>)>;

/// The part of a report about rules: one per split that there are tasks of.
pub(crate) fn sections(parts: &[(&Part, Vec<Record>)]) -> Result<Vec<Section>, Error> {
    let mut sections = vec![];
    for (role, rules) in [(Role::Development, &SHOWN[..]), (Role::Test, &FINALISTS[..])] {
        let cases = by_family(parts, &role)?;
        if !cases.is_empty() {
            sections.push(section(&role, &cases, rules)?);
        }
    }
    Ok(sections)
}

fn by_family(parts: &[(&Part, Vec<Record>)], role: &Role) -> Result<ByFamily, Error> {
    let mut found = vec![];
    for family in Family::ALL {
        let mut cases = vec![];
        for (part, records) in parts {
            if part.family == Some(family) && part.role == *role {
                for record in records {
                    cases.extend(Case::all(record, part.choices.longest)?);
                }
            }
        }
        if !cases.is_empty() {
            found.push((family, cases));
        }
    }
    Ok(found)
}

fn section(role: &Role, cases: &ByFamily, rules: &[Rule]) -> Result<Section, Error> {
    let (mut tables, mut figures, mut policies) = (vec![], vec![], 0);
    for (dynamics, how) in [
        (Dynamics::Steps, "gradient steps in the model"),
        (Dynamics::Linear, "linear dynamics"),
    ] {
        let mut fields: Vec<(Family, Field<'_>)> = vec![];
        for (family, cases) in cases {
            fields.push((*family, Field::new(cases, dynamics)?));
        }
        fields.retain(|(_, field)| field.len() > 0);
        if fields.is_empty() {
            continue;
        }
        if let Some((gained, figure)) = default_policy(cases, dynamics, how)? {
            // The default policy answers by the linearised model in both: it is looked at once.
            let first = figures.is_empty();
            tables.extend(gained);
            figures.push(figure);
            if first {
                tables.extend(when::tables(cases, dynamics)?);
            }
        }
        let judged = judge_all(&fields, rules)?;
        policies = policies.max(judged.len() - rules.len());
        tables.push(shares_table(&fields, &judged, how));
        tables.push(families_table(&fields, how));
        tables.push(harm_table(&fields, &judged, how));
        tables.push(against_table(
            &fields,
            &judged,
            &format!("the best fixed number of steps in hindsight, {how}"),
            |judged| &judged.over_hindsight,
        ));
        tables.push(against_table(
            &fields,
            &judged,
            &format!("the paper's rule, {how}"),
            |judged| &judged.over_paper,
        ));
    }
    let (title, what) = match role {
        Role::Test => ("Rules, judged", "judged on tasks that no rule was developed on"),
        _ => ("Rules, developed", "compared on the tasks that they were developed on"),
    };
    let mut text = format!(
        "{} rules, {what}. A rule sees kernels, residuals and couplings of a prompt, never an \
         answer. Shares are of the per-query oracle's gain over no adaptation: the oracle takes the \
         number of steps that is best for each single query.",
        rules.len()
    );
    if policies > 0 {
        let whole = match policies {
            1 => "a whole policy with blocks of its own, so that it".to_owned(),
            many => {
                format!("{many} whole policies, each with blocks of its own, so that they")
            }
        };
        text += &format!(
            " Beside them {whole} can gain more than any number of steps with the candidate blocks \
             of these settings. The linearised model answers where names do not say otherwise."
        );
    }
    text += &asked(cases);
    text += " Nobody who sees a prompt alone knows what is best for one query of it, or for all of \
             them; what there is to gain by more answers on the same prompt is shown by the number of \
             steps that is best for the other half of its queries.";
    text += " Predictions by linear dynamics are clamped to the range of the labels, which no \
             prediction of a model leaves.";
    let title = title.to_owned();
    Ok(Section { title, text: vec![text], tables, figures, ..Section::default() })
}

/// How many queries prompts were asked about, if some were asked about more than one.
fn asked(cases: &ByFamily) -> String {
    let prompts = || cases.iter().flat_map(|(_, cases)| cases.chunk_by(|_, next| next.further));
    let least = prompts().map(<[Case]>::len).min().unwrap_or(1);
    let queries = match prompts().map(<[Case]>::len).max().unwrap_or(1) {
        1 => return String::new(),
        most if most == least => most.to_string(),
        most => format!("{least} to {most}"),
    };
    format!(
        " Every task is a prompt that was asked about {queries} queries, all of them after one \
         update; its error is the mean over them, the best number of steps is that of each query, \
         and intervals draw prompts again, not queries."
    )
}

/// What the default policy gains, if it was followed on all tasks; with clean and noisy shifts
/// together, as the paper mixes them.
fn default_policy(
    cases: &ByFamily,
    dynamics: Dynamics,
    how: &str,
) -> Result<Option<(Vec<Table>, Figure)>, Error> {
    let mixed: Vec<Case> = cases
        .iter()
        .filter(|(family, _)| matches!(family, Family::ShiftClean | Family::ShiftNoisy))
        .flat_map(|(_, cases)| cases.clone())
        .collect();
    let mut fields: gains::Named<'_> = vec![];
    for (family, cases) in cases {
        fields.push((family.to_string(), Field::new(cases, dynamics)?));
    }
    if fields.iter().any(|(name, _)| *name == Family::ShiftNoisy.to_string()) {
        fields.push(("shift, clean and noisy".to_owned(), Field::new(&mixed, dynamics)?));
    }
    fields.retain(|(_, field)| field.policies().iter().any(|name| name == DEFAULT_POLICY));
    let name = match dynamics {
        Dynamics::Steps => "rules-gains",
        Dynamics::Linear => "rules-gains-linear",
    };
    let drawn = !fields.is_empty();
    let tables = || {
        let observed = gains::observed_table(&fields, how);
        std::iter::once(gains::table(&fields, how)).chain(observed).collect()
    };
    Ok(drawn.then(|| (tables(), gains::figure(&fields, name, how))))
}

/// A rule or a whole policy by its name, judged on every family.
type Row = (String, Vec<Judged>);

/// Every rule, then every policy that was followed for all tasks.
fn judge_all(fields: &[(Family, Field<'_>)], rules: &[Rule]) -> Result<Vec<Row>, Error> {
    let judge = |errors: &dyn Fn(&Field<'_>) -> Result<Errors, Error>| {
        let each = fields.iter().enumerate();
        each.map(|(seed, (_, field))| Ok(field.judge(&errors(field)?, seed as u64)))
            .collect::<Result<Vec<_>, Error>>()
    };
    let mut judged = vec![];
    for &rule in rules {
        judged.push((rule.to_string(), judge(&|field| field.errors(rule))?));
    }
    let (_, first) = &fields[0];
    for policy in first.policies() {
        if fields.iter().all(|(_, field)| field.policies().contains(&policy)) {
            let errors = judge(&|field| Ok(field.policy_errors(&policy)))?;
            judged.push((format!("policy: {policy}"), errors));
        }
    }
    Ok(judged)
}

/// What there is to gain.
fn families_table(fields: &[(Family, Field<'_>)], how: &str) -> Table {
    let mean = |values: &[f64]| Mean::of(values).mean;
    let row = |(family, field): &(Family, Field<'_>)| {
        vec![
            family.to_string(),
            field.len().to_string(),
            format!("{:.4}", mean(&field.untouched)),
            format!("{:.4}", mean(&field.oracle)),
            format!("{:.4}", mean(&field.prompt_oracle)),
            format!("{:.4}", mean(&field.half_known)),
            field.hindsight.0.to_string(),
            format!("{:.4}", mean(&field.hindsight.1)),
            format!("{:.0} %", 100.0 * field.share(&field.hindsight.1)),
        ]
    };
    Table {
        caption: format!("Tasks and what there is to gain, {how}: mean squared errors"),
        header: texts([
            "tasks",
            "how many",
            "no adaptation",
            "oracle T of each query",
            "best T of each prompt",
            "T by the other half of its answers",
            "best fixed T",
            "its error",
            "its share",
        ]),
        rows: fields.iter().map(row).collect(),
    }
}

fn header(fields: &[(Family, Field<'_>)]) -> Vec<String> {
    let families = fields.iter().map(|(family, _)| family.to_string());
    std::iter::once("rule".to_owned()).chain(families).collect()
}

/// A row per rule, a cell per family.
fn rows(
    fields: &[(Family, Field<'_>)],
    judged: &[Row],
    cell: impl Fn(&Field<'_>, &Judged) -> String,
) -> Vec<Vec<String>> {
    let row = |(rule, each): &Row| {
        let cells = fields.iter().zip(each).map(|((_, field), judged)| cell(field, judged));
        std::iter::once(rule.clone()).chain(cells).collect()
    };
    judged.iter().map(row).collect()
}

fn shares_table(fields: &[(Family, Field<'_>)], judged: &[Row], how: &str) -> Table {
    let mut header = header(fields);
    header.extend(texts(["mean", "least"]));
    let mut rows = rows(fields, judged, |_, judged| format!("{:.0} %", 100.0 * judged.share));
    for (row, (_, each)) in rows.iter_mut().zip(judged) {
        let shares = || each.iter().map(|judged| judged.share);
        let mean = shares().sum::<f64>() / each.len().max(1) as f64;
        row.push(format!("{:.0} %", 100.0 * mean));
        row.push(format!("{:.0} %", 100.0 * shares().fold(f64::INFINITY, f64::min)));
    }
    Table { caption: format!("Shares of the oracle's gain, {how}"), header, rows }
}

fn harm_table(fields: &[(Family, Field<'_>)], judged: &[Row], how: &str) -> Table {
    let rows = rows(fields, judged, |field, judged| {
        format!("{:+.1} %, {:.0} %", 100.0 * judged.harm(field), 100.0 * judged.hurt)
    });
    let caption = format!(
        "What adapting may cost, {how}: the upper end of its 95 % interval as a share of the error \
         without adaptation (negative: it helps), and how many predictions get worse"
    );
    Table { caption, header: header(fields), rows }
}

fn against_table(
    fields: &[(Family, Field<'_>)],
    judged: &[Row],
    what: &str,
    of: impl Fn(&Judged) -> &Paired,
) -> Table {
    let rows = rows(fields, judged, |_, judged| interval(of(judged)));
    let caption =
        format!("Improvement over {what}; intervals of 95 %; positive: the rule errs less");
    Table { caption, header: header(fields), rows }
}
