//! Measuring the rows about the price of in-context learning: all sides in turn in every round.

use super::Price;
use super::llama::{Llama, LlamaPrompt, TimedRuns, missing};
use super::ready::{Models, Ready};
use super::sides::{Ratio, Side, Threads};
use crate::bench::measure::{Bench, pause, repeats};
use crate::bench::memory::MOST_ROUNDS;
use crate::bench::own::now;
use crate::bench::report::{Apart, PriceRow, RatioRow, SideRow, Spread, Unit};
use crate::error::Error;
use std::time::Duration;

/// How far predictions of the same weights may be apart, relative to one of them.
const ALLOWED: f64 = 1e-3;

/// The same against llama.cpp, which rounds activations to eight bits.
const ALLOWED_ROUNDED: f64 = 0.1;

/// A side that takes longer, in seconds, is run once.
const LONG: f64 = 30.0;

/// A side and what it took in each round.
struct Runs {
    side: Side,
    threads: usize,
    repeats: usize,
    /// A run takes so long that the first counts and is the only one.
    once: bool,
    /// What the model predicts at the first run.
    prediction: f64,
    taken: Vec<f64>,
}

/// A row, or why there is none.
pub(in crate::bench) enum Priced {
    Row(PriceRow),
    Skipped(String),
    Stopped,
}

impl Bench<'_> {
    /// Measures a row.
    pub(in crate::bench) fn price(
        &mut self,
        price: Price,
        models: &Models,
    ) -> Result<Priced, Error> {
        let (quick, threads) = (self.settings.quick, self.settings.threads);
        self.begin(&format!("{price}: making it ready"));
        let mut ready = Ready::new(models, price, quick, threads)?;
        if let Some(reason) = self.ready_others(price, &mut ready)? {
            return Ok(Priced::Skipped(reason));
        }
        // On one thread, all threads are measured already.
        let mut ratios = price.ratios();
        ratios.retain(|ratio| threads > 1 || ratio.threads == Threads::One);
        let mut runs = runs(&ratios, threads);
        let done = match price.is_memory() {
            true => self.weigh(price, &ratios, &mut runs)?,
            false => self.alternate_sides(price, &ratios, &mut ready, &mut runs)?,
        };
        match done {
            Some(()) => Ok(Priced::Row(row(price, &ready, &runs, &ratios, quick))),
            None if self.stopped() => Ok(Priced::Stopped),
            None => {
                Ok(Priced::Skipped("how much memory is taken is not known here".to_owned()))
            }
        }
    }

    /// Makes other programs ready, if they take part; returns why they cannot.
    fn ready_others(
        &mut self,
        price: Price,
        ready: &mut Ready<'_>,
    ) -> Result<Option<String>, Error> {
        match price {
            Price::Llama => {
                let reason = match self.settings.quick {
                    true => Some("llama.cpp does not read the model of tiny shapes".to_owned()),
                    false => missing(&self.settings.llama),
                };
                if reason.is_none() {
                    ready.llama = Some(self.llama(ready)?);
                }
                Ok(reason)
            }
            Price::Torch => {
                ready.torch = self.torch_of(ready)?;
                let missing = ready.torch.is_none();
                Ok(missing.then(|| "there is no PyTorch; bench/run installs it".to_owned()))
            }
            _ => Ok(None),
        }
    }

    fn llama(&self, ready: &Ready<'_>) -> Result<Llama, Error> {
        Llama::new(&LlamaPrompt {
            packages: &self.settings.llama,
            scratch: self.scripts(),
            model: &self.shelf.smollm2_file(),
            tokens: &ready.prompt,
            labels: ready.read.labels().tokens(),
        })
    }

    /// Seconds of all sides, one after the other in every round; the first run is not counted,
    /// unless it takes so long that it is the only one.
    fn alternate_sides(
        &mut self,
        price: Price,
        ratios: &[Ratio],
        ready: &mut Ready<'_>,
        runs: &mut [Runs],
    ) -> Result<Option<()>, Error> {
        let (quick, rounds) = (self.settings.quick, self.settings.rounds);
        let mut run = |run: &mut Runs, repeats: usize| {
            let timed = ready.time(run.side, TimedRuns { threads: run.threads, repeats })?;
            pause(quick || run.side != Side::Torch);
            Ok::<_, Error>(timed)
        };
        for side in &mut *runs {
            let first = run(side, 1)?;
            side.prediction = first.prediction;
            side.repeats = if quick { 1 } else { repeats(first.seconds) };
            side.once = first.seconds > LONG;
            if side.once {
                side.taken.push(first.seconds);
            }
            if self.stopped() {
                return Ok(None);
            }
        }
        agree(price, ratios, runs)?;
        let started = now();
        for round in 1..=rounds {
            if is_enough(self.settings.patience, started.elapsed(), round - 1) {
                self.pass_over(rounds + 1 - round);
                break;
            }
            self.begin(&format!("{price}: round {round}"));
            for side in runs.iter_mut().filter(|side| !side.once) {
                let timed = run(side, side.repeats)?;
                side.taken.push(timed.seconds);
                if self.stopped() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(()))
    }

    /// Bytes of all sides, each in a process of its own.
    fn weigh(
        &mut self,
        price: Price,
        ratios: &[Ratio],
        runs: &mut [Runs],
    ) -> Result<Option<()>, Error> {
        for round in 1..=self.settings.rounds {
            self.begin(&format!("{price}: round {round}"));
            if round > MOST_ROUNDS {
                continue;
            }
            for run in &mut *runs {
                let Some(weighed) = self.peak_of(run.side)? else { return Ok(None) };
                run.prediction = weighed.prediction;
                run.taken.push(weighed.peak.above() as f64);
                if self.stopped() {
                    return Ok(None);
                }
            }
            agree(price, ratios, runs)?;
        }
        Ok(Some(()))
    }
}

