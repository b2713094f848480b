//! The process's side of PMI-1: a client of the key-value store that a launcher keeps.
//!
//! Values are bytes, but PMI-1 carries words of limited length. So a value travels as hexadecimal
//! digits, cut into pieces that the launcher takes. The first piece is under the value's key, after
//! the number of pieces. The others are under `key.1`, `key.2`…

use core::time::Duration;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags};
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use super::{LineReader, PmiLine, mapping};
use crate::boot::BootError;
use crate::boot::share::peer_process;
use crate::boot::store::{KeyValueStore, StoreError};
use crate::env;

/// Bytes reserved for the number of pieces in front of the first piece.
const COUNT: usize = 8;

/// Time within which a launcher must answer. It answers at once unless it is stopped. Only the
/// barrier, which waits for other ranks, has no time limit.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The command that is answered when all ranks have sent it.
const BARRIER: &str = "barrier_in";

/// The rank of a process that a PMI-1 launcher started, as the environment gives it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PmiContext {
    pub(crate) fd: RawFd,
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

impl PmiContext {
    /// Reads the environment. Returns `None` when no such launcher started this process.
    pub(crate) fn from_env() -> Result<Option<Self>, BootError> {
        let Some(fd) = env::PMI_FD.read(|&fd: &RawFd| fd > 2)? else { return Ok(None) };
        let size = env::PMI_SIZE.read(|&size: &u32| size > 0)?;
        let size = size.ok_or(BootError::Unset { variable: env::PMI_SIZE.name })?;
        let rank = env::PMI_RANK.read(|&rank: &u32| rank < size)?;
        let rank = rank.ok_or(BootError::Unset { variable: env::PMI_RANK.name })?;
        Ok(Some(Self { fd, rank, size }))
    }

    /// Returns the process at the other end of the socket, without taking the socket.
    pub(crate) fn launcher(&self) -> Option<u32> {
        // SAFETY: the borrow ends with this call. For a number that is not open, the call fails.
        peer_process(unsafe { BorrowedFd::borrow_raw(self.fd) })
    }

    /// Takes ownership of the socket, and closes it on exec, so that this process's children do not
    /// have it.
    ///
    /// # Safety
    ///
    /// No other code in this process uses or closes the descriptor.
    pub(crate) unsafe fn take(self) -> Result<OwnedFd, BootError> {
        // SAFETY: the borrow ends with the block. For a number that is not open, the calls fail.
        let checked = unsafe {
            let socket = BorrowedFd::borrow_raw(self.fd);
            rustix::net::sockopt::socket_type(socket)
                .and_then(|_| rustix::io::fcntl_setfd(socket, FdFlags::CLOEXEC))
        };
        checked.map_err(|error| BootError::NotPmi { fd: self.fd, error })?;
        // SAFETY: the calls above found the descriptor open. The caller guarantees that no other
        // code uses or closes it (contract of `take`), so this is its only owner.
        Ok(unsafe { OwnedFd::from_raw_fd(self.fd) })
    }
}

/// A process's connection to its launcher.
#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    lines: LineReader,
    /// The name of the job's key-value space.
    space: String,
    /// Longest key, in bytes.
    key_max: usize,
    /// Longest value, in bytes.
    value_max: usize,
    /// Whether the session has begun. Only then are the three values above known.
    begun: bool,
    shut: bool,
    limit: Duration,
}

impl Client {
    /// Opens the PMI-1 session over `socket`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the program at the other end does not speak PMI-1.
    pub(crate) fn new(socket: OwnedFd) -> Result<Self, StoreError> {
        Self::with_limit(socket, TIMEOUT)
    }

    /// Returns a client that opens the session over `socket` with its first use.
    pub(crate) fn later(socket: OwnedFd) -> Self {
        let (key_max, value_max, space) = (0, 0, String::new());
        let (lines, limit) = (LineReader::default(), TIMEOUT);
        Self { socket, lines, space, key_max, value_max, begun: false, shut: false, limit }
    }

    fn with_limit(socket: OwnedFd, limit: Duration) -> Result<Self, StoreError> {
        let mut client = Self { limit, ..Self::later(socket) };
        client.begin()?;
        Ok(client)
    }

