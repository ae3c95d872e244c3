//! Mixed texts from a seed: the same as those of `fixtures/gguf/texts.py`.

use crate::gguf::support::{crc32, fixture, json};
use serde_json::Value;

struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }
}

pub(crate) struct Texts {
    pieces: Vec<String>,
    ranges: Vec<(u32, u32)>,
}

impl Texts {
    pub(crate) fn read() -> Self {
        let file = json(&fixture("pieces.json"));
        let parts = |name: &str| file[name].clone();
        Self {
            pieces: serde_json::from_value(parts("pieces")).unwrap(),
            ranges: serde_json::from_value(parts("ranges")).unwrap(),
        }
    }

    pub(crate) fn text(&self, index: u64) -> String {
        let mut rng = SplitMix(index);
        let mut text = String::new();
        for _ in 0..=rng.below(12) {
            if rng.below(10) < 9 {
                text.push_str(&self.pieces[rng.below(self.pieces.len())]);
            } else {
                let (first, last) = self.ranges[rng.below(self.ranges.len())];
                let offset = rng.below((last - first + 1) as usize);
                text.push(char::from_u32(first + u32::try_from(offset).unwrap()).unwrap());
            }
            if rng.below(2) == 0 {
                text.push(' ');
            }
        }
        text
    }

    /// Checks the ids of a hundred texts per checksum.
    pub(crate) fn check(&self, name: &str, sums: &Value, encode: impl Fn(&str) -> Vec<u32>) {
        let of = |kind: &str| sums[kind].as_array().unwrap();
        for (group, (text_sum, id_sum)) in of("texts").iter().zip(of("ids")).enumerate() {
            let (mut texts, mut ids) = (Vec::new(), Vec::new());
            for index in 100 * group..100 * (group + 1) {
                let text = self.text(index as u64);
                let found = encode(&text);
                ids.extend(found.into_iter().chain([u32::MAX]).flat_map(u32::to_le_bytes));
                texts.extend(text.bytes().chain([0]));
            }
            assert_eq!(u64::from(crc32(&texts)), *text_sum, "{name}: texts of group {group}");
            assert_eq!(u64::from(crc32(&ids)), *id_sum, "{name}: ids of group {group}");
        }
    }
}
