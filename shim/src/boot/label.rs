//! Output of ranks with the rank in front of every line.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// A line longer than this is passed on in parts, bytes: a rank that never ends a line must not fill our memory.
const LONGEST_LINE: usize = 1 << 20;

/// Where lines go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sink {
    Stdout,
    Stderr,
}

/// One output pipe of one rank.
#[derive(Debug)]
pub(super) struct Output {
    pipe: std::fs::File,
    lines: Lines,
    sink: Sink,
}

/// Whether a pipe has more to give.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flow {
    More,
    Dry,
    Ended,
}

impl Output {
    pub(super) fn new(pipe: OwnedFd, rank: u32, sink: Sink) -> Result<Self, Errno> {
        rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Self { pipe: pipe.into(), lines: Lines::new(rank), sink })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Passes on what is there. False when the pipe has ended, or nobody takes its lines any more: drop it then, so
    /// that the rank hears of it.
    pub(super) fn pass_on(&mut self) -> bool {
        self.pump() != Flow::Ended
    }

    /// Passes on all that the rank has written, the last line also if it has no end.
    pub(super) fn finish(mut self) {
        while self.pump() == Flow::More {}
    }

    fn pump(&mut self) -> Flow {
        let mut bytes = [0; 64 * 1024];
        let (flow, text) = match self.pipe.read(&mut bytes) {
            Ok(0) => (Flow::Ended, self.lines.finish()),
            Ok(length) => (Flow::More, self.lines.push(&bytes[..length])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Flow::More,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flow::Dry,
            Err(_) => (Flow::Ended, self.lines.finish()),
        };
        match write(self.sink, &text) {
            Ok(()) => flow,
            Err(_) => Flow::Ended,
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Nobody is left to be told of a failure.
        let _ = write(self.sink, &self.lines.finish());
    }
}

fn write(sink: Sink, text: &[u8]) -> io::Result<()> {
    match sink {
        _ if text.is_empty() => Ok(()),
        Sink::Stdout => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(text).and_then(|()| stdout.flush())
        }
        Sink::Stderr => io::stderr().write_all(text),
    }
}

/// Cuts a stream of bytes into labelled lines.
#[derive(Debug)]
struct Lines {
    label: String,
    partial: Vec<u8>,
}

impl Lines {
    fn new(rank: u32) -> Self {
        Self { label: format!("[{rank}] "), partial: Vec::new() }
    }

    /// Takes in `bytes` and gives the lines that are whole now.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut whole = Vec::with_capacity(bytes.len() + self.label.len());
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                whole.extend_from_slice(self.label.as_bytes());
                whole.append(&mut self.partial);
            } else if self.partial.len() > LONGEST_LINE {
                whole.append(&mut self.finish());
            }
        }
        whole
    }

    /// Gives the last line, ended.
    fn finish(&mut self) -> Vec<u8> {
        if self.partial.is_empty() {
            return Vec::new();
        }
        let mut line = self.label.clone().into_bytes();
        line.append(&mut self.partial);
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_labelled() {
        let mut lines = Lines::new(3);
        assert_eq!(lines.push(b"on"), b"");
        assert_eq!(lines.push(b"e\ntwo\nthr"), b"[3] one\n[3] two\n");
        assert_eq!(lines.push(b"ee"), b"");
        assert_eq!(lines.finish(), b"[3] three\n");
        assert_eq!(lines.finish(), b"");
    }

    #[test]
    fn empty_lines_and_any_bytes_are_kept() {
        let mut lines = Lines::new(0);
        assert_eq!(lines.push(b"\n\n\xff\0\n"), b"[0] \n[0] \n[0] \xff\0\n");
    }

    #[test]
    fn an_endless_line_is_passed_on_in_parts() {
        let mut lines = Lines::new(0);
        let out = lines.push(&vec![b'x'; LONGEST_LINE + 1]);
        assert_eq!(out.len(), "[0] ".len() + LONGEST_LINE + 1 + 1);
        assert!(lines.partial.is_empty());
    }
}
