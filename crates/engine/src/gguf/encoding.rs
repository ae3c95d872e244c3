//! How numbers are packed into blocks, and how a block becomes numbers again.
//!
//! In: the bytes of whole blocks. Out: `f32`, each rounded exactly as the format's reference code
//! rounds it: products and sums in `f32`, in its order.

use half::{bf16, f16};

/// How the numbers of a tensor are packed.
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
    pub(crate) fn expand(self, blocks: &[u8], numbers: &mut [f32]) {
        match self {
            Self::F32 => each(blocks, numbers, |bytes, [x]| *x = f32::from_le_bytes(*bytes)),
            Self::F16 => each(blocks, numbers, |bytes, [x]| *x = half_at::<2>(bytes, 0)),
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

/// Expands block by block.
fn each<const BYTES: usize, const NUMBERS: usize>(
    blocks: &[u8],
    numbers: &mut [f32],
    expand: impl Fn(&[u8; BYTES], &mut [f32; NUMBERS]),
) {
    let blocks = blocks.as_chunks::<BYTES>().0;
    for (block, numbers) in blocks.iter().zip(numbers.as_chunks_mut::<NUMBERS>().0) {
        expand(block, numbers);
    }
}

/// The 16-bit number at a place of a block.
fn half_at<const BYTES: usize>(block: &[u8; BYTES], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Number `index` of 32 that are packed in fours: the low halves of 16 bytes, then the high ones.
fn nibble(bytes: &[u8], index: usize) -> u8 {
    (bytes[index % 16] >> (4 * (index / 16))) & 15
}

/// The fifth bit of number `index` of 32.
fn fifth_bit(bits: &[u8], index: usize) -> u8 {
    ((bits[index / 8] >> (index % 8)) & 1) << 4
}

fn q4_0(block: &[u8; 18], numbers: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = scale * (f32::from(nibble(&block[2..], index)) - 8.0);
    }
}

fn q4_1(block: &[u8; 20], numbers: &mut [f32; 32]) {
    let (scale, offset) = (half_at(block, 0), half_at(block, 2));
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = scale * f32::from(nibble(&block[4..], index)) + offset;
    }
}

fn q5_0(block: &[u8; 22], numbers: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    for (index, number) in numbers.iter_mut().enumerate() {
        let level = nibble(&block[6..], index) | fifth_bit(&block[2..6], index);
        *number = scale * (f32::from(level) - 16.0);
    }
}

fn q5_1(block: &[u8; 24], numbers: &mut [f32; 32]) {
    let (scale, offset) = (half_at(block, 0), half_at(block, 2));
    for (index, number) in numbers.iter_mut().enumerate() {
        let level = nibble(&block[8..], index) | fifth_bit(&block[4..8], index);
        *number = scale * f32::from(level) + offset;
    }
}

fn q8_0(block: &[u8; 34], numbers: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    for (number, &level) in numbers.iter_mut().zip(&block[2..]) {
        *number = f32::from(level.cast_signed()) * scale;
    }
}

/// Number `index` of 256 that are packed in twos: four times 32 from 32 bytes, and again.
fn pair(bytes: &[u8], index: usize) -> u8 {
    (bytes[index / 128 * 32 + index % 32] >> (2 * (index / 32 % 4))) & 3
}

/// Number `index` of 256 that are packed in fours: twice 32 from 32 bytes, four times.
fn half_byte(bytes: &[u8], index: usize) -> u8 {
    (bytes[index / 64 * 32 + index % 32] >> (4 * (index / 32 % 2))) & 15
}

/// One bit for number `index` of 256: bit 0 of 32 bytes, then bit 1, and so on.
fn single_bit(bytes: &[u8], index: usize) -> u8 {
    (bytes[index % 32] >> (index / 32)) & 1
}

fn q2_k(block: &[u8; 84], numbers: &mut [f32; 256]) {
    let (scale, offset) = (half_at(block, 80), half_at(block, 82));
    for (group, numbers) in numbers.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = scale * f32::from(block[group] & 15);
        let offset = offset * f32::from(block[group] >> 4);
        for (index, number) in numbers.iter_mut().enumerate() {
            *number = scale * f32::from(pair(&block[16..80], 16 * group + index)) - offset;
        }
    }
}

fn q3_k(block: &[u8; 110], numbers: &mut [f32; 256]) {
    let (scale, scales) = (half_at(block, 108), &block[96..108]);
    for (group, numbers) in numbers.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let low = (scales[group % 8] >> (4 * (group / 8))) & 15;
        let high = (scales[8 + group % 4] >> (2 * (group / 4))) & 3;
        let scale = scale * (f32::from(low | (high << 4)) - 32.0);
        for (index, number) in numbers.iter_mut().enumerate() {
            let index = 16 * group + index;
            let level = pair(&block[32..96], index) | (single_bit(&block[..32], index) << 2);
            *number = scale * (f32::from(level) - 4.0);
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
        for (index, number) in numbers.iter_mut().enumerate() {
            *number = scale * f32::from(half_byte(&block[16..], 32 * group + index)) - offset;
        }
    }
}

fn q5_k(block: &[u8; 176], numbers: &mut [f32; 256]) {
    let (scale, offset) = (half_at(block, 0), half_at(block, 2));
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (own_scale, own_offset) = group_scale(&block[4..16], group);
        let (scale, offset) = (scale * own_scale, offset * own_offset);
        for (index, number) in numbers.iter_mut().enumerate() {
            let index = 32 * group + index;
            let level =
                half_byte(&block[48..], index) | (single_bit(&block[16..48], index) << 4);
            *number = scale * f32::from(level) - offset;
        }
    }
}

fn q6_k(block: &[u8; 210], numbers: &mut [f32; 256]) {
    let (scale, scales) = (half_at(block, 208), &block[192..208]);
    for (group, numbers) in numbers.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = scale * f32::from(scales[group].cast_signed());
        for (index, number) in numbers.iter_mut().enumerate() {
            let index = 16 * group + index;
            let low = (block[index / 128 * 64 + index % 64] >> (4 * (index / 64 % 2))) & 15;
            let level = low | (pair(&block[128..192], index) << 4);
            *number = scale * (f32::from(level) - 32.0);
        }
    }
}
