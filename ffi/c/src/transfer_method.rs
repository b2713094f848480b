//! Methods of the embedder that move large messages (`[Nemesis07]` §3.2): a table of functions.

use core::ffi::{c_int, c_void};

use shim::raw::Part;
use shim::transfer_method::{
    COOKIE_MAX, CookieError, Cts, Ending, MethodCookie, MethodStep, RecvSide, Refused, SendSide,
    TransferMethod, TransferSide,
};

use crate::border::{CountArg, DataArg, HandleArg, OutArg, StructInArg, Structure, no_place};
use crate::entry::enter;
use crate::failure::{Called, Code, Failure};

/// What C asks of a side of a message during a call of the embedder's function.
trait Side {
    fn part(&self, offset: usize) -> Option<Part>;
    fn send_cookie(&mut self, cookie: &[u8]) -> Result<(), CookieError>;
}

impl Side for SendSide<'_> {
    fn part(&self, offset: usize) -> Option<Part> {
        self.part(offset)
    }

    fn send_cookie(&mut self, cookie: &[u8]) -> Result<(), CookieError> {
        self.send_cookie(cookie)
    }
}

impl Side for RecvSide<'_> {
    fn part(&self, offset: usize) -> Option<Part> {
        self.part(offset)
    }

    fn send_cookie(&mut self, cookie: &[u8]) -> Result<(), CookieError> {
        self.send_cookie(cookie)
    }
}

/// `strait_transfer_side` in C. It lives as long as the call of the embedder's function to which it
/// is passed.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CSide {
    pub(crate) id: u64,
    pub(crate) peer: u32,
    pub(crate) is_send: u32,
    pub(crate) bytes: usize,
    /// Leads to a `&mut dyn Side`.
    pub(crate) library: *mut c_void,
}

impl CSide {
    /// Calls `act` with the description of a side of a message that is sent.
    fn of_send<T>(side: &mut SendSide<'_>, act: impl FnOnce(*mut Self) -> T) -> T {
        let (id, peer, bytes) = (side.id(), side.peer(), side.bytes());
        let mut side: &mut dyn Side = side;
        let library = (&raw mut side).cast();
        act(&mut Self { id, peer, is_send: 1, bytes, library })
    }

    /// Calls `act` with the description of a side of a message that is received.
    fn of_recv<T>(side: &mut RecvSide<'_>, act: impl FnOnce(*mut Self) -> T) -> T {
        let (id, peer, bytes) = (side.id(), side.peer(), side.bytes());
        let mut side: &mut dyn Side = side;
        let library = (&raw mut side).cast();
        act(&mut Self { id, peer, is_send: 0, bytes, library })
    }

    /// Calls `act` with the description of either side.
    fn of<T>(side: &mut TransferSide<'_>, act: impl FnOnce(*mut Self) -> T) -> T {
        match side {
            TransferSide::Send(side) => Self::of_send(side, act),
            TransferSide::Recv(side) => Self::of_recv(side, act),
        }
    }
}

/// The side that C passes on from the embedder's function. It may be null.
///
/// Invariant: it is the description that this library passed to the function that runs, and its
/// fields are unchanged.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct SideArg<'call>(Option<&'call mut CSide>);

impl SideArg<'_> {
    fn get(&mut self) -> Called<&mut (dyn Side + '_)> {
        let side = self.0.as_mut().ok_or_else(no_place)?;
        // SAFETY: the description leads to a live `&mut dyn Side` (invariant), which nothing else
        // uses before this call ends.
        Ok(unsafe { &mut **side.library.cast::<&mut dyn Side>() })
    }
}

type Context = *mut c_void;
type SideOut = *mut CSide;
type Cookie = *const c_void;

