//! Policies: what they are in JSON, and what overrides make of them.

use crate::Lines;
use fewstep_core::{Error, Overrides, Policy};

fn bytes(text: &str) -> impl Iterator<Item = f64> {
    text.bytes().map(f64::from)
}

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let overrides = Overrides {
        select: Some("random".parse()?),
        budget: Some(2),
        seed: Some(7),
        horizon: Some("gibbs".parse()?),
        horizons: Some("0..4".parse()?),
        ..Overrides::default()
    };
    for name in ["default", "paper"] {
        let policy = Policy::named(name)?;
        lines.add(&format!("Policy.to_json {name}"), bytes(&policy.to_json()));
        let other = overrides.of(&policy)?;
        lines.add(&format!("Policy.with_overrides {name}"), bytes(&other.to_json()));
        let differences = other.differences(&policy).join(" ");
        lines.add(&format!("Policy.differences {name}"), bytes(&differences));
        let looks = f64::from(u8::from(other.looks_at_query()));
        lines.add(&format!("Policy.looks_at_query {name}"), [looks]);
    }
    let json = r#"{"horizon": {"rule": "leave-one-out", "averaging": "query-weighted"}}"#;
    let read = Policy::from_json(json)?;
    lines.add("Policy.from_json", bytes(&read.to_json()));
    lines.add("Policy.from_json looks", [f64::from(u8::from(read.looks_at_query()))]);
    lines.add("Policy.paper", bytes(&Policy::paper().blocks));
    Ok(())
}
