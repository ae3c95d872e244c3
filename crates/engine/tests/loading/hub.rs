//! Finding a model: directories, the cache, and a hub of one thread on this machine.

use crate::loading::support::{CONFIG, file, tensors, write_shards};
use fewstep_engine::{Error, HubSettings, Progress, locate};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use tempfile::tempdir;

const VERSION: &str = "0123456789abcdef";

fn settings(cache: &Path) -> HubSettings {
    let mut settings = HubSettings::from_variables(|_| None);
    settings.cache = cache.to_path_buf();
    settings.offline = true;
    settings
}

fn find(model: &str, settings: &HubSettings) -> Result<PathBuf, Error> {
    locate(model, settings, |_| ())
}

/// Writes a model into the cache as other tools do, and gives its directory.
fn cached(cache: &Path, folder: &str, files: &[&str]) -> PathBuf {
    let folder = cache.join(folder);
    let snapshot = folder.join("snapshots").join(VERSION);
    fs::create_dir_all(folder.join("refs")).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    fs::write(folder.join("refs/main"), VERSION).unwrap();
    for name in files {
        fs::write(snapshot.join(name), "").unwrap();
    }
    snapshot
}

#[test]
fn variables_become_settings() {
    let from = |variables: &[(&str, &str)]| {
        let variables: BTreeMap<String, String> =
            variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        HubSettings::from_variables(|name| variables.get(name).cloned())
    };
    let cache = |variables: &[(&str, &str)]| from(variables).cache;
    let all = [("HF_HUB_CACHE", "a"), ("HF_HOME", "b"), ("XDG_CACHE_HOME", "c"), ("HOME", "d")];
    assert_eq!(cache(&all), Path::new("a"));
    assert_eq!(cache(&all[1..]), Path::new("b/hub"));
    assert_eq!(cache(&all[2..]), Path::new("c/huggingface/hub"));
    assert_eq!(cache(&all[3..]), Path::new("d/.cache/huggingface/hub"));
    assert_eq!(cache(&[("HF_HUB_CACHE", ""), ("HF_HOME", "b")]), Path::new("b/hub"));

    for (value, offline) in
        [("1", true), ("ON", true), ("Yes", true), ("true", true), ("0", false), ("", false)]
    {
        assert_eq!(from(&[("HF_HUB_OFFLINE", value)]).offline, offline, "{value}");
    }
    let settings = from(&[("HF_TOKEN", "secret"), ("HF_ENDPOINT", "http://hub/")]);
    assert_eq!(
        (settings.token.as_deref(), settings.endpoint.as_str()),
        (Some("secret"), "http://hub")
    );
    assert!(!format!("{settings:?}").contains("secret"));
}

#[test]
fn a_directory_is_itself() {
    let directory = tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    assert_eq!(find(path, &settings(Path::new("nowhere"))), Ok(directory.path().to_path_buf()));
    let too_long = "a".repeat(97);
    for model in [
        "", "./none", "/none", "../none", "a/b/c", "a b", "-a", "a..b", "a--b", "a/", "~/a",
        &too_long,
    ] {
        let refused = Error::ModelNotFound { model: model.to_owned() };
        assert_eq!(find(model, &settings(directory.path())), Err(refused), "{model:?}");
    }
}

#[test]
fn the_cache_is_searched() {
    let cache = tempdir().unwrap();
    let settings = settings(cache.path());
    let whole = ["config.json", "model.safetensors", "tokenizer.json"];

    let snapshot = cached(cache.path(), "models--owner--name", &whole);
    assert_eq!(find("owner/name", &settings), Ok(snapshot));
    let pair = ["config.json", "model.safetensors", "vocab.json", "merges.txt"];
    let snapshot = cached(cache.path(), "models--distilbert--distilgpt2", &pair);
    assert_eq!(find("distilgpt2", &settings), Ok(snapshot));
    // What was cached under the short name wins for it.
    let snapshot = cached(cache.path(), "models--distilgpt2", &whole);
    assert_eq!(find("distilgpt2", &settings), Ok(snapshot));

    let snapshot = cached(cache.path(), "models--shards", &["config.json", "tokenizer.json"]);
    let all = tensors("", Dtype::F32);
    write_shards(&snapshot, &[("a", &all[..9]), ("b", &all[9..])]);
    assert_eq!(find("shards", &settings), Ok(snapshot.clone()));
    fs::remove_file(snapshot.join("b")).unwrap();
    let (model, file) = ("shards".to_owned(), "b".to_owned());
    let refused = Error::NotInCache { model, file, directory: snapshot };
    assert_eq!(find("shards", &settings), Err(refused));
}

