//! Operations on windows, and the judgement of their results.
//!
//! For each origin and target, the scoreboard counts how often each kind of operation has begun,
//! and how often it has happened. A word that counts them lies between the two sums. For origins
//! that live the two are equal in the end.

use core::sync::atomic::Ordering::SeqCst;
use std::io::{IoSlice, IoSliceMut};

use strait::{Error, Op, Shape};

use super::board::Count;
use super::job::Plant;
use super::rank::Rank;
use super::window::{Epoch, Open};
use crate::payload;

/// Numbers of the words behind those that accumulates add to.
const FETCHED: usize = Count::ADDED;
const SWAPPED: usize = Count::ADDED + 1;
const PAIR: usize = Count::ADDED + 2;

/// The most attempts at a compare-and-swap.
const SWAPS: u32 = 4;

/// A version of a region: its length, and the layout of its bytes.
#[derive(Clone, Copy, Debug)]
struct Version {
    id: u64,
    /// Bytes of a block, with gaps of this length between blocks; 0: without gaps.
    block: usize,
    length: usize,
}

impl Version {
    fn shape(&self) -> Shape<'static> {
        let Self { block, length, .. } = *self;
        match block {
            0 => Shape::Contiguous { length },
            _ => Shape::Strided { count: length / block, block, stride: 2 * block },
        }
    }
}

