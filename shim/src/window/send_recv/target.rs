//! The target's side: what has come is received, and carried out in its order.

use strait_core::layout::Corrupt;
use strait_core::matching::{ANY_SOURCE, Pattern};
use strait_core::progress::{Cursor, Part as Buffer, ProgressError, Received, RequestId};
use strait_core::rma::{AnswerNumber, DataNumber, Name, RECORD, Record, transfer};

use super::baseline::{Baseline, ENOUGH, OWNER, Outbox, TAG, buffer_mut, context_of};
use crate::Rank;
use crate::window::passive::started;
use crate::world::Motor;

/// A message of records.
pub(super) struct Arriving {
    pub(super) message: Box<[u8]>,
    pub(super) receive: Option<RequestId>,
    /// How far it is carried out.
    at: usize,
    /// What is awaited for the record there.
    pub(super) apart: Option<(RequestId, Box<[u8]>)>,
}

impl Arriving {
    /// How far it is: another value after any step. A receive that begins is a step, since the engine may take in other messages
    /// before it.
    fn progress(&self) -> (usize, bool, bool) {
        (self.at, self.receive.is_some(), self.apart.is_some())
    }
}

/// How far a message is carried out.
enum Stage {
    Waits,
    Over,
}

impl Baseline {
    /// Begins to receive the records that have come.
    pub(super) fn hear(&mut self, motor: &mut Motor<'_>) -> Result<bool, ProgressError> {
        let name = Name::Records(self.window);
        let context = context_of(name);
        let mut moved = false;
        while let Ok(Some(status)) =
            motor.engine.iprobe(Pattern { context, source: ANY_SOURCE, tag: TAG })
        {
            moved = true;
            let (found, ranks) = (status.source, self.ranks.len() as u32);
            let place = self.ranks.iter().position(|rank| *rank == found);
            let place = place.ok_or(Corrupt::Source { found, ranks })?;
            let max = (2 * ENOUGH) as u64;
            if status.bytes as u64 > max {
                return Err(Corrupt::Length { found: status.bytes as u64, max }.into());
            }
            let mut message = vec![0_u8; status.bytes].into_boxed_slice();
            let receive = match receive(motor, name, found, buffer_mut(&mut message))? {
                Receive::Done => None,
                Receive::Under(id) => Some(id),
                Receive::Lost => continue,
            };
            let arriving = Arriving { message, receive, at: 0, apart: None };
            self.peers[place].arriving.push_back(arriving);
            if !self.coming.contains(&(place as u32)) {
                self.coming.push(place as u32);
            }
        }
        Ok(moved)
    }

    /// Carries out what has come from the member in `place`. What fails stays the first, to be tried again.
    pub(super) fn carry_out(
        &mut self,
        at: u32,
        motor: &mut Motor<'_>,
        outbox: &mut Outbox,
    ) -> Result<bool, ProgressError> {
        let (mut moved, place) = (false, at as usize);
        while let Some(mut arriving) = self.peers[place].arriving.pop_front() {
            let before = arriving.progress();
            let stage = self.go_on(place, &mut arriving, motor, outbox);
            moved |= arriving.progress() != before;
            if let Ok(Stage::Over) = stage {
                continue;
            }
            self.peers[place].arriving.push_front(arriving);
            self.coming.push(at);
            stage?;
            break;
        }
        Ok(moved)
    }

    /// Goes on with a message, as far as it goes.
    fn go_on(
        &mut self,
        place: usize,
        arriving: &mut Arriving,
        motor: &mut Motor<'_>,
        outbox: &mut Outbox,
    ) -> Result<Stage, ProgressError> {
        if let Some(id) = arriving.receive {
            match motor.engine.test(id) {
                None => return Ok(Stage::Waits),
                Some(Err(_)) => return Ok(Stage::Over),
                Some(Ok(_)) => arriving.receive = None,
            }
        }
        while arriving.at < arriving.message.len() {
            let record = Record::read(&arriving.message[arriving.at..], self.part)?;
            let behind = arriving.at + RECORD;
            let end = behind + if record.apart().is_none() { record.data() } else { 0 };
            if let Some(number) = record.apart() {
                match self.take_apart(place, record, number, arriving, motor)? {
                    Taken::No => return Ok(Stage::Waits),
                    Taken::Lost => return Ok(Stage::Over),
                    Taken::Yes(mut operands) => self.act(place, record, &mut operands, outbox),
                }
            } else {
                self.act(place, record, &mut arriving.message[behind..end], outbox);
            }
            arriving.at = end;
        }
        Ok(Stage::Over)
    }

