//! Nodes that hang in bins, in the order they came.
//!
//! A node carries its own links, one pair for each bin it is in, so that taking it out of the middle of a bin costs
//! no search.

use super::bins::{Bins, Key, NIL};
use super::envelope::Class;
use super::steps::step;
use crate::memory::{Memory, OutOfMemory, Slab};

/// The neighbours of a node in one bin, [`NIL`] where there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    older: u32,
    younger: u32,
}

impl Links {
    /// Not in a bin yet.
    pub(super) const NONE: Self = Self { older: NIL, younger: NIL };
}

/// An entry of a queue. It is in one bin of each of its classes.
pub(super) trait Node: Copy {
    /// The classes of the bins the node belongs in.
    fn classes(&self) -> &'static [Class];

    /// The name of its bin of `class`.
    fn key(&self, class: Class) -> Key;

    /// Its neighbours in that bin.
    fn links(&mut self, class: Class) -> &mut Links;
}

/// The oldest node of a bin and where the bin is. Valid until the queue changes.
#[derive(Clone, Copy)]
pub(super) struct Front {
    pub(super) handle: u32,
    place: usize,
}

/// Nodes and their bins.
pub(super) struct Chains<N: Node, M: Memory> {
    nodes: Slab<N, M>,
    bins: Bins<M>,
}

impl<N: Node, M: Memory> Chains<N, M> {
    pub(super) fn new(memory: M) -> Self
    where
        M: Clone,
    {
        Self { nodes: Slab::new(memory.clone()), bins: Bins::new(memory) }
    }

    #[inline(always)]
    pub(super) const fn nodes(&self) -> &Slab<N, M> {
        &self.nodes
    }

    /// Hangs `node` behind all others in its bins and returns its handle. Without memory nothing changes.
    #[inline]
    pub(super) fn insert(&mut self, node: N) -> Result<u32, OutOfMemory> {
        let classes = node.classes();
        self.bins.reserve(classes.len())?;
        let handle = self.nodes.insert(node)?;
        for &class in classes {
            let older = self.bins.append(node.key(class), handle);
            self.link(handle, class, |links| links.older = older);
            self.link(older, class, |links| links.younger = handle);
        }
        Ok(handle)
    }

    /// Hangs `node` in its bins behind those that are `older`, which come first in each, and returns its handle. Walks past those.
    /// Without memory nothing changes.
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
                (NIL, self.front(&key).map_or(NIL, |front| front.handle));
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

    /// The oldest node of the bin called `key`.
    #[inline]
    pub(super) fn front(&self, key: &Key) -> Option<Front> {
        let place = self.bins.find(key)?;
        Some(Front { handle: self.bins.at(place).first, place })
    }

    /// The youngest node of the bin called `key`.
    pub(super) fn back(&self, key: &Key) -> Option<u32> {
        Some(self.bins.at(self.bins.find(key)?).last)
    }

    /// The node before `handle` in the bin of its only class `class`.
    pub(super) fn older(&self, handle: u32, class: Class) -> Option<u32> {
        let mut node = *self.nodes.get(handle)?;
        Some(node.links(class).older).filter(|older| *older != NIL)
    }

    /// Takes `front` out of its bin and of the queue. `class` is its only one. Unlike [`Self::remove`] this looks
    /// nothing up.
    #[inline]
    pub(super) fn remove_front(&mut self, front: Front, class: Class) -> Option<N> {
        let mut node = self.nodes.remove(front.handle)?;
        self.unlink(front.place, *node.links(class), class);
        Some(node)
    }

    /// Takes a node out of its bins and of the queue.
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

    /// Takes what had these `links` out of the bin at `place`, which goes when nothing is left in it.
    #[inline]
    fn unlink(&mut self, place: usize, links: Links, class: Class) {
        match (links.older, links.younger) {
            (NIL, NIL) => return self.bins.remove(place),
            (NIL, younger) => self.bins.at_mut(place).first = younger,
            (older, NIL) => self.bins.at_mut(place).last = older,
            _ => {}
        }
        self.close(links, class);
    }

    /// Makes the neighbours in `links` each other's.
    #[inline]
    fn close(&mut self, Links { older, younger }: Links, class: Class) {
        self.link(older, class, |links| links.younger = younger);
        self.link(younger, class, |links| links.older = older);
    }

    /// Changes the links of a node; there is no node at [`NIL`].
    #[inline(always)]
    fn link(&mut self, handle: u32, class: Class, change: impl FnOnce(&mut Links)) {
        step();
        if let Some(node) = self.nodes.get_mut(handle) {
            change(node.links(class));
        }
    }
}
