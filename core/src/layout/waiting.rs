//! The record in which a rank says what it waits for. A process outside the job reads it.
//!
//! The rank writes its record when a wait has lasted longer than its first spin, and again at each
//! later check of its peers' liveness. A shorter wait costs nothing. The reader needs no help from
//! the rank, which may spin, sleep, compute, be stopped, or have ended.
//!
//! A record has one writer and any number of readers. A sequence number that is odd during a write
//! distinguishes a torn read from a complete one. No protocol depends on a record: it serves users
//! and tools.

use core::fmt;

use crate::golden;
use crate::matching::{ANY_SOURCE, ANY_TAG};
use crate::sync::AtomicU64;

use super::names::ShortName;
use super::seqlock;
use super::wait_details::{RankSet, RequestWait};

/// Number of words in a record after its sequence number.
const WORDS: usize = 7;

/// Number of attempts to read a record before it counts as [`Unreadable`].
pub(super) const ATTEMPTS: u32 = 64;

/// The value that stands for `None` in a field of 32 bits. It is not a rank, a tag, a context or a
/// wildcard.
pub(super) const NONE: u32 = u32::MAX - 1;

/// Defines the values of the word that names the call, as version 11 of the layout numbers them.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $number:literal: $words:literal,)+) => {
        /// A call in which a rank waits.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(u32)]
        pub enum Call {
            $($(#[$doc])* $name = $number,)+
        }

        impl Call {
            /// Returns the value with this number, if there is one.
            #[must_use]
            pub const fn parse(raw: u32) -> Option<Self> {
                match raw {
                    $($number => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// Returns the name that users know.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)+
                }
            }
        }
    };
}

calls! {
    /// A call that does not wait, in a program that makes such calls in a loop: `test`, `iprobe`,
    /// `progress`.
    Test = 1: "a call that does not wait (test, iprobe, progress)",
    /// A receive.
    Recv = 2: "recv",
    /// A send that the destination has not accepted yet.
    Send = 3: "send",
    /// A probe, of either kind.
    Probe = 4: "probe",
    /// A wait for one of several operations.
    WaitAny = 5: "wait_any",
    /// A wait for at least one of several operations.
    WaitSome = 6: "wait_some",
    /// A barrier.
    Barrier = 7: "barrier",
    /// Another collective operation.
    Collective = 8: "a collective operation",
    /// The end of an exposure epoch.
    WindowWait = 9: "the end of an exposure epoch (window wait, fence)",
    /// The post of a target that an access epoch names.
    WindowStart = 10: "the post of a window's target (start, fence)",
    /// The lock of a window's target.
    WindowLock = 11: "the lock of a window's target",
    /// The end of operations on a window's target.
    WindowFlush = 12: "the end of operations on a window's target (flush, complete, unlock)",
    /// The end of all operations on a window.
    WindowFree = 13: "the end of all operations on a window (free)",
    /// A connection to a peer.
    Connect = 14: "a connection",
    /// The delivery of all sent messages, before this rank leaves.
    Finalize = 15: "finalize: some sent messages are not delivered yet",
    /// The end of cancelled or detached operations.
    Settle = 16: "the end of cancelled operations",
    /// A request of a kind that the waiting code does not know.
    Request = 17: "a request",
    /// The lock of the numbers that an accumulate changes; the rank is its holder.
    Accumulate = 18: "the lock of an accumulate's numbers",
    /// The ranks that start with this one.
    Start = 19: "the start of the job's other ranks",
}

/// What a rank waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wait {
    /// The call in which the rank waits.
    pub call: Call,
    /// The rank that has to act, or [`ANY_SOURCE`]; `None` if the wait is not for a single rank.
    pub peer: Option<u32>,
    /// The message's tag, or [`ANY_TAG`].
    pub tag: Option<u32>,
    /// The context.
    pub context: Option<u32>,
    /// Length in bytes of the message if it is known, otherwise of the buffer.
    pub bytes: Option<u64>,
    /// Number of complete operations and of all operations, in a wait for several. The other fields
    /// describe the first incomplete one.
    pub over: Option<(u32, u32)>,
    /// What keeps a send from going on.
    pub stage: Option<SendState>,
    /// Number of the window, in a call on a window. Members of a window agree on it. The upper half
    /// is the number of its group.
    pub window: Option<u32>,
    /// The owner of the part of the window, where another rank has to act.
    pub target: Option<u32>,
    /// The ranks that have to act, all of them or one of them, as the call says. `None` if they are
    /// not known.
    pub others: Option<RankSet>,
    /// The function that the program has called, if an interface above Strait tells its name.
    pub caller: Option<ShortName>,
    /// The first incomplete operations of a wait for several.
    pub requests: [Option<RequestWait>; RequestWait::MOST],
}

