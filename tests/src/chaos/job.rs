//! The description of a job, which the driver passes to its ranks in an environment variable.

use core::fmt;
use core::str::FromStr;

/// The parameters of a job. Two processes with the same parameters derive the same settings and
/// programs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Job {
    pub(super) seed: u64,
    /// Number of ranks, if the caller chose it.
    pub(super) ranks: Option<u32>,
    /// Names of the settings that are not drawn: see [`super::settings::EXCLUSIONS`].
    pub(super) excluded: Vec<String>,
    /// A fault that the ranks commit on purpose.
    pub(super) plant: Option<Plant>,
}

/// A deliberate fault, which the driver must find.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Plant {
    /// A byte of a message changes after its receive.
    Flip,
    /// A message is not entered in the account.
    Lose,
    /// A message is entered twice.
    Double,
    /// Two messages of a stream are entered in the wrong order.
    Swap,
    /// An accumulate is recorded and not carried out.
    Add,
    /// A put is recorded and not carried out.
    Put,
    /// A change is made without its lock.
    Lock,
    /// A living rank is reported as dead.
    Death,
    /// A rank waits for a message that never arrives.
    Hang,
    /// A rank leaves a process behind.
    Child,
    /// A rank keeps a descriptor open.
    Descriptor,
}

impl Plant {
    pub(super) const ALL: [(&'static str, Self); 11] = [
        ("flip", Self::Flip),
        ("lose", Self::Lose),
        ("double", Self::Double),
        ("swap", Self::Swap),
        ("add", Self::Add),
        ("put", Self::Put),
        ("lock", Self::Lock),
        ("death", Self::Death),
        ("hang", Self::Hang),
        ("child", Self::Child),
        ("descriptor", Self::Descriptor),
    ];

    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, plant)| *plant == self).map_or("", |(name, _)| name)
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, plant)| plant)
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, ranks, excluded, plant } = self;
        let plant = plant.map_or("", Plant::name);
        write!(f, "{seed}:{}:{}:{plant}", ranks.unwrap_or(0), excluded.join(","))
    }
}

impl FromStr for Job {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut fields = text.split(':');
        let mut field = || fields.next().ok_or(());
        let seed = field()?.parse().map_err(drop)?;
        let ranks = field()?.parse::<u32>().map_err(drop)?;
        let excluded = field()?.split(',').filter(|name| !name.is_empty());
        let excluded = excluded.map(str::to_owned).collect();
        let plant = Plant::parse(field()?);
        Ok(Self { seed, ranks: (ranks > 0).then_some(ranks), excluded, plant })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_as_it_is_written() {
        for (ranks, plant) in [(None, None), (Some(8), Some(Plant::Flip))] {
            let excluded = vec!["send_recv".to_owned(), "fork".to_owned()];
            let job = Job { seed: u64::MAX, ranks, excluded, plant };
            assert_eq!(job.to_string().parse(), Ok(job));
        }
    }
}
