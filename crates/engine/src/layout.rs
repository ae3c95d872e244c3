//! Sequences of tokens packed side by side, with or without sharing what they begin with.
//!
//! In: token ids of several prompts. Out: [`Layout`], rows of tokens without any padding, cut
//! into segments. A token sees the segments above its own and its own up to itself. One
//! description serves both cases: separate sequences, and a tree of shared beginnings in which
//! every token is computed once. The leave-one-out prompts of a task share much.

use crate::error::Error;
use std::ops::Range;

/// A run of tokens that the same sequences go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its rows.
    pub(crate) rows: Range<usize>,
    /// The rows above it, root first; adjacent ones are joined. Rows that were computed before the
    /// layout's own are counted, too.
    pub(crate) ancestors: Vec<Range<usize>>,
}

/// Tokens of several sequences, packed into rows.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, Layout};
///
/// let prompts = [vec![7, 8, 9], vec![7, 8, 5, 6]];
/// assert_eq!(Layout::plain(&prompts)?.rows(), 7);
/// assert_eq!(Layout::shared(&prompts)?.rows(), 5);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    tokens: Vec<u32>,
    positions: Vec<usize>,
    segments: Vec<Segment>,
    /// The row of each sequence's last token, and its segment.
    readouts: Vec<(usize, usize)>,
    lengths: Vec<usize>,
    /// The number of tokens before all of these that were computed earlier. What a token sees is
    /// counted from the first of them, rows from the first behind them.
    behind: usize,
}

