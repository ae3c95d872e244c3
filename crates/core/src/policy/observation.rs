//! How a task is looked at: which part of a derivative is taken, what an example is predicted
//! behind, and how many examples a prompt shows.
//!
//! A decision takes what was observed as it is, so these say how its geometry came about.

use super::bad;
use super::rules::refuse_others;
use crate::error::Error;
use crate::field::Field;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

/// The largest number of orders in which examples may be predicted.
pub const MOST_ORDERS: usize = 64;

/// The number of orders unless another one is given: that of the task, and the halves exchanged.
const ORDERS: usize = 2;

/// Which part of a prediction's derivative is taken.
///
/// | name | part |
/// |---|---|
/// | `whole` | the derivative: the sum over all tokens |
/// | `local` | the term of the token where the prediction is read (single-position form, Sec. 3.3) |
///
/// The local part needs the adjoint of one token per prediction instead of all.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Adjoint, Error, Policy};
///
/// assert_eq!("whole".parse::<Adjoint>()?, Policy::paper().adjoint);
/// assert_eq!(Adjoint::Local.to_string(), "local");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adjoint {
    /// The term of the token where the prediction is read.
    Local,
    /// The sum over all tokens.
    Whole,
}

impl fmt::Display for Adjoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Whole => "whole",
        })
    }
}

impl FromStr for Adjoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = [Self::Local, Self::Whole].into_iter().find(|all| all.to_string() == text);
        found.ok_or_else(|| Error::UnknownName {
            quantity: "adjoint",
            found: text.to_owned(),
            allowed: "local or whole",
        })
    }
}

/// The name of a rule for what an example is predicted behind.
///
/// | name | rule |
/// |---|---|
/// | `leave-one-out` | all other examples |
/// | `prefix` | the examples before it, in one pass per order |
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, ResidualsName};
///
/// assert_eq!("prefix".parse::<ResidualsName>()?, ResidualsName::Prefix);
/// assert!("suffix".parse::<ResidualsName>().is_err());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResidualsName {
    /// Behind all other examples.
    LeaveOneOut,
    /// Behind the examples before it.
    Prefix,
}

impl fmt::Display for ResidualsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaveOneOut => "leave-one-out",
            Self::Prefix => "prefix",
        })
    }
}

impl FromStr for ResidualsName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let all = [Self::LeaveOneOut, Self::Prefix];
        let found = all.into_iter().find(|rule| rule.to_string() == text);
        found.ok_or_else(|| Error::UnknownName {
            quantity: "residuals",
            found: text.to_owned(),
            allowed: "leave-one-out or prefix",
        })
    }
}

/// What an example is predicted behind, with the parameters of that rule and no others.
///
/// In JSON an object whose `rule` is a [`ResidualsName`], or that name alone.
///
/// | rule | parameters |
/// |---|---|
/// | `prefix` | `orders` (2, from 1 to 64): the order of the task, then its halves exchanged, then more |
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Policy, Residuals};
///
/// let policy = Policy::from_json(r#"{"residuals": "prefix"}"#)?;
/// assert_eq!(policy.residuals, Residuals::Prefix { orders: 2 });
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Residuals {
    /// Behind all other examples: one prompt per example.
    LeaveOneOut,
    /// Behind the examples before it: one pass per order predicts all examples.
    Prefix {
        /// The number of orders.
        orders: usize,
    },
}

impl Residuals {
    /// The rule of a name, with the parameters it has unless they are given.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Residuals, ResidualsName};
    ///
    /// let rule = Residuals::of_name(ResidualsName::Prefix);
    /// assert_eq!(rule, Residuals::Prefix { orders: 2 });
    /// ```
    #[must_use]
    pub fn of_name(name: ResidualsName) -> Self {
        match name {
            ResidualsName::LeaveOneOut => Self::LeaveOneOut,
            ResidualsName::Prefix => Self::Prefix { orders: ORDERS },
        }
    }

    /// The rule's name.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Policy, ResidualsName};
    ///
    /// assert_eq!(Policy::paper().residuals.name(), ResidualsName::LeaveOneOut);
    /// ```
    #[must_use]
    pub fn name(self) -> ResidualsName {
        match self {
            Self::LeaveOneOut => ResidualsName::LeaveOneOut,
            Self::Prefix { .. } => ResidualsName::Prefix,
        }
    }

