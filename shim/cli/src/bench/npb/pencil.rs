//! The grid of LU and BT, divided by x and y among the ranks: each has a pencil of points, whole
//! along z.
//!
//! NPB's LU divides its grid in this way, too. NPB's BT needs a square number of ranks, each with
//! several parts; the division of BT is our own.

use core::ops::Range;

use strait::{Error, Source};

use super::flow::{self, DISSIPATION, State, Stencil};
use super::peers::Peers;

/// Layers of other ranks' points around a pencil, as many as the dissipation needs.
const HALO: usize = 2;

/// The tag of the messages in a direction. Each direction has one sender.
const TAGS: [[u32; 2]; 2] = [[2, 3], [4, 5]];

/// States of a pencil's points and of its halo. [`Pencil::at`] finds a point.
pub(super) type Field = Vec<State>;

/// A range of points along each axis, as a pencil counts them.
pub(super) type Region = [Range<usize>; 3];

/// The two directions along an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    Before,
    After,
}

impl Side {
    pub(super) const fn opposite(self) -> Self {
        match self {
            Self::Before => Self::After,
            Self::After => Self::Before,
        }
    }
}

/// The source that receives of faces name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FaceSource {
    Any,
    Neighbour,
}

/// The points of a rank. It counts them along each axis from the begin of its halo.
#[derive(Debug)]
pub(super) struct Pencil<'a> {
    peers: &'a Peers<'a>,
    /// Points along a side of the cube.
    points: usize,
    /// Ranks along x and y, and this one's place among them.
    ranks: [usize; 2],
    place: [usize; 2],
    own: Region,
    strides: [usize; 3],
    stencils: [Stencil; 3],
}

impl<'a> Pencil<'a> {
    /// Returns the pencil of this rank. A rank for which the grid has no place has none.
    pub(super) fn new(peers: &'a Peers<'a>, points: usize) -> Option<Self> {
        let ranks = layout(peers.count(), points / HALO);
        let place = [peers.rank() % ranks[0], peers.rank() / ranks[0]];
        if place[1] >= ranks[1] {
            return None;
        }
        let part = |axis: usize| {
            let bound = |number: usize| points * number / ranks[axis];
            bound(place[axis])..bound(place[axis] + 1)
        };
        let own = [part(0), part(1), 0..points];
        let row = own[0].len() + 2 * HALO;
        let strides = [1, row, row * (own[1].len() + 2 * HALO)];
        let stencils = [0, 1, 2].map(|axis| Stencil::new(axis, points));
        Some(Self { peers, points, ranks, place, own, strides, stencils })
    }

    pub(super) const fn peers(&self) -> &'a Peers<'a> {
        self.peers
    }

    pub(super) const fn stencil(&self, axis: usize) -> &Stencil {
        &self.stencils[axis]
    }

    /// Returns the distance of neighbours along an axis in a field.
    pub(super) const fn stride(&self, axis: usize) -> usize {
        self.strides[axis]
    }

    /// Returns a field of zeros.
    pub(super) fn field(&self) -> Field {
        vec![[0.0; 5]; self.strides[2] * (self.own[2].len() + 2 * HALO)]
    }

    pub(super) const fn at(&self, [x, y, z]: [usize; 3]) -> usize {
        x + y * self.strides[1] + z * self.strides[2]
    }

    /// Returns the place in the whole grid of a point.
    pub(super) fn global(&self, point: [usize; 3]) -> [usize; 3] {
        [0, 1, 2].map(|axis| point[axis] + self.own[axis].start - HALO)
    }

    /// Returns the points of this rank along an axis that are not on the boundary of the cube.
    pub(super) fn inner(&self, axis: usize) -> Range<usize> {
        let Range { start, end } = &self.own[axis];
        (*start).max(1) - start + HALO..(*end).min(self.points - 1) - start + HALO
    }

    /// Returns all points of this rank that are not on the boundary.
    pub(super) fn inner_points(&self) -> impl Iterator<Item = [usize; 3]> {
        let [xs, ys, zs] = [0, 1, 2].map(|axis| self.inner(axis));
        zs.flat_map(move |z| {
            let xs = xs.clone();
            ys.clone().flat_map(move |y| xs.clone().map(move |x| [x, y, z]))
        })
    }