impl Layout {
    /// Each sequence by itself.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without sequences, [`Error::EmptySequence`] for one without tokens.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Layout};
    /// assert_eq!(Layout::plain(&[vec![1, 2], vec![1, 2]])?.rows(), 4);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn plain(sequences: &[Vec<u32>]) -> Result<Self, Error> {
        check(sequences)?;
        let mut layout = Self::empty(sequences);
        for (index, sequence) in sequences.iter().enumerate() {
            layout.push(sequence, Vec::new(), 0);
            layout.readouts[index] = (layout.tokens.len() - 1, index);
        }
        Ok(layout)
    }

    /// A tree: tokens that sequences begin with in common are there once.
    ///
    /// Predictions are those of [`Layout::plain`] up to rounding. The adjoint of a shared token
    /// is the sum over its sequences, which is what the gradient of a sum needs.
    ///
    /// # Errors
    ///
    /// As [`Layout::plain`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Layout};
    /// assert_eq!(Layout::shared(&[vec![1, 2], vec![1, 2], vec![1]])?.rows(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn shared(sequences: &[Vec<u32>]) -> Result<Self, Error> {
        Self::shared_within(sequences, &vec![usize::MAX; sequences.len().saturating_sub(1)])
    }

    /// As [`Layout::shared`], but neighbours share a limited number of their first tokens:
    /// sequences `i < j` at most the smallest of `limits[i..j]`.
    ///
    /// Which tokens agree further on may depend on an answer that a sequence must not see; with
    /// limits that do not, neither does the order in which its numbers are summed.
    pub(crate) fn shared_within(
        sequences: &[Vec<u32>],
        limits: &[usize],
    ) -> Result<Self, Error> {
        check(sequences)?;
        let mut layout = Self::empty(sequences);
        let all: Vec<usize> = (0..sequences.len()).collect();
        let sequences = &Limited { sequences, limits };
        // Depth first, first sequence first: (members, tokens already placed, spans above).
        let mut open: Vec<(Vec<usize>, usize, Vec<Range<usize>>)> = split(sequences, &all, 0)
            .into_iter()
            .rev()
            .map(|members| (members, 0, Vec::new()))
            .collect();
        while let Some((members, depth, ancestors)) = open.pop() {
            let end = common_length(sequences, &members, depth);
            let first = layout.tokens.len();
            let segment = layout.segments.len();
            layout.push(&sequences.tokens(members[0])[depth..end], ancestors.clone(), depth);
            for &member in &members {
                if sequences.tokens(member).len() == end {
                    layout.readouts[member] = (first + end - depth - 1, segment);
                }
            }
            let mut below = ancestors;
            match below.last_mut() {
                Some(last) if last.end == first => last.end = layout.tokens.len(),
                _ => below.push(first..layout.tokens.len()),
            }
            for members in split(sequences, &members, end).into_iter().rev() {
                open.push((members, end, below.clone()));
            }
        }
        Ok(layout)
    }

    /// Sequences that begin after some tokens that were computed earlier, and share what they begin
    /// with, within limits.
    pub(crate) fn shared_behind(
        computed: usize,
        sequences: &[Vec<u32>],
        limits: &[usize],
    ) -> Result<Self, Error> {
        let mut layout = Self::shared_within(sequences, limits)?;
        layout.behind = computed;
        layout.positions.iter_mut().for_each(|position| *position += computed);
        layout.lengths.iter_mut().for_each(|length| *length += computed);
        for segment in &mut layout.segments {
            for span in &mut segment.ancestors {
                *span = span.start + computed..span.end + computed;
            }
            match segment.ancestors.first_mut() {
                Some(first) if first.start == computed => first.start = 0,
                _ if computed > 0 => segment.ancestors.insert(0, 0..computed),
                _ => {}
            }
        }
        Ok(layout)
    }

    /// Each sequence by itself, behind tokens that were computed earlier and that all of them see.
    ///
    /// # Errors
    ///
    /// As [`Layout::plain`].
    pub(crate) fn behind(computed: usize, sequences: &[Vec<u32>]) -> Result<Self, Error> {
        check(sequences)?;
        let mut layout = Self { behind: computed, ..Self::empty(sequences) };
        for (index, sequence) in sequences.iter().enumerate() {
            let seen =
                if computed > 0 { std::iter::once(0..computed).collect() } else { vec![] };
            layout.push(sequence, seen, computed);
            layout.readouts[index] = (layout.tokens.len() - 1, index);
            layout.lengths[index] += computed;
        }
        Ok(layout)
    }

    /// The same rows, where sequence `i` is called `names[i]`.
    pub(crate) fn renumbered(mut self, names: &[usize]) -> Self {
        let (readouts, lengths) = (self.readouts.clone(), self.lengths.clone());
        for (index, &name) in names.iter().enumerate() {
            (self.readouts[name], self.lengths[name]) = (readouts[index], lengths[index]);
        }
        self
    }

    fn empty(sequences: &[Vec<u32>]) -> Self {
        Self {
            tokens: Vec::new(),
            positions: Vec::new(),
            segments: Vec::new(),
            readouts: vec![(0, 0); sequences.len()],
            lengths: sequences.iter().map(Vec::len).collect(),
            behind: 0,
        }
    }

    /// Appends a segment whose first token stands at `position`.
    fn push(&mut self, tokens: &[u32], ancestors: Vec<Range<usize>>, position: usize) {
        let first = self.tokens.len();
        self.tokens.extend_from_slice(tokens);
        self.positions.extend(position..position + tokens.len());
        self.segments.push(Segment { rows: first..self.tokens.len(), ancestors });
    }

    /// The same rows without those that only the last sequence has, if these come last, and
    /// without that sequence.
    pub(crate) fn without_last(&self) -> Option<Self> {
        let sequences = self.sequences() - 1;
        let used = |segment: &Segment| {
            (0..sequences).any(|index| {
                let (_, own) = self.readouts[index];
                let mut seen = self.segments[own].ancestors.iter();
                seen.any(|span| span.contains(&(self.behind + segment.rows.start)))
                    || self.segments[own].rows == segment.rows
            })
        };
        let kept = self.segments.iter().take_while(|segment| used(segment)).count();
        if kept == 0 || self.segments[kept..].iter().any(used) {
            return None;
        }
        let rows = self.segments[kept - 1].rows.end;
        Some(Self {
            tokens: self.tokens[..rows].to_vec(),
            positions: self.positions[..rows].to_vec(),
            segments: self.segments[..kept].to_vec(),
            readouts: self.readouts[..sequences].to_vec(),
            lengths: self.lengths[..sequences].to_vec(),
            behind: self.behind,
        })
    }

    /// The same sequences, each by itself, and the row that each of its rows is a copy of.
    pub(crate) fn separated(&self) -> (Self, Vec<usize>) {
        let mut layout = Self {
            tokens: Vec::new(),
            positions: Vec::new(),
            segments: Vec::new(),
            readouts: Vec::new(),
            lengths: self.lengths.clone(),
            behind: 0,
        };
        let mut rows = Vec::new();
        for sequence in 0..self.sequences() {
            let first = rows.len();
            rows.extend(self.seen_by(sequence).into_iter().flatten());
            let tokens: Vec<u32> = rows[first..].iter().map(|&row| self.tokens[row]).collect();
            layout.push(&tokens, Vec::new(), 0);
            layout.readouts.push((rows.len() - 1, sequence));
        }
        (layout, rows)
    }

    /// Some of the sequences of a layout in which every sequence is by itself.
    fn part(&self, sequences: Range<usize>) -> Self {
        let first = self.segments[sequences.start].rows.start;
        let rows = first..self.segments[sequences.end - 1].rows.end;
        let segments = self.segments[sequences.clone()].iter();
        let moved = |rows: &Range<usize>| rows.start - first..rows.end - first;
        let readouts = self.readouts[sequences.clone()].iter().enumerate();
        Self {
            tokens: self.tokens[rows.clone()].to_vec(),
            positions: self.positions[rows].to_vec(),
            segments: segments
                .map(|segment| Segment { rows: moved(&segment.rows), ancestors: Vec::new() })
                .collect(),
            readouts: readouts.map(|(index, &(row, _))| (row - first, index)).collect(),
            lengths: self.lengths[sequences].to_vec(),
            behind: 0,
        }
    }

    /// The sequences of a layout in which every sequence is by itself, a few at a time:
    /// at least one, and otherwise at most `most` rows together.
    pub(crate) fn parts(&self, most: usize) -> Vec<(Range<usize>, Self)> {
        parts(&self.lengths, most).map(|range| (range.clone(), self.part(range))).collect()
    }

    /// Number of tokens that are computed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Layout};
    /// assert_eq!(Layout::plain(&[vec![4, 4, 4]])?.rows(), 3);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// Number of sequences.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Layout};
    /// assert_eq!(Layout::shared(&[vec![1], vec![1]])?.sequences(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn sequences(&self) -> usize {
        self.readouts.len()
    }

    /// Length of each sequence in tokens.
    pub(crate) fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Token id of each row.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Position of each row in its sequence.
    pub(crate) fn positions(&self) -> &[usize] {
        &self.positions
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The row of each sequence's last token.
    pub(crate) fn readout_rows(&self) -> impl Iterator<Item = usize> {
        self.readouts.iter().map(|&(row, _)| row)
    }

    /// What the last token of a sequence sees: spans of rows, root first, itself included.
    pub(crate) fn seen_by(&self, sequence: usize) -> Vec<Range<usize>> {
        let (row, segment) = self.readouts[sequence];
        let Segment { rows, ancestors } = &self.segments[segment];
        let (first, end) = (self.behind + rows.start, self.behind + row + 1);
        let mut spans = ancestors.clone();
        match spans.last_mut() {
            Some(last) if last.end == first => last.end = end,
            _ => spans.push(first..end),
        }
        spans
    }

    /// How many tokens before these were computed earlier.
    pub(crate) fn computed_before(&self) -> usize {
        self.behind
    }

    /// How many tokens can be seen: these, and those that were computed earlier.
    pub(crate) fn seen_rows(&self) -> usize {
        self.behind + self.rows()
    }
}

