//! The law of the eigenvalues of a large random kernel.

use crate::Lines;
use fewstep_core::Error;
use fewstep_theory::random::MarchenkoPastur;

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    for (name, ratio) in [("wide", 0.375), ("tall", 2.5)] {
        let law = MarchenkoPastur::new(ratio)?;
        let (smallest, largest) = law.support();
        let mut add = |what: &str, values: Vec<f64>| {
            lines.add(&format!("random.MarchenkoPastur.{what}.{name}"), values);
        };
        add("aspect_ratio", vec![law.aspect_ratio()]);
        add("support", vec![smallest, largest]);
        add("atom", vec![law.atom()]);
        add("density", [0.25, 0.75, 1.5, 9.0].map(|at| law.density(at)).to_vec());
        add("integral", vec![law.integral(|at| at * at + 0.5)?]);
        add("moment", (0..6).map(|order| law.moment(order)).collect());
        add("risk_limit", vec![law.risk_limit(0.625, 0.75, 0.5)?]);
        add("oracle_time", vec![law.oracle_time(0.75, 0.5)?]);
        add("representative_eigenvalue", vec![law.representative_eigenvalue(0.75, 0.5)?]);
        add("match_time", vec![law.match_time(0.75, 0.5)?]);
    }
    Ok(())
}
