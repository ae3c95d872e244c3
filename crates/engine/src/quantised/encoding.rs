//! How numbers are encoded in blocks, and how a block becomes numbers again.
//!
//! In: the bytes of whole blocks. Out: `f32`, each rounded exactly as the format's reference code
//! rounds it: products and sums in `f32`, in its order.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// How the numbers of a tensor are encoded.
///
/// A block holds a fixed number of neighbours in a row: one for the plain types, 32 or (names
/// with a `K`) 256 small integers for the others, which share a scale and perhaps an offset.
///
/// # Examples
///
/// ```
/// use fewstep_engine::Encoding;
///
/// assert_eq!(Encoding::Q4_1.to_string(), "Q4_1");
/// assert_eq!((Encoding::Q4_1.block_numbers(), Encoding::Q4_1.block_bytes()), (32, 20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// 32-bit numbers.
    F32,
    /// 16-bit numbers with 5 bits of exponent.
    F16,
    /// 16-bit numbers with 8 bits of exponent.
    Bf16,
    /// 4 bits around 0, one scale for 32.
    Q4_0,
    /// 4 bits over an offset, one scale for 32.
    Q4_1,
    /// 5 bits around 0, one scale for 32.
    Q5_0,
    /// 5 bits over an offset, one scale for 32.
    Q5_1,
    /// 8 bits around 0, one scale for 32.
    Q8_0,
    /// 2 bits over offsets, in 16 groups of 16.
    Q2K,
    /// 3 bits around 0, in 16 groups of 16.
    Q3K,
    /// 4 bits over offsets, in 8 groups of 32.
    Q4K,
    /// 5 bits over offsets, in 8 groups of 32.
    Q5K,
    /// 6 bits around 0, in 16 groups of 16.
    Q6K,
}

/// Every encoding with its number in a file, its name, and numbers and bytes per block.
const TABLE: [(Encoding, u32, &str, usize, usize); 13] = [
    (Encoding::F32, 0, "F32", 1, 4),
    (Encoding::F16, 1, "F16", 1, 2),
    (Encoding::Q4_0, 2, "Q4_0", 32, 18),
    (Encoding::Q4_1, 3, "Q4_1", 32, 20),
    (Encoding::Q5_0, 6, "Q5_0", 32, 22),
    (Encoding::Q5_1, 7, "Q5_1", 32, 24),
    (Encoding::Q8_0, 8, "Q8_0", 32, 34),
    (Encoding::Q2K, 10, "Q2_K", 256, 84),
    (Encoding::Q3K, 11, "Q3_K", 256, 110),
    (Encoding::Q4K, 12, "Q4_K", 256, 144),
    (Encoding::Q5K, 13, "Q5_K", 256, 176),
    (Encoding::Q6K, 14, "Q6_K", 256, 210),
    (Encoding::Bf16, 30, "BF16", 1, 2),
];

/// Encodings that exist and are not read, so that they can be refused by name.
const FOREIGN: [(u32, &str); 21] = [
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (41, "Q1_0"),
];

/// The name of an encoding that is not read, or its number if it is unknown.
pub(crate) fn foreign_name(code: u32) -> String {
    let known = FOREIGN.iter().find(|(number, _)| *number == code);
    known.map_or_else(|| format!("type {code}"), |(_, name)| (*name).to_owned())
}

