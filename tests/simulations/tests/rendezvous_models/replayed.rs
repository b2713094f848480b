//! State machines as states of a model: copied, compared and hashed.

use core::fmt::{self, Debug, Write};
use core::hash::{Hash, Hasher};
use core::ops::Deref;
use std::sync::Arc;

/// The initial state of a copy of a machine.
pub(crate) trait Machine: Debug {
    /// Returns a machine in its initial state.
    fn fresh() -> Self;
}

type Call<M> = Arc<dyn Fn(&mut M) + Send + Sync>;

/// A machine with all calls that were made to it.
///
/// The state machines of the library own memory that is lent to them, and cannot be cloned. A copy
/// is a fresh machine that has replayed the same calls. Two machines are equal if their [`Debug`]
/// output is equal. Therefore [`Debug`] must show all state that decides what a machine does.
pub(crate) struct Replayed<M> {
    machine: M,
    calls: Vec<Call<M>>,
}

impl<M: Machine> Replayed<M> {
    pub(crate) fn new() -> Self {
        Self { machine: M::fresh(), calls: Vec::new() }
    }

    /// Changes the machine.
    pub(crate) fn call<T>(&mut self, call: impl Fn(&mut M) -> T + Send + Sync + 'static) -> T {
        let answer = call(&mut self.machine);
        self.calls.push(Arc::new(move |machine| drop(call(machine))));
        answer
    }
}

impl<M: Machine> Clone for Replayed<M> {
    fn clone(&self) -> Self {
        let mut machine = M::fresh();
        self.calls.iter().for_each(|call| call(&mut machine));
        Self { machine, calls: self.calls.clone() }
    }
}

impl<M> Deref for Replayed<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.machine
    }
}

impl<M: Debug> Debug for Replayed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.machine.fmt(f)
    }
}

impl<M: Debug> PartialEq for Replayed<M> {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl<M: Debug> Hash for Replayed<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        write!(Hashed(state), "{self:?}").expect("a hasher takes everything");
    }
}

/// Hashes what is written.
struct Hashed<'a, H>(&'a mut H);

impl<H: Hasher> Write for Hashed<'_, H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
