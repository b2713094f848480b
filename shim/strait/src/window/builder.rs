//! The ways to make a window: which members, over which memory, with which options.

use core::ptr::NonNull;

use strait_platform::Rank;

use super::Window;
use super::create::allocated;
use super::expose::Exposable;
use super::options::{Accumulates, WindowOptions};
use super::own::PartMemory;
use super::part_descriptor::DYNAMIC;
use crate::{Endpoint, Error, Group, LockDesign, WindowDesign, WindowError, World};

/// The members of a window to be: those of a [`Group`], or all ranks of an [`Endpoint`]'s job.
#[derive(Clone, Copy, Debug)]
pub struct WindowMembers<'a, 'world>(MemberList<'a, 'world>);

#[derive(Clone, Copy, Debug)]
enum MemberList<'a, 'world> {
    Group(&'a Group<'world>),
    All(Endpoint<'world>),
}

impl<'a, 'world> From<&'a Group<'world>> for WindowMembers<'a, 'world> {
    fn from(group: &'a Group<'world>) -> Self {
        Self(MemberList::Group(group))
    }
}

impl<'world> From<Endpoint<'world>> for WindowMembers<'_, 'world> {
    fn from(endpoint: Endpoint<'world>) -> Self {
        Self(MemberList::All(endpoint))
    }
}

/// The settings of a window to be: [`Window::builder`].
///
/// The last call makes the window. It is collective: every member makes it, over memory of its own.
///
/// | last call | memory of each member |
/// |---|---|
/// | [`allocate`](Self::allocate) | new memory in the segment |
/// | [`allocate_shared`](Self::allocate_shared) | new memory, without gaps between the members |
/// | [`over`](Self::over) | memory that it has |
/// | [`dynamic`](Self::dynamic) | none: [`Window::attach`] adds it later |
///
/// The designs of a window and of its locks depend on what the program does with them. So a choice
/// of the program wins over `STRAIT_WINDOW` and `STRAIT_WINDOW_LOCK`.
///
/// ```
/// use strait::{Assert, LockDesign, Window};
///
/// # strait::World::run_in_process(2, |world| {
/// let window =
///     Window::builder(world.endpoint()).unit(8).locks(LockDesign::TestAndSet).allocate(1024)?;
/// if world.rank() == 0 {
///     window.put(&[1.5_f64], 1, 3)?;
/// }
/// window.fence(Assert::NONE)?;
/// window.free()
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder makes a window only with its last call"]
pub struct WindowBuilder<'a, 'world> {
    members: WindowMembers<'a, 'world>,
    unit: usize,
    options: WindowOptions,
}

impl<'world> Window<'world> {
    /// Returns the settings of a window of these members, with their defaults. The members are a
    /// reference to a [`Group`], or an [`Endpoint`] for all ranks.
    ///
    /// ```
    /// use strait::Window;
    ///
    /// # strait::World::run_in_process(4, |world| {
    /// # let endpoint = world.endpoint();
    /// let of_all = Window::builder(endpoint).allocate(64)?;
    /// let even = [0, 2];
    /// if even.contains(&world.rank()) {
    ///     let of_some = Window::builder(&endpoint.group(&even)?).allocate(64)?;
    ///     of_some.free()?;
    /// }
    /// of_all.free()
    /// # }).unwrap();
    /// ```
    pub fn builder<'a>(members: impl Into<WindowMembers<'a, 'world>>) -> WindowBuilder<'a, 'world> {
        let (members, options) = (members.into(), WindowOptions::default());
        WindowBuilder { members, unit: 1, options }
    }
}

