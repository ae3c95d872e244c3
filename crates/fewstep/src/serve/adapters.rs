//! Updates that were made, for further queries on the same examples.
//!
//! In: everything that an update depends on, written out, and the update. Out: the update, for that
//! and nothing else: what is looked for is compared with what is kept to the letter, and its hash is
//! only the name. What was used least recently goes first when there are too many entries or bytes.

use crate::observed::Observed;
use crate::options::Options;
use crate::predictor::{DecidedClasses, Predictor};
use crate::report::AnyReport;
use crate::tasks::Fingerprint;
use fewstep_engine::{Task, TaskKind, Update};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an entry takes beside its numbers and texts.
const OVERHEAD: usize = 512;

/// All that an update depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UpdateKey {
    text: Arc<str>,
    name: Fingerprint,
}

impl UpdateKey {
    /// The key of a task's update: model, options and everything of the prompt but the query, and
    /// the query too if a rule looks at it.
    pub(super) fn of(task: &Task, options: &WrittenOptions) -> Self {
        let Task { id: _, template, separator, labels, examples, query, further: _ } = task;
        let looks = options.looks_at_query && task.kind() == TaskKind::Regression;
        let query = looks.then_some(&query.x);
        let prompt = serde_json::to_string(&(template, separator, labels, examples, query));
        let prompt = prompt.expect("every field can be written");
        let text = format!("{}\n{prompt}", options.text);
        let name = Fingerprint::of(&text);
        Self { text: text.into(), name }
    }

    /// What it is called.
    pub(super) fn name(&self) -> Fingerprint {
        self.name
    }
}

/// A model and the options that change an update or what is said about it, written out.
#[derive(Clone, Debug)]
pub(super) struct WrittenOptions {
    text: String,
    looks_at_query: bool,
}

impl WrittenOptions {
    /// Of the model of a predictor, under its name.
    pub(super) fn new(model: &str, predictor: &Predictor, options: &Options) -> Self {
        let (policy, lora) = (predictor.policy(), predictor.model().network().lora());
        let Options { bos, max_tokens_per_example, loo_order, full, .. } = options;
        let prompts = (bos, max_tokens_per_example, loo_order, full);
        let text = format!("{:?}", (model, policy, lora, prompts));
        Self { text, looks_at_query: policy.looks_at_query() }
    }
}

/// What is known about a task whose update is kept.
pub(super) enum Known {
    /// All: the same query was asked before.
    Report(AnyReport),
    /// The update.
    Update(Arc<Update>),
    /// The examples, whose linearised model answers.
    Observed(Arc<Observed>),
    /// The examples of a task of classes, and what was decided about them.
    Classes(Arc<DecidedClasses>),
}

/// What is kept of a task's examples.
pub(super) enum Made {
    /// The update alone.
    Update(Update),
    /// What was observed.
    Observed(Box<Observed>),
    /// What was observed of a task of classes and decided about it.
    Classes(Box<DecidedClasses>),
}

impl Made {
    fn bytes(&self) -> usize {
        match self {
            Self::Update(update) => update.bytes(),
            Self::Observed(observed) => observed.bytes(),
            Self::Classes(decided) => decided.bytes(),
        }
    }
}

/// The same, shared with those who use it.
#[derive(Clone)]
enum Shared {
    Update(Arc<Update>),
    Observed(Arc<Observed>),
    Classes(Arc<DecidedClasses>),
}

/// An update, and what was said about the query that it was made with.
struct Entry {
    key: UpdateKey,
    query: String,
    report: AnyReport,
    made: Shared,
    bytes: usize,
    used: u64,
}

/// How much is kept, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UpdateCounts {
    pub(super) entries: usize,
    pub(super) bytes: usize,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) evicted: u64,
}

/// The updates that are kept.
pub(super) struct Adapters {
    state: Mutex<Kept>,
    most_entries: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct Kept {
    entries: HashMap<Fingerprint, Entry>,
    /// Names by when they were used.
    uses: BTreeMap<u64, Fingerprint>,
    clock: u64,
    counts: UpdateCounts,
}

impl Adapters {
    /// Room for `most_entries` updates of `most_bytes` together.
    pub(super) fn new(most_entries: usize, most_bytes: usize) -> Self {
        Self { state: Mutex::default(), most_entries, most_bytes }
    }

    fn state(&self) -> MutexGuard<'_, Kept> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known about a query, which counts as a use.
    pub(super) fn find(&self, key: &UpdateKey, query: &str) -> Option<Known> {
        let mut state = self.state();
        let found = state.entries.get(&key.name).filter(|entry| entry.key == *key);
        let known = found.map(|entry| {
            if entry.query == query {
                Known::Report(entry.report.clone())
            } else {
                match entry.made.clone() {
                    Shared::Update(update) => Known::Update(update),
                    Shared::Observed(observed) => Known::Observed(observed),
                    Shared::Classes(decided) => Known::Classes(decided),
                }
            }
        });
        if known.is_some() {
            state.counts.hits += 1;
            state.touch(key.name);
        } else {
            state.counts.misses += 1;
        }
        known
    }

    /// Whether there is an update of this name.
    pub(super) fn holds(&self, name: Fingerprint) -> bool {
        self.state().entries.contains_key(&name)
    }

    /// Keeps an update, if it fits at all, in place of what was used least recently.
    pub(super) fn keep(&self, key: UpdateKey, query: &str, report: AnyReport, made: Made) {
        let said = report.to_json(true).len();
        let bytes = OVERHEAD + made.bytes() + said + key.text.len() + query.len();
        if bytes > self.most_bytes || self.most_entries == 0 {
            return;
        }
        let mut state = self.state();
        state.remove(key.name);
        while state.counts.entries >= self.most_entries
            || state.counts.bytes + bytes > self.most_bytes
        {
            let (_, &oldest) =
                state.uses.first_key_value().expect("there is something to drop");
            state.remove(oldest);
            state.counts.evicted += 1;
        }
        let (name, query) = (key.name, query.to_owned());
        let made = match made {
            Made::Update(update) => Shared::Update(Arc::new(update)),
            Made::Observed(observed) => Shared::Observed(Arc::new(*observed)),
            Made::Classes(decided) => Shared::Classes(Arc::new(*decided)),
        };
        state.entries.insert(name, Entry { key, query, report, made, bytes, used: 0 });
        state.counts.entries += 1;
        state.counts.bytes += bytes;
        state.touch(name);
    }

    /// Forgets an update; `false` if there is none of this name.
    pub(super) fn remove(&self, name: &str) -> bool {
        let mut state = self.state();
        let found = state.uses.values().find(|kept| kept.to_string() == name).copied();
        found.is_some_and(|name| state.remove(name))
    }

    /// How much is kept.
    pub(super) fn counts(&self) -> UpdateCounts {
        self.state().counts
    }
}

impl Kept {
    /// An entry was used, or is new.
    fn touch(&mut self, name: Fingerprint) {
        self.clock += 1;
        let now = self.clock;
        let entry = self.entries.get_mut(&name).expect("it is there");
        self.uses.remove(&std::mem::replace(&mut entry.used, now));
        self.uses.insert(now, name);
    }

    fn remove(&mut self, name: Fingerprint) -> bool {
        let Some(entry) = self.entries.remove(&name) else { return false };
        self.uses.remove(&entry.used);
        self.counts.entries -= 1;
        self.counts.bytes -= entry.bytes;
        true
    }
}
