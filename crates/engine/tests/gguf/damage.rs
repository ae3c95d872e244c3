//! Damaged and hostile files: an error each, never a panic, and no more memory than the file's.

use crate::gguf::support::{Draft, Meta, fixture, text};
use crate::gguf::tokenizers::config;
use fewstep_engine::{Error, Gguf};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::io::ErrorKind;

fn refused(draft: &Draft) -> Error {
    draft.read().expect_err("a damaged file was accepted")
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let whole = fs::read(fixture("gpt2.gguf")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cut.gguf");
    let lengths = (0..200).chain((200..whole.len()).step_by(37)).chain([whole.len() - 64]);
    for length in lengths {
        let cut = Gguf::from_bytes(whole[..length].to_vec()).map(|_| ()).unwrap_err();
        match cut {
            Error::NotGguf { .. } => assert!(length < 4, "{length}"),
            Error::GgufCut { position, needed, available, .. } => {
                assert_eq!(position + available, length as u64);
                assert!(needed > available);
            }
            Error::TensorBytes { end, available, .. } => assert!(end > available),
            other => panic!("{length} bytes: {other}"),
        }
        if length % 10 == 0 {
            fs::write(&file, &whole[..length]).unwrap();
            let mapped = Gguf::open(&file).map(|_| ()).unwrap_err();
            let same = Gguf::from_bytes(whole[..length].to_vec()).map(|_| ()).unwrap_err();
            assert_eq!(std::mem::discriminant(&mapped), std::mem::discriminant(&same));
        }
    }
    assert!(Gguf::from_bytes(whole).is_ok());
}

#[test]
fn what_is_no_gguf_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    assert_eq!(Gguf::open(path).unwrap_err(), Error::NotAFile { file: path.to_path_buf() });
    let file = path.join("none.gguf");
    let missing = Error::File { file: file.clone(), action: "read", kind: ErrorKind::NotFound };
    assert_eq!(Gguf::open(&file).unwrap_err(), missing);
    for bytes in [&b""[..], b"GGU", b"GGML", b"\x80\x02}q"] {
        fs::write(&file, bytes).unwrap();
        assert_eq!(Gguf::open(&file).unwrap_err(), Error::NotGguf { file: file.clone() });
    }
    // Version 3 in the other order of bytes, too.
    for version in [0, 1, 4, 3 << 24] {
        let error = refused(&Draft { version, ..Draft::sound() });
        assert!(matches!(error, Error::GgufVersion { found, .. } if found == version));
    }
}

#[test]
fn counts_and_lengths_that_lie_are_refused() {
    let sound = Draft::sound();
    for (tensors, entries, what) in [
        (Some(1 << 17), None, "number of tensors"),
        (Some(u64::MAX), None, "number of tensors"),
        (None, Some(1 << 40), "number of metadata entries"),
    ] {
        let draft = Draft { tensor_count: tensors, entry_count: entries, ..sound.clone() };
        let Error::GgufCount { what: named, found, limit, .. } = refused(&draft) else {
            panic!("{what}");
        };
        assert_eq!((named, limit), (what, 1 << 16));
        assert_eq!(Some(found), tensors.or(entries));
    }
    // One more than there are, or one fewer.
    let draft = Draft { entry_count: Some(8), ..sound.clone() };
    assert!(draft.read().is_err());
    for count in [1, 3] {
        assert!(Draft { tensor_count: Some(count), ..sound.clone() }.read().is_err());
    }

    let huge = |count| Meta::List(8, count, vec![text("a")]);
    for value in [
        huge(u64::MAX),
        huge(1 << 30),
        Meta::List(4, u64::MAX / 2, vec![]),
        Meta::List(0, 1 << 50, vec![]),
    ] {
        let error = refused(&sound.clone().with("general.tags", value));
        assert!(matches!(error, Error::GgufCut { .. }), "{error}");
    }
    let mut nested = Meta::List(4, 1, vec![Meta::U32(7)]);
    for _ in 0..3 {
        nested = Meta::List(9, 1, vec![nested]);
    }
    assert!(sound.clone().with("general.tags", nested.clone()).read().is_ok());
    for _ in 0..100 {
        nested = Meta::List(9, 1, vec![nested]);
    }
    let error = refused(&sound.clone().with("general.tags", nested));
    let Error::GgufCount { what, found, limit, .. } = error else { panic!("{error}") };
    assert_eq!((what, found, limit), ("depth of a metadata list", 5, 4));

    let error = refused(&sound.clone().with(&"k".repeat(1 << 16), Meta::U8(0)));
    assert!(matches!(error, Error::GgufCount { found: 65536, limit: 65535, .. }), "{error}");
    let error = refused(&sound.clone().with("general.x", Meta::Other(13)));
    let Error::Metadata { key, found, .. } = error else { panic!("{error}") };
    assert_eq!((key.as_str(), found.as_str()), ("general.x", "type 13"));
    let mut twice = sound.clone();
    twice.entries.push(("llama.block_count".to_owned(), Meta::U32(2)));
    let error = refused(&twice);
    let Error::Metadata { key, found, .. } = error else { panic!("{error}") };
    assert_eq!((key.as_str(), found.as_str()), ("llama.block_count", "given twice"));
}

