//! Training from nothing: derivatives against references, the optimiser against the textbook,
//! and runs that come out the same however they are cut.

use crate::support::{Reference, assert_near, fixture, random_case, random_case_of};
use fewstep_core::Rng;
use fewstep_engine::{
    Batch, Config, Error, Family, Gradients, Labels, Layout, Network, Parameters,
    PretrainSettings, Pretraining, Real, StepReport,
};
use std::path::Path;

/// Of a tensor's norm: what float64 leaves after some thousand operations, and float32.
const DOUBLE: f64 = 1e-9;
const SINGLE: f64 = 1e-4;

fn references_agree<R: Real>(tolerance: f64) {
    for folder in ["gpt2-plain", "gpt2-inner", "gpt2-half"] {
        let reference = Reference::read(folder, "next-token");
        let config = Config::load(&fixture(folder)).unwrap();
        let parameters = Parameters::load(&fixture(folder), &config).unwrap();
        let batch = Batch::next_token(vec![reference.ids("tokens")]).unwrap();
        let gradients: Gradients<R> = Gradients::of(&config, &parameters, &batch, 2).unwrap();
        let expected = &reference.floats["loss"];
        assert_near(&[gradients.loss()], expected, tolerance, folder);
        let mut compared = 0;
        for (name, expected) in &reference.floats {
            let Some(name) = name.strip_prefix("gradient.") else { continue };
            let named = [name.to_owned(), format!("transformer.{name}")];
            let found = named.iter().find_map(|name| gradients.tensor(name)).unwrap();
            let found: Vec<f64> = found.iter().map(|value| value.wide()).collect();
            assert_near(&found, expected, tolerance, &format!("{folder}: {name}"));
            compared += 1;
        }
        assert_eq!(compared, gradients.names().count(), "{folder}: every tensor is compared");
    }
}

#[test]
fn gradients_agree_with_references_in_double_precision() {
    references_agree::<f64>(DOUBLE);
}

#[test]
fn gradients_agree_with_references_in_single_precision() {
    references_agree::<f32>(SINGLE);
}

/// The loss of one target is that of the prediction side: with the label values 0 and 1 the
/// expectation is the share of one token, and all shares add up to 1.
#[test]
fn losses_are_those_of_predictions() {
    let (config, parameters, _) = random_case(6);
    let tokens = vec![1, 2, 3, 4, 5, 9];
    let model: Network<f64> = Network::new(&config, parameters.clone()).unwrap();
    let all: Vec<u32> = (0..11).collect();
    for target in 0..11 {
        let values = all.iter().map(|&token| f64::from(u8::from(token == target))).collect();
        let labels = Labels::new(all.clone(), values).unwrap();
        let layout = Layout::plain(std::slice::from_ref(&tokens)).unwrap();
        let share = model.predict(layout, &labels).unwrap()[0];
        let batch = Batch::new(vec![tokens.clone()], vec![vec![(5, target)]]).unwrap();
        let gradients: Gradients<f64> = Gradients::of(&config, &parameters, &batch, 1).unwrap();
        assert_near(&[gradients.loss()], &[-share.ln()], 1e-12, "loss");
    }
}

fn small() -> Config {
    Config {
        layers: 2,
        heads: 2,
        width: 8,
        inner: 12,
        positions: 12,
        vocabulary: 10,
        norm_epsilon: 1e-5,
        tied: true,
        bos: None,
        family: Family::Gpt2,
    }
}

fn settings() -> PretrainSettings {
    PretrainSettings {
        seed: 3,
        steps: 30,
        warmup_steps: 5,
        learning_rate: 3e-3,
        largest_gradient_norm: 0.5,
        ..PretrainSettings::default()
    }
}

/// Random sequences of different lengths, fixed by the step's number.
fn random_batch(step: usize) -> Batch {
    let mut rng = Rng::new(1000 + step as u64);
    let sequences = (0..13).map(|_| {
        let length = 2 + rng.below(10);
        (0..length).map(|_| u32::try_from(rng.below(10)).unwrap()).collect()
    });
    Batch::next_token(sequences.collect()).unwrap()
}

