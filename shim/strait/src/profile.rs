//! Rendezvous profiles: how many RTRs of each envelope were used in a run (`[SpecRndv09]` §3.6,
//! static adaptation).
//!
//! `strait tune --profile DIR COMMAND` writes a profile. A later run follows it by
//! `STRAIT_RENDEZVOUS_PROFILE=DIR` or [`WorldBuilder::rendezvous_profile`].
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
//!
//! [`WorldBuilder::rendezvous_profile`]: crate::WorldBuilder::rendezvous_profile

use core::fmt::Write as _;
use core::str::FromStr;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

pub use strait_core::rndv::{EnvelopeProfile, EnvelopeSide};
use strait_platform::Rank;

use crate::ProfileError;

/// The first line of a file, up to the rank.
const FORMAT: &str = "strait rendezvous profile 1: rank ";

/// The profiles of all ranks of a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobProfile {
    ranks: Vec<Vec<EnvelopeProfile>>,
}

impl JobProfile {
    /// Reads the files of all ranks in `directory`.
    ///
    /// ```
    /// use strait::profile::JobProfile;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = std::env::temp_dir().join(format!("profile.{}", std::process::id()));
    /// # std::fs::create_dir_all(&directory)?;
    /// let text = "strait rendezvous profile 1: rank 0 of 1\nsender 0 0 7 10 8\n";
    /// std::fs::write(directory.join("rank.0"), text)?;
    /// let profile = JobProfile::read(&directory)?;
    /// let gaining = profile.envelopes().filter(|(_, envelope)| envelope.speculates());
    /// assert_eq!((profile.ranks(), gaining.count()), (1, 1));
    /// JobProfile::remove(&directory)?;
    /// assert!(JobProfile::read(&directory).is_err());
    /// # std::fs::remove_dir(&directory)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProfileError`]: a rank's file is missing or wrong. Rank 0 names the number of ranks.
    ///
    /// # Source
    ///
    /// `[SpecRndv09]` §3.6, static adaptation.
    pub fn read(directory: &Path) -> Result<Self, ProfileError> {
        let (first, size) = read_rank(directory, 0, None)?;
        let mut ranks = vec![first];
        for rank in 1..size {
            ranks.push(read_rank(directory, rank, Some(size))?.0);
        }
        Ok(Self { ranks })
    }

    /// Removes the files of a profile in `directory`. Other files stay. A directory that does not
    /// exist is no error.
    ///
    /// # Errors
    ///
    /// [`io::Error`]: the system refuses to list, read or remove a file. Some files may be removed.
    pub fn remove(directory: &Path) -> io::Result<()> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let has_name = path.file_stem().is_some_and(|stem| stem == "rank");
            if has_name && path.is_file() && fs::read(&path)?.starts_with(FORMAT.as_bytes()) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// Returns each envelope with the rank that recorded it, in ascending order of ranks.
    pub fn envelopes(&self) -> impl Iterator<Item = (Rank, &EnvelopeProfile)> {
        (0..).zip(&self.ranks).flat_map(|(rank, all)| all.iter().map(move |it| (rank, it)))
    }
}

/// Returns the path of a rank's file in a profile.
pub(crate) fn file_of(directory: &Path, rank: Rank) -> PathBuf {
    directory.join(format!("rank.{rank}"))
}

/// Reads the file of `rank`, of a job of `size` ranks if that is known. Returns its envelopes and
/// the number of ranks.
pub(crate) fn read_rank(
    directory: &Path,
    rank: Rank,
    size: Option<u32>,
) -> Result<(Vec<EnvelopeProfile>, u32), ProfileError> {
    let path = file_of(directory, rank);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return Err(ProfileError::Read { path, error }),
    };
    parse(&text, rank, size).map_err(|(line, cause)| ProfileError::Line { path, line, cause })
}

pub(crate) fn text_of(envelopes: &[EnvelopeProfile], rank: Rank, size: u32) -> String {
    let mut text = format!("{FORMAT}{rank} of {size}\n# side peer context tag RTRs used\n");
    for envelope in envelopes {
        let EnvelopeProfile { side, peer, context, tag, rtrs, used } = *envelope;
        // A write to a string never fails.
        let _ = writeln!(text, "{} {peer} {context} {tag} {rtrs} {used}", side.name());
    }
    text
}

/// Returns the envelopes in a file and the number of ranks, or the number of the first wrong line
/// and what is wrong.
fn parse(
    text: &str,
    rank: Rank,
    size: Option<u32>,
) -> Result<(Vec<EnvelopeProfile>, u32), (usize, String)> {
    let mut lines = (1..).zip(text.lines());
    let (_, head) = lines.next().unwrap_or((1, ""));
    let size = parse_head(head, rank, size).map_err(|cause| (1, cause))?;
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
    Ok((envelopes, size))
}

/// Returns the number of ranks that the first line has.
fn parse_head(line: &str, rank: Rank, size: Option<u32>) -> Result<u32, String> {
    let numbers = line.strip_prefix(FORMAT).and_then(|rest| rest.split_once(" of "));
    let (of_rank, of_size) = numbers.ok_or_else(|| format!("expected `{FORMAT}N of N`"))?;
    let found: u32 = parse_number("number of ranks", of_size)?;
    if let Some(size) = size.filter(|size| *size != found) {
        return Err(format!("a profile of {found} ranks; this job has {size}"));
    }
    if of_rank != rank.to_string() {
        return Err(format!("the profile of rank {of_rank}; this is rank {rank}"));
    }
    Ok(found)
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
        for size in [None, Some(2)] {
            let read = parse(&text_of(&envelopes, 0, 2), 0, size).unwrap();
            assert_eq!(read, (envelopes.to_vec(), 2));
            assert_eq!(parse(HEAD, 0, size).unwrap(), (Vec::new(), 2));
        }
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
            let (at, found) = parse(&format!("{HEAD}{lines}"), 0, Some(2)).unwrap_err();
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
            ("strait rendezvous profile 1: rank 0 of 2 ranks", 0, 2, "expected a number"),
        ] {
            let (line, found) = parse(text, rank, Some(size)).unwrap_err();
            assert!(line == 1 && found.contains(cause), "{found}");
        }
    }
}
