//! What is drawn between the axes, and the axes.

use super::scale::Scale;
use super::{LETTERS, Point, Series, Style, width};
use std::fmt::Write as _;

/// The dashes of a line, by group.
const DASHES: [&str; 5] = ["", "7 4", "2 3", "10 3 2 3", "5 2"];
/// Colours there are.
const COLOURS: usize = 7;

/// The area between the axes, in the coordinates of the drawing.
pub(super) struct Area {
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

type Place = (f64, f64);

impl Area {
    /// Where a point is; it may lie outside.
    fn place(&self, x: f64, y: f64) -> Option<Place> {
        let across = self.left + self.x.at(x)? * (self.right - self.left);
        let up = self.bottom - self.y.at(y)? * (self.bottom - self.top);
        Some((across, up))
    }

    fn holds(&self, x: f64, y: f64) -> bool {
        let room = 0.01;
        (self.left - room..=self.right + room).contains(&x)
            && (self.top - room..=self.bottom + room).contains(&y)
    }

    /// Lines across at every number, the two axes, and the numbers.
    pub(super) fn push_axes(&self, svg: &mut String) {
        let (left, right, top, bottom) = (self.left, self.right, self.top, self.bottom);
        for (value, label) in self.y.ticks(6) {
            let Some(share) = self.y.at(value) else { continue };
            let y = bottom - share * (bottom - top);
            let _ = write!(
                svg,
                "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"currentColor\" \
                 stroke-opacity=\"0.18\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}\
                 </text>",
                left - 6.0,
                y + 4.5
            );
        }
        for (value, label) in self.x_ticks() {
            let Some(share) = self.x.at(value) else { continue };
            let x = left + share * (right - left);
            let _ = write!(
                svg,
                "<path d=\"M{x:.1} {bottom:.1}v4\" stroke=\"currentColor\"/><text x=\"{x:.1}\" \
                 y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 18.0
            );
        }
        let _ = write!(
            svg,
            "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" \
             stroke=\"currentColor\"/>"
        );
    }

    /// As many numbers as fit beside each other.
    fn x_ticks(&self) -> Vec<(f64, String)> {
        let room = self.right - self.left;
        let fits = |ticks: &Vec<(f64, String)>| {
            let widest = ticks.iter().map(|(_, label)| width(label, LETTERS) + 10.0);
            widest.fold(0.0, f64::max) * ticks.len() as f64 <= room
        };
        let tried = (2..=8).rev().map(|most| self.x.ticks(most));
        tried.into_iter().find(fits).unwrap_or_else(|| self.x.ticks(1))
    }

    pub(super) fn push_series(&self, svg: &mut String, series: &Series, group: usize) {
        let colour = group % COLOURS;
        let _ = write!(svg, "<g class=\"c{colour}\">");
        match series.style {
            Style::Line => self.push_line(svg, series.points.iter().map(place_of), group),
            Style::Steps => self.push_line(svg, stairs(&series.points).into_iter(), group),
            Style::Markers => {
                for point in &series.points {
                    self.push_point(svg, point, group);
                }
            }
            Style::Band => self.push_band(svg, &series.points),
        }
        svg.push_str("</g>");
    }

    /// A line through places, cut at the edges and interrupted where there is no place.
    fn push_line(&self, svg: &mut String, points: impl Iterator<Item = Place>, group: usize) {
        let mut path = String::new();
        let mut before: Option<Place> = None;
        let mut pen: Option<Place> = None;
        for (x, y) in points {
            let now = self.place(x, y);
            if let (Some(from), Some(to)) = (before, now)
                && let Some((from, to)) = self.cut(from, to)
            {
                if pen != Some(from) {
                    let _ = write!(path, "M{:.1} {:.1}", from.0, from.1);
                }
                let _ = write!(path, "L{:.1} {:.1}", to.0, to.1);
                pen = Some(to);
            }
            before = now;
        }
        if !path.is_empty() {
            let dash = dash(group);
            let _ = write!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"{dash}/>"
            );
        }
    }

    /// The part of a straight line that lies inside, after Liang and Barsky.
    fn cut(&self, from: Place, to: Place) -> Option<(Place, Place)> {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let (mut start, mut end) = (0.0_f64, 1.0_f64);
        for (speed, room) in [
            (-dx, from.0 - self.left),
            (dx, self.right - from.0),
            (-dy, from.1 - self.top),
            (dy, self.bottom - from.1),
        ] {
            if speed == 0.0 && room < 0.0 {
                return None;
            }
            if speed < 0.0 {
                start = start.max(room / speed);
            } else if speed > 0.0 {
                end = end.min(room / speed);
            }
        }
        let along = |share: f64| match share {
            1.0 => to,
            share => (from.0 + share * dx, from.1 + share * dy),
        };
        (start <= end).then(|| (along(start), along(end)))
    }