/// Ranges of sequences, each with at most `most` tokens together, but at least one sequence.
pub(crate) fn parts(lengths: &[usize], most: usize) -> impl Iterator<Item = Range<usize>> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let start = first;
        let mut rows = *lengths.get(start)?;
        first += 1;
        while let Some(&length) = lengths.get(first).filter(|&&length| rows + length <= most) {
            rows += length;
            first += 1;
        }
        Some(start..first)
    })
}

fn check(sequences: &[Vec<u32>]) -> Result<(), Error> {
    if sequences.is_empty() {
        return Err(Error::Empty { quantity: "list of sequences" });
    }
    match sequences.iter().position(Vec::is_empty) {
        Some(sequence) => Err(Error::EmptySequence { sequence }),
        None => Ok(()),
    }
}

/// Members that continue after `depth`, grouped by their next token, in order of first appearance.
fn split(sequences: &Limited<'_>, members: &[usize], depth: usize) -> Vec<Vec<usize>> {
    let mut groups: Vec<(u32, Vec<usize>)> = Vec::new();
    let (mut joinable, mut before) = (0, None);
    for &member in members {
        // Past a limit no group continues, whatever the tokens are.
        if before.is_some_and(|before| sequences.limit(before, member) <= depth) {
            joinable = groups.len();
        }
        before = Some(member);
        let Some(&token) = sequences.tokens(member).get(depth) else { continue };
        match groups[joinable..].iter_mut().find(|(other, _)| *other == token) {
            Some((_, group)) => group.push(member),
            None => groups.push((token, vec![member])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Sequences, and the number of first tokens that each may share with the next.
struct Limited<'a> {
    sequences: &'a [Vec<u32>],
    limits: &'a [usize],
}

impl Limited<'_> {
    fn tokens(&self, sequence: usize) -> &[u32] {
        &self.sequences[sequence]
    }

    /// How many of their first tokens two sequences, in their order, may share.
    fn limit(&self, first: usize, last: usize) -> usize {
        self.limits[first..last].iter().copied().min().unwrap_or(usize::MAX)
    }
}

/// The length up to which all members share, given that they do beyond `depth`.
fn common_length(sequences: &Limited<'_>, members: &[usize], depth: usize) -> usize {
    let first = sequences.tokens(members[0]);
    let limit = sequences.limit(members[0], members[members.len() - 1]);
    let longest = first.len().min(limit);
    members[1..].iter().fold(longest, |length, &member| {
        let pairs = first[depth..length].iter().zip(&sequences.tokens(member)[depth..]);
        depth + pairs.take_while(|(a, b)| a == b).count()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each row sees, spelled out, as tokens: its ancestors and itself.
    fn paths(layout: &Layout) -> Vec<Vec<u32>> {
        (0..layout.sequences())
            .map(|sequence| {
                let rows = layout.seen_by(sequence).into_iter().flatten();
                rows.map(|row| layout.tokens()[row]).collect()
            })
            .collect()
    }

    fn cases() -> Vec<Vec<Vec<u32>>> {
        let mut rng = fewstep_core::Rng::new(5);
        let mut cases = vec![
            vec![vec![1]],
            vec![vec![1], vec![1]],
            vec![vec![1, 2, 3], vec![1], vec![1, 2]],
            vec![vec![1, 2], vec![3, 4], vec![1, 2, 5, 6], vec![1, 2, 5, 7], vec![3]],
        ];
        for _ in 0..200 {
            let sequence = |rng: &mut fewstep_core::Rng| -> Vec<u32> {
                let length = 1 + rng.below(9);
                (0..length).map(|_| u32::try_from(rng.below(2)).unwrap()).collect()
            };
            let count = 1 + rng.below(7);
            cases.push((0..count).map(|_| sequence(&mut rng)).collect());
        }
        cases
    }

    #[test]
    fn every_sequence_is_the_path_to_its_last_token() {
        for sequences in cases() {
            for layout in [Layout::plain(&sequences), Layout::shared(&sequences)] {
                assert_eq!(paths(&layout.unwrap()), sequences, "{sequences:?}");
            }
        }
    }

    #[test]
    fn a_tree_has_one_row_per_distinct_beginning() {
        for sequences in cases() {
            let layout = Layout::shared(&sequences).unwrap();
            let mut beginnings: Vec<&[u32]> = sequences
                .iter()
                .flat_map(|sequence| (1..=sequence.len()).map(|end| &sequence[..end]))
                .collect();
            beginnings.sort_unstable();
            beginnings.dedup();
            assert_eq!(layout.rows(), beginnings.len(), "{sequences:?}");
        }
    }

    /// Two sequences share a row if they begin alike up to it and no limit between them is passed.
    #[test]
    fn nothing_is_shared_beyond_a_limit() {
        let mut rng = fewstep_core::Rng::new(6);
        for sequences in cases() {
            let limits: Vec<usize> = sequences[1..].iter().map(|_| rng.below(9)).collect();
            let layout = Layout::shared_within(&sequences, &limits).unwrap();
            assert_eq!(paths(&layout), sequences, "{limits:?}");
            let shared = |i: usize, j: usize, at: usize| {
                sequences[i].get(..=at) == Some(&sequences[j][..=at])
                    && limits[i..j].iter().all(|&limit| at < limit)
            };
            let new = |j: usize, at: usize| !(0..j).any(|i| shared(i, j, at));
            let rows = (0..sequences.len())
                .map(|j| (0..sequences[j].len()).filter(|&at| new(j, at)).count());
            assert_eq!(layout.rows(), rows.sum::<usize>(), "{sequences:?}, {limits:?}");
        }
    }

    /// Where the last sequence's own rows come last, the others are the same tree without them.
    #[test]
    fn the_last_sequence_can_be_left_out() {
        let mut left_out = 0;
        for sequences in cases() {
            let tree = Layout::shared(&sequences).unwrap();
            let others = &sequences[..sequences.len() - 1];
            let rows_of = |layout: &Layout, sequence| -> Vec<usize> {
                layout.seen_by(sequence).into_iter().flatten().collect()
            };
            let mut used: Vec<usize> =
                (0..others.len()).flat_map(|sequence| rows_of(&tree, sequence)).collect();
            used.sort_unstable();
            used.dedup();
            let first = !others.is_empty() && used.iter().copied().eq(0..used.len());
            match tree.without_last() {
                None => assert!(!first, "{sequences:?}"),
                Some(layout) => {
                    left_out += 1;
                    assert_eq!(layout.rows(), used.len(), "{sequences:?}");
                    assert_eq!(paths(&layout), others, "{sequences:?}");
                    assert_eq!(layout.segments(), &tree.segments()[..layout.segments().len()]);
                }
            }
        }
        assert!(left_out > 100, "{left_out}");
    }

    #[test]
    fn a_tree_is_taken_apart_into_its_sequences() {
        for sequences in cases() {
            let tree = Layout::shared(&sequences).unwrap();
            let (plain, rows) = tree.separated();
            assert_eq!(plain, Layout::plain(&sequences).unwrap());
            let found: Vec<(u32, usize)> =
                rows.iter().map(|&row| (tree.tokens()[row], tree.positions()[row])).collect();
            let expected = sequences.iter().flat_map(|s| s.iter().copied().zip(0..));
            assert_eq!(found, expected.collect::<Vec<_>>(), "{sequences:?}");
        }
    }

    #[test]
    fn parts_are_the_sequences_a_few_at_a_time() {
        for sequences in cases() {
            let layout = Layout::plain(&sequences).unwrap();
            for most in [1, 4, 9, 100] {
                let mut found = Vec::new();
                for (range, part) in layout.parts(most) {
                    assert_eq!(range.start, found.len());
                    assert_eq!(part, Layout::plain(&sequences[range.clone()]).unwrap());
                    assert!(range.len() == 1 || part.rows() <= most);
                    let next = sequences.get(range.end).map_or(most, Vec::len);
                    assert!(part.rows() + next > most || range.end == sequences.len());
                    found.extend(paths(&part));
                }
                assert_eq!(found, sequences);
            }
        }
    }

    #[test]
    fn positions_count_the_tokens_that_are_seen_before() {
        for sequences in cases() {
            let layout = Layout::shared(&sequences).unwrap();
            for segment in layout.segments() {
                let above: usize = segment.ancestors.iter().map(Range::len).sum();
                for (offset, row) in segment.rows.clone().enumerate() {
                    assert_eq!(layout.positions()[row], above + offset);
                }
            }
        }
    }

    #[test]
    fn nothing_and_an_empty_sequence_are_refused() {
        assert_eq!(Layout::plain(&[]), Err(Error::Empty { quantity: "list of sequences" }));
        let refused = Layout::shared(&[vec![1], vec![]]);
        assert_eq!(refused, Err(Error::EmptySequence { sequence: 1 }));
    }
}
