//! What the examples and transcripts show is what the program prints.
//!
//! `UPDATE=1 cargo test -p fewstep transcripts` writes them anew.

use crate::transcript::{Transcripts, same};

const FEWSTEP: Transcripts = Transcripts {
    program: env!("CARGO_BIN_EXE_fewstep"),
    calls: &["$ fewstep ", "$ cargo run --release -q -p fewstep -- "],
};

#[test]
fn the_examples_show_what_is_printed() {
    FEWSTEP.check("examples/README.md");
}

#[test]
fn the_readme_shows_what_is_printed() {
    FEWSTEP.check("README.md");
}

#[test]
fn the_transcripts_show_what_is_printed() {
    FEWSTEP.check_folder("crates/fewstep/tests/transcripts");
}

#[test]
fn lines_are_the_same_up_to_rounding_and_time() {
    assert!(same("error 0.412 (gate 1.31)", "error 0.413 (gate 1.30)"));
    assert!(!same("error 0.412", "error 0.414"));
    assert!(!same("11 steps", "12 steps"));
    assert!(!same("0.412 adapted", "0.412 linear"));
    assert!(same("time 1.5 ms per task", "time 20.1 ms per task"));
}
