//! The way in from C, and out again: nothing unwinds past it.

use core::cell::RefCell;
use core::ffi::c_int;
use core::panic::AssertUnwindSafe;
use std::panic::{PanicHookInfo, catch_unwind};
use std::sync::Once;

use crate::failure::{Code, Failure};
use crate::handle::{self, Handle};

/// How a call ends for this side of the interface.
pub(crate) type Called<T = ()> = Result<T, Box<Failure>>;

/// Runs `body` for the function `call`, which was given `handle`; answers with the code for C.
#[inline(always)]
pub(crate) fn enter(call: &'static str, handle: Handle, body: impl FnOnce() -> Called) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => fail(call, handle, &failure),
        Err(_) => fail(call, handle, &panicked()),
    }
}

/// Says what went wrong: to the thread that asks, and to the embedder's log.
#[cold]
#[inline(never)]
fn fail(call: &str, handle: Handle, failure: &Failure) -> c_int {
    let code = failure.say(call);
    handle::log(handle);
    code
}

thread_local! {
    /// Where this thread's panic was, and its words.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Sees to it that a panic in this library is not printed. The hook is this library's own: it has a standard library to itself.
pub(crate) fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
            let text = info.to_string();
            PANIC.with(|panic| panic.replace(Some(text)));
        }));
    });
}

fn panicked() -> Box<Failure> {
    let words = PANIC.with(RefCell::take).unwrap_or_else(|| "a panic".into());
    let words = words.replace('\n', " ");
    Failure::new(
        Code::Internal,
        format!("a fault of this library: {words}; end the job, and report it"),
    )
}