    /// Opens the session, unless it is open or shut.
    fn begin(&mut self) -> Result<(), StoreError> {
        if self.begun || self.shut {
            return Ok(());
        }
        let init = self.ask("init", " pmi_version=1 pmi_subversion=1", "response_to_init")?;
        accepted("init", &init)?;
        let maxes = self.ask("get_maxes", "", "maxes")?;
        // The limits count the zero that ends a string in C.
        let limit = |key| PmiLine(&maxes).number::<usize>(key).and_then(|max| max.checked_sub(1));
        let malformed =
            |command, answer: &str| StoreError::Malformed { command, answer: answer.into() };
        self.key_max = limit("keylen_max").ok_or_else(|| malformed("get_maxes", &maxes))?;
        self.value_max = limit("vallen_max")
            .filter(|max| *max > COUNT)
            .ok_or_else(|| malformed("get_maxes", &maxes))?;
        let space = self.ask("get_my_kvsname", "", "my_kvsname")?;
        let name =
            PmiLine(&space).get("kvsname").ok_or_else(|| malformed("get_my_kvsname", &space))?;
        self.space = name.to_owned();
        self.begun = true;
        Ok(())
    }

    /// Returns the launcher's text about the nodes, or `None` when it has none.
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

    /// Sends a command and returns its answer, which must begin with `cmd=answer`.
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
        let deadline = (command != BARRIER).then(|| Instant::now() + self.limit);
        let line = loop {
            match self.lines.next() {
                Some(line) if !line.is_empty() => break line,
                Some(_) => {}
                None => self.listen(command, deadline)?,
            }
        };
        match PmiLine(&line).get("cmd") {
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
            // A late answer would be taken for the answer to another command.
            self.shut = true;
            return Err(StoreError::Silent { command, seconds: self.limit.as_secs() });
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

    /// Returns whether bytes have come, or the launcher has closed the socket, before `deadline`.
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
        self.begin()?;
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
        self.begin()?;
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
        self.begin()?;
        let answer = self.ask(BARRIER, "", "barrier_out")?;
        accepted(BARRIER, &answer)
    }

    fn finalize(&mut self) -> Result<(), StoreError> {
        if self.shut {
            return Ok(());
        }
        if !self.begun {
            // To Strait's launcher, the only one that has such clients, the end of the connection
            // says the same.
            self.shut = true;
            return match rustix::net::shutdown(&self.socket, Shutdown::Both) {
                Ok(()) | Err(Errno::NOTCONN) => Ok(()),
                Err(error) => Err(StoreError::Socket { command: "finalize", error }),
            };
        }
        let answer = self.ask("finalize", "", "finalize_ack");
        self.shut = true;
        accepted("finalize", &answer?)
    }

    fn abort(&mut self, code: i32) {
        let _ = self.say("abort", &format!(" exitcode={code}"));
    }

    fn serves_until_finalize(&self) -> bool {
        true
    }
}

/// Returns the value in the launcher's answer, or `None` when it has none.
pub(crate) fn value_in(answer: &str) -> Option<&str> {
    if PmiLine(answer).number("rc").unwrap_or(0) != 0 {
        return None;
    }
    // A value may have spaces, which Strait's own values never have. A value with spaces is the
    // last field.
    match answer.split_once("value=") {
        Some((_, value)) if value.starts_with('(') => Some(value.trim_end()),
        _ => PmiLine(answer).get("value"),
    }
}

/// Returns the number of pieces of a value that Strait wrote, and the first piece.
pub(crate) fn pieces_of(word: &str) -> Option<(u32, &str)> {
    let (pieces, first) = word.split_once(':')?;
    Some((u32::from_str_radix(pieces, 16).ok()?, first))
}

/// Returns the bytes that these hexadecimal digits encode.
pub(crate) fn decode(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        digits.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let (pairs, rest) = digits.as_ref()?.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Checks the return code of an answer. An answer without one is good.
fn accepted(command: &'static str, answer: &str) -> Result<(), StoreError> {
    match PmiLine(answer).number::<i32>("rc") {
        None | Some(0) => Ok(()),
        Some(_) => Err(StoreError::Refused { command, answer: answer.into() }),
    }
}

#[cfg(test)]
mod tests;
