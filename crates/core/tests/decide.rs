//! The three answers, recomputed from their parts, and every way of asking wrongly.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]
#![allow(clippy::float_cmp, reason = "the same computation must give the same bits")]

use fewstep_core::leave_one_out::{Averaging, LeaveOneOut};
use fewstep_core::{
    Answers, Block, Decision, Error, Evidence, Field, Filter, Geometry, GradientDescent,
    HorizonName, HorizonRule, Matrix, Plan, Policy, Reason, Rng, Selection, SelectionName,
    Spectrum, StepSize, decide,
};

fn normals(rng: &mut Rng, count: usize) -> Vec<f64> {
    (0..count).map(|_| rng.normal()).collect()
}

/// Ten examples and twelve blocks of rank four; residuals that block 3 explains, plus noise.
fn geometry(seed: u64, noise: f64, with_query: bool) -> Geometry {
    let mut rng = Rng::new(seed);
    let (n, width) = (10, 4);
    let truth = normals(&mut rng, width);
    let mut residuals: Vec<f64> = normals(&mut rng, n).iter().map(|x| noise * x).collect();
    let blocks = (0..12)
        .map(|head| {
            let rows: Vec<Vec<f64>> = (0..n).map(|_| normals(&mut rng, width)).collect();
            if head == 3 {
                for (residual, row) in residuals.iter_mut().zip(&rows) {
                    *residual += row.iter().zip(&truth).map(|(x, t)| x * t).sum::<f64>();
                }
            }
            let query = normals(&mut rng, width);
            let query = with_query.then_some(query.as_slice());
            Block::from_features(format!("head {head}"), &rows, query)
                .unwrap()
                .in_layer(head / 4)
                .with_id(100 + head as u64)
        })
        .collect();
    Geometry::new(residuals, blocks).unwrap()
}

/// The paper's policy with another horizon rule.
fn by(name: HorizonName) -> Policy {
    Policy { horizon: HorizonRule::of_name(name), ..Policy::paper() }
}

/// Every horizon rule, with its own parameters.
fn horizon_rules() -> impl Iterator<Item = HorizonRule> {
    [HorizonName::Fixed(8)].into_iter().chain(HorizonName::ALL).map(HorizonRule::of_name)
}

/// Every selection, with a budget where it takes one.
fn selections(budget: usize) -> impl Iterator<Item = Selection> {
    let selection = move |name| Selection::of_name(name, Some(budget)).unwrap();
    SelectionName::ALL.into_iter().map(selection)
}

/// The weight on leaving the model alone, for the average by leave-one-out errors.
fn averaged(leave_alone_odds: f64) -> HorizonRule {
    let (averaging, sharpness) = (Averaging::Trimmed, 1.0);
    HorizonRule::LeaveOneOutAverage { averaging, sharpness, leave_alone_odds }
}

/// Every pair of rules gives a complete decision whose correction is that of its own update.
#[test]
fn every_rule_decides() {
    let geometry = geometry(1, 0.3, true);
    for horizon in horizon_rules() {
        for selection in selections(5) {
            let policy = Policy { horizon, selection, ..Policy::paper() };
            let decision = decide(&geometry, &policy).unwrap();
            assert_eq!(decision.policy, policy);
            let expected = selection.budget().unwrap_or(12);
            assert_eq!(decision.which.budget, expected);
            if let Selection::Depth { .. } = selection {
                // The last layers, as many as help.
                let depth = decision.which.depth.as_ref().unwrap();
                let layers = decision.which.selected.len().div_ceil(4).max(1);
                let last: Vec<usize> = (12 - 4 * layers..12).collect();
                assert_eq!((&decision.which.selected, &depth.blocks), (&last, &last));
                assert_eq!(depth.layers, [1, 2, 3]);
            } else {
                assert_eq!(decision.which.selected.len(), expected);
                assert_eq!(decision.which.depth, None);
            }
            let ids = decision.which.blocks.iter().map(|block| block.id);
            assert!(ids.eq((100..112).map(Some)));
            assert_eq!(decision.which.blocks.len(), 12);
            assert_eq!(decision.how_far.evidence.len(), 31);
            assert_eq!(decision.how_far.evidence_fixed.len(), 31);
            let mass: f64 = decision.how_far.posterior.iter().sum();
            assert!((mass - 1.0).abs() < 31.0 * f64::EPSILON);

            let block = geometry.sum(&decision.which.selected).unwrap();
            let spectrum = Spectrum::of(block.kernel()).unwrap();
            let query = block.query().unwrap();
            let correction = decision
                .plan
                .query_correction(&spectrum, &query.coupling, geometry.residuals())
                .unwrap();
            assert_eq!(decision.query.unwrap().correction, correction);
            assert_eq!(decision.how_far.step_size, 0.1 / spectrum.largest());
            reasons_are_those_of_the_rule(&decision, horizon);
        }
    }
}