/// Everything that a run consists of: its file.
fn bytes(training: &Pretraining) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.safetensors");
    training.save(&file).unwrap();
    std::fs::read(file).unwrap()
}

fn run(training: &mut Pretraining, until: usize) -> Vec<StepReport> {
    (training.steps()..until).map(|step| training.step(&random_batch(step)).unwrap()).collect()
}

/// Every parameter by its name, in double precision.
fn tensors(training: &Pretraining) -> Vec<(String, Vec<f64>)> {
    let directory = tempfile::tempdir().unwrap();
    let precision = fewstep_engine::Precision::Single;
    training.parameters().save(directory.path(), training.config(), precision).unwrap();
    let weights = fewstep_engine::Weights::open(directory.path()).unwrap();
    let gradients: Gradients =
        Gradients::of(training.config(), &training.parameters(), &random_batch(0), 1).unwrap();
    let names: Vec<String> = gradients.names().map(str::to_owned).collect();
    let stored = std::fs::read(directory.path().join("model.safetensors")).unwrap();
    let stored = safetensors::SafeTensors::deserialize(&stored).unwrap();
    let tensor = |name: String| {
        let shape = stored.tensor(&name).unwrap().shape().to_vec();
        let values = weights.tensor(&name, &shape).unwrap();
        (name, values.into_iter().map(f64::from).collect())
    };
    names.into_iter().map(tensor).collect()
}

/// The mean and the mean square of an entry's gradients.
type Moments = (f64, f64);

/// The learning rate and the decay of a step, and which step it is, from 1.
#[derive(Clone, Copy)]
struct StepOfRates {
    rate: f64,
    decay: f64,
    count: i32,
}

/// AdamW as the textbook writes it, in double precision, with the decays of the default settings.
fn textbook_step(
    weights: &mut [f64],
    moments: &mut [Moments],
    gradient: impl Iterator<Item = f64>,
    at: StepOfRates,
) {
    let StepOfRates { rate, decay, count } = at;
    for ((w, (m, v)), g) in weights.iter_mut().zip(moments).zip(gradient) {
        *m = 0.9 * *m + 0.1 * g;
        *v = 0.95 * *v + 0.05 * g * g;
        let m_hat = *m / (1.0 - 0.9_f64.powi(count));
        let v_hat = *v / (1.0 - 0.95_f64.powi(count));
        *w -= rate * decay * *w;
        *w -= rate * m_hat / (v_hat.sqrt() + 1e-8);
    }
}

/// Up in five steps to 0.02, then down to 0.002 in the 25 that are left.
fn textbook_rate(step: u32) -> f64 {
    if step < 5 {
        return 0.02 * f64::from(step + 1) / 5.0;
    }
    let angle = std::f64::consts::PI * f64::from(step - 5) / 25.0;
    0.002 + (0.02 - 0.002) * (1.0 + angle.cos()) / 2.0
}

