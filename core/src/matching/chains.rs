//! Nodes that are linked into bins, in the order in which they came.
//!
//! A node carries its own links, one pair for each bin that it is in. So a node is removed from the
//! middle of a bin without a search.

use super::selector::{BinMap, Ends, Filing, NIL};
use super::steps::step;
use super::unfiled::{Mark, Unfiled};
use crate::memory::{Memory, OutOfMemory, Slab};

/// The neighbours of a node in one bin, [`NIL`] where there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    older: u32,
    younger: u32,
}

impl Links {
    /// The links of a node that is in no bin yet.
    pub(super) const NONE: Self = Self { older: NIL, younger: NIL };
}

/// The class of one of a node's bins.
type ClassOf<N> = <<N as Node>::Selector as Filing>::Class;

/// The name of one of a node's bins.
type KeyOf<N> = <<N as Node>::Selector as Filing>::Key;

/// An entry of a queue. It is in one bin of each of its classes.
pub(super) trait Node: Copy {
    /// The selector type, which defines the bins.
    type Selector: Filing;

    /// Returns the classes of the bins that the node belongs in.
    fn classes(&self) -> &'static [ClassOf<Self>];

    /// Returns the name of its bin of `class`.
    fn key(&self, class: ClassOf<Self>) -> KeyOf<Self>;

    /// Returns its neighbours in that bin.
    fn links(&mut self, class: ClassOf<Self>) -> &mut Links;
}

/// A node and the place of a bin that it is in, valid until the queue changes.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    pub(super) handle: u32,
    place: usize,
}

/// Nodes beside the bins, in the order in which they came. Their links are those of a class of
/// which they are in no bin.
#[derive(Debug)]
pub(super) struct NodeList {
    ends: Ends,
    count: u32,
}

impl NodeList {
    pub(super) const fn new() -> Self {
        Self { ends: Ends::NONE, count: 0 }
    }

    #[inline(always)]
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the youngest node. Valid only if there is a node.
    #[inline(always)]
    const fn last(&self) -> u32 {
        if self.count == 0 { NIL } else { self.ends.last }
    }
}

/// Nodes and their bins.
pub(super) struct Chains<N: Node, M: Memory> {
    nodes: Slab<N, M>,
    bins: <N::Selector as Filing>::Bins<M>,
}

impl<N: Node, M: Memory> Chains<N, M> {
    pub(super) fn new(memory: M) -> Self
    where
        M: Clone,
    {
        Self { nodes: Slab::new(memory.clone()), bins: BinMap::new(memory) }
    }

    #[inline(always)]
    pub(super) const fn nodes(&self) -> &Slab<N, M> {
        &self.nodes
    }

    /// Adds `node` behind all others of its bins. Returns its handle. Without memory nothing
    /// changes.
    #[inline(always)]
    pub(super) fn insert(&mut self, node: N) -> Result<u32, OutOfMemory> {
        let (mut node, classes) = (node, node.classes());
        self.bins.reserve(classes.len())?;
        if let &[class] = classes {
            // The node is stored once, with its link.
            let handle = self.nodes.next_key()?;
            let older = self.bins.append(node.key(class), handle);
            node.links(class).older = older;
            self.link(older, class, |links| links.younger = handle);
            return self.nodes.insert(node);
        }
        let handle = self.nodes.insert(node)?;
        for &class in classes {
            let older = self.bins.append(node.key(class), handle);
            self.link(handle, class, |links| links.older = older);
            self.link(older, class, |links| links.younger = handle);
        }
        Ok(handle)
    }

    /// While a node is unfiled, its links of this class hold its place among the unfiled ones.
    const UNFILED: ClassOf<N> = N::Selector::CLASSES[0];

    /// Adds `node`, which has this `mark`, behind all others, in no bin. Returns its handle. There
    /// is [a place](Self::has_place) for it. Without memory nothing changes.
    #[inline(always)]
    pub(super) fn insert_unfiled(
        &mut self,
        unfiled: &mut Unfiled,
        mark: Mark,
        node: N,
    ) -> Result<u32, OutOfMemory> {
        let mut node = node;
        node.links(Self::UNFILED).older = unfiled.next_place() as u32;
        let handle = self.nodes.insert(node)?;
        unfiled.push(mark, handle);
        Ok(handle)
    }

    /// Returns whether there is a place for another unfiled node. If not, all are to be filed.
    #[inline(always)]
    pub(super) fn has_place(&mut self, unfiled: &mut Unfiled) -> bool {
        unfiled.has_place() || self.close_gaps(unfiled)
    }

    #[cold]
    fn close_gaps(&mut self, unfiled: &mut Unfiled) -> bool {
        unfiled.close_gaps(|handle, place| {
            self.link(handle, Self::UNFILED, |links| links.older = place as u32);
        })
    }

