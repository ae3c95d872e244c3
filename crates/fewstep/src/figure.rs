//! Drawings of a report as SVG: the curve that chose the number of steps, and the block scores.
//!
//! The colours can be told apart by people who are colour-blind. The background and the writing
//! follow the reader's choice of a light or a dark display.

mod classes;

pub use classes::drawings as drawings_of_classes;

use crate::adapter::file_name;
use crate::chart::{Curve, Grid};
use crate::error::{Error, refused};
use crate::report::{AnyReport, Report};
use plotters::prelude::*;
use std::error::Error as StdError;
use std::path::Path;

const PAPER: RGBColor = RGBColor(255, 255, 255);
const INK: RGBColor = RGBColor(34, 34, 34);
const FAINT: RGBColor = RGBColor(221, 221, 221);
/// Blue and vermilion of Okabe and Ito.
const LINE: RGBColor = RGBColor(0, 114, 178);
const CHOSEN: RGBColor = RGBColor(213, 94, 0);
/// A dot that can be seen on every cell; neither paper nor ink, so that it stays as it is.
const DOT: RGBColor = RGBColor(254, 254, 254);
const RIM: RGBColor = RGBColor(1, 1, 1);

/// What turns paper and ink round on a dark display.
const DARK: &str = "<style>@media (prefers-color-scheme: dark) {\
    [fill=\"#FFFFFF\"] { fill: #181818; } [fill=\"#222222\"] { fill: #E6E6E6; } \
    [stroke=\"#222222\"] { stroke: #E6E6E6; } [stroke=\"#DDDDDD\"] { stroke: #444444; } \
    [stroke=\"#0072B2\"] { stroke: #56B4E9; } [fill=\"#0072B2\"] { fill: #56B4E9; }\
    }</style>";

type Drawn<T> = Result<T, Box<dyn StdError>>;

/// The drawings of a report: `evidence` if there is a curve, and one per kind of block, each with
/// the text of its SVG.
///
/// # Errors
///
/// [`Error::Figure`] if something cannot be drawn.
///
/// # Examples
///
/// ```
/// use fewstep::{Action, Policy, Predictor, figure};
///
/// # let task = fewstep::tasks::parse(br#"{"id": "t1", "template": "{x}->{y}",
/// #     "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
/// #     "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "1"}], "query": {"x": "4"}}"#)?;
/// let predictor = Predictor::new(fewstep::builtin()?, Policy::default(), Action::Decide)?;
/// let report = predictor.answer(&task)?.report;
/// let drawings = figure::drawings(&report)?;
/// let names: Vec<&str> = drawings.iter().map(|(name, _)| name.as_str()).collect();
/// assert_eq!(names, ["evidence", "mlp-up"]);
/// assert!(drawings[0].1.starts_with("<svg"));
/// # Ok::<(), fewstep::Error>(())
/// ```
pub fn drawings(report: &Report) -> Result<Vec<(String, String)>, Error> {
    let mut drawn = Vec::new();
    if let Some(curve) = report.how_far.as_ref().and_then(Curve::of) {
        drawn.push(("evidence".to_owned(), evidence(&curve, &report.id)?));
    }
    let grids = Grid::of(&report.which);
    let largest = grids.iter().map(Grid::largest).fold(0.0, f64::max);
    for grid in &grids {
        let name = grid.kind.to_string();
        let svg = render(Path::new(&name), |svg| draw_grid(grid, largest, &report.id, svg))?;
        drawn.push((name, svg));
    }
    Ok(drawn)
}

/// The curve that chose the number of steps, as the text of an SVG.
///
/// # Errors
///
/// [`Error::Figure`] if it cannot be drawn.
pub fn evidence(curve: &Curve, title: &str) -> Result<String, Error> {
    render(Path::new("evidence"), |svg| draw_curve(curve, title, svg))
}

/// Draws a report into a directory: `ID.evidence.svg` and one `ID.KIND.svg` per kind of block, for a
/// task of classes `ID.probabilities.svg`, `ID.log-loss.svg` and `ID.arms.svg`; of a task with a list of
/// queries `ID.query-0.evidence.svg` and so on.
///
/// # Errors
///
/// [`Error::Figure`] if something cannot be drawn, [`Error::File`] if it cannot be written.
pub fn draw(report: &AnyReport, directory: &Path) -> Result<(), Error> {
    let query = report.query().map_or(String::new(), |query| format!(".query-{query}"));
    let id = file_name(report.id()) + &query;
    let drawn = match report {
        AnyReport::Regression(report) => drawings(report)?,
        AnyReport::Classes(report) => classes::drawings(report)?,
    };
    for (name, svg) in drawn {
        let file = directory.join(format!("{id}.{name}.svg"));
        std::fs::write(&file, svg).map_err(refused(&file, "write"))?;
    }
    Ok(())
}

fn render(file: &Path, draw: impl FnOnce(&mut String) -> Drawn<()>) -> Result<String, Error> {
    let mut svg = String::new();
    draw(&mut svg).map_err(|error| Error::Figure {
        file: file.to_path_buf(),
        problem: error.to_string(),
    })?;
    let head = svg.find('>').map_or(0, |end| end + 1);
    svg.insert_str(head, DARK);
    Ok(svg)
}

fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// An id that fits over a drawing.
fn title(id: &str) -> String {
    let short: String = id.chars().filter(|c| !c.is_control()).take(60).collect();
    if short.len() < id.len() { short + "…" } else { short }
}

