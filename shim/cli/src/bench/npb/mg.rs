//! MG: V-cycles of multigrid on a periodic cube. The cube is divided into two halves of planes,
//! because its coarsest grid has two; further ranks only take part in sums.

use strait::Error;

use super::kernel::{KernelOutcome, NpbClass};
use super::peers::Peers;
use super::random::{NpbRandom, SEED};

/// Ranks that have a part of the cube.
const HALVES: usize = 2;

/// V-cycles.
const CYCLES: usize = 4;

/// Number of points with the largest and the smallest random numbers, which get charges.
const CHARGES: usize = 10;

/// Coefficients by the distance of a neighbour: the operator, and the smoother.
const A: [f64; 4] = [-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0];
const C: [f64; 4] = [-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.0];

/// Coefficients of the restriction to the next coarser grid.
const RESTRICT: [f64; 4] = [0.5, 0.25, 0.125, 0.0625];

/// Runs the kernel. The result is the norm of the residual.
pub(super) fn run(peers: &Peers<'_>, class: NpbClass) -> Result<KernelOutcome, Error> {
    let (levels, expected) = match class {
        NpbClass::S => (5, 0.530_770_700_573_4e-4),
        NpbClass::W => (7, 0.646_732_937_533_9e-5),
    };
    let mut sum = [0.0];
    if peers.rank() < HALVES {
        let cube = Cube { peers, levels };
        let residual = cube.solve()?;
        sum = [residual.inner(|value| value * value)];
    }
    peers.sum(&mut sum)?;
    let points = 1_u64 << (3 * levels);
    let found = (sum[0] / points as f64).sqrt();
    Ok(KernelOutcome { found, expected, tolerance: 1e-8 })
}

/// This rank's half of a grid, with a layer of neighbours' points around it.
#[derive(Clone, Debug)]
struct Grid {
    /// Points along a side, and planes of this rank, without the layer.
    side: usize,
    planes: usize,
    values: Vec<f64>,
}

impl Grid {
    fn new(side: usize) -> Self {
        let planes = side / HALVES;
        Self { side, planes, values: vec![0.0; (planes + 2) * (side + 2) * (side + 2)] }
    }

    const fn at(&self, [z, y, x]: [usize; 3]) -> usize {
        let row = self.side + 2;
        (z * row + y) * row + x
    }

    /// Returns the sums of a point's neighbours by distance: itself, 6 faces, 12 edges, 8 corners.
    fn around(&self, centre: [usize; 3]) -> [f64; 4] {
        let row = self.side + 2;
        let (plane, centre) = (row * row, self.at(centre));
        let v = &self.values;
        // Four neighbours in the plane across a line of points, and the four diagonal ones.
        let near = |at: usize| v[at - row] + v[at + row] + v[at - plane] + v[at + plane];
        let diagonal = |at: usize| {
            v[at - plane - row] + v[at - plane + row] + v[at + plane - row] + v[at + plane + row]
        };
        let (left, right) = (centre - 1, centre + 1);
        [
            v[centre],
            v[left] + v[right] + near(centre),
            diagonal(centre) + near(left) + near(right),
            diagonal(left) + diagonal(right),
        ]
    }

    /// Calls `act` with the place of every point of this rank.
    fn each(&self, mut act: impl FnMut([usize; 3])) {
        for z in 1..=self.planes {
            for y in 1..=self.side {
                for x in 1..=self.side {
                    act([z, y, x]);
                }
            }
        }
    }

    /// Sums over the points of this rank.
    fn inner(&self, of: impl Fn(f64) -> f64) -> f64 {
        let mut sum = 0.0;
        self.each(|place| sum += of(self.values[self.at(place)]));
        sum
    }
}

/// The cube, and the ranks that share it.
struct Cube<'a> {
    peers: &'a Peers<'a>,
    /// The finest grid has 2^levels points along a side.
    levels: usize,
}

