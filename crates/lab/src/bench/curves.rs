//! How time and memory grow with the size of a task, one axis at a time.

use super::cases::LAYERS;
use super::works::{Action, ModelKind, STEPS, Shape};
use crate::reproduce::plot::{Axis, Plot, Point, Series, Style};
use fewstep_engine::Order;
use serde::Serialize;

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Growing {
    /// Examples of four tokens, in tree order.
    Examples,
    /// Tokens of a prompt of ten examples.
    PromptTokens,
    /// Layers whose values may move.
    CandidateLayers,
    /// Steps.
    Horizon,
    /// Further queries on one prompt.
    Queries,
    /// Tasks, one after the other on each thread.
    Tasks,
}

impl Growing {
    pub(super) const ALL: [Self; 6] = [
        Self::Examples,
        Self::PromptTokens,
        Self::CandidateLayers,
        Self::Horizon,
        Self::Queries,
        Self::Tasks,
    ];

    /// What it is called in titles and files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Examples => "examples",
            Self::PromptTokens => "prompt-tokens",
            Self::CandidateLayers => "candidate-layers",
            Self::Horizon => "horizon",
            Self::Queries => "queries",
            Self::Tasks => "tasks",
        }
    }

    pub(super) fn sizes(self, quick: bool) -> &'static [usize] {
        match (self, quick) {
            (Self::Examples, false) => &[4, 8, 16, 32, 64, 128, 256],
            (Self::PromptTokens, false) => &[20, 50, 100, 200, 400, 800],
            (Self::CandidateLayers, false) => &[1, 2, 3, 4, 5, 6],
            (Self::Horizon, false) => &[0, 1, 2, 5, 10, 20, 50, 100],
            (Self::Queries, false) => &[2, 10, 50, 100, 500],
            (Self::Tasks, false) => &[2, 4, 8, 16, 32],
            (Self::PromptTokens, true) => &[20, 40],
            (Self::Horizon, true) => &[0, 1, 2],
            (_, true) => &[2, 3],
        }
    }

    /// The task of a size, how many layers may move, and how many steps are taken.
    pub(super) fn task(self, size: usize) -> (Shape, usize, usize) {
        let shape = Shape {
            model: ModelKind::Gpt2,
            examples: 10,
            tokens: 4,
            order: Order::Tree,
            action: Action::Steps,
            further: 0,
        };
        match self {
            Self::Examples => (Shape { examples: size, ..shape }, LAYERS, STEPS),
            Self::PromptTokens => (Shape { tokens: size.div_ceil(10), ..shape }, LAYERS, STEPS),
            Self::CandidateLayers => (shape, size, STEPS),
            Self::Horizon => (shape, LAYERS, size),
            Self::Queries => {
                (Shape { action: Action::Further, further: size, ..shape }, LAYERS, STEPS)
            }
            Self::Tasks => (shape, LAYERS, STEPS),
        }
    }
}

/// One size on a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Measured {
    /// How much there is of what grows.
    pub(crate) size: usize,
    /// The median of the runs.
    pub(crate) seconds: f64,
    /// That of the steps by themselves; 0 without steps.
    pub(crate) step_seconds: f64,
    /// Distinct tokens that a step computes.
    pub(crate) rows: usize,
    /// Peak bytes above what is resident before, where that is known.
    pub(crate) bytes: Option<u64>,
}

impl Measured {
    /// What was found, in a line.
    pub(super) fn line(&self, axis: Growing, threads: usize) -> String {
        let Self { size, seconds, step_seconds, rows, bytes } = self;
        let memory = bytes.map_or(String::new(), |bytes| format!(", {} MiB", bytes >> 20));
        let title = title(axis, threads);
        format!(
            "{title} {size}: {seconds:.3} s, steps {step_seconds:.3} s on {rows} tokens{memory}"
        )
    }
}

/// How time and memory grow with one thing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Curve {
    /// What grows.
    pub(crate) axis: Growing,
    /// Threads that work on tasks.
    pub(crate) threads: usize,
    /// The name of its drawings.
    pub(crate) file: String,
    /// By size.
    pub(crate) points: Vec<Measured>,
    /// The powers of the size that time and memory grow with.
    pub(crate) time_power: Option<f64>,
    pub(crate) memory_power: Option<f64>,
    /// The power of the number of distinct tokens that the time of steps grows with, where that
    /// number grows.
    pub(crate) step_power: Option<f64>,
}

