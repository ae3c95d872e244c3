//! The prompts of a task of classes as token ids, behind the examples and behind none.
//!
//! In: a [`Task`] whose labels have no values, and the model's [`Tokenizer`]. Out: [`ClassPrompts`]:
//! a [`LabelTree`], and per base prompt one prompt per example, and one for the query. Labels may have any number
//! of tokens. A prompt ends where, in tokens, the labels begin to differ.

use crate::error::{Error, Place};
use crate::label_tree::LabelTree;
use crate::layout::Layout;
use crate::prompt::{PromptSettings, Writer, arranged, shortened};
use crate::task::{Query, Task, TaskKind};
use crate::tokens::Tokenizer;
use fewstep_core::Base;

/// Prompts of one base: of every example, and last of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BasePrompts {
    pub(crate) base: Base,
    pub(crate) prompts: Vec<Vec<u32>>,
    /// The examples in the order in which prompts share what they begin with, and how many tokens
    /// each may share with the next.
    packing: Vec<usize>,
    shareable: Vec<usize>,
}

/// A task of classes in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassPrompts {
    pub(crate) tree: LabelTree,
    pub(crate) bases: Vec<BasePrompts>,
    pub(crate) shots: Vec<usize>,
}

impl BasePrompts {
    /// All questions, by prompts, where every token is there once; what an example's answer changes
    /// must not change how its own prompt is computed.
    pub(crate) fn layout(&self, tree: &LabelTree) -> Result<Layout, Error> {
        let nodes = tree.nodes();
        let query = self.prompts.len() - 1;
        let order: Vec<usize> = self.packing.iter().copied().chain([query]).collect();
        let asked = |&prompt: &usize| tree.questions(&self.prompts[prompt]);
        let packed: Vec<Vec<u32>> = order.iter().flat_map(asked).collect();
        let mut limits = vec![usize::MAX; packed.len() - 1];
        for (at, (&prompt, &most)) in order.iter().zip(&self.shareable).enumerate() {
            limits[(at + 1) * nodes - 1] = most.min(self.prompts[prompt].len());
        }
        let places = |&prompt: &usize| (0..nodes).map(move |node| prompt * nodes + node);
        let names: Vec<usize> = order.iter().flat_map(places).collect();
        Ok(Layout::shared_within(&packed, &limits)?.renumbered(&names))
    }
}

impl ClassPrompts {
    /// Writes a task out behind the given base prompts, few-shot first.
    pub(crate) fn build(
        task: &Task,
        tokenizer: &Tokenizer,
        settings: &PromptSettings,
        bases: &[Base],
    ) -> Result<Self, Error> {
        task.check()?;
        if task.kind() != TaskKind::Classification {
            return Err(Error::NotClassification { task: task.id.clone() });
        }
        arranged(task, tokenizer, settings, |writer| Self::of(writer, bases))
    }

    fn of(writer: &Writer<'_>, bases: &[Base]) -> Result<Self, Error> {
        let examples = writer.examples();
        let mut labels: Option<Vec<Vec<u32>>> = None;
        let mut written = Vec::with_capacity(bases.len());
        for &base in bases {
            let mut prompts = Vec::with_capacity(examples + 1);
            let places = (0..examples).map(Place::Example).chain([Place::Query]);
            for place in places {
                let (prompt, found) = labelled(writer, place, base)?;
                match &labels {
                    None => labels = Some(found),
                    Some(known) => agree(writer, place, known, &found)?,
                }
                prompts.push(prompt);
            }
            written.push(sharing(writer, base, prompts)?);
        }
        let tree = LabelTree::new(&labels.unwrap_or_default());
        for base in &written {
            for (index, prompt) in base.prompts.iter().enumerate() {
                let place = if index < examples { Place::Example(index) } else { Place::Query };
                writer.check_length(place, prompt.len() + tree.longest().saturating_sub(1))?;
            }
        }
        Ok(Self { tree, bases: written, shots: writer.shots().to_vec() })
    }

    /// The prompts of further queries behind the same examples, one list per base, or what is wrong
    /// with a query.
    pub(crate) fn further(
        task: &Task,
        tokenizer: &Tokenizer,
        settings: &PromptSettings,
        known: &Known<'_>,
        queries: &[Query],
    ) -> Result<Vec<Result<Written, Error>>, Error> {
        let mut writer = Writer::of_task(task, tokenizer, settings)?;
        writer.show(known.shots, settings);
        let template = task.template()?;
        let prompts = |asked: &Query| {
            task.check_query(asked)?;
            let x = shortened(&asked.x, tokenizer, settings.max_tokens_per_example)?;
            writer.ask(template.prefix(x));
            let one = |&base: &Base| {
                let (prompt, found) = labelled(&writer, Place::Query, base)?;
                let longest = known.tree.longest().saturating_sub(1);
                writer.check_length(Place::Query, prompt.len() + longest)?;
                match LabelTree::new(&found) == *known.tree {
                    true => Ok(prompt),
                    false => Err(other_pieces(&writer, Place::Query)),
                }
            };
            known.bases.iter().map(one).collect()
        };
        Ok(queries.iter().map(prompts).collect())
    }
}

