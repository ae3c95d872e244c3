//! The page: files that are part of the program.

use super::problems::{Problem, ProblemKind};
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

const INDEX: &str = include_str!("../../web/index.html");
const SCRIPT: &str = include_str!("../../web/page.js");
const STYLE: &str = include_str!("../../web/page.css");

const SCRIPT_TYPE: &str = "text/javascript; charset=utf-8";

/// Files of `web/page`, each with its name and its text.
macro_rules! parts {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../web/page/", $name)))),*]
    };
}

/// What `page.js` imports, and the icon.
#[rustfmt::skip]
const PARTS: &[(&str, &str)] = parts![
    "address.js", "arms.js", "blocks.js", "confusion.js", "drawing.js", "elements.js",
    "evidence.js", "form.js", "icon.svg", "json.js", "numbers.js", "path.js", "policy.js",
    "prediction.js", "probabilities.js", "problems.js", "ready-made.js", "report.js",
    "rows.js", "saving.js", "service.js", "several.js", "spectrum.js", "state.js", "tasks.js",
    "words.js",
];

/// `GET /`.
pub(super) async fn index() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], INDEX)
}

/// `GET /page.js`.
pub(super) async fn script() -> impl IntoResponse {
    ([(CONTENT_TYPE, SCRIPT_TYPE)], SCRIPT)
}

/// `GET /page.css`.
pub(super) async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

/// `GET /page/{file}`.
pub(super) async fn part(
    name: Result<Path<String>, PathRejection>,
) -> Result<impl IntoResponse, Problem> {
    let found = name.ok().and_then(|Path(name)| PARTS.iter().find(|(known, _)| *known == name));
    let Some((name, text)) = found else {
        return Err(Problem::new(ProblemKind::NotFound, "the page has no such file"));
    };
    let kind = if name.ends_with(".svg") { "image/svg+xml" } else { SCRIPT_TYPE };
    Ok(([(CONTENT_TYPE, kind)], *text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/web/page");
        let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name());
        let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
        files.sort();
        let served: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        assert_eq!(served, files);
    }
}
