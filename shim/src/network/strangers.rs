//! Peers that no launcher told of: processes of other universes, on this host or another.
//!
//! They are known by names, that others bring ([`Contact`](crate::boot::Contact)), and have numbers of this process's own ([`Directory`]). The link to one is
//! made when the first message goes there, or when it calls at our [door](super::door): until then a stranger costs nothing.

use std::sync::Arc;

use strait_core::hca::{Access, Hca};
use strait_core::progress::Channel;
use strait_core::ring::{Card, Config, Lent};

use super::door::{Call, Door, Hello, NoAnswer};
use super::{Network, NetworkError, State, stride};
use crate::Rank;
use crate::boot::Directory;
use crate::segment::Mapping;

/// Polls between two looks at the door.
const LOOKS: u32 = 64;

/// All strangers of one rank.
#[derive(Debug)]
pub(crate) struct Strangers {
    config: Config,
    pub(crate) door: Door,
    directory: Arc<Directory>,
    /// By number, from the directory's first on.
    known: Vec<Stranger>,
    /// Our calls that are not answered.
    calls: Vec<(Rank, Call)>,
    looks: u32,
    /// Of whom the engine has not heard.
    newcomers: Vec<Rank>,
}

/// How far it is with one.
#[derive(Debug)]
enum Stranger {
    /// Nobody has asked for it.
    Unknown,
    /// It may be talked to, and has not been.
    Named,
    /// Our end of the link is open, and has this card.
    Linked(Card),
    /// It does not answer, or has left.
    Gone,
}

impl Strangers {
    /// None so far, for the process whose door it is.
    pub(crate) fn new(config: Config, door: Door, directory: Arc<Directory>) -> Self {
        let known = directory.numbers().map(|_| Stranger::Unknown).collect();
        Self { config, door, directory, known, calls: Vec::new(), looks: 0, newcomers: Vec::new() }
    }

    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    fn get_mut(&mut self, rank: Rank) -> Option<&mut Stranger> {
        let place = rank.checked_sub(self.directory.numbers().start)?;
        self.known.get_mut(place as usize)
    }

    fn meet(&mut self, rank: Rank) {
        if let Some(stranger @ Stranger::Unknown) = self.get_mut(rank) {
            *stranger = Stranger::Named;
            self.newcomers.push(rank);
        }
    }

    fn is_named(&mut self, rank: Rank) -> bool {
        matches!(self.get_mut(rank), Some(Stranger::Named))
    }

    /// The next answer to one of our calls.
    fn next_answer(&mut self) -> Option<(Rank, Result<Card, NoAnswer>)> {
        let polled = self.calls.iter_mut().enumerate();
        let mut answers = polled
            .filter_map(|(place, (_, call))| call.poll().transpose().map(|answer| (place, answer)));
        let (place, answer) = answers.next()?;
        let (rank, _) = self.calls.swap_remove(place);
        Some((rank, answer))
    }
}

impl<H: Hca> Network<H> {
    /// The network of a rank that knows nobody, among `ranks` numbers.
    pub(crate) fn among_strangers(device: H, me: Rank, ranks: u32, strangers: Strangers) -> Self {
        Self { strangers: Some(strangers), ..Self::empty(device, me, ranks) }
    }

    /// Has the engine hear of a stranger, which [`Network::next_newcomer`] then gives.
    pub(crate) fn meet(&mut self, rank: Rank) {
        self.strangers.iter_mut().for_each(|strangers| strangers.meet(rank));
    }

    /// One of whom the engine has not heard.
    pub(crate) fn next_newcomer(&mut self) -> Option<Rank> {
        self.strangers.as_mut()?.newcomers.pop()
    }

    /// Those to whom nothing was said, and who said nothing.
    pub(crate) fn unmet(&self) -> Vec<Rank> {
        let Some(strangers) = &self.strangers else { return Vec::new() };
        let all = strangers.directory.numbers().zip(&strangers.known);
        let unmet = all.filter(|(_, stranger)| matches!(stranger, Stranger::Named));
        unmet.map(|(rank, _)| rank).collect()
    }

