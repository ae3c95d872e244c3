//! Bounds as Python sees them.

use fewstep_theory::pac_bayes;

crate::record! {
    /// A bound on the population risk that holds with a stated confidence.
    Bound from found: pac_bayes::Bound {
        /// Evidence plus slack: the population risk is at most this.
        bound: f64 = found.bound,
        /// What is added to the evidence.
        slack: f64 = found.slack,
        /// How often the bound holds, at least.
        confidence: f64 = found.confidence,
        /// The inverse temperature at which it was derived.
        inverse_temperature: f64 = found.inverse_temperature,
    }
}

crate::record! {
    /// A bound on the normalised Bayes gap before residuals are seen, in its four terms.
    ///
    ///     bound = 4σ² (approximation + selection + fluctuation + tail)             (Thm. E.19)
    VanishingGap from found: pac_bayes::VanishingGap {
        /// How well the comparator fits the reference.
        approximation: f64 = found.approximation,
        /// The price of choosing.
        selection: f64 = found.selection,
        /// How much the comparator's evidence fluctuates.
        fluctuation: f64 = found.fluctuation,
        /// How much more its largest mode may fluctuate.
        tail: f64 = found.tail,
        /// Four times the noise variance times their sum.
        bound: f64 = found.bound,
        /// How often the bound holds, at least.
        confidence: f64 = found.confidence,
    }
}
