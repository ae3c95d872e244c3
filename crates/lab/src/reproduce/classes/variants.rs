//! The policies that are judged, in one place: the default, and others that differ from it in one thing.
//!
//! In: nothing. Out: [`variants`], and the [`union`] of their arms, by which a prompt is observed once
//! for all of them.

use fewstep_core::{Base, ClassArm, ClassDepth, ClassLoss, ClassPolicy, ClassRule, Policy};

/// The name of the policy that is judged against the targets.
pub const JUDGED: &str = "default";

/// The arm whose readout kernel the linear probe needs.
const PROBED: (Base, &str) = (Base::FewShot, "readout");

/// The policies that are judged, the default first.
///
/// | names | what differs from the default |
/// |---|---|
/// | `only few-shot bias`, … | one arm alone |
/// | `few-shot arms` | no zero-shot arm |
/// | `all layers` | MLP matrices of all layers, not of the upper half |
/// | `mlp-up and readout together` | in one arm, not in two |
/// | `depth pooled`, `depth best` | the number of layers is a candidate, or chosen |
/// | `squared`, `aitchison`, `laplace` | the loss, or what weighs numbers of steps |
/// | `sharpness 0.05`, … | how sharply weights follow leave-one-out log-losses |
/// | `leave alone 0.3`, … | the prior of leaving in-context learning alone |
/// | `step scales` | 0.2, 0.6 and 0.9 of the largest stable step |
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::classes::{JUDGED, variants};
///
/// let policies = variants();
/// assert_eq!((policies[0].name.as_str(), &policies[0]), (JUDGED, &Default::default()));
/// ```
#[must_use]
pub fn variants() -> Vec<Policy> {
    let classes = ClassPolicy::default;
    let mut found = vec![Policy::default()];
    let mut add = |name: String, classes: ClassPolicy| {
        found.push(Policy { name, classes, ..Policy::default() });
    };
    for arm in classes().arms {
        add(format!("only {arm}"), ClassPolicy { arms: vec![arm], ..classes() });
    }
    let few: Vec<ClassArm> =
        classes().arms.into_iter().filter(|arm| arm.base == Base::FewShot).collect();
    add("few-shot arms".to_owned(), ClassPolicy { arms: few, ..classes() });
    let deeper =
        |arm: ClassArm| ClassArm { blocks: arm.blocks.replace("upper-half", "all"), ..arm };
    add("all layers".to_owned(), with_arms(deeper));
    add(
        "mlp-up and readout together".to_owned(),
        ClassPolicy { arms: together(), ..classes() },
    );
    for (name, depth) in
        [("depth pooled", ClassDepth::Pooled), ("depth best", ClassDepth::Best)]
    {
        add(name.to_owned(), with_arms(|arm| ClassArm { depth, ..arm }));
    }
    let aitchison = ClassLoss::Aitchison { smoothing: 0.1 };
    for (name, loss) in [("squared", ClassLoss::Squared), ("aitchison", aitchison)] {
        add(name.to_owned(), ClassPolicy { loss, ..classes() });
    }
    add("laplace".to_owned(), ClassPolicy { rule: ClassRule::Laplace, ..classes() });
    for sharpness in [0.05, 0.3, 1.0] {
        add(format!("sharpness {sharpness}"), ClassPolicy { sharpness, ..classes() });
    }
    for leave_alone in [0.3, 0.5] {
        add(format!("leave alone {leave_alone}"), ClassPolicy { leave_alone, ..classes() });
    }
    add(
        "step scales".to_owned(),
        ClassPolicy { step_scales: vec![0.2, 0.6, 0.9], ..classes() },
    );
    found
}

/// The default with every arm changed.
fn with_arms(change: impl Fn(ClassArm) -> ClassArm) -> ClassPolicy {
    let arms = ClassPolicy::default().arms.into_iter().map(change).collect();
    ClassPolicy { arms, ..ClassPolicy::default() }
}

/// The default's arms, with the few-shot MLP matrices and readout in one.
fn together() -> Vec<ClassArm> {
    let mut arms = ClassPolicy::default().arms;
    arms.retain(|arm| (arm.base, &*arm.blocks) != PROBED);
    for arm in &mut arms {
        if arm.base == Base::FewShot && arm.blocks.starts_with("mlp-up") {
            arm.blocks = format!("{},readout", arm.blocks);
        }
    }
    arms
}

/// Every arm of some policies once, whatever its depth, and those that comparisons need: a policy to
/// observe by.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::classes::{union, variants};
///
/// let all = union(&variants());
/// assert_eq!(all.arms.len(), 7);
/// ```
#[must_use]
pub fn union(policies: &[Policy]) -> ClassPolicy {
    let mut arms: Vec<ClassArm> = Vec::new();
    let of = policies.iter().flat_map(|policy| policy.classes.arms.iter().cloned());
    let needed = [PROBED, (Base::ZeroShot, "bias")].map(|(base, blocks)| ClassArm {
        base,
        blocks: blocks.to_owned(),
        depth: ClassDepth::All,
    });
    for arm in of.chain(needed) {
        if place(&arms, &arm).is_none() {
            arms.push(ClassArm { depth: ClassDepth::All, ..arm });
        }
    }
    ClassPolicy { arms, ..ClassPolicy::default() }
}

/// Where an arm with the base and blocks of another stands.
pub(super) fn place(arms: &[ClassArm], arm: &ClassArm) -> Option<usize> {
    arms.iter().position(|other| (other.base, &other.blocks) == (arm.base, &arm.blocks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_policy_has_a_name_of_its_own_and_can_be_followed() {
        let all = variants();
        let names: BTreeSet<&String> = all.iter().map(|policy| &policy.name).collect();
        assert_eq!(names.len(), all.len());
        let union = union(&all);
        for (index, policy) in all.iter().enumerate() {
            assert_eq!(policy.check(), Ok(()), "{}", policy.name);
            assert_eq!(policy.classes == ClassPolicy::default(), index == 0, "{}", policy.name);
            for arm in &policy.classes.arms {
                assert!(place(&union.arms, arm).is_some(), "{}: {arm}", policy.name);
            }
            let again = Policy::from_json(&policy.to_json()).unwrap();
            assert_eq!(again, *policy);
        }
    }

    #[test]
    fn a_union_of_nothing_is_what_comparisons_need() {
        let arms: Vec<String> = union(&[]).arms.iter().map(ToString::to_string).collect();
        assert_eq!(arms, ["few-shot readout", "zero-shot bias"]);
    }
}
