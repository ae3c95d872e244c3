//! Which directions a first factor keeps, and what kernel they leave.

use crate::low_rank::whole::{case, dot, firsts, project, settings, whole_derivatives};
use crate::support::{self, FAMILIES, assert_near, bits, blocks, random_case_of};
use fewstep_core::Spectrum;
use fewstep_engine::{
    Config, Error, FirstFactor, KernelForm, KernelOperator, Labels, Layout, Lora, Network,
    Parameters, Tape, TokenTask, Update, observe,
};

/// Kernels are inner products of `Aᵀ ∂s/∂W`, in every form, with the query and as an operator.
#[test]
fn kernels_are_those_of_the_projected_derivatives() {
    for (family, lora) in (0..FAMILIES).flat_map(|f| settings().map(|lora| (f, lora))) {
        let (model, task) = case(family, lora);
        let (config, n) = (model.config(), task.examples());
        for (kind, layer) in [("value", 0), ("query", 1), ("value", 2), ("query", 2)] {
            let chosen = blocks(&format!("lora-{kind}@{layer}..{}", layer + 1), config);
            let update = firsts(&model, &task, &chosen);
            let first = update.first(chosen[0]).unwrap();
            let heads = blocks(&format!("{kind}@{layer}..{}", layer + 1), config);
            let layout = Layout::plain(task.sequences()).unwrap();
            let mut tape = Tape::new(&model, layout, task.labels(), &heads).unwrap();
            let features: Vec<Vec<f64>> = (0..=n)
                .map(|sequence| {
                    let mut seeds = vec![0.0; n + 1];
                    seeds[sequence] = 1.0;
                    tape.pull_back(&seeds).unwrap();
                    project(first, &whole_derivatives(&tape, config.width), config.width)
                })
                .collect();
            let gram = |i: usize, j: usize| dot(&features[i], &features[j]);
            let kernel: Vec<f64> = (0..n * n).map(|at| gram(at / n, at % n)).collect();
            let coupling: Vec<f64> = (0..n).map(|i| gram(i, n)).collect();
            let what = format!("family {family}, {kind}.{layer}, {lora:?}");
            for form in [KernelForm::Ghost, KernelForm::Explicit, KernelForm::Cheapest] {
                let seen = observe(&model, &task, &chosen, form).unwrap();
                let block = &seen.geometry.blocks()[0];
                assert_eq!(block.parameters(), Some(features[0].len()));
                assert_near(block.kernel().values(), &kernel, 1e-12, &what);
                let query = block.query().unwrap();
                assert_near(&query.coupling, &coupling, 1e-11, &what);
                assert_near(&[query.variance], &[gram(n, n)], 1e-12, &what);
            }
            let operator = KernelOperator::new(&model, &task, &chosen).unwrap();
            let (vector, mut found) = ([1.0, -2.0, 0.5, 0.25], [f64::NAN; 4]);
            operator.apply(&vector, &mut found);
            let rows = kernel.chunks_exact(n);
            let expected: Vec<f64> = rows.map(|row| dot(row, &vector)).collect();
            assert_near(&found, &expected, 1e-11, &what);
        }
    }
}

/// Over random first factors the kernel is on average that of the whole matrix. With
/// `S = sym(G_j G_iᵀ)` an entry of it is a mean of `rank` values `zᵀSz`, each of variance `2‖S‖²`.
#[test]
fn random_factors_have_the_kernel_of_the_matrix_on_average() {
    let draws = 4000;
    let (model, task) = case(1, Lora { rank: 2, ..Lora::default() });
    let (width, n) = (model.config().width, task.examples());
    let heads = blocks("value@1..2", model.config());
    let layout = Layout::plain(task.sequences()).unwrap();
    let mut tape = Tape::new(&model, layout, task.labels(), &heads).unwrap();
    let mut derivative = |sequence: usize| {
        let mut seeds = vec![0.0; n + 1];
        seeds[sequence] = 1.0;
        tape.pull_back(&seeds).unwrap();
        whole_derivatives(&tape, width)
    };
    let whole: Vec<Vec<f64>> = (0..n).map(&mut derivative).collect();
    let chosen = blocks("lora-value@1..2", model.config());
    let mut sums = vec![0.0; n * n];
    let mut model = model;
    for seed in 0..draws {
        model = model.with_lora(Lora { rank: 2, seed, ..Lora::default() }).unwrap();
        let seen = observe(&model, &task, &chosen, KernelForm::Ghost).unwrap();
        let kernel = seen.geometry.blocks()[0].kernel().values();
        sums.iter_mut().zip(kernel).for_each(|(sum, entry)| *sum += entry);
    }
    let outputs = whole[0].len() / width;
    for (i, j) in (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))) {
        let row = |of: usize, t: usize| &whole[of][t * outputs..][..outputs];
        let entry = |a: usize, b: usize| dot(row(j, a), row(i, b));
        let square: f64 = (0..width * width)
            .map(|at| {
                (0.5 * (entry(at / width, at % width) + entry(at % width, at / width))).powi(2)
            })
            .sum();
        let standard_error = (2.0 * square / (2.0 * draws as f64)).sqrt();
        let (mean, expected) = (sums[i * n + j] / draws as f64, dot(&whole[i], &whole[j]));
        let gap = (mean - expected).abs() / standard_error;
        assert!(gap < 4.0, "{i}, {j}: {mean} against {expected}, {gap} standard errors");
    }
}

