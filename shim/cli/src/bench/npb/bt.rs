//! BT: the implicit equations of a flow, solved along one axis after the other (ADI). Each line of
//! points has a system with a block-tridiagonal matrix.
//!
//! A line that several ranks share is eliminated from rank to rank, and substituted back. The ranks
//! work on several batches of lines at a time, as in a pipeline: a rank posts the receive of the
//! next batch, computes one, and sends its ends ([SpecRndv09] figure 18).

use strait::{Error, Source};

use super::flow::{self, Motion, State};
use super::kernel::{KernelOutcome, NpbClass};
use super::matrix::{self, Matrix};
use super::peers::Peers;
use super::pencil::{FaceSource, Field, Pencil, Side};

/// Batches of the lines along an axis.
const BATCHES: usize = 4;

/// The tag of a batch's ends.
const TAG: u32 = 6;

/// Numbers of a line that pass to the next rank: of an elimination a block and a state, of a
/// substitution a state.
const ELIMINATED: usize = 30;
const SUBSTITUTED: usize = 5;

/// A problem, and NPB's values to 13 digits: norms of the residual and of the error.
struct BtProblem {
    points: usize,
    steps: usize,
    dt: f64,
    residual: State,
    error: State,
}

const S: BtProblem = BtProblem {
    points: 12,
    steps: 60,
    dt: 0.01,
    residual: [
        1.703_428_370_954e-1,
        1.297_525_207_003e-2,
        3.252_792_698_949e-2,
        2.643_642_127_517e-2,
        1.921_178_413_174e-1,
    ],
    error: [
        4.997_691_334_581e-4,
        4.519_566_678_296e-5,
        7.397_376_517_292e-5,
        7.382_123_863_244e-5,
        8.926_963_098_749e-4,
    ],
};

const W: BtProblem = BtProblem {
    points: 24,
    steps: 200,
    dt: 0.0008,
    residual: [
        1.125_590_409_344e2,
        1.180_007_595_731e1,
        2.710_329_767_846e1,
        2.469_174_937_669e1,
        2.638_427_874_317e2,
    ],
    error: [
        4.419_655_736_008,
        4.638_531_260_002e-1,
        1.011_551_749_967,
        9.235_878_729_944e-1,
        1.018_045_837_718e1,
    ],
};

/// Runs the kernel. The results are NPB's ten norms.
pub(super) fn run(peers: &Peers<'_>, class: NpbClass) -> Result<KernelOutcome, Error> {
    let problem = if class == NpbClass::S { &S } else { &W };
    let mut sums = [0.0; 10];
    if let Some(pencil) = Pencil::new(peers, problem.points) {
        sums = Bt { pencil, problem }.solve()?;
    }
    peers.sum(&mut sums)?;
    let inner = ((problem.points - 2) as f64).powi(3);
    let norms = sums.iter().map(|sum| (sum / inner).sqrt());
    let expected = problem.residual.into_iter().chain(problem.error);
    Ok(KernelOutcome::of_all(norms.zip(expected), 1e-8))
}

struct Bt<'a> {
    pencil: Pencil<'a>,
    problem: &'a BtProblem,
}

