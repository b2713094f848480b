//! CG: the smallest eigenvalue of a sparse matrix by inverse iteration, with 25 steps of conjugate
//! gradients each. The matrix is divided by rows: each step gathers a vector and sums two products.

use std::collections::BTreeMap;

use strait::Error;

use super::kernel::{KernelOutcome, NpbClass};
use super::peers::Peers;
use super::random::{NpbRandom, SEED};

/// Steps of conjugate gradients in an iteration.
const STEPS: usize = 25;

/// The condition number's reciprocal.
const RCOND: f64 = 0.1;

/// A problem.
struct CgProblem {
    order: usize,
    /// Non-zero elements of a random vector.
    nonzeros: usize,
    iterations: usize,
    shift: f64,
    zeta: f64,
}

const S: CgProblem =
    CgProblem { order: 1400, nonzeros: 7, iterations: 15, shift: 10.0, zeta: 8.597_177_507_864_8 };

const W: CgProblem =
    CgProblem { order: 7000, nonzeros: 8, iterations: 15, shift: 12.0, zeta: 10.362_595_087_124 };

/// Runs the kernel. The result is zeta.
pub(super) fn run(peers: &Peers<'_>, class: NpbClass) -> Result<KernelOutcome, Error> {
    let problem = if class == NpbClass::S { &S } else { &W };
    let own = peers.part(problem.order, peers.rank());
    let matrix = problem.rows(own.clone());
    let mut x = vec![1.0; own.len()];
    let mut zeta = 0.0;
    for _ in 0..problem.iterations {
        let z = solve(peers, &matrix, &x, own.clone(), problem.order)?;
        let mut products = [dot(&x, &z), dot(&z, &z)];
        peers.sum(&mut products)?;
        zeta = problem.shift + 1.0 / products[0];
        let scale = 1.0 / products[1].sqrt();
        x = z.into_iter().map(|z| scale * z).collect();
    }
    Ok(KernelOutcome { found: zeta, expected: problem.zeta, tolerance: 1e-10 })
}

/// A row: its columns and their elements.
type MatrixRow = Vec<(usize, f64)>;

impl CgProblem {
    /// Returns these rows of NPB's random matrix: a sum of products of sparse random vectors with
    /// themselves, each smaller than the one before. Every rank generates all vectors.
    fn rows(&self, own: core::ops::Range<usize>) -> Vec<MatrixRow> {
        let mut rows = vec![BTreeMap::new(); own.len()];
        let mut random = NpbRandom::new(SEED);
        let ratio = RCOND.powf(1.0 / self.order as f64);
        let mut size = 1.0;
        // The reference takes one number before.
        random.next();
        for number in 0..self.order {
            let vector = self.vector(&mut random, number);
            for (row, one) in vector.iter().filter(|(row, _)| own.contains(row)) {
                for (column, other) in &vector {
                    let diagonal = row == column && *row == number;
                    let shift = if diagonal { RCOND - self.shift } else { 0.0 };
                    let element = rows[row - own.start].entry(*column).or_insert(0.0);
                    *element += other * (size * one) + shift;
                }
            }
            size *= ratio;
        }
        rows.into_iter().map(|row| row.into_iter().collect()).collect()
    }

    /// Returns a sparse random vector with 0.5 as its element `number`.
    fn vector(&self, random: &mut NpbRandom, number: usize) -> MatrixRow {
        let power = self.order.next_power_of_two() as f64;
        let mut vector: MatrixRow = Vec::with_capacity(self.nonzeros + 1);
        while vector.len() < self.nonzeros {
            let (element, place) = (random.next(), (power * random.next()) as usize);
            if place < self.order && vector.iter().all(|(known, _)| *known != place) {
                vector.push((place, element));
            }
        }
        match vector.iter_mut().find(|(place, _)| *place == number) {
            Some((_, element)) => *element = 0.5,
            None => vector.push((number, 0.5)),
        }
        vector
    }
}

/// Solves A z = x approximately.
fn solve(
    peers: &Peers<'_>,
    matrix: &[MatrixRow],
    x: &[f64],
    own: core::ops::Range<usize>,
    order: usize,
) -> Result<Vec<f64>, Error> {
    let mut z = vec![0.0; x.len()];
    let (mut r, mut p) = (x.to_vec(), x.to_vec());
    let mut all = vec![0.0; order];
    let mut rho = [dot(&r, &r)];
    peers.sum(&mut rho)?;
    for _ in 0..STEPS {
        all[own.clone()].copy_from_slice(&p);
        peers.gather(&mut all)?;
        let product = |row: &MatrixRow| row.iter().map(|(column, a)| a * all[*column]).sum();
        let q: Vec<f64> = matrix.iter().map(product).collect();
        let mut d = [dot(&p, &q)];
        peers.sum(&mut d)?;
        let alpha = rho[0] / d[0];
        let before = rho[0];
        z.iter_mut().zip(&p).for_each(|(z, p)| *z += alpha * p);
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        rho = [dot(&r, &r)];
        peers.sum(&mut rho)?;
        let beta = rho[0] / before;
        p.iter_mut().zip(&r).for_each(|(p, r)| *p = r + beta * *p);
    }
    Ok(z)
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}
