//! The fields of a JSON object, each read by itself, so that whatever is wrong has a name.
//!
//! In: the text of an object. Out: its fields as [`Value`]s, none of them twice, and what they
//! hold. Only the object itself is looked into at first, and only as deep as a value's type goes.

use super::problems::{Problem, ProblemKind};
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

/// How much of a value is repeated when it is refused.
const SHOWN: usize = 40;

/// More fields than any request has; what comes behind them is not looked at.
const MOST_FIELDS: usize = 64;

/// A field's value, as it is written.
#[derive(Clone, Debug)]
pub(super) struct Value<'a> {
    name: String,
    raw: &'a RawValue,
}

/// The fields of an object.
pub(super) fn fields(text: &str) -> Result<Vec<Value<'_>>, Problem> {
    let found: Fields<'_> = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        if error.is_data() {
            Problem::new(
                ProblemKind::Wrong,
                "invalid body: expected an object with task or tasks",
            )
        } else {
            let problem = message(&error);
            Problem::new(
                ProblemKind::NotJson,
                format!("line {line}, column {column}: {problem}"),
            )
        }
    })?;
    match found.twice {
        Some(name) => Err(Problem::wrong(name, "duplicate field: give it once")),
        None => Ok(found.fields),
    }
}

/// What a parser says, without the place that it adds.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text[..end].to_owned()
}

struct Fields<'a> {
    fields: Vec<Value<'a>>,
    twice: Option<String>,
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
                let mut found = Fields { fields: Vec::new(), twice: None };
                while found.twice.is_none() && found.fields.len() < MOST_FIELDS {
                    let Some((name, raw)) = map.next_entry::<String, &RawValue>()? else {
                        return Ok(found);
                    };
                    if found.fields.iter().any(|known| known.name == name) {
                        found.twice = Some(name);
                    } else {
                        found.fields.push(Value { name, raw });
                    }
                }
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(found)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl<'a> Value<'a> {
    /// The field's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The beginning of what is written there.
    pub(super) fn shown(&self) -> String {
        let text = self.raw.get();
        let mut shown: String = text.chars().take(SHOWN).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        shown
    }

    fn refused(&self, allowed: &str) -> Problem {
        Problem::wrong(
            &self.name,
            format!("{} is {}; it must be {allowed}", self.name, self.shown()),
        )
    }

    /// Whether it is a text.
    pub(super) fn is_text(&self) -> bool {
        self.raw.get().starts_with('"')
    }

    /// `Err` unless it is an object; a list of its values would be taken for one, too.
    pub(super) fn check_object(&self) -> Result<(), Problem> {
        if self.raw.get().starts_with('{') { Ok(()) } else { Err(self.refused("an object")) }
    }

    /// A text.
    pub(super) fn text(&self) -> Result<String, Problem> {
        serde_json::from_str(self.raw.get()).map_err(|_| self.refused("a text"))
    }

    /// `true` or `false`.
    pub(super) fn flag(&self) -> Result<bool, Problem> {
        serde_json::from_str(self.raw.get()).map_err(|_| self.refused("true or false"))
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Problem> {
        let text = self.text()?;
        let found = choices.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.refused(&names.join(" or "))
        })
    }

    /// A whole number that is not too small; a fraction of 0 does no harm.
    pub(super) fn whole<T: TryFrom<u64>>(&self, least: u64) -> Result<T, Problem> {
        let number = whole(self.raw.get()).filter(|&number| number >= least);
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| self.refused(&format!("a whole number from {least}")))
    }

    /// A list of whole numbers.
    pub(super) fn wholes(&self) -> Result<Vec<u32>, Problem> {
        let refused = || self.refused("a list of whole numbers, or a text such as 0..30");
        let entries: Vec<&RawValue> =
            serde_json::from_str(self.raw.get()).map_err(|_| refused())?;
        let number = |entry: &&RawValue| whole(entry.get()).and_then(|n| u32::try_from(n).ok());
        entries.iter().map(number).collect::<Option<_>>().ok_or_else(refused)
    }

    /// A number over 0 and under 1.
    pub(super) fn fraction(&self) -> Result<f64, Problem> {
        let number = serde_json::from_str(self.raw.get()).ok();
        let number = number.filter(|&number: &f64| 0.0 < number && number < 1.0);
        number.ok_or_else(|| self.refused("a number over 0 and under 1"))
    }

    /// The texts of a list's entries, up to a number of them.
    pub(super) fn entries(&self, most: usize) -> Result<Vec<&'a str>, Problem> {
        struct Few(usize);
        impl<'de> Visitor<'de> for Few {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list")
            }

            fn visit_seq<S: SeqAccess<'de>>(
                self,
                mut list: S,
            ) -> Result<Self::Value, S::Error> {
                let mut found = Vec::new();
                while let Some(entry) = list.next_element()? {
                    found.push(entry);
                    if found.len() == self.0 {
                        while list.next_element::<IgnoredAny>()?.is_some() {}
                        break;
                    }
                }
                Ok(found)
            }
        }
        let mut deserializer = serde_json::Deserializer::from_str(self.raw.get());
        let found = deserializer.deserialize_seq(Few(most));
        let found = found.map_err(|_| self.refused("a list"))?;
        Ok(found.into_iter().map(RawValue::get).collect())
    }

    /// Something larger; what is wrong inside is named by its path.
    pub(super) fn nested<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let mut deserializer = serde_json::Deserializer::from_str(self.raw.get());
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let inner = error.inner();
            let kind = if inner.is_data() { ProblemKind::Wrong } else { ProblemKind::NotJson };
            let problem = message(inner);
            let path = match error.path().to_string() {
                path if path == "." => self.name.clone(),
                path if path.starts_with('[') => format!("{}{path}", self.name),
                path => format!("{}.{path}", self.name),
            };
            let path = path.trim_end_matches(".?").to_owned();
            let path = match quoted(&problem) {
                Some(field) if !path.ends_with(&format!(".{field}")) => {
                    format!("{path}.{field}")
                }
                _ => path,
            };
            Problem::new(kind, problem).at(path)
        })
    }
}