/// Leave-one-out errors appear under the rules that look at them, evidence under those that look
/// at it, and the weight says whether to adapt.
fn reasons_are_those_of_the_rule(decision: &Decision, horizon: HorizonRule) {
    let when = decision.when;
    assert_eq!(when.adapt, when.weight >= 0.5);
    assert_eq!(when.leave_one_out.is_some(), horizon.averaging().is_some());
    let given = matches!(horizon, HorizonRule::Fixed { .. });
    assert_eq!(when.evidence.is_some(), !given && horizon.averaging().is_none());
    let expected = match (given, horizon.averaging(), when.adapt) {
        (true, ..) => Reason::Given,
        (_, Some(_), true) => Reason::LeaveOneOutForUpdating,
        (_, Some(_), false) => Reason::LeaveOneOutAgainst,
        (_, None, true) => Reason::EvidenceForUpdating,
        (_, None, false) => Reason::EvidenceAgainst,
    };
    assert_eq!(when.reason, expected);
    let averages =
        matches!(horizon, HorizonRule::Gibbs { .. } | HorizonRule::LeaveOneOutAverage { .. });
    if averages {
        let weight = 1.0 - decision.how_far.posterior[0];
        assert!((when.weight - weight).abs() < 31.0 * f64::EPSILON);
    } else {
        assert_eq!(when.adapt, decision.plan != Plan::None);
        assert_eq!(when.weight, f64::from(u8::from(when.adapt)));
    }
}

/// The steps that are asked for are those with the smallest criterion, recomputed from the
/// residuals, the kernel and the step size in the decision alone.
#[test]
fn horizons_minimise_their_criterion() {
    for seed in 0..20 {
        let geometry = geometry(seed, 1.0, true);
        let decide = |name| decide(&geometry, &by(name)).unwrap();
        let total = geometry.total();
        let curve = |decision: &Decision| -> (Vec<f64>, Vec<f64>) {
            let spectrum = Spectrum::of(total.kernel()).unwrap();
            let rotated = spectrum.rotate(geometry.residuals()).unwrap();
            let mean_square = rotated.iter().map(|x| x * x).sum::<f64>() / 10.0;
            let app_i = |horizon: i32| {
                let kept = |value: &f64| 1.0 - decision.how_far.step_size * value;
                let occam: f64 =
                    spectrum.eigenvalues().iter().map(|value| kept(value).ln()).sum::<f64>()
                        / 10.0;
                let fit: f64 = spectrum
                    .eigenvalues()
                    .iter()
                    .zip(&rotated)
                    .map(|(value, r)| kept(value).powi(horizon) * r * r)
                    .sum::<f64>()
                    / 10.0;
                let occam = -f64::from(horizon) * occam;
                (occam + fit.ln(), occam + fit / mean_square)
            };
            (0..=30).map(app_i).unzip()
        };
        let best = |curve: &[f64]| {
            (0..=30_u32)
                .min_by(|&a, &b| curve[a as usize].total_cmp(&curve[b as usize]))
                .unwrap()
        };
        let decision = decide(HorizonName::Evidence);
        let (profiled, fixed) = curve(&decision);
        assert_eq!(decision.how_far.horizon, best(&profiled));
        assert_eq!(decide(HorizonName::EvidenceFixed).how_far.horizon, best(&fixed));
        // The continuous optimum is positive iff the gate is over 1, and the grid contains 0 and 1.
        if decision.how_far.horizon > 0 {
            assert!(decision.when.evidence.unwrap().gate > 1.0);
        }
    }
}

