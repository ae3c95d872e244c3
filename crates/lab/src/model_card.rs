//! The card of a model for digit maps: what it is, how it was made, and what was measured.

use crate::assessment::{Adaptation, Group, LONGEST, Mean, Standing};
use crate::error::Error;
use crate::pretraining::Workshop;
use crate::reproduce::plot::{Axis, Plot, Point, Series, Style};
use std::fmt::Write as _;

/// Steps that a point of the training curve is the mean of.
const AVERAGED: usize = 50;

/// The files of a card.
pub const CARD: &str = "README.md";
const CURVE: &str = "curve.svg";

/// Writes the card and the training curve beside a finished model.
///
/// # Errors
///
/// [`fewstep::Error::File`] if they cannot be written.
pub fn write(
    workshop: &Workshop,
    standings: &[Standing],
    adaptation: &Adaptation,
) -> Result<(), Error> {
    workshop.write(CURVE, &drawing(&curve(workshop.losses())))?;
    workshop.write(CARD, &text(workshop, standings, adaptation))
}

/// Means over [`AVERAGED`] steps, each at its last step.
fn curve(losses: &[f64]) -> Vec<(f64, f64)> {
    let chunks = losses.chunks(AVERAGED).enumerate();
    chunks
        .map(|(index, chunk)| {
            let last = index * AVERAGED + chunk.len();
            (last as f64, chunk.iter().sum::<f64>() / chunk.len() as f64)
        })
        .collect()
}

/// The training curve as the text of an SVG.
fn drawing(curve: &[(f64, f64)]) -> String {
    let points: Vec<Point> = curve.iter().map(|&(step, loss)| Point::new(step, loss)).collect();
    let highest = curve.iter().map(|&(_, loss)| loss).fold(0.0, f64::max);
    let plot = Plot {
        title: "training loss".to_owned(),
        x: Axis::new("step"),
        y: Axis::new("nats per label").within(0.0, 1.05 * highest),
        series: vec![Series { name: String::new(), points, style: Style::Line }],
    };
    plot.svg()
}

fn text(workshop: &Workshop, standings: &[Standing], adaptation: &Adaptation) -> String {
    let recipe = workshop.recipe();
    let last = curve(workshop.losses()).last().map_or(0.0, |&(_, loss)| loss);
    let mut text = format!(
        "# A small in-context learner of digit maps\n\n\
         A GPT-2-style Transformer on bytes ({} layers, {} heads, width {}), in float16. It reads \
         pairs of digits such as\n`3->7` or `3:7`, one per line, all made by one hidden shift \
         `y = (x + shift) mod 10`, and predicts the next label.\nIt is pretrained on a *restricted* \
         prior: shifts 0 to 5 only, labels replaced by a random digit with\nprobability 0, 0.1 or \
         0.2. Shifts 6 to 9 and noisier prompts are tasks that it was not made for, which is what\n\
         adapting at test time is about.\n\n",
        recipe.layers, recipe.heads, recipe.width
    );
    let _ = write!(
        text,
        "## How it was made\n\n\
         `fewstep-lab pretrain` makes it again, bit for bit on the same type of machine. Every step \
         draws {} new tasks of 11\npairs (in one step of four: 33 pairs) and takes the \
         cross-entropy of all labels: {} steps of AdamW, learning rate\nup to {} (200 steps up, \
         then a cosine down to a fiftieth), seed {}. `recipe.json` holds the numbers,\n\
         `losses.csv` the loss of every step. The last {AVERAGED} steps had a mean loss of {last:.4} \
         nats per label.\n\n![training curve]({CURVE})\n\n",
        recipe.batch, recipe.steps, recipe.learning_rate, recipe.seed
    );
    text.push_str(
        "## On its own tasks\n\n\
         Tasks drawn as in pretraining, labels and noise included. The error is that of the \
         predicted value (digit / 9);\nno prediction has a smaller one on average than the exact \
         Bayes prediction under the same prior.\n\n\
         | examples | tasks | squared error | of the Bayes prediction | ratio | squared distance of the two |\n\
         |---|---|---|---|---|---|\n",
    );
    for standing in standings {
        let Standing { examples, tasks, model, bayes, gap } = standing;
        let _ = writeln!(
            text,
            "| {examples} | {tasks} | {} | {} | {:.3} | {} |",
            shown(*model),
            shown(*bayes),
            standing.ratio(),
            shown(*gap)
        );
    }
    text.push('\n');
    text.push_str(&adapted(adaptation));
    text.push_str(
        "## Limits\n\n\
         It knows digit maps in these two templates and nothing else: on other text its \
         predictions mean nothing, though the\ntool works on it all the same. Prompts end at 256 \
         bytes, and with more than 32 examples it sees positions that it was\nnot trained on. It is \
         there to try the tool without a download and to test it, not to be used.\n\n\
         `fewstep-lab pretrain --resume --out DIR` measures the tables above again for the model in \
         DIR.\n",
    );
    text
}

fn shown(Mean { mean, error }: Mean) -> String {
    format!("{mean:.5} ± {error:.5}")
}

fn adapted(adaptation: &Adaptation) -> String {
    let mut text = format!(
        "## Under adaptation, on the paper's distribution\n\n\
         Ten examples, all ten shifts, clean or with 55 % of the labels replaced; the query's label \
         is clean. All value blocks\nof the last four layers, steps of 0.1 of the largest stable \
         one, real gradient steps, 0 to {LONGEST} candidates. Mean squared\nerrors at the query with \
         standard errors. \"Hindsight\" is the best number of steps for the whole group, the oracle \
         the best\nfor each task; both look at the answer. The last column is the exact Bayes \
         prediction under this distribution.\n\n\
         | tasks | | none | 8 steps | evidence | leave-one-out | hindsight | oracle | Bayes |\n\
         |---|---|---|---|---|---|---|---|---|\n"
    );
    for group in &adaptation.groups {
        let Group { name, tasks, none, eight, evidence, leave_one_out, best, oracle, bayes } =
            group;
        let short = |Mean { mean, error }: Mean| format!("{mean:.4} ± {error:.4}");
        let columns = [*none, *eight, *evidence, *leave_one_out].map(short).join(" | ");
        let (steps, best) = (best.0, short(best.1));
        let (oracle, bayes) = (short(*oracle), short(*bayes));
        let _ = writeln!(
            text,
            "| {name} | {tasks} | {columns} | {best} ({steps} steps) | {oracle} | {bayes} |"
        );
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_holds_means_at_their_last_step() {
        let losses: Vec<f64> = (0..120).map(|step| if step < 50 { 4.0 } else { 1.0 }).collect();
        assert_eq!(curve(&losses), [(50.0, 4.0), (100.0, 1.0), (120.0, 1.0)]);
    }
}