#[test]
fn offline_the_error_says_what_is_missing_and_where() {
    let cache = tempdir().unwrap();
    let settings = settings(cache.path());
    for (files, missing) in [
        (&["model.safetensors", "tokenizer.json"][..], "config.json"),
        (&["config.json", "tokenizer.json"], "model.safetensors"),
        (&["config.json", "model.safetensors", "vocab.json"], "tokenizer.json"),
    ] {
        fs::remove_dir_all(cache.path().join("models--m")).ok();
        let directory = cached(cache.path(), "models--m", files);
        let (model, file) = ("m".to_owned(), missing.to_owned());
        assert_eq!(find("m", &settings), Err(Error::NotInCache { model, file, directory }));
    }
    let Err(error) = find("gpt2", &settings) else { panic!("the cache has no gpt2") };
    let message = error.to_string();
    let folder = cache.path().join("models--openai-community--gpt2");
    assert!(message.contains(folder.to_str().unwrap()), "{message}");
    assert!(message.contains("hf download openai-community/gpt2"), "{message}");

    // A reference that leads out of the cache is not followed.
    let snapshot = cached(
        cache.path(),
        "models--m",
        &["config.json", "model.safetensors", "tokenizer.json"],
    );
    assert_eq!(find("m", &settings), Ok(snapshot.clone()));
    fs::write(cache.path().join("models--m/refs/main"), format!("../snapshots/{VERSION}"))
        .unwrap();
    assert!(matches!(find("m", &settings), Err(Error::NotInCache { .. })));
}

/// A hub that serves some files of the model `owner/name` and remembers what it was asked for.
fn hub(files: BTreeMap<&'static str, Vec<u8>>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &files, &seen);
        }
    });
    (endpoint, asked)
}

