//! The file in which the processes of one user find each other: their [registry](super::registry).
//!
//! It is in a directory where only its user can make files. So no other user can take the file's
//! name, or have a process wait there. The directory is `$XDG_RUNTIME_DIR`, or else `strait-USER`
//! in the directory for temporary files. If a directory of that name belongs to another user,
//! `strait-USER-1` is next.
//!
//! Each PID namespace (container) has a file of its own. A process reads and writes it under a lock
//! on it, which the kernel releases when the holder dies. The file is removed when the last
//! universe in it ends. A file that killed processes left does no harm, and the next process that
//! comes cleans it.

use core::time::Duration;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::BootError;
use super::registry::{LONGEST, UniverseRegistry};
use crate::backoff::{PeriodicWait, REGISTRY_PERIOD};
use crate::liveness;

/// Time for which other processes may hold the lock. They hold it for less than a millisecond
/// unless they are stopped.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// Number of names that are tried in the directory for temporary files.
const NAMES: u32 = 64;

/// A locked registry, with its entries.
#[derive(Debug)]
pub(super) struct LockedRegistry {
    file: File,
    path: PathBuf,
    pub(super) registry: UniverseRegistry,
}

impl LockedRegistry {
    /// Opens and locks the registry of this process's user.
    ///
    /// # Errors
    ///
    /// [`BootError::NoRendezvous`] when there is no directory for it. [`BootError::RendezvousHeld`]
    /// when a process keeps the lock for longer than `limit`.
    pub(super) fn open(limit: Duration) -> Result<Self, BootError> {
        Self::open_in(candidates(), limit)
    }

    pub(super) fn open_in(
        directories: impl Iterator<Item = PathBuf>,
        limit: Duration,
    ) -> Result<Self, BootError> {
        let mut tried = Vec::new();
        for directory in directories {
            match Self::open_at(&directory, limit) {
                Ok(open) => return Ok(open),
                Err(DirectoryRefusal::Held(path)) => {
                    return Err(BootError::RendezvousHeld { path, seconds: limit.as_secs() });
                }
                Err(DirectoryRefusal::Unusable(why)) => {
                    tried.push(format!("{}: {why}", directory.display()));
                }
            }
        }
        // The first two and the last are enough for the message.
        if tried.len() > 3 {
            tried.drain(2..tried.len() - 1);
        }
        Err(BootError::NoRendezvous { tried })
    }

    fn open_at(directory: &Path, limit: Duration) -> Result<Self, DirectoryRefusal> {
        let path = directory.join(format!("strait-universes-{:x}", liveness::namespace()));
        let wait = PeriodicWait::new(REGISTRY_PERIOD, limit);
        loop {
            // Between any two steps, the last user of an empty directory may remove it.
            if !make_private(directory)? {
                pause(wait, &path)?;
                continue;
            }
            let file = match open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    pause(wait, &path)?;
                    continue;
                }
                opened => opened?,
            };
            while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
                if !matches!(error, Errno::WOULDBLOCK | Errno::INTR) {
                    return Err(io::Error::from(error).into());
                }
                pause(wait, &path)?;
            }
            // The file may have been removed before it was locked: then other processes use a new
            // one.
            let Ok(named) = fs::symlink_metadata(&path) else { continue };
            let found = file.metadata()?;
            check_file(&found, user())?;
            if (named.dev(), named.ino()) == (found.dev(), found.ino()) {
                let mut bytes = Vec::new();
                (&file).take(LONGEST as u64).read_to_end(&mut bytes)?;
                return Ok(Self { file, path, registry: UniverseRegistry::parse(&bytes) });
            }
        }
    }

    /// Writes the registry back, or removes its file if it is empty, and releases the lock.
    ///
    /// # Errors
    ///
    /// [`BootError::NoRendezvous`] when the system refuses to write.
    pub(super) fn close(mut self) -> Result<(), BootError> {
        let outcome = if self.registry.entries.is_empty() { self.remove() } else { self.write() };
        outcome.map_err(|error| BootError::NoRendezvous {
            tried: vec![format!("{}: {error}", self.path.display())],
        })
    }

    fn write(&mut self) -> io::Result<()> {
        let bytes = self.registry.to_bytes();
        self.file.rewind()?;
        self.file.write_all(&bytes)?;
        self.file.set_len(bytes.len() as u64)
    }

    fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        // Only a directory that Strait made has no other use. A directory that is not empty stays.
        if let Some(directory) = self.path.parent()
            && directory.file_name().is_some_and(|name| name.as_bytes().starts_with(b"strait-"))
        {
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }
}

impl Drop for LockedRegistry {
    fn drop(&mut self) {
        // A forked child has the file open too, and would keep the lock.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// The reason why a directory is not used.
#[derive(Debug)]
enum DirectoryRefusal {
    Unusable(String),
    /// The lock on this file was not released in time.
    Held(PathBuf),
}

impl From<io::Error> for DirectoryRefusal {
    fn from(error: io::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

fn pause(wait: PeriodicWait, path: &Path) -> Result<(), DirectoryRefusal> {
    if wait.pause() { Ok(()) } else { Err(DirectoryRefusal::Held(path.into())) }
}

/// Returns the directories to try, best first.
fn candidates() -> impl Iterator<Item = PathBuf> {
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let given = given.filter(|path| path.is_absolute() && path.is_dir());
    given.into_iter().chain(temporary(std::env::temp_dir()))
}

/// Returns the directories to try in `parent`, where any user can make files.
fn temporary(parent: PathBuf) -> impl Iterator<Item = PathBuf> {
    let name = |number: u32| match number {
        0 => format!("strait-{}", user()),
        number => format!("strait-{}-{number}", user()),
    };
    (0..NAMES).map(move |number| parent.join(name(number)))
}

/// Makes `directory` if it does not exist, and checks that only this user can make files in it.
/// Returns false if it was removed meanwhile.
fn make_private(directory: &Path) -> Result<bool, DirectoryRefusal> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    // Does not follow a link: another user may have made it.
    match fs::symlink_metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => check_directory(&found?, user()).map(|()| true),
    }
}

fn check_directory(found: &Metadata, user: u32) -> Result<(), DirectoryRefusal> {
    if !found.is_dir() || found.uid() != user {
        return Err(DirectoryRefusal::Unusable("it belongs to another user".into()));
    }
    if found.mode() & 0o022 != 0 {
        return Err(DirectoryRefusal::Unusable("other users may write there".into()));
    }
    Ok(())
}

fn check_file(found: &Metadata, user: u32) -> Result<(), DirectoryRefusal> {
    if found.is_file() && found.uid() == user {
        return Ok(());
    }
    Err(DirectoryRefusal::Unusable("the registry is another user's".into()))
}

fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(flags.bits().cast_signed()).open(path)
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests;
