//! Drawings as SVG: lines, steps, points with error bars, bands, and intervals in rows.
//!
//! In: a [`Plot`] or [`Rows`], which names its axes and series. Out: the text of an SVG that reads on a light
//! and on a dark display, in grey and by people who are colour-blind (the colours are those of
//! Okabe and Ito, darkened or lightened where they would be faint; dashes and shapes of points
//! differ, too). It has no ids, so that many can stand on one page, and loads nothing.

mod rows;
mod scale;
mod shapes;

use super::html::escape;
use scale::Scale;
use shapes::{Area, Stretch};
use std::fmt::Write as _;

pub use rows::{Reach, Row, Rows};

/// A drawing with two axes.
///
/// Series of one name share their colour and their place in the legend: a line and the points
/// measured along it are two series with one name.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::plot::{Axis, Plot, Point, Series, Style};
///
/// let points = (0..5).map(|x| Point::new(f64::from(x), 0.5_f64.powi(x))).collect();
/// let series = Series { name: "halves".to_owned(), points, style: Style::Line };
/// let (x, y) = (Axis::new("steps T"), Axis::new("error left").log());
/// let plot = Plot { title: "Every step closes half".to_owned(), x, y, series: vec![series] };
/// assert!(plot.svg().starts_with("<svg"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What is drawn.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What is drawn, from the back to the front.
    pub series: Vec<Series>,
}

/// One of the two directions of a drawing.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::plot::Axis;
///
/// let axis = Axis { label: "time".to_owned(), log: true, range: None };
/// assert_eq!(axis, Axis::new("time").log());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// Whether equal distances are equal ratios; what is not over 0 is then left out.
    pub log: bool,
    /// From where to where; unless given, as far as the points reach.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// An even axis as long as the points need it.
    ///
    /// # Examples
    ///
    /// See [`Axis`].
    #[must_use]
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), log: false, range: None }
    }

    /// The same axis with equal distances for equal ratios.
    ///
    /// # Examples
    ///
    /// See [`Axis`].
    #[must_use]
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// The same axis from one number to another.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::reproduce::plot::Axis;
    ///
    /// assert_eq!(Axis::new("share").within(0.0, 1.0).range, Some((0.0, 1.0)));
    /// ```
    #[must_use]
    pub fn within(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }
}

/// Points that belong together.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::plot::{Series, Style};
///
/// let series = Series { name: "limit".to_owned(), points: Vec::new(), style: Style::Line };
/// assert!(series.points.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the legend calls it; without a name it is not in the legend.
    pub name: String,
    /// The points, in the order in which they are connected.
    pub points: Vec<Point>,
    /// How they are drawn.
    pub style: Style,
}

/// One point; what is not finite is left out.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::plot::Point;
///
/// assert_eq!(Point::new(1.0, 2.0).with_error(0.5), Point { x: 1.0, y: 2.0, error: Some(0.5) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// Half the length of its error bar, or half the width of a band.
    pub error: Option<f64>,
}

impl Point {
    /// A point without an error bar.
    ///
    /// # Examples
    ///
    /// See [`Point`].
    #[must_use]
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, error: None }
    }

    /// The same point with an error bar.
    ///
    /// # Examples
    ///
    /// See [`Point`].
    #[must_use]
    pub fn with_error(self, error: f64) -> Self {
        Self { error: Some(error), ..self }
    }

    /// From where to where it reaches.
    fn span(&self) -> (f64, f64) {
        let error = self.error.filter(|error| error.is_finite()).unwrap_or(0.0);
        (self.y - error, self.y + error)
    }
}

/// How a series is drawn.
///
/// # Examples
///
/// ```
/// assert_ne!(fewstep_lab::reproduce::plot::Style::Line, fewstep_lab::reproduce::plot::Style::Steps);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Straight from point to point.
    Line,
    /// Level up to the next point, as distribution functions are.
    Steps,
    /// A mark at each point.
    Markers,
    /// The area between `y − error` and `y + error`.
    Band,
}

/// Width of every drawing; it is scaled by the page.
const WIDTH: f64 = 420.0;
/// Height of the area between the axes.
const HEIGHT: f64 = 250.0;
/// Letters on the axes and in the legend.
const LETTERS: f64 = 13.0;
/// Letters of the title.
const TITLE: f64 = 15.0;
/// Distance of lines of text.
const LINE: f64 = 18.0;

/// Colours by group, light and dark; what lies behind is white or nearly black.
const STYLE: &str = "<style>.plot{color:#222;font-family:system-ui,sans-serif;font-size:13px}\
.plot .paper{fill:#fff}.plot text{fill:currentColor}\
.plot .c0{color:#0072b2}.plot .c1{color:#d55e00}.plot .c2{color:#00845f}.plot .c3{color:#b0508a}\
.plot .c4{color:#222}.plot .c5{color:#9a6b00}.plot .c6{color:#2a86bd}\
@media (prefers-color-scheme:dark){.plot{color:#e6e6e6}.plot .paper{fill:#181818}\
.plot .c0{color:#56b4e9}.plot .c1{color:#ff8f45}.plot .c2{color:#2fcb9b}.plot .c3{color:#e39ac4}\
.plot .c4{color:#e6e6e6}.plot .c5{color:#e69f00}.plot .c6{color:#9cc9e6}}</style>";