/// Directions of the inputs are orthonormal and span those of the leave-one-out prompts; with all of
/// them the kernel is that of the whole matrix. Apart from rounding, the query has no influence.
#[test]
fn all_directions_of_the_inputs_give_the_kernel_of_the_matrix() {
    let lora = Lora { rank: 6, first: FirstFactor::Inputs, seed: 0 };
    for family in 0..FAMILIES {
        let (model, _) = case(family, lora);
        let labels = Labels::new(vec![2, 9], vec![0.0, 1.0]).unwrap();
        // Four distinct rows of six inputs, two of them read-outs; a query of other tokens.
        let prompts = vec![vec![1, 2, 3], vec![1, 2, 4]];
        let task = |query: Vec<u32>| {
            TokenTask::new(prompts.clone(), query, labels.clone(), vec![1.0, 0.0]).unwrap()
        };
        let (one, other) = (task(vec![5, 6, 7, 8, 9]), task(vec![1, 2, 4, 10]));
        for (kind, rank) in
            [("value@0..1", 4), ("query@1..2", 4), ("value@2..3", 4), ("query@2..3", 2)]
        {
            let chosen = blocks(&format!("lora-{kind}"), model.config());
            let update = firsts(&model, &one, &chosen);
            let first = update.first(chosen[0]).unwrap();
            let column = |k: usize| -> Vec<f64> { (0..6).map(|i| first[i * 6 + k]).collect() };
            for (i, j) in (0..6).flat_map(|i| (0..6).map(move |j| (i, j))) {
                let expected = if i == j && i < rank { 1.0 } else { 0.0 };
                let inner = dot(&column(i), &column(j));
                assert!((inner - expected).abs() < 1e-14, "{kind}: {i}, {j}: {inner}");
            }
            assert!(column(rank).iter().all(|&entry| entry == 0.0), "{kind}");
            let same = firsts(&model, &other, &chosen);
            assert_near(same.first(chosen[0]).unwrap(), first, 1e-12, kind);

            let seen = observe(&model, &one, &chosen, KernelForm::Ghost).unwrap();
            let heads = blocks(kind, model.config());
            let whole = observe(&model, &one, &heads, KernelForm::Ghost).unwrap();
            let (found, expected) = (&seen.geometry.blocks()[0], whole.geometry.total());
            let what = format!("family {family}, {kind}");
            assert_near(found.kernel().values(), expected.kernel().values(), 1e-11, &what);
            let [found, expected] = [found, &expected].map(|block| block.query().unwrap());
            assert_near(&found.coupling, &expected.coupling, 1e-10, &what);
            assert!(found.variance < expected.variance * (1.0 + 1e-12), "{what}");
        }
    }
}

/// What the first norm of a GPT-2 model makes of a token at a position.
fn normed(config: &Config, parameters: &Parameters, token: usize, position: usize) -> Vec<f64> {
    let width = config.width;
    let wide = |values: &[f32]| -> Vec<f64> { values.iter().map(|&x| f64::from(x)).collect() };
    let token = wide(&parameters.token_embedding[token * width..][..width]);
    let place = wide(&parameters.position_embedding[position * width..][..width]);
    let x: Vec<f64> = token.iter().zip(place).map(|(a, b)| a + b).collect();
    let mean = x.iter().sum::<f64>() / width as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
    let norm = &parameters.layers[0].attention_norm;
    let weights = wide(&norm.scale).into_iter().zip(wide(&norm.shift));
    let deviation = (variance + config.norm_epsilon).sqrt();
    x.iter().zip(weights).map(|(x, (w, b))| (x - mean) / deviation * w + b).collect()
}