impl Curve {
    pub(super) fn new(axis: Growing, threads: usize, points: Vec<Measured>) -> Self {
        let file = match axis {
            Growing::Tasks => format!("{}-on-{threads}", axis.name()),
            _ => axis.name().to_owned(),
        };
        let mut curve = Self {
            axis,
            threads,
            file,
            points,
            time_power: None,
            memory_power: None,
            step_power: None,
        };
        curve.time_power = power(&curve.times());
        curve.memory_power = power(&curve.memory());
        let rows = curve.points.iter().map(|point| (point.rows as f64, point.step_seconds));
        curve.step_power = power(&rows.collect::<Vec<_>>());
        curve
    }

    /// What it shows.
    pub(crate) fn title(&self) -> String {
        title(self.axis, self.threads)
    }

    /// Sizes and seconds.
    pub(crate) fn times(&self) -> Vec<(f64, f64)> {
        self.points.iter().map(|point| (point.size as f64, point.seconds)).collect()
    }

    /// Its drawings, with the names of their files.
    pub(crate) fn drawings(&self) -> Vec<(String, String)> {
        let across = self.title();
        let mebi = |&(size, bytes): &(f64, f64)| (size, bytes / f64::from(1 << 20));
        let memory: Vec<(f64, f64)> = self.memory().iter().map(mebi).collect();
        let across = across.as_str();
        let time = Captions { title: "Time", across, up: "seconds" };
        let bytes = Captions { title: "Peak memory above the weights", across, up: "MiB" };
        let drawn = [
            (String::new(), draw(&self.times(), time)),
            ("-memory".to_owned(), draw(&memory, bytes)),
        ];
        let named = |(suffix, svg): (String, Option<String>)| {
            Some((format!("{}{suffix}.svg", self.file), svg?))
        };
        drawn.into_iter().filter_map(named).collect()
    }

    /// Sizes and bytes.
    pub(crate) fn memory(&self) -> Vec<(f64, f64)> {
        let known = self.points.iter().filter_map(|point| Some((point, point.bytes?)));
        known.map(|(point, bytes)| (point.size as f64, bytes as f64)).collect()
    }
}

/// What stands over a drawing, below it and beside it.
#[derive(Clone, Copy, Debug)]
struct Captions<'a> {
    title: &'a str,
    across: &'a str,
    up: &'a str,
}

/// The points and the power of their sizes beside them, both axes in equal ratios; nothing of
/// fewer than two points.
fn draw(points: &[(f64, f64)], captions: Captions<'_>) -> Option<String> {
    let (over, (slope, height)) = (over_zero(points), line(points)?);
    let point = |&(size, value): &(f64, f64)| Point::new(size, value);
    let fitted = |&(size, _): &(f64, f64)| Point::new(size, (height + slope * size.ln()).exp());
    let measured = Series {
        name: "measured".to_owned(),
        points: over.iter().map(point).collect(),
        style: Style::Markers,
    };
    let line = Series {
        name: format!("slope {slope:.2}"),
        points: over.iter().map(fitted).collect(),
        style: Style::Line,
    };
    let plot = Plot {
        title: captions.title.to_owned(),
        x: Axis::new(captions.across).log(),
        y: Axis::new(captions.up).log(),
        series: vec![measured, line],
    };
    Some(plot.svg())
}

/// What a curve shows.
pub(super) fn title(axis: Growing, threads: usize) -> String {
    let name = axis.name().replace('-', " ");
    if axis == Growing::Tasks { format!("{name}, threads: {threads}") } else { name }
}

/// Points that have logarithms.
fn over_zero(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    points.iter().copied().filter(|(size, value)| *size > 0.0 && *value > 0.0).collect()
}

/// The slope of a straight line through the logarithms of both, by least squares, and its height
/// where the size is 1.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let logs: Vec<(f64, f64)> =
        over_zero(points).iter().map(|(size, value)| (size.ln(), value.ln())).collect();
    let count = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (x, y) = (x / count, y / count);
    let across: f64 = logs.iter().map(|point| (point.0 - x).powi(2)).sum();
    let both: f64 = logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (across > 0.0).then(|| (both / across, y - both / across * x))
}

/// The power of the size that a value grows with.
fn power(points: &[(f64, f64)]) -> Option<f64> {
    line(points).map(|(slope, _)| slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_is_found_from_its_points() {
        let points = [0.0, 2.0, 4.0, 32.0].map(|size: f64| (size, 3.0 * size.powf(1.5)));
        assert!((power(&points).unwrap() - 1.5).abs() < 1e-12);
        assert!((line(&points).unwrap().1 - 3.0_f64.ln()).abs() < 1e-12);
        assert_eq!(power(&points[..2]), None);
        assert_eq!(power(&[]), None);
    }
}