fn draw_curve(curve: &Curve, id: &str, svg: &mut String) -> Drawn<()> {
    let area = SVGBackend::with_string(svg, (640, 400)).into_drawing_area();
    area.fill(&PAPER)?;
    let (low, high) = curve.range();
    let room = if high > low { 0.08 * (high - low) } else { 0.5 };
    let first = curve.points.first().map_or(0, |&(horizon, _)| horizon);
    let last = curve.points.last().map_or(1, |&(horizon, _)| horizon);
    let mut chart = ChartBuilder::on(&area)
        .caption(title(id), font(24))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(84)
        .build_cartesian_2d(first..last, low - room..high + room)?;
    chart
        .configure_mesh()
        .x_desc("steps T")
        .y_desc(curve.name)
        .label_style(font(17))
        .axis_desc_style(font(18))
        .axis_style(INK)
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .draw()?;
    chart.draw_series(LineSeries::new(curve.points.iter().copied(), LINE.stroke_width(2)))?;
    let dots = curve.points.iter().filter(|_| curve.points.len() <= 100);
    chart.draw_series(dots.map(|&point| Circle::new(point, 3, LINE.filled())))?;
    let chosen = curve.points.iter().find(|(horizon, _)| *horizon == curve.chosen);
    chart.draw_series(chosen.map(|&point| Circle::new(point, 7, CHOSEN.stroke_width(3))))?;
    let label = format!("T = {}", curve.chosen);
    let aside = if curve.chosen - first > (last - first) / 4 * 3 { -70 } else { 10 };
    chart.draw_series(chosen.map(|&point| {
        EmptyElement::at(point) + Text::new(label.clone(), (aside, -24), font(18))
    }))?;
    area.present()?;
    Ok(())
}

/// The side of a cell.
const CELL: i32 = 34;

fn draw_grid(grid: &Grid, largest: f64, id: &str, svg: &mut String) -> Drawn<()> {
    let heads = grid.rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(1);
    let (heads, layers) = (i32::try_from(heads)?, i32::try_from(grid.rows.len())?);
    let (left, top) = (90, 92);
    let width = u32::try_from((left + heads * CELL + 30).max(420))?;
    let height = u32::try_from(top + layers * CELL + 84)?;
    let area = SVGBackend::with_string(svg, (width, height)).into_drawing_area();
    area.fill(&PAPER)?;
    area.draw(&Text::new(title(id), (16, 14), font(24)))?;
    let columns = match grid.kind.per_head() {
        true => format!("{}s", grid.head),
        false => "the whole layer".to_owned(),
    };
    let subtitle = format!("{} blocks: score by layer and {columns}", grid.kind);
    area.draw(&Text::new(subtitle, (16, 42), font(17)))?;
    for head in (0..heads).filter(|_| grid.kind.per_head()) {
        let x = left + head * CELL + CELL / 2 - 6;
        area.draw(&Text::new(head.to_string(), (x, top - 20), font(17)))?;
    }
    let divided = grid.is_divided();
    for (row, (layer, cells)) in (0..layers).zip(&grid.rows) {
        let y = top + row * CELL;
        area.draw(&Text::new(format!("layer {layer}"), (16, y + CELL / 2 - 8), font(17)))?;
        for (column, &(score, chosen)) in (0..heads).zip(cells) {
            let x = left + column * CELL;
            let corners = [(x + 1, y + 1), (x + CELL - 1, y + CELL - 1)];
            let share = if largest > 0.0 { score / largest } else { 0.0 };
            area.draw(&Rectangle::new(corners, cividis(share).filled()))?;
            if chosen && divided {
                let centre = (x + CELL / 2, y + CELL / 2);
                area.draw(&Circle::new(centre, 8, RIM.filled()))?;
                area.draw(&Circle::new(centre, 6, DOT.filled()))?;
            }
        }
    }
    draw_scale(&area, (left, top + layers * CELL + 22), largest, divided)?;
    area.present()?;
    Ok(())
}

/// What the colours mean.
fn draw_scale(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    (x, y): (i32, i32),
    largest: f64,
    divided: bool,
) -> Drawn<()> {
    for step in 0..20 {
        let corners = [(x + step * 6, y), (x + (step + 1) * 6, y + 14)];
        area.draw(&Rectangle::new(corners, cividis(f64::from(step) / 19.0).filled()))?;
    }
    let legend = match divided {
        true => format!("0 to {}; dotted: chosen", crate::text::number(largest)),
        false => format!("0 to {}", crate::text::number(largest)),
    };
    area.draw(&Text::new(legend, (x + 130, y), font(17)))?;
    Ok(())
}

/// A colour from dark blue to yellow, after the map cividis: its lightness grows evenly.
fn cividis(share: f64) -> RGBColor {
    const STOPS: [(f64, f64, f64); 5] = [
        (0.0, 34.0, 78.0),
        (66.0, 78.0, 108.0),
        (124.0, 123.0, 120.0),
        (187.0, 173.0, 108.0),
        (254.0, 232.0, 56.0),
    ];
    let along = share.clamp(0.0, 1.0) * 4.0;
    let (index, from) = (0..4)
        .map(|index| (index, index as f64))
        .rfind(|(_, at)| along >= *at)
        .unwrap_or((0, 0.0));
    let (a, b, part) = (STOPS[index], STOPS[index + 1], along - from);
    let mix = |a: f64, b: f64| {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
        let level = (a + (b - a) * part).round() as u8;
        level
    };
    RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}
