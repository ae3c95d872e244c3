//! A report as one page: nothing is loaded from elsewhere, and no text of the report is markup.
//!
//! The page follows the reader's choice of a light or a dark display and is read on a telephone
//! as well as on a wide screen. It is written so that XML parsers take it, too.

use super::document::{Claim, Document, Figure, Section, Table, Verdict};

/// The page's own style: `light-dark` is avoided, for older browsers.
const STYLE: &str = "
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --faint: #ddd; --soft: #f4f4f2;
  --held: #00603f; --not: #a63c00; --open: #555; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #181818; --faint: #444; --soft: #232323;
    --held: #4fd3a5; --not: #ff9a5a; --open: #b5b5b5; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.3rem; margin-top: 2.5rem; }
h3 { font-size: 1.05rem; margin-bottom: 0.4rem; }
p, li { max-width: 44rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 0.4rem; }
th, td { padding: 0.3rem 0.7rem; border-bottom: 1px solid var(--faint); text-align: right;
  vertical-align: top; }
th:first-child, td:first-child { text-align: left; padding-left: 0; min-width: 9rem; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
.wide td:not(:first-child) { white-space: nowrap; }
.settings td { text-align: left; overflow-wrap: anywhere; }
.settings th { font-weight: 400; white-space: nowrap; vertical-align: top; }
@media (max-width: 40rem) {
  .settings, .settings tbody, .settings tr, .settings th, .settings td { display: block; }
  .settings th { border-bottom: 0; padding-bottom: 0; font-weight: 600; white-space: normal; }
}
.figures { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 0; max-width: 36rem; } figure svg { width: 100%; height: auto; display: block; }
figcaption { font-size: 0.9rem; margin-top: 0.4rem; }
.claims { list-style: none; padding: 0; }
.claims li { padding: 0.5rem 0.8rem; margin: 0.5rem 0; background: var(--soft);
  border-left: 4px solid var(--open); max-width: 60rem; }
.claims .held { border-left-color: var(--held); } .held b { color: var(--held); }
.claims .not-held { border-left-color: var(--not); } .not-held b { color: var(--not); }
";

/// The whole page.
pub(super) fn page(document: &Document) -> String {
    let title = escape(&document.title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for paragraph in document.summary.iter().chain(document.tally().iter()) {
        push_paragraph(&mut page, paragraph);
    }
    push_settings(&mut page, &document.settings);
    for section in &document.sections {
        push_section(&mut page, section);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn push_paragraph(page: &mut String, text: &str) {
    page.push_str(&format!("<p>{}</p>\n", escape(text)));
}

fn push_settings(page: &mut String, settings: &[(String, String)]) {
    if settings.is_empty() {
        return;
    }
    page.push_str("<table class=\"settings\">\n<caption>Settings</caption>\n<tbody>\n");
    for (name, value) in settings {
        let (name, value) = (escape(name), escape(value));
        page.push_str(&format!("<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>\n"));
    }
    page.push_str("</tbody>\n</table>\n");
}

fn push_section(page: &mut String, section: &Section) {
    page.push_str(&format!("<h2>{}</h2>\n", escape(&section.title)));
    for paragraph in &section.text {
        push_paragraph(page, paragraph);
    }
    if !section.claims.is_empty() {
        page.push_str("<h3>Claims of the paper</h3>\n<ul class=\"claims\">\n");
        for claim in &section.claims {
            push_claim(page, claim);
        }
        page.push_str("</ul>\n");
    }
    for table in &section.tables {
        push_table(page, table);
    }
    if !section.figures.is_empty() {
        page.push_str("<div class=\"figures\">\n");
        for figure in &section.figures {
            push_figure(page, figure);
        }
        page.push_str("</div>\n");
    }
}

fn push_claim(page: &mut String, claim: &Claim) {
    let class = match claim.verdict {
        Verdict::Held => "held",
        Verdict::NotHeld => "not-held",
        Verdict::Undecided => "undecided",
    };
    page.push_str(&format!(
        "<li class=\"{class}\">{}: <b>{}</b>.<br/>The paper: {}. Measured: {}.</li>\n",
        escape(&claim.statement),
        claim.verdict,
        escape(&claim.paper),
        escape(&claim.measured)
    ));
}

fn push_table(page: &mut String, table: &Table) {
    // The table can be moved under a narrow window by keys, too.
    page.push_str(&format!(
        "<div class=\"wide\" tabindex=\"0\">\n<table>\n<caption>{}</caption>\n<thead><tr>",
        escape(&table.caption)
    ));
    for name in &table.header {
        page.push_str(&format!("<th scope=\"col\">{}</th>", escape(name)));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for cell in row {
            page.push_str(&format!("<td>{}</td>", escape(cell)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
}

fn push_figure(page: &mut String, figure: &Figure) {
    page.push_str(&format!(
        "<figure>\n<div role=\"img\" aria-label=\"{}\">\n{}\n</div>\n<figcaption>{}</figcaption>\n\
         </figure>\n",
        escape(&figure.alternative),
        figure.svg,
        escape(&figure.caption)
    ));
}

/// Text that is shown as it is, in an element or in a quoted attribute, of HTML or of SVG.
///
/// Control characters, which no page may hold, become the sign for what cannot be shown.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            c => escaped.push(c),
        }
    }
    escaped
}
