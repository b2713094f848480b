//! The process's side of PMI-1: a key-value store that some launcher keeps.
//!
//! Our own values are bytes; PMI-1 carries words of limited length. So a value goes as hexadecimal digits, cut into pieces
//! that the launcher takes: the first under the value's key, behind the number of pieces, the others under `key.1`, `key.2`…

use core::time::Duration;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags};
use rustix::net::{RecvFlags, SendFlags};

use super::{Line, Lines, mapping};
use crate::boot::BootError;
use crate::boot::share::peer_process;
use crate::boot::store::{KeyValueStore, StoreError};
use crate::env;

/// Bytes that the number of pieces takes in front of the first.
const COUNT: usize = 8;

/// Time that a launcher may take to answer. It answers at once, unless it is stopped; only at a barrier other ranks are
/// waited for, without an end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The question that is answered when all ranks have asked it.
const BARRIER: &str = "barrier_in";

/// What the environment says of a process that a PMI-1 launcher started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    pub(crate) fd: RawFd,
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

impl Place {
    /// `None` when no such launcher started this process.
    pub(crate) fn from_env() -> Result<Option<Self>, BootError> {
        let Some(fd) = env::PMI_FD.read(|&fd: &RawFd| fd > 2)? else { return Ok(None) };
        let size = env::PMI_SIZE.read(|&size: &u32| size > 0)?;
        let size = size.ok_or(BootError::Unset { variable: env::PMI_SIZE.name })?;
        let rank = env::PMI_RANK.read(|&rank: &u32| rank < size)?;
        let rank = rank.ok_or(BootError::Unset { variable: env::PMI_RANK.name })?;
        Ok(Some(Self { fd, rank, size }))
    }

    /// The process at the other end of the socket, which stays whose it is.
    pub(crate) fn launcher(&self) -> Option<u32> {
        // SAFETY: the borrow ends with this call. A number that is not open makes it fail.
        peer_process(unsafe { BorrowedFd::borrow_raw(self.fd) })
    }

    /// Takes the socket over, which this process's children will not have.
    ///
    /// # Safety
    ///
    /// Nobody else in this process uses or closes the descriptor.
    pub(crate) unsafe fn take(self) -> Result<OwnedFd, BootError> {
        // SAFETY: the borrow ends with the block. A number that is not open makes the calls fail.
        let checked = unsafe {
            let socket = BorrowedFd::borrow_raw(self.fd);
            rustix::net::sockopt::socket_type(socket)
                .and_then(|_| rustix::io::fcntl_setfd(socket, FdFlags::CLOEXEC))
        };
        checked.map_err(|error| BootError::NotPmi { fd: self.fd, error })?;
        // SAFETY: the descriptor is open, and the contract makes it ours.
        Ok(unsafe { OwnedFd::from_raw_fd(self.fd) })
    }
}

/// A process's connection to its launcher.
#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    lines: Lines,
    /// The name of the job's key-value space.
    space: String,
    /// Longest key, bytes.
    key_max: usize,
    /// Longest value, bytes.
    value_max: usize,
    shut: bool,
    patience: Duration,
}

impl Client {
    /// Introduces this process over `socket`.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: whoever is at the other end does not speak PMI-1.
    pub(crate) fn new(socket: OwnedFd) -> Result<Self, StoreError> {
        Self::with_patience(socket, PATIENCE)
    }

    fn with_patience(socket: OwnedFd, patience: Duration) -> Result<Self, StoreError> {
        let (key_max, value_max, space) = (0, 0, String::new());
        let lines = Lines::default();
        let mut client = Self { socket, lines, space, key_max, value_max, shut: false, patience };
        let init = client.ask("init", " pmi_version=1 pmi_subversion=1", "response_to_init")?;
        accepted("init", &init)?;
        let maxes = client.ask("get_maxes", "", "maxes")?;
        // The limits count the zero that ends a string in C.
        let limit = |key| Line(&maxes).number::<usize>(key).and_then(|max| max.checked_sub(1));
        let malformed =
            |command, answer: &str| StoreError::Malformed { command, answer: answer.into() };
        client.key_max = limit("keylen_max").ok_or_else(|| malformed("get_maxes", &maxes))?;
        client.value_max = limit("vallen_max")
            .filter(|max| *max > COUNT)
            .ok_or_else(|| malformed("get_maxes", &maxes))?;
        let space = client.ask("get_my_kvsname", "", "my_kvsname")?;
        let name =
            Line(&space).get("kvsname").ok_or_else(|| malformed("get_my_kvsname", &space))?;
        client.space = name.to_owned();
        Ok(client)
    }

    /// What the launcher says of the nodes, in its own words; `None` when it says nothing.
    pub(crate) fn mapping(&mut self) -> Result<Option<String>, StoreError> {
        Ok(self.get_word(mapping::KEY)?.filter(|mapping| !mapping.is_empty()))
    }

    fn put_word(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        let fields = format!(" kvsname={} key={key} value={value}", self.space);
        let answer = self.ask("put", &fields, "put_result")?;
        accepted("put", &answer)
    }

    fn get_word(&mut self, key: &str) -> Result<Option<String>, StoreError> {
        let fields = format!(" kvsname={} key={key}", self.space);
        let answer = self.ask("get", &fields, "get_result")?;
        Ok(value_in(&answer).map(Into::into))
    }

