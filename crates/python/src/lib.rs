//! Python bindings; nothing is here yet.
