//! Calls on several pending operations at a time.

use core::cell::Cell;
use core::ffi::c_int;
use core::mem::MaybeUninit;

use shim::raw::{RawRequests as _, Unscoped, wait_for_one_of};
use shim::{Call, Wait};

use crate::border::{ArrayArg, CountArg, HandleArg, HandlePlaceArg, OutArg};
use crate::entry::enter;
use crate::failure::Called;
use crate::handle::{Handle, HandleKind};
use crate::instance::Instance;
use crate::requests::{CStatus, finish_at, wait_at, wait_longer};

/// The index or count that C gets when all requests are null: `SIZE_MAX`.
const NONE: usize = usize::MAX;

/// A parameter that leads to requests.
type RequestsArg<'call> = ArrayArg<'call, Cell<HandleArg<'call>>>;

/// Places for results, as many as there are requests.
type AnswerPlaces<'call, T> = [Cell<MaybeUninit<T>>];

/// A parameter that leads to [`AnswerPlaces`].
type OutsArg<'call, T> = ArrayArg<'call, Cell<MaybeUninit<T>>>;

/// A list of requests. Null requests are skipped.
#[derive(Clone, Copy)]
struct RequestList<'call> {
    requests: &'call [Cell<HandleArg<'call>>],
}

/// Places for the results of a list of requests. `None`: C does not want the results.
#[derive(Clone, Copy)]
struct Answers<'call> {
    statuses: Option<&'call AnswerPlaces<'call, CStatus>>,
    codes: Option<&'call AnswerPlaces<'call, c_int>>,
}

impl<'call> Answers<'call> {
    fn new(
        count: CountArg,
        statuses: OutsArg<'call, CStatus>,
        codes: OutsArg<'call, c_int>,
    ) -> Called<Self> {
        let (statuses, codes) = (statuses.slice_if_given(count)?, codes.slice_if_given(count)?);
        Ok(Self { statuses, codes })
    }

    /// Waits for the request at `place`, and writes its result as number `number`. A null request
    /// counts as completed without error.
    fn wait(&self, number: usize, place: &'call Cell<HandleArg<'call>>) -> Called {
        let status = self.statuses.map_or(OutArg::NULL, |statuses| OutArg::at(&statuses[number]));
        let ended =
            if place.get().is_null() { Ok(()) } else { wait_at(HandlePlaceArg::at(place), status) };
        if let Some(codes) = self.codes {
            let code = ended.as_ref().map_or_else(|failure| failure.code as c_int, |()| 0);
            codes[number].set(MaybeUninit::new(code));
        }
        ended
    }
}

impl<'call> RequestList<'call> {
    fn new(count: CountArg, requests: RequestsArg<'call>) -> Called<Self> {
        Ok(Self { requests: requests.slice(count)? })
    }

