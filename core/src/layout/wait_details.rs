//! What a rank writes beside its wait record: details of the wait, and messages that no receive
//! has taken.
//!
//! The rank writes both at the same time, when a wait has lasted for long. The details name the
//! wait by its start, so a reader never mixes two waits.

use core::fmt;

use super::names::{NAME_WORDS, ShortName};
use super::seqlock;
use super::waiting::{ATTEMPTS, Call, NONE, SendState, Unreadable, Wait, pack, unpack};
use crate::golden;
use crate::matching::{ANY_SOURCE, ANY_TAG};
use crate::sync::AtomicU64;

/// Words for the bits of a [`RankSet`].
const SET_WORDS: usize = 8;

/// Words at the start: the wait's start, window and target, stage and counts, unexpected bytes.
const HEAD_WORDS: usize = 4;

/// Words for one [`RequestWait`].
const REQUEST_WORDS: usize = 2;

/// Words for one [`UnexpectedHead`].
const UNEXPECTED_WORDS: usize = 3;

/// Number of words in a record after its sequence number.
const WORDS: usize = HEAD_WORDS
    + SET_WORDS
    + RequestWait::MOST * REQUEST_WORDS
    + UnexpectedHead::MOST * UNEXPECTED_WORDS
    + NAME_WORDS;

const REQUESTS: usize = HEAD_WORDS + SET_WORDS;
const HEADS: usize = REQUESTS + RequestWait::MOST * REQUEST_WORDS;
const CALLER: usize = HEADS + UnexpectedHead::MOST * UNEXPECTED_WORDS;

/// A set of ranks below [`RankSet::RANKS`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RankSet([u64; SET_WORDS]);

impl RankSet {
    /// Number of ranks that a set can hold. A larger rank makes the set unknown.
    pub const RANKS: u32 = SET_WORDS as u32 * 64;

    /// Creates a set. Returns `None` if a rank is too large for it.
    ///
    /// ```
    /// use strait_core::layout::RankSet;
    ///
    /// let set = RankSet::of([3, 500]).ok_or("no rank is too large")?;
    /// assert_eq!(set.iter().collect::<Vec<_>>(), [3, 500]);
    /// assert!(RankSet::of([512]).is_none());
    /// # Ok::<(), &str>(())
    /// ```
    #[must_use]
    pub fn of(ranks: impl IntoIterator<Item = u32>) -> Option<Self> {
        ranks.into_iter().try_fold(Self::default(), Self::with)
    }

    /// Returns the set with one more rank. Returns `None` if the rank is too large for it.
    #[must_use]
    pub fn with(mut self, rank: u32) -> Option<Self> {
        *self.0.get_mut(rank as usize / 64)? |= 1 << (rank % 64);
        Some(self)
    }

    /// Returns whether the set contains this rank.
    #[must_use]
    pub fn contains(&self, rank: u32) -> bool {
        self.0.get(rank as usize / 64).is_some_and(|word| word >> (rank % 64) & 1 == 1)
    }

    /// Returns the ranks of the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let set = *self;
        (0..Self::RANKS).filter(move |rank| set.contains(*rank))
    }
}

/// One incomplete operation of a wait for several.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestWait {
    /// The operation, such as [`Call::Recv`].
    pub call: Call,
    /// The rank that has to act, or [`ANY_SOURCE`].
    pub peer: Option<u32>,
    /// The tag, or [`ANY_TAG`].
    pub tag: Option<u32>,
    /// The context.
    pub context: Option<u32>,
}

impl RequestWait {
    /// Largest number of operations that a record describes.
    pub const MOST: usize = 8;
}

impl From<Wait> for RequestWait {
    fn from(wait: Wait) -> Self {
        Self { call: wait.call, peer: wait.peer, tag: wait.tag, context: wait.context }
    }
}

impl From<RequestWait> for Wait {
    fn from(RequestWait { call, peer, tag, context }: RequestWait) -> Self {
        Self { peer, tag, context, ..Self::new(call) }
    }
}