impl Rank<'_> {
    fn version(&self, number: usize, origin: u32, target: u32, version: u64) -> Version {
        let pair = (number as u64) << 16 | u64::from(origin) << 8 | u64::from(target);
        let id = self.settings.seed ^ pair << 32 ^ version;
        let mut random = fastrand::Rng::with_seed(id);
        let region = self.plan.windows[number].region;
        let length = self.settings.length(&mut random, region);
        let block = [0, 8, 40, 512][random.usize(..4)];
        match block {
            0 => Version { id, block, length },
            _ => Version { id, block, length: length / block * block },
        }
    }

    /// Returns the displacement of a byte of a member's part, or `None` while the member has not
    /// published the place of its part.
    fn displacement(&self, number: usize, target: u32, at: usize) -> Option<usize> {
        let base = self.board.displacement(number, target).load(SeqCst);
        Some(base.checked_sub(1)? as usize + at)
    }

    /// Returns the bounds of a word that counts: the operations that have happened, and those that
    /// may have.
    fn bounds(&self, number: usize, members: &[u32], target: u32, count: Count) -> (u64, u64) {
        let sum = |most: bool| {
            let of = |origin: &u32| {
                let at = (number, *origin, target);
                let word =
                    if most { self.board.most(at, count) } else { self.board.least(at, count) };
                word.load(SeqCst)
            };
            members.iter().map(of).sum()
        };
        (sum(false), sum(true))
    }

    /// Records that an operation begins.
    fn start(&self, number: usize, open: &mut Open<'_>, place: u32, count: Count) {
        let target = open.members[place as usize];
        self.board.most((number, self.me, target), count).fetch_add(1, SeqCst);
        open.unconfirmed[place as usize].push(count);
    }

    /// Does some operations on a member's part.
    pub(super) fn operate(&mut self, number: usize, open: &mut Open<'_>, place: u32, epoch: Epoch) {
        let target = open.members[place as usize];
        if self.displacement(number, target, 0).is_none() {
            return;
        }
        let (mut may_put, mut may_pair) = (true, epoch != Epoch::Open);
        for _ in 0..self.random.usize(1..=4) {
            let known = open.unconfirmed[place as usize].len();
            let done = match self.random.u8(..6) {
                0 | 1 => self.add(number, open, place),
                2 => self.fetch(number, open, place),
                3 => self.swap(number, open, place),
                4 if may_pair => {
                    // The data of a put cannot be read before the epoch ends.
                    may_pair = false;
                    self.pair(number, open, place, epoch)
                }
                // Puts one version at a time.
                _ if may_put => {
                    may_put = false;
                    self.put(number, open, place)
                }
                _ => Ok(()),
            };
            if self.explained(number, done, "a window operation").is_none() {
                // The operation may have happened or not, and no flush tells which.
                open.unconfirmed[place as usize].truncate(known);
                return;
            }
        }
    }

    /// Adds 1 to some of the words.
    fn add(&mut self, number: usize, open: &mut Open<'_>, place: u32) -> Result<(), Error> {
        let target = open.members[place as usize];
        let Some(at) = self.displacement(number, target, 0) else { return Ok(()) };
        let words = self.random.usize(1..=Count::ADDED);
        for word in 0..words {
            self.start(number, open, place, Count::Added(word));
        }
        let (ones, mut found) = (vec![1_u64; words], vec![0_u64; words]);
        if self.plant == Some(Plant::Add) {
            return Ok(());
        }
        let window = &open.window;
        match self.random.u8(..4) {
            0 => window.accumulate(&ones, place, at, Op::Sum),
            1 => window.get_accumulate(&ones, &mut found, place, at, Op::Sum),
            2 => {
                let shape = Shape::Contiguous { length: 8 * words };
                let (first, rest) = ones.split_at(words / 2);
                window.accumulate_vectored(&[first, rest], place, at, shape, Op::Sum)
            }
            _ => self.world.endpoint().scope(|scope| {
                let request = scope.raccumulate(window, &ones, place, at, Op::Sum)?;
                request.wait().map(drop)
            }),
        }
    }

    /// Draws a ticket, which no other rank may draw, or reads the word.
    fn fetch(&mut self, number: usize, open: &mut Open<'_>, place: u32) -> Result<(), Error> {
        let target = open.members[place as usize];
        let Some(at) = self.displacement(number, target, 8 * FETCHED) else { return Ok(()) };
        let key = (number, self.me, target);
        let (least, _) = self.bounds(number, &open.members, target, Count::Fetched);
        let draws = self.random.bool();
        let found = if draws {
            self.board.most(key, Count::Fetched).fetch_add(1, SeqCst);
            let found = open.window.fetch_and_op(1_u64, place, at, Op::Sum)?;
            self.board.least(key, Count::Fetched).fetch_add(1, SeqCst);
            let is_new = self.board.draw(number, target, false, found);
            assert!(is_new, "window {number}, target {target}: ticket {found} was drawn twice");
            found
        } else {
            open.window.fetch_and_op(0_u64, place, at, Op::NoOp)?
        };
        let (_, most) = self.bounds(number, &open.members, target, Count::Fetched);
        let range = least..=most - u64::from(draws);
        assert!(
            range.contains(&found),
            "window {number}, target {target}: {found} is not in {range:?}"
        );
        Ok(())
    }

    /// Increments a word by compare-and-swap.
    fn swap(&mut self, number: usize, open: &mut Open<'_>, place: u32) -> Result<(), Error> {
        let target = open.members[place as usize];
        let Some(at) = self.displacement(number, target, 8 * SWAPPED) else { return Ok(()) };
        let key = (number, self.me, target);
        let mut expected = 0;
        for _ in 0..SWAPS {
            self.board.most(key, Count::Swapped).fetch_add(1, SeqCst);
            let found = open.window.compare_and_swap(expected, expected + 1, place, at)?;
            if found == expected {
                self.board.least(key, Count::Swapped).fetch_add(1, SeqCst);
                let is_new = self.board.draw(number, target, true, found);
                assert!(is_new, "window {number}, target {target}: {found} was swapped twice");
                break;
            }
            self.board.most(key, Count::Swapped).fetch_sub(1, SeqCst);
            expected = found;
        }
        Ok(())
    }

    /// Reads two words that are always equal, and under an exclusive lock changes both.
    fn pair(
        &mut self,
        number: usize,
        open: &mut Open<'_>,
        place: u32,
        epoch: Epoch,
    ) -> Result<(), Error> {
        let target = open.members[place as usize];
        let Some(at) = self.displacement(number, target, 8 * PAIR) else { return Ok(()) };
        let (least, _) = self.bounds(number, &open.members, target, Count::Paired);
        let mut found = [0_u64; 2];
        open.window.get(&mut found, place, at)?;
        let (_, most) = self.bounds(number, &open.members, target, Count::Paired);
        let [first, second] = found;
        // A rank that died may have changed only one of them.
        assert!(
            first == second || self.any_doomed(open),
            "window {number}, target {target}: a pair {found:?}"
        );
        let larger = first.max(second);
        let range = least..=most;
        assert!(
            range.contains(&larger),
            "window {number}, target {target}: {larger} is not in {range:?}"
        );
        if epoch == Epoch::Exclusive {
            self.start(number, open, place, Count::Paired);
            open.window.put(&[larger + 1], place, at)?;
            if self.plant == Some(Plant::Lock) {
                // Longer than a time slice, so that others come in between on any machine.
                std::thread::sleep(core::time::Duration::from_millis(20));
            }
            open.window.put(&[larger + 1], place, at + 8)?;
        }
        Ok(())
    }

    /// Puts the next version into this rank's region.
    fn put(&mut self, number: usize, open: &mut Open<'_>, place: u32) -> Result<(), Error> {
        let target = open.members[place as usize];
        let region = self.region_at(number, self.place_of(number, self.me));
        let Some(at) = self.displacement(number, target, region) else { return Ok(()) };
        let is_put = open.unconfirmed[place as usize].contains(&Count::Put);
        let most = self.board.most((number, self.me, target), Count::Put).load(SeqCst);
        if is_put {
            return Ok(());
        }
        let version = self.version(number, self.me, target, most + 1);
        self.start(number, open, place, Count::Put);
        let data = payload::of(version.id, version.length);
        if self.plant == Some(Plant::Put) {
            return Ok(());
        }
        if version.block == 0 && self.random.bool() {
            return open.window.put(&data, place, at);
        }
        if version.block == 0 && self.random.bool() {
            return self
                .world
                .endpoint()
                .scope(|scope| scope.rput(&open.window, &data, place, at)?.wait().map(drop));
        }
        let (first, rest) = data.split_at(version.length / 3);
        let parts = [IoSlice::new(first), IoSlice::new(rest)];
        open.window.put_vectored(&parts, place, at, version.shape())
    }

    /// Reads the version that this rank has put and that must have arrived.
    pub(super) fn read_back(&mut self, number: usize, open: &mut Open<'_>, place: u32) {
        let target = open.members[place as usize];
        let region = self.region_at(number, self.place_of(number, self.me));
        let last = self.board.least((number, self.me, target), Count::Put).load(SeqCst);
        let most = self.board.most((number, self.me, target), Count::Put).load(SeqCst);
        let Some(at) = self.displacement(number, target, region) else { return };
        if last == 0 || last != most {
            return;
        }
        let version = self.version(number, self.me, target, last);
        self.begin("read back", [number as u64, place.into(), version.length as u64]);
        let mut found = vec![0; version.length];
        let (first, rest) = found.split_at_mut(version.length / 4);
        let window = &open.window;
        let done = match self.random.u8(..3) {
            0 if version.block == 0 => window.get(&mut found, place, at),
            1 if version.block == 0 => self
                .world
                .endpoint()
                .scope(|scope| scope.rget(window, &mut found, place, at)?.wait().map(drop)),
            _ => {
                let parts = &mut [IoSliceMut::new(first), IoSliceMut::new(rest)];
                window.get_vectored(parts, place, at, version.shape())
            }
        };
        let done = done.and_then(|()| open.window.flush(place));
        if self.explained(number, done, "a get").is_some() {
            let wrong = payload::first_difference(version.id, &found);
            assert_eq!(
                wrong, None,
                "window {number}, target {target}: {version:?} number {last} is read back"
            );
        }
    }

    /// Judges this rank's part, which no other rank accesses any more.
    pub(super) fn judge_part(&self, number: usize, open: &Open<'_>) {
        let local = match &open.attached {
            Some(attached) => open.window.attached(attached).expect("it is attached"),
            None => open.window.local(),
        };
        open.window.sync();
        let words = (0..Count::ADDED).map(|word| (word, Count::Added(word)));
        let words = words.chain([(FETCHED, Count::Fetched), (SWAPPED, Count::Swapped)]);
        for (word, count) in words.chain([(PAIR, Count::Paired), (PAIR + 1, Count::Paired)]) {
            let (least, most) = self.bounds(number, &open.members, self.me, count);
            let found: u64 = local.load(8 * word).expect("a word of the part");
            let is_half = word >= PAIR && self.any_doomed(open);
            let range = if is_half { 0..=most } else { least..=most };
            assert!(
                range.contains(&found),
                "window {number}: word {word} ({count:?}) is {found}, not in {range:?}"
            );
        }
        for (origin, place) in open.members.iter().zip(0..) {
            let at = (number, *origin, self.me);
            let last = self.board.least(at, Count::Put).load(SeqCst);
            let is_known = last == self.board.most(at, Count::Put).load(SeqCst);
            if self.board.is_doomed(*origin) || last == 0 || !is_known {
                continue;
            }
            let version = self.version(number, *origin, self.me, last);
            let mut found = Vec::new();
            for run in version.shape().runs() {
                let mut piece = vec![0_u8; run.length];
                local
                    .read(self.region_at(number, place) + run.offset, &mut piece)
                    .expect("a run of the part");
                found.extend(piece);
            }
            let wrong = payload::first_difference(version.id, &found);
            assert_eq!(wrong, None, "window {number}: {version:?} number {last} of rank {origin}");
        }
    }
}
