//! A transfer method of this crate: it moves messages through files in memory.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process;
use std::sync::Arc;

use fastrand::Rng;
use rustix::fs::{MemfdFlags, memfd_create};
use strait::transfer_method::{
    COOKIE_MAX, Cts, Ending, MethodCookie, MethodStep, RecvSide, Refused, SendSide, TransferMethod,
    TransferSide,
};
use strait_tests::payload;

/// How many bytes one call moves at most.
const SLICE: usize = 90_000;

/// Bytes of a cookie before its padding.
const HEAD: usize = 25;

/// The way in which a message moves, drawn by its sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Style {
    /// The sender fills a file before the RTS. The receiver reads it without a CTS, and says DONE.
    Pull,
    /// The receiver makes a file, which its CTS names. The sender fills it and tells by cookies how
    /// far it is. The receiver says DONE.
    Push,
    /// As `Push`, but each side sees the end by itself.
    Both,
}

impl Style {
    const ALL: [Self; 3] = [Self::Pull, Self::Push, Self::Both];
}

/// What all messages of a rank came to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) complete: AtomicUsize,
    pub(crate) abandoned: AtomicUsize,
    pub(crate) refused: AtomicUsize,
    pub(crate) open: AtomicUsize,
}

/// One side of a message under way.
#[derive(Debug)]
struct Open {
    style: Style,
    file: Option<File>,
    /// Bytes that this side has moved.
    moved: usize,
    /// Bytes that the sender of `Push` has told, or the receiver was told.
    told: usize,
}

/// The method of one rank.
#[derive(Debug)]
pub(crate) struct FileMethod {
    rng: Rng,
    /// Calls in a hundred that refuse their message.
    refusals: u32,
    /// Moves after which this process dies.
    dies_after: Option<u32>,
    open: HashMap<u64, Open>,
    tally: Arc<Tally>,
}

impl FileMethod {
    pub(crate) fn new(seed: u64, refusals: u32, tally: &Arc<Tally>) -> Self {
        let rng = Rng::with_seed(seed);
        Self { rng, refusals, dies_after: None, open: HashMap::new(), tally: Arc::clone(tally) }
    }

    pub(crate) fn dying_after(self, moves: u32) -> Self {
        Self { dies_after: Some(moves), ..self }
    }

    fn may_refuse(&mut self) -> Result<(), Refused> {
        if self.rng.u32(..100) < self.refusals {
            self.tally.refused.fetch_add(1, Relaxed);
            return Err(Refused);
        }
        Ok(())
    }

    fn begin(&mut self, id: u64, open: Open) {
        assert!(self.open.insert(id, open).is_none(), "two messages have the number {id}");
        self.tally.open.fetch_add(1, Relaxed);
    }

    fn end(&mut self, id: u64, ending: Ending) {
        assert!(self.open.remove(&id).is_some(), "message {id} ends twice");
        self.tally.open.fetch_sub(1, Relaxed);
        let count = match ending {
            Ending::Complete => &self.tally.complete,
            Ending::Abandoned => &self.tally.abandoned,
        };
        count.fetch_add(1, Relaxed);
    }

    /// Moves bytes of a message that goes out, and tells how far this side is.
    fn fill(&mut self, side: &mut SendSide<'_>) -> Result<MethodStep, Refused> {
        let most = self.rng.usize(1..SLICE);
        if self.open[&side.id()].style == Style::Push {
            self.may_refuse()?;
        }
        let open = self.open.get_mut(&side.id()).unwrap();
        let before = open.moved;
        put(open, side, most);
        if open.told < open.moved && side.send_cookie(&open.moved.to_le_bytes()).is_ok() {
            open.told = open.moved;
        }
        match open.style {
            Style::Both if open.told == side.bytes() => Ok(MethodStep::Done),
            _ if open.moved > before => Ok(MethodStep::Moved),
            _ => Ok(MethodStep::Waiting),
        }
    }

