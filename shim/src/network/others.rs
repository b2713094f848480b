//! Peers elsewhere, and how far it is with each: ranks of the job on other nodes, and processes of other universes.
//!
//! A rank of the job is known by the name that it put into the job's key-value store. The names of other processes are brought by others
//! ([`Contact`](crate::boot::Contact)), and get numbers of this process's own ([`Directory`]). The link to either is made when the first message
//! goes there or is awaited from there, or when it calls at our [door](super::door): until then a peer costs nothing.

use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use strait_core::hca::{Hca, Readiness};
use strait_core::progress::Channel;
use strait_core::ring::{Card, Config};

use super::door::{Call, Door, Guest, Hello};
use super::{Network, NetworkError, State, peers, stride};
use crate::boot::{Contact, Directory, KeyValueStore};
use crate::{Nodes, Rank};

/// Polls between two looks at the door.
const LOOKS: u32 = 64;

/// All peers elsewhere of one rank.
#[derive(Debug)]
pub(crate) struct Others {
    config: Config,
    pub(crate) door: Door,
    directory: Arc<Directory>,
    /// By number, from the directory's first on.
    known: Vec<Other>,
    /// Processes may call of which nobody has told.
    open: bool,
    /// At others' doors.
    calls: Vec<(Rank, Call)>,
    /// Who were answered, and have not said that they are connected.
    guests: Vec<(Rank, Guest)>,
    looks: u32,
    /// Of whom the engine has not heard.
    newcomers: Vec<Rank>,
    /// A link came nearer to its use since this was last asked.
    nearer: bool,
    /// A link that could not be made, until somebody hears of it.
    refusal: Option<NetworkError>,
    /// The launcher tells this rank of every death.
    deaths_are_told: bool,
}

/// How far it is with one.
#[derive(Debug)]
enum Other {
    /// Nobody has asked for it.
    Unknown,
    /// It may be talked to, and has not been.
    Named,
    /// There is no end for it, which the next call hears.
    Refused,
    /// Our end of the link is open, and has this card.
    Linked(Card),
    /// It does not answer, or has left; or it is not elsewhere.
    Gone,
}

impl Others {
    /// None so far, for the process whose door it is.
    pub(crate) fn strangers(config: Config, door: Door, directory: Arc<Directory>) -> Self {
        Self::new(config, door, directory, Vec::new(), true)
    }

    /// The ranks of the job on other nodes than `me`'s. All have said in `store` where their doors are ([`Others::publish`]).
    pub(crate) fn of_job(
        config: Config,
        door: Door,
        (me, nodes): (Rank, &Nodes),
        store: &mut dyn KeyValueStore,
    ) -> Result<Self, NetworkError> {
        let mut contact = |peer| {
            let found = store.get(&key(peer)).map_err(NetworkError::Store)?;
            let bytes = found.and_then(|bytes| bytes.try_into().ok());
            bytes.map(|bytes| Contact::from_bytes(&bytes)).ok_or(NetworkError::Card { peer })
        };
        let contacts = (0..nodes.ranks()).map(&mut contact).collect::<Result<_, _>>()?;
        let directory = Arc::new(Directory::of_job(door.own(), contacts));
        let mut known: Vec<_> = (0..nodes.ranks()).map(|_| Other::Gone).collect();
        peers(me, nodes).for_each(|peer| known[peer as usize] = Other::Named);
        Ok(Self::new(config, door, directory, known, false))
    }

    fn new(
        config: Config,
        door: Door,
        directory: Arc<Directory>,
        known: Vec<Other>,
        open: bool,
    ) -> Self {
        Self {
            config,
            door,
            directory,
            known,
            open,
            calls: Vec::new(),
            guests: Vec::new(),
            looks: 0,
            newcomers: Vec::new(),
            nearer: false,
            refusal: None,
            deaths_are_told: false,
        }
    }

    /// Says in the store of a job where the door of this rank is. To be followed by a fence.
    pub(crate) fn publish(
        own: &Contact,
        store: &mut dyn KeyValueStore,
    ) -> Result<(), NetworkError> {
        store.put(&key(own.rank), &own.to_bytes()).map_err(NetworkError::Store)
    }

    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    fn get_mut(&mut self, rank: Rank) -> Option<&mut Other> {
        let place = rank.checked_sub(self.directory.first())?;
        self.known.get_mut(place as usize)
    }

    fn set(&mut self, rank: Rank, how: Other) {
        if let Some(other) = self.get_mut(rank) {
            *other = how;
        }
    }

