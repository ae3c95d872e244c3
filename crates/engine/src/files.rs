//! Reading small files without trusting their size.

use crate::error::Error;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::path::{Component, Path};

/// What an operating system's refusal becomes.
pub(crate) fn refused(file: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::File { file: file.to_path_buf(), action, kind: error.kind() }
}

/// Opens a regular file; pipes and devices are refused before they can block.
pub(crate) fn open(file: &Path) -> Result<(File, u64), Error> {
    if !fs::metadata(file).map_err(refused(file, "read"))?.is_file() {
        return Err(Error::NotAFile { file: file.to_path_buf() });
    }
    let opened = File::open(file).map_err(refused(file, "read"))?;
    let length = opened.metadata().map_err(refused(file, "read"))?.len();
    Ok((opened, length))
}

/// The whole file, unless it is longer than `limit` bytes.
pub(crate) fn read(file: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let (opened, found) = open(file)?;
    let mut bytes = Vec::new();
    opened
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(refused(file, "read"))?;
    if bytes.len() as u64 > limit {
        return Err(Error::FileTooLarge { file: file.to_path_buf(), found, limit });
    }
    Ok(bytes)
}

/// Writes a whole file, replacing it only once everything is on disk.
pub(crate) fn write(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let mut opened = File::create(&partial).map_err(refused(file, "write"))?;
    opened.write_all(bytes).map_err(refused(file, "write"))?;
    opened.sync_all().map_err(refused(file, "write"))?;
    fs::rename(&partial, file).map_err(refused(file, "write"))
}

/// A value from JSON text; the error says where in the file.
pub(crate) fn parse<T: DeserializeOwned>(file: &Path, json: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(json).map_err(|error| Error::Json {
        file: file.to_path_buf(),
        line: error.line(),
        column: error.column(),
        problem: error.to_string(),
    })
}

/// Whether a name stands for a file directly inside a directory, and for nothing else.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(_)), None))
        && !name.contains(['/', '\\', '\0', ':'])
}

/// A JSON object in which no name may occur twice.
pub(crate) struct UniqueNames<V>(pub(crate) BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueNames<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_map(NamesVisitor { skipped: None, value: PhantomData })
            .map(Self)
    }
}

/// Collects an object whose names must differ, and passes over one name.
pub(crate) struct NamesVisitor<V> {
    pub(crate) skipped: Option<&'static str>,
    pub(crate) value: PhantomData<V>,
}

impl<'de, V: Deserialize<'de>> Visitor<'de> for NamesVisitor<V> {
    type Value = BTreeMap<String, V>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut names = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if self.skipped == Some(name.as_str()) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if names.contains_key(&name) {
                let problem = format!("the name {name:?} occurs twice");
                return Err(serde::de::Error::custom(problem));
            }
            names.insert(name, map.next_value()?);
        }
        Ok(names)
    }
}
