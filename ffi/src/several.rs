//! Several operations under way at a time.

use core::ffi::c_int;

use shim::{Call, Wait};

use crate::buffer::{answer, need};
use crate::entry::{Called, enter};
use crate::handle::{self, Handle, Kind};
use crate::instance::Instance;
use crate::requests::{Status, wait_at};

/// What C says of requests that are none, where it counts or names others: `SIZE_MAX`.
const NONE: usize = usize::MAX;

/// A list of requests. Those that are null are left out.
#[derive(Clone, Copy)]
struct List {
    count: usize,
    requests: *mut Handle,
}

/// Where the answers for a list of requests go.
#[derive(Clone, Copy)]
struct Answers {
    statuses: *mut Status,
    codes: *mut c_int,
}

impl Answers {
    /// Waits for the request at `place`, which answers as the one of this `number`; one that is null ended well.
    ///
    /// # Safety
    ///
    /// `place` leads to a request, and statuses and codes, where there are any, have such a number.
    unsafe fn wait(&self, number: usize, place: *mut Handle) -> Called {
        // SAFETY: by the contract.
        unsafe {
            let status = match self.statuses.is_null() {
                true => self.statuses,
                false => self.statuses.add(number),
            };
            let ended = match place.read() {
                Handle::NONE => Ok(()),
                _ => wait_at(place, status),
            };
            if !self.codes.is_null() {
                let code = ended.as_ref().map_or_else(|failure| failure.code as c_int, |()| 0);
                self.codes.add(number).write(code);
            }
            ended
        }
    }
}

impl List {
    /// # Safety
    ///
    /// `requests` is null, or leads to `count` of them as long as the list is used.
    unsafe fn new(count: usize, requests: *mut Handle) -> Called<Self> {
        if count > 0 {
            need(requests)?;
        }
        Ok(Self { count, requests })
    }

    fn at(&self, place: usize) -> *mut Handle {
        debug_assert!(place < self.count);
        // SAFETY: there are more.
        unsafe { self.requests.add(place) }
    }

    /// Those that are not null, and their places.
    fn open(&self) -> impl Iterator<Item = (usize, Handle)> {
        // SAFETY: by the contract of `new`.
        let all = (0..self.count).map(|place| (place, unsafe { self.at(place).read() }));
        all.filter(|(_, handle)| *handle != Handle::NONE)
    }

    /// The world of all of them, which are good; `None` when all are null.
    ///
    /// # Safety
    ///
    /// As `strait.h` says of requests.
    unsafe fn world<'a>(&self) -> Called<Option<&'a Instance>> {
        let Some((_, first)) = self.open().next() else { return Ok(None) };
        // SAFETY: by the contract.
        let instance = unsafe { handle::world_of(first, Kind::Request) }?;
        for (_, handle) in self.open() {
            // One of another world is none of this one's.
            instance.requests().get(handle)?;
        }
        Ok(Some(instance))
    }

    /// The places of those that are over.
    fn over(&self, instance: &Instance) -> impl Iterator<Item = usize> {
        let is_over = |handle| {
            // One that is gone meanwhile is over, too: waiting for it says so.
            let mut requests = instance.requests();
            requests.get(handle).map_or(true, |pending| pending.look(instance.world()))
        };
        self.open().filter(move |(_, handle)| is_over(*handle)).map(|(place, _)| place)
    }

    fn is_over(&self, instance: &Instance) -> bool {
        self.over(instance).count() == self.open().count()
    }

    /// What a wait for any of them waits for: none is over.
    fn wait_of(&self, instance: &Instance) -> Wait {
        let of = self.open().count() as u32;
        let first = self.open().next().and_then(|(_, handle)| {
            let mut requests = instance.requests();
            Some(requests.get(handle).ok()?.wait_of(instance.world()))
        });
        let call = Call::WaitAny;
        Wait { call, over: Some((0, of)), ..first.unwrap_or(Wait::new(call)) }
    }

    /// Waits until one is over, and gives the place of the first.
    fn wait_for_any(&self, instance: &Instance) -> Called<usize> {
        let mut served = Ok(());
        let what = || self.wait_of(instance);
        let found = instance.world().wait_until(what, || {
            let over = self.over(instance).next();
            if over.is_none() && served.is_ok() {
                served = instance.deliver();
            }
            over
        })?;
        served.map(|()| found)
    }

    /// Waits for each, which answers in its place. The first failure.
    ///
    /// # Safety
    ///
    /// As `strait.h` says of `strait_wait_all`.
    unsafe fn wait_for_all(&self, answers: Answers) -> Called {
        let mut result = Ok(());
        for place in 0..self.count {
            // SAFETY: by the contract.
            result = result.and(unsafe { answers.wait(place, self.at(place)) });
        }
        result
    }