    /// Returns the indices and handles of the requests that are not null.
    fn open(self) -> impl Iterator<Item = (usize, Handle)> + use<'call> {
        let all = self.requests.iter().map(|place| place.get().handle()).enumerate();
        all.filter(|(_, handle)| *handle != Handle::NONE)
    }

    /// Returns the world of all requests, and checks their handles. Returns `None` when each is
    /// null or done.
    fn world(self) -> Called<Option<&'call Instance>> {
        let is_open =
            |request: &HandleArg<'_>| !request.is_null() && request.handle() != Handle::DONE;
        let mut open = self.requests.iter().map(Cell::get).filter(is_open);
        let Some(first) = open.next() else { return Ok(None) };
        let instance = first.world_of(HandleKind::Request)?;
        for (_, handle) in self.open() {
            // A request of another world is not in this world's tables.
            if handle != Handle::DONE && instance.request_of(handle)?.is_none() {
                instance.requests().get(handle)?;
            }
        }
        Ok(Some(instance))
    }

    /// Returns whether all requests are null.
    fn is_empty(self) -> bool {
        self.open().next().is_none()
    }

    /// Returns the indices of the completed requests, which are requests of `instance` or done.
    fn over(self, instance: Option<&Instance>) -> impl Iterator<Item = usize> {
        let is_over = move |handle| {
            let Some(instance) = instance.filter(|_| handle != Handle::DONE) else { return true };
            // A request that has ended meanwhile counts as complete: the wait for it reports that.
            match instance.request_of(handle) {
                Ok(Some(request)) => instance.world().is_request_over(request),
                Ok(None) => {
                    let mut requests = instance.requests();
                    requests.get(handle).map_or(true, |pending| pending.look(instance.world()))
                }
                Err(_) => true,
            }
        };
        self.open().filter(move |(_, handle)| is_over(*handle)).map(|(place, _)| place)
    }

    fn is_over(self, instance: &Instance) -> bool {
        self.over(Some(instance)).count() == self.open().count()
    }

    /// Returns what a wait for any of them waits for while none is complete.
    fn wait_of(self, instance: &Instance) -> Wait {
        let of = self.open().count() as u32;
        let waits = self.open().filter_map(|(_, handle)| {
            let world = instance.world();
            if let Some(request) = instance.request_of(handle).ok()? {
                return Some(Unscoped::of_request(world, request).wait_of(world));
            }
            let mut requests = instance.requests();
            Some(requests.get(handle).ok()?.wait_of(world))
        });
        Wait { over: Some((0, of)), ..wait_for_one_of(Call::WaitAny, waits) }
    }

    /// Waits until a request is complete, and returns the index of the first such request.
    fn wait_for_any(self, instance: Option<&Instance>) -> Called<usize> {
        let Some(instance) = instance else { return Ok(self.over(None).next().unwrap_or(NONE)) };
        let mut served = Ok(());
        let what = || self.wait_of(instance);
        let found = instance.world().wait_until(what, || {
            let over = self.over(Some(instance)).next();
            if over.is_none() && served.is_ok() {
                served = instance.deliver();
            }
            over
        })?;
        served.map(|()| found)
    }

    /// Waits for each request. Returns the first failure.
    fn wait_without_answers(self) -> Called {
        let mut result = Ok(());
        for request in self.requests {
            let place = HandlePlaceArg::at(request);
            if !request.get().is_null() && !finish_at(place, OutArg::NULL) {
                result = result.and(wait_longer(place, OutArg::NULL));
            }
        }
        result
    }

    /// Waits for each request, and writes its result. Returns the first failure.
    fn wait_for_all(self, answers: Answers<'call>) -> Called {
        let mut result = Ok(());
        for (number, place) in self.requests.iter().enumerate() {
            result = result.and(answers.wait(number, place));
        }
        result
    }

    /// Ends the request at `place`, which is complete.
    fn end_one(self, place: usize, status: OutArg<'_, CStatus>) -> Called {
        wait_at(HandlePlaceArg::at(&self.requests[place]), status)
    }

    /// Ends the completed requests, and writes their results one after the other.
    fn end_some(
        self,
        instance: Option<&Instance>,
        over: OutArg<'_, usize>,
        indices: &AnswerPlaces<'call, usize>,
        answers: Answers<'call>,
    ) -> Called {
        let (mut result, mut count) = (Ok(()), 0);
        for place in self.over(instance) {
            indices[count].set(MaybeUninit::new(place));
            result = result.and(answers.wait(count, &self.requests[place]));
            count += 1;
        }
        over.write(count)?;
        result
    }
}

