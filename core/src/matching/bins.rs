//! The hash map from patterns to bins.
//!
//! The map uses open addressing with linear probing and is at most half full. A bin is removed with
//! its last node, and the bins behind it move up (backward shift). So there are no tombstones, and
//! a probe stays short however long the map is in use.

use core::ptr::NonNull;

use super::envelope::{Envelope, Pattern, WildcardClass};
use super::selector::{BinMap, Ends, NIL};
use super::steps::step;
use crate::memory::{Memory, OutOfMemory, OwnedSlice};
use crate::sync::prefetch;

/// Places of the first allocation. The number of places is always a power of two.
const FIRST_PLACES: usize = 16;

/// The name of a bin: a pattern and its class.
///
/// A peer may send a wildcard as a source or tag. The class keeps the four bins of such a message
/// apart, so that no bin holds it twice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BinKey {
    pattern: Pattern,
    class: WildcardClass,
}

impl BinKey {
    /// Returns the bin of the receives posted with `pattern`.
    #[inline(always)]
    pub(super) const fn of(pattern: Pattern) -> Self {
        Self { class: pattern.wildcards(), pattern }
    }

    /// Returns the bin of the patterns of `class` that match `envelope`.
    #[inline(always)]
    pub(super) const fn matching(envelope: &Envelope, class: WildcardClass) -> Self {
        Self { class, pattern: class.pattern(envelope) }
    }

    /// Returns the place where the probe for the bin starts, before the mask is applied. The first
    /// product alone would line up the tags of some contexts, so a second one follows. The
    /// constants are digits of pi.
    #[inline(always)]
    fn hash(&self) -> usize {
        let Pattern { context, source, tag } = self.pattern;
        let whence = u64::from(context) << 32 | u64::from(source);
        let what = u64::from(tag) << 32 | self.class as u64;
        let product = fold(whence ^ 0x2437_54a3_243f_6a89, what ^ 0xa409_3822_299f_31d1);
        fold(product, 0x082e_fa98_ec4e_6c89) as usize
    }
}

/// Multiplies and folds the two halves of the product. The high half keeps what the low half loses,
/// so words spread well that differ in high bits, in low bits or by a stride.
#[inline(always)]
pub(crate) const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    (product >> 64) as u64 ^ product as u64
}

/// A place of the map: a bin, or vacant if the bin has no nodes.
#[derive(Clone, Copy, Debug)]
struct Bin {
    key: BinKey,
    ends: Ends,
}

impl Bin {
    const VACANT: Self =
        Self { key: BinKey::of(Pattern { context: 0, source: 0, tag: 0 }), ends: Ends::NONE };

    #[inline(always)]
    const fn is_vacant(&self) -> bool {
        self.ends.first == NIL
    }
}

/// The bins in use.
pub struct Bins<M: Memory> {
    places: OwnedSlice<Bin, M>,
    used: usize,
    /// The tag that was looked up last.
    last_tag: u32,
}

impl<M: Memory> BinMap<BinKey, M> for Bins<M> {
    fn new(memory: M) -> Self {
        Self { places: OwnedSlice::new(memory), used: 0, last_tag: 0 }
    }

    #[inline]
    fn reserve(&mut self, additional: usize) -> Result<(), OutOfMemory> {
        let wanted = 2 * (self.used + additional);
        if wanted <= self.places.len() { Ok(()) } else { self.grow(wanted) }
    }

    #[inline]
    fn find(&self, key: &BinKey) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let place = probe(&self.places, mask, key);
        (!self.places[place].is_vacant()).then_some(place)
    }

    /// Tags of receives often ascend or descend in equal steps. Neighbours in that order are far
    /// from each other in the map, and a large map is in no near cache.
    #[inline(always)]
    fn foresee(&mut self, key: &BinKey) {
        let tag = key.pattern.tag;
        let step = tag.wrapping_sub(core::mem::replace(&mut self.last_tag, tag));
        let pattern = Pattern { tag: tag.wrapping_add(step), ..key.pattern };
        let next = BinKey { pattern, ..*key };
        if let Some(bin) = self.places.get(next.hash() & self.places.len().wrapping_sub(1)) {
            prefetch(NonNull::from(bin));
        }
    }

    #[inline(always)]
    fn at(&self, place: usize) -> &Ends {
        &self.places[place].ends
    }

    #[inline(always)]
    fn at_mut(&mut self, place: usize) -> &mut Ends {
        &mut self.places[place].ends
    }

    #[inline]
    fn append(&mut self, key: BinKey, node: u32) -> u32 {
        let place = probe(&self.places, self.places.len() - 1, &key);
        let bin = &mut self.places[place];
        if bin.is_vacant() {
            *bin = Bin { key, ends: Ends { first: node, last: node } };
            self.used += 1;
            return NIL;
        }
        core::mem::replace(&mut bin.ends.last, node)
    }

    #[inline]
    fn remove(&mut self, place: usize) {
        let mask = self.places.len() - 1;
        let (mut hole, mut place) = (place, place);
        loop {
            step();
            place = (place + 1) & mask;
            let bin = self.places[place];
            if bin.is_vacant() {
                break;
            }
            // A bin may move up to the hole unless its probe starts behind the hole.
            let from_home = place.wrapping_sub(bin.key.hash()) & mask;
            if from_home >= place.wrapping_sub(hole) & mask {
                self.places[hole] = bin;
                hole = place;
            }
        }
        self.places[hole].ends.first = NIL;
        self.used -= 1;
    }
}