    /// Moves bytes of a message that comes in. Of `Pull`, the sender is told, too.
    fn empty(&mut self, side: &mut RecvSide<'_>) -> Result<MethodStep, Refused> {
        let most = self.rng.usize(1..SLICE);
        if self.open[&side.id()].style != Style::Both {
            self.may_refuse()?;
        }
        let open = self.open.get_mut(&side.id()).unwrap();
        let (before, is_pull) = (open.moved, open.style == Style::Pull);
        let ready = if is_pull { most } else { most.min(open.told - open.moved) };
        get(open, side, ready);
        if open.moved == side.bytes() {
            let is_both = open.style == Style::Both;
            return Ok(if is_both { MethodStep::Done } else { MethodStep::DoneForBoth });
        }
        if is_pull && open.moved > before {
            // A cookie that finds no room is not missed.
            let _ = side.send_cookie(&open.moved.to_le_bytes());
        }
        Ok(if open.moved > before { MethodStep::Moved } else { MethodStep::Waiting })
    }

    fn one_more_move(&mut self) {
        if let Some(left) = &mut self.dies_after {
            *left = left.checked_sub(1).unwrap_or_else(|| strait_tests::die());
        }
    }

    /// Writes a cookie: the style, a file of this process, and padding of a drawn length.
    fn describe(&mut self, cookie: &mut MethodCookie, style: Style, file: Option<&File>) {
        let fd = file.map_or(0, |file| file.as_raw_fd() as u32);
        let (pid, length) = (process::id(), self.rng.usize(..=COOKIE_MAX - HEAD));
        let mut bytes = vec![style as u8];
        bytes.extend_from_slice(&pid.to_le_bytes());
        bytes.extend_from_slice(&fd.to_le_bytes());
        bytes.extend_from_slice(&(length as u64).to_le_bytes());
        bytes.extend_from_slice(&file.map_or(0, number_of).to_le_bytes());
        bytes.extend_from_slice(&payload::of(u64::from(fd), length));
        cookie.write(&bytes).unwrap();
    }
}

/// Returns the number of a file, which no other file has.
fn number_of(file: &File) -> u64 {
    file.metadata().unwrap().ino()
}

/// The file that a cookie names.
struct Named {
    path: String,
    number: u64,
}

impl Named {
    /// Opens the file, unless its owner has closed it. Another file may have its descriptor then.
    fn open(&self, options: &mut OpenOptions) -> Result<File, Refused> {
        let file = options.open(&self.path).map_err(|_| Refused)?;
        if number_of(&file) == self.number { Ok(file) } else { Err(Refused) }
    }
}

/// Reads a cookie, and checks that every byte of it has come. Returns the style and the file.
fn read(cookie: &[u8]) -> (Style, Named) {
    let word = |at: usize| u32::from_le_bytes(cookie[at..at + 4].try_into().unwrap());
    let (pid, fd, length) = (word(1), word(5), word(9) as usize);
    assert_eq!(cookie.len(), HEAD + length, "a cookie was cut");
    assert_eq!(payload::first_difference(u64::from(fd), &cookie[HEAD..]), None);
    let number = u64::from_le_bytes(cookie[17..25].try_into().unwrap());
    (Style::ALL[usize::from(cookie[0])], Named { path: format!("/proc/{pid}/fd/{fd}"), number })
}

fn new_file() -> File {
    File::from(memfd_create("strait-test", MemfdFlags::CLOEXEC).unwrap())
}

/// Copies the next bytes of a message to its file.
fn put(open: &mut Open, side: &SendSide<'_>, most: usize) {
    let piece = side.piece(open.moved);
    let piece = &piece[..piece.len().min(most)];
    open.file.as_ref().unwrap().write_all_at(piece, open.moved as u64).unwrap();
    open.moved += piece.len();
}