/// Up to 10 % of a matrix decays per step here, so that one that wrongly does not is far off.
#[test]
fn steps_are_those_of_the_textbook() {
    let (learning_rate, final_learning_rate, weight_decay) = (0.02, 0.002, 5.0);
    let settings =
        PretrainSettings { learning_rate, final_learning_rate, weight_decay, ..settings() };
    let mut training = Pretraining::new(&small(), settings).unwrap();
    let mut expected = tensors(&training);
    let sizes = expected.iter().map(|(_, weights)| weights.len());
    let mut moments: Vec<Vec<Moments>> = sizes.map(|size| vec![(0.0, 0.0); size]).collect();
    let mut clipped = 0;
    for step in 0..8 {
        let batch = random_batch(step as usize);
        let gradients: Gradients =
            Gradients::of(&small(), &training.parameters(), &batch, 1).unwrap();
        let all = gradients.names().flat_map(|name| gradients.tensor(name).unwrap());
        let norm = all.map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
        let factor = f64::min(1.0, 0.5 / norm);
        clipped += usize::from(factor < 1.0);
        let rate = textbook_rate(step);
        for ((name, weights), moments) in expected.iter_mut().zip(&mut moments) {
            let matrix = ["wte", "wpe", ".c_"].iter().any(|part| name.contains(part));
            let decay = if matrix && name.ends_with(".weight") { 5.0 } else { 0.0 };
            let gradient = gradients.tensor(name).unwrap().iter();
            let gradient = gradient.map(|&g| f64::from(g) * factor);
            let count = i32::try_from(step).unwrap() + 1;
            textbook_step(weights, moments, gradient, StepOfRates { rate, decay, count });
        }
        let report = training.step(&batch).unwrap();
        assert_near(&[report.gradient_norm], &[norm], 1e-12, "norm of the gradient");
        assert_near(&[report.learning_rate], &[rate], 1e-12, "learning rate");
        for ((name, found), (_, expected)) in tensors(&training).iter().zip(&expected) {
            // Eight float32 updates of eight roundings each.
            assert_near(found, expected, 64.0 * f64::from(f32::EPSILON), name);
        }
    }
    assert!((1..8).contains(&clipped), "some gradients are shortened and some not: {clipped}");
}

#[test]
fn initial_parameters_are_those_of_gpt2() {
    let config = Config { layers: 3, heads: 4, width: 64, inner: 256, ..small() };
    let parameters = Parameters::initial(&config, 11).unwrap();
    let deviation = |values: &[f32]| {
        let count = values.len() as f64;
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
        let square = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / count;
        // In standard errors of a mean and of a standard deviation.
        assert!(mean.abs() < 4.5 * (square / count).sqrt(), "mean {mean}");
        (square.sqrt(), 4.5 / (2.0 * count).sqrt())
    };
    let is = |values: &[f32], expected: f64| {
        let (found, error) = deviation(values);
        assert!((found / expected - 1.0).abs() < error, "{found} for {expected}");
    };
    is(&parameters.token_embedding, 0.02);
    is(&parameters.position_embedding, 0.02);
    for layer in &parameters.layers {
        for linear in [&layer.query, &layer.key, &layer.value] {
            is(&linear.weight, 0.02);
        }
        is(&layer.mlp_up.weight, 0.02);
        is(&layer.output.weight, 0.02 / 6.0_f64.sqrt());
        is(&layer.mlp_down.weight, 0.02 / 6.0_f64.sqrt());
        for norm in [&layer.attention_norm, &layer.mlp_norm, &parameters.final_norm] {
            assert_eq!((&norm.scale, &norm.shift), (&vec![1.0; 64], &vec![0.0; 64]));
        }
        for linear in [&layer.query, &layer.value, &layer.output, &layer.mlp_up] {
            assert!(linear.bias.iter().all(|&bias| bias.to_bits() == 0));
        }
    }
    assert_ne!(parameters, Parameters::initial(&config, 12).unwrap());
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let mut one = Pretraining::new(&small(), settings()).unwrap();
    let reports = run(&mut one, 12);
    for threads in [2, 3, 4, 9] {
        let mut several = Pretraining::new(&small(), settings()).unwrap().with_threads(threads);
        assert_eq!(run(&mut several, 12), reports, "{threads} threads");
        assert_eq!(bytes(&several), bytes(&one), "{threads} threads");
    }
}

