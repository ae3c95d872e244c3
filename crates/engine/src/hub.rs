//! Where a model's files are: a directory, the hub's cache on this machine, or the hub itself.
//!
//! In: what the user typed, and [`HubSettings`]. Out: a directory that holds a configuration,
//! weights and a tokenizer. The cache has the layout that other tools share. What is downloaded
//! is only stored here; it is checked where it is read.

use crate::error::Error;
use crate::files;
use crate::weights::read_index;
use hf_hub::api::sync::{ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const TOKENIZER: &str = "tokenizer.json";
const PAIR: [&str; 2] = ["vocab.json", "merges.txt"];

/// Models with a short name, and the id that the hub keeps them under.
const SHORT_NAMES: [(&str, &str); 5] = [
    ("distilgpt2", "distilbert/distilgpt2"),
    ("gpt2", "openai-community/gpt2"),
    ("gpt2-medium", "openai-community/gpt2-medium"),
    ("gpt2-large", "openai-community/gpt2-large"),
    ("gpt2-xl", "openai-community/gpt2-xl"),
];

/// How to reach the hub and its cache.
///
/// | name | in the environment | meaning |
/// |---|---|---|
/// | `cache` | `HF_HUB_CACHE`, or `hub` in `HF_HOME`, or `~/.cache/huggingface/hub` | where downloaded models are kept |
/// | `offline` | `HF_HUB_OFFLINE` is 1, on, yes or true | nothing is downloaded |
/// | `token` | `HF_TOKEN` | for models that ask for a login |
/// | `endpoint` | `HF_ENDPOINT` | the hub's address |
///
/// # Examples
///
/// ```
/// use fewstep_engine::HubSettings;
///
/// let settings = HubSettings::from_variables(|name| match name {
///     "HF_HOME" => Some("models".to_owned()),
///     "HF_HUB_OFFLINE" => Some("1".to_owned()),
///     _ => None,
/// });
/// assert_eq!(settings.cache, std::path::Path::new("models").join("hub"));
/// assert!(settings.offline);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HubSettings {
    /// Where downloaded models are kept.
    pub cache: PathBuf,
    /// Whether downloading is forbidden.
    pub offline: bool,
    /// The user's key, for models that ask for a login.
    pub token: Option<String>,
    /// The hub's address.
    pub endpoint: String,
}

impl fmt::Debug for HubSettings {
    /// Everything but the token, which belongs in no log.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HubSettings")
            .field("cache", &self.cache)
            .field("offline", &self.offline)
            .field("token", &self.token.as_ref().map(|_| "hidden"))
            .field("endpoint", &self.endpoint)
            .finish()
    }
}

impl HubSettings {
    /// The settings that the process was started with.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!fewstep_engine::HubSettings::from_environment().endpoint.is_empty());
    /// ```
    #[must_use]
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place where the environment becomes an argument"
    )]
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// The settings in some variables; empty ones count as absent.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{HubSettings};
    /// let settings = HubSettings::from_variables(|name| {
    ///     (name == "HF_HOME").then(|| "/models".to_owned())
    /// });
    /// assert_eq!(settings.cache, std::path::Path::new("/models/hub"));
    /// ```
    #[must_use]
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let base = || {
            get("HF_HOME").map(PathBuf::from).unwrap_or_else(|| {
                let home = get("HOME").or_else(|| get("USERPROFILE")).map(PathBuf::from);
                let cache = get("XDG_CACHE_HOME").map(PathBuf::from);
                cache
                    .unwrap_or_else(|| home.unwrap_or_default().join(".cache"))
                    .join("huggingface")
            })
        };
        let yes = |value: String| {
            ["1", "on", "yes", "true"].contains(&value.to_ascii_lowercase().as_str())
        };
        let endpoint = get("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        Self {
            cache: get("HF_HUB_CACHE").map(PathBuf::from).unwrap_or_else(|| base().join("hub")),
            offline: get("HF_HUB_OFFLINE").is_some_and(yes),
            token: get("HF_TOKEN"),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
        }
    }
}

/// How far a download is.
///
/// # Examples
///
/// ```
/// let progress = fewstep_engine::Progress { file: "config.json", done: 5, total: 10 };
/// assert!(progress.done < progress.total);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file that is being downloaded.
    pub file: &'a str,
    /// Bytes that are there.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Finds the directory of a model: `model` itself if it is one, else the hub's model of that id,