    fn meet(&mut self, rank: Rank) {
        if let Some(place) = rank.checked_sub(self.directory.first())
            && self.open
        {
            let count = self.known.len().max(place as usize + 1);
            self.known.resize_with(count, || Other::Unknown);
        }
        if let Some(other @ Other::Unknown) = self.get_mut(rank) {
            *other = Other::Named;
            self.newcomers.push(rank);
        }
    }

    fn is_named(&mut self, rank: Rank) -> bool {
        matches!(self.get_mut(rank), Some(Other::Named))
    }

    /// Whether there is no link to `rank`, but may be one, or somebody has yet to hear why there is none.
    #[cold]
    #[inline(never)]
    pub(super) fn is_unmet(&mut self, rank: Rank) -> bool {
        matches!(self.get_mut(rank), Some(Other::Named | Other::Refused))
    }

    /// Whether somebody may call whom it is worth to hear.
    fn expects_calls(&self) -> bool {
        let is_named = |other| matches!(other, &Other::Named);
        self.open || !self.calls.is_empty() || self.known.iter().any(is_named)
    }
}

impl<H: Hca> Network<H> {
    /// Has the engine hear of a stranger, which [`Network::next_newcomer`] then gives.
    pub(crate) fn meet(&mut self, rank: Rank) {
        self.others.meet(rank);
    }

    /// One of whom the engine has not heard.
    pub(crate) fn next_newcomer(&mut self) -> Option<Rank> {
        self.others.newcomers.pop()
    }

    /// Those to whom nothing was said, and who said nothing.
    pub(crate) fn unmet(&self) -> Vec<Rank> {
        let all = (self.others.directory.first()..).zip(&self.others.known);
        let unmet = all.filter(|(_, other)| matches!(other, Other::Named));
        unmet.map(|(rank, _)| rank).collect()
    }

    /// Whether a link came nearer to its use since the last time. That is progress: a rank that was about to sleep has not asked it for
    /// a knock yet.
    pub(crate) const fn take_nearer(&mut self) -> bool {
        core::mem::replace(&mut self.others.nearer, false)
    }

    /// Whether there is a link that could not be made, of which nobody has heard.
    #[inline]
    pub(crate) const fn has_refused(&self) -> bool {
        self.others.refusal.is_some()
    }

    /// Why a link could not be made, once.
    #[cold]
    pub(crate) fn take_refusal(&mut self) -> Option<NetworkError> {
        let refusal = self.others.refusal.take()?;
        for other in &mut self.others.known {
            if matches!(other, Other::Refused) {
                *other = Other::Gone;
            }
        }
        Some(refusal)
    }

    /// Calls `rank`, if that is a peer elsewhere to whom nothing was said.
    pub(crate) fn call(&mut self, rank: Rank) {
        if self.others.is_named(rank) {
            self.place_call(rank);
        }
    }

    /// Says whether the launcher tells this rank of every death.
    pub(crate) const fn set_deaths_are_told(&mut self, are_told: bool) {
        self.others.deaths_are_told = are_told;
    }

    /// Connects to `rank`, so that its death breaks a link. Does nothing where the launcher tells of deaths.
    ///
    /// A rank calls this for each rank that it waits for without a message: otherwise the two may never have had a link.
    pub(crate) fn watch_over(&mut self, rank: Rank) {
        if !self.others.deaths_are_told {
            self.call(rank);
        }
    }

    #[cold]
    #[inline(never)]
    fn place_call(&mut self, rank: Rank) {
        let Some(card) = self.open_end(rank) else { return };
        let others = &mut self.others;
        if let Some(to) = others.directory.contact(rank) {
            let mut call = Call::new(&others.door.own(), to, &card);
            // It rings at once. If nobody is there, so it is with the next look.
            let _ = call.poll(&others.door);
            others.calls.push((rank, call));
            others.nearer = true;
        }
    }

    /// Answers those who call, and goes on with our calls.
    #[inline(always)]
    pub(super) fn attend(&mut self) {
        let others = &mut self.others;
        others.looks = others.looks.wrapping_add(1);
        if !others.calls.is_empty() || !others.guests.is_empty() {
            self.converse();
        }
        if self.others.looks.is_multiple_of(LOOKS) && self.others.expects_calls() {
            self.look_at_door();
        }
    }

