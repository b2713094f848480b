//! The kind of an error: what a caller can do about it.

use strait_core::engine::{Fault, StartError};
use strait_platform::boot::BootError;
use strait_platform::segment::SegmentError;

use super::Error;
use crate::{CollectiveError, NetworkError, WindowError};

/// The kind of an [`Error`], by what a caller can do about it: [`Error::kind`].
///
/// ```
/// use strait::ErrorKind;
///
/// let world = &strait::World::in_process(1)?[0];
/// let error = world.endpoint().send(&[1_u8], 7, 0).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// assert!(error.to_string().starts_with("rank 7 does not exist"));
/// # Ok::<(), strait::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A peer died, or is treated as dead. Go on without it, or end the job. [`Error::gone_peer`]
    /// names it, if it is known.
    PeerFailed,
    /// A peer has left the job in good order. Go on without it.
    PeerLeft,
    /// Another member made a collective call fail: the error at that rank says why.
    PeerRefused,
    /// There is no way to a peer or its memory: no network, no permission, or a failed device. The
    /// message of the error names the setting that helps.
    Unreachable,
    /// A message was longer than the buffer, which holds its beginning. Receive into a longer one,
    /// or probe first.
    Truncated,
    /// The program cancelled the operation.
    Cancelled,
    /// An argument is wrong, and nothing was done. Correct the program.
    InvalidArgument,
    /// The program makes calls in an order that is not allowed, and nothing was done. Correct the
    /// program.
    InvalidOrder,
    /// An environment variable has no usable value, or names a file that has none. Correct it.
    Environment,
    /// This process could not join its job. Start it by a launcher, or see what the launcher says.
    Launch,
    /// Memory or another resource of the system is used up. Free some and try again, or ask for
    /// less.
    Resources,
    /// This rank cannot communicate any more, because memory ran out at a place where it could not
    /// go back. End the process.
    Stopped,
    /// Shared memory holds a value that no correct peer writes. This rank cannot communicate any
    /// more. End the job.
    Corrupt,
}

impl Error {
    /// Returns the kind of this error: what a caller can do about it.
    ///
    /// ```
    /// use strait::{Error, ErrorKind};
    ///
    /// fn is_worth_a_retry(error: &Error) -> bool {
    ///     matches!(error.kind(), ErrorKind::Resources)
    /// }
    /// # assert!(!is_worth_a_retry(&Error::Stopped));
    /// ```
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Boot(error) => of_boot(error),
            Self::Environment(_) | Self::Profile(_) => ErrorKind::Environment,
            Self::Network(error) => of_network(error),
            Self::Segment(error) => of_segment(error),
            Self::Start(error) => of_start(error),
            Self::Fault(fault) => of_fault(fault),
            Self::Collective(CollectiveError::Device { .. }) => ErrorKind::Unreachable,
            Self::Collective(_) | Self::OtherWorld => ErrorKind::InvalidArgument,
            Self::Window(error) => of_window(error),
            Self::Thread(_) | Self::OutOfMemory(_) => ErrorKind::Resources,
            Self::Stopped => ErrorKind::Stopped,
            Self::Corrupt(_) => ErrorKind::Corrupt,
        }
    }
}

const fn of_boot(error: &BootError) -> ErrorKind {
    match error {
        BootError::Segment(error) => of_segment(error),
        BootError::Environment(_) => ErrorKind::Environment,
        BootError::NoSuchRank { .. } => ErrorKind::InvalidArgument,
        BootError::Twice => ErrorKind::InvalidOrder,
        BootError::NoDescriptor | BootError::UniverseFull { .. } => ErrorKind::Resources,
        _ => ErrorKind::Launch,
    }
}

const fn of_network(error: &NetworkError) -> ErrorKind {
    match error {
        NetworkError::Share(error) => of_boot(error),
        NetworkError::Store(_) | NetworkError::NoAddress { .. } => ErrorKind::Launch,
        NetworkError::Listener(_) | NetworkError::Socket(_) | NetworkError::Memory(_) => {
            ErrorKind::Resources
        }
        _ => ErrorKind::Unreachable,
    }
}

