//! The interface through which another crate moves large messages (`[Nemesis07]` §3.2).
//!
//! A [`TransferMethod`] moves the data of messages that Strait has matched: through a device, a
//! system call or memory of its own. [`World::set_transfer_method`](crate::World) gives it to a
//! rank. A message that the method refuses moves by a transfer of Strait's own.
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::{Arc, Mutex};
//!
//! use strait::transfer_method::*;
//!
//! /// Moves messages between the threads of one process through a shelf that they share.
//! struct Shelf {
//!     shelf: Arc<Mutex<HashMap<(u32, u64), Vec<u8>>>>,
//!     rank: u32,
//!     taken: Vec<u8>,
//! }
//!
//! impl TransferMethod for Shelf {
//!     fn pre_send(
//!         &mut self,
//!         side: &mut SendSide<'_>,
//!         cookie: &mut MethodCookie,
//!     ) -> Result<(), Refused> {
//!         let mut bytes = Vec::new();
//!         while bytes.len() < side.bytes() {
//!             bytes.extend_from_slice(side.piece(bytes.len()));
//!         }
//!         self.shelf.lock().unwrap().insert((self.rank, side.id()), bytes);
//!         cookie.write(&side.id().to_ne_bytes()).map_err(|_| Refused)
//!     }
//!
//!     fn pre_recv(
//!         &mut self,
//!         side: &mut RecvSide<'_>,
//!         send_cookie: &[u8],
//!         _: &mut MethodCookie,
//!     ) -> Result<Cts, Refused> {
//!         let id = u64::from_ne_bytes(send_cookie.try_into().map_err(|_| Refused)?);
//!         let found = self.shelf.lock().unwrap().remove(&(side.peer(), id));
//!         self.taken = found.ok_or(Refused)?;
//!         Ok(Cts::Omitted)
//!     }
//!
//!     fn start_recv(&mut self, side: &mut RecvSide<'_>) -> Result<MethodStep, Refused> {
//!         let (mut done, total) = (0, side.bytes());
//!         while done < total {
//!             let room = side.piece(done);
//!             let length = room.len();
//!             room.copy_from_slice(&self.taken[done..done + length]);
//!             done += length;
//!         }
//!         Ok(MethodStep::DoneForBoth)
//!     }
//!
//!     fn start_send(&mut self, _: &mut SendSide<'_>, _: &[u8]) -> Result<MethodStep, Refused> {
//!         Err(Refused) // There is no CTS.
//!     }
//!
//!     fn progress(&mut self, _: &mut TransferSide<'_>) -> Result<MethodStep, Refused> {
//!         Ok(MethodStep::Waiting)
//!     }
//!
//!     fn post_send(&mut self, side: &mut SendSide<'_>, _: Ending) {
//!         self.shelf.lock().unwrap().remove(&(self.rank, side.id()));
//!     }
//!
//!     fn post_recv(&mut self, _: &mut RecvSide<'_>, _: Ending) {}
//! }
//!
//! let shelf = Arc::default();
//! let worlds = strait::World::in_process(2)?;
//! let message = vec![7_u8; 1 << 20];
//! std::thread::scope(|scope| {
//!     for world in worlds {
//!         let method = Shelf { shelf: Arc::clone(&shelf), rank: world.rank(), taken: vec![] };
//!         // SAFETY: the method makes no call of the world.
//!         assert!(unsafe { world.set_transfer_method(Box::new(method)) }.is_ok());
//!         let message = &message;
//!         scope.spawn(move || {
//!             if world.rank() == 0 {
//!                 world.endpoint().send(message, 1, 0).unwrap();
//!             } else {
//!                 let mut buffer = vec![0_u8; 1 << 20];
//!                 world.endpoint().recv(&mut buffer, 0, 0).unwrap();
//!                 assert_eq!(&buffer, message);
//!             }
//!         });
//!     }
//! });
//! assert!(shelf.lock().unwrap().is_empty());
//! # Ok::<(), strait::Error>(())
//! ```

pub use strait_core::lmt::{
    COOKIE_MAX, CookieError, Cts, Ending, MethodCookie, MethodStep, RecvSide, Refused, SendSide,
    TransferMethod, TransferSide,
};

use crate::World;

impl World {
    /// Gives this rank a method that moves its large messages to and from ranks of its node. See
    /// [the module](self) for the interface, with an example.
    ///
    /// All ranks that exchange large messages get the same method, before the first of these
    /// messages. The method is asked about each message that would otherwise be announced by an
    /// RTS: those above `STRAIT_EAGER_MAX` that find too few parcels. What it refuses, and what
    /// goes to other nodes, moves as without it.
    ///
    /// # Errors
    ///
    /// The method, if this rank has one.
    ///
    /// # Safety
    ///
    /// The functions of `method` make no call that uses this world. They are called inside calls
    /// of this world, and by its progress thread.
    ///
    /// # Source
    ///
    /// `[Nemesis07]` §3.2.
    pub unsafe fn set_transfer_method(
        &self,
        method: Box<dyn TransferMethod + Send>,
    ) -> Result<(), Box<dyn TransferMethod + Send>> {
        // SAFETY: the world drops the method after its engine. The caller guarantees that the
        // method makes no call of it (contract of `set_transfer_method`).
        unsafe { self.give_transfer_method(method) }
    }
}
