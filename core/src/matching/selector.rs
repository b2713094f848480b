//! The selectors of receives, and the bins in which the queues file them.

use core::fmt::Debug;
use core::ops::{Index, IndexMut};

use super::unfiled::Mark;
use crate::memory::{Memory, OutOfMemory};

/// No node. The slab has fewer keys.
pub(super) const NIL: u32 = u32::MAX;

/// The messages that a receive or a probe accepts: [`Pattern`](super::Pattern) or
/// [`MaskedPattern`](super::MaskedPattern).
///
/// The trait is sealed, because the queues rely on how a selector files its entries.
pub trait Selector: Filing + Debug {
    /// Returns whether a receive with this selector may take a message with that envelope.
    ///
    /// Of several candidates a receive takes the oldest (MPI-4.1 §3.5).
    #[must_use]
    fn matches(&self, envelope: &Self::Envelope) -> bool;
}

/// The bins that the entries of a queue are filed in.
pub trait Filing: Copy + Eq + 'static {
    /// The envelope of a message.
    type Envelope: Copy + Eq + Debug;

    /// A kind of selectors. A message is filed in one bin of each class.
    type Class: Copy + Eq + 'static;

    /// The name of a bin.
    type Key: Copy;

    /// The bins in use.
    type Bins<M: Memory>: BinMap<Self::Key, M>;

    /// One value for each class.
    type PerClass<T: Copy>: Copy + Index<usize, Output = T> + IndexMut<usize>;

    /// All classes; each at the index that [`Filing::index`] returns.
    const CLASSES: &'static [Self::Class];

    /// Whether a message matches every receive of every bin that is named by
    /// [`Filing::key_matching`].
    const IS_EXACT: bool;

    /// Returns the same value for each class.
    fn per_class<T: Copy>(value: T) -> Self::PerClass<T>;

    /// Returns the place of a class in [`Filing::CLASSES`].
    fn index(class: Self::Class) -> usize;

    /// Returns the class of this selector.
    fn class(&self) -> Self::Class;

    /// Returns the bin of the receives with this selector.
    fn key(&self) -> Self::Key;

    /// Returns the bin of `class` that may hold receives which match `envelope`.
    fn key_matching(envelope: &Self::Envelope, class: Self::Class) -> Self::Key;

    /// Returns the mark of this selector.
    fn mark(&self) -> Mark;

    /// Returns the mark of the selectors without a wildcard that match `envelope`.
    fn mark_matching(envelope: &Self::Envelope) -> Mark;
}

/// The first and last node of a bin. The nodes are linked among themselves.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The oldest node; [`NIL`] in a bin that is empty.
    pub(super) first: u32,
    /// The youngest node.
    pub(super) last: u32,
}

impl Ends {
    pub(super) const NONE: Self = Self { first: NIL, last: NIL };
}

/// The bins of one queue, by name.
pub trait BinMap<K, M: Memory> {
    /// Returns a map without bins. It allocates nothing until the first [`BinMap::reserve`].
    fn new(memory: M) -> Self;

    /// Makes room for `additional` new bins.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing has changed.
    fn reserve(&mut self, additional: usize) -> Result<(), OutOfMemory>;

    /// Returns the place of the bin called `key`, valid until a bin is added or removed. Returns
    /// `None` if there is no such bin.
    fn find(&self, key: &K) -> Option<usize>;

    /// Notes that a bin is about to be looked up, and fetches the one that is looked up next if
    /// the names go on as the last ones did.
    fn foresee(&mut self, key: &K);

    /// Returns the bin at a place that [`BinMap::find`] returned.
    fn at(&self, place: usize) -> &Ends;

    /// Returns the bin at a place that [`BinMap::find`] returned, to change.
    fn at_mut(&mut self, place: usize) -> &mut Ends;

    /// Makes `node` the last of the bin called `key`. Returns the node before it, [`NIL`] if the
    /// bin is new. Room for a new bin has been reserved.
    fn append(&mut self, key: K, node: u32) -> u32;

    /// Removes the bin at `place`.
    fn remove(&mut self, place: usize);
}
