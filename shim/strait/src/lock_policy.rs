//! The policies by which hybrid locks of windows migrate, which a program or a setting chooses.

use core::fmt;
use core::str::FromStr;

use strait_core::lock::{
    FixedMode, Follow, History, Hysteresis, LockCosts, LockMode, MeasuredCost, Policy,
};

use crate::LockDesign;

/// The rule for the migration of a hybrid lock ([`Policy`]). Each member has its own.
///
/// ```
/// use strait::LockPolicy;
///
/// let policy: LockPolicy = "history:2:8".parse().unwrap();
/// assert_eq!(policy, LockPolicy::History { least: 2, of: 8 });
/// assert_eq!(policy.to_string(), "history:2:8");
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum LockPolicy {
    /// [`Follow`], the policy of the paper.
    #[default]
    Follow,
    /// [`Hysteresis`], after this number of requests.
    Hysteresis(u32),
    /// [`FixedMode`] in this mode.
    Pinned(LockMode),
    /// [`History`]: when this number of requests found the wrong mode, of the last ones.
    History {
        /// Number of requests that found the wrong mode.
        least: u32,
        /// Number of requests that are remembered, at most 64.
        of: u32,
    },
    /// [`MeasuredCost`] with these costs.
    Cost(LockCosts),
}

impl LockPolicy {
    /// Returns the state of a member with this policy.
    #[must_use]
    pub fn policy(self) -> Box<dyn Policy + Send> {
        match self {
            Self::Follow => Box::new(Follow),
            Self::Hysteresis(after) => Box::new(Hysteresis::new(after)),
            Self::Pinned(mode) => Box::new(FixedMode(mode)),
            Self::History { least, of } => Box::new(History::new(least, of)),
            Self::Cost(costs) => Box::new(MeasuredCost::new(costs)),
        }
    }

    /// Returns whether the numbers of the policy make sense: a lock of which no request could be
    /// enough would never migrate, and [`Self::Pinned`] says so.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        match self {
            Self::Follow | Self::Pinned(_) | Self::Cost(_) => true,
            Self::Hysteresis(after) => *after > 0,
            Self::History { least, of } => 0 < *least && *least <= *of && *of <= u64::BITS,
        }
    }
}

impl fmt::Display for LockPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Follow => f.write_str("follow"),
            Self::Hysteresis(after) => write!(f, "hysteresis:{after}"),
            Self::Pinned(LockMode::Cpu) => f.write_str("cpu"),
            Self::Pinned(LockMode::Network) => f.write_str("network"),
            Self::History { least, of } => write!(f, "history:{least}:{of}"),
            Self::Cost(LockCosts { suiting, other, migration }) => {
                write!(f, "cost:{suiting}:{other}:{migration}")
            }
        }
    }
}

impl FromStr for LockPolicy {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let numbers: Vec<u64> =
            words.map(|word| word.parse().map_err(drop)).collect::<Result<_, ()>>()?;
        let policy = match (name, numbers.as_slice()) {
            ("follow", []) => Self::Follow,
            ("cpu", []) => Self::Pinned(LockMode::Cpu),
            ("network", []) => Self::Pinned(LockMode::Network),
            ("hysteresis", [after]) => Self::Hysteresis(u32::try_from(*after).map_err(drop)?),
            ("history", [least, of]) => {
                let [least, of] = [*least, *of].map(u32::try_from);
                Self::History { least: least.map_err(drop)?, of: of.map_err(drop)? }
            }
            ("cost", &[suiting, other, migration]) => {
                Self::Cost(LockCosts { suiting, other, migration })
            }
            _ => return Err(()),
        };
        policy.is_valid().then_some(policy).ok_or(())
    }
}

/// The value of `STRAIT_WINDOW_LOCK`: a design, and the policy of hybrid locks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LockSetting {
    pub(crate) design: LockDesign,
    pub(crate) policy: LockPolicy,
}

impl FromStr for LockSetting {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split_once(':') {
            None => Ok(Self { design: text.parse()?, policy: LockPolicy::default() }),
            Some((design, policy)) => match design.parse()? {
                LockDesign::Hybrid => {
                    Ok(Self { design: LockDesign::Hybrid, policy: policy.parse()? })
                }
                _ => Err(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_as_it_is_written() {
        let costs = LockCosts { suiting: 10, other: 40, migration: 100 };
        for policy in [
            LockPolicy::Follow,
            LockPolicy::Hysteresis(4),
            LockPolicy::Pinned(LockMode::Cpu),
            LockPolicy::Pinned(LockMode::Network),
            LockPolicy::History { least: 2, of: 64 },
            LockPolicy::Cost(costs),
        ] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            let setting = format!("hybrid:{policy}").parse::<LockSetting>();
            assert_eq!(setting, Ok(LockSetting { design: LockDesign::Hybrid, policy }));
        }
    }

    #[test]
    fn a_setting_without_meaning_is_refused() {
        for text in [
            "hybrid:",
            "hybrid:follow:1",
            "hybrid:hysteresis",
            "hybrid:hysteresis:0",
            "hybrid:hysteresis:4294967296",
            "hybrid:history:3:2",
            "hybrid:history:0:2",
            "hybrid:history:1:65",
            "hybrid:cost:1:2",
            "hybrid:cost:1:2:-3",
            "mcs:follow",
            "cpu",
        ] {
            assert_eq!(text.parse::<LockSetting>(), Err(()), "{text}");
        }
        assert_eq!("mcs".parse::<LockSetting>().map(|it| it.design), Ok(LockDesign::Mcs));
    }
}
