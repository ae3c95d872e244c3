//! The service, from outside: the program is started, and clients talk to it as any would.
#![allow(clippy::disallowed_methods, reason = "nobody waits for ever for a service")]

mod access;
mod bytes;
mod cache;
pub(crate) mod client;
mod fairness;
mod life;
mod limits;
mod lists;
mod meaning;
mod metrics;
mod policy;
mod routes;
mod schema;
