//! Failures as C sees them: a code, and an error message for each thread.

use core::cell::{Cell, UnsafeCell};
use core::ffi::{CStr, c_char, c_int};

use shim::{Error, Fault, NetworkError, StartError};

use crate::contexts::CONTEXT_MAX;

/// The kind of a failure, for programs. `strait_code` in C.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(i32)]
pub(crate) enum Code {
    Argument = 1,
    Handle = 2,
    Version = 3,
    Boot = 4,
    Environment = 5,
    Network = 6,
    Memory = 7,
    System = 8,
    Rank = 9,
    Tag = 10,
    Truncated = 11,
    PeerFailed = 12,
    PeerFinished = 13,
    Unreachable = 14,
    Cancelled = 15,
    Collective = 16,
    Window = 17,
    Corrupt = 18,
    Stopped = 19,
    Busy = 20,
    Forked = 21,
    Internal = 22,
}

/// All codes, and their names in C.
pub(crate) const NAMES: [(Code, &CStr); 22] = [
    (Code::Argument, c"STRAIT_ERR_ARGUMENT"),
    (Code::Handle, c"STRAIT_ERR_HANDLE"),
    (Code::Version, c"STRAIT_ERR_VERSION"),
    (Code::Boot, c"STRAIT_ERR_BOOT"),
    (Code::Environment, c"STRAIT_ERR_ENVIRONMENT"),
    (Code::Network, c"STRAIT_ERR_NETWORK"),
    (Code::Memory, c"STRAIT_ERR_MEMORY"),
    (Code::System, c"STRAIT_ERR_SYSTEM"),
    (Code::Rank, c"STRAIT_ERR_RANK"),
    (Code::Tag, c"STRAIT_ERR_TAG"),
    (Code::Truncated, c"STRAIT_ERR_TRUNCATED"),
    (Code::PeerFailed, c"STRAIT_ERR_PEER_FAILED"),
    (Code::PeerFinished, c"STRAIT_ERR_PEER_FINISHED"),
    (Code::Unreachable, c"STRAIT_ERR_UNREACHABLE"),
    (Code::Cancelled, c"STRAIT_ERR_CANCELLED"),
    (Code::Collective, c"STRAIT_ERR_COLLECTIVE"),
    (Code::Window, c"STRAIT_ERR_WINDOW"),
    (Code::Corrupt, c"STRAIT_ERR_CORRUPT"),
    (Code::Stopped, c"STRAIT_ERR_STOPPED"),
    (Code::Busy, c"STRAIT_ERR_BUSY"),
    (Code::Forked, c"STRAIT_ERR_FORKED"),
    (Code::Internal, c"STRAIT_ERR_INTERNAL"),
];

/// The result of a call, before it becomes a code for C.
pub(crate) type Called<T = ()> = Result<T, Box<Failure>>;

/// A call that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// The rank that the failure concerns, if any.
    peer: Option<u32>,
    pub(crate) text: String,
}

impl Failure {
    #[cold]
    #[inline(never)]
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Box<Self> {
        Box::new(Self { code, peer: None, text: text.into() })
    }

    /// Returns the failure of an invalid argument.
    #[cold]
    #[inline(never)]
    pub(crate) fn argument(text: impl Into<String>) -> Box<Self> {
        Self::new(Code::Argument, text)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn no_rank(rank: u32, ranks: u32) -> Box<Self> {
        Error::Start(StartError::Rank { rank, ranks }).into()
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn no_context(context: u32) -> Box<Self> {
        let text = format!("context {context} does not exist: contexts go from 0 to {CONTEXT_MAX}");
        Self::argument(text)
    }

    /// Stores the text for `strait_error_message`, and returns the number for C.
    pub(crate) fn say(&self, call: &str) -> c_int {
        let text = format!("{call}: {}{}", self.text, self.code.next_step());
        LAST.with(|last| last.set(&text, self.peer));
        self.code as c_int
    }
}

impl Code {
    /// Returns what the user can do about the failure, where the error's own text does not say it.
    const fn next_step(self) -> &'static str {
        match self {
            Self::PeerFailed => "; go on with the others, or end the job",
            Self::PeerFinished => "; expect no more of it",
            Self::Stopped => "; end the process",
            _ => "",
        }
    }

    const fn of(error: &Error) -> Self {
        match error {
            Error::Boot(_) => Self::Boot,
            Error::Environment(_) | Error::Profile(_) => Self::Environment,
            Error::Network(NetworkError::AnotherBuffer { .. }) => Self::Argument,
            Error::Network(_) => Self::Network,
            Error::Thread(_) => Self::System,
            Error::Segment(_) | Error::OutOfMemory(_) => Self::Memory,
            Error::Start(StartError::Rank { .. }) => Self::Rank,
            Error::Start(StartError::Tag { .. }) => Self::Tag,
            Error::Start(StartError::OutOfMemory(_)) => Self::Memory,
            Error::Start(StartError::Peer(fault)) | Error::Fault(fault) => Self::of_fault(fault),
            Error::Start(StartError::Corrupt(_)) | Error::Corrupt(_) => Self::Corrupt,
            Error::Collective(_) => Self::Collective,
            Error::Window(_) => Self::Window,
            Error::Stopped => Self::Stopped,
            // A failure that has no number in this interface yet.
            _ => Self::Internal,
        }
    }

    const fn of_fault(fault: &Fault) -> Self {
        match fault {
            Fault::Truncated { .. } => Self::Truncated,
            Fault::PeerFailed { .. } => Self::PeerFailed,
            Fault::PeerFinished { .. } => Self::PeerFinished,
            Fault::Unreachable { .. } => Self::Unreachable,
            Fault::Cancelled => Self::Cancelled,
            _ => Self::Internal,
        }
    }
}

impl From<Error> for Box<Failure> {
    #[cold]
    #[inline(never)]
    fn from(error: Error) -> Self {
        let peer = match &error {
            Error::Fault(Fault::Truncated { source: rank, .. } | Fault::Unreachable { rank }) => {
                Some(*rank)
            }
            error => error.gone_peer(),
        };
        Box::new(Failure { code: Code::of(&error), peer, text: error.to_string() })
    }
}

/// Size in bytes of the text of a failure, with the zero at its end.
const WORDS: usize = 1024;

/// The text of a thread's last failure. It has no destructor, so that the library can be unloaded.
struct Last {
    words: UnsafeCell<[u8; WORDS]>,
    peer: Cell<i64>,
}

thread_local! {
    static LAST: Last = const { Last { words: UnsafeCell::new([0; WORDS]), peer: Cell::new(-1) } };
}

impl Last {
    fn set(&self, text: &str, peer: Option<u32>) {
        let mut length = text.len().min(WORDS - 1);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        // SAFETY: the text belongs to this thread alone, and this library holds no other borrow of
        // it.
        let words = unsafe { &mut *self.words.get() };
        words[..length].copy_from_slice(&text.as_bytes()[..length]);
        words[length] = 0;
        self.peer.set(peer.map_or(-1, i64::from));
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn strait_error_message() -> *const c_char {
    LAST.with(|last| last.words.get()).cast()
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn strait_error_peer() -> i64 {
    LAST.with(|last| last.peer.get())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn strait_error_name(code: c_int) -> *const c_char {
    let name = NAMES.iter().find(|(known, _)| *known as c_int == code).map(|(_, name)| *name);
    name.unwrap_or(if code == 0 { c"STRAIT_OK" } else { c"unknown" }).as_ptr()
}
