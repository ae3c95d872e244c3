//! Drawings of a report of classes: probabilities of the labels, what each number of steps of each arm
//! is worth, and the weights of the arms.

use super::{Drawn, FAINT, INK, LINE, PAPER, font, render, title};
use crate::chart::classes::{drawn_labels, members, rows, shortened};
use crate::error::Error;
use crate::report::ClassReport;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

/// The most labels that are drawn.
const MOST_LABELS: usize = 40;

/// Sky blue of Okabe and Ito, for what is not adapted.
const BEFORE: RGBColor = RGBColor(86, 180, 233);

/// Six more of their colours, for arms.
const COLOURS: [RGBColor; 6] = [
    LINE,
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Where bars begin, and how long the longest may be.
const LEFT: i32 = 300;
const LONGEST: f64 = 340.0;

/// The drawings of a report of classes, each with its name and the text of its SVG: `probabilities`,
/// `log-loss` unless no arm takes part, and `arms`.
///
/// # Errors
///
/// [`Error::Figure`] if something cannot be drawn.
pub fn drawings(report: &ClassReport) -> Result<Vec<(String, String)>, Error> {
    type Draw = fn(&ClassReport, &mut String) -> Drawn<()>;
    let mut all: Vec<(&str, Draw)> = vec![("probabilities", probabilities)];
    if !rows(report).is_empty() {
        all.push(("log-loss", losses));
    }
    all.push(("arms", weights));
    let draw = |(name, draw): (&str, Draw)| {
        Ok((name.to_owned(), render(Path::new(name), |svg| draw(report, svg))?))
    };
    all.into_iter().map(draw).collect()
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn begun<'a>(
    svg: &'a mut String,
    (width, height): (u32, i32),
    id: &str,
    subtitle: &str,
) -> Drawn<Area<'a>> {
    let area = SVGBackend::with_string(svg, (width, u32::try_from(height)?));
    let area = area.into_drawing_area();
    area.fill(&PAPER)?;
    area.draw(&Text::new(title(id), (16, 14), font(24)))?;
    area.draw(&Text::new(subtitle.to_owned(), (16, 42), font(17)))?;
    Ok(area)
}

fn bar(area: &Area<'_>, (y, height): (i32, i32), share: f64, colour: RGBColor) -> Drawn<()> {
    #[allow(clippy::cast_possible_truncation, reason = "shares are from 0 to 1")]
    let length = (share.clamp(0.0, 1.0) * LONGEST).round() as i32;
    area.draw(&Rectangle::new([(LEFT, y), (LEFT + length, y + height)], colour.filled()))?;
    let said = format!("{:.1} %", 100.0 * share);
    area.draw(&Text::new(said, (LEFT + length + 8, y), font(14)))?;
    Ok(())
}

fn probabilities(report: &ClassReport, svg: &mut String) -> Drawn<()> {
    let prediction = &report.prediction;
    let labels = drawn_labels(report, MOST_LABELS);
    let (row, top) = (42, 76);
    let height = top + row * i32::try_from(labels.len())? + 30;
    let subtitle = "probability of each label: dark adapted, light without adapting";
    let area = begun(svg, (740, height), &report.id, subtitle)?;
    for (place, &label) in (0..).zip(&labels) {
        let y = top + place * row;
        let name = shortened(&prediction.labels[label]);
        area.draw(&Text::new(name, (16, y + 8), font(17)))?;
        bar(&area, (y, 16), prediction.adapted[label], LINE)?;
        bar(&area, (y + 18, 16), prediction.icl[label], BEFORE)?;
    }
    let hidden = prediction.labels.len() - labels.len();
    if hidden > 0 {
        let text = format!("and {hidden} less probable labels");
        area.draw(&Text::new(text, (16, height - 28), font(17)))?;
    }
    area.present()?;
    Ok(())
}

fn weights(report: &ClassReport, svg: &mut String) -> Drawn<()> {
    let members = members(report);
    let (row, top) = (28, 76);
    let height = top + row * i32::try_from(members.len())? + 20;
    let area = begun(svg, (740, height), &report.id, "weight of each arm of the average")?;
    for (place, (name, weight)) in (0..).zip(&members) {
        let y = top + place * row;
        area.draw(&Text::new(shortened(name), (16, y), font(17)))?;
        bar(&area, (y, 16), *weight, LINE)?;
    }
    area.present()?;
    Ok(())
}

fn losses(report: &ClassReport, svg: &mut String) -> Drawn<()> {
    let rows = rows(report);
    let points = |place: usize| {
        let path = rows[place].path;
        let start = rows[place].start.map(|loss| (0, loss));
        start.into_iter().chain(path.horizons.iter().copied().zip(path.losses.iter().copied()))
    };
    let all = || (0..rows.len()).flat_map(points);
    let (low, high) = all()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (_, loss)| {
            (low.min(loss), high.max(loss))
        });
    let room = if high > low { 0.08 * (high - low) } else { 0.5 };
    let last = all().map(|(horizon, _)| horizon).max().unwrap_or(1).max(1);
    let legend = 24 * i32::try_from(rows.len())?;
    let (width, plot) = (740, 420);
    let subtitle = "leave-one-out log-loss of T steps";
    let area = begun(svg, (width, plot + legend + 16), &report.id, subtitle)?;
    let (above, below) = area.split_vertically(plot);
    let mut chart = ChartBuilder::on(&above)
        .margin(16)
        .margin_top(66)
        .x_label_area_size(48)
        .y_label_area_size(84)
        .build_cartesian_2d(0..last, low - room..high + room)?;
    chart
        .configure_mesh()
        .x_desc("steps T")
        .y_desc("log-loss")
        .label_style(font(17))
        .axis_desc_style(font(18))
        .axis_style(INK)
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (place, row) in rows.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        chart.draw_series(LineSeries::new(points(place), colour.stroke_width(2)))?;
        chart.draw_series(points(place).map(|point| Circle::new(point, 3, colour.filled())))?;
        let y = 24 * i32::try_from(place)?;
        below.draw(&Rectangle::new([(84, y + 6), (108, y + 10)], colour.filled()))?;
        below.draw(&Text::new(shortened(&row.name), (116, y), font(17)))?;
    }
    area.present()?;
    Ok(())
}