impl Plot {
    /// The drawing as the text of an SVG.
    ///
    /// # Examples
    ///
    /// See [`Plot`].
    #[must_use]
    pub fn svg(&self) -> String {
        let y = Scale::of(&self.y, self.extent(Point::span));
        let widest =
            y.ticks(6).iter().map(|(_, label)| width(label, LETTERS)).fold(0.0, f64::max);
        let y_lines = wrap(&self.y.label, HEIGHT, LETTERS);
        let left = 8.0 + LINE * y_lines.len() as f64 + widest + 8.0;
        let right = WIDTH - 14.0;
        let x = Scale::of(&self.x, self.extent(|point| (point.x, point.x)));
        // Bold letters are wider.
        let title = wrap(&self.title, (WIDTH - 16.0) / 1.07, TITLE);
        let top = 12.0 + LINE * title.len() as f64 + 6.0;
        let area = Area { x, y, left, right, top, bottom: top + HEIGHT };

        let mut svg = String::new();
        let x_lines = wrap(&self.x.label, right - left, LETTERS);
        let legend_top = area.bottom + 22.0 + LINE * x_lines.len() as f64 + 14.0;
        let groups = self.groups();
        let mut body = String::new();
        push_title(&mut body, &title);
        area.push_axes(&mut body);
        push_labels(&mut body, &area, &x_lines, &y_lines);
        for (series, &group) in self.series.iter().zip(&groups) {
            area.push_series(&mut body, series, group);
        }
        let height = self.push_legend(&mut body, &groups, legend_top);
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {WIDTH} \
             {height}\" width=\"{WIDTH}\" height=\"{height}\"><title>{}</title>{STYLE}\
             <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>{body}</svg>",
            escape(&self.title)
        );
        svg
    }

    /// All finite numbers in one direction.
    fn extent(&self, span: impl Fn(&Point) -> (f64, f64)) -> Vec<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        points
            .filter(|point| point.x.is_finite() && point.y.is_finite())
            .flat_map(|point| <[f64; 2]>::from(span(point)))
            .collect()
    }

    /// The number of each series' name among the names.
    fn groups(&self) -> Vec<usize> {
        let mut names: Vec<&str> = Vec::new();
        self.series
            .iter()
            .map(|series| match names.iter().position(|name| *name == series.name) {
                Some(group) => group,
                None => {
                    names.push(&series.name);
                    names.len() - 1
                }
            })
            .collect()
    }

    /// One entry per name, in rows; returns where it ends.
    fn push_legend(&self, svg: &mut String, groups: &[usize], top: f64) -> f64 {
        let sample = 30.0;
        let (mut x, mut y) = (10.0, top);
        let last = groups.iter().max().map_or(0, |last| last + 1);
        for group in 0..last {
            let members: Vec<&Series> = self
                .series
                .iter()
                .zip(groups)
                .filter(|(series, of)| **of == group && !series.name.is_empty())
                .map(|(series, _)| series)
                .collect();
            let Some(name) = members.first().map(|series| &series.name) else { continue };
            let needed = sample + 6.0 + width(name, LETTERS) + 14.0;
            if x > 10.0 && x + needed > WIDTH {
                (x, y) = (10.0, y + LINE);
            }
            for series in &members {
                let stretch = Stretch { from: x, to: x + sample, y };
                shapes::push_sample(svg, series.style, group, stretch);
            }
            let (at, name) = (x + sample + 6.0, escape(name));
            let _ = write!(svg, "<text x=\"{at:.1}\" y=\"{:.1}\">{name}</text>", y + 4.5);
            x += needed;
        }
        if last > 0 { y + 14.0 } else { top }
    }
}

fn push_title(svg: &mut String, lines: &[String]) {
    for (line, count) in lines.iter().zip(1_u8..) {
        let (middle, y) = (WIDTH / 2.0, 6.0 + LINE * f64::from(count));
        let _ = write!(
            svg,
            "<text x=\"{middle}\" y=\"{y}\" text-anchor=\"middle\" font-size=\"{TITLE}\" \
             font-weight=\"600\">{}</text>",
            escape(line)
        );
    }
}

fn push_labels(svg: &mut String, area: &Area, x_lines: &[String], y_lines: &[String]) {
    let middle = (area.left + area.right) / 2.0;
    for (line, count) in x_lines.iter().zip(1_u8..) {
        let y = area.bottom + 20.0 + LINE * f64::from(count);
        let line = escape(line);
        let _ = write!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{line}</text>"
        );
    }
    let middle = (area.top + area.bottom) / 2.0;
    for (line, count) in y_lines.iter().zip(1_u8..) {
        let x = LINE * f64::from(count) - 1.0;
        let _ = write!(
            svg,
            "<text transform=\"translate({x:.1} {middle:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            escape(line)
        );
    }
}

/// About how wide some text is, on the wide side.
fn width(text: &str, letters: f64) -> f64 {
    0.6 * letters * text.chars().count() as f64
}

/// Text in lines that fit, of about the same length.
fn wrap(text: &str, most: f64, letters: f64) -> Vec<String> {
    let lines = fill(text, most, letters);
    let share = 1.15 * width(text, letters) / lines.len().max(1) as f64;
    let even = fill(text, share.min(most), letters);
    if even.len() == lines.len() { even } else { lines }
}

/// Text in lines that hold as many words as fit.
fn fill(text: &str, most: f64, letters: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line)
                if width(line, letters) + width(word, letters) + 0.6 * letters <= most =>
            {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
