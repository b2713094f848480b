//! Labels each line of the ranks' output with the rank.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Bytes above which a line is passed on in parts. A rank that never ends a line must not
/// fill the launcher's memory.
const LONGEST_LINE: usize = 1 << 20;

/// The destination of labelled lines.
#[derive(Clone, Copy, Debug)]
pub(super) enum LineSink {
    Stdout,
    Stderr,
}

/// One output pipe of one rank.
#[derive(Debug)]
pub(super) struct Output {
    pipe: std::fs::File,
    lines: LineLabeler,
    sink: LineSink,
}

/// The state of a pipe after a read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PipeState {
    More,
    Dry,
    Ended,
}

impl Output {
    pub(super) fn new(pipe: OwnedFd, rank: u32, sink: LineSink) -> Result<Self, Errno> {
        rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Self { pipe: pipe.into(), lines: LineLabeler::new(rank), sink })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Passes on the bytes that are there. Returns false when the pipe has ended, or when the
    /// output can no longer be written. The caller then drops it, so that the rank's next write
    /// fails.
    pub(super) fn pass_on(&mut self) -> bool {
        self.pump() != PipeState::Ended
    }

    /// Passes on all that the rank has written, also a last line without an end.
    pub(super) fn finish(mut self) {
        while self.pump() == PipeState::More {}
    }

    fn pump(&mut self) -> PipeState {
        let mut bytes = [0; 64 * 1024];
        let (flow, text) = match self.pipe.read(&mut bytes) {
            Ok(0) => (PipeState::Ended, self.lines.finish()),
            Ok(length) => (PipeState::More, self.lines.push(&bytes[..length])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return PipeState::More,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return PipeState::Dry,
            Err(_) => (PipeState::Ended, self.lines.finish()),
        };
        match write(self.sink, &text) {
            Ok(()) => flow,
            Err(_) => PipeState::Ended,
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // A failure cannot be reported any more.
        let _ = write(self.sink, &self.lines.finish());
    }
}

fn write(sink: LineSink, text: &[u8]) -> io::Result<()> {
    match sink {
        _ if text.is_empty() => Ok(()),
        LineSink::Stdout => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(text).and_then(|()| stdout.flush())
        }
        LineSink::Stderr => io::stderr().write_all(text),
    }
}

/// Splits a stream of bytes into labelled lines.
#[derive(Debug)]
struct LineLabeler {
    label: String,
    partial: Vec<u8>,
}

impl LineLabeler {
    fn new(rank: u32) -> Self {
        Self { label: format!("[{rank}] "), partial: Vec::new() }
    }

    /// Takes in `bytes` and returns the lines that are complete now.
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

    /// Returns the last line, with its end.
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
        let mut lines = LineLabeler::new(3);
        assert_eq!(lines.push(b"on"), b"");
        assert_eq!(lines.push(b"e\ntwo\nthr"), b"[3] one\n[3] two\n");
        assert_eq!(lines.push(b"ee"), b"");
        assert_eq!(lines.finish(), b"[3] three\n");
        assert_eq!(lines.finish(), b"");
    }

    #[test]
    fn empty_lines_and_any_bytes_are_kept() {
        let mut lines = LineLabeler::new(0);
        assert_eq!(lines.push(b"\n\n\xff\0\n"), b"[0] \n[0] \n[0] \xff\0\n");
    }

    #[test]
    fn an_endless_line_is_passed_on_in_parts() {
        let mut lines = LineLabeler::new(0);
        let out = lines.push(&vec![b'x'; LONGEST_LINE + 1]);
        assert_eq!(out.len(), "[0] ".len() + LONGEST_LINE + 1 + 1);
        assert!(lines.partial.is_empty());
    }
}