    /// Returns the first inner point of each line along an axis, as an index of a field.
    pub(super) fn lines(&self, axis: usize) -> Vec<usize> {
        let start = self.inner(axis).start;
        let firsts = self.inner_points().filter(|point| point[axis] == start);
        firsts.map(|point| self.at(point)).collect()
    }

    /// Returns the rank that has the points on a side of this pencil.
    pub(super) fn neighbour(&self, axis: usize, side: Side) -> Option<usize> {
        if axis == 2 {
            return None;
        }
        let mut place = self.place;
        place[axis] = match side {
            Side::Before => place[axis].checked_sub(1)?,
            Side::After => Some(place[axis] + 1).filter(|place| *place < self.ranks[axis])?,
        };
        Some(place[1] * self.ranks[0] + place[0])
    }

    /// Returns a field with the exact solution at every point, and its halo.
    pub(super) fn exact(&self) -> Field {
        self.filled(|place, _| flow::exact(place))
    }

    /// Returns a field with the first guess. On the boundary of the cube it is exact.
    pub(super) fn first_guess(&self) -> Field {
        self.filled(
            |place, inner| if inner { flow::first_guess(place) } else { flow::exact(place) },
        )
    }

    /// Returns a field with a state for each point of the grid that it has, by its place in the
    /// unit cube, and whether it is off the boundary.
    fn filled(&self, state: impl Fn([f64; 3], bool) -> State) -> Field {
        let mut field = self.field();
        let [xs, ys, zs] = [0, 1, 2].map(|axis| {
            let Range { start, end } = self.own[axis];
            let first = HALO.saturating_sub(start);
            first..(end + HALO).min(self.points) + HALO - start
        });
        let last = self.points - 1;
        for z in zs {
            for y in ys.clone() {
                for x in xs.clone() {
                    let global = self.global([x, y, z]);
                    let inner = global.iter().all(|along| (1..last).contains(along));
                    let place = global.map(|along| along as f64 / last as f64);
                    field[self.at([x, y, z])] = state(place, inner);
                }
            }
        }
        field
    }

    /// Brings the halo of `u` up to date, and returns its rates of change less `forcing`.
    pub(super) fn residual(
        &self,
        u: &mut Field,
        forcing: &Field,
        source: FaceSource,
    ) -> Result<Field, Error> {
        self.share(u, source)?;
        let mut rates = self.rates(u);
        rates.iter_mut().zip(forcing).for_each(|(rate, forcing)| flow::add(rate, -1.0, forcing));
        Ok(rates)
    }

    /// Returns the rates of change of a field. Its halo must be up to date.
    pub(super) fn rates(&self, u: &Field) -> Field {
        let mut rates = self.field();
        for axis in 0..3 {
            for line in self.lines(axis) {
                self.add_rates(axis, line, u, &mut rates);
            }
        }
        rates
    }

    /// Adds the rates along one line.
    fn add_rates(&self, axis: usize, line: usize, u: &Field, rates: &mut Field) {
        let (stride, stencil) = (self.strides[axis], &self.stencils[axis]);
        let inner = self.inner(axis);
        let first = inner.start + self.own[axis].start - HALO;
        let mut before = stencil.contributions(&u[line - stride]);
        let mut here = stencil.contributions(&u[line]);
        for step in 0..inner.len() {
            let at = line + step * stride;
            let after = stencil.contributions(&u[at + stride]);
            let weights = flow::dissipation(first + step, self.points);
            let rate = &mut rates[at];
            flow::add(rate, 1.0, &before[1]);
            flow::add(rate, 1.0, &after[0]);
            here.iter().for_each(|lost| flow::add(rate, -1.0, lost));
            for (place, weight) in weights.iter().enumerate() {
                let state = &u[at + place * stride - 2 * stride];
                flow::add(rate, -DISSIPATION * weight, state);
            }
            (before, here) = (here, after);
        }
    }

