//! Files of rendezvous profiles: how many RTRs of each envelope were used in a run
//! (`[SpecRndv09]` §3.6, static adaptation).
//!
//! A profile is a directory with a file of text for each rank. The first line has the format, the
//! rank and the number of ranks. Each other line has an envelope:
//!
//! ```text
//! strait rendezvous profile 1: rank 0 of 2
//! # side peer context tag RTRs used
//! sender 1 0 7 20 3
//! receiver 1 0 8 16 16
//! ```

use core::fmt::Write as _;
use core::str::FromStr;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use strait_core::rndv::{EnvelopeProfile, EnvelopeSide};
use strait_platform::Rank;

use super::World;
use crate::error::ProfileError;
use crate::{Error, env};

/// The first line of a file, up to the rank.
const FORMAT: &str = "strait rendezvous profile 1: rank ";

impl World {
    /// Follows and records the profiles that the environment names. No operation has begun.
    pub(super) fn follow_environment(&mut self) -> Result<(), Error> {
        if let Some(directory) = env::rendezvous_profile()? {
            let profile = self.read_profile(&directory)?;
            self.lock_progress().follow_profile(&profile)?;
        }
        self.profile_out = env::rendezvous_profile_out()?;
        if self.profile_out.is_some() {
            self.lock_progress().record_profile();
        }
        Ok(())
    }

    fn read_profile(&self, directory: &Path) -> Result<Vec<EnvelopeProfile>, ProfileError> {
        let path = self.profile_in(directory);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => return Err(ProfileError::Read { path, error }),
        };
        parse(&text, self.rank, self.size).map_err(|(line, cause)| ProfileError::Line {
            path,
            line,
            cause,
        })
    }

    /// Writes the profile of this run, if it is recorded.
    pub(super) fn write_profile(&self) -> Result<(), ProfileError> {
        let Some(directory) = &self.profile_out else { return Ok(()) };
        let mut envelopes: Vec<_> = self.lock_progress().profile().collect();
        envelopes.sort_unstable();
        let text = text_of(&envelopes, self.rank, self.size);
        let path = self.profile_in(directory);
        let written = fs::create_dir_all(directory).and_then(|()| fs::write(&path, text));
        written.map_err(|error| ProfileError::Write { path, error })
    }

    /// Returns the path of this rank's file.
    fn profile_in(&self, directory: &Path) -> PathBuf {
        directory.join(format!("rank.{}", self.rank))
    }
}

fn text_of(envelopes: &[EnvelopeProfile], rank: Rank, size: u32) -> String {
    let mut text = format!("{FORMAT}{rank} of {size}\n# side peer context tag RTRs used\n");
    for envelope in envelopes {
        let EnvelopeProfile { side, peer, context, tag, rtrs, used } = *envelope;
        // A write to a string never fails.
        let _ = writeln!(text, "{} {peer} {context} {tag} {rtrs} {used}", side.name());
    }
    text
}

/// Returns the envelopes in a file, or the number of the first wrong line and what is wrong.
fn parse(text: &str, rank: Rank, size: u32) -> Result<Vec<EnvelopeProfile>, (usize, String)> {
    let mut lines = (1..).zip(text.lines());
    let (_, head) = lines.next().unwrap_or((1, ""));
    parse_head(head, rank, size).map_err(|cause| (1, cause))?;
    let mut lines_of = HashMap::new();
    let mut envelopes = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.starts_with('#')) {
        let envelope = parse_envelope(line, size).map_err(|cause| (number, cause))?;
        let EnvelopeProfile { side, peer, context, tag, .. } = envelope;
        if let Some(earlier) = lines_of.insert((side, peer, context, tag), number) {
            return Err((number, format!("the envelope is also in line {earlier}")));
        }
        envelopes.push(envelope);
    }
    Ok(envelopes)
}