/// The average by leave-one-out errors corrects the query by the weighted mean of its horizons'
/// corrections; odds that leave next to nothing for steps leave the model alone.
#[test]
fn averages_by_leave_one_out_errors_are_averages() {
    let geometry = geometry(2, 0.3, true);
    let by = |horizon| decide(&geometry, &Policy { horizon, ..Policy::paper() }).unwrap();
    let average = by(averaged(5.0));
    let correction = |decision: &Decision| decision.query.unwrap().correction;
    let expected: f64 = (0..=30)
        .map(|steps| correction(&by(HorizonRule::Fixed { steps })))
        .zip(&average.how_far.posterior)
        .map(|(correction, weight)| weight * correction)
        .sum();
    assert!((correction(&average) - expected).abs() < 1e-12 * expected.abs());
    assert!(average.plan != Plan::None && average.how_far.leave_one_out.len() == 31);
    // Its interval is that of the average; the wider the more often it is to hold the answer.
    let prompt = &average.block;
    let step = StepSize::new(average.how_far.step_size, &average.spectrum).unwrap();
    let horizons: Vec<u32> = (0..=30).collect();
    let coupling = Some(&prompt.query().unwrap().coupling[..]);
    let residuals = geometry.residuals();
    let dropped =
        LeaveOneOut::of(prompt.kernel(), residuals, step, &horizons, coupling).unwrap();
    let expected = dropped.interval_of_average(&average.how_far.posterior, 0.8).unwrap();
    assert_eq!(average.query.unwrap().interval, Some(expected));
    assert_eq!(by(HorizonRule::Evidence).query.unwrap().interval, None);
    let never = by(averaged(1e12));
    assert!(never.when.weight < 0.01 && never.plan == Plan::None);
    assert_eq!(never.when.reason, Reason::LeaveOneOutAgainst);
}

