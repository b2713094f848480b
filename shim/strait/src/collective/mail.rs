//! Short messages between the leaders of nodes, by RDMA into each other's mailboxes.
//!
//! The leaders of a group know which message comes next, so it needs neither matching nor a stream.
//! The algorithms are those of messages: a [`Team`] with mailboxes sends short messages through
//! them. The leaders get the mailboxes when the group has had some operations between nodes.

use core::time::Duration;
use std::rc::Rc;
use std::time::Instant;

use strait_core::layout::Wait;
use strait_core::rma::{LaneError, MAIL_MAX, MailError};
use strait_core::sync::spin_hint;
use strait_platform::Rank;

use super::Meeting;
use super::blocks::Blocks;
use super::team::Team;
use crate::network::{MAIL_MEMBERS, MailboxAddress, MailboxId, ReceivedMail};
use crate::world::meeting::{LeaderMail, Levels, Mailboxes, MeetingPoint, Places};
use crate::{CollectiveError, Error};

/// Number of operations between nodes after which leaders get mailboxes. A group with few
/// operations is not worth the connections and the memory.
const OPERATIONS_BEFORE: u32 = 16;

/// Time after which the cause of a broken lane counts as unknown.
const TIME_FOR_A_CAUSE: Duration = Duration::from_secs(1);

impl Levels {
    /// Calls `act` with the leaders, for messages of `bytes` bytes. This member is one of them.
    pub(super) fn between_nodes(
        &self,
        team: Team<'_>,
        meeting: Meeting<'_>,
        bytes: usize,
        act: impl FnOnce(Team<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mail = meeting.with(|point| point.mail_of(team, &self.speakers, bytes))?;
        act(team.among(&self.speakers).with_mail(mail.as_deref()))
    }
}

impl Team<'_> {
    /// Returns the mailboxes of this member for messages of `bytes` bytes to all others, if each
    /// member is alone on its node. All members call this for the same operations.
    pub(super) fn mail_among_all(
        self,
        meeting: Meeting<'_>,
        bytes: usize,
    ) -> Result<Option<Mailboxes>, Error> {
        meeting.with(|point| {
            point.divide(self);
            match point {
                MeetingPoint::Nodes(Places { levels, mail, .. })
                    if levels.speakers.len() == self.count() as usize =>
                {
                    mail.for_message(self.among(&levels.speakers), bytes)
                }
                _ => Ok(None),
            }
        })
    }
}

impl MeetingPoint {
    /// Returns the mailboxes of this member, if these leaders have some. All leaders call this for
    /// the same operations.
    fn mail_of(
        &mut self,
        team: Team<'_>,
        leaders: &[Rank],
        bytes: usize,
    ) -> Result<Option<Mailboxes>, Error> {
        self.divide(team);
        match self {
            // The root of an operation leads its node instead of the node's first member. The
            // leaders of all other nodes are the same for all operations.
            Self::Nodes(places) if places.levels.speakers.contains(&leaders[0]) => {
                let Places { levels, mail, .. } = places;
                mail.for_message(team.among(&levels.speakers), bytes)
            }
            _ => Ok(None),
        }
    }
}

impl LeaderMail {
    /// Returns the mailboxes of this leader for messages of `bytes` bytes. Counts the operation if
    /// the leaders have none yet, and gets some when there have been enough operations.
    pub(super) fn for_message(
        &mut self,
        leaders: Team<'_>,
        bytes: usize,
    ) -> Result<Option<Mailboxes>, Error> {
        if bytes > MAIL_MAX {
            return Ok(None);
        }
        if let Self::Unused { operations } = self {
            *operations += 1;
            if *operations < OPERATIONS_BEFORE {
                return Ok(None);
            }
            *self = open(leaders)?;
        }
        match self {
            Self::Ready(mail) => Ok(Some(Rc::clone(mail))),
            Self::Unused { .. } | Self::Refused => Ok(None),
        }
    }
}

/// Opens mailboxes between all leaders, and connects them. Either all leaders use them or none
/// does, unless one dies meanwhile.
fn open(leaders: Team<'_>) -> Result<LeaderMail, Error> {
    if leaders.count() > MAIL_MEMBERS {
        return Ok(LeaderMail::Refused);
    }
    let nodes = leaders.world.nodes().count();
    let opened = leaders.others().map(|rank| {
        leaders.world.with_network(|network| network.open_mailboxes(rank, nodes)).flatten()
    });
    let opened: Vec<_> = opened.collect();
    let connected = connect(leaders, &opened);
    let mail = leaders.others().zip(&opened).filter_map(|(rank, open)| Some((rank, (*open)?.0)));
    let mail: Mailboxes = mail.collect();
    if matches!(connected, Ok(true)) {
        return Ok(LeaderMail::Ready(mail));
    }
    leaders.world.with_network(|network| {
        mail.iter().for_each(|(_, id)| network.close_mailboxes(*id));
    });
    connected.map(|_| LeaderMail::Refused)
}

