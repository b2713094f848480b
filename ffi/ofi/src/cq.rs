//! Completion queues. Reading one makes progress at the endpoints bound to it.

use core::cell::{Cell, RefCell};
use core::ffi::{c_char, c_int, c_void};
use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use crate::abi::{
    ADDR_UNSPEC, CqAttr, CqEntry, CqErrEntry, FiAddr, Fid, OpsCq, Ssize, Status, absent, class,
    errno,
};
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::object::{self, Object, aside};

/// Bytes of an entry in each format, by the number of the format.
const ENTRY_BYTES: [usize; 5] = [8, 8, 24, 40, 48];

const WAIT_NONE: u32 = 0;
const WAIT_UNSPEC: u32 = 1;
const WAIT_YIELD: u32 = 5;

/// A completion queue.
#[repr(C)]
pub(crate) struct Cq {
    fid: Fid,
    ops: *const OpsCq,
    domain: *const Domain,
    entry_bytes: usize,
    /// Where the next entry goes, in the reader's hands, and for how many there is room. None while nobody reads.
    place: Cell<*mut CqEntry>,
    room: Cell<usize>,
    done: RefCell<VecDeque<(CqEntry, u32)>>,
    failed: RefCell<VecDeque<CqErrEntry>>,
    /// How many entries are in the two.
    kept: Cell<usize>,
    endpoints: RefCell<Vec<*const Endpoint>>,
    /// The only endpoint; null where there are several, or none.
    only: Cell<*const Endpoint>,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Cq {
    const CLASS: usize = class::CQ;
}

impl Cq {
    /// An operation ended well.
    #[inline(always)]
    pub(crate) fn complete(&self, entry: CqEntry, source: u32) {
        let (place, room) = (self.place.get(), self.room.get());
        if room == 0 {
            return self.keep(entry, source);
        }
        // SAFETY: by the contract of `give` there is room for one more.
        unsafe {
            place.write_unaligned(entry);
            self.place.set(place.add(1));
        }
        self.room.set(room - 1);
    }

    #[inline(never)]
    fn keep(&self, entry: CqEntry, source: u32) {
        self.done.borrow_mut().push_back((entry, source));
        self.kept.set(self.kept.get() + 1);
    }

    /// An operation ended badly.
    pub(crate) fn fail(&self, entry: CqErrEntry) {
        self.failed.borrow_mut().push_back(entry);
        self.kept.set(self.kept.get() + 1);
    }

    pub(crate) fn attach(&self, endpoint: *const Endpoint) {
        let mut endpoints = self.endpoints.borrow_mut();
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
        self.only.set(sole(&endpoints));
    }

    pub(crate) fn detach(&self, endpoint: *const Endpoint) {
        let mut endpoints = self.endpoints.borrow_mut();
        endpoints.retain(|other| *other != endpoint);
        self.only.set(sole(&endpoints));
    }

    #[inline(always)]
    fn progress(&self) {
        // SAFETY: an endpoint takes itself off the list before it goes.
        match unsafe { self.only.get().as_ref() } {
            Some(only) => only.progress(),
            None => self.progress_all(),
        }
    }

    #[inline(never)]
    fn progress_all(&self) {
        for endpoint in self.endpoints.borrow().iter() {
            // SAFETY: an endpoint takes itself off the list before it goes.
            unsafe { &**endpoint }.progress();
        }
    }

    /// Makes progress while none is kept. The entries that come of it are written to `into` at once; how many.
    ///
    /// # Safety
    ///
    /// As for [`Cq::give`]; entries are whole ones.
    #[inline(always)]
    unsafe fn progress_into(&self, into: *mut c_void, count: usize) -> usize {
        self.place.set(into.cast());
        self.room.set(count);
        self.progress();
        count - self.room.replace(0)
    }