/// The field that is missing or that nobody knows, if that is what a parser says.
fn quoted(problem: &str) -> Option<&str> {
    let beginnings = ["missing field `", "unknown field `", "duplicate field `"];
    let rest = beginnings.iter().find_map(|beginning| problem.strip_prefix(beginning))?;
    rest.split_once('`').map(|(field, _)| field)
}

/// A whole number, however it is written.
fn whole(text: &str) -> Option<u64> {
    if let Ok(number) = serde_json::from_str(text) {
        return Some(number);
    }
    let number: f64 = serde_json::from_str(text).ok()?;
    let exact = (0.0..=9e15).contains(&number) && number.fract() == 0.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole")]
    exact.then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fewstep_engine::Task;

    fn read<T>(text: &str, read: impl FnOnce(&Value<'_>) -> Result<T, Problem>) -> Option<T> {
        let object = format!("{{\"a\":{text}}}");
        let fields = fields(&object).unwrap();
        read(&fields[0]).ok()
    }

    #[test]
    fn values_are_what_their_types_allow() {
        assert_eq!(read("\"a\\n\"", |value| value.text()), Some("a\n".to_owned()));
        assert_eq!(read("1", |value| value.text()), None);
        assert_eq!(read("true", |value| value.flag()), Some(true));
        assert_eq!(read("1", |value| value.flag()), None);
        for (text, number) in [("0", Some(0_u64)), ("2.0", Some(2)), ("1e3", Some(1000))] {
            assert_eq!(read(text, |value| value.whole(0)), number);
        }
        let last = "18446744073709551615";
        assert_eq!(read(last, |value| value.whole(0)), Some(u64::MAX));
        for text in ["-1", "1.5", "\"1\"", "null", "1e300", "18446744073709551616"] {
            assert_eq!(read::<u64>(text, |value| value.whole(0)), None, "{text}");
        }
        assert_eq!(read::<u64>("0", |value| value.whole(1)), None);
        assert_eq!(read::<u32>("4294967296", |value| value.whole(0)), None);
        assert_eq!(read("[0, 2.0]", |value| value.wholes()), Some(vec![0, 2]));
        assert_eq!(read("[0, -2]", |value| value.wholes()), None);
        assert_eq!(read("0.5", |value| value.fraction()), Some(0.5));
        assert_eq!(read("1", |value| value.fraction()), None);
        assert_eq!(read("[1, {\"b\": []}]", |v| Ok(v.entries(9)?.len())), Some(2));
        assert_eq!(read("[1, 2, 3]", |v| Ok(v.entries(2)?.len())), Some(2));
        assert_eq!(read("{}", |v| Ok(v.entries(9)?.len())), None);
    }

    fn problem(text: &str) -> (u16, serde_json::Value) {
        let problem = fields(text).err().unwrap();
        let json: serde_json::Value = serde_json::from_str(&problem.to_json()).unwrap();
        (problem.kind.words().status.as_u16(), json["field"].clone())
    }

    #[test]
    fn what_is_not_an_object_is_told_from_what_is_not_json() {
        for text in ["", "{", "{\"a\":1,}", "nul", "{\"a\":[1,2}", "{} {}"] {
            assert_eq!(problem(text), (400, serde_json::Value::Null), "{text}");
        }
        for text in ["[]", "1", "\"a\"", "null"] {
            assert_eq!(problem(text), (422, serde_json::Value::Null), "{text}");
        }
        assert_eq!(problem("{\"a\":1,\"b\":2,\"a\":3}"), (422, "a".into()));
        assert_eq!(problem("{\"a\":1,\"a\":3").0, 400, "it does not even end");
    }

    #[test]
    fn deep_nesting_is_read_without_a_stack() {
        let depth = 400_000;
        let text = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        let fields = fields(&text).unwrap();
        assert!(fields[0].nested::<Task>().is_err());
        assert_eq!(fields[0].entries(9).unwrap().len(), 1);
    }

    fn path(task: &str) -> String {
        let text = format!("{{\"task\":{task}}}");
        let problem = fields(&text).unwrap()[0].nested::<Task>().unwrap_err();
        let json: serde_json::Value = serde_json::from_str(&problem.to_json()).unwrap();
        json["field"].as_str().unwrap().to_owned()
    }

    #[test]
    fn what_is_wrong_inside_is_named_by_its_path() {
        assert_eq!(path("3"), "task");
        assert_eq!(path("{\"id\": 3}"), "task.id");
        assert_eq!(path("{\"id\": \"a\", \"id\": \"b\"}"), "task.id");
        assert_eq!(path("{\"tempalte\": 3}"), "task.tempalte");
        assert_eq!(
            path("{\"examples\": [{\"x\": \"1\", \"y\": \"1\"}, {\"x\": 1}]}"),
            "task.examples[1].x"
        );
        assert_eq!(path("{\"examples\": [{\"x\": \"1\", \"z\": 3}]}"), "task.examples[0].z");
        assert_eq!(path("{\"examples\": [{\"x\": \"1\"}]}"), "task.examples[0].y");
        assert_eq!(
            path("{\"labels\": [{\"text\": \"1\", \"value\": \"x\"}]}"),
            "task.labels[0].value"
        );
        assert_eq!(path("{\"id\": \"a\"}"), "task.template");
    }
}