impl Cube<'_> {
    /// Returns the residual after the last cycle.
    fn solve(&self) -> Result<Grid, Error> {
        let charges = self.charges()?;
        // The grids of level 1, 2, … at the places 0, 1, …
        let grids = || (1..=self.levels).map(|level| Grid::new(1 << level)).collect::<Vec<_>>();
        let (mut u, mut r) = (grids(), grids());
        let finest = self.levels - 1;
        r[finest] = self.residual(&u[finest], &charges)?;
        for _ in 0..CYCLES {
            for level in (1..=finest).rev() {
                r[level - 1] = self.restrict(&r[level])?;
            }
            u[0].values.fill(0.0);
            self.smooth(&r[0], &mut u[0])?;
            for level in 1..=finest {
                let (coarse, fine) = u.split_at_mut(level);
                if level < finest {
                    fine[0].values.fill(0.0);
                }
                interpolate(&coarse[level - 1], &mut fine[0]);
                let right = if level < finest { &r[level] } else { &charges };
                r[level] = self.residual(&fine[0], right)?;
                self.smooth(&r[level], &mut fine[0])?;
            }
            r[finest] = self.residual(&u[finest], &charges)?;
        }
        Ok(r.pop().unwrap_or_else(|| Grid::new(2)))
    }

    /// Returns the right side: +1 at the points with the largest random numbers, −1 at those with
    /// the smallest. Both ranks generate all numbers.
    fn charges(&self) -> Result<Grid, Error> {
        let mut grid = Grid::new(1 << self.levels);
        let side = grid.side;
        let mut random = NpbRandom::new(SEED);
        let mut numbers: Vec<(f64, usize)> =
            (0..side * side * side).map(|place| (random.next(), place)).collect();
        let count = numbers.len();
        let by_number = |one: &(f64, usize), other: &(f64, usize)| one.0.total_cmp(&other.0);
        numbers.select_nth_unstable_by(CHARGES, by_number);
        numbers[CHARGES..].select_nth_unstable_by(count - 2 * CHARGES - 1, by_number);
        let own = self.peers.rank() * grid.planes..(self.peers.rank() + 1) * grid.planes;
        for (chosen, charge) in [(&numbers[..CHARGES], -1.0), (&numbers[count - CHARGES..], 1.0)] {
            for (_, place) in chosen {
                let (z, y, x) = (place / (side * side), place / side % side, place % side);
                if own.contains(&z) {
                    let at = grid.at([z - own.start + 1, y + 1, x + 1]);
                    grid.values[at] = charge;
                }
            }
        }
        self.share(&mut grid)?;
        Ok(grid)
    }

    /// Fills the layer around this rank's points: periodic along the sides, planes by messages.
    fn share(&self, grid: &mut Grid) -> Result<(), Error> {
        let (side, planes) = (grid.side, grid.planes);
        for z in 1..=planes {
            for y in 1..=side {
                let [first, last] = [1, side].map(|x| grid.values[grid.at([z, y, x])]);
                let ends = [grid.at([z, y, 0]), grid.at([z, y, side + 1])];
                (grid.values[ends[0]], grid.values[ends[1]]) = (last, first);
            }
            let row = |y: usize| grid.at([z, y, 0])..grid.at([z, y + 1, 0]);
            let (rows, ends) = ([row(side), row(1)], [row(0), row(side + 1)]);
            for (from, to) in rows.into_iter().zip(ends) {
                grid.values.copy_within(from, to.start);
            }
        }
        // With two halves the plane above and the one below belong to the same peer.
        let plane = (side + 2) * (side + 2);
        let of = |z: usize| z * plane..(z + 1) * plane;
        let peer = self.peers.rank() ^ 1;
        for (from, to) in [(planes, 0), (1, planes + 1)] {
            let out = grid.values[of(from)].to_vec();
            self.peers.exchange(peer, &out, &mut grid.values[of(to)])?;
        }
        Ok(())
    }

    /// Returns `right` − A `u`.
    fn residual(&self, u: &Grid, right: &Grid) -> Result<Grid, Error> {
        let mut r = Grid::new(u.side);
        u.each(|place| {
            let [centre, _, edges, corners] = u.around(place);
            let at = u.at(place);
            r.values[at] = right.values[at] - A[0] * centre - A[2] * edges - A[3] * corners;
        });
        self.share(&mut r)?;
        Ok(r)
    }

    /// Adds the smoother of `r` to `u`.
    fn smooth(&self, r: &Grid, u: &mut Grid) -> Result<(), Error> {
        r.each(|place| {
            let [centre, faces, edges, _] = r.around(place);
            u.values[r.at(place)] += C[0] * centre + C[1] * faces + C[2] * edges;
        });
        self.share(u)
    }

    /// Returns `fine` on the next coarser grid.
    fn restrict(&self, fine: &Grid) -> Result<Grid, Error> {
        let mut coarse = Grid::new(fine.side / 2);
        coarse.clone().each(|place| {
            let sums = fine.around(place.map(|along| 2 * along));
            let at = coarse.at(place);
            coarse.values[at] = sums.iter().zip(RESTRICT).map(|(sum, part)| sum * part).sum();
        });
        self.share(&mut coarse)?;
        Ok(coarse)
    }
}

/// Adds a coarse grid to the next finer one. The layer of the fine grid gets its values, too.
fn interpolate(coarse: &Grid, fine: &mut Grid) {
    let [planes, rows] = [fine.planes + 2, fine.side + 2];
    for z in 0..planes {
        for y in 0..rows {
            for x in 0..rows {
                // An even place is a point of the coarse grid, an odd one lies between two.
                let place = [z, y, x];
                let mut sum = 0.0;
                let ends = place.map(|along| [along / 2, along.div_ceil(2)]);
                for corner in 0..8 {
                    let of = |axis: usize| ends[axis][corner >> axis & 1];
                    sum += coarse.values[coarse.at([of(0), of(1), of(2)])];
                }
                let at = fine.at(place);
                fine.values[at] += sum / 8.0;
            }
        }
    }
}