    /// Gives out entries that were kept, oldest first.
    ///
    /// # Safety
    ///
    /// `into` has room for `count` entries of the queue's format; `sources` is null or has room for as many addresses.
    #[inline(never)]
    unsafe fn give(&self, into: *mut c_void, count: usize, sources: *mut FiAddr) -> Ssize {
        if !self.failed.borrow().is_empty() {
            return -(errno::EAVAIL as Ssize);
        }
        let mut done = self.done.borrow_mut();
        let mut given = 0;
        while given < count
            && let Some((entry, source)) = done.pop_front()
        {
            // SAFETY: by the contract; every format is a beginning of the longest.
            unsafe {
                let to = into.cast::<u8>().add(given * self.entry_bytes);
                to.copy_from_nonoverlapping((&raw const entry).cast(), self.entry_bytes);
                if !sources.is_null() {
                    sources.add(given).write(self.address_of(source));
                }
            }
            given += 1;
        }
        self.kept.set(self.kept.get() - given);
        if given == 0 { -(errno::EAGAIN as Ssize) } else { given as Ssize }
    }

    #[cold]
    fn address_of(&self, rank: u32) -> FiAddr {
        let endpoints = self.endpoints.borrow();
        // SAFETY: as in `progress`.
        let mut found = endpoints.iter().map(|endpoint| unsafe { &**endpoint }.address_of(rank));
        found.find(|address| *address != ADDR_UNSPEC).unwrap_or(ADDR_UNSPEC)
    }

    /// # Safety
    ///
    /// As for [`Cq::give`].
    #[inline(always)]
    unsafe fn read(&self, into: *mut c_void, count: usize, sources: *mut FiAddr) -> Ssize {
        // SAFETY: a domain outlives what was made in it.
        let domain = unsafe { &*self.domain };
        if !domain.has_no_gate() {
            return aside(|| {
                let _turn = domain.enter();
                // SAFETY: by the contract.
                unsafe { self.read_alone(into, count, sources) }
            });
        }
        // SAFETY: by the contract.
        unsafe { self.read_alone(into, count, sources) }
    }

    /// As [`Cq::read`], when no other thread is in the domain.
    ///
    /// # Safety
    ///
    /// As for [`Cq::give`].
    #[inline(always)]
    unsafe fn read_alone(&self, into: *mut c_void, count: usize, sources: *mut FiAddr) -> Ssize {
        if self.kept.get() == 0 {
            if self.is_direct(sources) {
                // SAFETY: by the contract, and as was just seen.
                let given = unsafe { self.progress_into(into, count) };
                if given > 0 {
                    return given as Ssize;
                }
            } else {
                self.progress();
            }
        }
        if self.kept.get() == 0 {
            return -(errno::EAGAIN as Ssize);
        }
        // SAFETY: by the contract.
        unsafe { self.give_on(into, count, sources) }
    }

    /// Gives out entries that were kept. Where there is room left, what comes now is told of in the same call.
    ///
    /// # Safety
    ///
    /// As for [`Cq::give`].
    #[inline(never)]
    unsafe fn give_on(&self, into: *mut c_void, count: usize, sources: *mut FiAddr) -> Ssize {
        // SAFETY: by the contract.
        let given = unsafe { self.give(into, count, sources) };
        let room = count.saturating_sub(usize::try_from(given).unwrap_or(count));
        if room == 0 || !self.is_direct(sources) {
            return given;
        }
        // SAFETY: by the contract, of the entries that are left.
        let more = unsafe {
            let rest = into.byte_add((count - room) * self.entry_bytes);
            self.progress_into(rest, room)
        };
        given + more as Ssize
    }

    /// Whether entries can be written where their reader wants them.
    #[inline(always)]
    const fn is_direct(&self, sources: *mut FiAddr) -> bool {
        self.entry_bytes == size_of::<CqEntry>() && sources.is_null()
    }

