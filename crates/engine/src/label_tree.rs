//! The labels of a task as a tree: each edge is a token, each label a path from the root.
//!
//! In: the tokens of every label. Out: [`LabelTree`]. At its root stands the prompt; at every other
//! inner node the prompt and the first tokens of the labels below, which are asked about once.

/// Labels that share what they begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelTree {
    /// The tokens between the root and each inner node; the root is first, with none.
    nodes: Vec<Vec<u32>>,
    /// The node and the token of each edge, by nodes.
    edges: Vec<(usize, u32)>,
    /// The edges of each label, from the root on.
    paths: Vec<Vec<usize>>,
}

impl LabelTree {
    /// The tree of labels of which none is empty and none begins with another.
    pub(crate) fn new(labels: &[Vec<u32>]) -> Self {
        let mut nodes = vec![Vec::new()];
        let mut found: Vec<(usize, u32)> = Vec::new();
        let mut paths = Vec::with_capacity(labels.len());
        for label in labels {
            let mut node = 0;
            let mut path = Vec::with_capacity(label.len());
            for (depth, &token) in label.iter().enumerate() {
                let edge = found.iter().position(|&edge| edge == (node, token));
                path.push(edge.unwrap_or(found.len()));
                if edge.is_none() {
                    found.push((node, token));
                }
                let above = &label[..=depth];
                if depth + 1 < label.len() {
                    let below = nodes.iter().position(|other| other[..] == *above);
                    node = below.unwrap_or(nodes.len());
                    if below.is_none() {
                        nodes.push(above.to_vec());
                    }
                }
            }
            paths.push(path);
        }
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by_key(|&edge| found[edge].0);
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old] = new;
        }
        for path in &mut paths {
            path.iter_mut().for_each(|edge| *edge = place[*edge]);
        }
        let edges = order.into_iter().map(|edge| found[edge]).collect();
        Self { nodes, edges, paths }
    }

    /// The number of inner nodes: of questions per prompt.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The node and the token of each edge.
    pub(crate) fn edges(&self) -> &[(usize, u32)] {
        &self.edges
    }

    /// The edges of each label.
    pub(crate) fn paths(&self) -> &[Vec<usize>] {
        &self.paths
    }

    /// The number of tokens of the longest label.
    pub(crate) fn longest(&self) -> usize {
        self.paths.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// A prompt as it is asked at every inner node.
    pub(crate) fn questions<'a>(
        &'a self,
        prompt: &'a [u32],
    ) -> impl Iterator<Item = Vec<u32>> + 'a {
        self.nodes.iter().map(move |node| [prompt, node].concat())
    }

    /// Sums over the edges of each label: `[labels]` from `[edges]`.
    pub(crate) fn sums(&self, edges: &[f64]) -> Vec<f64> {
        let sum = |path: &Vec<usize>| path.iter().map(|&edge| edges[edge]).sum();
        self.paths.iter().map(sum).collect()
    }

    /// Products of labels from products of edges: `[prompts · labels, others · labels]` from
    /// `[prompts · edges, others · edges]`, of which the first prompts and others are taken.
    pub(crate) fn products(
        &self,
        edges: &[f64],
        columns: usize,
        prompts: std::ops::Range<usize>,
        others: usize,
    ) -> Vec<f64> {
        let count = self.edges.len();
        let mut products = Vec::with_capacity(prompts.len() * others * self.paths.len().pow(2));
        for prompt in prompts {
            for path in &self.paths {
                let rows = path
                    .iter()
                    .map(|&edge| &edges[(prompt * count + edge) * columns..][..others * count]);
                let rows: Vec<&[f64]> = rows.collect();
                for other in 0..others {
                    for path in &self.paths {
                        let places = path.iter().map(|&edge| other * count + edge);
                        let sum = |place: usize| rows.iter().map(|row| row[place]).sum::<f64>();
                        products.push(places.map(sum).sum());
                    }
                }
            }
        }
        products
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_labels_begin_with_is_asked_once() {
        let labels = [vec![7], vec![5, 1], vec![5, 2, 3], vec![5, 2, 4]];
        let tree = LabelTree::new(&labels);
        assert_eq!(tree.nodes, [vec![], vec![5], vec![5, 2]]);
        assert_eq!(tree.edges, [(0, 7), (0, 5), (1, 1), (1, 2), (2, 3), (2, 4)]);
        assert_eq!(tree.paths, [vec![0], vec![1, 2], vec![1, 3, 4], vec![1, 3, 5]]);
        let asked: Vec<Vec<u32>> = tree.questions(&[9, 8]).collect();
        assert_eq!(asked, [vec![9, 8], vec![9, 8, 5], vec![9, 8, 5, 2]]);
        assert_eq!(tree.sums(&[1.0, 10.0, 2.0, 20.0, 3.0, 4.0]), [1.0, 12.0, 33.0, 34.0]);
        assert_eq!(tree.longest(), 3);
    }

    #[test]
    fn edges_stand_by_their_nodes_whatever_the_order_of_labels() {
        let labels = [vec![1, 2], vec![3], vec![1, 4], vec![5, 6]];
        let tree = LabelTree::new(&labels);
        assert!(tree.edges.is_sorted_by_key(|edge| edge.0));
        for (label, path) in labels.iter().zip(&tree.paths) {
            let tokens: Vec<u32> = path.iter().map(|&edge| tree.edges[edge].1).collect();
            assert_eq!(&tokens, label);
        }
    }

    #[test]
    fn products_are_sums_over_both_paths() {
        let tree = LabelTree::new(&[vec![7], vec![5, 1]]);
        // Two prompts with three edges each: entries 10 · row + column.
        let edges: Vec<f64> =
            (0..36).map(|at| f64::from(at / 6) * 10.0 + f64::from(at % 6)).collect();
        let whole = tree.products(&edges, 6, 0..2, 2);
        assert_eq!(whole.len(), 16);
        // Label 1 of prompt 0 with label 1 of prompt 1: rows 1 and 2, columns 4 and 5.
        assert_eq!(whole[4 + 3].to_bits(), (14.0_f64 + 15.0 + 24.0 + 25.0).to_bits());
        assert_eq!(
            tree.products(&edges, 6, 1..2, 1),
            [30.0, 31.0 + 32.0, 40.0 + 50.0, 41.0 + 42.0 + 51.0 + 52.0]
        );
    }
}