/// Every side of some ratios, once for each number of threads.
fn runs(ratios: &[Ratio], all: usize) -> Vec<Runs> {
    let mut runs: Vec<Runs> = Vec::new();
    for ratio in ratios {
        let threads = ratio.threads.count(all);
        for side in [ratio.to, ratio.of] {
            if !runs.iter().any(|run| (run.side, run.threads) == (side, threads)) {
                let (prediction, taken) = (f64::NAN, Vec::new());
                runs.push(Runs { side, threads, repeats: 1, once: false, prediction, taken });
            }
        }
    }
    runs
}

/// Whether another round, as long as those that are done, would end too late.
fn is_enough(patience: Option<Duration>, spent: Duration, done: usize) -> bool {
    let next = |done: usize| spent.mul_f64((done + 1) as f64 / done as f64);
    done > 0 && patience.is_some_and(|patience| next(done) > patience)
}

/// What a side predicts.
fn prediction(runs: &[Runs], side: Side) -> f64 {
    runs.iter().find(|run| run.side == side).map_or(f64::NAN, |run| run.prediction)
}

/// How far predictions are apart, relative to the second.
fn apart(found: f64, own: f64) -> f64 {
    (found - own).abs() / own.abs()
}

/// Checks that both sides of each ratio did the same work.
///
/// # Errors
///
/// [`Error::Disagree`] if they predict something else.
fn agree(price: Price, ratios: &[Ratio], runs: &[Runs]) -> Result<(), Error> {
    for ratio in ratios {
        let found = apart(prediction(runs, ratio.of), prediction(runs, ratio.to));
        let allowed = if ratio.of == Side::Llama { ALLOWED_ROUNDED } else { ALLOWED };
        if found.is_nan() || found > allowed {
            let (work, variant) = (price.to_string(), ratio.of.name());
            let quantity = "predictions";
            return Err(Error::Disagree { work, variant, quantity, found, allowed });
        }
    }
    Ok(())
}

/// How many times as much the first took in each round; what ran once stands in every round.
fn over_rounds(of: &[f64], to: &[f64]) -> Vec<f64> {
    let at = |taken: &[f64], round: usize| taken[round.min(taken.len() - 1)];
    (0..of.len().max(to.len())).map(|round| at(of, round) / at(to, round)).collect()
}

fn row(
    price: Price,
    ready: &Ready<'_>,
    runs: &[Runs],
    ratios: &[Ratio],
    quick: bool,
) -> PriceRow {
    let spread = |taken: &[f64]| Spread::of(taken).expect("every side was run");
    let sides = runs.iter().map(|run| {
        let (by, apart) = others(ready, run, ratios, runs);
        SideRow {
            side: run.side.name(),
            threads: run.threads,
            unit: if price.is_memory() { Unit::Bytes } else { Unit::Seconds },
            taken: spread(&run.taken).divided(ready.units(run.side) as f64),
            by,
            apart,
        }
    });
    let all = runs.iter().map(|run| run.threads).max().unwrap_or(1);
    let ratios = ratios.iter().map(|ratio| {
        let threads = ratio.threads.count(all);
        let taken = |side: Side| {
            let run = runs.iter().find(|run| (run.side, run.threads) == (side, threads));
            &run.expect("both sides were run").taken
        };
        let found = spread(&over_rounds(taken(ratio.of), taken(ratio.to)));
        let target = ratio.target.filter(|_| !quick);
        RatioRow {
            of: ratio.of.name(),
            to: ratio.to.name(),
            threads,
            ratio: found,
            sign: target.map(|target| target.sign()),
            target: target.map(|target| target.value()),
            reached: target.map(|target| target.is_reached(found.median)),
        }
    });
    PriceRow {
        work: price.to_string(),
        title: price.title(),
        tokens: ready.prompt.len(),
        sides: sides.collect(),
        ratios: ratios.collect(),
    }
}