/// The same at the size of a real model, where products are cut into blocks of their own.
#[test]
fn the_number_of_threads_changes_no_bit_of_a_larger_model() {
    let config = Config {
        layers: 2,
        heads: 12,
        width: 96,
        inner: 384,
        positions: 60,
        vocabulary: 256,
        ..small()
    };
    let batch = |step: usize| {
        let mut rng = Rng::new(step as u64);
        let sequences = (0..64).map(|_| {
            let length = 45 + rng.below(16);
            (0..length).map(|_| u32::try_from(rng.below(256)).unwrap()).collect()
        });
        Batch::next_token(sequences.collect()).unwrap()
    };
    let run = |threads: usize| {
        let mut training = Pretraining::new(&config, settings()).unwrap().with_threads(threads);
        let reports: Vec<_> = (0..2).map(|step| training.step(&batch(step)).unwrap()).collect();
        (reports, bytes(&training))
    };
    let one = run(1);
    assert!(one == run(2) && one == run(4), "the number of threads changes the result");
}

#[test]
fn a_resumed_run_is_the_uninterrupted_one_to_the_bit() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.safetensors");
    let mut whole = Pretraining::new(&small(), settings()).unwrap();
    let reports = run(&mut whole, 25);
    for stop in [0, 1, 7, 24] {
        let mut first = Pretraining::new(&small(), settings()).unwrap();
        run(&mut first, stop);
        first.save(&file).unwrap();
        let mut second =
            Pretraining::resume(&file, &small(), settings()).unwrap().with_threads(2);
        assert_eq!(second.steps(), stop);
        assert_eq!(run(&mut second, 25), reports[stop..], "stopped after {stop}");
        assert_eq!(bytes(&second), bytes(&whole), "stopped after {stop}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no partial file");
}

/// Copying: after a separator the first half comes again, which only attention can do.
#[test]
fn a_small_model_learns_to_copy() {
    let config = Config { heads: 4, width: 32, inner: 128, ..small() };
    let settings = PretrainSettings {
        seed: 1,
        steps: 400,
        warmup_steps: 40,
        learning_rate: 4e-3,
        ..PretrainSettings::default()
    };
    let batch = |step: usize| {
        let mut rng = Rng::new(step as u64);
        let sequences = (0..32).map(|_| {
            let word: Vec<u32> = (0..5).map(|_| u32::try_from(rng.below(9)).unwrap()).collect();
            [&word[..], &[9], &word[..]].concat()
        });
        let sequences: Vec<Vec<u32>> = sequences.collect();
        let targets = sequences.iter().map(|s| (5..10).map(|at| (at, s[at + 1])).collect());
        Batch::new(sequences.clone(), targets.collect()).unwrap()
    };
    let mut training = Pretraining::new(&config, settings).unwrap().with_threads(2);
    let first = training.step(&batch(0)).unwrap().loss;
    // At the start all ten tokens are about equally likely.
    assert!((first - 10.0_f64.ln()).abs() < 0.1, "{first}");
    while training.steps() < 400 {
        training.step(&batch(training.steps())).unwrap();
    }
    let unseen = batch(1_000_000);
    let gradients: Gradients =
        Gradients::of(&config, &training.parameters(), &unseen, 2).unwrap();
    assert!(gradients.loss() < 0.05, "{}", gradients.loss());
}

