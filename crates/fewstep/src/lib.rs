//! Tasks, reports, experiments and the command line; nothing is here yet.
