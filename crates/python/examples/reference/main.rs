//! Prints what Rust computes from fixed inputs, for Python to compare with bit by bit: one JSON
//! object per line, `{"name": "spectrum.rotate", "bits": ["3ff0000000000000"]}`.

mod decide;
mod design;
mod drift;
mod evidence;
mod filters;
mod flow;
mod geometry;
mod inputs;
mod leave_one_out;
mod matfree;
mod model;
mod pac_bayes;
mod policy;
mod random;
mod risk;
mod rng;
mod signal;
mod spectrum;
mod subspace;

/// What was computed, by name.
#[derive(Default)]
struct Lines(Vec<(String, Vec<f64>)>);

impl Lines {
    fn add(&mut self, name: &str, values: impl IntoIterator<Item = f64>) {
        self.0.push((name.to_owned(), values.into_iter().collect()));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut lines = Lines::default();
    spectrum::add(&mut lines)?;
    filters::add(&mut lines)?;
    geometry::add(&mut lines)?;
    evidence::add(&mut lines)?;
    leave_one_out::add(&mut lines)?;
    signal::add(&mut lines)?;
    policy::add(&mut lines)?;
    decide::add(&mut lines)?;
    rng::add(&mut lines)?;
    risk::add(&mut lines)?;
    subspace::add(&mut lines)?;
    flow::add(&mut lines)?;
    random::add(&mut lines)?;
    drift::add(&mut lines)?;
    design::add(&mut lines)?;
    pac_bayes::add(&mut lines)?;
    matfree::add(&mut lines)?;
    model::add(&mut lines)?;
    let mut text = String::new();
    for (name, values) in lines.0 {
        let bits: Vec<String> =
            values.iter().map(|value| format!("{:016x}", value.to_bits())).collect();
        text += &serde_json::json!({ "name": name, "bits": bits }).to_string();
        text.push('\n');
    }
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}