/// Connects the mailboxes of this leader. Returns whether all leaders could.
fn connect(
    leaders: Team<'_>,
    opened: &[Option<(MailboxId, MailboxAddress)>],
) -> Result<bool, Error> {
    let (own, count) = (leaders.place, leaders.count());
    let mut theirs = vec![MailboxAddress::default(); count as usize];
    for distance in 1..count {
        let (to, from) = ((own + distance) % count, (own + count - distance) % count);
        // The list of the others has no entry for this leader.
        let mine = opened[(to - u32::from(to > own)) as usize];
        let mine = mine.map_or_else(MailboxAddress::default, |(_, address)| address);
        let buffer = bytemuck::bytes_of_mut(&mut theirs[from as usize]);
        leaders.exchange(bytemuck::bytes_of(&mine), to, buffer, from)?;
    }
    if !agree(leaders, opened.iter().all(Option::is_some))? {
        return Ok(false);
    }
    let mut are_connected = true;
    for place in (0..count).filter(|place| *place != own) {
        let Some((id, _)) = opened[(place - u32::from(place > own)) as usize] else { continue };
        let address = &theirs[place as usize];
        are_connected &= leaders.until(place, || {
            leaders.world.with_network(|network| match network.connect_mailboxes(id, address) {
                Ok(is_ready) => is_ready.then_some(Ok(true)),
                Err(_) => Some(Ok(false)),
            })?
        })?;
    }
    agree(leaders, are_connected)
}

/// Returns whether all leaders agree.
fn agree(leaders: Team<'_>, agrees: bool) -> Result<bool, Error> {
    let mut all = vec![0_u8; leaders.count() as usize];
    all[leaders.place as usize] = agrees.into();
    leaders.allgather(None, &mut all, Blocks::Equal(1))?;
    Ok(all.iter().all(|agrees| *agrees == 1))
}

impl Team<'_> {
    /// Returns the mailboxes with the member in `place`, for a message of `bytes` bytes.
    #[inline]
    pub(super) fn mailboxes(&self, place: u32, bytes: usize) -> Option<MailboxId> {
        let mail = self.mail.filter(|_| bytes <= MAIL_MAX)?;
        let rank = self.rank(place);
        mail.iter().find(|(of, _)| *of == rank).map(|(_, id)| *id)
    }

    /// Sends through the mailbox of the member in `place`.
    pub(super) fn send_mail(&self, id: MailboxId, data: &[u8], place: u32) -> Result<(), Error> {
        let send = || {
            let sent = self.world.with_network(|network| network.send_mail(id, data))?;
            self.mail_outcome(place, sent.map(|is_sent| is_sent.then_some(())))
        };
        send().unwrap_or_else(|| self.until(place, send))
    }

    /// Receives from the mailbox for the member in `place`. Returns the length of the message.
    pub(super) fn receive_mail(
        &self,
        id: MailboxId,
        buffer: &mut [u8],
        place: u32,
    ) -> Result<usize, Error> {
        let mut receive = || {
            let found = self.world.with_network(|network| network.receive_mail(id, buffer))?;
            self.mail_outcome(place, found)
        };
        for _ in 0..self.world.spin().short_polls() {
            if let Some(received) = receive() {
                let ReceivedMail { length, is_progress_due } = received?;
                if is_progress_due {
                    self.world.progress()?;
                }
                return Ok(length);
            }
            spin_hint();
        }
        Ok(self.until(place, receive)?.length)
    }

    /// Makes progress until `look` returns a value, for the mailboxes with the member in `place`.
    fn until<T>(
        &self,
        place: u32,
        mut look: impl FnMut() -> Option<Result<T, Error>>,
    ) -> Result<T, Error> {
        let what = || Wait { peer: Some(self.rank(place)), ..self.exchange_wait() };
        let await_mail = |is_awaited| {
            self.world.with_network(|network| network.await_mail(is_awaited));
        };
        await_mail(true);
        let outcome = self.world.wait_until(what, || {
            // The order matters: a message that came before the loss counts.
            let loss = self.loss();
            look().or_else(|| Some(Err(loss?.into())))
        });
        await_mail(false);
        outcome?
    }

    /// Translates what the network returned for the mailboxes with the member in `place`.
    fn mail_outcome<T>(
        &self,
        place: u32,
        outcome: Result<Option<T>, MailError>,
    ) -> Option<Result<T, Error>> {
        match outcome {
            Ok(found) => found.map(Ok),
            Err(MailError::Corrupt(corrupt)) => Some(Err(corrupt.into())),
            Err(MailError::Lane(error)) => Some(Err(self.lane_failure(place, error))),
        }
    }

    /// Returns why the lane to the member in `place` broke. Mostly that member has ended, and then
    /// its link shows it, too. The lane alone does not prove it, since a member that leaves the
    /// group closes its end.
    #[cold]
    fn lane_failure(&self, place: u32, error: LaneError) -> Error {
        let (rank, limit) = (self.rank(place), Instant::now() + TIME_FOR_A_CAUSE);
        let what = || Wait { peer: Some(rank), ..self.exchange_wait() };
        let cause = self.world.wait_until(what, || {
            if let Err(error) = self.world.look_for_the_gone() {
                return Some(error);
            }
            let gone = self.world.lock_progress().gone(rank).map(|how| how.fault(rank));
            let unknown = || CollectiveError::Device { rank, error }.into();
            let cause = self.loss().or(gone).map(Error::Fault);
            cause.or_else(|| (Instant::now() > limit).then(unknown))
        });
        cause.unwrap_or_else(|error| error)
    }
}
