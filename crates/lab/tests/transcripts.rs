//! What the transcripts show is what the program prints.
//!
//! `UPDATE=1 cargo test -p fewstep-lab --test transcripts` writes them anew.
#![allow(clippy::unwrap_used, reason = "a page that cannot be read fails the test")]

mod support;
#[path = "../../fewstep/tests/support/transcript.rs"]
mod transcript;

use transcript::Transcripts;

#[test]
fn the_transcripts_show_what_is_printed() {
    let program = env!("CARGO_BIN_EXE_fewstep-lab");
    let lab = Transcripts { program, calls: &["$ fewstep-lab "] };
    lab.check_folder("crates/lab/tests/transcripts");
}
