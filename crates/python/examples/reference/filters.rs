//! What every kind of filter does to modes and to a prompt.

use crate::{Lines, inputs};
use fewstep_core::risk::Benchmark;
use fewstep_core::{
    BayesFilter, Error, Filter, GradientDescent, Mixture, NoUpdate, Spectrum, StepSize,
};
use fewstep_theory::{ExponentialTime, GradientFlow, JamesStein, Projection};

fn lines_of(lines: &mut Lines, name: &str, filter: &dyn Filter) -> Result<(), Error> {
    let spectrum = Spectrum::of(&inputs::kernel())?;
    let (residuals, coupling) = (inputs::residuals(), [0.5, -0.25, 1.0, 0.75]);
    let values = [0.0, 0.125, 1.0, 2.5];
    lines.add(&format!("{name}.response"), values.map(|value| filter.response(value)));
    lines.add(&format!("{name}.gain"), values.map(|value| filter.gain(value)));
    lines.add(&format!("{name}.degrees_of_freedom"), [filter.degrees_of_freedom(&spectrum)]);
    lines.add(&format!("{name}.prompt_fit"), filter.prompt_fit(&spectrum, &residuals)?);
    lines.add(
        &format!("{name}.example_weights"),
        filter.example_weights(&spectrum, &residuals)?,
    );
    let correction = filter.query_correction(&spectrum, &coupling, &residuals)?;
    lines.add(&format!("{name}.query_correction"), [correction]);
    Ok(())
}

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let spectrum = Spectrum::of(&inputs::kernel())?;
    let step = StepSize::fraction(0.3, &spectrum)?;
    let descent = |horizon| GradientDescent { step, horizon };
    lines_of(lines, "NoUpdate", &NoUpdate)?;
    lines_of(lines, "GradientDescent", &descent(7))?;
    lines_of(lines, "GradientFlow", &GradientFlow::new(0.75)?)?;
    lines_of(lines, "BayesFilter", &BayesFilter::new(0.3)?)?;
    lines_of(lines, "ExponentialTime", &ExponentialTime::new(0.7)?)?;
    lines_of(lines, "Projection", &Projection::of(&spectrum))?;
    lines_of(lines, "JamesStein", &JamesStein::of(&spectrum, &inputs::residuals(), 0.1)?)?;
    lines_of(lines, "Benchmark", &Benchmark::new(0.7, 0.3)?)?;
    let parts = vec![(0.1, descent(2)), (0.6, descent(5)), (0.2, descent(11))];
    let mixture = Mixture::new(parts)?;
    lines_of(lines, "Mixture", &mixture)?;
    lines.add("Mixture.parts", mixture.parts().iter().map(|(weight, _)| *weight));
    lines.add("GradientDescent.prior_variance", [descent(7).prior_variance(0.5, 0.3)]);
    lines.add("GradientFlow.time", [GradientFlow::new(0.75)?.time()]);
    lines.add("Benchmark.noise_to_signal", [Benchmark::new(0.7, 0.3)?.noise_to_signal()]);
    Ok(())
}