fn parse_head(line: &str, rank: Rank, size: u32) -> Result<(), String> {
    let numbers = line.strip_prefix(FORMAT).and_then(|rest| rest.split_once(" of "));
    let (of_rank, of_size) = numbers.ok_or_else(|| format!("expected `{FORMAT}N of N`"))?;
    if of_size != size.to_string() {
        return Err(format!("a profile of {of_size} ranks; this job has {size}"));
    }
    if of_rank != rank.to_string() {
        return Err(format!("the profile of rank {of_rank}; this is rank {rank}"));
    }
    Ok(())
}

fn parse_envelope(line: &str, size: u32) -> Result<EnvelopeProfile, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [side, peer, context, tag, rtrs, used] = words[..] else {
        return Err(format!("{} words instead of side peer context tag RTRs used", words.len()));
    };
    let known = EnvelopeSide::ALL.into_iter().find(|known| known.name() == side);
    let envelope = EnvelopeProfile {
        side: known.ok_or_else(|| format!("the side is {side:?}; expected sender or receiver"))?,
        peer: parse_number("peer", peer)?,
        context: parse_number("context", context)?,
        tag: parse_number("tag", tag)?,
        rtrs: parse_number("number of RTRs", rtrs)?,
        used: parse_number("number of used RTRs", used)?,
    };
    if envelope.peer >= size {
        return Err(format!("the peer is rank {peer}; this job has {size} ranks"));
    }
    if envelope.used > envelope.rtrs {
        return Err(format!("{used} of {rtrs} RTRs are used"));
    }
    Ok(envelope)
}

fn parse_number<T: FromStr>(name: &str, word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("the {name} is {word:?}; expected a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "strait rendezvous profile 1: rank 0 of 2\n";

    #[test]
    fn what_is_written_is_read() {
        let envelope = EnvelopeProfile {
            side: EnvelopeSide::Sender,
            peer: 1,
            context: 1 << 31,
            tag: 7,
            rtrs: u64::MAX,
            used: 3,
        };
        let envelopes = [envelope, EnvelopeProfile { side: EnvelopeSide::Receiver, ..envelope }];
        assert_eq!(parse(&text_of(&envelopes, 0, 2), 0, 2).unwrap(), envelopes);
        assert_eq!(parse(HEAD, 0, 2).unwrap(), []);
    }

    #[test]
    fn a_wrong_line_is_named_with_its_cause() {
        for (lines, line, cause) in [
            ("sender 1 0 7 20", 2, "5 words instead of side peer context tag RTRs used"),
            ("\n", 2, "0 words"),
            ("# text\nthird 1 0 7 2 1", 3, "the side is \"third\"; expected sender or receiver"),
            ("sender 1 0 -7 2 1", 2, "the tag is \"-7\"; expected a number"),
            ("sender 2 0 7 2 1", 2, "the peer is rank 2; this job has 2 ranks"),
            ("sender 1 0 7 2 3", 2, "3 of 2 RTRs are used"),
            ("sender 1 0 7 2 1\nreceiver 1 0 7 2 1\nsender 1 0 7 9 9", 4, "also in line 2"),
        ] {
            let (at, found) = parse(&format!("{HEAD}{lines}"), 0, 2).unwrap_err();
            assert!(found.contains(cause), "{found}");
            assert_eq!(at, line, "{found}");
        }
    }

    #[test]
    fn a_file_of_another_rank_job_or_format_is_refused() {
        for (text, rank, size, cause) in [
            ("", 0, 2, "expected `strait rendezvous profile 1: rank N of N`"),
            ("strait rendezvous profile 2: rank 0 of 2", 0, 2, "expected"),
            (HEAD, 0, 4, "a profile of 2 ranks; this job has 4"),
            (HEAD, 1, 2, "the profile of rank 0; this is rank 1"),
        ] {
            let (line, found) = parse(text, rank, size).unwrap_err();
            assert!(line == 1 && found.contains(cause), "{found}");
        }
    }
}