const fn of_segment(error: &SegmentError) -> ErrorKind {
    match error {
        SegmentError::Plan(_) => ErrorKind::InvalidArgument,
        SegmentError::NotSealed | SegmentError::Attach(_) => ErrorKind::Launch,
        _ => ErrorKind::Resources,
    }
}

const fn of_start(error: &StartError) -> ErrorKind {
    match error {
        StartError::Rank { .. } | StartError::Tag { .. } => ErrorKind::InvalidArgument,
        StartError::Peer(fault) => of_fault(fault),
        StartError::OutOfMemory(_) => ErrorKind::Resources,
        StartError::Corrupt(_) => ErrorKind::Corrupt,
    }
}

const fn of_fault(fault: &Fault) -> ErrorKind {
    match fault {
        Fault::Truncated { .. } => ErrorKind::Truncated,
        Fault::PeerFailed { .. } => ErrorKind::PeerFailed,
        Fault::PeerFinished { .. } => ErrorKind::PeerLeft,
        Fault::Cancelled => ErrorKind::Cancelled,
        _ => ErrorKind::Unreachable,
    }
}

const fn of_window(error: &WindowError) -> ErrorKind {
    match error {
        WindowError::Unit
        | WindowError::Target { .. }
        | WindowError::Bounds { .. }
        | WindowError::Detached { .. }
        | WindowError::Lengths { .. }
        | WindowError::Alignment { .. }
        | WindowError::Operation { .. }
        | WindowError::Design { .. }
        | WindowError::LockDesign { .. } => ErrorKind::InvalidArgument,
        WindowError::EpochOpen { .. } | WindowError::NoEpoch { .. } => ErrorKind::InvalidOrder,
        WindowError::Member { .. } => ErrorKind::PeerRefused,
        WindowError::Attachments | WindowError::Registration { .. } => ErrorKind::Resources,
        WindowError::OtherNode { .. }
        | WindowError::Barred { .. }
        | WindowError::Refused { .. }
        | WindowError::Device { .. } => ErrorKind::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use core::error::Error as _;
    use std::io;

    use strait_core::engine::FailureCause;

    use super::*;
    use crate::env::EnvError;

    #[test]
    fn the_same_loss_has_the_same_kind_however_it_is_told() {
        let fault = Fault::PeerFailed { rank: 3, sign: FailureCause::Ended };
        for error in [Error::from(fault), Error::from(StartError::Peer(fault))] {
            assert_eq!((error.kind(), error.gone_peer()), (ErrorKind::PeerFailed, Some(3)));
        }
        let plan = || SegmentError::Os { step: "a step", error: rustix::io::Errno::NOMEM };
        for error in [
            Error::Segment(plan()),
            Error::Boot(BootError::Segment(plan())),
            Error::Network(NetworkError::Memory(plan())),
            Error::Thread(io::Error::from(io::ErrorKind::OutOfMemory)),
        ] {
            assert_eq!(error.kind(), ErrorKind::Resources, "{error}");
        }
    }

    #[test]
    fn an_error_keeps_its_cause() {
        let errno = rustix::io::Errno::NOMEM;
        let segment = || SegmentError::Os { step: "a step", error: errno };
        for error in [
            Error::Segment(segment()),
            Error::Boot(BootError::Socket(errno)),
            Error::Network(NetworkError::Listener(errno)),
        ] {
            let cause = error.source().and_then(|cause| cause.downcast_ref());
            assert_eq!(cause, Some(&errno), "{error}");
        }
        let thread = Error::Thread(io::Error::from(io::ErrorKind::OutOfMemory));
        assert!(thread.source().is_some_and(<dyn core::error::Error>::is::<io::Error>));
        let variable = crate::env::VARIABLES[0];
        let environment = Error::from(EnvError { variable, value: "x".into() });
        assert!(environment.source().is_none(), "the error itself is the cause");
    }
}