/// Who did it and how far that is from the engine, if it was another program.
fn others(
    ready: &Ready<'_>,
    run: &Runs,
    ratios: &[Ratio],
    runs: &[Runs],
) -> (Option<String>, Option<Apart>) {
    match run.side {
        Side::Llama => {
            let own = ratios.iter().find(|ratio| ratio.of == run.side);
            let own = own.map_or(f64::NAN, |ratio| prediction(runs, ratio.to));
            let predictions = apart(run.prediction, own);
            let version = ready.llama.as_ref().map(|llama| llama.version.clone());
            (version, Some(Apart { predictions, kernels: None }))
        }
        Side::Torch => {
            let torch = ready.torch.as_ref();
            (torch.and_then(|torch| torch.about(run.threads)), torch.map(|torch| torch.apart))
        }
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What two ratios share is run once.
    #[test]
    fn every_side_is_run_once_for_each_number_of_threads() {
        let found = runs(&Price::Llama.ratios(), 2);
        let found: Vec<_> = found.iter().map(|run| (run.side, run.threads)).collect();
        let [plain, llama, quantised] = [Side::Plain, Side::Llama, Side::Quantised];
        let expected =
            [(plain, 1), (llama, 1), (plain, 2), (llama, 2), (quantised, 1), (quantised, 2)];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_ran_once_is_set_against_every_round() {
        assert_eq!(over_rounds(&[12.0], &[4.0, 6.0]), [3.0, 2.0]);
        assert_eq!(over_rounds(&[8.0, 6.0], &[4.0, 6.0]), [2.0, 1.0]);
    }

    #[test]
    fn ratios_are_medians_over_rounds_and_judged_by_them() {
        let models = Models::open("none".as_ref(), true).unwrap().unwrap();
        let ready = Ready::new(&models, Price::Ten, true, 1).unwrap();
        let ratios = Price::Ten.ratios();
        let mut runs = runs(&ratios, 1);
        // Medians by themselves would say 5.
        runs[0].taken = vec![1.0, 20.0, 3.0];
        runs[1].taken = vec![3.0, 92.0, 15.0];
        runs[2].taken = vec![2.0, 40.0, 9.0];
        // It ran once.
        runs[3].taken = vec![45.0];
        let judged = |quick| row(Price::Ten, &ready, &runs, &ratios, quick);
        let found = judged(false);
        assert!((found.ratios[0].ratio.median - 4.6).abs() < 1e-12);
        assert_eq!((found.ratios[0].target, found.ratios[0].reached), (Some(4.5), Some(false)));
        assert!((found.ratios[2].ratio.median - 3.0).abs() < 1e-12);
        assert_eq!((found.ratios[2].of, found.ratios[2].reached), ("whole", Some(true)));
        assert_eq!(judged(true).ratios[0].reached, None);
        assert_eq!((found.sides[1].side, found.sides[1].threads), ("local", 1));
    }

    /// Sides that do other work end the run, and so does one that predicts no number.
    #[test]
    fn predictions_that_differ_are_refused_with_how_far() {
        let ratios = Price::Llama.ratios();
        let judged = |own: f64, found: f64| {
            let mut runs = runs(&ratios, 1);
            for run in &mut runs {
                run.prediction = if run.side == Side::Llama { found } else { own };
            }
            agree(Price::Llama, &ratios, &runs)
        };
        assert_eq!(judged(0.5, 0.54), Ok(()));
        let Err(Error::Disagree { work, variant, quantity, found, allowed }) = judged(0.5, 0.6)
        else {
            panic!("it is refused")
        };
        assert_eq!((&work[..], variant, quantity), ("icl-llama", "llama.cpp", "predictions"));
        assert!((found - 0.2).abs() < 1e-12 && allowed < found);
        assert!(matches!(judged(0.5, f64::NAN), Err(Error::Disagree { .. })));
        let mut runs = runs(&Price::Ten.ratios(), 1);
        runs.iter_mut().for_each(|run| run.prediction = 0.5);
        assert_eq!(agree(Price::Ten, &Price::Ten.ratios(), &runs), Ok(()));
        runs[1].prediction = 0.51;
        assert!(matches!(
            agree(Price::Ten, &Price::Ten.ratios(), &runs),
            Err(Error::Disagree { .. })
        ));
    }

    #[test]
    fn no_round_begins_that_would_end_too_late() {
        let seconds = Duration::from_secs;
        assert!(!is_enough(Some(seconds(60)), seconds(500), 0));
        assert!(!is_enough(Some(seconds(60)), seconds(40), 2));
        assert!(is_enough(Some(seconds(60)), seconds(41), 2));
        assert!(!is_enough(None, seconds(5000), 3));
    }
}
