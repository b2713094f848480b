//! LU: symmetric successive over-relaxation (SSOR) of the implicit equations of a flow.
//!
//! Each step sweeps over the grid twice, plane by plane. A point needs the new values of three
//! neighbours, so ranks wait for the edges of their neighbours in every plane: a wavefront of many
//! short messages. NPB forms the blocks of the Jacobian matrix. Here products with blocks are
//! computed as derivatives, and the block of a point itself is solved by substitution.

use strait::Error;

use super::flow::{self, Motion, State};
use super::kernel::{KernelOutcome, NpbClass};
use super::peers::Peers;
use super::pencil::{self, FaceSource, Field, Pencil, Region, Side};

/// The factor of over-relaxation.
const OMEGA: f64 = 1.2;

/// Faces come from any source, as in NPB's LU ([SpecRndv09] figure 18).
const FACES_FROM: FaceSource = FaceSource::Any;

/// The tag of a plane's edges.
const TAG: u32 = 6;

/// A problem, and NPB's values to 13 digits: norms of the residual and of the error, and the
/// surface integral.
struct LuProblem {
    points: usize,
    steps: usize,
    dt: f64,
    residual: State,
    error: State,
    surface: f64,
}

const S: LuProblem = LuProblem {
    points: 12,
    steps: 50,
    dt: 0.5,
    residual: [
        1.619_634_321_098e-2,
        2.197_674_516_482e-3,
        1.517_992_765_34e-3,
        1.502_958_443_599e-3,
        3.426_407_315_59e-2,
    ],
    error: [
        6.422_331_995_796e-4,
        8.414_434_204_735e-5,
        5.858_826_961_649e-5,
        5.847_422_259_516e-5,
        1.310_334_791_411e-3,
    ],
    surface: 7.841_892_886_594,
};

const W: LuProblem = LuProblem {
    points: 33,
    steps: 300,
    dt: 1.5e-3,
    residual: [
        1.236_511_638_192e1,
        1.317_228_477_799,
        2.550_120_713_095,
        2.326_187_750_252,
        2.826_799_444_189e1,
    ],
    error: [
        4.867_877_144_216e-1,
        5.064_652_880_982e-2,
        9.281_818_101_960e-2,
        8.570_126_542_733e-2,
        1.084_277_417_792,
    ],
    surface: 1.161_399_311_023e1,
};

/// Runs the kernel. The results are NPB's eleven values.
pub(super) fn run(peers: &Peers<'_>, class: NpbClass) -> Result<KernelOutcome, Error> {
    let problem = if class == NpbClass::S { &S } else { &W };
    let mut sums = [0.0; 11];
    if let Some(pencil) = Pencil::new(peers, problem.points) {
        sums = Lu { pencil, problem }.solve()?;
    }
    peers.sum(&mut sums)?;
    let inner = ((problem.points - 2) as f64).powi(3);
    let norms = sums[..10].iter().map(|sum| (sum / inner).sqrt());
    let expected = problem.residual.into_iter().chain(problem.error);
    let pairs = norms.zip(expected).chain([(sums[10], problem.surface)]);
    Ok(KernelOutcome::of_all(pairs, 1e-8))
}

struct Lu<'a> {
    pencil: Pencil<'a>,
    problem: &'a LuProblem,
}