    /// One question and its answer, which must begin with `cmd=answer`.
    fn ask(
        &mut self,
        command: &'static str,
        fields: &str,
        answer: &str,
    ) -> Result<String, StoreError> {
        if self.shut {
            return Err(StoreError::Shut);
        }
        self.say(command, fields)?;
        let deadline = (command != BARRIER).then(|| Instant::now() + self.patience);
        let line = loop {
            match self.lines.next() {
                Some(line) if !line.is_empty() => break line,
                Some(_) => {}
                None => self.listen(command, deadline)?,
            }
        };
        match Line(&line).get("cmd") {
            Some(cmd) if cmd == answer => Ok(line),
            _ => Err(StoreError::Malformed { command, answer: line }),
        }
    }

    fn say(&self, command: &'static str, fields: &str) -> Result<(), StoreError> {
        let line = format!("cmd={command}{fields}\n");
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            let sent = rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL);
            match sent {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(StoreError::Closed { command }),
                Err(error) => return Err(StoreError::Socket { command, error }),
            }
        }
        Ok(())
    }

    /// Waits for bytes, until `deadline` if there is one.
    fn listen(
        &mut self,
        command: &'static str,
        deadline: Option<Instant>,
    ) -> Result<(), StoreError> {
        if self.lines.is_overlong() {
            return Err(StoreError::Malformed { command, answer: "a line without an end".into() });
        }
        if !self.has_bytes(command, deadline)? {
            // What comes now would be taken for the answer to another question.
            self.shut = true;
            return Err(StoreError::Silent { command, seconds: self.patience.as_secs() });
        }
        let mut bytes = [0; 1024];
        match rustix::net::recv(&self.socket, &mut bytes, RecvFlags::empty()) {
            Ok((_, 0)) | Err(Errno::CONNRESET) => Err(StoreError::Closed { command }),
            Ok((_, received)) => {
                self.lines.push(&bytes[..received]);
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(StoreError::Socket { command, error }),
        }
    }

    /// Whether bytes have come, or the launcher has closed the socket, before `deadline`.
    fn has_bytes(
        &self,
        command: &'static str,
        deadline: Option<Instant>,
    ) -> Result<bool, StoreError> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let left = left.map(|left| Timespec::try_from(left).unwrap_or_default());
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], left.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(StoreError::Socket { command, error }),
            }
        }
    }

    fn check(&self, key: &str, pieces: usize) -> Result<(), StoreError> {
        let longest = key.len() + if pieces > 1 { 1 + pieces.to_string().len() } else { 0 };
        let fits = !key.is_empty() && longest <= self.key_max;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if fits && key.bytes().all(is_plain) {
            return Ok(());
        }
        Err(StoreError::Key { key: key.into(), max: self.key_max })
    }
}

impl KeyValueStore for Client {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        // Digits are ASCII, so every cut is between characters.
        let (first, rest) = digits.split_at(digits.len().min(self.value_max - COUNT));
        let pieces = 1 + rest.len().div_ceil(self.value_max);
        self.check(key, pieces)?;
        for (number, at) in (1..pieces).zip((0..).step_by(self.value_max)) {
            let piece = &rest[at..rest.len().min(at + self.value_max)];
            self.put_word(&format!("{key}.{number}"), piece)?;
        }
        self.put_word(key, &format!("{pieces:x}:{first}"))
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.check(key, 1)?;
        let Some(word) = self.get_word(key)? else { return Ok(None) };
        let malformed = || StoreError::Malformed { command: "get", answer: word.clone() };
        let (pieces, first) = pieces_of(&word).ok_or_else(malformed)?;
        let mut digits = first.to_owned();
        for number in 1..pieces {
            digits += &self.get_word(&format!("{key}.{number}"))?.ok_or_else(malformed)?;
        }
        decode(&digits).map(Some).ok_or_else(malformed)
    }

    fn fence(&mut self) -> Result<(), StoreError> {
        let answer = self.ask(BARRIER, "", "barrier_out")?;
        accepted(BARRIER, &answer)
    }

    fn finalize(&mut self) -> Result<(), StoreError> {
        if self.shut {
            return Ok(());
        }
        let answer = self.ask("finalize", "", "finalize_ack");
        self.shut = true;
        accepted("finalize", &answer?)
    }

    fn abort(&mut self, code: i32) {
        let _ = self.say("abort", &format!(" exitcode={code}"));
    }
}

/// The value in the launcher's answer; `None`: it has none.
pub(crate) fn value_in(answer: &str) -> Option<&str> {
    if Line(answer).number("rc").unwrap_or(0) != 0 {
        return None;
    }
    // A value may have spaces, which our own never have; it is the last field wherever it does.
    match answer.split_once("value=") {
        Some((_, value)) if value.starts_with('(') => Some(value.trim_end()),
        _ => Line(answer).get("value"),
    }
}

/// How many pieces a value of ours has, and the first.
pub(crate) fn pieces_of(word: &str) -> Option<(u32, &str)> {
    let (pieces, first) = word.split_once(':')?;
    Some((u32::from_str_radix(pieces, 16).ok()?, first))
}

/// The bytes that these hexadecimal digits stand for.
pub(crate) fn decode(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        digits.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let (pairs, rest) = digits.as_ref()?.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Answers without a return code are good.
fn accepted(command: &'static str, answer: &str) -> Result<(), StoreError> {
    match Line(answer).number::<i32>("rc") {
        None | Some(0) => Ok(()),
        Some(_) => Err(StoreError::Refused { command, answer: answer.into() }),
    }
}

#[cfg(test)]
mod tests;