/// `strait_transfer_method` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CTransferMethod {
    pub(crate) size: usize,
    pub(crate) context: Context,
    pub(crate) serves: Option<unsafe extern "C" fn(Context, u32, usize) -> c_int>,
    pub(crate) pre_send:
        Option<unsafe extern "C" fn(Context, SideOut, *mut c_void, *mut usize) -> c_int>,
    pub(crate) pre_recv: Option<
        unsafe extern "C" fn(Context, SideOut, Cookie, usize, *mut c_void, *mut usize) -> c_int,
    >,
    pub(crate) start_send: Option<unsafe extern "C" fn(Context, SideOut, Cookie, usize) -> c_int>,
    pub(crate) start_recv: Option<unsafe extern "C" fn(Context, SideOut) -> c_int>,
    pub(crate) handle_cookie:
        Option<unsafe extern "C" fn(Context, SideOut, Cookie, usize) -> c_int>,
    pub(crate) progress: Option<unsafe extern "C" fn(Context, SideOut) -> c_int>,
    pub(crate) post_send: Option<unsafe extern "C" fn(Context, SideOut, c_int)>,
    pub(crate) post_recv: Option<unsafe extern "C" fn(Context, SideOut, c_int)>,
}

// SAFETY: `repr(C)`, the first field is a size, and all-zero bytes are a value.
unsafe impl Structure for CTransferMethod {}

// SAFETY: the thread that uses the world calls the functions, or its progress thread, one at a
// time, as `strait.h` says.
unsafe impl Send for CTransferMethod {}

/// `enum strait_transfer_step` in C. Any other answer refuses the message.
pub(crate) const STEPS: [(c_int, MethodStep); 4] = [
    (0, MethodStep::Waiting),
    (1, MethodStep::Moved),
    (2, MethodStep::Done),
    (3, MethodStep::DoneForBoth),
];

/// `STRAIT_TRANSFER_OK` and `STRAIT_TRANSFER_WITHOUT_CTS` in C.
pub(crate) const OK: c_int = 0;
pub(crate) const WITHOUT_CTS: c_int = 4;

fn step(answer: c_int) -> Result<MethodStep, Refused> {
    STEPS.iter().find(|(number, _)| *number == answer).map(|(_, step)| *step).ok_or(Refused)
}

/// Calls `write` with the place of a cookie and of its length, and takes what it wrote.
fn fill<T>(
    cookie: &mut MethodCookie,
    write: impl FnOnce(*mut c_void, *mut usize) -> T,
) -> Result<T, Refused> {
    let (mut bytes, mut length) = ([0_u8; COOKIE_MAX], 0);
    let written = write(bytes.as_mut_ptr().cast(), &raw mut length);
    cookie.write(bytes.get(..length).ok_or(Refused)?).map_err(|_| Refused)?;
    Ok(written)
}

impl CTransferMethod {
    /// Returns whether all functions that have no default are there.
    fn is_complete(&self) -> bool {
        self.pre_send.is_some()
            && self.pre_recv.is_some()
            && self.start_send.is_some()
            && self.start_recv.is_some()
            && self.progress.is_some()
            && self.post_send.is_some()
            && self.post_recv.is_some()
    }
}

impl TransferMethod for CTransferMethod {
    fn serves(&self, peer: u32, bytes: usize) -> bool {
        // SAFETY: the embedder's function takes these arguments.
        self.serves.is_none_or(|serves| unsafe { serves(self.context, peer, bytes) } != 0)
    }

    fn pre_send(
        &mut self,
        side: &mut SendSide<'_>,
        cookie: &mut MethodCookie,
    ) -> Result<(), Refused> {
        let (context, pre_send) = (self.context, self.pre_send.ok_or(Refused)?);
        let answer = CSide::of_send(side, |side| {
            // SAFETY: the embedder's function takes these arguments. The cookie has room for
            // `STRAIT_TRANSFER_COOKIE_MAX` bytes.
            fill(cookie, |bytes, length| unsafe { pre_send(context, side, bytes, length) })
        })?;
        if answer == OK { Ok(()) } else { Err(Refused) }
    }

    fn pre_recv(
        &mut self,
        side: &mut RecvSide<'_>,
        send_cookie: &[u8],
        cookie: &mut MethodCookie,
    ) -> Result<Cts, Refused> {
        let (context, pre_recv) = (self.context, self.pre_recv.ok_or(Refused)?);
        let (sent, count) = (send_cookie.as_ptr().cast(), send_cookie.len());
        let answer = CSide::of_recv(side, |side| {
            // SAFETY: the embedder's function takes these arguments. The cookie has room for
            // `STRAIT_TRANSFER_COOKIE_MAX` bytes.
            fill(cookie, |to, length| unsafe { pre_recv(context, side, sent, count, to, length) })
        })?;
        match answer {
            OK => Ok(Cts::Sent),
            WITHOUT_CTS => Ok(Cts::Omitted),
            _ => Err(Refused),
        }
    }

