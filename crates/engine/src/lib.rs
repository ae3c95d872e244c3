//! The Transformer side of fewstep; nothing is here yet.