impl Encoding {
    /// The encoding with a number in a file.
    pub(crate) fn of_code(code: u32) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == code).map(|row| row.0)
    }

    fn row(self) -> &'static (Self, u32, &'static str, usize, usize) {
        TABLE.iter().find(|row| row.0 == self).expect("the table lists every encoding")
    }

    /// How many numbers a block holds.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_engine::Encoding::Q6K.block_numbers(), 256);
    /// ```
    #[must_use]
    pub fn block_numbers(self) -> usize {
        self.row().3
    }

    /// How many bytes a block takes.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_engine::Encoding::Q8_0.block_bytes(), 2 + 32);
    /// ```
    #[must_use]
    pub fn block_bytes(self) -> usize {
        self.row().4
    }

    /// Writes the numbers of whole blocks.
    pub(crate) fn dequantise(self, blocks: &[u8], numbers: &mut [f32]) {
        match self {
            Self::F32 => each(blocks, numbers, |bytes, [x]| *x = f32::from_le_bytes(*bytes)),
            Self::F16 => halves(blocks, numbers),
            Self::Bf16 => {
                each(blocks, numbers, |bytes, [x]| *x = bf16::from_le_bytes(*bytes).to_f32());
            }
            Self::Q4_0 => each(blocks, numbers, q4_0),
            Self::Q4_1 => each(blocks, numbers, q4_1),
            Self::Q5_0 => each(blocks, numbers, q5_0),
            Self::Q5_1 => each(blocks, numbers, q5_1),
            Self::Q8_0 => each(blocks, numbers, q8_0),
            Self::Q2K => each(blocks, numbers, q2_k),
            Self::Q3K => each(blocks, numbers, q3_k),
            Self::Q4K => each(blocks, numbers, q4_k),
            Self::Q5K => each(blocks, numbers, q5_k),
            Self::Q6K => each(blocks, numbers, q6_k),
        }
    }

    /// Whether all numbers of whole blocks are finite.
    ///
    /// A block of small integers is finite exactly if its scale and offset are: their products
    /// with integers under 2¹² stay far below the largest `f32`.
    pub(crate) fn finite(self, blocks: &[u8]) -> bool {
        let halves: &[usize] = match self {
            Self::F32 => {
                let numbers = blocks.as_chunks().0;
                return numbers.iter().all(|bytes| f32::from_le_bytes(*bytes).is_finite());
            }
            Self::Bf16 => {
                let numbers = blocks.as_chunks().0;
                return numbers.iter().all(|bytes| bf16::from_le_bytes(*bytes).is_finite());
            }
            Self::F16 | Self::Q4_0 | Self::Q5_0 | Self::Q8_0 => &[0],
            Self::Q4_1 | Self::Q5_1 | Self::Q4K | Self::Q5K => &[0, 2],
            Self::Q2K => &[80, 82],
            Self::Q3K => &[108],
            Self::Q6K => &[208],
        };
        blocks.chunks_exact(self.block_bytes()).all(|block| {
            halves.iter().all(|&at| f16::from_le_bytes([block[at], block[at + 1]]).is_finite())
        })
    }
}

impl std::fmt::Display for Encoding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.row().2)
    }
}

/// Dequantises block by block.
fn each<const BYTES: usize, const NUMBERS: usize>(
    blocks: &[u8],
    numbers: &mut [f32],
    dequantise: impl Fn(&[u8; BYTES], &mut [f32; NUMBERS]),
) {
    let blocks = blocks.as_chunks::<BYTES>().0;
    for (block, numbers) in blocks.iter().zip(numbers.as_chunks_mut::<NUMBERS>().0) {
        dequantise(block, numbers);
    }
}

/// Decodes 16-bit numbers, many at a time where the processor can.
fn halves(bytes: &[u8], numbers: &mut [f32]) {
    for (bytes, numbers) in bytes.chunks(128).zip(numbers.chunks_mut(64)) {
        let mut some = [f16::ZERO; 64];
        let some = &mut some[..numbers.len()];
        for (half, bytes) in some.iter_mut().zip(bytes.as_chunks().0) {
            *half = f16::from_le_bytes(*bytes);
        }
        some.convert_to_f32_slice(numbers);
    }
}

/// The 16-bit number at a place of a block.
fn half_at<const BYTES: usize>(block: &[u8; BYTES], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The 32 numbers that are packed in fours: the low halves of 16 bytes, then the high ones.
fn nibbles(bytes: &[u8]) -> [u8; 32] {
    let bytes = bytes.first_chunk::<16>().expect("a block holds 16 such bytes");
    let mut levels = [0; 32];
    let (low, high) = levels.split_at_mut(16);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
    levels
}

/// The fifth bits of 32 numbers, each in its place.
fn fifth_bits(block: &[u8], at: usize) -> [u8; 32] {
    let bits = u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    let mut fifth = [0; 32];
    for (fifth, mask) in fifth.iter_mut().zip((0..32).map(|index| 1_u32 << index)) {
        *fifth = u8::from(bits & mask != 0) << 4;
    }
    fifth
}

fn q4_0(block: &[u8; 18], numbers: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    for (number, level) in numbers.iter_mut().zip(nibbles(&block[2..])) {
        *number = scale * (f32::from(level) - 8.0);
    }
}

fn q4_1(block: &[u8; 20], numbers: &mut [f32; 32]) {
    let (scale, offset) = (half_at(block, 0), half_at(block, 2));
    for (number, level) in numbers.iter_mut().zip(nibbles(&block[4..])) {
        *number = scale * f32::from(level) + offset;
    }
}

fn q5_0(block: &[u8; 22], numbers: &mut [f32; 32]) {
    let (scale, fifth) = (half_at(block, 0), fifth_bits(block, 2));
    for ((number, level), fifth) in numbers.iter_mut().zip(nibbles(&block[6..])).zip(fifth) {
        *number = scale * (f32::from(level | fifth) - 16.0);
    }
}

fn q5_1(block: &[u8; 24], numbers: &mut [f32; 32]) {
    let (scale, offset, fifth) = (half_at(block, 0), half_at(block, 2), fifth_bits(block, 4));
    for ((number, level), fifth) in numbers.iter_mut().zip(nibbles(&block[8..])).zip(fifth) {
        *number = scale * f32::from(level | fifth) + offset;
    }
}

fn q8_0(block: &[u8; 34], numbers: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    for (number, &level) in numbers.iter_mut().zip(&block[2..]) {
        *number = f32::from(level.cast_signed()) * scale;
    }
}

/// `WIDTH` bits from each of 32 bytes, for one of the 8 groups of 32 numbers in a block: the
/// groups take turns with the bits of the same bytes before the next 32 bytes come.
fn group_bits<const WIDTH: usize>(bytes: &[u8], group: usize) -> [u8; 32] {
    let turns = 8 / WIDTH;
    let bytes: &[u8; 32] = bytes[group / turns * 32..].first_chunk().expect("a block has them");
    let (shift, mask) = (WIDTH * (group % turns), (1 << WIDTH) - 1);
    std::array::from_fn(|index| (bytes[index] >> shift) & mask)
}

fn q2_k(block: &[u8; 84], numbers: &mut [f32; 256]) {
    let (scale, offset) = (half_at(block, 80), half_at(block, 82));
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let levels = group_bits::<2>(&block[16..80], group);
        for (half, numbers) in numbers.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let own = block[2 * group + half];
            let (scale, offset) = (scale * f32::from(own & 15), offset * f32::from(own >> 4));
            for (number, &level) in numbers.iter_mut().zip(&levels[16 * half..]) {
                *number = scale * f32::from(level) - offset;
            }
        }
    }
}

