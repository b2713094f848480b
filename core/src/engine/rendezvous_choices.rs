//! The contexts that have a rendezvous choice of their own.

use crate::memory::{Memory, OutOfMemory, Slab};
use crate::rndv::Rendezvous;

/// The choice of one context.
#[derive(Clone, Copy, Debug)]
struct OwnChoice {
    context: u32,
    rendezvous: Rendezvous,
}

/// The choices of contexts, at most one for each.
#[derive(Debug)]
pub(super) struct RendezvousChoices<M: Memory> {
    own: Slab<OwnChoice, M>,
}

impl<M: Memory> RendezvousChoices<M> {
    pub(super) const fn new(memory: M) -> Self {
        Self { own: Slab::new(memory) }
    }

    /// Returns the choice of `context`, or `None` if it has none of its own.
    pub(super) fn of(&self, context: u32) -> Option<Rendezvous> {
        let mut own = self.own.iter().map(|(_, own)| own);
        own.find(|own| own.context == context).map(|own| own.rendezvous)
    }

    /// Replaces the choice of `context`.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: the choice is unchanged.
    pub(super) fn set(
        &mut self,
        context: u32,
        choice: Option<Rendezvous>,
    ) -> Result<(), OutOfMemory> {
        self.own.reserve()?;
        let mut choices = self.own.iter();
        let present = choices.find(|(_, own)| own.context == context).map(|(number, _)| number);
        drop(choices);
        if let Some(number) = present {
            self.own.remove(number);
        }
        if let Some(rendezvous) = choice {
            self.own.insert(OwnChoice { context, rendezvous })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counted::Counted;

    #[test]
    fn the_last_choice_of_a_context_counts_and_others_have_none() {
        let mut choices = RendezvousChoices::new(Counted::default());
        let [one, other] = [Rendezvous::ALL[0], Rendezvous::ALL[1]];
        choices.set(7, Some(one)).unwrap();
        choices.set(7, Some(other)).unwrap();
        choices.set(9, Some(one)).unwrap();
        assert_eq!([7, 8, 9].map(|context| choices.of(context)), [Some(other), None, Some(one)]);
        choices.set(7, None).unwrap();
        assert_eq!(choices.of(7), None);
        assert_eq!(choices.own.len(), 1);
    }
}
