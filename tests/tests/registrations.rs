//! Memory that stays registered with the device: a message has the present contents of the memory,
//! never those at the time of the registration. The device is that of `STRAIT_HCA`: `cargo xtask
//! vm` runs these tests over RDMA devices, for which it makes a difference.

use core::ffi::c_void;
use core::ops::Range;
use core::ptr::{self, NonNull};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::{env, thread};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use strait::{Registrations, Window, World};
use strait_tests::{Ranks, payload};

/// Bytes of a large message: whole pages.
const LARGE: usize = 64 * 4096;

/// Messages that use the same memory.
const ROUNDS: u64 = 6;

/// Sends message `id` from memory of rank 0 to memory of rank 1, and checks it. Both ranks call it.
fn pass(world: &World, id: u64, memory: &mut [u8]) {
    let endpoint = world.endpoint();
    if world.rank() == 0 {
        memory.copy_from_slice(&payload::of(id, LARGE));
        endpoint.send(memory, 1, 1).unwrap();
    } else {
        memory.fill(0);
        endpoint.recv(memory, 0, 1).unwrap();
        assert_eq!(payload::first_difference(id, memory), None, "message {id}");
    }
}

/// Runs `body` on the ranks of a job on two nodes.
fn job(name: &'static str, body: impl FnOnce(World)) {
    Ranks::new(2, name).on_nodes(2).run(body);
}

/// Pages of the program's own, which are mapped again at the same address.
struct Pages(NonNull<c_void>);

impl Pages {
    fn new() -> Self {
        Self::map(ptr::null_mut(), MapFlags::PRIVATE)
    }

    fn map(at: *mut c_void, flags: MapFlags) -> Self {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the memory is new; where an address is given, `again` has just unmapped it.
        let base = unsafe { mmap_anonymous(at, LARGE, rights, flags) }.expect("memory");
        Self(NonNull::new(base).expect("a place"))
    }

    /// Unmaps the pages, and maps others at their address.
    fn again(&mut self) {
        // SAFETY: nothing borrows the memory, which `map` has mapped.
        unsafe { munmap(self.0.as_ptr(), LARGE) }.expect("unmapping");
        *self = Self::map(self.0.as_ptr(), MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE);
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the memory is mapped for reading and writing, and borrowed from `self`.
        unsafe { NonNull::slice_from_raw_parts(self.0.cast(), LARGE).as_mut() }
    }

    fn addresses(&self) -> Range<usize> {
        let start = self.0.addr().get();
        start..start + LARGE
    }
}

/// Returns whether the device is a real one, which keeps no unwatched memory registered.
fn is_a_address() -> bool {
    env::var("STRAIT_HCA").is_ok_and(|hca| hca.starts_with("verbs"))
}

#[test]
fn memory_of_the_segment_stays_registered() {
    job("memory_of_the_segment_stays_registered", |world| {
        let mut memory = world.alloc::<u8>(LARGE).unwrap();
        (0..ROUNDS).for_each(|id| pass(&world, id, &mut memory));
        let counts = world.registrations();
        // Reading and writing are different rights; then both exist.
        assert!(counts.hits + 3 >= ROUNDS && counts.misses <= 3, "{counts:?}");
        assert_eq!(counts.invalidations, 0, "{counts:?}");

        // Other pages lie at the same addresses.
        let place = memory.as_ptr();
        drop(memory);
        let mut memory = world.alloc::<u8>(LARGE).unwrap();
        assert_eq!(memory.as_ptr(), place);
        (ROUNDS..2 * ROUNDS).for_each(|id| pass(&world, id, &mut memory));
        assert!(world.registrations().invalidations >= 1, "{:?}", world.registrations());
        world.finalize().unwrap();
    });
}