#[test]
fn tensors_that_lie_about_their_place_are_refused() {
    let name = "output_norm.weight";
    // (sides, place, the place it must have, the bytes it needs, the end it claims)
    for (sides, place, expected, end) in [
        (vec![4], 60, 16, 76),             // not aligned
        (vec![4], 32, 16, 48),             // over the other tensor
        (vec![4], 128, 16, 144),           // a gap
        (vec![8], 64, 32, 96),             // beyond the end
        (vec![4], u64::MAX, 16, u64::MAX), // beyond everything
        (vec![1 << 62], 64, u64::MAX, u64::MAX),
        (vec![1 << 32, 1 << 31], 64, u64::MAX, u64::MAX),
        (vec![4, u64::MAX], 64, u64::MAX, u64::MAX),
    ] {
        let mut draft = Draft::sound();
        draft.tensors[1] = (name, sides.clone(), 0, place);
        let error = refused(&draft);
        let Error::TensorBytes { tensor, start, end: ends, expected: needs, available, .. } =
            error
        else {
            panic!("{sides:?} at {place}: {error}");
        };
        // Where it lies over the other, the one that comes second is named.
        assert!(tensor == name || place == 32, "{tensor}");
        if tensor == name {
            assert_eq!((start, ends, needs, available), (place, end, expected, 80));
        }
    }
    let mut draft = Draft::sound();
    draft.tensors[1].0 = draft.tensors[0].0;
    let Error::DuplicateTensor { tensor, .. } = refused(&draft) else { panic!("it is twice") };
    assert_eq!(tensor, "token_embd.weight");

    // Bytes behind the last tensor may only fill its alignment.
    let mut draft = Draft::sound();
    draft.data.resize(96, 0);
    assert!(draft.read().is_ok());
    draft.data.push(0);
    let Error::UncoveredBytes { found, expected, .. } = refused(&draft) else { panic!("more") };
    assert_eq!((found, expected), (97, 80));
}