    /// Makes `handle` the last of `list`, in which the links are those of `class`.
    #[inline(always)]
    fn extend(&mut self, list: &mut NodeList, class: ClassOf<N>, handle: u32) {
        let older = list.last();
        self.link(older, class, |links| links.younger = handle);
        if older == NIL {
            list.ends.first = handle;
        }
        list.ends.last = handle;
        list.count += 1;
    }

    /// Adds all unfiled nodes to `list` as well, in which the links are those of `class`.
    pub(super) fn list_unfiled(
        &mut self,
        unfiled: &Unfiled,
        list: &mut NodeList,
        class: ClassOf<N>,
    ) {
        for handle in unfiled.handles() {
            let alone = Links { older: list.last(), younger: NIL };
            self.link(handle, class, |links| *links = alone);
            self.extend(list, class, handle);
        }
    }

    /// Returns the oldest unfiled node that `matches`, of those that may match by their `mark`, and
    /// its handle.
    #[inline(always)]
    pub(super) fn oldest_unfiled(
        &self,
        unfiled: &Unfiled,
        mark: Mark,
        matches: impl Fn(&N) -> bool,
    ) -> Option<(u32, &N)> {
        let mut first = 0;
        loop {
            let (place, handle) = unfiled.next_from(first, mark)?;
            let node = self.nodes.get(handle)?;
            if matches(node) {
                return Some((handle, node));
            }
            first = place + 1;
        }
    }

    /// Removes an unfiled node.
    #[inline(always)]
    pub(super) fn remove_unfiled(&mut self, unfiled: &mut Unfiled, handle: u32, node: N) {
        let mut node = node;
        let place = node.links(Self::UNFILED).older;
        self.nodes.discard(handle);
        unfiled.remove(place as usize);
    }

    /// Removes the node that had these links from `list`, in which the links are those of `class`.
    #[inline(always)]
    pub(super) fn unlist(
        &mut self,
        list: &mut NodeList,
        class: ClassOf<N>,
        Links { older, younger }: Links,
    ) {
        list.count -= 1;
        if older == NIL {
            list.ends.first = younger;
        } else {
            self.link(older, class, |links| links.younger = younger);
        }
        if younger == NIL {
            list.ends.last = older;
        } else {
            self.link(younger, class, |links| links.older = older);
        }
    }

    /// Makes room for so many more bins. Without memory nothing changes.
    pub(super) fn reserve(&mut self, bins: usize) -> Result<(), OutOfMemory> {
        self.bins.reserve(bins)
    }

    /// Files all unfiled nodes. `filed` is called for each. Without memory nothing changes.
    pub(super) fn file(
        &mut self,
        unfiled: &mut Unfiled,
        mut filed: impl FnMut(&mut N),
    ) -> Result<(), OutOfMemory> {
        self.reserve(unfiled.count() as usize * N::Selector::CLASSES.len())?;
        for handle in unfiled.handles() {
            self.file_node(handle, 0, &mut filed);
        }
        *unfiled = Unfiled::new();
        Ok(())
    }

    /// Empties `list`, in which the links are those of `class`, and adds its nodes to the bins of
    /// their classes but for the first `skip` ones. `filed` is called for each node before. There
    /// is [room](Self::reserve) for the bins.
    pub(super) fn file_list(
        &mut self,
        list: &mut NodeList,
        class: ClassOf<N>,
        skip: usize,
        mut filed: impl FnMut(&mut N),
    ) {
        let mut handle = list.ends.first;
        while let Some(node) = self.nodes.get_mut(handle) {
            let this = core::mem::replace(&mut handle, node.links(class).younger);
            self.file_node(this, skip, &mut filed);
        }
        *list = NodeList::new();
    }

    /// Calls `filed` for a node, and adds it to the bins of its classes but for the first `skip`.
    fn file_node(&mut self, handle: u32, skip: usize, filed: &mut impl FnMut(&mut N)) {
        let Some(node) = self.nodes.get_mut(handle) else { return };
        filed(node);
        let node = *node;
        for &class in &node.classes()[skip..] {
            let older = self.bins.append(node.key(class), handle);
            self.link(handle, class, |links| *links = Links { older, younger: NIL });
            self.link(older, class, |links| links.younger = handle);
        }
    }