    /// # Safety
    ///
    /// As for [`Cq::give`].
    unsafe fn read_for(
        &self,
        into: *mut c_void,
        count: usize,
        sources: *mut FiAddr,
        milliseconds: c_int,
    ) -> Ssize {
        let begin = Instant::now();
        let longest = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        loop {
            // SAFETY: by the contract.
            let answer = unsafe { self.read(into, count, sources) };
            let over = longest.is_some_and(|longest| begin.elapsed() >= longest);
            if answer != -(errno::EAGAIN as Ssize) || over {
                return answer;
            }
            std::thread::yield_now();
        }
    }
}

fn sole(endpoints: &[*const Endpoint]) -> *const Endpoint {
    if let [only] = endpoints { *only } else { core::ptr::null() }
}

static OPS: OpsCq = OpsCq {
    size: size_of::<OpsCq>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal: absent,
    strerror,
};

/// Opens a queue in `domain`.
///
/// # Safety
///
/// libfabric's, of `fi_cq_open`.
pub(crate) unsafe extern "C" fn open(
    domain: *mut Fid,
    attr: *mut CqAttr,
    cq: *mut *mut Fid,
    context: *mut c_void,
) -> Status {
    // SAFETY: by the contract.
    let (domain, attr) = unsafe { (Domain::of(domain), attr.as_ref()) };
    let (format, wait) = attr.map_or((0, 0), |attr| (attr.format as usize, attr.wait_obj));
    let Some(entry_bytes) = ENTRY_BYTES.get(format) else { return -errno::EINVAL };
    if !matches!(wait, WAIT_NONE | WAIT_UNSPEC | WAIT_YIELD) {
        return -errno::ENOSYS;
    }
    let made = Cq {
        fid: object::fid::<Cq>(context),
        ops: &raw const OPS,
        domain,
        entry_bytes: *entry_bytes,
        place: Cell::new(core::ptr::null_mut()),
        room: Cell::new(0),
        done: RefCell::default(),
        failed: RefCell::default(),
        kept: Cell::new(0),
        endpoints: RefCell::default(),
        only: Cell::new(core::ptr::null()),
    };
    // SAFETY: by the contract.
    unsafe { object::hand_out(made, cq) }
}

unsafe extern "C" fn read(cq: *mut Fid, into: *mut c_void, count: usize) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe { Cq::of(cq).read(into, count, core::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *mut Fid,
    into: *mut c_void,
    count: usize,
    sources: *mut FiAddr,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe { Cq::of(cq).read(into, count, sources) }
}

unsafe extern "C" fn sread(
    cq: *mut Fid,
    into: *mut c_void,
    count: usize,
    _cond: *const c_void,
    timeout: c_int,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe { Cq::of(cq).read_for(into, count, core::ptr::null_mut(), timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut Fid,
    into: *mut c_void,
    count: usize,
    sources: *mut FiAddr,
    _cond: *const c_void,
    timeout: c_int,
) -> Ssize {
    // SAFETY: by libfabric's contract.
    unsafe { Cq::of(cq).read_for(into, count, sources, timeout) }
}

unsafe extern "C" fn readerr(cq: *mut Fid, into: *mut CqErrEntry, _flags: u64) -> Ssize {
    // SAFETY: by libfabric's contract.
    let cq = unsafe { Cq::of(cq) };
    // SAFETY: a domain outlives what was made in it.
    let _turn = unsafe { &*cq.domain }.enter();
    let failed = cq.failed.borrow_mut().pop_front();
    let Some(entry) = failed else { return -(errno::EAGAIN as Ssize) };
    cq.kept.set(cq.kept.get() - 1);
    // SAFETY: by libfabric's contract. What the caller offers for details stays empty.
    unsafe { into.write(CqErrEntry { err_data_size: 0, ..entry }) };
    1
}

pub(crate) unsafe extern "C" fn strerror(
    _object: *mut Fid,
    _errno: c_int,
    _data: *const c_void,
    buffer: *mut c_char,
    length: usize,
) -> *const c_char {
    const TEXT: &core::ffi::CStr = c"strait: see err";
    if !buffer.is_null() && length > 0 {
        let count = TEXT.count_bytes().min(length - 1);
        // SAFETY: by libfabric's contract the buffer has this length.
        unsafe {
            buffer.copy_from_nonoverlapping(TEXT.as_ptr(), count);
            buffer.add(count).write(0);
        }
    }
    TEXT.as_ptr()
}