impl Lu<'_> {
    /// Returns this rank's part of the sums of squares, and of the surface integral.
    fn solve(&self) -> Result<[f64; 11], Error> {
        let exact = self.pencil.exact();
        let forcing = self.pencil.rates(&exact);
        let mut u = self.pencil.first_guess();
        let mut residual = self.pencil.residual(&mut u, &forcing, FACES_FROM)?;
        let scale = 1.0 / (OMEGA * (2.0 - OMEGA));
        for _ in 0..self.problem.steps {
            let dt = self.problem.dt;
            residual.iter_mut().for_each(|state| *state = state.map(|value| dt * value));
            self.sweep(&u, &mut residual, Side::Before)?;
            self.sweep(&u, &mut residual, Side::After)?;
            self.pencil.advance(&mut u, scale, &residual);
            residual = self.pencil.residual(&mut u, &forcing, FACES_FROM)?;
        }
        let mut sums = [0.0; 11];
        sums[..10].copy_from_slice(&self.pencil.square_sums(&residual, &u, &exact));
        sums[10] = self.surface(&u);
        Ok(sums)
    }

    /// Solves with the lower triangle from the first point on, `from` being the side before, or
    /// with the upper one from the last point back.
    fn sweep(&self, u: &Field, v: &mut Field, from: Side) -> Result<(), Error> {
        let planes = self.pencil.inner(2);
        for step in 0..planes.len() {
            let z = match from {
                Side::Before => planes.start + step,
                Side::After => planes.end - 1 - step,
            };
            self.receive_edges(v, z, from)?;
            self.plane(u, v, z, from);
            self.send_edges(v, z, from)?;
        }
        Ok(())
    }

    /// Computes the points of a plane.
    fn plane(&self, u: &Field, v: &mut Field, z: usize, from: Side) {
        let [xs, ys] = [0, 1].map(|axis| self.pencil.inner(axis));
        let last = self.pencil.at([xs.end - 1, ys.end - 1, z]);
        let first = self.pencil.at([xs.start, ys.start, z]);
        for row in 0..ys.len() {
            for place in 0..xs.len() {
                let step = row * self.pencil.stride(1) + place;
                let at = if from == Side::Before { first + step } else { last - step };
                self.point(u, v, at, from);
            }
        }
    }

    /// Computes a point from its neighbours on one side along each axis.
    fn point(&self, u: &Field, v: &mut Field, at: usize, from: Side) {
        let mut coupling = [0.0; 5];
        for axis in 0..3 {
            let stride = self.pencil.stride(axis);
            let beside = if from == Side::Before { at - stride } else { at + stride };
            let motion = Motion::of(&u[beside]);
            let [to_before, to_after] = &self.pencil.stencil(axis).changes(&motion, &v[beside]);
            let change = if from == Side::Before { to_after } else { to_before };
            flow::add(&mut coupling, OMEGA * self.problem.dt, change);
        }
        let weight = self.problem.dt * self.pencil.stencil(0).second();
        let motion = Motion::of(&u[at]);
        if from == Side::Before {
            flow::add(&mut coupling, 1.0, &v[at]);
            v[at] = motion.without_own_loss(weight, &coupling);
        } else {
            let change = motion.without_own_loss(weight, &coupling);
            flow::add(&mut v[at], 1.0, &change);
        }
    }

    /// Returns the points of a plane beside one of its edges, within it or in the halo.
    fn edge(&self, axis: usize, along: usize, z: usize) -> Region {
        let mut region = [self.pencil.inner(0), self.pencil.inner(1), z..z + 1];
        region[axis] = along..along + 1;
        region
    }

    fn receive_edges(&self, v: &mut Field, z: usize, from: Side) -> Result<(), Error> {
        for axis in 0..2 {
            let Some(peer) = self.pencil.neighbour(axis, from) else { continue };
            let inner = self.pencil.inner(axis);
            let beside = if from == Side::Before { inner.start - 1 } else { inner.end };
            let region = self.edge(axis, beside, z);
            let mut arrived = vec![0.0; pencil::numbers(&region)];
            self.pencil.peers().recv(&mut arrived, peer, TAG)?;
            self.pencil.unpack(v, &region, &arrived);
        }
        Ok(())
    }

    fn send_edges(&self, v: &Field, z: usize, from: Side) -> Result<(), Error> {
        for axis in 0..2 {
            let Some(peer) = self.pencil.neighbour(axis, from.opposite()) else { continue };
            let inner = self.pencil.inner(axis);
            let last = if from == Side::Before { inner.end - 1 } else { inner.start };
            let out = self.pencil.pack(v, &self.edge(axis, last, z));
            self.pencil.peers().send(&out, peer, TAG)?;
        }
        Ok(())
    }

    /// Returns this rank's part of the integral of the pressure over the surface of a box.
    fn surface(&self, u: &Field) -> f64 {
        let last = self.problem.points - 1;
        let bounds = [[1, last - 1], [1, last - 2], [2, last - 1]];
        // A point counts once for each cell of a face that it is a corner of.
        let weight = |axis: usize, along: usize| {
            let [low, high] = bounds[axis];
            f64::from(u8::from(along > low && along <= high))
                + f64::from(u8::from(along >= low && along < high))
        };
        let mut sum = 0.0;
        for point in self.pencil.inner_points() {
            let place = self.pencil.global(point);
            let on_face = |axis: usize| f64::from(u8::from(bounds[axis].contains(&place[axis])));
            let cells: f64 = [[0, 1, 2], [1, 0, 2], [2, 0, 1]]
                .map(|[across, one, other]| {
                    on_face(across) * weight(one, place[one]) * weight(other, place[other])
                })
                .iter()
                .sum();
            if cells > 0.0 {
                sum += cells * Motion::of(&u[self.pencil.at(point)]).pressure();
            }
        }
        0.25 * sum / (last * last) as f64
    }
}
