//! Tables of a world's open objects: requests, messages, windows and connections, by handle.

use crate::failure::{Code, Failure};
use crate::handle::{
    ENTRIES, GENERATION_SHIFT, Handle, HandleKind, INDEX_SHIFT, SERIAL_SHIFT, bad, common,
};

/// Entries of one kind in a world.
#[derive(Debug)]
pub(crate) struct Entries<T> {
    kind: HandleKind,
    /// The bits that all handles of this kind in this world share.
    common: u64,
    entries: Vec<HandleEntry<T>>,
    /// Indices of free entries.
    free: Vec<u32>,
}

#[derive(Debug)]
struct HandleEntry<T> {
    /// The handle of the entry, or zero when it has no value.
    handle: u64,
    generation: u32,
    value: Option<T>,
}

impl<T> Entries<T> {
    pub(crate) const fn new(kind: HandleKind, world: Handle) -> Self {
        Self { kind, common: common(kind, world), entries: Vec::new(), free: Vec::new() }
    }

    /// Stores `value`, and returns the handle that leads to it from now on.
    ///
    /// # Errors
    ///
    /// Fails when the table is full, and returns the value.
    pub(crate) fn insert(&mut self, value: T) -> Result<Handle, (Box<Failure>, T)> {
        let place = match self.free.pop() {
            Some(place) => place as usize,
            None if self.entries.len() == ENTRIES => return Err((full(self.kind), value)),
            None => {
                self.entries.push(HandleEntry { handle: 0, generation: 0, value: None });
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[place];
        entry.generation = (entry.generation + 1) % (1 << (SERIAL_SHIFT - GENERATION_SHIFT));
        let numbers =
            u64::from(entry.generation) << GENERATION_SHIFT | (place as u64) << INDEX_SHIFT;
        entry.handle = self.common | numbers;
        entry.value = Some(value);
        Ok(Handle(entry.handle))
    }

    /// Fails if [`Entries::insert`] would, before the caller takes a step that it cannot undo.
    pub(crate) fn need_room(&self) -> Result<(), Box<Failure>> {
        if self.len() == ENTRIES { Err(full(self.kind)) } else { Ok(()) }
    }

    fn entry(&mut self, handle: Handle) -> Result<&mut HandleEntry<T>, Box<Failure>> {
        let kind = self.kind;
        let entry = self.entries.get_mut(handle.index());
        entry
            .filter(|entry| entry.handle == handle.0 && handle.0 != 0)
            .ok_or_else(|| bad(handle, kind))
    }

    /// Returns the value of `handle`.
    pub(crate) fn get(&mut self, handle: Handle) -> Result<&mut T, Box<Failure>> {
        let kind = self.kind;
        self.entry(handle)?.value.as_mut().ok_or_else(|| in_use(kind))
    }

    /// Takes the value out. Its handle stays in use until [`Entries::put_back`].
    pub(crate) fn take(&mut self, handle: Handle) -> Result<T, Box<Failure>> {
        let kind = self.kind;
        self.entry(handle)?.value.take().ok_or_else(|| in_use(kind))
    }

    /// Puts a value back that [`Entries::take`] returned.
    pub(crate) fn put_back(&mut self, handle: Handle, value: T) {
        if let Ok(entry) = self.entry(handle) {
            entry.value = Some(value);
        }
    }

    /// Ends `handle`, and returns its value unless it is taken.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<T> {
        let entry = self.entry(handle).ok()?;
        entry.handle = 0;
        let value = entry.value.take();
        self.free.push(handle.index() as u32);
        value
    }

    /// Returns the number of values, including taken ones.
    pub(crate) const fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Ends all handles, and returns their values.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.free.clear();
        self.free.extend(0..self.entries.len() as u32);
        self.entries.iter_mut().filter_map(|entry| {
            entry.handle = 0;
            entry.value.take()
        })
    }
}

#[cold]
#[inline(never)]
pub(crate) fn full(kind: HandleKind) -> Box<Failure> {
    let text = format!("{ENTRIES} handles of {} are open: give some back", kind.name());
    Failure::new(Code::Busy, text)
}

#[cold]
#[inline(never)]
pub(crate) fn in_use(kind: HandleKind) -> Box<Failure> {
    let text =
        format!("the {} is in use further up this thread's stack: wait for it there", kind.name());
    Failure::new(Code::Busy, text)
}