#[test]
fn shapes_and_types_that_cannot_be_are_refused() {
    for (sides, kind, shape, block) in [
        (vec![], 0, vec![], 1),
        (vec![0], 0, vec![0], 1),
        (vec![4, 0], 0, vec![0, 4], 1),
        (vec![4], 2, vec![4], 32),
        (vec![48, 2], 3, vec![2, 48], 32),
        (vec![128], 14, vec![128], 256),
    ] {
        let mut draft = Draft::sound();
        draft.tensors[1] = ("output_norm.weight", sides, kind, 64);
        let error = refused(&draft);
        let Error::TensorBlocks { tensor, shape: found, block: size, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((tensor.as_str(), found, size), ("output_norm.weight", shape, block));
    }
    let mut draft = Draft::sound();
    draft.tensors[1].1 = vec![1; 5];
    assert!(matches!(refused(&draft), Error::GgufCount { found: 5, limit: 4, .. }));
    for (kind, name) in [
        (9, "Q8_1"),
        (15, "Q8_K"),
        (16, "IQ2_XXS"),
        (24, "I8"),
        (39, "MXFP4"),
        (4, "type 4"),
        (1000, "type 1000"),
        (u32::MAX, "type 4294967295"),
    ] {
        let mut draft = Draft::sound();
        draft.tensors[1].2 = kind;
        let Error::TensorEncoding { tensor, found, .. } = refused(&draft) else {
            panic!("{name}");
        };
        assert_eq!((tensor.as_str(), found.as_str()), ("output_norm.weight", name));
    }
    let mut draft = Draft::sound();
    draft.tensors[1].0 = "a_name_that_is_longer_than_any_that_a_real_file_has_for_its_tensors";
    assert!(matches!(refused(&draft), Error::GgufCount { limit: 64, .. }));
}

/// Counts what a thread holds, so that a test can say how much it used at most.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

#[allow(unsafe_code, reason = "an allocator cannot be counted otherwise")]
// SAFETY: every call is handed on as it is; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = HELD.try_with(|held| {
            held.set(held.get().wrapping_add(layout.size()));
            let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
        });
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(layout.size())));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Everything that can be asked of a file.
fn read_all(bytes: Vec<u8>) -> Result<(), Error> {
    let gguf = Gguf::from_bytes(bytes)?;
    let _ = gguf.config_json();
    if let Ok(tokenizer) = gguf.tokenizer(&config(600, Some(1))) {
        let _ = tokenizer.encode("hello 0<s> <|endoftext|>\u{1f600}");
    }
    for name in gguf.names().map(str::to_owned).collect::<Vec<_>>() {
        // Any shape is asked for, and the right one if the error says it.
        if let Err(Error::TensorShape { found, .. }) = gguf.tensor(&name, &[]) {
            let _ = gguf.tensor(&name, &found);
            if let [rows, columns] = found[..] {
                let _ = gguf.matrix(&name, [rows, columns]);
                let _ = gguf.matrix(&name, [columns, rows]);
            }
        }
    }
    Ok(())
}

#[test]
fn thousands_of_damaged_files_are_refused_or_read_without_panic() {
    let mut state = 0x5eed_u64;
    let mut below = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % bound as u64).unwrap()
    };
    let (mut sound, mut broken) = (0, 0);
    let seeds = ["llama.gguf", "llama3.gguf", "qwen2.gguf", "gpt2.gguf", "smollm.gguf"];
    let mut files: Vec<Vec<u8>> =
        seeds.iter().map(|name| fs::read(fixture(name)).unwrap()).collect();
    files.push(Draft::sound().bytes());
    for round in 0..6000 {
        let mut bytes = files[round % files.len()].clone();
        // Mostly where the header is: its numbers decide what is read.
        let reach = if below(4) == 0 { bytes.len() } else { bytes.len().min(12_000) };
        for _ in 0..=below(4) {
            let at = below(reach.min(bytes.len()).max(1));
            match below(6) {
                0 => bytes[at] = u8::try_from(below(256)).unwrap(),
                1 => bytes[at] ^= 1 << below(8),
                2 => bytes.truncate(at.max(30)),
                3 => {
                    let value = [0, 1, u64::MAX, 1 << 32, 1 << 62, 0x8000_0000][below(6)];
                    for (byte, new) in bytes[at..].iter_mut().zip(value.to_le_bytes()) {
                        *byte = new;
                    }
                }
                4 => {
                    let end = (at + below(64)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    let end = (at + below(64)).min(bytes.len());
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
            if bytes.len() < 24 {
                break;
            }
        }
        let length = bytes.len();
        MOST.set(HELD.get());
        let before = HELD.get();
        match read_all(bytes) {
            Ok(()) => sound += 1,
            Err(_) => broken += 1,
        }
        let used = MOST.get().saturating_sub(before);
        // A number takes up to 12 times the bytes it is encoded in, a token some hundred bytes,
        // and the patterns of a tokenizer half a megabyte.
        assert!(used < 100 * length + (8 << 20), "round {round}: {used} for {length} bytes");
    }
    // Both happen often, so both paths were walked.
    assert!(sound > 500 && broken > 500, "{sound} read, {broken} refused");
}
