//! Damaged and hostile weight files: an error each, never a panic.

use crate::loading::support::{config, file, raw, tensor, tensors};
use fewstep_engine::{Error, Parameters, Weights};
use safetensors::Dtype;
use std::fs;
use std::path::PathBuf;

const NAME: &str = "model.safetensors";

fn refused(bytes: &[u8]) -> Error {
    Weights::from_bytes(bytes).expect_err("a damaged file was accepted")
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let whole = file(&[tensor("a", &[2, 3], Dtype::F32, 0), tensor("b", &[5], Dtype::F16, 1)]);
    let header = usize::try_from(u64::from_le_bytes(whole[..8].try_into().unwrap())).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for length in 0..whole.len() {
        let cut = &whole[..length];
        let error = refused(cut);
        match error {
            Error::HeaderLength { claimed, available, .. } if length < 8 + header => {
                let needed = if length < 8 { 8 } else { 8 + header };
                assert_eq!((claimed, available), (needed as u64, length as u64));
            }
            Error::TensorBytes { end, available, .. } if length >= 8 + header => {
                assert!(end > available, "{end} {available}");
                assert_eq!(available, (length - 8 - header) as u64);
            }
            other => panic!("{length} bytes: {other}"),
        }
        fs::write(directory.path().join(NAME), cut).unwrap();
        let mapped = Weights::open(directory.path()).expect_err("the mapped file was accepted");
        assert_eq!(
            std::mem::discriminant(&mapped),
            std::mem::discriminant(&refused(cut)),
            "{length} bytes"
        );
    }
    assert!(Weights::from_bytes(&whole).is_ok());
}

#[test]
fn a_header_length_that_lies_is_refused() {
    let whole = file(&[tensor("a", &[2, 3], Dtype::F32, 0)]);
    let right = u64::from_le_bytes(whole[..8].try_into().unwrap());
    let huge = [1 << 24, (1 << 24) + 1, u64::from(u32::MAX), u64::MAX - 7, u64::MAX];
    for length in (0..=whole.len() as u64 + 9).chain(huge).filter(|&length| length != right) {
        let mut lying = whole.clone();
        lying[..8].copy_from_slice(&length.to_le_bytes());
        let error = refused(&lying);
        if length > whole.len() as u64 - 8 {
            let (claimed, available) = (length.saturating_add(8), whole.len() as u64);
            let (file, limit) = (PathBuf::from(NAME), 1 << 24);
            assert_eq!(error, Error::HeaderLength { file, claimed, available, limit });
        }
    }
}

#[test]
fn a_changed_byte_never_panics() {
    let whole = file(&tensors("", Dtype::F32));
    let header = usize::try_from(u64::from_le_bytes(whole[..8].try_into().unwrap())).unwrap();
    for position in 0..8 + header {
        for byte in [0, b'"', b'9', b'-', b'{', b'}', b',', b'[', 0xff] {
            let mut changed = whole.clone();
            changed[position] = byte;
            // Most are refused; a renamed tensor makes a file that is sound but another model's.
            let _ = Parameters::from_bytes(&changed, &config());
        }
    }
}

#[test]
fn a_tensor_that_lies_about_its_place_is_refused() {
    let entry = |name: &str, dtype: &str, shape: &str, start: u64, end: u64| {
        format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}"#
        )
    };
    let sound = entry("a", "F32", "[2]", 0, 8);
    // (entries, the tensor refused, what it claims, where it must start, what it needs)
    for (entries, tensor, claim, earliest, expected) in [
        // Beyond the end, before its own start, of the wrong size.
        (entry("a", "F32", "[4]", 0, 16), "a", (0, 16), 0, 16),
        (entry("a", "F32", "[2]", 8, 0), "a", (8, 0), 0, 8),
        (entry("a", "F32", "[3]", 0, 8), "a", (0, 8), 0, 12),
        (entry("a", "BF16", "[3]", 0, 8), "a", (0, 8), 0, 6),
        // A size that overflows.
        (entry("a", "F32", "[4294967296,4294967296]", 0, 0), "a", (0, 0), 0, u64::MAX),
        (entry("a", "F32", "[18446744073709551615,8]", 0, 8), "a", (0, 8), 0, u64::MAX),
        (entry("a", "I8", "[1]", 0, u64::MAX), "a", (0, u64::MAX), 0, u64::MAX),
        (entry("a", "I8", "[1]", 9, 3), "a", (9, 3), 0, 0),
        // Overlapping another, or leaving a gap.
        (format!("{sound},{}", entry("b", "F32", "[1]", 4, 8)), "b", (4, 8), 8, 4),
        (format!("{sound},{}", entry("b", "F32", "[0]", 9, 9)), "b", (9, 9), 8, 0),
    ] {
        let error = refused(&raw(&format!("{{{entries}}}"), &[0; 8]));
        let (file, (start, end)) = (PathBuf::from(NAME), claim);
        let (tensor, available) = (tensor.to_owned(), 8);
        let lie =
            Error::TensorBytes { file, tensor, start, end, earliest, expected, available };
        assert_eq!(error, lie, "{entries}");
    }

    let error = refused(&raw(&format!("{{{sound}}}"), &[0; 9]));
    let file = PathBuf::from(NAME);
    assert_eq!(error, Error::UncoveredBytes { file, found: 9, expected: 8 });
}

#[test]
fn a_header_that_is_no_header_is_refused() {
    let sound = r#""a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    for header in [
        "",
        "[]",
        "null",
        "{\"a\":1}",
        "{\"a\":{\"b\":\"c\"}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":0}}",
        // The same tensor twice in one header: other readers keep the last.
        &format!("{{{sound},{sound}}}"),
        // Deep nesting must not use up the stack.
        &"[".repeat(1 << 20),
        &format!("{{\"a\":{}", "[".repeat(1 << 20)),
    ] {
        let error = refused(&raw(header, &[0; 4]));
        assert!(matches!(error, Error::Json { .. }), "{error}");
    }
    let metadata = format!(r#"{{"__metadata__":{{"format":"pt"}},{sound}}}"#);
    let bytes = raw(&metadata, &1.5_f32.to_le_bytes());
    assert_eq!(Weights::from_bytes(&bytes).unwrap().tensor("a", &[1]), Ok(vec![1.5]));
}
