//! Completion queues. Reading one makes progress at the endpoints bound to it.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use crate::abi::{
    ADDR_UNSPEC, AnswerArg, AnswersArg, CqArg, CqAttr, CqEntry, CqErrEntry, CqFid, DomainArg,
    FiAddr, FiStatus, Fid, LengthArg, MemoryArg, NewArg, OpsCq, Ssize, absent, class, errno,
};
use crate::domain::Domain;
use crate::endpoint::FidEp;
use crate::object::{self, Object, ObjectRef, aside, strerror};

/// Size in bytes of an entry in each format, by the number of the format.
const ENTRY_BYTES: [usize; 5] = [8, 8, 24, 40, 48];

const WAIT_NONE: u32 = 0;
const WAIT_UNSPEC: u32 = 1;
const WAIT_YIELD: u32 = 5;

/// A completion queue.
#[repr(C)]
pub(crate) struct Cq {
    fid: Fid,
    ops: *const OpsCq,
    domain: ObjectRef<Domain>,
    entry_bytes: usize,
    /// The address of the next entry in the reader's memory, and the number of entries that still
    /// fit. It is zero while no call reads.
    place: Cell<*mut CqEntry>,
    room: Cell<usize>,
    done: RefCell<VecDeque<(CqEntry, u32)>>,
    failed: RefCell<VecDeque<CqErrEntry>>,
    /// Number of entries in both queues.
    kept: Cell<usize>,
    endpoints: RefCell<Vec<ObjectRef<FidEp>>>,
    /// The only endpoint, or `None` if there are several or none.
    only: Cell<Option<ObjectRef<FidEp>>>,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Cq {
    type Class = CqFid;
    const CLASS: usize = class::CQ;
}

impl Cq {
    /// Adds the entry of an operation that succeeded.
    #[inline(always)]
    pub(crate) fn complete(&self, entry: CqEntry, source: u32) {
        let (place, room) = (self.place.get(), self.room.get());
        if room == 0 {
            return self.keep(entry, source);
        }
        // SAFETY: there is room for one more entry (contract of `progress_into`).
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

    /// Adds the entry of an operation that failed.
    pub(crate) fn fail(&self, entry: CqErrEntry) {
        self.failed.borrow_mut().push_back(entry);
        self.kept.set(self.kept.get() + 1);
    }

    pub(crate) fn attach(&self, endpoint: ObjectRef<FidEp>) {
        let mut endpoints = self.endpoints.borrow_mut();
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
        self.only.set(sole(&endpoints));
    }

    pub(crate) fn detach(&self, endpoint: *const FidEp) {
        let mut endpoints = self.endpoints.borrow_mut();
        endpoints.retain(|other| other.as_ptr() != endpoint);
        self.only.set(sole(&endpoints));
    }

    #[inline(always)]
    fn progress(&self) {
        match self.only.get() {
            Some(only) => only.progress(),
            None => self.progress_all(),
        }
    }

    #[inline(never)]
    fn progress_all(&self) {
        self.endpoints.borrow().iter().for_each(|endpoint| endpoint.progress());
    }

    /// Makes progress while no entry is queued. Writes the resulting entries to `into` at once, and
    /// returns their number.
    ///
    /// # Safety
    ///
    /// `into` has room for `count` entries in the full format.
    #[inline(always)]
    unsafe fn progress_into(&self, into: *mut c_void, count: usize) -> usize {
        self.place.set(into.cast());
        self.room.set(count);
        self.progress();
        count - self.room.replace(0)
    }

    /// Returns queued entries to the user, oldest first.
    #[inline(never)]
    fn give(&self, into: MemoryArg, count: LengthArg, sources: AnswersArg<'_, FiAddr>) -> Ssize {
        if !self.failed.borrow().is_empty() {
            return -(errno::EAVAIL as Ssize);
        }
        let sources = sources.slice(count);
        let mut done = self.done.borrow_mut();
        let mut given = 0;
        while given < count.get()
            && let Some((entry, source)) = done.pop_front()
        {
            // SAFETY: the user has room for `count` entries of the queue's format, and every format
            // is a prefix of the longest.
            unsafe {
                let to = into.as_ptr().cast::<u8>().add(given * self.entry_bytes);
                to.copy_from_nonoverlapping((&raw const entry).cast(), self.entry_bytes);
            }
            if let Some(wanted) = sources.get(given) {
                wanted.set(MaybeUninit::new(self.address_of(source)));
            }
            given += 1;
        }
        self.kept.set(self.kept.get() - given);
        if given == 0 { -(errno::EAGAIN as Ssize) } else { given as Ssize }
    }

    #[cold]
    fn address_of(&self, rank: u32) -> FiAddr {
        let endpoints = self.endpoints.borrow();
        let mut found = endpoints.iter().map(|endpoint| endpoint.address_of(rank));
        found.find(|address| *address != ADDR_UNSPEC).unwrap_or(ADDR_UNSPEC)
    }

    #[inline(always)]
    fn read(&self, into: MemoryArg, count: LengthArg, sources: AnswersArg<'_, FiAddr>) -> Ssize {
        if !self.domain.has_no_gate() {
            return aside(|| {
                let _turn = self.domain.enter();
                self.read_alone(into, count, sources)
            });
        }
        self.read_alone(into, count, sources)
    }

    /// Reads when no other thread is in the domain.
    #[inline(always)]
    fn read_alone(
        &self,
        into: MemoryArg,
        count: LengthArg,
        sources: AnswersArg<'_, FiAddr>,
    ) -> Ssize {
        if self.kept.get() == 0 {
            if self.is_direct(sources) {
                // SAFETY: the user has room for `count` entries, which have the full format.
                let given = unsafe { self.progress_into(into.as_ptr(), count.get()) };
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
        self.give_on(into, count, sources)
    }

    /// Returns queued entries, and then, as far as there is room, entries that arrive now.
    #[inline(never)]
    fn give_on(&self, into: MemoryArg, count: LengthArg, sources: AnswersArg<'_, FiAddr>) -> Ssize {
        let given = self.give(into, count, sources);
        let room = count.get().saturating_sub(usize::try_from(given).unwrap_or(count.get()));
        if room == 0 || !self.is_direct(sources) {
            return given;
        }
        // SAFETY: the user has room for `count` entries, of which `room` are left.
        let more = unsafe {
            let rest = into.as_ptr().byte_add((count.get() - room) * self.entry_bytes);
            self.progress_into(rest, room)
        };
        given + more as Ssize
    }

    /// Returns whether entries can be written directly to the user's memory.
    #[inline(always)]
    const fn is_direct(&self, sources: AnswersArg<'_, FiAddr>) -> bool {
        self.entry_bytes == size_of::<CqEntry>() && sources.is_null()
    }

    fn read_for(
        &self,
        into: MemoryArg,
        count: LengthArg,
        sources: AnswersArg<'_, FiAddr>,
        milliseconds: c_int,
    ) -> Ssize {
        let begin = Instant::now();
        let longest = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        loop {
            let answer = self.read(into, count, sources);
            let over = longest.is_some_and(|longest| begin.elapsed() >= longest);
            if answer != -(errno::EAGAIN as Ssize) || over {
                return answer;
            }
            std::thread::yield_now();
        }
    }
}

fn sole(endpoints: &[ObjectRef<FidEp>]) -> Option<ObjectRef<FidEp>> {
    if let [only] = endpoints { Some(*only) } else { None }
}

static OPS: OpsCq = OpsCq {
    size: size_of::<OpsCq>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal: absent,
    strerror: strerror::<CqFid>,
};

/// Opens a queue in `domain`, for `fi_cq_open`.
pub(crate) extern "C" fn open(
    domain: DomainArg<'_>,
    attr: Option<&CqAttr>,
    cq: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    let (format, wait) = attr.map_or((0, 0), |attr| (attr.format as usize, attr.wait_obj));
    let Some(entry_bytes) = ENTRY_BYTES.get(format) else { return -errno::EINVAL };
    if !matches!(wait, WAIT_NONE | WAIT_UNSPEC | WAIT_YIELD) {
        return -errno::ENOSYS;
    }
    let made = Cq {
        fid: object::fid::<Cq>(context),
        ops: &raw const OPS,
        domain: Domain::keep(domain),
        entry_bytes: *entry_bytes,
        place: Cell::new(core::ptr::null_mut()),
        room: Cell::new(0),
        done: RefCell::default(),
        failed: RefCell::default(),
        kept: Cell::new(0),
        endpoints: RefCell::default(),
        only: Cell::new(None),
    };
    object::hand_out(made, cq)
}

extern "C" fn read(cq: CqArg<'_>, into: MemoryArg, count: LengthArg) -> Ssize {
    Cq::of(cq).read(into, count, AnswersArg::NULL)
}

extern "C" fn readfrom(
    cq: CqArg<'_>,
    into: MemoryArg,
    count: LengthArg,
    sources: AnswersArg<'_, FiAddr>,
) -> Ssize {
    Cq::of(cq).read(into, count, sources)
}

extern "C" fn sread(
    cq: CqArg<'_>,
    into: MemoryArg,
    count: LengthArg,
    _cond: *const c_void,
    timeout: c_int,
) -> Ssize {
    Cq::of(cq).read_for(into, count, AnswersArg::NULL, timeout)
}

extern "C" fn sreadfrom(
    cq: CqArg<'_>,
    into: MemoryArg,
    count: LengthArg,
    sources: AnswersArg<'_, FiAddr>,
    _cond: *const c_void,
    timeout: c_int,
) -> Ssize {
    Cq::of(cq).read_for(into, count, sources, timeout)
}

extern "C" fn readerr(cq: CqArg<'_>, into: AnswerArg<'_, CqErrEntry>, _flags: u64) -> Ssize {
    let cq = Cq::of(cq);
    let _turn = cq.domain.enter();
    let failed = cq.failed.borrow_mut().pop_front();
    let Some(entry) = failed else { return -(errno::EAGAIN as Ssize) };
    cq.kept.set(cq.kept.get() - 1);
    // The caller's buffer for details stays empty.
    into.write(CqErrEntry { err_data_size: 0, ..entry });
    1
}
