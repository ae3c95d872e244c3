//! The report of a reproduction: read again by parsers, and the same in both forms.

use fewstep_lab::Error;
use fewstep_lab::reproduce::document::{Claim, Document, Figure, Section, Table, Verdict};
use fewstep_lab::reproduce::plot::{Axis, Plot, Point, Series, Style};
use roxmltree::{Node, ParsingOptions};
use std::io::ErrorKind;

const HOSTILE: &str =
    "a|b `c` *d* _e_ [f](g) <script>alert(\"h\")</script> & 'i' $j$ \\ ~k~ # l";

fn document() -> Document {
    let points = (0..4).map(|x| Point::new(f64::from(x), 2.5)).collect();
    let line = Series { name: HOSTILE.to_owned(), points, style: Style::Line };
    let (x, y) = (Axis::new(HOSTILE), Axis::new("up"));
    let svg = Plot { title: HOSTILE.to_owned(), x, y, series: vec![line] }.svg();
    let figure = |name: &str| Figure {
        name: name.to_owned(),
        caption: format!("caption 31 {HOSTILE}"),
        alternative: format!("in words 32 {HOSTILE}"),
        svg: svg.clone(),
    };
    let cells = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
    let claim = |verdict| Claim {
        statement: format!("claim 41 {HOSTILE}"),
        paper: "0.0719".to_owned(),
        measured: "0.0731 ± 0.0004".to_owned(),
        verdict,
    };
    Document {
        title: format!("Title 1 {HOSTILE}"),
        summary: vec!["1. begins like a list".to_owned(), format!("- so does 2 {HOSTILE}")],
        settings: vec![
            ("seed".to_owned(), "7".to_owned()),
            (HOSTILE.to_owned(), HOSTILE.to_owned()),
        ],
        sections: vec![Section {
            title: format!("Section 3 {HOSTILE}"),
            text: vec!["# no heading 4".to_owned(), "two\nlines\u{7}".to_owned()],
            tables: vec![Table {
                caption: format!("Table 5 {HOSTILE}"),
                header: cells(["method", HOSTILE, "mean T"]),
                rows: vec![
                    cells(["T = 8", "0.0747", "8"]),
                    cells([HOSTILE, "−1.5e−3", "12.25"]),
                ],
            }],
            figures: vec![figure("one"), figure("../two")],
            claims: [Verdict::Held, Verdict::NotHeld, Verdict::Undecided].map(claim).to_vec(),
        }],
    }
}

fn parse(html: &str) -> roxmltree::Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    roxmltree::Document::parse_with_options(html, options).unwrap()
}

/// The text of a page without drawings and styles.
fn words(node: Node<'_, '_>) -> String {
    if ["svg", "style", "title"].contains(&node.tag_name().name()) {
        return String::new();
    }
    let own = if node.is_text() { node.text().unwrap_or_default() } else { "" };
    let label = node.attribute("aria-label").unwrap_or_default();
    let inner: Vec<String> = node.children().map(words).collect();
    format!("{own} {label} {}", inner.join(" "))
}

/// Everything that looks like a number, in its order.
fn numbers(text: &str) -> Vec<String> {
    let part = |c: char| c.is_ascii_digit() || ".−+".contains(c);
    text.split(|c: char| !(part(c) || c == 'e'))
        .map(|word| word.trim_matches(|c: char| !c.is_ascii_digit()))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Every string of the report is found on the page, letter by letter, and none became markup.
#[test]
fn the_page_shows_every_string_as_it_is() {
    let (document, html) = (document(), document().html());
    let page = parse(&html);
    assert!(page.descendants().all(|node| node.tag_name().name() != "script"));
    let text = words(page.root_element());
    let table = &document.sections[0].tables[0];
    let claims = document.sections[0].claims.iter().map(|claim| &claim.statement);
    let figures = document.sections[0].figures.iter();
    let captions = figures.flat_map(|figure| [&figure.caption, &figure.alternative]);
    for string in [&document.title, &document.summary[1], &table.caption, &table.header[1]]
        .into_iter()
        .chain(claims)
        .chain(captions)
    {
        assert!(text.contains(string.as_str()), "{string:?} is missing");
    }
    assert!(text.contains("two lines\u{fffd}"));
    assert!(text.contains("Of 3 claims 1 held, 1 did not hold, and 1 stayed undecided"));
}

#[test]
fn the_page_loads_nothing() {
    let html = document().html();
    let page = parse(&html);
    for node in page.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        assert!(!["link", "script", "img", "iframe", "object", "use", "image"].contains(&name));
        for attribute in node.attributes() {
            assert!(!["src", "href"].contains(&attribute.name()));
            assert!(!attribute.name().starts_with("on"));
        }
    }
    assert!(!html.contains("url(") && !html.contains("@import"));
}

/// What was escaped is the string itself again, and escaping hides every sign that has a meaning.
#[test]
fn markdown_shows_every_string_as_it_is() {
    let text = document().markdown();
    let plain = text.replace('\\', "");
    assert!(plain.contains(&HOSTILE.replace('\\', "")));
    let mut before = ' ';
    let marks: String = text
        .chars()
        .filter(|&c| {
            let escaped = before == '\\';
            before = if escaped { ' ' } else { c };
            !escaped && "`<_~$&".contains(c)
        })
        .collect();
    assert_eq!(marks, "");
    assert!(text.contains("\n1\\. begins like a list\n") && text.contains("\n\\- so does 2"));
    assert!(text.contains("\n\\# no heading 4\n"));
    for row in text.lines().filter(|line| line.starts_with("| ") && line.contains("0.0747")) {
        assert_eq!(row, "| T = 8 | 0.0747 | 8 |");
    }
    // Cells are divided by bars that are not escaped: as many in every row of a table.
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    let rows: Vec<usize> =
        text.lines().filter(|line| line.starts_with('|')).map(bars).collect();
    assert_eq!(rows, [3, 3, 3, 3, 4, 4, 4, 4]);
}

#[test]
fn both_forms_hold_the_same_numbers() {
    let document = document();
    let html = document.html();
    let mut on_the_page = numbers(&words(parse(&html).root_element()));
    let text = document.markdown().replace('\\', "");
    let without_files: Vec<&str> =
        text.split("](figures/").flat_map(|part| part.split(".svg)").last()).collect();
    let mut in_markdown = numbers(&without_files.join(" "));
    on_the_page.sort();
    in_markdown.sort();
    assert!(on_the_page.len() > 25, "{on_the_page:?}");
    assert_eq!(on_the_page, in_markdown);
}

#[test]
fn files_are_written_where_markdown_looks_for_them() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("a/b");
    document().write(&directory).unwrap();
    document().write(&directory).unwrap();
    let text = std::fs::read_to_string(directory.join("report.md")).unwrap();
    assert_eq!(text, document().markdown());
    assert_eq!(
        std::fs::read_to_string(directory.join("report.html")).unwrap(),
        document().html()
    );
    for name in ["one", "%2e%2e%2ftwo"] {
        assert!(text.contains(&format!("](figures/{name}.svg)")), "{name}");
        let svg =
            std::fs::read_to_string(directory.join(format!("figures/{name}.svg"))).unwrap();
        assert!(roxmltree::Document::parse(&svg).is_ok());
    }
    assert_eq!(std::fs::read_dir(directory.join("figures")).unwrap().count(), 2);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = document().write(&file).unwrap_err();
    let expected = fewstep::Error::File {
        file: file.join("figures"),
        action: "create",
        kind: ErrorKind::NotADirectory,
    };
    assert_eq!(refused, Error::Fewstep(expected));
}