    /// Ends those that are over, which answer one after the other.
    ///
    /// # Safety
    ///
    /// As `strait.h` says of `strait_wait_some`.
    unsafe fn end_some(
        &self,
        instance: &Instance,
        over: *mut usize,
        indices: *mut usize,
        answers: Answers,
    ) -> Called {
        let (mut result, mut count) = (Ok(()), 0);
        for place in self.over(instance) {
            // SAFETY: by the contract; it does not wait any more.
            let ended = unsafe {
                indices.add(count).write(place);
                answers.wait(count, self.at(place))
            };
            result = result.and(ended);
            count += 1;
        }
        // SAFETY: by the contract.
        unsafe { answer(over, count) }?;
        result
    }
}

/// Moves whatever can move, for a call that does not wait.
fn progress(instance: &Instance) -> Called {
    instance.world().endpoint().progress()?;
    instance.deliver()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_wait_all(
    count: usize,
    requests: *mut Handle,
    statuses: *mut Status,
    codes: *mut c_int,
) -> c_int {
    enter("strait_wait_all", Handle::NONE, || {
        // SAFETY: by the contract.
        unsafe { List::new(count, requests)?.wait_for_all(Answers { statuses, codes }) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_test_all(
    count: usize,
    requests: *mut Handle,
    done: *mut c_int,
    statuses: *mut Status,
    codes: *mut c_int,
) -> c_int {
    enter("strait_test_all", Handle::NONE, || {
        need(done)?;
        // SAFETY: by the contract.
        let list = unsafe { List::new(count, requests) }?;
        // SAFETY: by the contract.
        if let Some(instance) = unsafe { list.world() }?
            && !list.is_over(instance)
        {
            progress(instance)?;
            if !list.is_over(instance) {
                // SAFETY: by the contract.
                return unsafe { answer(done, 0) };
            }
        }
        // SAFETY: by the contract; none of them waits any more.
        unsafe {
            answer(done, 1)?;
            list.wait_for_all(Answers { statuses, codes })
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_wait_any(
    count: usize,
    requests: *mut Handle,
    index: *mut usize,
    status: *mut Status,
) -> c_int {
    enter("strait_wait_any", Handle::NONE, || {
        need(index)?;
        // SAFETY: by the contract; the one that is found does not wait any more.
        unsafe {
            let list = List::new(count, requests)?;
            let Some(instance) = list.world()? else { return answer(index, NONE) };
            let place = list.wait_for_any(instance)?;
            answer(index, place)?;
            wait_at(list.at(place), status)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_test_any(
    count: usize,
    requests: *mut Handle,
    done: *mut c_int,
    index: *mut usize,
    status: *mut Status,
) -> c_int {
    enter("strait_test_any", Handle::NONE, || {
        need(done)?;
        need(index)?;
        // SAFETY: by the contract.
        let list = unsafe { List::new(count, requests) }?;
        // SAFETY: by the contract.
        let instance = unsafe { list.world() }?;
        let mut found = instance.and_then(|instance| list.over(instance).next());
        if let (Some(instance), None) = (instance, found) {
            progress(instance)?;
            found = list.over(instance).next();
        }
        // SAFETY: by the contract; the one that is found does not wait any more.
        unsafe {
            answer(done, c_int::from(instance.is_none() || found.is_some()))?;
            answer(index, found.unwrap_or(NONE))?;
            found.map_or(Ok(()), |place| wait_at(list.at(place), status))
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_wait_some(
    count: usize,
    requests: *mut Handle,
    over: *mut usize,
    indices: *mut usize,
    statuses: *mut Status,
    codes: *mut c_int,
) -> c_int {
    enter("strait_wait_some", Handle::NONE, || {
        let wait = |list: List, instance: &Instance| list.wait_for_any(instance).map(drop);
        // SAFETY: by the contract.
        unsafe { some(count, requests, (over, indices), Answers { statuses, codes }, wait) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strait_test_some(
    count: usize,
    requests: *mut Handle,
    over: *mut usize,
    indices: *mut usize,
    statuses: *mut Status,
    codes: *mut c_int,
) -> c_int {
    enter("strait_test_some", Handle::NONE, || {
        let look = |list: List, instance: &Instance| match list.over(instance).next() {
            Some(_) => Ok(()),
            None => progress(instance),
        };
        // SAFETY: by the contract.
        unsafe { some(count, requests, (over, indices), Answers { statuses, codes }, look) }
    })
}

/// Ends those that are over after `serve`.
///
/// # Safety
///
/// As `strait.h` says of `strait_wait_some`.
unsafe fn some(
    count: usize,
    requests: *mut Handle,
    (over, indices): (*mut usize, *mut usize),
    answers: Answers,
    serve: impl FnOnce(List, &Instance) -> Called,
) -> Called {
    need(over)?;
    // SAFETY: by the contract.
    unsafe {
        let list = List::new(count, requests)?;
        let Some(instance) = list.world()? else { return answer(over, NONE) };
        need(indices)?;
        serve(list, instance)?;
        list.end_some(instance, over, indices, answers)
    }
}