    /// A mark with its error bar.
    fn push_point(&self, svg: &mut String, point: &Point, group: usize) {
        let Some(place) = self.place(point.x, point.y).filter(|&(x, y)| self.holds(x, y))
        else {
            return;
        };
        if point.error.is_some_and(|error| error.is_finite() && error > 0.0) {
            let (low, high) = point.span();
            let end = |value: f64, otherwise: f64| {
                let y = self.place(point.x, value).map_or(otherwise, |place| place.1);
                y.clamp(self.top, self.bottom)
            };
            let (low, high) = (end(low, self.bottom), end(high, self.top));
            let (x, left) = (place.0, place.0 - 3.0);
            let _ = write!(
                svg,
                "<path d=\"M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}h6M{left:.1} {high:.1}h6\" \
                 fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.3\"/>"
            );
        }
        push_mark(svg, place.0, place.1, group);
    }

    fn push_band(&self, svg: &mut String, points: &[Point]) {
        let edge = |point: &Point, value: f64, otherwise: f64| {
            let (x, _) = self.place(point.x, point.y)?;
            let y = self.place(point.x, value).map_or(otherwise, |place| place.1);
            let inside = (self.left..=self.right).contains(&x);
            inside.then(|| (x, y.clamp(self.top, self.bottom)))
        };
        let upper = points.iter().filter_map(|point| edge(point, point.span().1, self.top));
        let lower = points.iter().rev();
        let lower = lower.filter_map(|point| edge(point, point.span().0, self.bottom));
        let corners: Vec<String> =
            upper.chain(lower).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        if corners.len() > 2 {
            let _ = write!(
                svg,
                "<path d=\"M{}Z\" fill=\"currentColor\" fill-opacity=\"0.2\" \
                 stroke=\"currentColor\" stroke-opacity=\"0.5\"/>",
                corners.join("L")
            );
        }
    }
}

fn place_of(point: &Point) -> Place {
    (point.x, point.y)
}

/// Level from each point to the next, then up or down.
fn stairs(points: &[Point]) -> Vec<Place> {
    let mut places: Vec<Place> = points.first().map(place_of).into_iter().collect();
    for pair in points.windows(2) {
        places.extend([(pair[1].x, pair[0].y), (pair[1].x, pair[1].y)]);
    }
    places
}

fn dash(group: usize) -> String {
    match DASHES[group % DASHES.len()] {
        "" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    }
}

/// A mark whose shape says the group: full and open ones in turn, so that two can be seen in one
/// place.
fn push_mark(svg: &mut String, x: f64, y: f64, group: usize) {
    let (path, full) = match group % 6 {
        0 => {
            (format!("M{:.1} {y:.1}a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0 -6.4 0Z", x - 3.2), true)
        }
        1 => (format!("M{:.1} {:.1}h8.4v8.4h-8.4Z", x - 4.2, y - 4.2), false),
        2 => (format!("M{x:.1} {:.1}l4.2 7.2h-8.4Z", y - 4.6), true),
        3 => (format!("M{x:.1} {:.1}l5.2 5.2l-5.2 5.2l-5.2 -5.2Z", y - 5.2), false),
        4 => (format!("M{:.1} {:.1}l7 7m0 -7l-7 7", x - 3.5, y - 3.5), false),
        _ => (format!("M{:.1} {y:.1}h8m-4 -4v8", x - 4.0), false),
    };
    let fill = if full { "currentColor" } else { "none" };
    let _ = write!(
        svg,
        "<path d=\"{path}\" fill=\"{fill}\" stroke=\"currentColor\" stroke-width=\"1.5\"/>"
    );
}

/// What belongs to a mark, and the mark, in the colour of its group.
pub(super) fn push_mark_of(svg: &mut String, group: usize, place: Place, with: &str) {
    let colour = group % COLOURS;
    let _ = write!(svg, "<g class=\"c{colour}\">{with}");
    push_mark(svg, place.0, place.1, group);
    svg.push_str("</g>");
}

/// A stretch of a line in the legend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) y: f64,
}

/// How a series looks in the legend, from one place to another on a line.
pub(super) fn push_sample(svg: &mut String, style: Style, group: usize, stretch: Stretch) {
    let Stretch { from, to, y } = stretch;
    let colour = group % COLOURS;
    let _ = write!(svg, "<g class=\"c{colour}\">");
    match style {
        Style::Line | Style::Steps => {
            let dash = dash(group);
            let _ = write!(
                svg,
                "<path d=\"M{from:.1} {y:.1}H{to:.1}\" stroke=\"currentColor\" stroke-width=\"2\"\
                 {dash}/>"
            );
        }
        Style::Markers => push_mark(svg, (from + to) / 2.0, y, group),
        Style::Band => {
            let (top, width) = (y - 5.0, to - from);
            let _ = write!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"10\" \
                 fill=\"currentColor\" fill-opacity=\"0.2\" stroke=\"currentColor\" \
                 stroke-opacity=\"0.5\"/>"
            );
        }
    }
    svg.push_str("</g>");
}