    /// Receives what is apart: a put's data straight into the part, operands in memory of their own.
    fn take_apart(
        &self,
        place: usize,
        record: Record,
        number: DataNumber,
        arriving: &mut Arriving,
        motor: &mut Motor<'_>,
    ) -> Result<Taken, ProgressError> {
        let Some((id, operands)) = arriving.apart.take() else {
            let (mut operands, into) = match record {
                Record::Put { offset, length, .. } => {
                    // SAFETY: in the part, by the check of `read`.
                    (Box::default(), Buffer { base: unsafe { self.part.base.add(offset) }, length })
                }
                _ => (vec![0_u8; record.data()].into_boxed_slice(), self.part),
            };
            let into = if operands.is_empty() { into } else { buffer_mut(&mut operands) };
            return Ok(match receive(motor, Name::Data(number), self.ranks[place], into)? {
                Receive::Done => Taken::Yes(operands),
                Receive::Lost => Taken::Lost,
                Receive::Under(id) => {
                    arriving.apart = Some((id, operands));
                    Taken::No
                }
            });
        };
        Ok(match motor.engine.test(id) {
            Some(Ok(_)) => Taken::Yes(operands),
            Some(Err(_)) => Taken::Lost,
            None => {
                arriving.apart = Some((id, operands));
                Taken::No
            }
        })
    }

    /// Does what a record says, with the data that belong to it. A put's that were apart are in the part already.
    fn act(&mut self, place: usize, record: Record, data: &mut [u8], outbox: &mut Outbox) {
        let (to, from) = (self.ranks[place], place as u32);
        let mut answer = |number: AnswerNumber, bytes: &[u8]| outbox.answer(to, number, bytes);
        // SAFETY: in the part, by the check of `read`; whoever reaches it meanwhile does so as the contract of `transfer` says.
        let at = |offset: usize| unsafe { self.part.base.add(offset) };
        match record {
            Record::Put { apart: Some(_), .. } => {}
            Record::Put { offset, length, .. } => {
                // SAFETY: as above; the data are as long, by the check of `read`.
                unsafe { transfer(buffer_mut(data).base, at(offset), length) };
            }
            Record::Get { offset, length, answer: number } => {
                let mut bytes = vec![0_u8; length];
                // SAFETY: as above.
                unsafe { transfer(at(offset), buffer_mut(&mut bytes).base, length) };
                answer(number, &bytes);
            }
            Record::Combine { answer: number, .. } => {
                // SAFETY: read for this part.
                unsafe { record.carry_out(self.part, data) };
                number.into_iter().for_each(|number| answer(number, data));
            }
            Record::Swap { answer: number, .. } => {
                // SAFETY: read for this part.
                let found = unsafe { record.swap(self.part) };
                answer(number, &found.to_le_bytes());
            }
            Record::Flush { number } => self.say(from, Record::Flushed { number }),
            Record::Flushed { number } => self.peers[place].flushed = number,
            Record::Posted { number } => self.block.posts(from).raise(number),
            Record::Completed { number } => self.block.completions(from).raise(number),
        }
    }
}

/// What came of what is apart.
enum Taken {
    Yes(Box<[u8]>),
    No,
    /// Whoever was to send it is gone.
    Lost,
}

/// What came of a receive.
enum Receive {
    Done,
    Under(RequestId),
    /// Whoever was to send it is gone.
    Lost,
}

fn receive(
    motor: &mut Motor<'_>,
    name: Name,
    source: Rank,
    into: Buffer,
) -> Result<Receive, ProgressError> {
    let pattern = Pattern { context: context_of(name), source, tag: TAG };
    // SAFETY: callers keep the memory until the receive is over, or leak it; a part is kept longer.
    let received = unsafe { motor.irecv(pattern, Cursor::contiguous(into), OWNER) };
    match received {
        Ok(Received::Done(Ok(_))) => Ok(Receive::Done),
        Ok(Received::Pending(id)) => Ok(Receive::Under(id)),
        Ok(Received::Done(Err(_))) => Ok(Receive::Lost),
        Err(error) => started(error).map(|()| Receive::Lost),
    }
}
