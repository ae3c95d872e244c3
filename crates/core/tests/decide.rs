//! The three answers, recomputed from their parts, and every way of asking wrongly.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]
#![allow(clippy::float_cmp, reason = "the same computation must give the same bits")]

use fewstep_core::leave_one_out::{Answers, Averaging, LeaveOneOut};
use fewstep_core::{
    Block, Decision, Error, Evidence, Filter, Geometry, GradientDescent, HorizonRule, Matrix,
    Reason, Rng, Rules, Selection, Spectrum, StepSize, Update, decide,
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
            Block::from_features(format!("value.{}.{}", head / 4, head % 4), &rows, query)
                .unwrap()
        })
        .collect();
    Geometry::new(residuals, blocks).unwrap()
}

const HORIZON_RULES: [HorizonRule; 8] = [
    HorizonRule::Fixed(8),
    HorizonRule::Evidence,
    HorizonRule::EvidenceFixed,
    HorizonRule::Gibbs,
    HorizonRule::BayesGap,
    HorizonRule::LeaveOneOut,
    HorizonRule::LeaveOneOutAverage,
    HorizonRule::BayesFilter,
];

const SELECTIONS: [Selection; 8] = [
    Selection::All,
    Selection::QueryAware,
    Selection::QueryScore,
    Selection::TraceTop,
    Selection::TraceBottom,
    Selection::Random,
    Selection::LeaveOneOut,
    Selection::Depth,
];

/// Every pair of rules gives a complete decision whose correction is that of its own update.
#[test]
fn every_rule_decides() {
    let geometry = geometry(1, 0.3, true);
    for horizon in HORIZON_RULES {
        for selection in SELECTIONS {
            let without = [Selection::All, Selection::Depth].contains(&selection);
            let budget = (!without).then_some(5);
            let rules = Rules { horizon, select: selection, budget, ..Rules::default() };
            let decision = decide(&geometry, &rules).unwrap();
            let expected = if budget.is_some() { 5 } else { 12 };
            assert_eq!(decision.which.budget, expected);
            match selection {
                // It stops when no block helps any more; the third is the one that explains.
                Selection::LeaveOneOut => {
                    assert!(decision.which.selected.len() <= 5);
                    assert_eq!(decision.which.selected[0], 3);
                }
                // The last layers, as many as help.
                Selection::Depth => {
                    let layers = decision.which.selected.len().div_ceil(4).max(1);
                    let last: Vec<usize> = (12 - 4 * layers..12).collect();
                    assert_eq!(decision.which.selected, last);
                }
                _ => assert_eq!(decision.which.selected.len(), expected),
            }
            assert_eq!(decision.which.blocks.len(), 12);
            assert_eq!(decision.how_far.evidence.len(), 31);
            assert_eq!(decision.how_far.evidence_fixed.len(), 31);
            let mass: f64 = decision.how_far.posterior.iter().sum();
            assert!((mass - 1.0).abs() < 31.0 * f64::EPSILON);

            let block = geometry.sum(&decision.which.selected).unwrap();
            let spectrum = Spectrum::of(block.kernel()).unwrap();
            let query = block.query().unwrap();
            let correction = decision
                .update
                .query_correction(&spectrum, &query.coupling, geometry.residuals())
                .unwrap();
            assert_eq!(decision.query.unwrap().correction, correction);
            assert_eq!(decision.how_far.step_size, 0.1 / spectrum.largest());
            assert_eq!(decision.when.adapt, decision.update != Update::None);
        }
    }
}

/// The steps that are asked for are those with the smallest criterion, recomputed from the
/// residuals, the kernel and the step size in the decision alone.
#[test]
fn horizons_minimise_their_criterion() {
    for seed in 0..20 {
        let geometry = geometry(seed, 1.0, true);
        let decide =
            |horizon| decide(&geometry, &Rules { horizon, ..Rules::default() }).unwrap();
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
        let decision = decide(HorizonRule::Evidence);
        let (profiled, fixed) = curve(&decision);
        assert_eq!(decision.how_far.horizon, best(&profiled));
        assert_eq!(decide(HorizonRule::EvidenceFixed).how_far.horizon, best(&fixed));
        // The continuous optimum is positive iff the gate is over 1, and the grid contains 0 and 1.
        if decision.how_far.horizon > 0 {
            assert!(decision.when.gate > 1.0);
        }
    }
}