impl Bt<'_> {
    /// Returns this rank's part of the sums of squares.
    fn solve(&self) -> Result<[f64; 10], Error> {
        let exact = self.pencil.exact();
        let forcing = self.pencil.rates(&exact);
        let mut u = self.pencil.first_guess();
        for _ in 0..self.problem.steps {
            let mut change = self.pencil.residual(&mut u, &forcing, FaceSource::Neighbour)?;
            let dt = self.problem.dt;
            change.iter_mut().for_each(|state| *state = state.map(|value| dt * value));
            for axis in 0..3 {
                self.solve_lines(axis, &u, &mut change)?;
            }
            self.pencil.advance(&mut u, 1.0, &change);
        }
        let residual = self.pencil.residual(&mut u, &forcing, FaceSource::Neighbour)?;
        Ok(self.pencil.square_sums(&residual, &u, &exact))
    }

    /// Solves the systems of all lines along an axis.
    fn solve_lines(&self, axis: usize, u: &Field, change: &mut Field) -> Result<(), Error> {
        // By point: the block that couples it to the next one, after elimination.
        let mut couplings = vec![[[0.0; 5]; 5]; u.len()];
        self.pipeline(axis, Side::Before, ELIMINATED, |line, end| {
            self.eliminate(axis, line, u, &mut couplings, change, end);
        })?;
        self.pipeline(axis, Side::After, SUBSTITUTED, |line, end| {
            self.substitute(axis, line, &couplings, change, end);
        })
    }

    /// Performs `act` with each line, in batches, and with the `width` numbers that the rank on the
    /// side `from` computed for it. `act` replaces them by the numbers for the rank on the other
    /// side. At the boundary they are zeros.
    fn pipeline(
        &self,
        axis: usize,
        from: Side,
        width: usize,
        mut act: impl FnMut(usize, &mut [f64]),
    ) -> Result<(), Error> {
        let peers = self.pencil.peers();
        let [from, to] = [from, from.opposite()].map(|side| self.pencil.neighbour(axis, side));
        let lines = self.pencil.lines(axis);
        let batches: Vec<&[usize]> = lines.chunks(lines.len().div_ceil(BATCHES).max(1)).collect();
        let post = |batch: Option<&&[usize]>| {
            let Some((batch, from)) = batch.zip(from) else { return Ok(None) };
            peers.start_recv(batch.len() * width, Source::Rank(from as u32), TAG).map(Some)
        };
        let mut receive = post(batches.first())?;
        let mut send = None;
        for (number, batch) in batches.iter().enumerate() {
            let mut ends = match receive {
                Some(receive) => peers.finish(receive)?,
                None => vec![0.0; batch.len() * width],
            };
            receive = post(batches.get(number + 1))?;
            for (line, end) in batch.iter().zip(ends.chunks_exact_mut(width)) {
                act(*line, end);
            }
            if let Some(to) = to {
                let last = send.replace(peers.start_send(ends, to, TAG)?);
                last.map_or(Ok(()), |last| peers.finish(last).map(drop))?;
            }
        }
        send.map_or(Ok(()), |send| peers.finish(send).map(drop))
    }

    /// Eliminates what couples each point of a line to the one before it.
    fn eliminate(
        &self,
        axis: usize,
        line: usize,
        u: &Field,
        couplings: &mut [Matrix],
        change: &mut Field,
        end: &mut [f64],
    ) {
        let stride = self.pencil.stride(axis);
        let (mut coupling, mut state) = ([[0.0; 5]; 5], [0.0; 5]);
        for (row, numbers) in coupling.iter_mut().zip(end.chunks_exact(5)) {
            row.copy_from_slice(numbers);
        }
        state.copy_from_slice(&end[25..]);
        let [_, mut from_before] = self.blocks(axis, &u[line - stride]);
        let mut here = self.blocks(axis, &u[line]);
        for step in 0..self.pencil.inner(axis).len() {
            let at = line + step * stride;
            let after = self.blocks(axis, &u[at + stride]);
            let mut diagonal = diagonal(&here);
            matrix::subtract_product(&mut diagonal, &from_before, &coupling);
            matrix::subtract_applied(&mut change[at], &from_before, &state);
            coupling = after[0];
            matrix::solve(diagonal, &mut coupling, &mut change[at]);
            couplings[at] = coupling;
            state = change[at];
            [_, from_before] = here;
            here = after;
        }
        for (row, numbers) in coupling.iter().zip(end.chunks_exact_mut(5)) {
            numbers.copy_from_slice(row);
        }
        end[25..].copy_from_slice(&state);
    }

    /// Substitutes the solution of a line from its last point back.
    fn substitute(
        &self,
        axis: usize,
        line: usize,
        couplings: &[Matrix],
        change: &mut Field,
        end: &mut [f64],
    ) {
        let mut state = [0.0; 5];
        state.copy_from_slice(end);
        for step in (0..self.pencil.inner(axis).len()).rev() {
            let at = line + step * self.pencil.stride(axis);
            matrix::subtract_applied(&mut change[at], &couplings[at], &state);
            state = change[at];
        }
        end.copy_from_slice(&state);
    }

    /// Returns the blocks that couple the points before and after a state's point to it.
    fn blocks(&self, axis: usize, state: &State) -> [Matrix; 2] {
        let motion = Motion::of(state);
        let mut blocks = [[[0.0; 5]; 5]; 2];
        for column in 0..5 {
            let mut unit = [0.0; 5];
            unit[column] = 1.0;
            let changes = self.pencil.stencil(axis).changes(&motion, &unit);
            for (block, change) in blocks.iter_mut().zip(&changes) {
                for (row, change) in block.iter_mut().zip(change) {
                    row[column] = -self.problem.dt * change;
                }
            }
        }
        blocks
    }
}

/// Returns the block of a point itself: a state contributes to its neighbours what its point loses.
fn diagonal([to_before, to_after]: &[Matrix; 2]) -> Matrix {
    let mut diagonal = [[0.0; 5]; 5];
    for (number, row) in diagonal.iter_mut().enumerate() {
        row[number] = 1.0;
        flow::add(row, -1.0, &to_before[number]);
        flow::add(row, -1.0, &to_after[number]);
    }
    diagonal
}
