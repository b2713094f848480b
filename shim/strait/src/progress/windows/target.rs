//! The target's side of windows by messages. It receives records and carries them out in order.

use strait_core::buffer::{Cursor, Part as Buffer};
use strait_core::engine::{ProgressError, Received, RequestId};
use strait_core::layout::Corrupt;
use strait_core::matching::{ANY_SOURCE, Pattern};
use strait_core::rma::{AnswerNumber, DataNumber, RECORD, Record, RecordName, transfer};
use strait_platform::Rank;

use super::baseline::{Baseline, ENOUGH, SendQueue, buffer_mut, context_of};
use super::started::started;
use crate::progress::context::ProgressContext;
use crate::reserved::{WINDOW_OWNER as OWNER, WINDOW_TAG as TAG};

/// A message of records that has arrived.
pub(super) struct IncomingRecords {
    pub(super) message: Box<[u8]>,
    pub(super) receive: Option<RequestId>,
    /// Offset of the next record to carry out, in bytes.
    at: usize,
    /// The receive in progress of separate data for that record.
    pub(super) apart: Option<(RequestId, Box<[u8]>)>,
}

impl IncomingRecords {
    /// Returns a value that differs after any step. The start of a receive is a step, since the
    /// engine may take in other messages before it.
    fn progress(&self) -> (usize, bool, bool) {
        (self.at, self.receive.is_some(), self.apart.is_some())
    }
}

/// The state of a message that is being carried out.
enum MessageStage {
    Waits,
    Over,
}