/// With more weight on leaving the model alone than on updating it the answer to "when" is no; the
/// prediction is the average all the same.
#[test]
fn more_weight_on_leaving_alone_is_a_no() {
    let geometry = geometry(2, 0.3, true);
    let by = |odds| {
        let horizon = averaged(odds);
        decide(&geometry, &Policy { horizon, ..Policy::paper() }).unwrap()
    };
    // The odds at which both are equally likely, from the weights at odds of 1.
    let even = by(1.0);
    let tie = even.when.weight / (1.0 - even.when.weight);
    let (less, more) = (by(0.5 * tie), by(2.0 * tie));
    assert!(less.when.adapt && (less.when.weight - 2.0 / 3.0).abs() < 1e-9);
    assert!(!more.when.adapt && (more.when.weight - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!(more.when.reason, Reason::LeaveOneOutAgainst);
    assert!(more.plan != Plan::None && more.query.unwrap().correction != 0.0);
}

/// Leave-one-out errors before and after are those of refitting without each example, by steps
/// taken literally and averaged as the decision says.
#[test]
fn reasons_by_leave_one_out_are_the_literal_errors() {
    for seed in 0..10 {
        let bare = geometry(seed, 0.3, true);
        let labels = (0..10).map(|example| example % 5).collect();
        // Room of 2 in both directions, which clamps some predictions.
        let answers = Answers::new(labels, &[0.0; 10], [-2.0, 2.0]).unwrap();
        let answered = bare.clone().with_answers(answers).unwrap();
        for (geometry, room) in [(&bare, f64::INFINITY), (&answered, 2.0)] {
            let policy = Policy { selection: Selection::All, ..Policy::default() };
            let decision = decide(geometry, &policy).unwrap();
            let (kernel, residuals) = (decision.block.kernel(), geometry.residuals());
            let after: Vec<f64> = (0..10)
                .map(|left_out| {
                    let predicted: f64 = policy
                        .horizons
                        .iter()
                        .zip(&decision.how_far.posterior)
                        .map(|(&steps, weight)| {
                            let mut fit = [0.0; 10];
                            for _ in 0..steps {
                                let pull: Vec<f64> = (0..10)
                                    .map(|j| {
                                        if j == left_out { 0.0 } else { residuals[j] - fit[j] }
                                    })
                                    .collect();
                                for (i, fit) in fit.iter_mut().enumerate() {
                                    let change: f64 =
                                        (0..10).map(|j| kernel[(i, j)] * pull[j]).sum();
                                    *fit += decision.how_far.step_size * change;
                                }
                            }
                            weight * fit[left_out]
                        })
                        .sum();
                    residuals[left_out] - predicted.clamp(-room, room)
                })
                .collect();
            // Five labels, or none that are known: square roots of the errors are averaged.
            let risk = |errors: &[f64]| {
                (errors.iter().map(|error| error.abs().sqrt()).sum::<f64>() / 10.0).powi(4)
            };
            let found = decision.when.leave_one_out.unwrap();
            let (icl, adapted) = (risk(residuals), risk(&after));
            assert!((found.icl - icl).abs() < 1e-12 * icl, "seed {seed}");
            assert!((found.adapted - adapted).abs() < 1e-9 * icl, "seed {seed}");
        }
    }
}

/// The interval of a single horizon is that of the chosen one, not of the first.
#[test]
fn intervals_belong_to_the_chosen_horizon() {
    // Block 3 alone explains the residuals.
    let asked = |seed| {
        let all = geometry(seed, 0.01, true);
        let geometry = Geometry::new(all.residuals().to_vec(), vec![all.blocks()[3].clone()]);
        decide(&geometry.unwrap(), &by(HorizonName::LeaveOneOut)).unwrap()
    };
    let chosen = (0..20).find(|&seed| asked(seed).how_far.horizon > 0).unwrap();
    let (decision, residuals) =
        (asked(chosen), geometry(chosen, 0.01, true).residuals().to_vec());
    let step = StepSize::new(decision.how_far.step_size, &decision.spectrum).unwrap();
    let coupling = Some(&decision.block.query().unwrap().coupling[..]);
    let chosen = [0, decision.how_far.horizon];
    let kernel = decision.block.kernel();
    let dropped = LeaveOneOut::of(kernel, &residuals, step, &chosen, coupling).unwrap();
    let [none, steps] = [0, 1].map(|index| dropped.interval(index, 0.8).unwrap());
    assert_eq!(decision.query.unwrap().interval, Some(steps));
    assert_ne!(none, steps);
}

/// The filter that gaps are measured against is the one that `bayes-filter` carries out: its ratio is
/// the fitted one where there is noise, and its noise a hundred-millionth of the residuals' mean
/// square where there is none.
#[test]
fn the_fitted_filter_is_the_one_that_is_carried_out() {
    let policy = by(HorizonName::BayesFilter);
    let mut edges = [0; 2];
    for (seed, noise) in (0..20).map(|seed| (seed, if seed % 2 == 0 { 0.5 } else { 0.0 })) {
        // One block of rank four: without noise it explains the residuals entirely.
        let all = geometry(seed, noise, true);
        let block = all.blocks()[3].clone();
        let geometry = Geometry::new(all.residuals().to_vec(), vec![block]).unwrap();
        let (residuals, decision) = (geometry.residuals(), decide(&geometry, &policy).unwrap());
        let fitted = decision.signal.benchmark(residuals).unwrap();
        assert_eq!(decision.plan, Plan::Posterior(fitted), "seed {seed}");
        let gaps = decision.when.evidence.unwrap();
        let (left, mean) = (gaps.gap_adapted, residuals.iter().map(|r| r * r));
        assert!(left <= 1e-20 * gaps.gap_icl, "seed {seed}: {left}");
        let least = 1e-8 * mean.sum::<f64>() / residuals.len() as f64;
        let silent = decision.signal.noise_variance < least;
        if silent {
            let apart = (fitted.noise_variance() - least).abs();
            assert!(apart <= 10.0 * f64::EPSILON * least, "seed {seed}");
        } else {
            let ratio = decision.signal.noise_to_signal();
            for &eigenvalue in decision.spectrum.eigenvalues() {
                let apart = fitted.response(eigenvalue) - eigenvalue / (eigenvalue + ratio);
                assert!(apart.abs() <= 10.0 * f64::EPSILON, "seed {seed}");
            }
        }
        edges[usize::from(silent)] += 1;
    }
    assert!(edges.iter().all(|&count| count > 0), "{edges:?}");
}

/// Perfect predictions and weights that change nothing are left alone, with the reason, under
/// every rule.
#[test]
fn nothing_to_do_is_no_error() {
    let geometry = geometry(3, 0.3, true);
    let silent = Geometry::new(vec![0.0; 10], geometry.blocks().to_vec()).unwrap();
    let frozen: Vec<Block> = (0..3)
        .map(|head| {
            Block::new(format!("value.{}.{}", head / 4, head % 4), Matrix::zeros(10, 10))
                .unwrap()
                .with_query(vec![0.0; 10], 0.0)
                .unwrap()
        })
        .collect();
    let frozen = Geometry::new(geometry.residuals().to_vec(), frozen).unwrap();
    for horizon in horizon_rules() {
        for selection in selections(2) {
            let policy = Policy { horizon, selection, ..Policy::paper() };
            for (geometry, reason) in
                [(&silent, Reason::NothingToCorrect), (&frozen, Reason::NothingChanges)]
            {
                let decision = decide(geometry, &policy).unwrap();
                assert!(!decision.when.adapt && decision.when.weight == 0.0);
                assert_eq!(decision.when.reason, reason);
                assert_eq!((decision.when.leave_one_out, decision.when.evidence), (None, None));
                assert_eq!(decision.plan, Plan::None);
                assert_eq!(decision.how_far.horizon, 0);
                assert_eq!(decision.query.unwrap().correction, 0.0);
            }
        }
    }
}

/// Without a query, what does not need one works and what needs one says so.
#[test]
fn rules_that_need_a_query_say_so() {
    let geometry = geometry(4, 0.3, false);
    for horizon in horizon_rules() {
        let outcome = decide(&geometry, &Policy { horizon, ..Policy::paper() });
        match horizon {
            HorizonRule::BayesGap => assert!(matches!(outcome, Err(Error::NoQuery { .. }))),
            _ => assert!(outcome.unwrap().query.is_none()),
        }
    }
    for selection in selections(2) {
        let policy = Policy { selection, ..Policy::paper() };
        let needs =
            matches!(selection, Selection::QueryAware { .. } | Selection::QueryScore { .. });
        assert_eq!(matches!(decide(&geometry, &policy), Err(Error::NoQuery { .. })), needs);
    }
    let horizon = HorizonRule::LeaveOneOut { averaging: Averaging::QueryWeighted, gate: 0.0 };
    let policy = Policy { horizon, ..Policy::paper() };
    assert!(matches!(decide(&geometry, &policy), Err(Error::NoQuery { .. })));
}

/// Rules that count by label look at the answers where they are known, for the number of steps
/// and for the blocks, and take labels for numbers where they are not.
#[test]
fn rules_by_label_look_at_the_answers() {
    let geometry = geometry(4, 0.3, true);
    let averaging = Averaging::ByLabel;
    let cases = [
        by(HorizonName::LeaveOneOutAverage),
        Policy {
            horizon: HorizonRule::LeaveOneOut { averaging, gate: 0.0 },
            ..Policy::paper()
        },
        Policy { selection: Selection::Depth { averaging }, ..by(HorizonName::Fixed(3)) },
        Policy::default(),
    ];
    let n = geometry.examples();
    let answers = |labels| Answers::new(labels, &vec![0.5; n], [0.0, 1.0]).unwrap();
    for policy in cases {
        assert!(decide(&geometry, &policy).is_ok());
        let answered = geometry.clone().with_answers(answers(vec![0; n])).unwrap();
        assert!(decide(&answered, &policy).is_ok());
        let same = answered.precondition(&vec![1.0; geometry.blocks().len()]).unwrap();
        assert_eq!(same.answers(), answered.answers());
    }
    let risk = |labels| {
        let answered = geometry.clone().with_answers(answers(labels)).unwrap();
        let policy = by(HorizonName::LeaveOneOutAverage);
        decide(&answered, &policy).unwrap().how_far.leave_one_out
    };
    let alone = (0..n).map(|example| usize::from(example == 0)).collect();
    assert_ne!(risk(vec![0; n]), risk(alone));
    let short = Answers::new(vec![0], &[0.5], [0.0, 1.0]).unwrap();
    let refused = Error::SizeMismatch { quantity: "answers", found: 1, expected: n };
    assert_eq!(geometry.with_answers(short), Err(refused));
}

/// A depth is counted in layers that blocks are said to be in, whatever their names: without any
/// there is one set.
#[test]
fn depth_counts_the_layers_of_blocks() {
    let known = geometry(6, 0.3, true);
    let unknown: Vec<Block> = (0..12)
        .map(|head| {
            let QueryParts { coupling, variance } = query_parts(&known.blocks()[head]);
            let kernel = known.blocks()[head].kernel().clone();
            let block = Block::new(format!("value.{}.{}", head / 4, head % 4), kernel).unwrap();
            block.with_query(coupling, variance).unwrap()
        })
        .collect();
    let unknown = Geometry::new(known.residuals().to_vec(), unknown).unwrap();
    let tried = |geometry: &Geometry| {
        decide(geometry, &Policy::default()).unwrap().which.depth.unwrap().layers
    };
    assert_eq!((tried(&known), tried(&unknown)), (vec![1, 2, 3], vec![0]));
}

struct QueryParts {
    coupling: Vec<f64>,
    variance: f64,
}

fn query_parts(block: &Block) -> QueryParts {
    let query = block.query().unwrap();
    QueryParts { coupling: query.coupling.clone(), variance: query.variance }
}

/// A policy out of range is refused with its field, what was found and what is allowed.
#[test]
fn bad_policies_are_refused() {
    let geometry = geometry(5, 0.3, true);
    let refuse = |policy: Policy| match decide(&geometry, &policy).unwrap_err() {
        Error::Policy { field, .. } => field,
        other => panic!("{other}"),
    };
    for horizons in [vec![], vec![0, 5, 5], vec![3, 1]] {
        assert_eq!(refuse(Policy { horizons, ..Policy::paper() }), Field::HORIZONS);
    }
    for step_scale in [0.0, -0.1, 1.0, f64::NAN] {
        assert_eq!(refuse(Policy { step_scale, ..Policy::paper() }), Field::STEP_SCALE);
    }
    for budget in [0, 13] {
        let selection = Selection::TraceTop { budget };
        assert_eq!(refuse(Policy { selection, ..Policy::paper() }), Field::BUDGET);
    }
    let rule = |horizon| refuse(Policy { horizon, ..Policy::paper() });
    for inverse_temperature in [0.0, -1.0, f64::INFINITY] {
        let found = rule(HorizonRule::Gibbs { inverse_temperature });
        assert_eq!(found, Field::INVERSE_TEMPERATURE);
    }
    for odds in [0.0, -1.0, f64::NAN] {
        assert_eq!(rule(averaged(odds)), Field::LEAVE_ALONE_ODDS);
    }
    assert_eq!(refuse(Policy { coverage: 1.0, ..Policy::paper() }), Field::COVERAGE);
    let (averaging, gate) = (Averaging::Plain, -1.0);
    assert_eq!(rule(HorizonRule::LeaveOneOut { averaging, gate }), Field::GATE);
    assert_eq!(rule(HorizonRule::Fixed { steps: 100_001 }), Field::STEPS);
}

/// Names are read and written alike; anything else is refused with the names there are.
#[test]
fn names_of_rules() {
    for rule in horizon_rules() {
        assert_eq!(rule.name().to_string().parse::<HorizonName>().unwrap(), rule.name());
    }
    for rule in SelectionName::ALL {
        assert_eq!(rule.to_string().parse::<SelectionName>().unwrap(), rule);
    }
    // The names that flags, reports and Python rely on.
    let horizons = "8 evidence evidence-fixed gibbs bayes-gap leave-one-out \
                    leave-one-out-average bayes-filter";
    let selections = "all query-aware query-score trace-top trace-bottom random depth";
    let names: Vec<String> = horizon_rules().map(|rule| rule.name().to_string()).collect();
    assert_eq!(names.join(" "), horizons);
    assert_eq!(SelectionName::ALL.map(|rule| rule.to_string()).join(" "), selections);
    for text in ["", "Evidence", "-1", "8.5", "99999999999"] {
        let Err(Error::UnknownName { quantity, found, allowed }) = text.parse::<HorizonName>()
        else {
            panic!("{text:?} was read");
        };
        assert_eq!((quantity, found.as_str()), ("horizon rule", text));
        assert!(allowed.contains("leave-one-out"));
    }
    assert!(matches!(
        "best".parse::<SelectionName>(),
        Err(Error::UnknownName { quantity: "selection rule", .. })
    ));
}

/// Geometries and kernels that are none are refused.
#[test]
fn bad_geometries_are_refused() {
    let block = |name: &str| Block::intercept(2).map(|_| Block::new(name, Matrix::identity(2)));
    let block = |name: &str| block(name).unwrap().unwrap();
    assert_eq!(
        Geometry::new(vec![], vec![block("a")]),
        Err(Error::Empty { quantity: "prompt" })
    );
    assert_eq!(
        Geometry::new(vec![1.0; 3], vec![block("a")]),
        Err(Error::SizeMismatch { quantity: "kernel", found: 2, expected: 3 })
    );
    let Err(Error::NotFinite { quantity: "residuals", index: 1, value }) =
        Geometry::new(vec![1.0, f64::NAN], vec![block("a")])
    else {
        panic!("NaN was taken");
    };
    assert!(value.is_nan());
    assert_eq!(
        Geometry::new(vec![1.0; 2], vec![block("a"), block("a")]),
        Err(Error::DuplicateBlock { name: "a".to_owned() })
    );
    let with_query = block("b").with_query(vec![0.1, 0.1], 1.0).unwrap();
    assert!(matches!(
        Geometry::new(vec![1.0; 2], vec![block("a"), with_query]),
        Err(Error::NoQuery { .. })
    ));
    assert_eq!(
        block("a").with_query(vec![1.0], 1.0),
        Err(Error::SizeMismatch { quantity: "coupling", found: 1, expected: 2 })
    );
    assert!(matches!(
        block("a").with_query(vec![0.0; 2], -1.0),
        Err(Error::OutOfRange { quantity: "query variance", found: -1.0, .. })
    ));
    assert_eq!(
        block("a").with_query(vec![0.0, 3.0], 1.0),
        Err(Error::CouplingTooLarge { example: 1, coupling: 3.0, limit: 1.0 })
    );
    let geometry = Geometry::new(vec![1.0; 2], vec![block("a"), block("b")]).unwrap();
    assert_eq!(geometry.sum(&[]), Err(Error::Empty { quantity: "choice of blocks" }));
    assert_eq!(geometry.sum(&[2]), Err(Error::BadBlock { index: 2, blocks: 2 }));
    assert_eq!(
        geometry.precondition(&[1.0]),
        Err(Error::SizeMismatch { quantity: "block variances", found: 1, expected: 2 })
    );
    assert!(matches!(
        geometry.precondition(&[1.0, 0.0]),
        Err(Error::OutOfRange { quantity: "block variance", found: 0.0, .. })
    ));
}

/// Kernels that are not symmetric, not positive, not square or not there are refused, wherever
/// they come in.
#[test]
fn bad_kernels_are_refused() {
    assert_eq!(Spectrum::of(&Vec::new()), Err(Error::Empty { quantity: "kernel" }));
    assert_eq!(
        Spectrum::of(&[vec![1.0, 2.0]]),
        Err(Error::SizeMismatch { quantity: "kernel row", found: 2, expected: 1 })
    );
    assert_eq!(
        Spectrum::of(&[vec![1.0, 0.0], vec![1.0]]),
        Err(Error::SizeMismatch { quantity: "matrix row", found: 1, expected: 2 })
    );
    assert!(matches!(
        Spectrum::of(&[vec![f64::INFINITY]]),
        Err(Error::NotFinite { quantity: "matrix", index: 0, .. })
    ));
    assert_eq!(
        Spectrum::of(&[vec![1.0, 0.5], vec![0.4, 1.0]]),
        Err(Error::NotSymmetric { row: 0, column: 1, upper: 0.5, lower: 0.4 })
    );
    let Err(Error::NotPositiveSemidefinite { smallest, largest }) =
        Spectrum::of(&[vec![1.0, 2.0], vec![2.0, 1.0]])
    else {
        panic!("an indefinite kernel was taken");
    };
    assert!((smallest + 1.0).abs() < 1e-14 && (largest - 3.0).abs() < 1e-14);
    let negative = Spectrum::of(&[vec![-1.0]]);
    assert!(matches!(negative, Err(Error::NotPositiveSemidefinite { smallest: -1.0, .. })));

    let block = Block::new("a", &[vec![1.0, 2.0], vec![2.0, 1.0]]).unwrap();
    let geometry = Geometry::new(vec![1.0, 1.0], vec![block]).unwrap();
    let outcome = decide(&geometry, &Policy::default());
    assert!(matches!(outcome, Err(Error::NotPositiveSemidefinite { .. })));
}

/// A step at or over the limit, at or below 0, or no number is refused with the limit.
#[test]
fn bad_steps_are_refused() {
    let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]]).unwrap();
    for step in [0.25, 0.3, 0.0, -0.1, f64::INFINITY] {
        assert_eq!(
            StepSize::new(step, &spectrum),
            Err(Error::StepTooLarge { step, limit: 0.25 })
        );
    }
    assert!(StepSize::new(f64::NAN, &spectrum).is_err());
    assert!(StepSize::new(0.25_f64.next_down(), &spectrum).is_ok());
    for fraction in [0.0, 1.0, -1.0, f64::NAN] {
        assert!(matches!(
            StepSize::fraction(fraction, &spectrum),
            Err(Error::OutOfRange { quantity: "step scale", .. })
        ));
    }
    // A step for one spectrum is not a step for another.
    let step = StepSize::new(0.2, &spectrum).unwrap();
    let steeper = Spectrum::of(&[vec![8.0]]).unwrap();
    let refused = Error::StepTooLarge { step: 0.2, limit: 0.125 };
    assert_eq!(step.check(&steeper), Err(refused.clone()));
    assert_eq!(Evidence::of(&steeper, &[1.0], step).map(|_| ()), Err(refused));
}