impl fmt::Display for RequestWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Wait::from(*self).fmt(f)
    }
}

/// Messages of one source, tag and context that no receive has taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnexpectedHead {
    /// The sender.
    pub source: u32,
    /// The tag.
    pub tag: u32,
    /// The context.
    pub context: u32,
    /// Number of messages.
    pub count: u32,
    /// Length of one of the messages in bytes.
    pub bytes: u64,
}

impl UnexpectedHead {
    /// Largest number of heads that a record holds.
    pub const MOST: usize = 8;
}

impl fmt::Display for UnexpectedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, tag, context, count, bytes } = *self;
        write!(f, "source {source}, tag {tag}, context {context}, {bytes} bytes, ")?;
        if count == 1 { f.write_str("once") } else { write!(f, "{count} times") }
    }
}

/// The messages that a rank holds for receives to come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct UnexpectedSummary {
    /// Some of them, grouped. Those of the rank that is waited for come first.
    pub heads: [Option<UnexpectedHead>; UnexpectedHead::MOST],
    /// Number of all messages.
    pub messages: u32,
    /// Private memory that they use, in bytes.
    pub bytes: u64,
}

/// The record of details, beside [`super::WaitRecord`]. Zeroed memory is the record of a rank that
/// has not waited yet.
#[derive(Debug)]
#[repr(C)]
pub struct DetailRecord {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

golden::structure!(DetailRecord { sequence, words });

impl DetailRecord {
    /// Creates an empty record, for models and tests.
    #[must_use]
    pub fn empty() -> Self {
        Self { sequence: AtomicU64::new(0), words: core::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Records the details of the wait that began at `since_ns`. Only the record's rank calls it,
    /// from one thread at a time.
    pub fn write(&self, since_ns: u64, wait: &Wait, unexpected: &UnexpectedSummary) {
        let or_none = |field: Option<u32>| field.unwrap_or(NONE);
        let mut words = [0; WORDS];
        words[0] = since_ns;
        words[1] = pack(or_none(wait.window), or_none(wait.target));
        let known = u32::from(wait.others.is_some()) << 8;
        words[2] = pack(wait.stage.map_or(0, |stage| stage as u32) | known, unexpected.messages);
        words[3] = unexpected.bytes;
        if let Some(RankSet(bits)) = wait.others {
            words[HEAD_WORDS..REQUESTS].copy_from_slice(&bits);
        }
        let requests = words[REQUESTS..HEADS].chunks_exact_mut(REQUEST_WORDS);
        for (words, request) in requests.zip(wait.requests.iter().flatten()) {
            words[0] = pack(request.call as u32, or_none(request.peer));
            words[1] = pack(or_none(request.tag), or_none(request.context));
        }
        words[CALLER..].copy_from_slice(&ShortName::words(wait.caller));
        let heads = words[HEADS..CALLER].chunks_exact_mut(UNEXPECTED_WORDS);
        for (words, head) in heads.zip(unexpected.heads.iter().flatten()) {
            words[0] = pack(head.source, head.tag);
            words[1] = pack(head.context, head.count);
            words[2] = head.bytes;
        }
        seqlock::write(&self.sequence, &self.words, words);
    }

    /// Adds the details of the wait that began at `since_ns` to `wait`, and returns the unexpected
    /// messages. Details of another wait are ignored.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if every attempt met a write, or the record holds values that no rank writes.
    pub fn read_into(
        &self,
        since_ns: u64,
        wait: &mut Wait,
    ) -> Result<UnexpectedSummary, Unreadable> {
        let read = || seqlock::read(&self.sequence, &self.words);
        let words = (0..ATTEMPTS).find_map(|_| read()).ok_or(Unreadable)?;
        let heads = words[HEADS..CALLER].chunks_exact(UNEXPECTED_WORDS).map(head);
        let mut unexpected = UnexpectedSummary {
            messages: unpack(words[2]).1,
            bytes: words[3],
            ..UnexpectedSummary::default()
        };
        unexpected.heads.iter_mut().zip(heads).for_each(|(place, head)| *place = head);
        if words[0] != since_ns {
            return Ok(unexpected);
        }
        let some = |field: u32| (field != NONE).then_some(field);
        let (window, target) = unpack(words[1]);
        (wait.window, wait.target) = (some(window), some(target));
        wait.caller = ShortName::parse(&words[CALLER..]);
        let flags = unpack(words[2]).0;
        wait.stage = match flags & 0xff {
            0 => None,
            stage => Some(SendState::parse(stage).ok_or(Unreadable)?),
        };
        if flags >> 8 & 1 == 1 {
            let bits = core::array::from_fn(|at| words[HEAD_WORDS + at]);
            wait.others = Some(RankSet(bits));
        }
        let requests = words[REQUESTS..HEADS].chunks_exact(REQUEST_WORDS);
        for (place, words) in wait.requests.iter_mut().zip(requests) {
            *place = request(words)?;
        }
        Ok(unexpected)
    }
}

fn request(words: &[u64]) -> Result<Option<RequestWait>, Unreadable> {
    let ((call, peer), (tag, context)) = (unpack(words[0]), unpack(words[1]));
    if call == 0 {
        return Ok(None);
    }
    let some = |field: u32| (field != NONE).then_some(field);
    let call = Call::parse(call).ok_or(Unreadable)?;
    Ok(Some(RequestWait { call, peer: some(peer), tag: some(tag), context: some(context) }))
}

fn head(words: &[u64]) -> Option<UnexpectedHead> {
    let ((source, tag), (context, count)) = (unpack(words[0]), unpack(words[1]));
    let is_message = count > 0 && source != ANY_SOURCE && tag != ANY_TAG;
    is_message.then_some(UnexpectedHead { source, tag, context, count, bytes: words[2] })
}

#[cfg(all(test, not(strait_loom)))]
mod tests {
    use std::string::ToString as _;

    use super::*;
    use crate::sync::Ordering::Relaxed;

    const HEAD: UnexpectedHead =
        UnexpectedHead { source: 1, tag: 8, context: 0, count: 2, bytes: 16 };

    fn wait() -> Wait {
        let one = Wait { tag: Some(7), ..Wait::on(Call::Recv, 2) };
        let mut requests = [None; RequestWait::MOST];
        requests[0] = Some(RequestWait::from(one));
        let others = RankSet::of([0, 63, 64, 511]);
        let (stage, window) = (Some(SendState::Deferred), Some(3));
        let (target, caller) = (Some(4), ShortName::new("MPI_Waitany"));
        Wait { caller, stage, window, target, others, requests, ..Wait::new(Call::WaitAny) }
    }

    fn summary() -> UnexpectedSummary {
        let mut heads = [None; UnexpectedHead::MOST];
        heads[0] = Some(HEAD);
        UnexpectedSummary { heads, messages: 2, bytes: 32 }
    }

    #[test]
    fn details_of_the_same_wait_are_read() {
        let record = DetailRecord::empty();
        record.write(5, &wait(), &summary());
        let mut found = Wait::new(Call::WaitAny);
        assert_eq!(record.read_into(5, &mut found), Ok(summary()));
        assert_eq!(found, wait());
        let mut other = Wait::new(Call::WaitAny);
        assert_eq!(record.read_into(6, &mut other), Ok(summary()));
        assert_eq!(other, Wait::new(Call::WaitAny));
    }

    #[test]
    fn what_no_rank_writes_is_refused() {
        for (at, value) in [(2, 9_u64), (REQUESTS, 99)] {
            let record = DetailRecord::empty();
            record.write(5, &wait(), &summary());
            record.words[at].store(value, Relaxed);
            assert_eq!(record.read_into(5, &mut wait()), Err(Unreadable));
        }
    }

    #[test]
    fn a_head_is_described() {
        assert_eq!(HEAD.to_string(), "source 1, tag 8, context 0, 16 bytes, 2 times");
    }
}