/// The prompts of a query, one behind each base.
pub(crate) type Written = Vec<Vec<u32>>;

/// What further prompts have to agree with.
pub(crate) struct Known<'a> {
    pub(crate) tree: &'a LabelTree,
    pub(crate) bases: &'a [Base],
    pub(crate) shots: &'a [usize],
}

/// How prompts of a base share what they begin with.
fn sharing(
    writer: &Writer<'_>,
    base: Base,
    prompts: Vec<Vec<u32>>,
) -> Result<BasePrompts, Error> {
    let examples = prompts.len() - 1;
    if base == Base::ZeroShot {
        let shareable = vec![writer.before_inputs()?; examples];
        return Ok(BasePrompts { base, prompts, packing: (0..examples).collect(), shareable });
    }
    let (packing, shareable) = writer.packed()?;
    Ok(BasePrompts { base, prompts, packing, shareable })
}

/// The prompt at a place, and the tokens of each label behind it.
fn labelled(
    writer: &Writer<'_>,
    place: Place,
    base: Base,
) -> Result<(Vec<u32>, Vec<Vec<u32>>), Error> {
    let text = match base {
        Base::FewShot => writer.text(place)?,
        Base::ZeroShot => writer.prefix(place).to_owned(),
    };
    let labels = &writer.task().labels;
    let written = |label: &str, end: &str| writer.encode(&format!("{text}{label}{end}"));
    let each = labels.iter().map(|label| written(&label.text, ""));
    let mut ids: Vec<Vec<u32>> = each.collect::<Result<_, _>>()?;
    if let Some(pair) = begins(&ids) {
        // What follows a label ends it.
        let end = writer.ending();
        for (ids, label) in ids.iter_mut().zip(labels) {
            let ended = written(&label.text, &end)?;
            let keeps = ended.starts_with(ids);
            let own = if keeps { ids.len() + 1 } else { ended.len() };
            *ids = ended.into_iter().take(own).collect();
        }
        if ids[pair.0] == ids[pair.1] || begins(&ids).is_some() {
            return Err(collision(writer, begins(&ids).unwrap_or(pair), &ids));
        }
    }
    let shared = common(&ids);
    let own = ids.iter().map(|ids| ids[shared..].to_vec()).collect();
    let prompt = writer.started(&ids[0][..shared]);
    if prompt.is_empty() {
        return Err(Error::EmptyPrompt { task: writer.task().id.clone(), place });
    }
    Ok((prompt, own))
}

/// A pair of labels of which the second begins with the first.
fn begins(ids: &[Vec<u32>]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by(|&a, &b| ids[a].cmp(&ids[b]));
    let pair = order.windows(2).find(|pair| ids[pair[1]].starts_with(&ids[pair[0]]))?;
    Some((pair[0], pair[1]))
}

/// The number of tokens with which all begin, where each keeps one of its own.
fn common(ids: &[Vec<u32>]) -> usize {
    let first = &ids[0];
    let shared = |other: &Vec<u32>| {
        let own = &other[..other.len().saturating_sub(1)];
        first.iter().zip(own).take_while(|(a, b)| a == b).count()
    };
    ids.iter().map(shared).min().unwrap_or(0)
}

fn collision(writer: &Writer<'_>, pair: (usize, usize), ids: &[Vec<u32>]) -> Error {
    let task = writer.task();
    let [first, second] = [pair.0, pair.1].map(|index| task.labels[index].text.clone());
    let id = task.id.clone();
    if ids[pair.0] == ids[pair.1] {
        return Error::LabelsCollide { task: id, first, second };
    }
    Error::LabelBegins { task: id, first, second }
}

/// Refuses labels that are other tokens here than at the first place.
fn agree(
    writer: &Writer<'_>,
    place: Place,
    known: &[Vec<u32>],
    found: &[Vec<u32>],
) -> Result<(), Error> {
    let differs = known.iter().zip(found).position(|(known, found)| known != found);
    let Some(index) = differs else { return Ok(()) };
    let piece = |ids: &[u32]| writer.piece(ids);
    Err(Error::LabelsDisagree {
        task: writer.task().id.clone(),
        place,
        label: writer.task().labels[index].text.clone(),
        found: piece(&found[index]),
        expected: piece(&known[index]),
    })
}

fn other_pieces(writer: &Writer<'_>, place: Place) -> Error {
    let task = writer.task();
    Error::LabelsDisagree {
        task: task.id.clone(),
        place,
        label: task.labels[0].text.clone(),
        found: "other tokens".to_owned(),
        expected: "those of the other prompts".to_owned(),
    }
}
