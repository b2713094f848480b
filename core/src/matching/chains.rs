//! Nodes that are linked into bins, in the order in which they came.
//!
//! A node carries its own links, one pair for each bin that it is in. So a node is removed from the
//! middle of a bin without a search.

use super::selector::{BinMap, Ends, Filing, NIL};
use super::steps::step;
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

/// Number of nodes that may wait unfiled. A search visits all of them, so it is a constant.
pub(super) const UNFILED_MAX: u32 = 32;

/// Nodes in the order in which they came, beside the bins. Their links are those of a class of
/// which they are in no bin.
///
/// Each queue has a list of its youngest nodes, which are in no bin yet: the *unfiled* ones. Most
/// entries leave a queue soon and from its front. They are found by one comparison there, and never
/// filed. When there are [`UNFILED_MAX`], all of them are filed. So each filed node is older than
/// each unfiled one.
#[derive(Debug)]
pub(super) struct NodeList {
    ends: Ends,
    count: u32,
}

impl NodeList {
    pub(super) const fn new() -> Self {
        Self { ends: Ends::NONE, count: 0 }
    }

    /// Returns whether it has [`UNFILED_MAX`] nodes.
    #[inline(always)]
    pub(super) const fn is_full(&self) -> bool {
        self.count == UNFILED_MAX
    }

    #[inline(always)]
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the oldest node.
    #[inline(always)]
    pub(super) const fn first(&self) -> u32 {
        self.ends.first
    }

    /// Returns the youngest node. Valid only if there is a node.
    #[inline(always)]
    pub(super) const fn last(&self) -> u32 {
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

    /// The class in which the links of an unfiled node lead through the unfiled nodes.
    const UNFILED: ClassOf<N> = N::Selector::CLASSES[0];

    /// Adds `node` behind all others, in no bin. Returns its handle. Without memory nothing
    /// changes.
    #[inline(always)]
    pub(super) fn insert_unfiled(
        &mut self,
        unfiled: &mut NodeList,
        node: N,
    ) -> Result<u32, OutOfMemory> {
        let (mut node, older) = (node, unfiled.last());
        *node.links(Self::UNFILED) = Links { older, younger: NIL };
        let handle = self.nodes.insert(node)?;
        self.extend(unfiled, Self::UNFILED, handle);
        Ok(handle)
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
        unfiled: &NodeList,
        list: &mut NodeList,
        class: ClassOf<N>,
    ) {
        let mut handle = unfiled.first();
        while let Some(node) = self.nodes.get_mut(handle) {
            let this = core::mem::replace(&mut handle, node.links(Self::UNFILED).younger);
            *node.links(class) = Links { older: list.last(), younger: NIL };
            self.extend(list, class, this);
        }
    }

    /// Returns the oldest unfiled node that `matches`, and its links.
    #[inline(always)]
    pub(super) fn oldest_unfiled(
        &self,
        unfiled: &NodeList,
        matches: impl Fn(&N) -> bool,
    ) -> Option<(u32, Links, &N)> {
        let mut handle = unfiled.first();
        while let Some(node) = self.nodes.get(handle) {
            step();
            let mut copy = *node;
            let links = *copy.links(Self::UNFILED);
            if matches(node) {
                return Some((handle, links, node));
            }
            handle = links.younger;
        }
        None
    }

    /// Removes an unfiled node, which has these `links`.
    #[inline(always)]
    pub(super) fn remove_unfiled(&mut self, unfiled: &mut NodeList, handle: u32, links: Links) {
        self.nodes.discard(handle);
        self.unlist(unfiled, Self::UNFILED, links);
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
        unfiled: &mut NodeList,
        filed: impl FnMut(&mut N),
    ) -> Result<(), OutOfMemory> {
        self.reserve(unfiled.count as usize * N::Selector::CLASSES.len())?;
        self.file_list(unfiled, Self::UNFILED, 0, filed);
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
        let mut handle = list.first();
        while let Some(node) = self.nodes.get_mut(handle) {
            let this = core::mem::replace(&mut handle, node.links(class).younger);
            filed(node);
            let node = *node;
            for &class in &node.classes()[skip..] {
                let older = self.bins.append(node.key(class), this);
                self.link(this, class, |links| *links = Links { older, younger: NIL });
                self.link(older, class, |links| links.younger = this);
            }
        }
        *list = NodeList::new();
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
