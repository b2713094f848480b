//! The neighbours of a process in a communicator with a topology (MPI-5.0 §8.5, §8.6).

use core::ffi::c_int;

use super::comms::Comm;
use super::host;
use crate::abi;
use crate::front::shared::Shared;

/// A neighbour, and the tag of the messages from it or to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbour {
    /// Rank in the communicator, or `PROC_NULL`.
    pub(crate) rank: c_int,
    pub(crate) tag: c_int,
}

/// The neighbours of this process, in the order of the blocks of its buffers.
pub(crate) struct Topology {
    pub(crate) sources: Box<[Neighbour]>,
    pub(crate) destinations: Box<[Neighbour]>,
    /// The communicator with the context of messages between neighbours.
    pub(crate) comm: Shared<Comm>,
}

/// Sources and destinations.
type BothSides = (Box<[Neighbour]>, Box<[Neighbour]>);

impl Comm {
    /// Returns the neighbours of the process with this rank in a world of `world` ranks, if the
    /// communicator has a topology.
    ///
    /// # Errors
    ///
    /// The code of the host's function that failed, which has called the error handler.
    pub(crate) fn topology(&self, own: u32, world: u32) -> Result<Option<&Topology>, c_int> {
        if let Some(known) = self.topology.get() {
            return Ok(known.as_ref());
        }
        let sides = self.ask_for_neighbours(self.of_world(own))?;
        let topology = sides.map(|(sources, destinations)| Topology {
            sources,
            destinations,
            comm: Shared::new(self.for_neighbours(world)),
        });
        Ok(self.topology.get_or_init(|| topology).as_ref())
    }

    fn ask_for_neighbours(&self, own: c_int) -> Result<Option<BothSides>, c_int> {
        let mut kind = abi::UNDEFINED;
        // SAFETY: the communicator exists, and the result has a place.
        check(unsafe { host::Topo_test(self.handle, &raw mut kind) })?;
        match kind {
            abi::CART => self.grid().map(Some),
            abi::GRAPH => self.graph(own).map(Some),
            abi::DIST_GRAPH => self.distributed_graph().map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the neighbours in a Cartesian topology: in each dimension the lower one, then the
    /// upper one. A tag is the direction in which a message goes, so that two messages of one
    /// source are told apart where a dimension has one or two processes.
    fn grid(&self) -> Result<BothSides, c_int> {
        let mut dimensions = 0;
        // SAFETY: the communicator exists, and the result has a place.
        check(unsafe { host::Cartdim_get(self.handle, &raw mut dimensions) })?;
        let (mut sources, mut destinations) = (Vec::new(), Vec::new());
        for dimension in 0..dimensions {
            let (mut lower, mut upper) = (abi::PROC_NULL, abi::PROC_NULL);
            // SAFETY: the dimension exists, and the results have places.
            check(unsafe {
                host::Cart_shift(self.handle, dimension, 1, &raw mut lower, &raw mut upper)
            })?;
            let (down, up) = (2 * dimension, 2 * dimension + 1);
            sources
                .extend([Neighbour { rank: lower, tag: up }, Neighbour { rank: upper, tag: down }]);
            destinations
                .extend([Neighbour { rank: lower, tag: down }, Neighbour { rank: upper, tag: up }]);
        }
        Ok((sources.into(), destinations.into()))
    }

    fn graph(&self, own: c_int) -> Result<BothSides, c_int> {
        let mut count = 0;
        // SAFETY: the rank exists, and the result has a place.
        check(unsafe { host::Graph_neighbors_count(self.handle, own, &raw mut count) })?;
        let mut ranks = list(count);
        // SAFETY: the list has a place for each neighbour.
        check(unsafe { host::Graph_neighbors(self.handle, own, count, ranks.as_mut_ptr()) })?;
        let all = neighbours(&ranks, count);
        Ok((all.clone(), all))
    }

    fn distributed_graph(&self) -> Result<BothSides, c_int> {
        let (mut inward, mut outward, mut weighted) = (0, 0, 0);
        // SAFETY: the communicator exists, and the results have places.
        check(unsafe {
            host::Dist_graph_neighbors_count(
                self.handle,
                &raw mut inward,
                &raw mut outward,
                &raw mut weighted,
            )
        })?;
        let (mut sources, mut destinations) = (list(inward), list(outward));
        let (mut weights, mut other_weights) = (list(inward), list(outward));
        // SAFETY: each list has a place for each neighbour.
        check(unsafe {
            host::Dist_graph_neighbors(
                self.handle,
                inward,
                sources.as_mut_ptr(),
                weights.as_mut_ptr(),
                outward,
                destinations.as_mut_ptr(),
                other_weights.as_mut_ptr(),
            )
        })?;
        Ok((neighbours(&sources, inward), neighbours(&destinations, outward)))
    }
}

/// Result of a host's function.
const fn check(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// Returns a list of that many numbers, and of one where there are none.
fn list(count: c_int) -> Vec<c_int> {
    vec![abi::PROC_NULL; count.max(1) as usize]
}

/// Returns the neighbours of a graph. Messages between the same two processes keep their order.
fn neighbours(ranks: &[c_int], count: c_int) -> Box<[Neighbour]> {
    let ranks = ranks.iter().take(count.max(0) as usize);
    ranks.map(|rank| Neighbour { rank: *rank, tag: 0 }).collect()
}