    /// The rule of a name, the present one if that is its own, with the number of orders if it is
    /// given.
    pub(super) fn with(
        self,
        name: Option<ResidualsName>,
        given: Option<usize>,
    ) -> Result<Self, Error> {
        let kept = |name: &ResidualsName| *name == self.name();
        let rule = name.filter(|name| !kept(name)).map_or(self, Self::of_name);
        match (rule, given) {
            (Self::Prefix { .. }, Some(orders)) => Ok(Self::Prefix { orders }),
            (Self::LeaveOneOut, Some(orders)) => {
                let allowed = "omitted: leave-one-out residuals take no orders";
                Err(bad(Field::ORDERS, orders, allowed))
            }
            (rule, None) => Ok(rule),
        }
    }

    pub(super) fn check(self) -> Result<(), Error> {
        match self {
            Self::Prefix { orders } if !(1..=MOST_ORDERS).contains(&orders) => {
                Err(bad(Field::ORDERS, orders, &format!("from 1 to {MOST_ORDERS}")))
            }
            _ => Ok(()),
        }
    }
}

/// A rule as it is written: the parameters of all rules, of which each takes its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResidualsFields {
    rule: String,
    orders: Option<usize>,
}

impl TryFrom<ResidualsFields> for Residuals {
    type Error = String;

    fn try_from(mut fields: ResidualsFields) -> Result<Self, String> {
        let name: ResidualsName =
            fields.rule.parse().map_err(|error: Error| error.to_string())?;
        let mut rule = Self::of_name(name);
        if let Self::Prefix { orders } = &mut rule {
            *orders = fields.orders.take().unwrap_or(*orders);
        }
        refuse_others(&fields.rule, &[("orders", fields.orders.is_some())])?;
        Ok(rule)
    }
}

impl<'de> Deserialize<'de> for Residuals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl<'de> Visitor<'de> for Written {
            type Value = Residuals;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rule such as \"prefix\", or an object with its parameters")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Residuals, E> {
                name.parse().map(Residuals::of_name).map_err(E::custom)
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Residuals, M::Error> {
                let fields = ResidualsFields::deserialize(MapAccessDeserializer::new(map))?;
                fields.try_into().map_err(M::Error::custom)
            }
        }
        deserializer.deserialize_any(Written)
    }
}

/// How many examples a prompt shows; all of them are learnt from.
///
/// In JSON an object, or `most` alone: a number or `null`.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `most` | `null` | at most this number, from 1; `null`: as many as fit into the context |
/// | `seed` | 0 | seed of the draw of a fixed set, spread over the labels, where not all are shown |
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Policy, Shots};
///
/// let policy = Policy::from_json(r#"{"shots": 8}"#)?;
/// assert_eq!(policy.shots, Shots { most: Some(8), seed: 0 });
/// assert_eq!(Shots::default(), Shots { most: None, seed: 0 });
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shots {
    /// The largest number of examples in a prompt; `None`: as many as fit.
    pub most: Option<usize>,
    /// Seed of the draw, where not all examples are shown.
    pub seed: u64,
}

impl Shots {
    /// The same with another number, another seed, or both.
    pub(super) fn with(self, most: Option<usize>, seed: Option<u64>) -> Self {
        Self { most: most.or(self.most), seed: seed.unwrap_or(self.seed) }
    }

    pub(super) fn check(self) -> Result<(), Error> {
        match self.most {
            Some(0) => Err(bad(Field::SHOTS, 0, "from 1; omit it for as many as fit")),
            _ => Ok(()),
        }
    }
}

/// Shots as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShotsFields {
    most: Option<usize>,
    #[serde(default)]
    seed: u64,
}

impl<'de> Deserialize<'de> for Shots {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl<'de> Visitor<'de> for Written {
            type Value = Shots;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 1, null, or an object such as {\"most\": 8}")
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Shots, E> {
                Ok(Shots::default())
            }

