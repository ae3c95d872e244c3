//! What examples say about horizons when they are left out.

use crate::{Lines, inputs};
use fewstep_core::leave_one_out::{Averaging, LeaveOneOut};
use fewstep_core::{Answers, Error, Matrix, Spectrum, StepSize};

/// Labels of which one has two examples, and a range that predictions leave.
pub(crate) fn answers() -> Result<Answers, Error> {
    Answers::new(vec![2, 0, 2, 1], &[0.375, 0.625, 0.5, 0.25], [-0.25, 1.375])
}

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let kernel = Matrix::from_rows(&inputs::kernel())?;
    let step = StepSize::fraction(0.3, &Spectrum::of(&kernel)?)?;
    let (residuals, coupling) = (inputs::residuals(), [0.5, -0.25, 1.0, 0.75]);
    let answers = answers()?;
    lines.add("Answers.labels", answers.labels().iter().map(|&label| label as f64));
    lines.add("Answers.room", answers.room().iter().flat_map(|room| [room.lower, room.upper]));
    for (length, candidates) in [("short", [0, 2, 7]), ("long", [0, 20, 90])] {
        let left_out =
            LeaveOneOut::of(&kernel, &residuals, step, &candidates, Some(&coupling))?
                .with_answers(&residuals, &answers)?;
        let name = |method: &str| format!("LeaveOneOut.{method} {length}");
        lines.add(&name("errors"), left_out.errors().values().to_vec());
        lines.add(&name("candidates"), left_out.candidates().iter().map(|&steps| steps.into()));
        let again = LeaveOneOut::from_errors(&candidates, left_out.errors().clone())?;
        lines.add(&name("from_errors"), again.risk(Averaging::Median)?);
        for (kind, averaging) in [
            ("plain", Averaging::Plain),
            ("trimmed", Averaging::Trimmed),
            ("median", Averaging::Median),
            ("by-label", Averaging::ByLabel),
            ("query-weighted", Averaging::QueryWeighted),
        ] {
            lines.add(&name(&format!("risk {kind}")), left_out.risk(averaging)?);
            let choice = left_out.choose(averaging, 0.1)?;
            let values = [f64::from(choice.horizon), choice.index as f64];
            lines.add(&name(&format!("choose {kind}")), values);
            let posterior = left_out.posterior(averaging, 0.5, 2.0)?;
            lines.add(&name(&format!("posterior {kind}")), posterior);
        }
        let interval = left_out.interval(1, 0.6)?;
        lines.add(&name("interval"), [interval.lower, interval.upper]);
        let interval = left_out.interval_of_average(&[0.2, 0.5, 0.3], 0.6)?;
        lines.add(&name("interval_of_average"), [interval.lower, interval.upper]);
    }
    Ok(())
}