/// The directions are the leading eigenvectors of what the matrix takes in, with every distinct
/// token once: all of them for values, in the last layer the last ones for queries.
#[test]
fn directions_are_those_of_distinct_tokens() {
    let (config, _, _) = random_case_of(0, 0);
    let config = Config { layers: 1, ..config };
    let parameters = support::random_parameters(&config, &mut fewstep_core::Rng::new(12));
    let model: Network<f64> = Network::new(&config, parameters.clone()).unwrap();
    let lora = Lora { rank: 2, first: FirstFactor::Inputs, seed: 0 };
    let model = model.with_lora(lora).unwrap();
    let labels = Labels::new(vec![2, 9], vec![0.0, 1.0]).unwrap();
    let prompts = vec![vec![1, 2, 3], vec![1, 2, 4], vec![1, 2, 3], vec![1, 2, 5, 6]];
    let task = TokenTask::new(prompts, vec![1, 2, 7], labels, vec![0.0; 4]).unwrap();
    let chosen = blocks("lora-value,lora-query@all", &config);
    let update = firsts(&model, &task, &chosen);
    let all: &[(usize, usize)] = &[(1, 0), (2, 1), (3, 2), (4, 2), (5, 2), (6, 3)];
    let last: &[(usize, usize)] = &[(3, 2), (4, 2), (6, 3)];
    for (block, tokens) in chosen.iter().zip([all, last]) {
        let rows: Vec<Vec<f64>> =
            tokens.iter().map(|&(token, at)| normed(&config, &parameters, token, at)).collect();
        let entry = |i: usize, j: usize| rows.iter().map(|row| row[i] * row[j]).sum::<f64>();
        let moments: Vec<Vec<f64>> =
            (0..6).map(|i| (0..6).map(|j| entry(i, j)).collect()).collect();
        let spectrum = Spectrum::of(&moments).unwrap();
        let first = update.first(*block).unwrap();
        for mode in 0..2 {
            let direction: Vec<f64> = (0..6).map(|i| first[i * 2 + mode]).collect();
            let eigenvalue = spectrum.eigenvalues()[mode];
            let found: Vec<f64> = moments.iter().map(|row| dot(row, &direction)).collect();
            let expected: Vec<f64> = direction.iter().map(|x| eigenvalue * x).collect();
            assert_near(&found, &expected, 1e-11, &format!("{block}, direction {mode}"));
        }
    }
}

/// Whoever asks, and for whichever blocks besides, gets the same first factors to the bit.
#[test]
fn first_factors_are_the_same_whoever_asks() {
    for (family, lora) in (0..FAMILIES).flat_map(|f| settings().map(|lora| (f, lora))) {
        let (model, task) = case(family, lora);
        let few = blocks("lora-value,lora-query@last2", model.config());
        let many = blocks("norm,lora-query,value,lora-value,mlp-up@all", model.config());
        let [few_firsts, many_firsts] =
            [&few, &many].map(|chosen| firsts(&model, &task, chosen));
        for &block in &few {
            let [a, b] = [&few_firsts, &many_firsts].map(|update| update.first(block).unwrap());
            assert_eq!(bits(a), bits(b), "family {family}, {block}");
            let drawn = Update::zeros(&model, &few);
            match lora.first {
                FirstFactor::Random => {
                    assert_eq!(bits(drawn.unwrap().first(block).unwrap()), bits(a));
                }
                FirstFactor::Inputs => {
                    let block = few[0].to_string();
                    assert_eq!(drawn, Err(Error::FirstFactorOfPrompts { block }));
                }
            }
        }
        let beside = std::thread::scope(|scope| {
            let run = || firsts(&model, &task, &few);
            [scope.spawn(run), scope.spawn(run)].map(|thread| thread.join().unwrap())
        });
        assert!(beside.iter().all(|update| *update == few_firsts));
    }
}
