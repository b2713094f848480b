//! The launcher's side of PMI-1: the key-value space of a job, and the connection of each rank.
//!
//! No function here waits. An answer that a rank's socket does not accept ends its connection.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::{LineReader, PmiLine, mapping};
use crate::nodes::Nodes;

const SPACE: &str = "strait";

/// Limits that ranks are told, in bytes, with the zero that ends a string in C.
const KEY_MAX: usize = 64;
const VALUE_MAX: usize = 1024;

/// Makes a pair of connected sockets, launcher's and rank's, both closed on exec.
pub(crate) fn socket_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// The keys and values of a job, and its barrier.
#[derive(Debug)]
pub(crate) struct Space {
    values: HashMap<String, String>,
    connections: Vec<PmiConnection>,
    /// The first rank that ended or finalized: it comes to no barrier any more. Later ranks may
    /// have left because of it.
    lost: Option<u32>,
    /// Whether a rank has waited at the barrier in vain.
    is_broken: bool,
}

/// One rank's connection.
#[derive(Debug)]
struct PmiConnection {
    socket: Option<OwnedFd>,
    lines: LineReader,
    waits: bool,
}

/// The action that a rank's lines require of the job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Said {
    /// Nothing.
    Answered,
    /// End the job with this code.
    Abort { code: i32 },
}

impl Space {
    /// Creates the space of a job with ranks on `nodes`.
    pub(crate) fn new(nodes: &Nodes) -> Self {
        let values = [(mapping::KEY.to_owned(), mapping::format(nodes))].into();
        Self { values, connections: Vec::new(), lost: None, is_broken: false }
    }

    /// Adds the connection of the next rank. Without a socket its answers are dropped.
    pub(crate) fn add(&mut self, socket: impl Into<Option<OwnedFd>>) {
        let socket = socket.into();
        self.connections.push(PmiConnection { socket, lines: LineReader::default(), waits: false });
    }

    /// Returns the socket of `rank`, as long as it is open.
    pub(crate) fn socket(&self, rank: u32) -> Option<&OwnedFd> {
        self.connections.get(rank as usize)?.socket.as_ref()
    }

    /// Returns the rank that ended while others waited for it at the barrier, if there is one.
    pub(crate) fn broken_by(&self) -> Option<u32> {
        self.lost.filter(|_| self.is_broken)
    }

    /// Receives bytes from `rank`, and answers.
    pub(crate) fn hear(&mut self, rank: u32) -> Said {
        let Some(socket) = &self.connections[rank as usize].socket else { return Said::Answered };
        let mut bytes = [0; 4096];
        match rustix::net::recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Err(Errno::INTR | Errno::AGAIN) => Said::Answered,
            Ok((_, received @ 1..)) => self.take_in(rank, &bytes[..received]),
            Ok(_) | Err(_) => {
                self.leave(rank);
                Said::Answered
            }
        }
    }

    /// Executes the lines that are complete with these bytes from `rank`.
    pub(crate) fn take_in(&mut self, rank: u32, bytes: &[u8]) -> Said {
        self.connections[rank as usize].lines.push(bytes);
        let mut said = Said::Answered;
        while let Some(line) = self.connections[rank as usize].lines.next() {
            if let abort @ Said::Abort { .. } = self.obey(rank, PmiLine(&line)) {
                said = abort;
            }
        }
        if self.connections[rank as usize].lines.is_overlong() {
            self.leave(rank);
        }
        said
    }

    /// Closes the connection of `rank`, which has ended. The ranks that wait for it at the barrier
    /// get an error.
    pub(crate) fn leave(&mut self, rank: u32) {
        let connection = &mut self.connections[rank as usize];
        connection.socket = None;
        connection.waits = false;
        self.lost.get_or_insert(rank);
        self.open_barrier();
    }

    fn obey(&mut self, rank: u32, line: PmiLine<'_>) -> Said {
        let ranks = self.connections.len();
        let answer = match line.get("cmd").or_else(|| line.get("mcmd")) {
            Some("init") if line.number("pmi_version") == Some(1) => {
                "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1".to_owned()
            }
            Some("init") => "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1".to_owned(),
            Some("get_maxes") => {
                format!(
                    "cmd=maxes rc=0 kvsname_max=256 keylen_max={KEY_MAX} vallen_max={VALUE_MAX}"
                )
            }
            Some("get_my_kvsname") => format!("cmd=my_kvsname rc=0 kvsname={SPACE}"),
            Some("get_universe_size") => format!("cmd=universe_size rc=0 size={ranks}"),
            Some("get_appnum") => "cmd=appnum rc=0 appnum=0".to_owned(),
            Some("put") => match self.put(line) {
                Ok(()) => "cmd=put_result rc=0 msg=success".to_owned(),
                Err(why) => format!("cmd=put_result rc=-1 msg={why}"),
            },
            Some("get") => self.get(line),
            Some("barrier_in") => {
                self.connections[rank as usize].waits = true;
                self.open_barrier();
                return Said::Answered;
            }
            Some("finalize") => {
                self.say(rank, "cmd=finalize_ack rc=0");
                self.lost.get_or_insert(rank);
                self.open_barrier();
                return Said::Answered;
            }
            Some("abort") => {
                return Said::Abort { code: line.number("exitcode").unwrap_or(1) };
            }
            Some(other) => format!("cmd={other}_result rc=-1 msg=not_supported"),
            // The line is a field of an unknown command.
            None => return Said::Answered,
        };
        self.say(rank, &answer);
        Said::Answered
    }

    fn put(&mut self, line: PmiLine<'_>) -> Result<(), &'static str> {
        if line.get("kvsname") != Some(SPACE) {
            return Err("no_such_kvs");
        }
        let (Some(key), value) = (line.get("key"), line.get("value").unwrap_or_default()) else {
            return Err("no_key");
        };
        if key.len() >= KEY_MAX {
            return Err("key_too_long");
        }
        if value.len() >= VALUE_MAX {
            return Err("value_too_long");
        }
        if self.values.contains_key(key) {
            return Err("duplicate_key");
        }
        self.values.insert(key.into(), value.into());
        Ok(())
    }

    fn get(&self, line: PmiLine<'_>) -> String {
        let key = line.get("key").filter(|_| line.get("kvsname") == Some(SPACE));
        match key.and_then(|key| self.values.get(key)) {
            Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
            None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
        }
    }

    /// Releases all ranks when all have come, and sends an error to waiting ranks when a rank has
    /// ended.
    fn open_barrier(&mut self) {
        if self.lost.is_none() && !self.connections.iter().all(|connection| connection.waits) {
            return;
        }
        let answer = self.lost.map_or_else(
            || "cmd=barrier_out rc=0".to_owned(),
            |rank| format!("cmd=barrier_out rc=-1 msg=rank_{rank}_has_ended"),
        );
        for rank in 0..self.connections.len() {
            if core::mem::take(&mut self.connections[rank].waits) {
                self.is_broken |= self.lost.is_some();
                self.say(rank as u32, &answer);
            }
        }
    }

    fn say(&mut self, rank: u32, answer: &str) {
        let connection = &mut self.connections[rank as usize];
        let Some(socket) = &connection.socket else { return };
        let line = format!("{answer}\n");
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if rustix::net::send(socket, line.as_bytes(), flags) != Ok(line.len()) {
            connection.socket = None;
        }
    }
}

#[cfg(test)]
mod tests;