    /// Lets in who calls.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_at_door(&mut self) {
        if self.others.door.is_called() {
            while let Some(hello) = self.others.door.next() {
                self.welcome(hello);
            }
        }
    }

    /// Whether whatever comes in the calls under way is an event of the door.
    pub(super) fn has_rung(&self) -> bool {
        self.others.calls.iter().all(|(_, call)| call.has_said_all())
    }

    #[cold]
    #[inline(never)]
    fn converse(&mut self) {
        let mut calls = core::mem::take(&mut self.others.calls);
        calls.retain_mut(|(rank, call)| self.goes_on(*rank, call));
        self.others.calls = calls;
        let mut guests = core::mem::take(&mut self.others.guests);
        guests.retain_mut(|(rank, guest)| self.stays(*rank, guest));
        self.others.guests = guests;
    }

    /// Takes in the answer to a call, and says when we are connected. False: all is said.
    fn goes_on(&mut self, rank: Rank, call: &mut Call) -> bool {
        if self.line_mut(rank).is_none() {
            return false;
        }
        match call.poll(&self.others.door) {
            Ok(Some(card)) => {
                self.show(rank, card);
                self.expect(rank);
                let is_ready = self.is_ready(rank);
                if is_ready {
                    call.confirm();
                }
                !is_ready
            }
            // The other's call has connected us.
            _ if self.is_ready(rank) => false,
            Ok(None) => true,
            Err(_) => {
                self.give_up(rank);
                false
            }
        }
    }

    /// Hears when a guest is connected. False: it has said so, or never will.
    fn stays(&mut self, rank: Rank, guest: &mut Guest) -> bool {
        match guest.is_connected() {
            Ok(false) => return true,
            Ok(true) => self.expect(rank),
            // If we call it, too, that call tells.
            Err(_) if self.others.calls.iter().any(|(callee, _)| *callee == rank) => {}
            Err(_) => self.give_up(rank),
        }
        false
    }

    /// Somebody wants to be connected. Whom we cannot serve hears no answer.
    fn welcome(&mut self, hello: Hello) {
        let Ok(rank) = self.others.directory.number(hello.from) else { return };
        self.others.meet(rank);
        if self.others.is_named(rank) {
            self.open_end(rank);
        }
        if let Some(Other::Linked(card)) = self.others.get_mut(rank) {
            let card = *card;
            self.show(rank, hello.card);
            self.others.guests.push((rank, hello.answer(&card)));
        }
    }

    /// Opens our end of a link, whose memory is its own: its card. `None`: there is none, and the next call says why.
    fn open_end(&mut self, rank: Rank) -> Option<Card> {
        match self.open_line(rank) {
            Ok(card) => {
                self.others.set(rank, Other::Linked(card));
                Some(card)
            }
            Err(error) => {
                self.others.set(rank, Other::Refused);
                let (bytes, error) = (stride(&self.others.config), Box::new(error));
                let limit = getrlimit(Resource::Memlock).current;
                let refusal = NetworkError::NoLink { peer: rank, bytes, limit, error };
                self.others.refusal.get_or_insert(refusal);
                None
            }
        }
    }

    /// The peer's end has this card: ours begins to connect to it.
    fn show(&mut self, rank: Rank, card: Card) {
        if let Some(line) = self.lines.get_mut(rank as usize).and_then(Option::as_mut)
            && matches!(line.state, State::Opened)
        {
            line.state = State::Waiting(card);
            self.others.nearer = true;
            // A failure is met again, and reported, by who uses the link.
            let _ = line.connect(&mut self.device);
        }
    }

    /// The peer's end is connected to ours, or waits for it.
    fn expect(&mut self, rank: Rank) {
        if let Some(line) = self.lines.get_mut(rank as usize).and_then(Option::as_mut) {
            self.others.nearer |= !core::mem::replace(&mut line.expected, true);
        }
    }

    fn is_ready(&mut self, rank: Rank) -> bool {
        let line = self.lines.get_mut(rank as usize).and_then(Option::as_mut);
        let Some(line) = line else { return false };
        matches!(line.connect(&mut self.device), Ok(Readiness::Ready))
    }

    /// The peer does not answer: who asks for the link hears so.
    fn give_up(&mut self, rank: Rank) {
        if !self.is_ready(rank) {
            self.close(rank);
        }
    }

    /// The link to `rank` is ended for good.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.others.set(rank, Other::Gone);
    }
}

/// Under which the contact of `rank` is put.
fn key(rank: Rank) -> String {
    format!("strait-door-{rank}")
}