    /// Adds `node` to its bins behind the nodes that are `older`, which come first in each bin.
    /// Returns its handle. The call visits all of those. Without memory nothing changes.
    pub(super) fn insert_behind(
        &mut self,
        node: N,
        is_older: impl Fn(&N) -> bool,
    ) -> Result<u32, OutOfMemory> {
        let classes = node.classes();
        self.bins.reserve(classes.len())?;
        let handle = self.nodes.insert(node)?;
        for &class in classes {
            let key = node.key(class);
            let (mut older, mut younger) =
                (NIL, self.bins.find(&key).map_or(NIL, |place| self.bins.at(place).first));
            while let Some(mut next) = self.nodes.get(younger).copied().filter(&is_older) {
                (older, younger) = (younger, next.links(class).younger);
            }
            if younger == NIL {
                self.bins.append(key, handle);
            } else if older == NIL
                && let Some(place) = self.bins.find(&key)
            {
                self.bins.at_mut(place).first = handle;
            }
            self.link(handle, class, |links| *links = Links { older, younger });
            self.link(older, class, |links| links.younger = handle);
            self.link(younger, class, |links| links.older = handle);
        }
        Ok(handle)
    }

    /// Prepares for the look-up of a bin and of the next one ([`BinMap::foresee`]).
    #[inline(always)]
    pub(super) fn foresee(&mut self, key: &KeyOf<N>) {
        self.bins.foresee(key);
    }

    /// Returns the oldest node that `matches`, of the bin of `class` called `key`. Where every node
    /// of a bin matches, that is its first.
    #[inline(always)]
    pub(super) fn oldest(
        &self,
        key: &KeyOf<N>,
        class: ClassOf<N>,
        matches: impl Fn(&N) -> bool,
    ) -> Option<(Spot, &N)> {
        let place = self.bins.find(key)?;
        let mut handle = self.bins.at(place).first;
        loop {
            let node = self.nodes.get(handle)?;
            if N::Selector::IS_EXACT || matches(node) {
                return Some((Spot { handle, place }, node));
            }
            step();
            let mut node = *node;
            handle = node.links(class).younger;
        }
    }

    /// Returns the first node of the bin called `key`.
    #[inline(always)]
    pub(super) fn first(&self, key: &KeyOf<N>) -> Option<(Spot, &N)> {
        let place = self.bins.find(key)?;
        let handle = self.bins.at(place).first;
        Some((Spot { handle, place }, self.nodes.get(handle)?))
    }

    /// Returns the youngest node of the bin called `key`.
    pub(super) fn youngest(&self, key: &KeyOf<N>) -> Option<u32> {
        Some(self.bins.at(self.bins.find(key)?).last)
    }

    /// Returns the node before `handle` in the bin of its only class `class`.
    pub(super) fn older(&self, handle: u32, class: ClassOf<N>) -> Option<u32> {
        let mut node = *self.nodes.get(handle)?;
        Some(node.links(class).older).filter(|older| *older != NIL)
    }

    /// Removes the node at `spot`. Its only class is `class`, and it has these `links` there.
    /// Unlike [`Self::remove`] this looks nothing up.
    #[inline(always)]
    pub(super) fn remove_at(&mut self, spot: Spot, links: Links, class: ClassOf<N>) {
        self.nodes.discard(spot.handle);
        self.unlink(spot.place, links, class);
    }

    /// Removes the node at `spot`, which is the first of its bin. Its only class is `class`, and it
    /// has these `links` there.
    #[inline(always)]
    pub(super) fn remove_first(&mut self, spot: Spot, links: Links, class: ClassOf<N>) {
        self.nodes.discard(spot.handle);
        if links.younger == NIL {
            return self.bins.remove(spot.place);
        }
        self.bins.at_mut(spot.place).first = links.younger;
        self.link(links.younger, class, |links| links.older = NIL);
    }

    /// Removes a node.
    #[inline]
    pub(super) fn remove(&mut self, handle: u32) -> Option<N> {
        let mut node = self.nodes.remove(handle)?;
        for &class in node.classes() {
            let links = *node.links(class);
            if links.older != NIL && links.younger != NIL {
                self.close(links, class);
            } else if let Some(place) = self.bins.find(&node.key(class)) {
                self.unlink(place, links, class);
            }
        }
        Some(node)
    }

    /// Removes the node that had these `links` from the bin at `place`, and the bin with its last
    /// node.
    #[inline(always)]
    fn unlink(&mut self, place: usize, links: Links, class: ClassOf<N>) {
        match (links.older, links.younger) {
            (NIL, NIL) => return self.bins.remove(place),
            (NIL, younger) => self.bins.at_mut(place).first = younger,
            (older, NIL) => self.bins.at_mut(place).last = older,
            _ => {}
        }
        self.close(links, class);
    }

    /// Links the neighbours in `links` to each other.
    #[inline(always)]
    fn close(&mut self, Links { older, younger }: Links, class: ClassOf<N>) {
        self.link(older, class, |links| links.younger = younger);
        self.link(younger, class, |links| links.older = older);
    }

    /// Changes the links of a node. There is no node at [`NIL`].
    #[inline(always)]
    fn link(&mut self, handle: u32, class: ClassOf<N>, change: impl FnOnce(&mut Links)) {
        step();
        if let Some(node) = self.nodes.get_mut(handle) {
            change(node.links(class));
        }
    }
}