/// Vectors of the wrong size or with entries that are no numbers are refused by name.
#[test]
fn bad_vectors_are_refused() {
    let spectrum = Spectrum::of(Matrix::identity(2)).unwrap();
    let wrong = |quantity| Error::SizeMismatch { quantity, found: 1, expected: 2 };
    assert_eq!(spectrum.rotate(&[1.0]), Err(wrong("vector")));
    assert_eq!(spectrum.rotate_back(&[1.0]), Err(wrong("amounts")));
    assert_eq!(spectrum.project(&[1.0]), Err(wrong("vector")));
    assert_eq!(spectrum.project_outside(&[1.0]), Err(wrong("vector")));
    let step = StepSize::fraction(0.1, &spectrum).unwrap();
    let filter = GradientDescent { step, horizon: 1 };
    assert_eq!(filter.prompt_fit(&spectrum, &[1.0]), Err(wrong("residuals")));
    assert_eq!(filter.query_correction(&spectrum, &[1.0], &[1.0; 2]), Err(wrong("coupling")));
    assert!(matches!(
        filter.prompt_fit(&spectrum, &[1.0, f64::NAN]),
        Err(Error::NotFinite { quantity: "residuals", index: 1, .. })
    ));
}

/// A kernel that was summed in single precision is taken, repaired and counted.
#[test]
fn single_precision_kernels_are_taken() {
    let mut rng = Rng::new(9);
    let rows: Vec<Vec<f64>> = (0..40).map(|_| normals(&mut rng, 5)).collect();
    let single: Vec<Vec<f64>> = rows
        .iter()
        .map(|a| {
            let inner = |b: &Vec<f64>| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
            #[allow(clippy::cast_possible_truncation, reason = "rounding is the point")]
            rows.iter().map(|b| f64::from(inner(b) as f32)).collect()
        })
        .collect();
    let spectrum = Spectrum::of(&single).unwrap();
    assert!(spectrum.clamped() > 0);
    assert_eq!(spectrum.rank(), 5);
    assert!(spectrum.eigenvalues().iter().all(|&value| value >= 0.0));
}

/// Messages say what was found, what is allowed and what to do.
#[test]
fn messages_help() {
    let message = Error::StepTooLarge { step: 0.5, limit: 0.25 }.to_string();
    assert!(message.contains("5e-1") && message.contains("2.5e-1"));
    let message = Error::BudgetOutOfRange { budget: 9, blocks: 4 }.to_string();
    assert_eq!(message, "budget is 9 blocks; it must be at least 1 and at most 4");
}