/// The average by left-out errors moves the query by the weighted mean of what its horizons do; odds
/// that leave next to nothing for steps leave the model alone.
#[test]
fn averages_by_left_out_errors_are_averages() {
    let geometry = geometry(2, 0.3, true);
    let by = |horizon, odds| {
        let rules = Rules { horizon, leave_alone_odds: odds, ..Rules::default() };
        decide(&geometry, &rules).unwrap()
    };
    let average = by(HorizonRule::LeaveOneOutAverage, 5.0);
    let moved = |decision: &Decision| decision.query.unwrap().correction;
    let expected: f64 = (0..=30)
        .map(|horizon| moved(&by(HorizonRule::Fixed(horizon), 5.0)))
        .zip(&average.how_far.posterior)
        .map(|(correction, weight)| weight * correction)
        .sum();
    assert!((moved(&average) - expected).abs() < 1e-12 * expected.abs());
    assert!(average.when.adapt && average.how_far.left_out_risk.len() == 31);
    // Its interval is that of the average; the wider the more often it is to hold the answer.
    let prompt = &average.block;
    let step = StepSize::new(average.how_far.step_size, &average.spectrum).unwrap();
    let horizons: Vec<u32> = (0..=30).collect();
    let coupling = Some(&prompt.query().unwrap().coupling[..]);
    let residuals = geometry.residuals();
    let left_out =
        LeaveOneOut::of(prompt.kernel(), residuals, step, &horizons, coupling).unwrap();
    let expected = left_out.interval_of_average(&average.how_far.posterior, 0.8).unwrap();
    assert_eq!(average.query.unwrap().interval, Some(expected));
    assert_eq!(by(HorizonRule::Evidence, 5.0).query.unwrap().interval, None);
    let share = |decision: &Decision| 1.0 - decision.how_far.posterior[0];
    let never = by(HorizonRule::LeaveOneOutAverage, 1e12);
    assert!(share(&never) < 0.01 && never.update == Update::None);
    assert_eq!(never.when.reason, Reason::RuleAdvisesAgainst);
}

/// The interval of a single horizon is that of the chosen one, not of the first.
#[test]
fn intervals_belong_to_the_chosen_horizon() {
    let horizon = HorizonRule::LeaveOneOut;
    let rules = Rules { horizon, select: Selection::LeaveOneOut, ..Rules::default() };
    let asked = |seed| decide(&geometry(seed, 0.01, true), &rules).unwrap();
    let moved = (0..20).find(|&seed| asked(seed).how_far.horizon > 0).unwrap();
    let (decision, residuals) =
        (asked(moved), geometry(moved, 0.01, true).residuals().to_vec());
    let step = StepSize::new(decision.how_far.step_size, &decision.spectrum).unwrap();
    let coupling = Some(&decision.block.query().unwrap().coupling[..]);
    let chosen = [0, decision.how_far.horizon];
    let kernel = decision.block.kernel();
    let left_out = LeaveOneOut::of(kernel, &residuals, step, &chosen, coupling).unwrap();
    let [none, steps] = [0, 1].map(|index| left_out.interval(index, 0.8).unwrap());
    assert_eq!(decision.query.unwrap().interval, Some(steps));
    assert_ne!(none, steps);
}

