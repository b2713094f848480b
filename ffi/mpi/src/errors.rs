//! Errors: to the communicator's error handler, with the host's class and our sentence.

use core::ffi::{c_char, c_int};
use std::ffi::CString;

use strait::{Error, ErrorKind};

use super::host;
use super::operation::NotStarted;
use super::pack::ElementsRefused;
use super::state;
use crate::abi::{self, Handle};

/// Number of different sentences that the host keeps for us.
const SENTENCES: usize = 64;

/// Returns the host's class of an error.
const fn class(error: &Error) -> c_int {
    match error.kind() {
        ErrorKind::Truncated => abi::ERR_TRUNCATE,
        ErrorKind::PeerFailed | ErrorKind::PeerLeft => abi::ERR_PROC_FAILED,
        ErrorKind::Resources => abi::ERR_NO_MEM,
        ErrorKind::Corrupt | ErrorKind::Stopped => abi::ERR_INTERN,
        _ => abi::ERR_OTHER,
    }
}

/// Returns the text that a function of the host writes.
fn text(bytes: usize, write: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> String {
    let (mut text, mut length) = (vec![0_u8; bytes + 1], 0);
    if write(text.as_mut_ptr().cast(), &raw mut length) != 0 {
        return String::new();
    }
    text.truncate(length.max(0) as usize);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns whether the host lacks some classes, or prints other texts for codes that are added.
fn is_old_host() -> bool {
    // SAFETY: no host's text is longer.
    let version = text(8192, |text, length| unsafe { host::Get_library_version(text, length) });
    let is_mpich_4_0 = version.contains("MPICH Version:") && version.contains("\t4.0");
    is_mpich_4_0 || version.starts_with("Open MPI v4")
}

/// Returns the code of an error, with our sentence where the host prints it.
pub(crate) fn code(error: &Error) -> c_int {
    code_of_class(class(error), error)
}

/// As [`code`], for an error of this class.
pub(crate) fn code_of_class(mut class: c_int, error: &Error) -> c_int {
    if is_old_host() {
        let is_known = !(class == abi::ERR_PROC_FAILED && abi::NAME == "Open MPI");
        return if is_known { class } else { abi::ERR_OTHER };
    }
    let sentence = format!("strait: {error}");
    let Some(front) = state::enter() else { return class };
    if let Some(code) = front.codes.borrow().get(&sentence) {
        return *code;
    }
    if front.codes.borrow().len() < SENTENCES {
        let mut added = 0;
        let Ok(words) = CString::new(&*sentence) else { return class };
        // SAFETY: the code has a place, and the text is a string of less than 256 bytes, or cut.
        let is_added = unsafe {
            host::Add_error_code(class, &raw mut added) == 0
                && host::Add_error_string(added, short(words).as_ptr().cast_mut()) == 0
        };
        if is_added {
            class = added;
            front.codes.borrow_mut().insert(sentence, added);
        }
    }
    class
}

/// Cuts a text to the length that every host keeps.
fn short(words: CString) -> CString {
    let mut bytes = words.into_bytes();
    bytes.truncate(255);
    CString::new(bytes).unwrap_or_default()
}

/// Calls the error handler of a communicator, and returns the code. The caller holds no lock.
pub(crate) fn raise(comm: Handle, code: c_int) -> c_int {
    // SAFETY: the communicator exists: an operation on it has just ended.
    unsafe { host::Comm_call_errhandler(comm, code) };
    code
}

/// Reports an error of Strait. The caller holds no lock.
#[cold]
pub(crate) fn report(comm: Handle, error: &Error) -> c_int {
    let code = code(error);
    // SAFETY: the communicator exists: an operation on it has just ended.
    print_before_abort(error, |handler| unsafe { host::Comm_get_errhandler(comm, handler) });
    raise(comm, code)
}

/// Prints our sentence if the host is about to end the job with a text of its own. `handler_of`
/// writes the error handler that will be called.
pub(crate) fn print_before_abort(error: &Error, handler_of: impl FnOnce(*mut Handle) -> c_int) {
    let mut handler = abi::errors_are_fatal();
    if !is_old_host() || handler_of(&raw mut handler) != 0 {
        return;
    }
    if handler == abi::errors_are_fatal() {
        eprintln!("strait: {error}");
    } else {
        // SAFETY: the host has just made this reference to the handler.
        unsafe { host::Errhandler_free(&raw mut handler) };
    }
}

/// Reports why an operation did not start, if the host has not. The caller holds no lock.
#[cold]
pub(crate) fn not_started(comm: Handle, error: NotStarted) -> c_int {
    match error {
        NotStarted::Failed(error) => report(comm, &error),
        NotStarted::Refused(ElementsRefused::Reported(code)) => code,
        NotStarted::Refused(ElementsRefused::Argument(class)) => raise(comm, class),
    }
}

/// Reports that there are no more handles of requests. The caller holds no lock.
#[cold]
pub(crate) fn no_request(comm: Handle) -> c_int {
    raise(comm, abi::ERR_NO_MEM)
}