impl Baseline {
    /// Begins to receive the records that have arrived.
    pub(super) fn hear(
        &mut self,
        progress: &mut ProgressContext<'_>,
    ) -> Result<bool, ProgressError> {
        let name = RecordName::Records(self.window);
        let context = context_of(name);
        let mut moved = false;
        while let Ok(Some(status)) =
            progress.engine.iprobe(Pattern { context, source: ANY_SOURCE, tag: TAG })
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
            let receive = match receive(progress, name, found, buffer_mut(&mut message))? {
                ReceiveProgress::Done => None,
                ReceiveProgress::Under(id) => Some(id),
                ReceiveProgress::Lost => continue,
            };
            let arriving = IncomingRecords { message, receive, at: 0, apart: None };
            self.peers[place].arriving.push_back(arriving);
            if !self.coming.contains(&(place as u32)) {
                self.coming.push(place as u32);
            }
        }
        Ok(moved)
    }

    /// Carries out the records from the member in `place`. A failed record stays first, for another
    /// try.
    pub(super) fn carry_out(
        &mut self,
        at: u32,
        context: &mut ProgressContext<'_>,
        outbox: &mut SendQueue,
    ) -> Result<bool, ProgressError> {
        let (mut moved, place) = (false, at as usize);
        while let Some(mut arriving) = self.peers[place].arriving.pop_front() {
            let before = arriving.progress();
            let stage = self.go_on(place, &mut arriving, context, outbox);
            moved |= arriving.progress() != before;
            if let Ok(MessageStage::Over) = stage {
                continue;
            }
            self.peers[place].arriving.push_front(arriving);
            self.coming.push(at);
            stage?;
            break;
        }
        Ok(moved)
    }

    /// Carries out as many records of a message as possible.
    fn go_on(
        &mut self,
        place: usize,
        arriving: &mut IncomingRecords,
        context: &mut ProgressContext<'_>,
        outbox: &mut SendQueue,
    ) -> Result<MessageStage, ProgressError> {
        if let Some(id) = arriving.receive {
            match context.engine.test(id) {
                None => return Ok(MessageStage::Waits),
                Some(Err(_)) => return Ok(MessageStage::Over),
                Some(Ok(_)) => arriving.receive = None,
            }
        }
        while arriving.at < arriving.message.len() {
            let record = Record::read(&arriving.message[arriving.at..], self.part)?;
            let behind = arriving.at + RECORD;
            let end = behind + if record.apart().is_none() { record.data() } else { 0 };
            if let Some(number) = record.apart() {
                match self.take_apart(place, record, number, arriving, context)? {
                    TakeResult::No => return Ok(MessageStage::Waits),
                    TakeResult::Lost => return Ok(MessageStage::Over),
                    TakeResult::Yes(mut operands) => self.act(place, record, &mut operands, outbox),
                }
            } else {
                self.act(place, record, &mut arriving.message[behind..end], outbox);
            }
            arriving.at = end;
        }
        Ok(MessageStage::Over)
    }

    /// Receives separate data: those of a put directly into the part, operands into a buffer.
    fn take_apart(
        &self,
        place: usize,
        record: Record,
        number: DataNumber,
        arriving: &mut IncomingRecords,
        context: &mut ProgressContext<'_>,
    ) -> Result<TakeResult, ProgressError> {
        let Some((id, operands)) = arriving.apart.take() else {
            let (mut operands, into) = match record {
                Record::Put { offset, length, .. } => {
                    // SAFETY: `Record::read` has checked that the bytes lie in the part.
                    (Box::default(), Buffer { base: unsafe { self.part.base.add(offset) }, length })
                }
                _ => (vec![0_u8; record.data()].into_boxed_slice(), self.part),
            };
            let into = if operands.is_empty() { into } else { buffer_mut(&mut operands) };
            return Ok(
                match receive(context, RecordName::Data(number), self.ranks[place], into)? {
                    ReceiveProgress::Done => TakeResult::Yes(operands),
                    ReceiveProgress::Lost => TakeResult::Lost,
                    ReceiveProgress::Under(id) => {
                        arriving.apart = Some((id, operands));
                        TakeResult::No
                    }
                },
            );
        };
        Ok(match context.engine.test(id) {
            Some(Ok(_)) => TakeResult::Yes(operands),
            Some(Err(_)) => TakeResult::Lost,
            None => {
                arriving.apart = Some((id, operands));
                TakeResult::No
            }
        })
    }

    /// Carries out a record with its data. Separate data of a put are in the part already.
    fn act(&mut self, place: usize, record: Record, data: &mut [u8], outbox: &mut SendQueue) {
        let (to, from) = (self.ranks[place], place as u32);
        let mut answer = |number: AnswerNumber, bytes: &[u8]| outbox.answer(to, number, bytes);
        // SAFETY: `Record::read` has checked that the bytes lie in the part. Concurrent accesses
        // follow the contract of `transfer`.
        let at = |offset: usize| unsafe { self.part.base.add(offset) };
        match record {
            Record::Put { apart: Some(_), .. } => {}
            Record::Put { offset, length, .. } => {
                // SAFETY: `Record::read` has checked that the bytes lie in the part and that the
                // data are as long.
                unsafe { transfer(buffer_mut(data).base, at(offset), length) };
            }
            Record::Get { offset, length, answer: number } => {
                let mut bytes = vec![0_u8; length];
                // SAFETY: `Record::read` has checked that the bytes lie in the part. The buffer is
                // as long.
                unsafe { transfer(at(offset), buffer_mut(&mut bytes).base, length) };
                answer(number, &bytes);
            }
            Record::Combine { answer: number, .. } => {
                // SAFETY: `Record::read` has checked the record against this part.
                unsafe { record.carry_out(self.part, data) };
                number.into_iter().for_each(|number| answer(number, data));
            }
            Record::Swap { answer: number, .. } => {
                // SAFETY: `Record::read` has checked the record against this part.
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

/// The result of receiving separate data.
enum TakeResult {
    Yes(Box<[u8]>),
    No,
    /// The sender is gone.
    Lost,
}

/// The result of starting a receive.
enum ReceiveProgress {
    Done,
    Under(RequestId),
    /// The sender is gone.
    Lost,
}

fn receive(
    context: &mut ProgressContext<'_>,
    name: RecordName,
    source: Rank,
    into: Buffer,
) -> Result<ReceiveProgress, ProgressError> {
    let pattern = Pattern { context: context_of(name), source, tag: TAG };
    // SAFETY: callers keep the buffer until the receive has ended, or leak it. A part is kept
    // longer.
    let received = unsafe { context.irecv(pattern, Cursor::contiguous(into), OWNER) };
    match received {
        Ok(Received::Done(Ok(_))) => Ok(ReceiveProgress::Done),
        Ok(Received::Pending(id)) => Ok(ReceiveProgress::Under(id)),
        Ok(Received::Done(Err(_))) => Ok(ReceiveProgress::Lost),
        Err(error) => started(error).map(|()| ReceiveProgress::Lost),
    }
}