    /// Brings the halo of a field up to date. All ranks with a pencil call it.
    fn share(&self, field: &mut Field, source: FaceSource) -> Result<(), Error> {
        for (axis, tags) in TAGS.into_iter().enumerate() {
            let own = HALO..HALO + self.own[axis].len();
            let (mut receives, mut sends) = (Vec::new(), Vec::new());
            for (side, tag) in [Side::Before, Side::After].into_iter().zip(tags) {
                let Some(peer) = self.neighbour(axis, side) else { continue };
                let halo = match side {
                    Side::Before => own.start - HALO..own.start,
                    Side::After => own.end..own.end + HALO,
                };
                let region = self.layers(axis, halo);
                let source = match source {
                    FaceSource::Any => Source::Any,
                    FaceSource::Neighbour => Source::Rank(peer as u32),
                };
                let receive = self.peers.start_recv(numbers(&region), source, tag)?;
                receives.push((region, receive));
            }
            for (side, tag) in [Side::After, Side::Before].into_iter().zip(tags) {
                let Some(peer) = self.neighbour(axis, side) else { continue };
                let edge = match side {
                    Side::Before => own.start..own.start + HALO,
                    Side::After => own.end - HALO..own.end,
                };
                let out = self.pack(field, &self.layers(axis, edge));
                sends.push(self.peers.start_send(out, peer, tag)?);
            }
            for (region, receive) in receives {
                let arrived = self.peers.finish(receive)?;
                self.unpack(field, &region, &arrived);
            }
            for send in sends {
                self.peers.finish(send)?;
            }
        }
        Ok(())
    }

    /// Returns the region of these layers across an axis, without halo.
    fn layers(&self, axis: usize, layers: Range<usize>) -> Region {
        let mut region = [0, 1, 2].map(|axis| HALO..HALO + self.own[axis].len());
        region[axis] = layers;
        region
    }

    /// Returns the numbers of a region of a field.
    pub(super) fn pack(&self, field: &Field, region: &Region) -> Vec<f64> {
        let mut packed = Vec::with_capacity(numbers(region));
        for z in region[2].clone() {
            for y in region[1].clone() {
                let row = self.at([0, y, z]);
                let states = &field[row + region[0].start..row + region[0].end];
                states.iter().for_each(|state| packed.extend_from_slice(state));
            }
        }
        packed
    }

    /// Fills a region of a field with the numbers that `pack` returned elsewhere.
    pub(super) fn unpack(&self, field: &mut Field, region: &Region, packed: &[f64]) {
        let mut states = packed.chunks_exact(5);
        for z in region[2].clone() {
            for y in region[1].clone() {
                for x in region[0].clone() {
                    if let Some(state) = states.next() {
                        field[self.at([x, y, z])].copy_from_slice(state);
                    }
                }
            }
        }
    }

    /// Adds `factor` × `change` to the states of the inner points.
    pub(super) fn advance(&self, u: &mut Field, factor: f64, change: &Field) {
        for point in self.inner_points() {
            let at = self.at(point);
            flow::add(&mut u[at], factor, &change[at]);
        }
    }

    /// Sums the squares of the residual, and those of the error, over the inner points.
    pub(super) fn square_sums(&self, residual: &Field, u: &Field, exact: &Field) -> [f64; 10] {
        let mut sums = [0.0; 10];
        sums[..5].copy_from_slice(&self.squares(|at| residual[at]));
        let error = |at: usize| core::array::from_fn(|m| u[at][m] - exact[at][m]);
        sums[5..].copy_from_slice(&self.squares(error));
        sums
    }

    /// Sums the squares of states over the inner points.
    fn squares(&self, of: impl Fn(usize) -> State) -> State {
        let mut sums = [0.0; 5];
        for point in self.inner_points() {
            let state = of(self.at(point));
            sums.iter_mut().zip(state).for_each(|(sum, value)| *sum += value * value);
        }
        sums
    }
}

/// Returns how many numbers a region has.
pub(super) fn numbers(region: &Region) -> usize {
    5 * region.iter().map(Range::len).product::<usize>()
}

/// Returns the number of ranks along x and y: of all that fit, the most ranks, and then the
/// squarest form. A rank has at least as many points along an axis as a halo, so at most `along`
/// ranks are beside each other.
fn layout(ranks: usize, along: usize) -> [usize; 2] {
    let shapes = (1..=along.min(ranks)).map(|x| [x, (ranks / x).min(along)]);
    let value = |[x, y]: &[usize; 2]| (x * y, core::cmp::Reverse(x.abs_diff(*y)));
    shapes.max_by_key(value).unwrap_or([1, 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_ranks_as_fit_have_a_pencil() {
        let shapes = [1, 2, 3, 4, 6, 7, 100].map(|ranks| layout(ranks, 6));
        let products = shapes.map(|[x, y]| x * y);
        assert_eq!(products, [1, 2, 3, 4, 6, 6, 36], "{shapes:?}");
        assert_eq!(shapes[3], [2, 2]);
    }
}
