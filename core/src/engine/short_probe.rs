//! Probes of messages that lie in lines. They leave the messages there, for the short ways to
//! receive.

use super::lines::envelope_of;
use super::{Bypass, Engine, Status, Want};
use crate::matching::ANY_SOURCE;
use crate::memory::Memory;

impl<M: Memory + Clone> Engine<M> {
    /// Describes the message that a receive of `want` from `source` would get, or from any source
    /// for [`ANY_SOURCE`]: [`Bypass::Received`] if it is the next one of its source and lies in
    /// lines, while nothing is posted or unexpected. The message stays where it is.
    /// [`Bypass::Nothing`]: no line has come from `source`. [`Bypass::Closed`]: only
    /// [`Engine::iprobe`] can tell.
    #[inline(always)]
    #[must_use]
    pub fn probe_lines(&mut self, source: u32, want: Want) -> Bypass {
        if !(self.posted.is_empty() & self.unexpected.is_empty()) {
            return Bypass::Closed;
        }
        if source != ANY_SOURCE {
            return self.probe_lines_of(source, want);
        }
        // A stream through lines does not hide a message in the queue.
        if self.has_network() || self.has_queued() {
            return Bypass::Closed;
        }
        self.inbox.take_turns();
        for place in 0..self.inbox.len() {
            match self.probe_lines_of(self.inbox.source_at(place), want) {
                Bypass::Nothing => {}
                found => return found,
            }
        }
        Bypass::Nothing
    }

    #[inline(always)]
    fn probe_lines_of(&self, source: u32, want: Want) -> Bypass {
        let Some(peer) = self.peers.get(source as usize) else { return Bypass::Closed };
        let Some((found, by_baton)) = peer.paths.find_next() else { return Bypass::Nothing };
        let bytes = found.length();
        let is_whole = found.is_eager_of(bytes) || found.is_synchronous_of(bytes);
        let key = peer.paths.lines_of_next(by_baton).key();
        if !is_whole || !want.accepts(key) || !peer.paths.next_holds(by_baton, bytes) {
            return Bypass::Closed;
        }
        Bypass::Received(Status { source, tag: envelope_of(source, key).tag, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::{OF_7, with_pair};
    use crate::matching::ANY_TAG;

    const OF_TAG_7: Want = Want::new(0, 7);

    #[test]
    fn a_probe_describes_a_message_in_lines_and_leaves_it_there() {
        with_pair(|mut pair| {
            let mut bytes = [0; 48];
            for source in [0, ANY_SOURCE] {
                assert_eq!(pair.receiver.probe_lines(source, OF_TAG_7), Bypass::Nothing);
                pair.send(7, b"from rank 0");
                let found = Bypass::Received(Status { source: 0, tag: 7, bytes: 11 });
                for want in [OF_TAG_7, Want::new(0, ANY_TAG), OF_TAG_7] {
                    assert_eq!(pair.receiver.probe_lines(source, want), found);
                }
                assert_eq!(pair.receiver.recv_short(0, OF_TAG_7, &mut bytes), found);
                assert_eq!(&bytes[..11], b"from rank 0");
            }
            pair.send(7, &[1; 200]);
            let long = Bypass::Received(Status { source: 0, tag: 7, bytes: 200 });
            assert_eq!(pair.receiver.probe_lines(0, OF_TAG_7), long);
        });
    }

    #[test]
    fn a_probe_leaves_to_others_what_lines_alone_do_not_tell() {
        with_pair(|mut pair| {
            pair.send(8, b"of another tag");
            assert_eq!(pair.receiver.probe_lines(0, OF_TAG_7), Bypass::Closed);
            assert_eq!(pair.receiver.probe_lines(ANY_SOURCE, OF_TAG_7), Bypass::Closed);
            assert!(pair.receiver.serve_lines());
            pair.send(7, b"behind");
            assert_eq!(pair.receiver.probe_lines(0, OF_TAG_7), Bypass::Closed, "it may be older");
            assert_eq!(pair.receiver.probe_lines(2, OF_TAG_7), Bypass::Closed, "no such rank");
        });
        with_pair(|mut pair| {
            let mut posted = [0; 8];
            let _ = pair.post(OF_7, &mut posted);
            pair.send(7, b"for that");
            assert_eq!(pair.receiver.probe_lines(0, OF_TAG_7), Bypass::Closed);
        });
    }
}