            fn visit_u64<E: serde::de::Error>(self, most: u64) -> Result<Shots, E> {
                let most = usize::try_from(most).map_err(E::custom)?;
                Ok(Shots { most: Some(most), seed: 0 })
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Shots, M::Error> {
                let fields = ShotsFields::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Shots { most: fields.most, seed: fields.seed })
            }
        }
        deserializer.deserialize_any(Written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn read(json: &str) -> Policy {
        Policy::from_json(json).unwrap()
    }

    /// The only test that knows by which adjoint, residuals and shots the default policy looks.
    #[test]
    fn the_default_takes_local_derivatives_and_the_paper_whole_ones() {
        for (policy, adjoint) in
            [(Policy::default(), Adjoint::Local), (Policy::paper(), Adjoint::Whole)]
        {
            let seen = (policy.adjoint, policy.residuals, policy.shots);
            assert_eq!(seen, (adjoint, Residuals::LeaveOneOut, Shots::default()));
        }
    }

    #[test]
    fn rules_are_printed_as_objects_and_read_as_names_too() {
        let print = |residuals: Residuals| serde_json::to_string(&residuals).unwrap();
        assert_eq!(print(Residuals::LeaveOneOut), r#"{"rule":"leave-one-out"}"#);
        assert_eq!(print(Residuals::Prefix { orders: 3 }), r#"{"rule":"prefix","orders":3}"#);
        for (json, expected) in [
            (r#""leave-one-out""#, Residuals::LeaveOneOut),
            (r#"{"rule": "leave-one-out"}"#, Residuals::LeaveOneOut),
            (r#""prefix""#, Residuals::Prefix { orders: 2 }),
            (r#"{"rule": "prefix"}"#, Residuals::Prefix { orders: 2 }),
            (r#"{"orders": 64, "rule": "prefix"}"#, Residuals::Prefix { orders: 64 }),
        ] {
            assert_eq!(read(&format!(r#"{{"residuals": {json}}}"#)).residuals, expected);
        }
    }

    #[test]
    fn shots_are_an_object_or_a_number() {
        let print = |shots: Shots| serde_json::to_string(&shots).unwrap();
        assert_eq!(print(Shots::default()), r#"{"most":null,"seed":0}"#);
        let eight = Shots { most: Some(8), seed: 0 };
        assert_eq!(
            print(Shots { seed: u64::MAX, ..eight }),
            format!(r#"{{"most":8,"seed":{}}}"#, u64::MAX)
        );
        for (json, expected) in [
            ("null", Shots::default()),
            ("{}", Shots::default()),
            (r#"{"most": null}"#, Shots::default()),
            (r#"{"seed": 3}"#, Shots { most: None, seed: 3 }),
            ("8", eight),
            (r#"{"most": 8}"#, eight),
            (r#"{"seed": 3, "most": 8}"#, Shots { seed: 3, ..eight }),
        ] {
            assert_eq!(read(&format!(r#"{{"shots": {json}}}"#)).shots, expected, "{json}");
        }
    }

    #[test]
    fn what_is_none_of_these_is_refused() {
        for (json, said) in [
            (r#"{"adjoint": "none"}"#, "unknown variant `none`, expected `local` or `whole`"),
            (r#"{"residuals": "suffix"}"#, "leave-one-out or prefix"),
            (r#"{"residuals": {"rule": "suffix"}}"#, "leave-one-out or prefix"),
            (r#"{"residuals": {"orders": 2}}"#, "missing field `rule`"),
            (r#"{"residuals": {"rule": "prefix", "seed": 2}}"#, "unknown field `seed`"),
            (r#"{"residuals": {"rule": "leave-one-out", "orders": 2}}"#, "takes no `orders`"),
            (r#"{"residuals": 2}"#, "expected a rule such as \"prefix\""),
            (r#"{"residuals": null}"#, "expected a rule such as \"prefix\""),
            (r#"{"shots": -1}"#, "expected a number from 1"),
            (r#"{"shots": "8"}"#, "expected a number from 1"),
            (r#"{"shots": 1.5}"#, "expected a number from 1"),
            (r#"{"shots": {"least": 2}}"#, "unknown field `least`"),
            (r#"{"shots": {"seed": -2}}"#, "-2"),
        ] {
            let Err(Error::PolicyJson { problem, line: 1, .. }) = Policy::from_json(json)
            else {
                panic!("{json}");
            };
            assert!(problem.contains(said), "{json}: {problem}");
        }
        for (json, name, found) in [
            (r#"{"residuals": {"rule": "prefix", "orders": 0}}"#, "orders", "0"),
            (r#"{"residuals": {"rule": "prefix", "orders": 65}}"#, "orders", "65"),
            (r#"{"shots": 0}"#, "shots", "0"),
            (r#"{"shots": {"most": 0}}"#, "shots", "0"),
        ] {
            match Policy::from_json(json) {
                Err(Error::Policy { field, found: said, allowed }) => {
                    assert_eq!((field.name(), said.as_str()), (name, found));
                    assert!(allowed.starts_with("from 1"), "{allowed}");
                }
                other => panic!("{json}: {other:?}"),
            }
        }
    }
}
