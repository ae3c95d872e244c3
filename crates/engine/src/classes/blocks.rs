//! What the arms of a policy update, as a model has it.
//!
//! In: the arms' blocks as text. Out: per base prompt the list of [`ClassPart`]s, and for each arm where its
//! own stand in that list.

use crate::blocks::{BlockId, choose_blocks};
use crate::config::Config;
use crate::error::Error;
use fewstep_core::{ArmBlocks, Base, ClassPolicy};

/// A group of parameters that label scores depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassPart {
    /// A bias per label.
    Bias,
    /// A factor on all label scores.
    Scale,
    /// A row per label that meets what the last layer puts out where the label begins.
    Readout,
    /// Weights of the model.
    Block(BlockId),
}

/// The parts of each base prompt, and the arms among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arms {
    pub(crate) bases: Vec<Base>,
    pub(crate) parts: Vec<Vec<ClassPart>>,
    pub(crate) arms: Vec<ArmBlocks>,
}

impl Arms {
    /// The arms of a policy; few-shot is a base whatever the arms are, since in-context learning is
    /// what they are compared with.
    pub(crate) fn of(policy: &ClassPolicy, config: &Config) -> Result<Self, Error> {
        let zero_shot = policy.arms.iter().any(|arm| arm.base == Base::ZeroShot);
        let bases: Vec<Base> =
            [Base::FewShot].into_iter().chain(zero_shot.then_some(Base::ZeroShot)).collect();
        let mut parts = vec![Vec::new(); bases.len()];
        let mut arms = Vec::with_capacity(policy.arms.len());
        for arm in &policy.arms {
            let base = usize::from(arm.base == Base::ZeroShot);
            let known: &mut Vec<ClassPart> = &mut parts[base];
            let mut blocks = Vec::new();
            for part in parts_of(&arm.blocks, config)? {
                let place = known.iter().position(|other| *other == part);
                if place.is_none() {
                    known.push(part);
                }
                blocks.push(place.unwrap_or(known.len() - 1));
            }
            arms.push(ArmBlocks { base, blocks });
        }
        Ok(Self { bases, parts, arms })
    }

    /// The weights among the parts of a base.
    pub(crate) fn weights(&self, base: usize) -> Vec<BlockId> {
        let block = |part: &ClassPart| match part {
            ClassPart::Block(block) => Some(*block),
            _ => None,
        };
        self.parts[base].iter().filter_map(block).collect()
    }

    /// The same without weights: arms that have any are left without blocks.
    pub(crate) fn without_weights(mut self) -> Self {
        for arm in &mut self.arms {
            let parts = &self.parts[arm.base];
            if arm.blocks.iter().any(|&index| matches!(parts[index], ClassPart::Block(_))) {
                arm.blocks.clear();
            }
        }
        for (base, parts) in self.parts.iter_mut().enumerate() {
            let kept = |part: &ClassPart| !matches!(part, ClassPart::Block(_));
            let mut places = vec![0; parts.len()];
            let mut count = 0;
            for (place, part) in places.iter_mut().zip(parts.iter()) {
                *place = count;
                count += usize::from(kept(part));
            }
            for arm in self.arms.iter_mut().filter(|arm| arm.base == base) {
                arm.blocks.iter_mut().for_each(|block| *block = places[*block]);
            }
            parts.retain(kept);
        }
        self
    }
}

/// `bias`, `scale`, `readout` and choices of weights, divided by commas, each part once.
fn parts_of(text: &str, config: &Config) -> Result<Vec<ClassPart>, Error> {
    let (mut parts, mut weights) = (Vec::new(), Vec::new());
    for word in text.split(',').map(str::trim) {
        let part = match word {
            "bias" => ClassPart::Bias,
            "scale" => ClassPart::Scale,
            "readout" => ClassPart::Readout,
            _ => {
                weights.push(word);
                // The layers of some kinds end the list of these kinds.
                if word.contains('@') {
                    let blocks = choose_blocks(&weights.join(","), config)?;
                    parts.extend(blocks.into_iter().map(ClassPart::Block));
                    weights.clear();
                }
                continue;
            }
        };
        parts.push(part);
    }
    if !weights.is_empty() {
        return Err(Error::BadClassBlocks { found: text.to_owned() });
    }
    for (index, part) in parts.iter().enumerate() {
        if parts[..index].contains(part) {
            return Err(Error::DuplicateClassBlock { found: text.to_owned() });
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let json = br#"{"model_type": "gpt2", "n_layer": 3, "n_head": 1, "n_embd": 4,
                        "n_ctx": 8, "vocab_size": 9}"#;
        Config::from_json(json).expect("a configuration")
    }

    fn names(text: &str) -> Result<Vec<String>, Error> {
        let name = |part| match part {
            ClassPart::Block(block) => block.to_string(),
            other => format!("{other:?}"),
        };
        Ok(parts_of(text, &config())?.into_iter().map(name).collect())
    }

    #[test]
    fn parts_are_divided_by_commas() {
        assert_eq!(names("bias").unwrap(), ["Bias"]);
        let all = names("readout, mlp-up,mlp-down@last1 ,scale, value@0..1").unwrap();
        assert_eq!(all, ["Readout", "mlp-up.2", "mlp-down.2", "Scale", "value.0.0"]);
        for bad in ["mlp-up", "bias,mlp-up"] {
            assert_eq!(names(bad), Err(Error::BadClassBlocks { found: bad.to_owned() }));
        }
        for twice in ["bias,bias", "mlp-up@all,mlp-up@last1"] {
            let found = twice.to_owned();
            assert_eq!(names(twice), Err(Error::DuplicateClassBlock { found }));
        }
        assert!(names("bias@last1").is_err());
    }

    #[test]
    fn arms_share_what_they_have_in_common() {
        let policy = ClassPolicy::default();
        let arms = Arms::of(&policy, &config()).unwrap();
        assert_eq!(arms.bases, [Base::FewShot, Base::ZeroShot]);
        let blocks: Vec<&[usize]> = arms.arms.iter().map(|arm| &arm.blocks[..]).collect();
        assert_eq!(blocks, [&[0][..], &[1], &[2, 3], &[0], &[1]]);
        assert_eq!(arms.weights(0).len(), 2);
        assert_eq!(arms.weights(1), []);
        let none = arms.without_weights();
        let blocks: Vec<&[usize]> = none.arms.iter().map(|arm| &arm.blocks[..]).collect();
        assert_eq!(blocks, [&[0][..], &[1], &[], &[0], &[1]]);
    }
}
