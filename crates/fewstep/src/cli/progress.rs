//! Where a run is: a bar on a terminal, and nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};

/// A progress bar on standard error, or nothing if that is not a terminal.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    tasks: u64,
    loss: Option<f64>,
}

impl Bar {
    /// A bar for a number of bytes of tasks; without one it only counts.
    #[must_use]
    pub fn new(bytes: Option<u64>) -> Self {
        let (length, template) = match bytes {
            Some(bytes) => (bytes, "{msg} {wide_bar} {percent:>3} % {eta:>4} left"),
            None => (0, "{msg} {spinner}"),
        };
        Self::with_template(length, template)
    }

    fn with_template(length: u64, template: &str) -> Self {
        let bar = if io::stderr().is_terminal() {
            ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr())
        } else {
            ProgressBar::hidden()
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is right"));
        Self { bar, tasks: 0, loss: None }
    }

    /// A bar for a number of steps, some of which were taken before.
    #[must_use]
    pub fn of_steps(steps: usize, begun: usize) -> Self {
        let template = "{msg} {wide_bar} {pos}/{len} {eta:>4} left";
        let bar = Self::with_template(steps as u64, template);
        bar.begin_at(begun);
        bar
    }

    /// Shows the step that was taken, and the loss, smoothed.
    pub fn show_step(&mut self, step: usize, loss: f64) {
        const KEPT: f64 = 0.98;
        let smooth = self.loss.map_or(loss, |mean| KEPT * mean + (1.0 - KEPT) * loss);
        self.loss = Some(smooth);
        self.bar.set_message(format!("loss {smooth:.3}"));
        self.bar.set_position(step as u64);
    }

    /// Shows how many tasks are done.
    pub fn show_task(&self, done: usize) {
        self.bar.set_message("adapting");
        self.bar.set_position(done as u64);
    }

    /// Shows the part that begins.
    pub fn show_part(&self, what: &str, done: usize, total: usize) {
        self.bar.set_message(what.to_owned());
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
    }

    /// Sets what was done before; the remaining time is estimated from new work alone.
    pub fn begin_at(&self, done: usize) {
        self.bar.set_position(done as u64);
        self.bar.reset_eta();
    }

    /// A bar for a download.
    #[must_use]
    pub fn of_download(bytes: u64) -> Self {
        let bar = Self::new(Some(bytes));
        bar.bar.set_position(0);
        bar
    }

    /// Shows how much of a download is there.
    pub fn show_download(&self, file: &str, done: u64) {
        self.bar.set_message(file.to_owned());
        self.bar.set_position(done);
    }

    /// One task more; the input is done up to `end`.
    pub fn advance(&mut self, end: u64) {
        self.tasks += 1;
        let seconds = self.bar.elapsed().as_secs_f64();
        let rate = if seconds > 0.0 { self.tasks as f64 / seconds } else { 0.0 };
        self.bar.set_message(format!("{} tasks, {rate:.1}/s", self.tasks));
        self.bar.set_position(end);
    }

    /// Does something with the bar hidden.
    pub fn aside<T>(&self, action: impl FnOnce() -> T) -> T {
        self.bar.suspend(action)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
