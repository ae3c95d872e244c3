//! A report as Markdown, for repositories and terminals: the same strings as on the page.

use super::document::{Claim, Document, Section, Table};

/// The whole text; `files` are those of the drawings, in their order.
pub(super) fn page(document: &Document, files: &[String]) -> String {
    let mut text = format!("# {}\n", escape(&document.title));
    for paragraph in document.summary.iter().chain(document.tally().iter()) {
        push_paragraph(&mut text, paragraph);
    }
    if !document.settings.is_empty() {
        let pairs = document.settings.iter();
        push_table(
            &mut text,
            &Table {
                caption: "Settings".to_owned(),
                header: vec!["setting".to_owned(), "value".to_owned()],
                rows: pairs.map(|(name, value)| vec![name.clone(), value.clone()]).collect(),
            },
        );
    }
    let mut files = files.iter();
    for section in &document.sections {
        push_section(&mut text, section, &mut files);
    }
    text
}

fn push_section<'a>(
    text: &mut String,
    section: &Section,
    files: &mut impl Iterator<Item = &'a String>,
) {
    text.push_str(&format!("\n## {}\n", escape(&section.title)));
    for paragraph in &section.text {
        push_paragraph(text, paragraph);
    }
    if !section.claims.is_empty() {
        text.push_str("\n### Claims of the paper\n\n");
        for claim in &section.claims {
            push_claim(text, claim);
        }
    }
    for table in &section.tables {
        push_table(text, table);
    }
    for (figure, file) in section.figures.iter().zip(files) {
        let (alternative, caption) = (escape(&figure.alternative), escape(&figure.caption));
        text.push_str(&format!("\n![{alternative}]({file})\n\n{caption}\n"));
    }
}

/// A paragraph; what would make its beginning a heading, a list or a quotation is escaped.
fn push_paragraph(text: &mut String, paragraph: &str) {
    let mut escaped = escape(paragraph).trim_start().to_owned();
    let digits = escaped.bytes().take_while(u8::is_ascii_digit).count();
    let mark = escaped[digits..].chars().next();
    if matches!(mark, Some('-' | '+' | '=')) && digits == 0
        || matches!(mark, Some('.' | ')')) && digits > 0
    {
        escaped.insert(digits, '\\');
    }
    text.push_str(&format!("\n{escaped}\n"));
}

fn push_claim(text: &mut String, claim: &Claim) {
    text.push_str(&format!(
        "- {}: **{}**. The paper: {}. Measured: {}.\n",
        escape(&claim.statement),
        claim.verdict,
        escape(&claim.paper),
        escape(&claim.measured)
    ));
}

fn push_table(text: &mut String, table: &Table) {
    text.push_str(&format!("\n**{}**\n\n", escape(&table.caption)));
    let mut push_row = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    };
    push_row(&mut table.header.iter().map(|name| escape(name)));
    push_row(&mut (0..table.header.len()).map(|column| match column {
        0 => ":--".to_owned(),
        _ => "--:".to_owned(),
    }));
    for row in &table.rows {
        push_row(&mut row.iter().map(|cell| escape(cell)));
    }
}

/// Text that is shown as it is, on one line.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&' | '$' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '\t' | '\n' | '\r' => escaped.push(' '),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
