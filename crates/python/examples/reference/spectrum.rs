//! What a spectrum says.

use crate::{Lines, inputs};
use fewstep_core::{Error, Spectrum, StepSize};

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let spectrum = Spectrum::of(&inputs::kernel())?;
    let residuals = inputs::residuals();
    lines.add("Spectrum.eigenvalues", spectrum.eigenvalues().to_vec());
    lines.add("Spectrum.largest", [spectrum.largest()]);
    lines.add("Spectrum.rotate", spectrum.rotate(&residuals)?);
    lines.add("Spectrum.rotate_back", spectrum.rotate_back(&residuals)?);
    lines.add("Spectrum.project", spectrum.project(&residuals)?);
    lines.add("Spectrum.project_outside", spectrum.project_outside(&residuals)?);
    lines.add("Spectrum.mode", spectrum.mode(1).to_vec());
    lines.add("Spectrum.effective_rank", [spectrum.effective_rank()]);
    lines.add("Spectrum.residual", [spectrum.residual()]);
    lines.add("Spectrum.step_limit", [spectrum.step_limit()]);
    let counts = [spectrum.examples(), spectrum.rank(), spectrum.clamped()];
    lines.add("Spectrum counts", counts.map(|count| count as f64));
    lines.add("StepSize.fraction", [StepSize::fraction(0.1, &spectrum)?.get()]);
    let step = StepSize::new(0.03125, &spectrum)?;
    lines.add("StepSize", [step.get(), step.check(&spectrum)?.get()]);
    Ok(())
}
