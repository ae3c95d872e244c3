//! What the transcripts show is what the program prints.
//!
//! `UPDATE=1 cargo test -p fewstep-lab transcripts` writes them anew.

use crate::transcript::Transcripts;

#[test]
fn the_transcripts_show_what_is_printed() {
    let program = env!("CARGO_BIN_EXE_fewstep-lab");
    let lab = Transcripts { program, calls: &["$ fewstep-lab "] };
    lab.check_folder("crates/lab/tests/transcripts");
}