impl<M: Memory> Bins<M> {
    #[cold]
    fn grow(&mut self, wanted: usize) -> Result<(), OutOfMemory> {
        let len = wanted.next_power_of_two().max(FIRST_PLACES);
        self.places.replace(len, Bin::VACANT, |old, new| {
            for bin in old.iter().filter(|bin| !bin.is_vacant()) {
                let place = probe(new, len - 1, &bin.key);
                new[place] = *bin;
            }
        })
    }
}

/// Returns the place of the bin called `key`, or the vacant place for it. There is always a vacant
/// place.
#[inline(always)]
fn probe(places: &[Bin], mask: usize, key: &BinKey) -> usize {
    let mut place = key.hash() & mask;
    loop {
        step();
        let bin = &places[place];
        if bin.is_vacant() || bin.key == *key {
            return place;
        }
        place = (place + 1) & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::super::steps;
    use super::*;
    use crate::matching::{ANY_SOURCE, ANY_TAG};
    use crate::memory::counted::Counted;

    /// Fills a map with the bins of `patterns` and empties it. Returns the mean and the longest
    /// look-up in the full map.
    fn look_ups(patterns: impl Iterator<Item = Pattern> + Clone) -> (f64, u64) {
        let (mut count, mut sum, mut longest) = (0_u32, 0_u64, 0);
        Counted::lend(|memory| {
            let mut bins = Bins::new(memory);
            for (node, pattern) in (0..).zip(patterns.clone()) {
                bins.reserve(1).unwrap();
                assert_eq!(bins.append(BinKey::of(pattern), node), NIL, "patterns are distinct");
            }
            for (node, pattern) in (0..).zip(patterns.clone()) {
                let (place, steps) = steps::count(|| bins.find(&BinKey::of(pattern)).unwrap());
                assert_eq!(bins.at(place).first, node);
                (count, sum, longest) = (count + 1, sum + steps, longest.max(steps));
            }
            for (node, pattern) in (0..).zip(patterns) {
                let place = bins.find(&BinKey::of(pattern)).unwrap();
                assert_eq!(bins.at(place).first, node);
                bins.remove(place);
                assert_eq!(bins.find(&BinKey::of(pattern)), None);
            }
            assert_eq!(bins.used, 0);
        });
        (sum as f64 / f64::from(count), longest)
    }

    /// At most half full, a map of random places would need 1.5 looks.
    fn check(what: &str, patterns: impl Iterator<Item = Pattern> + Clone) {
        let (mean, longest) = look_ups(patterns);
        assert!(mean < 2.0, "{what}: {mean} places a look-up");
        assert!(longest < 64, "{what}: {longest} places for one look-up");
    }

    const N: u32 = if cfg!(miri) { 20 } else { 10_000 };

    #[test]
    fn strides_spread() {
        let base = Pattern { context: 1, source: 5, tag: 7 };
        for shift in (0..=16).step_by(if cfg!(miri) { 8 } else { 1 }) {
            check("tags", (0..N).map(|i| Pattern { tag: i << shift, ..base }));
            check("sources", (0..N).map(|i| Pattern { source: i << shift, ..base }));
            check("contexts", (0..N).map(|i| Pattern { context: i << shift, ..base }));
        }
    }

    #[test]
    fn usual_patterns_spread() {
        let base = Pattern { context: 1, source: 5, tag: 7 };
        check("any source", (0..N).map(|tag| Pattern { source: ANY_SOURCE, tag, ..base }));
        check("any tag", (0..N).map(|source| Pattern { source, tag: ANY_TAG, ..base }));
        check("tag equals source", (0..N).map(|i| Pattern { source: i, tag: i, ..base }));
        check("a grid", (0..N).map(|i| Pattern { source: i % 100, tag: i / 100, ..base }));
    }

    #[test]
    fn tags_spread_in_every_context() {
        let contexts = if cfg!(miri) { 3 } else { 1000 };
        for context in (0..contexts).chain([0x2437_54a3, 0x54a3, u32::MAX]) {
            check("tags", (0..N.min(500)).map(|tag| Pattern { context, source: 0, tag }));
        }
    }
}