#[unsafe(no_mangle)]
extern "C" fn strait_wait_all<'call>(
    count: CountArg,
    requests: RequestsArg<'call>,
    statuses: OutsArg<'call, CStatus>,
    codes: OutsArg<'call, c_int>,
) -> c_int {
    enter("strait_wait_all", HandleArg::NULL, || {
        let list = RequestList::new(count, requests)?;
        match Answers::new(count, statuses, codes)? {
            // Nothing of a request that is over is kept then.
            Answers { statuses: None, codes: None } => list.wait_without_answers(),
            answers => list.wait_for_all(answers),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_test_all<'call>(
    count: CountArg,
    requests: RequestsArg<'call>,
    done: OutArg<'_, c_int>,
    statuses: OutsArg<'call, CStatus>,
    codes: OutsArg<'call, c_int>,
) -> c_int {
    enter("strait_test_all", HandleArg::NULL, || {
        done.need()?;
        let list = RequestList::new(count, requests)?;
        if let Some(instance) = list.world()?
            && !list.is_over(instance)
        {
            instance.progress()?;
            if !list.is_over(instance) {
                return done.write(0);
            }
        }
        done.write(1)?;
        list.wait_for_all(Answers::new(count, statuses, codes)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_wait_any<'call>(
    count: CountArg,
    requests: RequestsArg<'call>,
    index: OutArg<'_, usize>,
    status: OutArg<'_, CStatus>,
) -> c_int {
    enter("strait_wait_any", HandleArg::NULL, || {
        index.need()?;
        let list = RequestList::new(count, requests)?;
        let instance = list.world()?;
        if list.is_empty() {
            return index.write(NONE);
        }
        let place = list.wait_for_any(instance)?;
        index.write(place)?;
        list.end_one(place, status)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_test_any<'call>(
    count: CountArg,
    requests: RequestsArg<'call>,
    done: OutArg<'_, c_int>,
    index: OutArg<'_, usize>,
    status: OutArg<'_, CStatus>,
) -> c_int {
    enter("strait_test_any", HandleArg::NULL, || {
        done.need()?;
        index.need()?;
        let list = RequestList::new(count, requests)?;
        let instance = list.world()?;
        let mut found = list.over(instance).next();
        if let (Some(world), None) = (instance, found) {
            world.progress()?;
            found = list.over(instance).next();
        }
        done.write(c_int::from(list.is_empty() || found.is_some()))?;
        index.write(found.unwrap_or(NONE))?;
        found.map_or(Ok(()), |place| list.end_one(place, status))
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_wait_some<'call>(
    count: CountArg,
    requests: RequestsArg<'call>,
    over: OutArg<'_, usize>,
    indices: OutsArg<'call, usize>,
    statuses: OutsArg<'call, CStatus>,
    codes: OutsArg<'call, c_int>,
) -> c_int {
    enter("strait_wait_some", HandleArg::NULL, || {
        let answers = Answers::new(count, statuses, codes)?;
        some(count, requests, (over, indices), answers, |list, instance| {
            list.wait_for_any(instance).map(drop)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_test_some<'call>(
    count: CountArg,
    requests: RequestsArg<'call>,
    over: OutArg<'_, usize>,
    indices: OutsArg<'call, usize>,
    statuses: OutsArg<'call, CStatus>,
    codes: OutsArg<'call, c_int>,
) -> c_int {
    enter("strait_test_some", HandleArg::NULL, || {
        let answers = Answers::new(count, statuses, codes)?;
        some(count, requests, (over, indices), answers, |list, instance| {
            match (list.over(instance).next(), instance) {
                (None, Some(instance)) => instance.progress(),
                _ => Ok(()),
            }
        })
    })
}

/// Ends the requests that are complete after `serve`.
fn some<'call>(
    count: CountArg,
    requests: RequestsArg<'call>,
    (over, indices): (OutArg<'_, usize>, OutsArg<'call, usize>),
    answers: Answers<'call>,
    serve: impl FnOnce(RequestList<'call>, Option<&Instance>) -> Called,
) -> Called {
    over.need()?;
    let list = RequestList::new(count, requests)?;
    let instance = list.world()?;
    if list.is_empty() {
        return over.write(NONE);
    }
    let indices = indices.slice(count)?;
    serve(list, instance)?;
    list.end_some(instance, over, indices, answers)
}
