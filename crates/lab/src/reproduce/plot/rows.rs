//! Intervals in rows: a row for everything that is compared, a mark for everyone who does it.

use super::scale::Scale;
use super::shapes::push_mark_of;
use super::{
    Axis, LETTERS, LINE, Plot, STYLE, Series, Style, TITLE, WIDTH, escape, push_title, width,
    wrap,
};
use std::fmt::Write as _;

/// Distance between the marks of one row.
const MARK: f64 = 13.0;
/// Room above and below them.
const ROOM: f64 = 7.0;

/// A drawing with names on one side and numbers across.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::plot::{Axis, Reach, Row, Rows};
///
/// let marks = vec![Some(Reach { low: -12.0, at: -8.0, high: -3.0 }), None];
/// let rows = vec![Row { name: "clean".to_owned(), marks }];
/// let series = vec!["one step".to_owned(), "two steps".to_owned()];
/// let (title, x) = ("Change".to_owned(), Axis::new("change of the error, %"));
/// assert!(Rows { title, x, series, rows }.svg().starts_with("<svg"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// What is drawn.
    pub title: String,
    /// Across.
    pub x: Axis,
    /// The names of the marks, in the order of every row.
    pub series: Vec<String>,
    /// From the top down.
    pub rows: Vec<Row>,
}

/// What is compared, with a mark for each series that has one.
///
/// # Examples
///
/// See [`Rows`].
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is compared.
    pub name: String,
    /// One per series.
    pub marks: Vec<Option<Reach>>,
}

/// A number, and from where to where it may lie; what is not finite is left out.
///
/// # Examples
///
/// See [`Rows`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// The lower end.
    pub low: f64,
    /// The number.
    pub at: f64,
    /// The upper end.
    pub high: f64,
}

impl Rows {
    /// The drawing as the text of an SVG.
    ///
    /// # Examples
    ///
    /// See [`Rows`].
    #[must_use]
    pub fn svg(&self) -> String {
        let scale = Scale::of(&self.x, self.extent());
        let names = self.rows.iter().map(|row| width(&row.name, LETTERS));
        let left = 10.0 + names.fold(0.0, f64::max) + 8.0;
        let right = WIDTH - 18.0;
        let across = |value: f64| scale.at(value).map(|share| left + share * (right - left));
        let title = wrap(&self.title, (WIDTH - 16.0) / 1.07, TITLE);
        let top = 12.0 + LINE * title.len() as f64 + 6.0;
        let height = MARK * self.series.len() as f64 + 2.0 * ROOM;
        let bottom = top + height * self.rows.len() as f64;

        let mut body = String::new();
        push_title(&mut body, &title);
        for (value, label) in scale.ticks(6) {
            let Some(x) = across(value) else { continue };
            let (shade, wide) = if value == 0.0 { (0.9, 1.3) } else { (0.18, 1.0) };
            let _ = write!(
                body,
                "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"currentColor\" \
                 stroke-opacity=\"{shade}\" stroke-width=\"{wide}\"/><text x=\"{x:.1}\" \
                 y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 18.0
            );
        }
        for (row, count) in self.rows.iter().zip(0_u16..) {
            let from = top + height * f64::from(count);
            let (middle, name) = (from + height / 2.0 + 4.5, escape(&row.name));
            let _ = write!(
                body,
                "<path d=\"M10 {from:.1}H{right:.1}\" stroke=\"currentColor\" \
                 stroke-opacity=\"0.18\"/><text x=\"{:.1}\" y=\"{middle:.1}\" \
                 text-anchor=\"end\">{name}</text>",
                left - 8.0
            );
            for (series, mark) in row.marks.iter().enumerate() {
                let y = from + ROOM + MARK * (series as f64 + 0.5);
                let ends = mark.map(|reach| [reach.low, reach.at, reach.high].map(across));
                if let Some([Some(low), Some(at), Some(high)]) = ends {
                    let inside = |x: f64| x.clamp(left, right);
                    push_reach(&mut body, series, [low, at, high].map(inside), y);
                }
            }
        }
        let lines = wrap(&self.x.label, right - 10.0, LETTERS);
        for (line, count) in lines.iter().zip(1_u8..) {
            let (y, line) = (bottom + 20.0 + LINE * f64::from(count), escape(line));
            let _ = write!(
                body,
                "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{line}</text>",
                f64::midpoint(10.0, right)
            );
        }
        let legend = bottom + 22.0 + LINE * lines.len() as f64 + 14.0;
        let height = self.push_legend(&mut body, legend);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {WIDTH} \
             {height}\" width=\"{WIDTH}\" height=\"{height}\"><title>{}</title>{STYLE}\
             <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>{body}</svg>",
            escape(&self.title)
        )
    }

    /// All that must fit, and 0.
    fn extent(&self) -> Vec<f64> {
        let marks = self.rows.iter().flat_map(|row| row.marks.iter().flatten());
        let ends = marks.flat_map(|reach| [reach.low, reach.at, reach.high]);
        ends.chain([0.0]).filter(|end| end.is_finite()).collect()
    }

    fn push_legend(&self, svg: &mut String, top: f64) -> f64 {
        let series = self.series.iter().map(|name| Series {
            name: name.clone(),
            points: vec![],
            style: Style::Markers,
        });
        let axes = (self.x.clone(), Axis::new(""));
        let legend =
            Plot { title: String::new(), x: axes.0, y: axes.1, series: series.collect() };
        legend.push_legend(svg, &legend.groups(), top)
    }
}

/// A line with an end on either side, and the mark on it.
fn push_reach(svg: &mut String, series: usize, [low, at, high]: [f64; 3], y: f64) {
    let up = y - 3.0;
    let bar = format!(
        "<path d=\"M{low:.1} {y:.1}H{high:.1}M{low:.1} {up:.1}v6M{high:.1} {up:.1}v6\" \
         fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.3\"/>"
    );
    push_mark_of(svg, series, (at, y), &bar);
}