/// which is downloaded if it is not in the cache.
///
/// # Errors
///
/// [`Error::ModelNotFound`] for what is neither a directory nor a hub id, [`Error::NotInCache`]
/// if downloading is forbidden, [`Error::NotOnHub`] if the model lacks files in a form that is
/// read, and [`Error::Download`] if the hub cannot be reached or refuses.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, HubSettings, locate};
///
/// let mut settings = HubSettings::from_variables(|_| None);
/// settings.offline = true;
/// settings.cache = "no such directory".into();
/// let Err(Error::NotInCache { model, file, .. }) = locate("gpt2", &settings, |_| ()) else {
///     panic!("there is no cache");
/// };
/// assert_eq!((model.as_str(), file.as_str()), ("openai-community/gpt2", "config.json"));
/// ```
pub fn locate(
    model: &str,
    settings: &HubSettings,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<PathBuf, Error> {
    let path = Path::new(model);
    if path.is_dir() || path.is_file() {
        return Ok(path.to_path_buf());
    }
    if !is_hub_id(model) {
        return Err(Error::ModelNotFound { model: model.to_owned() });
    }
    let id = SHORT_NAMES.iter().find(|(short, _)| *short == model).map_or(model, |(_, id)| id);
    for name in [model, id] {
        if let Some(snapshot) = snapshot(&settings.cache, name)
            && first_missing(&snapshot)?.is_none()
        {
            return Ok(snapshot);
        }
    }
    if settings.offline {
        let snapshot = snapshot(&settings.cache, id);
        let directory = snapshot.unwrap_or_else(|| folder(&settings.cache, id));
        let file = first_missing(&directory)?.unwrap_or_else(|| CONFIG.to_owned());
        return Err(Error::NotInCache { model: id.to_owned(), file, directory });
    }
    Download { id, settings }.run(&mut progress)
}

/// Whether a text can be an id on the hub: `name` or `owner/name`.
fn is_hub_id(model: &str) -> bool {
    let plain = |part: &str| {
        let mut characters = part.chars();
        let first = characters.next();
        first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
            && characters.all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            && !part.contains("--")
            && !part.contains("..")
    };
    let parts: Vec<&str> = model.split('/').collect();
    model.len() <= 96 && parts.len() <= 2 && parts.into_iter().all(plain)
}

/// A model's folder in the cache.
fn folder(cache: &Path, id: &str) -> PathBuf {
    cache.join(Repo::model(id.to_owned()).folder_name())
}

/// The directory of the version that the cache calls `main`.
fn snapshot(cache: &Path, id: &str) -> Option<PathBuf> {
    let folder = folder(cache, id);
    let version = files::read(&folder.join("refs").join("main"), 256).ok()?;
    let version = std::str::from_utf8(&version).ok()?.trim();
    let snapshot = folder.join("snapshots").join(version);
    (files::is_plain_name(version) && snapshot.is_dir()).then_some(snapshot)
}

/// The first file that a model's directory lacks.
fn first_missing(directory: &Path) -> Result<Option<String>, Error> {
    let has = |name: &str| directory.join(name).is_file();
    let mut wanted = vec![CONFIG.to_owned()];
    if !has(WEIGHTS) && has(INDEX) {
        wanted.extend(read_index(&directory.join(INDEX))?.into_values());
    } else {
        wanted.push(WEIGHTS.to_owned());
    }
    if !PAIR.iter().all(|name| has(name)) {
        wanted.push(TOKENIZER.to_owned());
    }
    Ok(wanted.into_iter().find(|name| !has(name)))
}

/// One model to fetch.
struct Download<'a> {
    id: &'a str,
    settings: &'a HubSettings,
}

impl Download<'_> {
    fn run(&self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<PathBuf, Error> {
        let cache = &self.settings.cache;
        let listing = |error: ApiError| self.failed("the list of files", &error);
        let repository = ApiBuilder::from_cache(Cache::new(cache.clone()))
            .with_token(self.settings.token.clone())
            .with_endpoint(self.settings.endpoint.clone())
            .with_progress(false)
            .build()
            .map_err(listing)?
            .repo(Repo::model(self.id.to_owned()));
        let info = repository.info().map_err(listing)?;
        let names: BTreeSet<&str> =
            info.siblings.iter().map(|sibling| sibling.rfilename.as_str()).collect();
        let mut fetch = |name: &str| self.fetch(&repository, &info.sha, name, progress);
        let mut last = PathBuf::new();
        for name in self.choose(&names)? {
            last = fetch(name)?;
        }
        if last.ends_with(INDEX) {
            for shard in read_index(&last)?.into_values().collect::<BTreeSet<_>>() {
                fetch(&shard)?;
            }
        }
        Ok(last.parent().map(Path::to_path_buf).unwrap_or_default())
    }

    /// The files to fetch, out of those that there are; the weights or their index come last.
    fn choose(&self, names: &BTreeSet<&str>) -> Result<Vec<&'static str>, Error> {
        let missing = |file| Error::NotOnHub { model: self.id.to_owned(), file };
        let has = |name: &str| names.contains(name);
        let mut chosen = vec![if has(CONFIG) { CONFIG } else { return Err(missing(CONFIG)) }];
        if has(TOKENIZER) {
            chosen.push(TOKENIZER);
        } else if PAIR.iter().all(|name| has(name)) {
            chosen.extend(PAIR);
        } else {
            return Err(missing(TOKENIZER));
        }
        chosen.push(match (has(WEIGHTS), has(INDEX)) {
            (true, _) => WEIGHTS,
            (false, true) => INDEX,
            (false, false) => return Err(missing(WEIGHTS)),
        });
        Ok(chosen)
    }

    /// One file of a version, unless it is there already.
    fn fetch(
        &self,
        repository: &ApiRepo,
        version: &str,
        name: &str,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<PathBuf, Error> {
        let snapshots = folder(&self.settings.cache, self.id).join("snapshots");
        let present = snapshots.join(version).join(name);
        if files::is_plain_name(version) && present.is_file() {
            return Ok(present);
        }
        let reporter = Reporter { report: progress, file: name.to_owned(), done: 0, total: 0 };
        repository
            .download_with_progress(name, reporter)
            .map_err(|error| self.failed(name, &error))
    }

    fn failed(&self, file: &str, error: &ApiError) -> Error {
        Error::Download {
            model: self.id.to_owned(),
            file: file.to_owned(),
            endpoint: self.settings.endpoint.clone(),
            directory: folder(&self.settings.cache, self.id),
            problem: error.to_string(),
        }
    }
}

/// Hands a download's progress to the caller.
struct Reporter<'a> {
    report: &'a mut dyn FnMut(Progress<'_>),
    file: String,
    done: u64,
    total: u64,
}

impl hf_hub::api::Progress for Reporter<'_> {
    fn init(&mut self, size: usize, _filename: &str) {
        (self.done, self.total) = (0, size as u64);
    }

    fn update(&mut self, size: usize) {
        self.done += size as u64;
        (self.report)(Progress { file: &self.file, done: self.done, total: self.total });
    }

    fn finish(&mut self) {}
}
