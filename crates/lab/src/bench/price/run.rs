//! Measuring the rows about the price of in-context learning: all sides in turn in every round.

use super::llama::{Asked, Llama, missing};
use super::ready::{Models, Ready};
use super::{Price, Ratio, Side, Threads};
use crate::bench::measure::{Bench, LONG, repeats};
use crate::bench::memory::MOST_ROUNDS;
use crate::bench::report::{PriceRow, RatioRow, SideRow, Spread, Unit};
use crate::error::Error;

/// How far predictions of the same weights may be apart, relative to one of them.
const ALLOWED: f64 = 1e-3;

/// The same against llama.cpp, which rounds activations to eight bits.
const ALLOWED_ROUNDED: f64 = 0.1;

/// A side and what it took in each round.
struct Runs {
    side: Side,
    threads: usize,
    repeats: usize,
    /// A run takes so long that the first counts and is the only one.
    once: bool,
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
        let mut ready = Ready::new(models, price, (quick, threads))?;
        if price == Price::Llama {
            let reason = match quick {
                true => Some("llama.cpp does not read the model of tiny shapes".to_owned()),
                false => missing(&self.settings.llama),
            };
            if let Some(reason) = reason {
                return Ok(Priced::Skipped(reason));
            }
            ready.llama = Some(self.llama(&ready)?);
        }
        // On one thread, all threads are measured already.
        let mut ratios = price.ratios();
        ratios.retain(|ratio| threads > 1 || ratio.threads == Threads::One);
        let mut apart = None;
        for ratio in &ratios {
            apart = agree(price, &ready, ratio)?.or(apart);
        }
        let mut runs = runs(&ratios, threads);
        let done = match price.is_memory() {
            true => self.weigh(price, &mut runs)?,
            false => self.alternate_sides(price, &ready, &mut runs)?,
        };
        match done {
            Some(()) => Ok(Priced::Row(row(price, (&ready, &runs, &ratios), (quick, apart)))),
            None if self.stopped() => Ok(Priced::Stopped),
            None => {
                Ok(Priced::Skipped("how much memory is taken is not known here".to_owned()))
            }
        }
    }

    fn llama(&self, ready: &Ready<'_>) -> Result<Llama, Error> {
        let tokens = (&ready.prompt[..], ready.labels.tokens());
        let file = self.shelf.smollm2_file();
        Llama::new((&self.settings.llama, self.scripts()), &file, tokens)
    }

    /// Seconds of all sides, one after the other in every round; the first run is not counted,
    /// unless it takes so long that it is the only one.
    fn alternate_sides(
        &mut self,
        price: Price,
        ready: &Ready<'_>,
        runs: &mut [Runs],
    ) -> Result<Option<()>, Error> {
        for run in &mut *runs {
            let first = ready.seconds(run.side, Asked { threads: run.threads, repeats: 1 })?;
            run.repeats = if self.settings.quick { 1 } else { repeats(first) };
            run.once = first > LONG;
            if run.once {
                run.taken.push(first);
            }
            if self.stopped() {
                return Ok(None);
            }
        }
        for round in 1..=self.settings.rounds {
            self.begin(&format!("{price}: round {round}"));
            for run in runs.iter_mut().filter(|run| !run.once) {
                let asked = Asked { threads: run.threads, repeats: run.repeats };
                run.taken.push(ready.seconds(run.side, asked)?);
                if self.stopped() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(()))
    }

    /// Bytes of all sides, each in a process of its own.
    fn weigh(&mut self, price: Price, runs: &mut [Runs]) -> Result<Option<()>, Error> {
        for round in 1..=self.settings.rounds {
            self.begin(&format!("{price}: round {round}"));
            if round > MOST_ROUNDS {
                continue;
            }
            for run in &mut *runs {
                let Some(bytes) = self.peak_of(run.side)? else { return Ok(None) };
                run.taken.push(bytes);
                if self.stopped() {
                    return Ok(None);
                }
            }
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
                runs.push(Runs { side, threads, repeats: 1, once: false, taken: Vec::new() });
            }
        }
    }
    runs
}

/// How far llama.cpp's prediction is apart, if it is one of both sides.
///
/// # Errors
///
/// [`Error::Disagree`] if both sides predict something else: then they do other work.
fn agree(price: Price, ready: &Ready<'_>, ratio: &Ratio) -> Result<Option<f64>, Error> {
    let (theirs, own) = (ready.predict(ratio.of)?, ready.predict(ratio.to)?);
    let found = (theirs - own).abs() / own.abs();
    let rounded = ratio.of == Side::Llama;
    let allowed = if rounded { ALLOWED_ROUNDED } else { ALLOWED };
    if found <= allowed {
        return Ok(rounded.then_some(found));
    }
    let (work, variant, quantity) = (price.to_string(), ratio.of.name(), "predictions");
    Err(Error::Disagree { work, variant, quantity, found, allowed })
}

/// How many times as much the first took in each round; what ran once stands in every round.
fn over_rounds(of: &[f64], to: &[f64]) -> Vec<f64> {
    let at = |taken: &[f64], round: usize| taken[round.min(taken.len() - 1)];
    (0..of.len().max(to.len())).map(|round| at(of, round) / at(to, round)).collect()
}

fn row(
    price: Price,
    (ready, runs, ratios): (&Ready<'_>, &[Runs], &[Ratio]),
    (quick, llama_apart): (bool, Option<f64>),
) -> PriceRow {
    let spread = |taken: &[f64]| Spread::of(taken).expect("every side was run");
    let sides = runs.iter().map(|run| SideRow {
        side: run.side.name(),
        threads: run.threads,
        unit: if price.is_memory() { Unit::Bytes } else { Unit::Seconds },
        taken: spread(&run.taken).divided(ready.units(run.side) as f64),
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
        llama: ready.llama.as_ref().map(|llama| llama.version.clone()),
        llama_apart,
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
        let ready = Ready::new(&models, Price::Ten, (true, 1)).unwrap();
        let ratios = Price::Ten.ratios();
        let mut runs = runs(&ratios, 1);
        // Medians by themselves would say 5.
        runs[0].taken = vec![1.0, 20.0, 3.0];
        runs[1].taken = vec![3.0, 92.0, 15.0];
        let judged = |quick| row(Price::Ten, (&ready, &runs, &ratios), (quick, None));
        let found = judged(false);
        assert!((found.ratios[0].ratio.median - 4.6).abs() < 1e-12);
        assert_eq!((found.ratios[0].target, found.ratios[0].reached), (Some(4.5), Some(false)));
        assert_eq!(judged(true).ratios[0].reached, None);
        assert_eq!((found.sides[1].side, found.sides[1].threads), ("default", 1));
    }
}