/// Defines what keeps a send from going on, as version 11 of the layout numbers it.
macro_rules! stages {
    ($($(#[$doc:meta])* $name:ident = $number:literal: $words:literal,)+) => {
        /// What keeps a send from going on.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(u32)]
        pub enum SendState {
            $($(#[$doc])* $name = $number,)+
        }

        impl SendState {
            /// Returns the value with this number, if there is one.
            #[must_use]
            pub const fn parse(raw: u32) -> Option<Self> {
                match raw {
                    $($number => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// Returns a description for users.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$name => $words,)+
                }
            }
        }
    };
}

stages! {
    /// The message waits for cells, or for lines of the fastbox.
    Room = 1: "no room on the way: the destination takes nothing",
    /// The message is announced (RTS) and waits for its receive, or is on its way.
    Announced = 2: "announced: no receive has matched it, or its bytes are on their way",
    /// The destination's memory for unexpected messages of this rank is used up, or the message is
    /// synchronous: it waits for its receive.
    Deferred = 3: "kept by its sender: it waits for its receive, as the destination has no room \
                   for unexpected messages or the send is synchronous",
}

impl Wait {
    /// Creates a wait with a known call and no other information.
    #[must_use]
    pub const fn new(call: Call) -> Self {
        Self {
            call,
            peer: None,
            tag: None,
            context: None,
            bytes: None,
            over: None,
            stage: None,
            window: None,
            target: None,
            others: None,
            caller: None,
            requests: [None; RequestWait::MOST],
        }
    }

    /// Creates a wait for one rank.
    #[must_use]
    pub const fn on(call: Call, peer: u32) -> Self {
        Self { peer: Some(peer), ..Self::new(call) }
    }
}

/// A rank's record as a reader finds it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Waited {
    /// What the rank waits for; `None` if its last long wait is over.
    pub wait: Option<Wait>,
    /// When the wait was first recorded or, if it is over, when it ended. In nanoseconds of the
    /// machine's monotonic clock.
    pub since_ns: u64,
    /// When the rank last updated the record, on the same clock. A rank that is stuck inside a
    /// call, or stopped, does not update it.
    pub latest_ns: u64,
    /// Number of progress calls in this wait so far.
    pub turns: u64,
}

/// The record was being written during every attempt, or holds values that no rank writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unreadable;

/// The record of one rank. Zeroed memory is the record of a rank that has not waited yet.
///
/// | offset | size | field      | meaning                                                       |
/// |-------:|-----:|------------|---------------------------------------------------------------|
/// |      0 |    8 | `sequence` | number of writes started and ended; odd during a write        |
/// |      8 |    8 | `words[0]` | call, 0 outside of waits; operations of a wait for several   |
/// |     16 |    8 | `words[1]` | `since_ns`                                                    |
/// |     24 |    8 | `words[2]` | `latest_ns`                                                   |
/// |     32 |    8 | `words[3]` | `turns`                                                       |
/// |     40 |    8 | `words[4]` | peer; tag                                                     |
/// |     48 |    8 | `words[5]` | context; complete operations of a wait for several            |
/// |     56 |    8 | `words[6]` | `bytes`; the highest number means none                        |
///
/// Of two values in a word, the first is the lower half.
#[derive(Debug)]
#[repr(C)]
pub struct WaitRecord {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

golden::structure!(WaitRecord { sequence, words });

impl WaitRecord {
    /// Creates the record of a rank that has not waited yet, for models and tests. In a segment,
    /// zeroed memory is that record.
    #[must_use]
    pub fn empty() -> Self {
        Self { sequence: AtomicU64::new(0), words: core::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Records what the rank waits for. Only that rank calls it, from one thread at a time.
    pub fn write(&self, waited: &Waited) {
        let wait = waited.wait.unwrap_or(Wait::new(Call::Request));
        let call = waited.wait.map_or(0, |wait| wait.call as u32);
        let or_none = |field: Option<u32>| field.unwrap_or(NONE);
        let (over, of) = wait.over.unwrap_or_default();
        let words = [
            pack(call, of),
            waited.since_ns,
            waited.latest_ns,
            waited.turns,
            pack(or_none(wait.peer), or_none(wait.tag)),
            pack(or_none(wait.context), over),
            wait.bytes.unwrap_or(u64::MAX),
        ];
        seqlock::write(&self.sequence, &self.words, words);
    }

    /// Returns the contents of the record, or `None` if its rank has never waited for long.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if every attempt failed.
    pub fn read(&self) -> Result<Option<Waited>, Unreadable> {
        (0..ATTEMPTS).map(|_| self.read_once()).find(Result::is_ok).unwrap_or(Err(Unreadable))
    }

    /// Attempts [`WaitRecord::read`] once.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if the record holds invalid values or was written meanwhile.
    pub fn read_once(&self) -> Result<Option<Waited>, Unreadable> {
        seqlock::read(&self.sequence, &self.words).map_or(Err(Unreadable), parse)
    }
}

pub(super) const fn pack(lower: u32, upper: u32) -> u64 {
    lower as u64 | (upper as u64) << 32
}

pub(super) const fn unpack(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn parse(words: [u64; WORDS]) -> Result<Option<Waited>, Unreadable> {
    let [call, since_ns, latest_ns, turns, to, within, bytes] = words;
    if words == [0; WORDS] {
        return Ok(None);
    }
    let some = |field: u32| (field != NONE).then_some(field);
    let ((call, of), (peer, tag), (context, over)) = (unpack(call), unpack(to), unpack(within));
    let wait = match call {
        0 => None,
        call => Some(Wait {
            call: Call::parse(call).ok_or(Unreadable)?,
            peer: some(peer),
            tag: some(tag),
            context: some(context),
            bytes: (bytes != u64::MAX).then_some(bytes),
            over: (of != 0).then_some((over, of)),
            ..Wait::new(Call::Request)
        }),
    };
    Ok(Some(Waited { wait, since_ns, latest_ns, turns }))
}

/// A wait as users read it, with the names of communicators in place of contexts.
#[derive(Clone, Copy)]
pub struct NamedWait<'a> {
    wait: &'a Wait,
    names: &'a dyn Fn(u32) -> Option<ShortName>,
}

impl Wait {
    /// Returns the wait as users read it. `names` returns the name of the communicator of a
    /// context, if it has one.
    #[must_use]
    pub const fn named<'a>(&'a self, names: &'a dyn Fn(u32) -> Option<ShortName>) -> NamedWait<'a> {
        NamedWait { wait: self, names }
    }
}

impl fmt::Debug for NamedWait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.named(&|_| None), f)
    }
}

impl fmt::Display for NamedWait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wait { call, peer, tag, context, bytes, over, window, target, .. } = *self.wait;
        match self.wait.caller {
            Some(caller) => write!(f, "{caller} ({})", call.words())?,
            None => f.write_str(call.words())?,
        }
        let mut sign = ": ";
        let mut list = |f: &mut fmt::Formatter<'_>, words: fmt::Arguments<'_>| {
            f.write_str(core::mem::replace(&mut sign, ", "))?;
            f.write_fmt(words)
        };
        if let Some(window) = window {
            let (group, number) = (window >> 16, window & 0xffff);
            list(f, format_args!("window {group}.{number}"))?;
            if call == Call::Barrier {
                f.write_str(" (fence, free)")?;
            }
        }
        if let Some(target) = target {
            list(f, format_args!("target {target}"))?;
        }
        if let Some((over, of)) = over {
            list(f, format_args!("{over} of {of} are complete"))?;
        }
        let role = match call {
            Call::Recv | Call::Probe => "source",
            Call::Send | Call::Finalize => "destination",
            Call::WindowLock if target.is_some() => "held by rank",
            _ => "rank",
        };
        match peer {
            Some(ANY_SOURCE) => list(f, format_args!("{role} any"))?,
            Some(peer) => list(f, format_args!("{role} {peer}"))?,
            None => {}
        }
        match tag {
            // A number of Strait's own, which tells one call from another.
            _ if matches!(call, Call::Barrier | Call::Collective) => {}
            Some(ANY_TAG) => list(f, format_args!("tag any"))?,
            Some(tag) => list(f, format_args!("tag {tag}"))?,
            None => {}
        }
        match context.map(|context| (context, (self.names)(context))) {
            Some((_, Some(name))) => list(f, format_args!("communicator {name}"))?,
            Some((context, None)) => list(f, format_args!("context {context}"))?,
            None => {}
        }
        if let Some(bytes) = bytes {
            list(f, format_args!("{bytes} bytes"))?;
        }
        let requests = self.wait.requests.iter().flatten();
        for (number, request) in requests.enumerate() {
            f.write_str(if number == 0 { "; incomplete: " } else { " and " })?;
            fmt::Display::fmt(&Wait::from(*request).named(self.names), f)?;
        }
        match self.wait.stage {
            Some(stage) => write!(f, " ({})", stage.words()),
            None => Ok(()),
        }
    }
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::string::ToString as _;

    use super::*;
    use crate::sync::Ordering::Relaxed;

    const WAIT: Wait = Wait {
        call: Call::Recv,
        peer: Some(1),
        tag: Some(7),
        context: Some(0),
        bytes: Some(8),
        ..Wait::new(Call::Recv)
    };

    #[test]
    fn what_was_written_is_read() {
        let record = WaitRecord::empty();
        assert_eq!(record.read(), Ok(None));
        let several = Wait { over: Some((1, 3)), peer: None, ..Wait::new(Call::WaitAny) };
        for wait in [Some(WAIT), Some(several), None] {
            let waited = Waited { wait, since_ns: 5, latest_ns: 6, turns: 7 };
            record.write(&waited);
            assert_eq!(record.read(), Ok(Some(waited)));
        }
    }

    #[test]
    fn a_write_that_did_not_end_is_not_read() {
        let record = WaitRecord::empty();
        record.sequence.store(3, Relaxed);
        assert_eq!(record.read(), Err(Unreadable));
        // An unfinished write does not keep the next one from being read.
        record.write(&Waited { wait: Some(WAIT), since_ns: 0, latest_ns: 0, turns: 0 });
        assert_eq!(record.read().unwrap().unwrap().wait, Some(WAIT));
    }

    #[test]
    fn what_no_rank_writes_is_refused() {
        for call in [20, u32::MAX] {
            let record = WaitRecord::empty();
            record.words[0].store(call.into(), Relaxed);
            assert_eq!(record.read(), Err(Unreadable));
        }
    }

    #[test]
    fn a_wait_says_what_it_is_for() {
        assert_eq!(WAIT.to_string(), "recv: source 1, tag 7, context 0, 8 bytes");
        let any = Wait { peer: Some(ANY_SOURCE), tag: Some(ANY_TAG), ..WAIT };
        assert_eq!(any.to_string(), "recv: source any, tag any, context 0, 8 bytes");
        assert_eq!(Wait::on(Call::Connect, 3).to_string(), "a connection: rank 3");
        let several = Wait { over: Some((1, 3)), ..Wait::new(Call::WaitAny) };
        assert_eq!(several.to_string(), "wait_any: 1 of 3 are complete");
    }
}