/// Copies the next bytes of a message from its file.
fn get(open: &mut Open, side: &mut RecvSide<'_>, most: usize) {
    let piece = side.piece(open.moved);
    let length = piece.len().min(most);
    let file = open.file.as_ref().unwrap();
    file.read_exact_at(&mut piece[..length], open.moved as u64).unwrap();
    open.moved += length;
}

impl TransferMethod for FileMethod {
    fn serves(&self, peer: u32, bytes: usize) -> bool {
        // A message in eight stays with Strait.
        !(bytes + peer as usize).is_multiple_of(8)
    }

    fn pre_send(
        &mut self,
        side: &mut SendSide<'_>,
        cookie: &mut MethodCookie,
    ) -> Result<(), Refused> {
        self.may_refuse()?;
        assert!(side.send_cookie(&[]).is_err(), "the receiver is not known yet");
        let style = Style::ALL[self.rng.usize(..Style::ALL.len())];
        let mut open = Open { style, file: None, moved: 0, told: 0 };
        if style == Style::Pull {
            open.file = Some(new_file());
            while open.moved < side.bytes() {
                put(&mut open, side, usize::MAX);
            }
        }
        self.describe(cookie, style, open.file.as_ref());
        self.begin(side.id(), open);
        Ok(())
    }

    fn pre_recv(
        &mut self,
        side: &mut RecvSide<'_>,
        send_cookie: &[u8],
        cookie: &mut MethodCookie,
    ) -> Result<Cts, Refused> {
        self.may_refuse()?;
        let (style, named) = read(send_cookie);
        let file = match style {
            // Its sender has died where the file cannot be opened.
            Style::Pull => named.open(File::options().read(true))?,
            Style::Push | Style::Both => new_file(),
        };
        self.describe(cookie, style, Some(&file));
        self.begin(side.id(), Open { style, file: Some(file), moved: 0, told: 0 });
        Ok(if style == Style::Pull { Cts::Omitted } else { Cts::Sent })
    }

    fn start_recv(&mut self, side: &mut RecvSide<'_>) -> Result<MethodStep, Refused> {
        if self.open[&side.id()].style != Style::Both {
            self.may_refuse()?;
        }
        Ok(MethodStep::Waiting)
    }

    fn start_send(
        &mut self,
        side: &mut SendSide<'_>,
        receive_cookie: &[u8],
    ) -> Result<MethodStep, Refused> {
        let (style, named) = read(receive_cookie);
        assert_ne!(style, Style::Pull, "there is no CTS");
        self.may_refuse()?;
        let open = self.open.get_mut(&side.id()).unwrap();
        open.file = Some(named.open(File::options().write(true))?);
        Ok(MethodStep::Waiting)
    }

    fn handle_cookie(
        &mut self,
        side: &mut TransferSide<'_>,
        cookie: &[u8],
    ) -> Result<MethodStep, Refused> {
        let told = usize::from_le_bytes(cookie.try_into().unwrap());
        let (id, bytes) = match side {
            TransferSide::Send(side) => (side.id(), side.bytes()),
            TransferSide::Recv(side) => (side.id(), side.bytes()),
        };
        if self.open[&id].style != Style::Both {
            self.may_refuse()?;
        }
        let open = self.open.get_mut(&id).unwrap();
        assert!(told > open.told && told <= bytes, "cookies come once and in order");
        open.told = told;
        Ok(MethodStep::Waiting)
    }

    fn progress(&mut self, side: &mut TransferSide<'_>) -> Result<MethodStep, Refused> {
        self.one_more_move();
        match side {
            TransferSide::Send(side) => self.fill(side),
            TransferSide::Recv(side) => self.empty(side),
        }
    }

    fn post_send(&mut self, side: &mut SendSide<'_>, ending: Ending) {
        self.end(side.id(), ending);
    }

    fn post_recv(&mut self, side: &mut RecvSide<'_>, ending: Ending) {
        self.end(side.id(), ending);
    }
}