    fn start_recv(&mut self, side: &mut RecvSide<'_>) -> Result<MethodStep, Refused> {
        let (context, start_recv) = (self.context, self.start_recv.ok_or(Refused)?);
        // SAFETY: the embedder's function takes these arguments.
        step(CSide::of_recv(side, |side| unsafe { start_recv(context, side) }))
    }

    fn start_send(
        &mut self,
        side: &mut SendSide<'_>,
        receive_cookie: &[u8],
    ) -> Result<MethodStep, Refused> {
        let (context, start_send) = (self.context, self.start_send.ok_or(Refused)?);
        let (sent, count) = (receive_cookie.as_ptr().cast(), receive_cookie.len());
        // SAFETY: the embedder's function takes these arguments.
        step(CSide::of_send(side, |side| unsafe { start_send(context, side, sent, count) }))
    }

    fn handle_cookie(
        &mut self,
        side: &mut TransferSide<'_>,
        cookie: &[u8],
    ) -> Result<MethodStep, Refused> {
        let (context, handle_cookie) = (self.context, self.handle_cookie.ok_or(Refused)?);
        let (sent, count) = (cookie.as_ptr().cast(), cookie.len());
        // SAFETY: the embedder's function takes these arguments.
        step(CSide::of(side, |side| unsafe { handle_cookie(context, side, sent, count) }))
    }

    fn progress(&mut self, side: &mut TransferSide<'_>) -> Result<MethodStep, Refused> {
        let (context, progress) = (self.context, self.progress.ok_or(Refused)?);
        // SAFETY: the embedder's function takes these arguments.
        step(CSide::of(side, |side| unsafe { progress(context, side) }))
    }

    fn post_send(&mut self, side: &mut SendSide<'_>, ending: Ending) {
        let complete = c_int::from(ending == Ending::Complete);
        if let Some(post_send) = self.post_send {
            // SAFETY: the embedder's function takes these arguments.
            CSide::of_send(side, |side| unsafe { post_send(self.context, side, complete) });
        }
    }

    fn post_recv(&mut self, side: &mut RecvSide<'_>, ending: Ending) {
        let complete = c_int::from(ending == Ending::Complete);
        if let Some(post_recv) = self.post_recv {
            // SAFETY: the embedder's function takes these arguments.
            CSide::of_recv(side, |side| unsafe { post_recv(self.context, side, complete) });
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn strait_set_transfer_method(
    world: HandleArg<'_>,
    method: StructInArg<'_, CTransferMethod>,
) -> c_int {
    enter("strait_set_transfer_method", world, || {
        let method = method.read()?.ok_or_else(no_place)?;
        if !method.is_complete() {
            let text = "a function is missing: only `serves` and `handle_cookie` may be NULL";
            return Err(Failure::argument(text));
        }
        // SAFETY: the embedder's functions make no call that uses this world, as `strait.h` says.
        let set = unsafe { world.world()?.world().set_transfer_method(Box::new(method)) };
        set.map_err(|_| Failure::new(Code::Busy, "the world has a method, which it keeps"))
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_transfer_part(
    mut side: SideArg<'_>,
    offset: usize,
    part: OutArg<'_, Part>,
) -> c_int {
    enter("strait_transfer_part", HandleArg::NULL, || {
        let end = Part { base: core::ptr::NonNull::dangling(), length: 0 };
        part.write(side.get()?.part(offset).unwrap_or(end))
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_transfer_send_cookie(
    mut side: SideArg<'_>,
    cookie: DataArg<'_>,
    bytes: CountArg,
) -> c_int {
    enter("strait_transfer_send_cookie", HandleArg::NULL, || {
        let cookie = cookie.readable(bytes)?;
        side.get()?.send_cookie(cookie).map_err(|error| match error {
            CookieError::Busy => Failure::new(Code::Busy, error.to_string()),
            CookieError::TooLong { .. } => Failure::argument(error.to_string()),
        })
    })
}
