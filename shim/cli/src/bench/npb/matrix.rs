//! Matrices of five rows: the blocks of the systems that BT solves.

use super::flow::{State, add};

/// A matrix, by rows.
pub(super) type Matrix = [State; 5];

/// Subtracts `left` × `right` from `from`.
pub(super) fn subtract_product(from: &mut Matrix, left: &Matrix, right: &Matrix) {
    for (from, left) in from.iter_mut().zip(left) {
        for (factor, right) in left.iter().zip(right) {
            add(from, -factor, right);
        }
    }
}

/// Subtracts `matrix` × `vector` from `from`.
pub(super) fn subtract_applied(from: &mut State, matrix: &Matrix, [a, b, c, d, e]: &State) {
    for (from, row) in from.iter_mut().zip(matrix) {
        *from -= row[0] * a + row[1] * b + row[2] * c + row[3] * d + row[4] * e;
    }
}

/// Solves `matrix` × x = `right` for each column of `right` and for `vector`, and replaces both.
///
/// Rows are not exchanged, as in NPB: the diagonal dominates.
pub(super) fn solve(mut matrix: Matrix, right: &mut Matrix, vector: &mut State) {
    for pivot in 0..5 {
        let scale = 1.0 / matrix[pivot][pivot];
        let (mut row, mut right_row) = ([0.0; 5], [0.0; 5]);
        add(&mut row, scale, &matrix[pivot]);
        add(&mut right_row, scale, &right[pivot]);
        let value = scale * vector[pivot];
        for (other, (right, vector)) in matrix.iter_mut().zip(right.iter_mut().zip(&mut *vector)) {
            let factor = other[pivot];
            add(other, -factor, &row);
            add(right, -factor, &right_row);
            *vector -= factor * value;
        }
        // The loop has eliminated the pivot's own row, too.
        (matrix[pivot], right[pivot], vector[pivot]) = (row, right_row, value);
    }
}

#[cfg(test)]
mod tests {
    use core::array::from_fn;

    use super::*;

    #[test]
    fn solutions_fulfil_their_equations() {
        let element = |row, column| if row == column { 9.0 } else { (row + 2 * column) as f64 };
        let matrix: Matrix = from_fn(|row| from_fn(|column| element(row, column)));
        let x = [1.0, -2.0, 3.0, 0.5, 4.0];
        let mut vector = [0.0; 5];
        subtract_applied(&mut vector, &matrix, &x.map(|element: f64| -element));
        let mut right = matrix;
        solve(matrix, &mut right, &mut vector);
        let one: Matrix = from_fn(|row| from_fn(|column| f64::from(u8::from(row == column))));
        let pairs = right.as_flattened().iter().zip(one.as_flattened());
        for (found, expected) in pairs.chain(vector.iter().zip(&x)) {
            assert!((found - expected).abs() < 1e-12, "{right:?}, {vector:?}");
        }
    }
}
