//! Quantised blocks against the numbers that the format's own package gives.

use crate::gguf::support::{encoding, fixture};
use fewstep_engine::{Encoding, Error, QuantisedMatrix};
use safetensors::SafeTensors;
use std::fs;

const COLUMNS: usize = 512;

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

#[test]
fn every_encoding_is_exact_to_the_bit() {
    let file = fs::read(fixture("blocks.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let mut seen = 0;
    for name in tensors.names().into_iter().filter_map(|name| name.strip_suffix(".bytes")) {
        let bytes = tensors.tensor(&format!("{name}.bytes")).unwrap().data().to_vec();
        let expected: Vec<u32> = tensors
            .tensor(&format!("{name}.numbers"))
            .unwrap()
            .data()
            .as_chunks()
            .0
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes))
            .collect();
        let rows = expected.len() / COLUMNS;
        let matrix = QuantisedMatrix::new(encoding(name), [rows, COLUMNS], bytes).unwrap();
        let found = bits(&matrix.dequantise());
        let differs =
            found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!((found.len(), differs), (expected.len(), None), "{name}");

        // Any rows, alone or together, and the same turned round.
        for first in 0..rows {
            for last in first..=rows {
                let mut numbers = vec![f32::NAN; (last - first) * COLUMNS];
                matrix.dequantise_rows(first..last, &mut numbers).unwrap();
                let same = bits(&numbers) == expected[first * COLUMNS..last * COLUMNS];
                assert!(same, "{name} {first}..{last}");
            }
        }
        let turned = matrix.dequantise_transposed();
        for (index, &number) in expected.iter().enumerate() {
            let (row, column) = (index / COLUMNS, index % COLUMNS);
            assert_eq!(turned[column * rows + row].to_bits(), number, "{name}");
        }
        seen += 1;
    }
    assert_eq!(seen, 13);
}

#[test]
fn a_matrix_of_another_size_is_refused() {
    let new = |shape, bytes| QuantisedMatrix::new(Encoding::Q4K, shape, vec![0; bytes]);
    for (shape, bytes, quantity, found, expected) in [
        ([1, 255], 144, "row of a quantised matrix", 255, 256),
        ([1, 257], 144, "row of a quantised matrix", 257, 512),
        ([2, 256], 144, "quantised matrix", 144, 288),
        ([1, 256], 145, "quantised matrix", 145, 144),
        ([usize::MAX, 256], 144, "quantised matrix", 144, usize::MAX),
    ] {
        let refused = Error::SizeMismatch { quantity, found, expected };
        assert_eq!(new(shape, bytes).unwrap_err(), refused);
    }
    for shape in [[0, 256], [1, 0]] {
        assert_eq!(new(shape, 0).unwrap_err(), Error::Empty { quantity: "matrix" });
    }
    let matrix = new([2, 256], 288).unwrap();
    let mut room = [0.0; 256];
    let (found, expected) = (3, 2);
    let refused = Error::SizeMismatch { quantity: "end of the rows", found, expected };
    assert_eq!(matrix.dequantise_rows(2..3, &mut room), Err(refused));
    let (found, expected) = (256, 512);
    let refused = Error::SizeMismatch { quantity: "room for rows", found, expected };
    assert_eq!(matrix.dequantise_rows(0..2, &mut room), Err(refused));
    #[allow(clippy::reversed_empty_ranges, reason = "a caller's mistake must not panic")]
    let backwards = matrix.dequantise_rows(2..1, &mut []);
    assert_eq!(backwards, Ok(()));
}

#[test]
fn a_matrix_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    shared(&QuantisedMatrix::new(Encoding::F16, [1, 1], vec![0; 2]).unwrap());
}