fn q3_k(block: &[u8; 110], numbers: &mut [f32; 256]) {
    let (scale, scales) = (half_at(block, 108), &block[96..108]);
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let low = group_bits::<2>(&block[32..96], group);
        let high = group_bits::<1>(&block[..32], group);
        let levels: [u8; 32] = std::array::from_fn(|index| low[index] | (high[index] << 2));
        for (half, numbers) in numbers.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let group = 2 * group + half;
            let low = (scales[group % 8] >> (4 * (group / 8))) & 15;
            let high = (scales[8 + group % 4] >> (2 * (group / 4))) & 3;
            let scale = scale * (f32::from(low | (high << 4)) - 32.0);
            for (number, &level) in numbers.iter_mut().zip(&levels[16 * half..]) {
                *number = scale * (f32::from(level) - 4.0);
            }
        }
    }
}

/// Scale and offset of a group of 32, from 12 bytes that hold 6 bits of each of 8 and 8.
fn group_scale(bytes: &[u8], group: usize) -> (f32, f32) {
    let (scale, offset) = match group {
        0..4 => (bytes[group] & 63, bytes[group + 4] & 63),
        _ => {
            let (low, top, top_offset) = (bytes[group + 4], bytes[group - 4], bytes[group]);
            ((low & 15) | ((top >> 2) & 48), (low >> 4) | ((top_offset >> 2) & 48))
        }
    };
    (f32::from(scale), f32::from(offset))
}

fn q4_k(block: &[u8; 144], numbers: &mut [f32; 256]) {
    let (scale, offset) = (half_at(block, 0), half_at(block, 2));
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (own_scale, own_offset) = group_scale(&block[4..16], group);
        let (scale, offset) = (scale * own_scale, offset * own_offset);
        for (number, level) in numbers.iter_mut().zip(group_bits::<4>(&block[16..], group)) {
            *number = scale * f32::from(level) - offset;
        }
    }
}

fn q5_k(block: &[u8; 176], numbers: &mut [f32; 256]) {
    let (scale, offset) = (half_at(block, 0), half_at(block, 2));
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (own_scale, own_offset) = group_scale(&block[4..16], group);
        let (scale, offset) = (scale * own_scale, offset * own_offset);
        let low = group_bits::<4>(&block[48..], group);
        let high = group_bits::<1>(&block[16..48], group);
        for ((number, low), high) in numbers.iter_mut().zip(low).zip(high) {
            *number = scale * f32::from(low | (high << 4)) - offset;
        }
    }
}

fn q6_k(block: &[u8; 210], numbers: &mut [f32; 256]) {
    let (scale, scales) = (half_at(block, 208), &block[192..208]);
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        // Here two groups share the low halves of 64 bytes before the high ones follow.
        let low: &[u8; 32] = block[group / 4 * 64 + group % 2 * 32..]
            .first_chunk()
            .expect("a block has 128 such bytes");
        let (shift, high) = (4 * (group / 2 % 2), group_bits::<2>(&block[128..192], group));
        let levels: [u8; 32] =
            std::array::from_fn(|index| ((low[index] >> shift) & 15) | (high[index] << 4));
        for (half, numbers) in numbers.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let scale = scale * f32::from(scales[2 * group + half].cast_signed());
            for (number, &level) in numbers.iter_mut().zip(&levels[16 * half..]) {
                *number = scale * (f32::from(level) - 32.0);
            }
        }
    }
}
