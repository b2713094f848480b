//! Entry and exit of every call from C. No panic unwinds past it.

use core::cell::RefCell;
use core::ffi::c_int;
use core::panic::AssertUnwindSafe;
use std::panic::{PanicHookInfo, catch_unwind};
use std::sync::Once;

use crate::border::HandleArg;
use crate::failure::{Called, Code, Failure};

/// Runs `body` for the function `call`, to which C passed `handle`, and returns the code for C.
#[inline(always)]
pub(crate) fn enter(
    call: &'static str,
    handle: HandleArg<'_>,
    body: impl FnOnce() -> Called,
) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => fail(call, handle, &failure),
        Err(_) => fail(call, handle, &panicked()),
    }
}

/// Stores the text of the failure for this thread, and passes it to the embedder's log.
#[cold]
#[inline(never)]
fn fail(call: &str, handle: HandleArg<'_>, failure: &Failure) -> c_int {
    let code = failure.say(call);
    handle.log();
    code
}

thread_local! {
    /// Location and text of this thread's last panic.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps panics in this library from being printed. The hook belongs to this library, which has its
/// own copy of the standard library.
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
