//! The first contact with a peer: a send, a receive that names it, a packet or a link.
//!
//! The state about a peer is made then, and room for it in the lists of peers. So all later work
//! with the peer needs no memory for them. Until then the table of peers says what is known of the
//! rank ([`StandIn`]).

use super::peer::{Peer, StandIn};
use super::{Engine, Gone};
use crate::memory::{Memory, OutOfMemory};

impl<M: Memory + Clone> Engine<M> {
    /// Makes the state about `rank`, which is on another node, unless there has been contact. Call
    /// this when a link to the rank is made, and again after an error. Then
    /// [`Engine::poll_network`] takes what comes through the link.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: nothing was changed.
    pub fn linked(&mut self, rank: u32) -> Result<(), OutOfMemory> {
        match self.peers.get(rank as usize).and_then(Peer::stands_in) {
            Some(StandIn::Remote | StandIn::Leaving) => self.contact(rank).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the number of ranks about which there is state: those with which this rank has had
    /// contact.
    #[must_use]
    pub const fn contacts(&self) -> usize {
        self.peers.known_count()
    }

    /// Returns the state about `rank`, which is in the table, for any use. Makes it if this is the
    /// first contact.
    #[inline]
    pub(super) fn contact(&mut self, rank: u32) -> Result<&mut Peer, OutOfMemory> {
        if let Some(known) = self.peers[rank as usize].stands_in() {
            self.make_peer(rank, known)?;
        }
        Ok(&mut self.peers[rank as usize])
    }

    #[cold]
    fn make_peer(&mut self, rank: u32, known: StandIn) -> Result<(), OutOfMemory> {
        let peers = self.peers.known_count() + 1;
        self.outbox.make_room(peers)?;
        self.inbox.make_room(peers)?;
        self.network.make_room(peers)?;
        let own = self.rank;
        let state = match (known, rank < self.segment.ranks()) {
            (StandIn::Finished | StandIn::Unreachable, _) => {
                let how = known.gone().unwrap_or(Gone::Unreachable);
                Peer::gone_before_contact(&self.segment, own, how)
            }
            (_, true) => Peer::new(&self.segment, own, rank),
            (_, false) => Peer::beyond(&self.segment, own),
        };
        match known {
            StandIn::Remote | StandIn::Leaving => {
                let number = self.network.open_stream(rank)?;
                match self.peers.make(rank, state) {
                    Ok(peer) => peer.set_remote(number),
                    Err(error) => {
                        self.network.close_stream(number);
                        return Err(error);
                    }
                }
                if known == StandIn::Leaving {
                    self.end_remote(rank, Gone::Finished);
                }
            }
            _ => drop(self.peers.make(rank, state)?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::buffer::Part;
    use crate::engine::testing::{nothing, with_segment};
    use crate::engine::{
        Begun, Broken, Channel, ChannelProgress, Direct, FailureCause, Fault, Owner, Received,
        StartError, Tuning,
    };
    use crate::hca::{Access, Region};
    use crate::matching::Pattern;
    use crate::memory::counted::Counted;
    use crate::wire::Key;

    /// A channel through which nothing comes or goes.
    #[derive(Default)]
    struct Quiet {
        /// Peers with streams that were looked at.
        looks: Vec<u32>,
        linked: Vec<u32>,
        closed: Vec<u32>,
    }

    const NOTHING: ChannelProgress = ChannelProgress { bytes: 0, holds: false };

    impl Channel for Quiet {
        unsafe fn put(&mut self, _: u32, _: &[Part]) -> Result<ChannelProgress, Broken> {
            Ok(NOTHING)
        }

        unsafe fn get(&mut self, peer: u32, _: &[Part]) -> Result<ChannelProgress, Broken> {
            self.looks.push(peer);
            Ok(NOTHING)
        }

        unsafe fn register(&mut self, _: Part, _: Access) -> Option<Region> {
            None
        }

        fn release(&mut self, _: Region) {}

        unsafe fn transfer(&mut self, _: u32, _: &Direct) -> Result<Option<Begun>, Broken> {
            Ok(None)
        }

        fn is_done(&self, _: u32, _: u64) -> bool {
            false
        }

        fn is_linked(&self, peer: u32) -> bool {
            self.linked.contains(&peer)
        }

        fn now(&self) -> u64 {
            0
        }

        fn close(&mut self, peer: u32) {
            self.closed.push(peer);
        }
    }

    const RANKS: u32 = if cfg!(miri) { 100 } else { 10_000 };

    /// Runs `test` with an engine to which all other ranks are on other nodes.
    fn with_many(test: impl FnOnce(Engine<Counted>, &Counted)) {
        with_segment(1, |segment| {
            let memory = Counted::default();
            let mut engine = Engine::new(memory.clone(), *segment, 0, Tuning::default()).unwrap();
            assert!(!engine.has_network());
            (1..RANKS).rev().for_each(|rank| engine.set_remote(rank).unwrap());
            assert!(engine.has_network());
            test(engine, &memory);
        });
    }

    fn receive(engine: &mut Engine<Counted>, source: u32) -> Result<Received, StartError> {
        let pattern = Pattern { context: 0, source, tag: 0 };
        // SAFETY: the buffer has no byte.
        unsafe { engine.irecv(pattern, nothing(), Owner::BLOCKING) }
    }

    fn send(engine: &mut Engine<Counted>, to: u32) -> Result<crate::engine::Sent, StartError> {
        // SAFETY: the message has no byte.
        unsafe { engine.isend(to, Key::new(0, 0), nothing(), Owner::BLOCKING) }
    }

    fn poll(engine: &mut Engine<Counted>, channel: &mut Quiet) -> Vec<u32> {
        engine.poll_network(channel).unwrap();
        core::mem::take(&mut channel.looks)
    }

    #[test]
    fn memory_and_polls_grow_with_the_remote_ranks_of_contact() {
        with_many(|mut engine, memory| {
            let (mut channel, asked) = (Quiet::default(), memory.asked());
            assert_eq!(poll(&mut engine, &mut channel), []);
            send(&mut engine, RANKS / 2).unwrap();
            receive(&mut engine, 17).unwrap();
            engine.linked(RANKS - 1).unwrap();
            engine.linked(RANKS - 1).unwrap();
            engine.linked(0).unwrap();
            assert_eq!(engine.contacts(), 3);
            let mut looks = poll(&mut engine, &mut channel);
            looks.sort_unstable();
            assert_eq!(looks, [17, RANKS / 2, RANKS - 1]);
            assert!(memory.asked() < asked + 30);
        });
    }

    #[test]
    fn without_memory_the_first_contact_fails_and_can_be_made_later() {
        with_many(|mut engine, memory| {
            memory.refuse(true);
            assert!(matches!(send(&mut engine, 5), Err(StartError::OutOfMemory(_))));
            assert!(matches!(receive(&mut engine, 5), Err(StartError::OutOfMemory(_))));
            assert!(engine.linked(5).is_err());
            let died = Gone::Failed(FailureCause::Ended);
            assert!(engine.peer_gone(5, died).is_err());
            assert_eq!((engine.contacts(), engine.gone(5)), (0, None));
            memory.refuse(false);
            assert_eq!(poll(&mut engine, &mut Quiet::default()), []);
            send(&mut engine, 5).unwrap();
            assert_eq!(poll(&mut engine, &mut Quiet::default()), [5]);
        });
    }

    #[test]
    fn a_death_without_contact_is_reported_to_a_later_operation() {
        with_many(|mut engine, _| {
            let (mut channel, sign) = (Quiet::default(), FailureCause::Ended);
            assert_eq!(engine.peer_gone(7, Gone::Failed(sign)), Ok(false));
            poll(&mut engine, &mut channel);
            assert_eq!(engine.peer_gone(7, Gone::Failed(sign)), Ok(true));
            let fault = StartError::Peer(Fault::PeerFailed { rank: 7, sign });
            assert_eq!(send(&mut engine, 7), Err(fault));
            assert_eq!(receive(&mut engine, 7), Err(fault));
            assert_eq!(channel.closed, [7]);
            assert!(engine.has_network(), "others can be reached");
        });
    }

    #[test]
    fn ranks_that_leave_without_contact_take_no_memory() {
        with_many(|mut engine, memory| {
            let mut channel = Quiet { linked: [3].into(), ..Quiet::default() };
            for rank in 1..RANKS {
                assert_eq!(engine.peer_gone(rank, Gone::Finished), Ok(false));
                assert_eq!(engine.peer_gone(rank, Gone::Finished), Ok(false));
            }
            let asked = memory.asked();
            assert!(poll(&mut engine, &mut channel).is_empty());
            let closed = channel.closed.len() as u32;
            assert_eq!((closed, engine.contacts()), (RANKS - 2, 1), "3 has a link");
            assert_eq!(poll(&mut engine, &mut channel), [3], "it is read to its end");
            assert!(memory.asked() < asked + 12 && !engine.has_network());
            for rank in [3, 4] {
                assert_eq!(engine.peer_gone(rank, Gone::Finished), Ok(true));
                assert_eq!(engine.gone(rank), Some(Gone::Finished));
                let finished = StartError::Peer(Fault::PeerFinished { rank });
                assert_eq!(send(&mut engine, rank), Err(finished));
                assert_eq!(receive(&mut engine, rank), Err(finished));
            }
        });
    }

    #[test]
    fn a_rank_that_is_out_of_reach_takes_no_memory_until_an_operation_names_it() {
        with_segment(8, |segment| {
            let mut engine =
                Engine::new(Counted::default(), *segment, 0, Tuning::default()).unwrap();
            (1..8).for_each(|rank| engine.set_unreachable(rank).unwrap());
            assert_eq!((engine.contacts(), engine.gone(7)), (0, Some(Gone::Unreachable)));
            assert!(engine.is_any_gone() && !engine.has_network());
            let fault = StartError::Peer(Fault::Unreachable { rank: 7 });
            assert_eq!(send(&mut engine, 7), Err(fault));
            assert_eq!(receive(&mut engine, 7), Err(fault));
            assert_eq!(engine.peer_gone(6, Gone::Finished), Ok(true));
        });
    }

    #[test]
    fn a_rank_that_calls_while_this_one_leaves_is_told_so() {
        with_many(|mut engine, _| {
            engine.leave_network();
            assert!(engine.is_flushed());
            engine.linked(2).unwrap();
            assert!(!engine.is_flushed(), "rank 2 must learn that nothing comes");
        });
    }
}