#[test]
fn batches_that_do_not_fit_are_refused_and_change_nothing() {
    assert_eq!(Batch::new(vec![], vec![]), Err(Error::Empty { quantity: "list of sequences" }));
    assert_eq!(
        Batch::new(vec![vec![1]], vec![vec![]]),
        Err(Error::Empty { quantity: "list of targets" })
    );
    assert_eq!(
        Batch::new(vec![vec![1]], vec![]),
        Err(Error::SizeMismatch { quantity: "list of targets", found: 0, expected: 1 })
    );
    assert_eq!(
        Batch::new(vec![vec![1], vec![1, 2]], vec![vec![(0, 1)], vec![(2, 1)]]),
        Err(Error::TargetOutOfRange { sequence: 1, position: 2, length: 2 })
    );
    let refused = Err(Error::EmptySequence { sequence: 1 });
    assert_eq!(Batch::next_token(vec![vec![1, 2], vec![1]]), refused);

    let mut training = Pretraining::new(&small(), settings()).unwrap();
    run(&mut training, 2);
    let before = bytes(&training);
    let long = Batch::next_token(vec![vec![1, 2], vec![0; 14]]).unwrap();
    let refused = training.step(&long);
    assert_eq!(refused, Err(Error::SequenceTooLong { sequence: 1, found: 13, limit: 12 }));
    for batch in [
        Batch::new(vec![vec![10]], vec![vec![(0, 1)]]).unwrap(),
        Batch::new(vec![vec![1]], vec![vec![(0, 10)]]).unwrap(),
    ] {
        let refused = training.step(&batch);
        assert_eq!(refused, Err(Error::TokenOutOfRange { token: 10, vocabulary: 10 }));
    }
    assert_eq!(bytes(&training), before);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let good = settings();
    let bad = f64::NAN;
    for (name, settings) in [
        ("steps", PretrainSettings { steps: 0, warmup_steps: 0, ..good.clone() }),
        ("warmup_steps", PretrainSettings { warmup_steps: 31, ..good.clone() }),
        ("learning_rate", PretrainSettings { learning_rate: bad, ..good.clone() }),
        ("final_learning_rate", PretrainSettings { final_learning_rate: 1.0, ..good.clone() }),
        ("mean_decay", PretrainSettings { mean_decay: 1.0, ..good.clone() }),
        ("square_decay", PretrainSettings { square_decay: -0.1, ..good.clone() }),
        ("epsilon", PretrainSettings { epsilon: 1e-60, ..good.clone() }),
        ("weight_decay", PretrainSettings { weight_decay: f64::INFINITY, ..good.clone() }),
        (
            "largest_gradient_norm",
            PretrainSettings { largest_gradient_norm: bad, ..good.clone() },
        ),
    ] {
        match Pretraining::new(&small(), settings) {
            Err(Error::OutOfRange { quantity, .. }) => assert_eq!(quantity, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// A learning rate of 10³⁰ drives the parameters out of range; the next step says so and the run
/// stays where it was.
#[test]
fn a_diverged_run_says_so() {
    let settings = PretrainSettings {
        learning_rate: 1e30,
        warmup_steps: 0,
        weight_decay: 0.0,
        ..settings()
    };
    let mut training = Pretraining::new(&small(), settings).unwrap();
    training.step(&random_batch(0)).unwrap();
    match training.step(&random_batch(1)) {
        Err(Error::Diverged { steps: 1, loss, gradient_norm }) => {
            assert!(!(loss.is_finite() && gradient_norm.is_finite()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(training.steps(), 1);
}

fn resume(file: &Path) -> Error {
    Pretraining::resume(file, &small(), settings()).expect_err("the file is not right")
}

/// A saved run with one passage of its header replaced by another of the same length.
fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
    let mut bytes = bytes.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    bytes
}

#[test]
fn wrong_and_damaged_checkpoints_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.safetensors");
    assert!(matches!(resume(&file), Error::File { action: "read", .. }));

    let mut training = Pretraining::new(&small(), settings()).unwrap();
    run(&mut training, 2);
    training.save(&file).unwrap();
    let good = std::fs::read(&file).unwrap();
    // Cut off anywhere: in the length, the header, the data.
    for length in [0, 7, 8, 100, good.len() / 2, good.len() - 1] {
        std::fs::write(&file, &good[..length]).unwrap();
        let error = resume(&file);
        let cut = matches!(error, Error::HeaderLength { .. } | Error::TensorBytes { .. });
        assert!(cut, "{length} bytes: {error}");
    }
    std::fs::write(&file, [&good[..], &[0]].concat()).unwrap();
    assert!(matches!(resume(&file), Error::UncoveredBytes { .. }));
    std::fs::write(&file, vec![0; good.len() + (1 << 24)]).unwrap();
    assert!(matches!(resume(&file), Error::FileTooLarge { .. }));
    std::fs::write(&file, replaced(&good, "mean.transformer.ln_f", "mean.transformer.ln_g"))
        .unwrap();
    match resume(&file) {
        Error::UnknownTensor { tensor, .. } => {
            assert!(tensor.starts_with("mean.transformer.ln_g"))
        }
        other => panic!("{other}"),
    }
    std::fs::write(&file, replaced(&good, r#"{\"steps\":2"#, r#"{\"steps\":x"#)).unwrap();
    assert!(matches!(resume(&file), Error::Json { .. }));
    std::fs::write(&file, replaced(&good, "pretraining", "posttaining")).unwrap();
    assert!(matches!(resume(&file), Error::NotACheckpoint { entry: "pretraining", .. }));

    // The last tensors are the squares: their last number, negative and not a number.
    for (value, negative) in [(-1.0_f32, true), (f32::NAN, false)] {
        let mut bytes = good.clone();
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&value.to_le_bytes());
        std::fs::write(&file, bytes).unwrap();
        match resume(&file) {
            Error::NegativeMoment { tensor, value, .. } => {
                assert!(negative && tensor.starts_with("square."));
                assert_eq!(value.to_bits(), (-1.0_f32).to_bits());
            }
            Error::WeightNotFinite { tensor, .. } => {
                assert!(!negative && tensor.starts_with("square."));
            }
            other => panic!("{other}"),
        }
    }
    // Nothing of this has touched the good file.
    std::fs::write(&file, &good).unwrap();
    assert_eq!(
        bytes(&Pretraining::resume(&file, &small(), settings()).unwrap()),
        bytes(&training)
    );
}

#[test]
fn a_run_with_other_settings_does_not_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.safetensors");
    Pretraining::new(&small(), settings()).unwrap().save(&file).unwrap();
    let slower = PretrainSettings { learning_rate: 0.1 + 0.2, ..settings() };
    match Pretraining::resume(&file, &small(), slower) {
        Err(Error::OtherRun { setting, found, expected, .. }) => {
            let said = (setting.as_str(), found.as_str(), expected.as_str());
            assert_eq!(said, ("learning_rate", "0.003", "0.30000000000000004"));
        }
        other => panic!("{other:?}"),
    }
    let deeper = Config { layers: 3, ..small() };
    match Pretraining::resume(&file, &deeper, settings()) {
        Err(Error::OtherRun { setting, found, expected, .. }) => {
            let said = (setting.as_str(), found.as_str(), expected.as_str());
            assert_eq!(said, ("layers", "2", "3"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn parameters_of_another_model_are_refused() {
    let parameters = Parameters::initial(&small(), 0).unwrap();
    let batch = random_batch(0);
    let wider = Config { inner: 13, ..small() };
    let refused = Gradients::<f32>::of(&wider, &parameters, &batch, 1).map(|_| ());
    let quantity = "mlp-up";
    assert_eq!(refused, Err(Error::SizeMismatch { quantity, found: 96, expected: 104 }));
    let deeper = Config { layers: 3, ..small() };
    let refused = Gradients::<f32>::of(&deeper, &parameters, &batch, 1).map(|_| ());
    let quantity = "list of layers";
    assert_eq!(refused, Err(Error::SizeMismatch { quantity, found: 2, expected: 3 }));
}

#[test]
fn other_families_cannot_be_trained() {
    let (config, parameters, _) = random_case_of(1, 0);
    let batch = Batch::next_token(vec![vec![1, 2, 3]]).unwrap();
    let refused = Gradients::<f32>::of(&config, &parameters, &batch, 1).map(|_| ());
    assert_eq!(refused, Err(Error::CannotTrain));
    assert_eq!(Parameters::initial(&config, 1).map(|_| ()), Err(Error::CannotTrain));
    let refused = Pretraining::new(&config, settings()).map(|_| ());
    assert_eq!(refused, Err(Error::CannotTrain));
    let refused = Pretraining::resume(Path::new("none"), &config, settings()).map(|_| ());
    assert_eq!(refused, Err(Error::CannotTrain));
}
