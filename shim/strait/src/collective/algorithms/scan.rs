//! Scan and exscan.

use crate::Error;
use crate::collective::operation::Operator;
use crate::collective::team::Team;

impl Team<'_> {
    /// Replaces each member's vector by the combination of the vectors up to its own.
    pub(in crate::collective) fn scan(
        &self,
        data: &mut [u8],
        op: &dyn Operator,
    ) -> Result<(), Error> {
        self.scan_from(0, data, op)
    }

    /// Replaces each member's vector by the combination of the vectors before its own. Place 0
    /// keeps its vector. A member that gives `own` contributes it in place of `data`.
    pub(in crate::collective) fn exscan(
        &self,
        own: Option<&[u8]>,
        data: &mut [u8],
        op: &dyn Operator,
    ) -> Result<(), Error> {
        let next = self.place + 1;
        let mut scratch = self.scratch(data.len());
        let sent = match own {
            Some(own) => own,
            None => {
                scratch.bytes().copy_from_slice(data);
                scratch.bytes()
            }
        };
        match self.place {
            0 if next < self.count() => return self.send(sent, next),
            0 => return Ok(()),
            place if next < self.count() => self.exchange(sent, next, data, place - 1)?,
            place => self.receive(data, place - 1)?,
        }
        drop(scratch);
        self.scan_from(1, data, op)
    }

    /// Scans the vectors of the members from place `first` on. In each step a vector comes to
    /// stand for twice as many members.
    fn scan_from(&self, first: u32, data: &mut [u8], op: &dyn Operator) -> Result<(), Error> {
        let mut before = self.scratch(data.len());
        let mut distance = 1;
        while first + distance < self.count() {
            let to = self.place + distance;
            let from = self.place.checked_sub(distance).filter(|from| *from >= first);
            match from {
                Some(from) if to < self.count() => self.exchange(data, to, before.bytes(), from)?,
                Some(from) => self.receive(before.bytes(), from)?,
                None if to < self.count() => self.send(data, to)?,
                None => {}
            }
            if from.is_some() {
                op.with_lower(data, before.bytes());
            }
            distance *= 2;
        }
        Ok(())
    }
}
