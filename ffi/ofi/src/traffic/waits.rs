//! What the process waits for, as far as its posted receives and unfinished sends tell, for
//! observers (`strait why`).
//!
//! The MPI above makes progress in every wait, and does not say for what. Its receives are the
//! only trace. So a process that polls while none of its operations ends and nothing arrives
//! counts as one that waits for one of them.

use strait::port::PortWait;
use strait::raw::{ANY_SOURCE, wait_for_one_of};
use strait_core::layout::{Call, ShortName, UnexpectedHead, UnexpectedSummary, Wait};
use strait_core::matching::{ANY_TAG, MaskedPattern};

use super::class::MessageClass;
use super::queues::ClassQueues;
use super::{OperationPurpose, Traffic};

/// Number of bits of an MPI's tag in a tag of libfabric, the lowest ones: MPICH, Intel MPI and
/// Open MPI have tags of 31 bits there. The bits above them name the communicator.
const TAG_BITS: u32 = 31;
const TAG: u64 = (1 << TAG_BITS) - 1;

/// Bits of the communicator's number that are kept. Above them Intel MPI has the source, and
/// MPICH the kind of the message.
const CONTEXT: u64 = (1 << 21) - 1;

/// Largest number of receives and of messages that are looked at.
const LOOKED_AT: usize = 64;

/// Returns the MPI's tag and the number of its communicator. The lowest bit of that number is set
/// for the MPI's own messages, of which collective operations consist: MPICH numbers communicators
/// in this way, and tags below zero of Open MPI have this bit.
const fn name(tag: u64) -> (u32, u32) {
    ((tag & TAG) as u32, ((tag >> TAG_BITS) & CONTEXT) as u32)
}

/// Describes the wait for a receive.
fn of_receive(MaskedPattern { source, tag, ignore }: MaskedPattern) -> Wait {
    let (number, context) = name(tag & !ignore);
    let call = if context & 1 == 1 { Call::Collective } else { Call::Recv };
    let tag = if ignore & TAG == TAG { ANY_TAG } else { number };
    Wait { tag: Some(tag), context: Some(context), ..Wait::on(call, source) }
}

impl Traffic {
    /// Describes what the process waits for. Returns `None` if no operation tells, or if a process
    /// of another universe may have to act.
    pub(super) fn waits(&self) -> Option<PortWait> {
        let tagged = &self.lanes[MessageClass::Tagged as usize];
        let receives = tagged.receives().take(LOOKED_AT).map(of_receive);
        let waits: Vec<Wait> = receives.chain(self.sends()).collect();
        let is_known = |wait: &Wait| match wait.peer {
            Some(ANY_SOURCE) | None => !self.port.has_network(),
            Some(peer) => !self.port.is_elsewhere(peer),
        };
        if waits.is_empty() || !waits.iter().all(is_known) {
            return None;
        }
        let caller = ShortName::new("fi_cq_read");
        let wait = match *waits {
            [wait] => wait,
            _ => wait_for_one_of(Call::WaitSome, waits.into_iter()),
        };
        Some(PortWait {
            wait: Wait { caller, ..wait },
            unexpected: unexpected(tagged),
            accesses: self.accesses,
        })
    }

    /// Describes the waits for sends of messages with tags that have not completed.
    fn sends(&self) -> impl Iterator<Item = Wait> {
        let pending = self.pending.iter().filter_map(|(_, purpose)| match purpose {
            OperationPurpose::Whole(rank, op, _) | OperationPurpose::Data(Some((rank, op)), _) => {
                Some((*rank, op))
            }
            _ => None,
        });
        let sends = pending.chain(self.deliveries.sends());
        sends.filter(|(_, op)| op.lane == MessageClass::Tagged).take(LOOKED_AT).map(|(rank, op)| {
            let (tag, context) = name(op.tag);
            let call = if context & 1 == 1 { Call::Collective } else { Call::Send };
            Wait { tag: Some(tag), context: Some(context), ..Wait::on(call, rank) }
        })
    }
}

/// Describes the messages that no receive has taken.
fn unexpected(queues: &ClassQueues) -> UnexpectedSummary {
    let mut summary = UnexpectedSummary::default();
    for (envelope, bytes) in queues.messages() {
        summary.messages += 1;
        summary.bytes += bytes as u64;
        let (tag, context) = name(envelope.tag);
        let (source, bytes) = (envelope.source, bytes as u64);
        let new = UnexpectedHead { source, tag, context, count: 1, bytes };
        let is_same =
            |head: &UnexpectedHead| (head.source, head.tag, head.context) == (source, tag, context);
        for place in &mut summary.heads {
            match place {
                Some(head) if is_same(head) => {
                    head.count += 1;
                    break;
                }
                Some(_) => {}
                None => {
                    *place = Some(new);
                    break;
                }
            }
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_each_mpi_are_read() {
        // MPICH: the context above 31 bits of the tag. Open MPI: the communicator above 34 bits.
        let mpich = MaskedPattern { source: 1, tag: 2 << 31 | 7, ignore: 0 };
        let wait = of_receive(mpich);
        assert_eq!((wait.call, wait.tag, wait.context), (Call::Recv, Some(7), Some(2)));
        let open_mpi = MaskedPattern { source: 1, tag: 3 << 34 | 7, ignore: 1 << 32 };
        let wait = of_receive(open_mpi);
        assert_eq!((wait.call, wait.tag, wait.context), (Call::Recv, Some(7), Some(24)));
        let any = MaskedPattern { source: ANY_SOURCE, tag: 0, ignore: TAG };
        assert_eq!(of_receive(any).tag, Some(ANY_TAG));
        let minus_16 =
            MaskedPattern { source: 1, tag: u64::from((-16_i32).cast_unsigned()), ignore: 0 };
        assert_eq!(of_receive(minus_16).call, Call::Collective);
    }
}