    /// Whether there is no link to `rank` yet, but may be one.
    pub(super) fn is_unmet(&mut self, rank: Rank) -> bool {
        self.strangers.as_mut().is_some_and(|strangers| strangers.is_named(rank))
    }

    /// Calls `rank`, if that is a stranger to whom nothing was said.
    pub(crate) fn call(&mut self, rank: Rank) {
        if !self.is_unmet(rank) {
            return;
        }
        let opened = self.open_end(rank).ok();
        let Some(strangers) = &mut self.strangers else { return };
        let linked = opened.zip(strangers.directory.contact(rank)).map(|(card, to)| {
            strangers.calls.push((rank, Call::new(&strangers.door.own(), to, &card)));
            Stranger::Linked(card)
        });
        if let Some(stranger) = strangers.get_mut(rank) {
            *stranger = linked.unwrap_or(Stranger::Gone);
        }
    }

    /// Answers those who call, and takes in the answers to our calls.
    pub(super) fn attend(&mut self) {
        while let Some((rank, answer)) = self.strangers.as_mut().and_then(Strangers::next_answer) {
            match answer {
                Ok(card) => self.show(rank, card),
                Err(NoAnswer) => self.give_up(rank),
            }
        }
        let Some(strangers) = &mut self.strangers else { return };
        strangers.looks = strangers.looks.wrapping_add(1);
        if !strangers.looks.is_multiple_of(LOOKS) || !strangers.door.is_called() {
            return;
        }
        while let Some(hello) = self.strangers.as_mut().and_then(|them| them.door.next()) {
            self.welcome(&hello);
        }
    }

    /// Somebody wants to be connected. Whom we cannot serve hears no answer.
    fn welcome(&mut self, hello: &Hello) {
        let Some(strangers) = &mut self.strangers else { return };
        let Ok(rank) = strangers.directory.number(hello.from) else { return };
        strangers.meet(rank);
        if strangers.is_named(rank) {
            let opened = self.open_end(rank);
            if let Some(stranger) = self.stranger(rank) {
                *stranger = opened.map_or(Stranger::Gone, Stranger::Linked);
            }
        }
        if let Some(Stranger::Linked(card)) = self.stranger(rank) {
            let card = *card;
            self.show(rank, hello.card);
            hello.answer(&card);
        }
    }

    fn stranger(&mut self, rank: Rank) -> Option<&mut Stranger> {
        self.strangers.as_mut()?.get_mut(rank)
    }

    /// Opens our end of a link, whose memory is its own.
    fn open_end(&mut self, rank: Rank) -> Result<Card, NetworkError> {
        let config = self.strangers.as_ref().map(|strangers| strangers.config);
        let config = config.ok_or(NetworkError::Card { peer: rank })?;
        let memory = Mapping::private(stride(&config)).map_err(NetworkError::Memory)?;
        // SAFETY: the memory stays mapped until the device, which is dropped first, is gone. The link alone uses it.
        let region = unsafe { self.device.register(memory.base, memory.length, Access::ALL) };
        let region = region.map_err(NetworkError::Device)?;
        let (local_key, remote_key) = (region.local_key, region.remote_key);
        let lent = Lent { base: memory.base, local_key, remote_key };
        self.memory.push(memory);
        // SAFETY: the memory is page-aligned, zero, registered for everything, long enough, and this link's.
        unsafe { self.open_line(rank, config, lent) }
    }

    /// The stranger's end has this card.
    fn show(&mut self, rank: Rank, card: Card) {
        if let Some(line) = &mut self.lines[rank as usize]
            && matches!(line.state, State::Opened)
        {
            line.state = State::Waiting(card);
        }
    }

    /// The stranger does not answer: who asks for the link hears so.
    fn give_up(&mut self, rank: Rank) {
        let line = self.lines[rank as usize].as_ref();
        if line.is_some_and(|line| matches!(line.state, State::Opened)) {
            self.close(rank);
        }
    }

    /// The link to `rank` is ended for good.
    pub(super) fn forget_stranger(&mut self, rank: Rank) {
        if let Some(stranger) = self.stranger(rank) {
            *stranger = Stranger::Gone;
        }
    }
}