#[test]
fn memory_of_windows_and_their_origins_stays_registered() {
    job("memory_of_windows_and_their_origins_stays_registered", |world| {
        let endpoint = world.endpoint();
        for id in 0..ROUNDS {
            // Each window's memory is at the address of the last one's, and zero.
            let window = Window::builder(endpoint).allocate(LARGE).unwrap();
            let mut memory = world.alloc::<u8>(LARGE).unwrap();
            window.fence(strait::Assert::NONE).unwrap();
            memory.copy_from_slice(&payload::of(id, LARGE));
            if world.rank() == 0 {
                (0..3).for_each(|_| window.put(&memory[..], 1, 0).unwrap());
            }
            window.fence(strait::Assert::NONE).unwrap();
            if world.rank() == 0 {
                window.get(&mut memory[..], 1, 0).unwrap();
                assert_eq!(payload::first_difference(id, &memory), None, "window {id}");
            }
            window.fence(strait::Assert::NONE).unwrap();
            window.free().unwrap();
        }
        let Registrations { hits, invalidations, .. } = world.registrations();
        assert!(invalidations >= ROUNDS - 1, "{:?}", world.registrations());
        assert!(world.rank() == 1 || hits >= 2 * ROUNDS, "{:?}", world.registrations());
        world.finalize().unwrap();
    });
}

#[test]
fn unwatched_memory_is_registered_each_time() {
    job("unwatched_memory_is_registered_each_time", |world| {
        let mut pages = Pages::new();
        for id in 0..ROUNDS {
            pass(&world, id, pages.bytes());
            pages.again();
        }
        let hits = world.registrations().hits;
        assert_eq!(hits == 0, is_a_address(), "{hits}");
        world.finalize().unwrap();
    });
}

#[test]
fn memory_that_is_watched_stays_registered_until_it_is_forgotten() {
    job("memory_that_is_watched_stays_registered_until_it_is_forgotten", |world| {
        // SAFETY: below, each test reports what happens to the pages.
        unsafe { world.watch_memory(|| None) };
        let mut pages = Pages::new();
        for id in 0..ROUNDS {
            // A message asks for one of two rights: after two messages both exist.
            (0..3).for_each(|_| pass(&world, id, pages.bytes()));
            world.forget_memory(pages.addresses()).unwrap();
            pages.again();
        }
        let Registrations { hits, invalidations, .. } = world.registrations();
        assert!(hits >= ROUNDS && invalidations >= ROUNDS, "{:?}", world.registrations());

        let reports = Arc::new(Mutex::new(Vec::new()));
        let unread = Arc::clone(&reports);
        // SAFETY: the list reports what happens to the pages.
        unsafe { world.watch_memory(move || unread.lock().unwrap().pop()) };
        for id in 100..100 + ROUNDS {
            pass(&world, id, pages.bytes());
            pages.again();
            reports.lock().unwrap().push(pages.addresses());
        }
        let reported = world.registrations().invalidations - invalidations;
        assert!(reported >= ROUNDS - 1, "{:?}", world.registrations());
        world.finalize().unwrap();
    });
}

/// Forks, and runs `meanwhile` while the child shares this process's memory, as far as the system
/// permits.
fn beside_a_child(meanwhile: impl FnOnce()) {
    let (there, begins) = rustix::pipe::pipe().expect("a pipe");
    let (goes_on, end) = rustix::pipe::pipe().expect("a pipe");
    let mut command = Command::new("true");
    let wait = move || -> io::Result<()> {
        rustix::io::write(&begins, &[0])?;
        rustix::io::read(&goes_on, &mut [0_u8][..])?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls.
    unsafe { command.pre_exec(wait) };
    // The call returns when the child has become another program.
    let parent = thread::spawn(move || command.status().expect("a child"));
    read(&there);
    meanwhile();
    rustix::io::write(&end, &[0]).expect("the child");
    assert!(parent.join().expect("no panic").success());
}

fn read(pipe: &OwnedFd) {
    assert_eq!(rustix::io::read(pipe, &mut [0_u8][..]), Ok(1));
}

#[test]
fn a_fork_takes_nothing_from_under_the_device() {
    job("a_fork_takes_nothing_from_under_the_device", |world| {
        // SAFETY: the pages stay mapped.
        unsafe { world.watch_memory(|| None) };
        let (mut pages, mut shared) = (Pages::new(), world.alloc::<u8>(LARGE).unwrap());
        pass(&world, 1, pages.bytes());
        pass(&world, 2, &mut shared);
        // A write separates the pages of the two processes. The device must keep using this
        // process's pages.
        beside_a_child(|| {
            pass(&world, 3, pages.bytes());
            pass(&world, 4, &mut shared);
        });
        pass(&world, 5, pages.bytes());
        assert!(world.registrations().hits > 0, "{:?}", world.registrations());
        world.finalize().unwrap();
    });
}