impl<'world> WindowBuilder<'_, 'world> {
    /// Makes a displacement in the part of this member count `unit` bytes. The default is 1.
    pub fn unit(self, unit: usize) -> Self {
        Self { unit, ..self }
    }

    /// Chooses the way in which operations are carried out, the same at all members. Shared and
    /// dynamic windows always use [`WindowDesign::Rdma`].
    pub fn design(mut self, design: WindowDesign) -> Self {
        self.options.design = Some(design);
        self
    }

    /// Makes a promise of this member about its accumulates. It has no effect in a dynamic window.
    pub fn accumulates(mut self, accumulates: Accumulates) -> Self {
        self.options.accumulates = accumulates;
        self
    }

    /// Chooses the design of the window's locks, the same at all members.
    pub fn locks(mut self, design: LockDesign) -> Self {
        self.options.lock = Some(design);
        self
    }

    /// Chooses the policy of this member for the migration of hybrid locks.
    ///
    /// ```
    /// # use strait::{LockPolicy, Window};
    /// # strait::World::run_in_process(1, |world| {
    /// let history = LockPolicy::History { least: 2, of: 8 };
    /// let window = Window::builder(world.endpoint()).lock_policy(history).allocate(64)?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    pub fn lock_policy(mut self, policy: crate::LockPolicy) -> Self {
        self.options.policy = Some(policy);
        self
    }

    /// Chooses all options at once.
    pub fn options(self, options: impl Into<WindowOptions>) -> Self {
        Self { options: options.into(), ..self }
    }

    /// Makes a window with parts in the segment. The part of this member has `bytes` bytes, zeroed
    /// and aligned to a page.
    ///
    /// ```
    /// use strait::Window;
    ///
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).unit(8).allocate(1024)?;
    /// assert_eq!(window.shape_of(1)?, (1024, 8));
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// At this member: [`Error::Segment`] when there is no room, [`WindowError::Unit`],
    /// [`Error::Network`] when the device has no room. All other members then get
    /// [`WindowError::Member`]. [`WindowError::OtherNode`] when a member is on another node and
    /// there is no network. [`WindowError::Design`] or [`WindowError::LockDesign`] at all members
    /// when they ask for different designs. [`Error::Fault`] when a member died or left.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.2, `MPI_WIN_ALLOCATE`.
    pub fn allocate(self, bytes: usize) -> Result<Window<'world>, Error> {
        self.make(|world| allocated(world, bytes))
    }

    /// Makes a window with consecutive parts in the segment, in the order of the members and
    /// without gaps. So [`crate::Local`] reaches all of them. The heap of the member in place 0
    /// holds all parts.
    ///
    /// ```
    /// use strait::{Assert, Window};
    ///
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).allocate_shared(64)?;
    /// window.local().store(0, world.rank())?;
    /// window.fence(Assert::NONE)?;
    /// let neighbour = window.mapped(1).expect("all parts are mapped");
    /// assert_eq!(neighbour.load::<u32>(0)?, 1);
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`WindowBuilder::allocate`] does; [`WindowError::OtherNode`] when the members are
    /// not all on one node.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.3, `MPI_WIN_ALLOCATE_SHARED`.
    pub fn allocate_shared(self, bytes: usize) -> Result<Window<'world>, Error> {
        let Self { unit, options, .. } = self;
        self.with_group(|group| share(group, bytes, unit, options))
    }

    /// Makes a window over memory that this member has. Peers reach a [`crate::SharedMemory`] of
    /// this world as they reach allocated parts. For other memory the kernel copies. The window
    /// keeps the memory; [`crate::Local`] reads it.
    ///
    /// ```
    /// use strait::Window;
    ///
    /// # strait::World::run_in_process(2, |world| {
    /// let memory = world.alloc::<u64>(100)?;
    /// let window = Window::builder(world.endpoint()).unit(8).over(memory)?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`WindowBuilder::allocate`] does; [`WindowError::Barred`] at all members when one
    /// may not reach another's private memory.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.1, `MPI_WIN_CREATE`.
    pub fn over(self, memory: impl Exposable) -> Result<Window<'world>, Error> {
        let (base, length, keeper) = memory.expose();
        self.make(|_| Ok(PartMemory { base, length, keeper: Some(keeper) }))
    }

    /// Makes a window over memory that the caller keeps, as a C interface needs it.
    ///
    /// # Errors
    ///
    /// Fails as [`WindowBuilder::over`] does.
    ///
    /// # Safety
    ///
    /// The `length` bytes at `base` are valid for reads and writes until [`Window::free`] has
    /// succeeded or this process ends. Until then this program reaches them only through raw
    /// pointers, and not while a peer may.
    pub unsafe fn over_raw(
        self,
        base: NonNull<u8>,
        length: usize,
    ) -> Result<Window<'world>, Error> {
        self.make(|_| Ok(PartMemory { base, length, keeper: None }))
    }

    /// Makes a window to which nothing is attached yet: see [`Window::attach`]. Displacements count
    /// bytes.
    ///
    /// Locks make accumulates atomic. Their origins carry them out by themselves, unless a member's
    /// device has no atomics.
    ///
    /// ```
    /// use strait::Window;
    ///
    /// # strait::World::run_in_process(2, |world| {
    /// let window = Window::builder(world.endpoint()).dynamic()?;
    /// let attached = window.attach(vec![0_u64; 8])?;
    /// window.detach(attached)?;
    /// window.free()
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`WindowBuilder::allocate`] does.
    ///
    /// # Source
    ///
    /// MPI-4.1 §12.2.4, `MPI_WIN_CREATE_DYNAMIC`.
    pub fn dynamic(self) -> Result<Window<'world>, Error> {
        let nothing = PartMemory { base: NonNull::dangling(), length: 0, keeper: None };
        let options = WindowOptions { accumulates: Accumulates::Any, ..self.options.by_rdma() };
        self.with_group(|group| group.make_of(DYNAMIC, 1, options, |_| Ok(nothing)))
    }

    fn make(
        self,
        offer: impl FnOnce(&World) -> Result<PartMemory, Error>,
    ) -> Result<Window<'world>, Error> {
        let Self { unit, options, .. } = self;
        self.with_group(|group| group.make(unit, options, offer))
    }

    /// Runs `make` with the group of the members.
    fn with_group(
        self,
        make: impl FnOnce(&Group<'world>) -> Result<Window<'world>, Error>,
    ) -> Result<Window<'world>, Error> {
        match self.members.0 {
            MemberList::Group(group) => make(group),
            MemberList::All(endpoint) => {
                let all: Vec<Rank> = (0..endpoint.world().size()).collect();
                make(&endpoint.group(&all)?)
            }
        }
    }
}

/// Makes a window with all parts in the heap of the first member, one behind the other.
fn share<'world>(
    group: &Group<'world>,
    bytes: usize,
    unit: usize,
    options: WindowOptions,
) -> Result<Window<'world>, Error> {
    if let Some(rank) = group.first_elsewhere() {
        return Err(WindowError::OtherNode { rank }.into());
    }
    let mut lengths = vec![0_u64; group.ranks().len()];
    group.allgather(&[bytes as u64], &mut lengths)?;
    let total = lengths.iter().try_fold(0_u64, |sum, length| sum.checked_add(*length));
    let mut window = group.make(unit, options.by_rdma(), |world| {
        let all = if group.place() == 0 { total.unwrap_or(u64::MAX) } else { 0 };
        allocated(world, usize::try_from(all).unwrap_or(usize::MAX))
    })?;
    let start = window.parts[0].reach.get();
    let mut before = 0;
    for (part, length) in window.parts.iter_mut().zip(lengths) {
        part.length = length as usize;
        part.reach.set(start.after(before));
        before += part.length;
    }
    Ok(window)
}
