//! Drawings are read again by a parser of XML that knows nothing of how they were made.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

use super::*;
use roxmltree::{Document, Node};

fn series(name: &str, style: Style, points: &[(f64, f64)]) -> Series {
    let points = points.iter().map(|&(x, y)| Point::new(x, y)).collect();
    Series { name: name.to_owned(), points, style }
}

fn plot(series: Vec<Series>) -> Plot {
    Plot { title: "title".to_owned(), x: Axis::new("across"), y: Axis::new("up"), series }
}

/// All numbers in the attributes that say where something is.
fn coordinates(svg: &str) -> Vec<f64> {
    let document = Document::parse(svg).unwrap();
    let places = ["d", "x", "y", "width", "height", "viewBox"];
    document
        .descendants()
        .filter(Node::is_element)
        .flat_map(|node| places.into_iter().filter_map(move |name| node.attribute(name)))
        .flat_map(|value| value.split(|c: char| c.is_ascii_alphabetic() || c == ' '))
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().unwrap())
        .collect()
}

/// Everything that is written in a drawing.
fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let nodes = document.descendants().filter(|node| node.tag_name().name() == "text");
    nodes.map(|node| node.text().unwrap_or_default().to_owned()).collect()
}

#[test]
fn no_text_is_markup() {
    let hostile = "</text><script>alert('\"&\")</script>\u{1}";
    let mut drawn = plot(vec![series(hostile, Style::Line, &[(0.0, 1.0), (1.0, 2.0)])]);
    drawn.title = hostile.to_owned();
    (drawn.x.label, drawn.y.label) = (hostile.to_owned(), hostile.to_owned());
    let svg = drawn.svg();
    let document = Document::parse(&svg).unwrap();
    assert!(document.descendants().all(|node| node.tag_name().name() != "script"));
    let shown = hostile.replace('\u{1}', "\u{fffd}");
    assert_eq!(texts(&svg).iter().filter(|text| **text == shown).count(), 4);
}

/// Points that have no place are left out; nothing that is drawn is not a number.
#[test]
fn odd_points_are_drawn_or_left_out() {
    let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, 1.0, 1e300];
    let points: Vec<(f64, f64)> = odd.iter().flat_map(|&x| odd.map(|y| (x, y))).collect();
    for style in [Style::Line, Style::Steps, Style::Markers, Style::Band] {
        for count in [0, 1, points.len()] {
            for log in [false, true] {
                let mut drawn = plot(vec![series("odd", style, &points[..count])]);
                (drawn.x.log, drawn.y.log) = (log, log);
                for point in &mut drawn.series[0].points {
                    point.error = Some(point.x);
                }
                let svg = drawn.svg();
                assert!(coordinates(&svg).iter().all(|value| value.is_finite()), "{svg}");
            }
        }
    }
    let level = plot(vec![series("level", Style::Line, &[(0.0, 3.0), (1.0, 3.0)])]).svg();
    assert!(coordinates(&level).iter().all(|value| value.is_finite()));
}

/// With a range of its own, everything stays between the axes.
#[test]
fn lines_and_bands_are_cut_at_the_axes() {
    let points = [(-10.0, -10.0), (0.5, 0.5), (10.0, 10.0), (0.2, 7.0), (0.3, -7.0)];
    for style in [Style::Line, Style::Steps, Style::Markers, Style::Band] {
        let mut drawn = plot(vec![series("", style, &points)]);
        (drawn.x.range, drawn.y.range) = (Some((0.0, 1.0)), Some((0.0, 1.0)));
        for point in &mut drawn.series[0].points {
            point.error = Some(3.0);
        }
        let svg = drawn.svg();
        let height = coordinates(&svg)[..4].iter().copied().fold(0.0, f64::max).max(WIDTH);
        let inside = |value: &f64| (-10.0..=height).contains(value);
        assert!(coordinates(&svg).iter().all(inside), "{style:?}: {svg}");
    }
    let area = Area {
        x: Scale::of(&Axis::new("").within(0.0, 1.0), vec![]),
        y: Scale::of(&Axis::new("").within(0.0, 1.0), vec![]),
        left: 0.0,
        right: 100.0,
        top: 0.0,
        bottom: 100.0,
    };
    let mut svg = String::new();
    let diagonal = series("", Style::Line, &[(-1.0, -1.0), (2.0, 2.0)]);
    area.push_series(&mut svg, &diagonal, 0);
    assert!(svg.contains("d=\"M0.0 100.0L100.0 0.0\""), "{svg}");
}

#[test]
fn steps_are_level_up_to_the_next_point() {
    let area = Area {
        x: Scale::of(&Axis::new("").within(0.0, 2.0), vec![]),
        y: Scale::of(&Axis::new("").within(0.0, 1.0), vec![]),
        left: 0.0,
        right: 200.0,
        top: 0.0,
        bottom: 100.0,
    };
    let mut svg = String::new();
    let steps = series("", Style::Steps, &[(0.0, 0.25), (1.0, 1.0), (2.0, 1.0)]);
    area.push_series(&mut svg, &steps, 0);
    let path = "M0.0 75.0L100.0 75.0L100.0 0.0L200.0 0.0L200.0 0.0";
    assert!(svg.contains(path), "{svg}");
}

