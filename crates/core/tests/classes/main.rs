//! Tasks of classes: steps taken literally in parameter space, leave-one-out by refitting, and every
//! number of a decision against another way to it.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]
#![allow(clippy::float_cmp, reason = "the same computation must give the same bits")]

mod edges;
mod evidence;
mod folds;
mod forms;
mod losses;
mod pool;
mod sets;
mod steps;
mod support;