fn answer(
    mut stream: TcpStream,
    files: &BTreeMap<&'static str, Vec<u8>>,
    asked: &Mutex<Vec<String>>,
) {
    let reader = BufReader::new(stream.try_clone().unwrap());
    let lines: Vec<String> =
        reader.lines().map(|l| l.unwrap()).take_while(|l| !l.is_empty()).collect();
    let path = lines[0].split(' ').nth(1).unwrap().to_owned();
    let range = lines
        .iter()
        .find_map(|l| l.to_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
    let list: Vec<_> = files.keys().map(|n| serde_json::json!({"rfilename": n})).collect();
    let list = serde_json::json!({"siblings": list, "sha": VERSION}).to_string();
    let body = match path.strip_prefix("/owner/name/resolve/main/") {
        Some(name) => files.get(name).cloned(),
        None => (path == "/api/models/owner/name/revision/main").then(|| list.into_bytes()),
    };
    let Some(body) = body else {
        write!(
            stream,
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        return;
    };
    let (first, last) = match range.as_deref().and_then(|r| r.split_once('-')) {
        Some((first, last)) => {
            (first.parse().unwrap(), last.parse().map_or(body.len(), |last: usize| last + 1))
        }
        None => (0, body.len()),
    };
    asked.lock().unwrap().push(path.clone());
    let part = &body[first..last.min(body.len())];
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\ncontent-length: {}\r\ncontent-range: bytes {first}-{last}/{}\r\n\
         etag: \"{}\"\r\nx-repo-commit: {VERSION}\r\nconnection: close\r\n\r\n",
        part.len(),
        body.len(),
        path.replace('/', "_"),
    )
    .unwrap();
    stream.write_all(part).unwrap();
}

#[test]
fn a_model_is_downloaded_once() {
    let all = tensors("transformer.", Dtype::F32);
    let shard = |tensors| file(tensors);
    let index = tempdir().unwrap();
    write_shards(index.path(), &[("a.safetensors", &all[..9]), ("b.safetensors", &all[9..])]);
    let index = fs::read(index.path().join("model.safetensors.index.json")).unwrap();
    let files = BTreeMap::from([
        ("README.md", b"not wanted".to_vec()),
        ("config.json", CONFIG.as_bytes().to_vec()),
        ("tokenizer.json", b"{}".to_vec()),
        ("model.safetensors.index.json", index),
        ("a.safetensors", shard(&all[..9])),
        ("b.safetensors", shard(&all[9..])),
    ]);
    let (endpoint, asked) = hub(files.clone());
    let cache = tempdir().unwrap();
    let mut settings = HubSettings { endpoint, offline: false, ..settings(cache.path()) };

    let mut seen: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let directory = locate("owner/name", &settings, |Progress { file, done, total }| {
        seen.insert(file.to_owned(), (done, total));
    })
    .unwrap();
    let expected = cache.path().join("models--owner--name/snapshots").join(VERSION);
    assert_eq!(directory, expected);
    for (name, bytes) in &files {
        let wanted = *name != "README.md";
        assert_eq!(
            fs::read(directory.join(name)).ok(),
            wanted.then(|| bytes.clone()),
            "{name}"
        );
        let all = bytes.len() as u64;
        assert_eq!(seen.get(*name), wanted.then_some(&(all, all)), "{name}");
    }

    // From now on the cache is enough: no request, no network.
    let requests = asked.lock().unwrap().len();
    assert_eq!(find("owner/name", &settings), Ok(directory.clone()));
    settings.offline = true;
    assert_eq!(find("owner/name", &settings), Ok(directory.clone()));
    assert_eq!(asked.lock().unwrap().len(), requests);

    // One lost file is fetched alone.
    settings.offline = false;
    fs::remove_file(directory.join("b.safetensors")).unwrap();
    assert_eq!(find("owner/name", &settings), Ok(directory.clone()));
    let again = asked.lock().unwrap()[requests..].to_vec();
    assert!(
        again.iter().all(|path| path.contains("/api/") || path.ends_with("/b.safetensors"))
    );
    assert!(directory.join("b.safetensors").is_file());
}

#[test]
fn a_model_that_cannot_be_downloaded_says_why() {
    let cache = tempdir().unwrap();
    let online = |endpoint| HubSettings { endpoint, offline: false, ..settings(cache.path()) };
    for (names, missing) in [
        (&["model.safetensors", "tokenizer.json"][..], "config.json"),
        (&["config.json", "model.safetensors", "merges.txt"], "tokenizer.json"),
        (&["config.json", "tokenizer.json", "pytorch_model.bin"], "model.safetensors"),
    ] {
        let (endpoint, _) = hub(names.iter().map(|name| (*name, Vec::new())).collect());
        let (model, file) = ("owner/name".to_owned(), missing);
        assert_eq!(find("owner/name", &online(endpoint)), Err(Error::NotOnHub { model, file }));
    }

    let (known, _) = hub(BTreeMap::new());
    // A port that nobody listens on any more.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, model) in [(known, "owner/other"), (format!("http://{closed}"), "owner/name")]
    {
        let Err(Error::Download { model: named, file, endpoint, directory, problem }) =
            find(model, &online(address.clone()))
        else {
            panic!("{model} cannot come from {address}");
        };
        assert_eq!((named.as_str(), file.as_str()), (model, "the list of files"));
        assert_eq!(endpoint, address);
        assert_eq!(
            directory,
            cache.path().join(format!("models--{}", model.replace('/', "--")))
        );
        assert!(!problem.is_empty());
    }
}
