//! Puts the paper's statements to the test on the built-in model and writes the report into the
//! directory that is named: `cargo run --release --example theory_report -- DIR [SEED [DRAWS]]`.

use fewstep::reproduce::document::Document;
use fewstep::reproduce::theory::{TheorySettings, theory};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "theory".to_owned());
    let seed = arguments.next().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let draws = arguments.next().and_then(|draws| draws.parse().ok());
    match report(Path::new(&directory), seed, draws.unwrap_or(TheorySettings::DRAWS)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn report(directory: &Path, seed: u64, draws: usize) -> Result<(), fewstep::Error> {
    let settings = TheorySettings { seed, draws, model: fewstep::builtin()? };
    let section = theory(&settings, |part| eprintln!("{part}"))?;
    let document = Document {
        title: "The paper's theory, put to the test".to_owned(),
        settings: vec![
            ("model".to_owned(), "builtin".to_owned()),
            ("seed".to_owned(), seed.to_string()),
            ("draws".to_owned(), draws.to_string()),
        ],
        sections: vec![section],
        ..Document::default()
    };
    document.write(directory)
}
