//! The outcome of a job.

use core::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The end of one rank.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RankExit {
    /// The rank.
    pub rank: u32,
    /// The number that its process had.
    pub pid: u32,
    /// The exit status of the process.
    pub status: ExitStatus,
}

impl RankExit {
    /// Returns the exit code as a shell counts it: the process's own, or 128 plus the number of the
    /// signal that killed it.
    #[must_use]
    pub fn code(&self) -> u8 {
        let code = self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for RankExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} (process {}) ended with {}", self.rank, self.pid, self.status)
    }
}

/// The outcome of a job: the end of every rank, and the rank that failed first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobOutcome {
    pub(super) exits: Vec<RankExit>,
    pub(super) first_failure: Option<u32>,
    /// The code with which the rank that failed first aborted the job.
    pub(super) aborted: Option<u8>,
    pub(super) others_ended: bool,
}

impl JobOutcome {
    /// Returns the end of each rank, in rank order.
    #[must_use]
    pub fn exits(&self) -> &[RankExit] {
        &self.exits
    }

    /// Returns true when every rank ended with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.first_failure.is_none()
    }

    /// Returns the rank that failed first, if any failed.
    #[must_use]
    pub fn first_failure(&self) -> Option<&RankExit> {
        self.exits.get(self.first_failure? as usize)
    }

    /// Returns the exit code of the job: 0, the code of the rank that failed first, or the code
    /// with which a rank aborted the job.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.aborted.unwrap_or_else(|| self.first_failure().map_or(0, RankExit::code))
    }
}

/// Formats the outcome as one line for the user of a failed job.
impl fmt::Display for JobOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.first_failure() else {
            return write!(f, "all {} ranks ended well", self.exits.len());
        };
        if let Some(code) = self.aborted {
            let RankExit { rank, pid, .. } = first;
            return write!(f, "rank {rank} (process {pid}) aborted the job with code {code}");
        }
        first.fmt(f)?;
        if self.others_ended {
            return f.write_str("; the job was ended");
        }
        match self.exits.iter().filter(|exit| !exit.status.success()).count() - 1 {
            0 => Ok(()),
            others => write!(f, "; {others} more failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exits from raw wait statuses: a code in the second byte, or a signal in the first.
    fn outcome(raw: &[i32], first_failure: Option<u32>, others_ended: bool) -> JobOutcome {
        let exit = |(rank, &raw): (u32, &i32)| RankExit {
            rank,
            pid: 100 + rank,
            status: ExitStatus::from_raw(raw),
        };
        let exits = (0..).zip(raw).map(exit).collect();
        JobOutcome { exits, first_failure, aborted: None, others_ended }
    }

    #[test]
    fn the_first_failure_gives_the_code() {
        assert_eq!(outcome(&[0, 0], None, false).code(), 0);
        assert_eq!(outcome(&[1 << 8, 7 << 8], Some(1), false).code(), 7);
        assert_eq!(outcome(&[0, 9], Some(1), false).code(), 137);
    }

    #[test]
    fn the_rank_that_aborts_sets_the_code() {
        let aborted = JobOutcome { aborted: Some(5), ..outcome(&[0, 15], Some(1), true) };
        assert_eq!((aborted.code(), aborted.success()), (5, false));
        assert_eq!(aborted.to_string(), "rank 1 (process 101) aborted the job with code 5");
    }

    #[test]
    fn the_line_names_the_rank_and_its_end() {
        let one = outcome(&[0, 9], Some(1), true).to_string();
        assert_eq!(one, "rank 1 (process 101) ended with signal: 9 (SIGKILL); the job was ended");
        let two = outcome(&[1 << 8, 7 << 8], Some(1), false).to_string();
        assert_eq!(two, "rank 1 (process 101) ended with exit status: 7; 1 more failed");
    }
}