/// The filter that gaps are measured against is the one that `bayes-filter` carries out: its ratio is
/// the fitted one where there is noise, and its noise a hundred-millionth of the residuals' mean
/// square where there is none.
#[test]
fn the_fitted_filter_is_the_one_that_is_carried_out() {
    let rules = Rules { horizon: HorizonRule::BayesFilter, ..Rules::default() };
    let mut edges = [0; 2];
    for (seed, noise) in (0..20).map(|seed| (seed, if seed % 2 == 0 { 0.5 } else { 0.0 })) {
        // One block of rank four: without noise it explains the residuals entirely.
        let all = geometry(seed, noise, true);
        let block = all.blocks()[3].clone();
        let geometry = Geometry::new(all.residuals().to_vec(), vec![block]).unwrap();
        let (residuals, decision) = (geometry.residuals(), decide(&geometry, &rules).unwrap());
        let fitted = decision.signal.benchmark(residuals).unwrap();
        assert_eq!(decision.update, Update::Posterior(fitted), "seed {seed}");
        let (left, mean) = (decision.when.gap_adapted, residuals.iter().map(|r| r * r));
        assert!(left <= 1e-20 * decision.when.gap_icl, "seed {seed}: {left}");
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

/// Perfect predictions and weights that move nothing are left alone, with the reason, under
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
    for horizon in HORIZON_RULES {
        for selection in SELECTIONS {
            let budget = (selection != Selection::All).then_some(2);
            let rules = Rules { horizon, select: selection, budget, ..Rules::default() };
            for (geometry, reason) in
                [(&silent, Reason::NothingToCorrect), (&frozen, Reason::NothingMoves)]
            {
                let decision = decide(geometry, &rules).unwrap();
                assert!(!decision.when.adapt);
                assert_eq!(decision.when.reason, reason);
                assert_eq!(decision.update, Update::None);
                assert_eq!(decision.how_far.horizon, 0);
                assert_eq!(decision.query.unwrap().correction, 0.0);
                assert_eq!(decision.when.gap_icl, decision.when.gap_adapted);
                assert!(decision.when.gate == 0.0 && decision.when.gap_icl.is_finite());
            }
        }
    }
}

/// Without a query, what does not need one works and what needs one says so.
#[test]
fn rules_that_need_a_query_say_so() {
    let geometry = geometry(4, 0.3, false);
    for horizon in HORIZON_RULES {
        let outcome = decide(&geometry, &Rules { horizon, ..Rules::default() });
        match horizon {
            HorizonRule::BayesGap => assert!(matches!(outcome, Err(Error::NoQuery { .. }))),
            _ => assert!(outcome.unwrap().query.is_none()),
        }
    }
    for selection in SELECTIONS {
        let rules = Rules { select: selection, budget: Some(2), ..Rules::default() };
        let needs = matches!(selection, Selection::QueryAware | Selection::QueryScore);
        assert_eq!(matches!(decide(&geometry, &rules), Err(Error::NoQuery { .. })), needs);
    }
    let rules = Rules {
        horizon: HorizonRule::LeaveOneOut,
        leave_one_out: Averaging::QueryWeighted,
        ..Rules::default()
    };
    assert!(matches!(decide(&geometry, &rules), Err(Error::NoQuery { .. })));
}

/// A rule that counts by label needs the answers, and looks at them: for the number of steps and for
/// the blocks.
#[test]
fn rules_by_label_look_at_the_answers() {
    let geometry = geometry(4, 0.3, true);
    let by_label = |horizon, select, geometry: &Geometry| {
        let leave_one_out = Averaging::ByLabel;
        decide(geometry, &Rules { horizon, select, leave_one_out, ..Rules::default() })
    };
    let cases = [
        (HorizonRule::LeaveOneOut, Selection::All),
        (HorizonRule::LeaveOneOutAverage, Selection::All),
        (HorizonRule::Fixed(3), Selection::LeaveOneOut),
    ];
    let n = geometry.examples();
    let answers = |labels| Answers::new(labels, &vec![0.5; n], [0.0, 1.0]).unwrap();
    for (horizon, select) in cases {
        let refused = by_label(horizon, select, &geometry);
        assert!(matches!(refused, Err(Error::NoAnswers { .. })));
        let answered = geometry.clone().with_answers(answers(vec![0; n])).unwrap();
        assert!(by_label(horizon, select, &answered).is_ok());
        let same = answered.precondition(&vec![1.0; geometry.blocks().len()]).unwrap();
        assert_eq!(same.answers(), answered.answers());
    }
    let risk = |labels| {
        let answered = geometry.clone().with_answers(answers(labels)).unwrap();
        by_label(HorizonRule::LeaveOneOutAverage, Selection::All, &answered)
            .unwrap()
            .how_far
            .left_out_risk
    };
    let alone = (0..n).map(|example| usize::from(example == 0)).collect();
    assert_ne!(risk(vec![0; n]), risk(alone));
    let short = Answers::new(vec![0], &[0.5], [0.0, 1.0]).unwrap();
    let refused = Error::SizeMismatch { quantity: "answers", found: 1, expected: n };
    assert_eq!(geometry.with_answers(short), Err(refused));
}

/// Rules out of range are refused with what was found and what is allowed.
#[test]
fn bad_rules_are_refused() {
    let geometry = geometry(5, 0.3, true);
    let refuse = |rules: Rules| decide(&geometry, &rules).unwrap_err();
    assert_eq!(
        refuse(Rules { horizons: vec![], ..Rules::default() }),
        Error::Empty { quantity: "candidate horizons" }
    );
    assert!(matches!(
        refuse(Rules { horizons: vec![0, 5, 5], ..Rules::default() }),
        Error::OutOfRange { quantity: "candidate horizon", found: 5.0, .. }
    ));
    for step_scale in [0.0, -0.1, 1.0, f64::NAN] {
        assert!(matches!(
            refuse(Rules { step_scale, ..Rules::default() }),
            Error::OutOfRange { quantity: "step scale", .. }
        ));
    }
    for (budget, found) in [(None, 0), (Some(0), 0), (Some(13), 13)] {
        assert_eq!(
            refuse(Rules { select: Selection::TraceTop, budget, ..Rules::default() }),
            Error::BudgetOutOfRange { budget: found, blocks: 12 }
        );
    }
    for inverse_temperature in [0.0, -1.0, f64::INFINITY] {
        assert!(matches!(
            refuse(Rules { inverse_temperature, ..Rules::default() }),
            Error::OutOfRange { quantity: "inverse temperature", .. }
        ));
    }
    for leave_alone_odds in [0.0, -1.0, f64::NAN] {
        assert!(matches!(
            refuse(Rules { leave_alone_odds, ..Rules::default() }),
            Error::OutOfRange { quantity: "odds of leaving the model alone", .. }
        ));
    }
    assert!(matches!(
        refuse(Rules { coverage: 1.0, ..Rules::default() }),
        Error::OutOfRange { quantity: "coverage", found: 1.0, .. }
    ));
    assert!(matches!(
        refuse(Rules { leave_one_out_gate: -1.0, ..Rules::default() }),
        Error::OutOfRange { quantity: "leave-one-out gate", found: -1.0, .. }
    ));
}

/// Names are read and written alike; anything else is refused with the names there are.
#[test]
fn names_of_rules() {
    for rule in HORIZON_RULES {
        assert_eq!(rule.to_string().parse::<HorizonRule>().unwrap(), rule);
    }
    for rule in SELECTIONS {
        assert_eq!(rule.to_string().parse::<Selection>().unwrap(), rule);
    }
    // The names that flags, reports and Python rely on.
    let horizons = "8 evidence evidence-fixed gibbs bayes-gap leave-one-out \
                    leave-one-out-average bayes-filter";
    let selections =
        "all query-aware query-score trace-top trace-bottom random leave-one-out depth";
    assert_eq!(HORIZON_RULES.map(|rule| rule.to_string()).join(" "), horizons);
    assert_eq!(SELECTIONS.map(|rule| rule.to_string()).join(" "), selections);
    for text in ["", "Evidence", "-1", "8.5", "99999999999"] {
        let Err(Error::UnknownName { quantity, found, allowed }) = text.parse::<HorizonRule>()
        else {
            panic!("{text:?} was read");
        };
        assert_eq!((quantity, found.as_str()), ("horizon rule", text));
        assert!(allowed.contains("leave-one-out"));
    }
    assert!(matches!(
        "best".parse::<Selection>(),
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
    let outcome = decide(&geometry, &Rules::default());
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
