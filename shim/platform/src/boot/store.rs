//! The key-value store of a job, through which its ranks exchange data before they can send
//! messages.

use core::fmt;
use std::collections::HashMap;
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError, TryLockError};

use rustix::io::Errno;

/// A store that every rank of a job can write to and read from: the launcher's, or an embedder's
/// own (`World::init_with`).
///
/// All ranks find a value once they have all passed the same [`KeyValueStore::fence`]. A key is put
/// once.
pub trait KeyValueStore: fmt::Debug + Send {
    /// Stores `value` under `key`, which consists of letters, digits, `-`, `_` and `.`.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), StoreError>;

    /// Returns the value under `key`.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Waits until every rank of the job has called it, without a time limit.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn fence(&mut self) -> Result<(), StoreError>;

    /// Tells the launcher that this rank ends in good order, and shuts the store. A second call has
    /// no effect.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    fn finalize(&mut self) -> Result<(), StoreError>;

    /// Tells the launcher to end the job with `code`. It ignores errors and waits for no answer.
    fn abort(&mut self, code: i32);

    /// Returns whether any thread may call [`KeyValueStore::get`] until
    /// [`KeyValueStore::finalize`], and gets an answer without the help of other ranks.
    ///
    /// If so, a rank reads the address of a peer on another node when it first connects to the
    /// peer. Otherwise it reads the addresses of all ranks at the start, and keeps them.
    fn serves_until_finalize(&self) -> bool {
        false
    }
}

/// A job's store, which a rank's world and its network share.
#[derive(Clone, Debug)]
pub struct SharedStore {
    shared: Arc<Mutex<Box<dyn KeyValueStore>>>,
}

impl SharedStore {
    /// Shares `store`.
    pub fn new(store: Box<dyn KeyValueStore>) -> Self {
        Self { shared: Arc::new(Mutex::new(store)) }
    }

    /// Returns the store, and waits while another user of the rank has it.
    pub fn lock(&self) -> MutexGuard<'_, Box<dyn KeyValueStore>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the store, or `None` while another user of the rank has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Box<dyn KeyValueStore>>> {
        match self.shared.try_lock() {
            Ok(store) => Some(store),
            Err(TryLockError::Poisoned(store)) => Some(store.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The store of a job inside one process.
#[derive(Clone, Debug)]
pub struct InProcess {
    shared: Arc<StoreValues>,
}

#[derive(Debug)]
struct StoreValues {
    values: Mutex<HashMap<String, Vec<u8>>>,
    barrier: Barrier,
}

impl InProcess {
    /// Creates the store of `ranks` ranks, each of which gets a clone.
    pub fn new(ranks: u32) -> Self {
        let barrier = Barrier::new(ranks as usize);
        Self { shared: Arc::new(StoreValues { values: Mutex::default(), barrier }) }
    }
}

impl KeyValueStore for InProcess {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let mut values = self.shared.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let values = self.shared.values.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(values.get(key).cloned())
    }

    fn fence(&mut self) -> Result<(), StoreError> {
        self.shared.barrier.wait();
        Ok(())
    }

    fn finalize(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn abort(&mut self, _: i32) {}

    fn serves_until_finalize(&self) -> bool {
        true
    }
}

/// The reason why the key-value store failed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StoreError {
    /// The socket to the launcher failed.
    Socket {
        /// The command.
        command: &'static str,
        /// The kernel's error.
        error: Errno,
    },
    /// The launcher closed the socket: it has ended, or did not understand the command.
    Closed {
        /// The command.
        command: &'static str,
    },
    /// The launcher did not answer.
    Silent {
        /// The command.
        command: &'static str,
        /// Time that this process waited, in seconds.
        seconds: u64,
    },
    /// The launcher's answer cannot be read.
    Malformed {
        /// The command.
        command: &'static str,
        /// The answer.
        answer: String,
    },
    /// The launcher refused the command.
    Refused {
        /// The command.
        command: &'static str,
        /// The launcher's answer.
        answer: String,
    },
    /// The key is longer than the launcher takes, or has characters that it cannot carry.
    Key {
        /// The key.
        key: String,
        /// Longest key, in bytes.
        max: usize,
    },
    /// The embedder's own store failed.
    Embedder {
        /// The command.
        command: &'static str,
        /// The embedder's error code.
        code: i32,
    },
    /// The store was shut by `World::finalize`.
    Shut,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { command, error } => {
                write!(f, "the launcher's PMI socket failed at {command}: {error}")
            }
            Self::Closed { command } => write!(
                f,
                "the launcher closed its PMI socket at {command}: it has ended, or does \
                 not speak PMI-1"
            ),
            Self::Silent { command, seconds } => write!(
                f,
                "the launcher did not answer PMI {command} for {seconds} s: it is stopped, or the \
                 socket that PMI_FD names leads to a program that does not speak PMI-1"
            ),
            Self::Malformed { command, answer } => {
                write!(f, "the launcher's answer to PMI {command} cannot be read: {answer:?}")
            }
            Self::Refused { command, answer } => match reason(answer) {
                Some(reason) => write!(f, "the launcher refused PMI {command}: {reason}"),
                None => write!(f, "the launcher refused PMI {command}: {answer}"),
            },
            Self::Key { key, max } => write!(
                f,
                "the key {key:?} of {} bytes cannot be stored: the launcher takes keys of at \
                 most {max} bytes, of letters, digits, `-`, `_` and `.`",
                key.len()
            ),
            Self::Embedder { command, code } => write!(
                f,
                "the embedder's key-value store failed at {command} with {code}: see \
                 the output of its callback"
            ),
            Self::Shut => f.write_str("the key-value store is shut: this rank has left the job"),
        }
    }
}

/// Returns the reason in a launcher's answer, where it gives one: a text without spaces.
fn reason(answer: &str) -> Option<String> {
    let reason = answer.split(' ').find_map(|field| field.strip_prefix("msg="))?;
    Some(reason.replace('_', " "))
}

impl core::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Socket { error, .. } => Some(error),
            _ => None,
        }
    }
}
