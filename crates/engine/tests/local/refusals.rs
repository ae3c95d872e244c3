//! What has no local form.

use crate::support::{FAMILIES, blocks, random_case_of};
use fewstep_engine::{Error, Network, Steps, descend_local, observe_local};

/// A matrix of keys acts on the other positions, which are constants: a choice with one of its blocks
/// is refused by the block's name, and accepted without it.
#[test]
fn blocks_of_keys_are_refused() {
    for family in 0..FAMILIES {
        let (config, parameters, task) = random_case_of(family, 1);
        let model: Network<f32> = Network::new(&config, parameters).unwrap();
        let steps = Steps::new(0.01, 1);
        let mut chosen = blocks("value@all", &config);
        assert!(observe_local(&model, &task, &chosen).is_ok());
        assert!(descend_local(&model, &task, &chosen, &steps).is_ok());
        chosen.push("key.1.0".parse().unwrap());
        let observed = observe_local(&model, &task, &chosen).unwrap_err();
        let descended = descend_local(&model, &task, &chosen, &steps).unwrap_err();
        let expected = Error::NoLocalForm { block: "key.1.0".to_owned() };
        assert_eq!([observed, descended], [expected.clone(), expected]);
    }
}
