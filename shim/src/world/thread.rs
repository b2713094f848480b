//! The progress thread: moves messages while the program computes and calls nothing.
//!
//! It sleeps until its rank's doorbell rings or its device has an event, and then does what a call would do. While a call has its
//! turn the thread sleeps, or waits for the lock; when a call wants the turn, the thread lets go after the piece that it is at.
//!
//! After a call the thread has to lie down before a ring wakes it, with a barrier that costs more than most calls. So the call
//! that finds the thread asleep wakes it, once; then the thread *dozes*: calls only set the bell's word, and the thread looks by
//! itself after [`DOZE`]. When there was no call meanwhile it lies down.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use strait_core::progress::Engine;
use strait_core::sync::spin_hint;

use super::World;
use super::motor::Motor;
use super::turns::Turns;
use crate::Error;
use crate::memory::SystemMemory;
use crate::patience::LIVENESS_EVERY;
use crate::topology::unbind;

/// How long the thread dozes: what a ring costs at most that comes just when a call ends.
const DOZE: Duration = Duration::from_millis(1);

/// Looks in vain before it lies down: the next piece of a large message often comes at once.
const LOOKS: u32 = 200;

/// A progress thread. It ends when this is dropped.
pub(super) struct ProgressThread {
    turns: Arc<Turns>,
    thread: Option<thread::JoinHandle<()>>,
}

impl World {
    /// Starts a thread that makes progress while the program computes, as `STRAIT_PROGRESS=thread` does. It ends with the
    /// world. Calls then take a lock, and short messages cost some 100 ns more.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the system refuses the thread, [`Error::OutOfMemory`].
    pub fn start_progress_thread(&mut self) -> Result<(), Error> {
        self.start_thread()
    }

    /// As [`World::start_progress_thread`], while operations may be under way.
    pub(crate) fn start_thread(&self) -> Result<(), Error> {
        if self.thread.get().is_some() {
            return Ok(());
        }
        let (segment, tuning) = (self.segment(), self.tuning());
        let away = Engine::away(SystemMemory, segment, self.rank(), tuning)?;
        let engine = core::mem::replace(self.short_ways(), away);
        // SAFETY: this is the thread that uses the world, no turn of it is under way here, and there is no other thread yet.
        drop(unsafe { self.turns.exchange(Some(engine)) });
        match ProgressThread::start(&self.turns) {
            Ok(thread) => drop(self.thread.set(thread)),
            Err(error) => {
                self.take_engine_back();
                return Err(Error::Thread(error));
            }
        }
        Ok(())
    }

    /// As [`World::start_thread`], and the thread never sleeps.
    pub(crate) fn start_polling_thread(&self) -> Result<(), Error> {
        self.start_thread()?;
        self.turns.polls.store(true, Relaxed);
        // If it sleeps it is to know.
        drop(self.turn());
        Ok(())
    }

    /// Ends the progress thread, if there is one.
    pub(super) fn stop_progress_thread(&mut self) {
        if self.thread.take().is_some() {
            self.take_engine_back();
        }
    }

    fn take_engine_back(&self) {
        // SAFETY: no turn is under way, and there is no thread (any more).
        if let Some(engine) = unsafe { self.turns.exchange(None) } {
            *self.short_ways() = engine;
        }
    }
}

impl ProgressThread {
    fn start(turns: &Arc<Turns>) -> std::io::Result<Self> {
        turns.lock().stop = false;
        let shared = Arc::clone(turns);
        let builder = thread::Builder::new().name("strait-progress".to_owned());
        let thread = builder.spawn(move || shared.run())?;
        Ok(Self { turns: Arc::clone(turns), thread: Some(thread) })
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        let place = &self.turns.place;
        let mut log = self.turns.lock();
        log.stop = true;
        place.bell().get().rise();
        drop(log);
        place.sleep.stir(&place.map.segment(), place.rank);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so; there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

impl Turns {
    fn run(&self) {
        // The rank may be bound to a processor, on which it computes.
        let _ = unbind();
        let (place, bell) = (&self.place, self.place.bell());
        let (mut calls, mut checked) = (0, Instant::now());
        loop {
            let mut log = self.lock();
            // SAFETY: it is the thread's turn until it lets go of the lock.
            let Some(engine) = (unsafe { self.engine() }) else { return };
            if log.stop {
                return;
            }
            // SAFETY: as above.
            let mut motor = unsafe { self.motor(engine) };
            bell.get().rise();
            self.drive(&mut motor);
            if checked.elapsed() >= LIVENESS_EVERY {
                // As in `moves`.
                let _ = motor.look_for_the_gone();
                checked = Instant::now();
            }
            let is_calm = log.calls == calls && !self.wanted.load(Relaxed);
            calls = log.calls;
            let pause = match self.polls.load(Relaxed) {
                true => Pause::Poll,
                false if is_calm => lie_down(&mut motor),
                false => Pause::Doze,
            };
            log.asleep = matches!(pause, Pause::Sleep(_));
            let longest = match pause {
                Pause::None => continue,
                Pause::Poll => {
                    drop(log);
                    self.give_way();
                    continue;
                }
                Pause::Doze => {
                    place.sleep.doze(bell.get());
                    DOZE
                }
                Pause::Sleep(longest) => longest,
            };
            drop(log);
            place.sleep.wait(bell.get(), longest);
        }
    }

    /// Waits until a call that wants its turn has it, or for whom this thread may be in the way.
    fn give_way(&self) {
        thread::yield_now();
        while self.wanted.load(Relaxed) {
            thread::yield_now();
        }
    }

    /// Makes progress until there is nothing to do, or a call wants its turn.
    fn drive(&self, motor: &mut Motor<'_>) {
        let mut looks = 0;
        while looks < LOOKS && !self.wanted.load(Relaxed) {
            if moves(motor) {
                looks = 0;
            } else {
                looks += 1;
                spin_hint();
            }
        }
    }
}

/// How the thread passes the time.
enum Pause {
    /// Not at all: something moves.
    None,
    /// Not longer than a call takes that wants its turn.
    Poll,
    /// It looks again soon.
    Doze,
    /// Until it is woken, or for so long.
    Sleep(Duration),
}

/// Sees to it that whatever comes wakes the thread.
fn lie_down(motor: &mut Motor<'_>) -> Pause {
    let vigil = motor.keep_vigil();
    let longest = motor.place.sleep.lie_down(motor.place.bell().get());
    match (moves(motor), vigil) {
        (true, _) => Pause::None,
        (false, false) => Pause::Doze,
        (false, true) => Pause::Sleep(longest),
    }
}

/// Whether anything moves. What fails is met again by a call, which can say so.
fn moves(motor: &mut Motor<'_>) -> bool {
    motor.progress().unwrap_or(false)
}

#[cfg(test)]
mod tests;
