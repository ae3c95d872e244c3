//! The best update directions when any may be chosen.

use crate::{Lines, inputs};
use fewstep_core::{Error, Matrix};
use fewstep_theory::design::{GlobalInformation, LinearGaussian, PlugIn, Prior, QueryMetric};

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let jacobian = Matrix::from_rows(&inputs::features(1, 4, 5))?;
    let covariance = {
        let rows = inputs::features(2, 5, 5);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
        rows.iter().map(|a| rows.iter().map(|b| dot(a, b)).collect()).collect::<Vec<Vec<f64>>>()
    };
    let metric = QueryMetric::from_queries(&inputs::features(3, 3, 5))?;
    let identity = QueryMetric::from_matrix(Matrix::identity(5))?;
    let vector = [0.5, -0.25, 0.125, 0.75, -0.375];
    lines.add(
        "design.QueryMetric",
        [metric.dimension() as f64, metric.parameters() as f64, identity.dimension() as f64],
    );
    lines.add("design.QueryMetric.whiten", metric.whiten(&vector)?);
    lines.add("design.QueryMetric.unwhiten", metric.unwhiten(&[0.5, 0.25, -1.0])?);
    let priors = [
        ("isotropic", Prior::Isotropic(0.75)),
        ("diagonal", Prior::Diagonal(vec![0.5, 0.0, 1.0, 0.25, 2.0])),
        ("full", Prior::Full(Matrix::from_rows(&covariance)?)),
    ];
    let mut global = GlobalInformation::new(metric.dimension());
    for (name, prior) in priors {
        let model = LinearGaussian::new(&jacobian, prior, 0.375)?;
        let information = model.query_information(&metric)?;
        let subspace = information.optimal_subspace(2)?;
        global.add(&information)?;
        let mut add = |what: &str, values: Vec<f64>| {
            lines.add(&format!("design.{what}.{name}"), values);
        };
        add("posterior_mean", model.posterior_mean(&inputs::residuals())?);
        add("posterior_covariance", model.posterior_covariance(&vector)?);
        add("information", model.information(&vector)?);
        add("information_matrix", model.information_matrix().values().to_vec());
        add("query_information", information.matrix().values().to_vec());
        add("total", vec![information.total()]);
        add("subspace", vec![subspace.captured(), subspace.risk()]);
        add("basis", subspace.basis().values().to_vec());
        add("directions", subspace.directions(&metric)?.values().to_vec());
    }
    let mean = global.mean()?;
    let subspace = mean.optimal_subspace(1)?;
    lines.add("design.GlobalInformation.prompts", [global.prompts() as f64]);
    lines.add("design.GlobalInformation.mean", mean.matrix().values().to_vec());
    lines.add("design.QueryInformation.risk", [mean.risk(&subspace)?, mean.total()]);
    let (any, independent) =
        (PlugIn::new(10, 3, 1.5, 8.0)?, PlugIn::independent(10, 3, 1.5, 0.25)?);
    lines.add(
        "design.PlugIn",
        [any.deviation(0.125)?, any.regret(2, 0.125)?, independent.deviation(0.125)?],
    );
    Ok(())
}