#[test]
fn axes_are_written_in_round_numbers() {
    let labels = |axis: &Axis, low: f64, high: f64| -> Vec<String> {
        let scale = Scale::of(&axis.clone().within(low, high), vec![]);
        scale.ticks(6).into_iter().map(|(_, label)| label).collect()
    };
    let even = Axis::new("");
    assert_eq!(labels(&even, 0.0, 1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    assert_eq!(labels(&even, -0.5, 0.5), ["−0.4", "−0.2", "0", "0.2", "0.4"]);
    assert_eq!(
        labels(&even, 0.0, 3e-6),
        ["0", "0.5·10⁻⁶", "1.0·10⁻⁶", "1.5·10⁻⁶", "2.0·10⁻⁶", "2.5·10⁻⁶", "3.0·10⁻⁶"]
    );
    let log = Axis::new("").log();
    assert_eq!(labels(&log, 0.01, 100.0), ["0.01", "0.1", "1", "10", "100"]);
    assert_eq!(
        labels(&log, 1e-6, 1.0),
        ["10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰"]
    );
    assert_eq!(labels(&log, 1.0, 30.0), ["1", "3", "10", "30"]);
    // Narrower than from one power to the next.
    assert_eq!(labels(&log, 0.41, 0.49), ["0.42", "0.44", "0.46", "0.48"]);
}

/// Where each number is written is where it is.
#[test]
fn numbers_stand_at_their_places() {
    for axis in [Axis::new("").within(1.0, 7.0), Axis::new("").within(0.02, 500.0).log()] {
        let scale = Scale::of(&axis, vec![]);
        for (value, label) in scale.ticks(6) {
            let written: f64 = label.parse().unwrap();
            assert!((written / value - 1.0).abs() < 1e-9, "{label} at {value}");
            let share = scale.at(value).unwrap();
            assert!((-1e-9..=1.0 + 1e-9).contains(&share));
        }
    }
}

/// A line and the marks along it have one colour and one entry in the legend.
#[test]
fn series_of_one_name_share_colour_and_legend() {
    let along = [(0.0, 1.0), (1.0, 2.0)];
    let drawn = plot(vec![
        series("first", Style::Line, &along),
        series("second", Style::Line, &along),
        series("second", Style::Markers, &along),
        series("", Style::Band, &along),
    ]);
    assert_eq!(drawn.groups(), [0, 1, 1, 2]);
    let names: Vec<String> = texts(&drawn.svg());
    assert_eq!(names.iter().filter(|name| **name == "second").count(), 1);
    assert_eq!(names.iter().filter(|name| name.is_empty()).count(), 0);
}

/// No two lines of a legend overlap, and none leaves the drawing.
#[test]
fn legends_fit() {
    let names =
        ["evidence, fixed σ", "evidence, σ by maximum likelihood", "eight steps", "none"];
    let all = names.map(|name| series(name, Style::Line, &[(0.0, 1.0), (1.0, 2.0)]));
    let svg = plot(all.to_vec()).svg();
    let document = Document::parse(&svg).unwrap();
    let number = |node: Node<'_, '_>, name: &str| node.attribute(name).unwrap().parse::<f64>();
    let mut boxes = Vec::new();
    for node in document.descendants().filter(|node| node.tag_name().name() == "text") {
        let text = node.text().unwrap();
        if names.contains(&text) {
            let (x, y) = (number(node, "x").unwrap(), number(node, "y").unwrap());
            boxes.push((x - 36.0, x + width(text, LETTERS), y));
        }
    }
    assert_eq!(boxes.len(), names.len());
    assert!(boxes.iter().all(|(_, end, _)| *end <= WIDTH));
    for (index, a) in boxes.iter().enumerate() {
        for b in &boxes[..index] {
            assert!((a.2 - b.2).abs() >= LINE || a.0 >= b.1 || b.0 >= a.1);
        }
    }
}

/// Every row has its name, every mark its place: better ones to the left, the line at 0 between.
#[test]
fn rows_hold_a_mark_for_everyone() {
    let reach = |at: f64| Some(Reach { low: at - 5.0, at, high: at + 5.0 });
    let row = |name: &str, marks| Row { name: name.to_owned(), marks };
    let rows = vec![
        row("clean", vec![reach(-40.0), reach(10.0)]),
        row("<noisy>", vec![None, Some(Reach { low: f64::NAN, at: 0.0, high: 1.0 })]),
    ];
    let series = vec!["ours".to_owned(), "theirs".to_owned()];
    let (title, x) = ("title".to_owned(), Axis::new("change"));
    let svg = Rows { title, x, series, rows }.svg();
    let written = texts(&svg);
    for text in ["clean", "<noisy>", "ours", "theirs", "change", "0", "−20"] {
        assert!(written.iter().any(|found| found == text), "{text} in {written:?}");
    }
    let document = Document::parse(&svg).unwrap();
    let marks = |class: &str| -> Vec<f64> {
        let groups =
            document.descendants().filter(|node| node.attribute("class") == Some(class));
        let bars =
            groups.flat_map(|node| node.children()).filter_map(|node| node.attribute("d"));
        let bars = bars.filter(|path| path.contains('H'));
        bars.map(|path| path[1..].split(' ').next().unwrap().parse().unwrap()).collect()
    };
    let zero =
        document.descendants().find(|node| node.attribute("stroke-opacity") == Some("0.9"));
    let zero: f64 =
        zero.unwrap().attribute("d").unwrap()[1..].split(' ').next().unwrap().parse().unwrap();
    let (ours, theirs) = (marks("c0"), marks("c1"));
    assert_eq!((ours.len(), theirs.len()), (1, 1));
    assert!(ours[0] < zero && zero < theirs[0]);
    // 45 below 0 is nine times as far from it as 5 above.
    assert!(((zero - ours[0]) - 9.0 * (theirs[0] - zero)).abs() < 1.0);
    assert!(coordinates(&svg).iter().all(|place| place.is_finite()));
}
