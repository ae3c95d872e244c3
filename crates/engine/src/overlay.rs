//! A model with an update in it: copies of what the update touches, beside the model itself.

use crate::block_kind::BlockKind;
use crate::matrix::Matrix;
use crate::network::{KINDS, Network};
use crate::ops::NormWeights;
use crate::real::Real;
use crate::update::{Part, Update};

/// Copies of the matrices and norms that an update touches, with the update added.
#[derive(Clone, Debug)]
pub(crate) struct Overlay<R> {
    /// By layer, then kind.
    matrices: Vec<Option<Matrix<R>>>,
    /// By layer: in front of attention and of the MLP.
    norms: Vec<Option<[NormWeights<R>; 2]>>,
    /// Room for the change of a whole matrix.
    whole: Vec<R>,
}

impl<R: Real> Overlay<R> {
    /// The weights as they are.
    pub(crate) fn none(model: &Network<R>) -> Self {
        let layers = model.layers.len();
        Self {
            matrices: std::iter::repeat_with(|| None).take(layers * KINDS).collect(),
            norms: vec![None; layers],
            whole: Vec::new(),
        }
    }

    /// The matrix with its update, if it has one.
    fn get(&self, layer: usize, kind: BlockKind) -> Option<&Matrix<R>> {
        self.matrices[layer * KINDS + kind as usize].as_ref()
    }

    /// `W + θ` for the blocks of an update.
    pub(crate) fn set(&mut self, model: &Network<R>, update: &Update<R>) {
        let Self { matrices, norms, whole } = self;
        update.for_each_part(model.config(), whole, |Part { layer, kind, place, change }| {
            let own = &model.layers[layer];
            if kind == BlockKind::Norm {
                let (attention, mlp) = change.split_at(change.len() / 2);
                let updated =
                    [own.attention_norm.updated(attention), own.mlp_norm.updated(mlp)];
                norms[layer] = Some(updated);
                return;
            }
            let own = &own.linear(kind).weight;
            let index = layer * KINDS + kind as usize;
            let updated = matrices[index].get_or_insert_with(|| own.copy());
            updated.set_block(own, place, change);
        });
    }
}

impl<R: Real> Network<R> {
    /// A matrix, as updated.
    pub(crate) fn matrix<'a>(
        &'a self,
        overlay: &'a Overlay<R>,
        layer: usize,
        kind: BlockKind,
    ) -> &'a Matrix<R> {
        overlay.get(layer, kind).unwrap_or_else(|| &self.layers[layer].linear(kind).weight)
    }

    /// The norms of a layer, in front of attention and of the MLP, as updated.
    pub(crate) fn norms<'a>(
        &'a self,
        overlay: &'a Overlay<R>,
        layer: usize,
    ) -> [&'a NormWeights<R>; 2] {
        let own = &self.layers[layer];
        match &overlay.norms[layer] {
            None => [&own.attention_norm, &own.mlp_norm],
            Some([attention, mlp]) => [attention, mlp],
        }
    }
}
