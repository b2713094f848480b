//! Completion queues. Reading one makes progress at the endpoints bound to it.

use core::ffi::{c_char, c_int, c_void};
use core::time::Duration;
use std::time::Instant;

use crate::abi::{
    ADDR_UNSPEC, AnswersArg, CqArg, CqAttr, CqFid, DomainArg, ErrorEntryArg, ErrorTextArg, FiAddr,
    FiStatus, Fid, LengthArg, MemoryArg, NewArg, OpsCq, Ssize, absent, class, errno,
};
use crate::cause::text_of;
use crate::completions::CompletionEntries;
use crate::domain::Domain;
use crate::endpoint::FidEp;
use crate::endpoint_list::EndpointList;
use crate::object::{self, Object, ObjectRef, aside};

const WAIT_NONE: u32 = 0;
const WAIT_UNSPEC: u32 = 1;
const WAIT_YIELD: u32 = 5;

/// A completion queue.
#[repr(C)]
pub(crate) struct Cq {
    fid: Fid,
    ops: *const OpsCq,
    domain: ObjectRef<Domain>,
    entries: CompletionEntries,
    endpoints: EndpointList<FidEp>,
}

// SAFETY: begins with a fid, and names its class.
unsafe impl Object for Cq {
    type Class = CqFid;
    const CLASS: usize = class::CQ;
}

impl Cq {
    pub(crate) const fn entries(&self) -> &CompletionEntries {
        &self.entries
    }

    pub(crate) const fn endpoints(&self) -> &EndpointList<FidEp> {
        &self.endpoints
    }

    #[inline(always)]
    fn progress(&self) {
        match self.endpoints.only() {
            Some(only) => only.progress(),
            None => self.progress_all(),
        }
    }

    #[inline(never)]
    fn progress_all(&self) {
        self.endpoints.each(FidEp::progress);
    }

    /// Makes progress while no entry is queued. Writes the resulting entries to the user's memory
    /// at once, behind the `given` entries that are there already, and returns their number.
    #[inline(always)]
    fn progress_into(&self, into: MemoryArg, given: usize, count: LengthArg) -> usize {
        self.entries.begin_direct(into, given, count);
        self.progress();
        self.entries.end_direct(given, count)
    }

    /// Returns queued entries to the user, oldest first.
    #[inline(never)]
    fn give(&self, into: MemoryArg, count: LengthArg, sources: AnswersArg<'_, FiAddr>) -> Ssize {
        if self.entries.has_failure() {
            return -(errno::EAVAIL as Ssize);
        }
        match self.entries.give(into, count, sources, |rank| self.address_of(rank)) {
            0 => -(errno::EAGAIN as Ssize),
            given => given as Ssize,
        }
    }

    #[cold]
    fn address_of(&self, rank: u32) -> FiAddr {
        let mut found = ADDR_UNSPEC;
        self.endpoints.each(|endpoint| {
            if found == ADDR_UNSPEC {
                found = endpoint.address_of(rank);
            }
        });
        found
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
        if self.entries.is_empty() {
            if self.is_direct(sources) {
                let given = self.progress_into(into, 0, count);
                if given > 0 {
                    return given as Ssize;
                }
            } else {
                self.progress();
            }
        }
        if self.entries.is_empty() {
            return -(errno::EAGAIN as Ssize);
        }
        self.give_on(into, count, sources)
    }

    /// Returns queued entries, and then, as far as there is room, entries that arrive now.
    #[inline(never)]
    fn give_on(&self, into: MemoryArg, count: LengthArg, sources: AnswersArg<'_, FiAddr>) -> Ssize {
        let given = self.give(into, count, sources);
        let Ok(before) = usize::try_from(given) else { return given };
        if before == count.get() || !self.is_direct(sources) {
            return given;
        }
        given + self.progress_into(into, before, count) as Ssize
    }

    /// Returns whether entries can be written directly to the user's memory.
    #[inline(always)]
    const fn is_direct(&self, sources: AnswersArg<'_, FiAddr>) -> bool {
        self.entries.is_full_format() && sources.is_null()
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

/// Opens a queue in `domain`, for `fi_cq_open`.
pub(crate) extern "C" fn open(
    domain: DomainArg<'_>,
    attr: Option<&CqAttr>,
    cq: NewArg<'_>,
    context: *mut c_void,
) -> FiStatus {
    let (format, wait) = attr.map_or((0, 0), |attr| (attr.format as usize, attr.wait_obj));
    let Some(entries) = CompletionEntries::new(format) else { return -errno::EINVAL };
    if !matches!(wait, WAIT_NONE | WAIT_UNSPEC | WAIT_YIELD) {
        return -errno::ENOSYS;
    }
    let made = Cq {
        fid: object::fid::<Cq>(context),
        ops: &raw const OPS,
        domain: Domain::keep(domain),
        entries,
        endpoints: EndpointList::default(),
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

extern "C" fn readerr(cq: CqArg<'_>, into: ErrorEntryArg<'_>, _flags: u64) -> Ssize {
    let cq = Cq::of(cq);
    let _turn = cq.domain.enter();
    let given = cq.entries.give_failure(into, cq.domain.has_error_buffers());
    if given { 1 } else { -(errno::EAGAIN as Ssize) }
}

extern "C" fn strerror(
    _: CqArg<'_>,
    provider_number: c_int,
    details: ErrorTextArg<'_>,
    buffer: MemoryArg,
    length: LengthArg,
) -> *const c_char {
    let text = details.text().unwrap_or_else(|| text_of(provider_number));
    buffer.fill_text(length, text.to_bytes());
    text.as_ptr()
}
