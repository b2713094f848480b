//! The flow that LU and BT compute: the compressible Navier-Stokes equations on a cube, with NPB's
//! exact solution, and their discrete form at a point.
//!
//! Both kernels have the same equations, exact solution and first guess. They differ in the way in
//! which they solve.

/// Conserved quantities at a point: density, three momenta, and energy.
pub(super) type State = [f64; 5];

/// Adds `factor` × `change`. It has no loop because debug builds, which tests run, keep loops.
pub(super) const fn add(to: &mut State, factor: f64, change: &State) {
    to[0] += factor * change[0];
    to[1] += factor * change[1];
    to[2] += factor * change[2];
    to[3] += factor * change[3];
    to[4] += factor * change[4];
}

/// The ratio of specific heats, less one.
const GAS: f64 = 0.4;

/// Viscosity, and how much of it conducts heat.
const VISCOSITY: f64 = 0.1;
const CONDUCTION: f64 = 1.96 * VISCOSITY;

/// The strength of the fourth-order dissipation.
pub(super) const DISSIPATION: f64 = 0.25;

/// The strength of the second-order dissipation by axis.
const SMOOTHING: [f64; 3] = [0.75, 0.75, 1.0];

/// The coefficients of the exact solution: a constant, then those of x, y and z for each power from
/// 1 to 4.
const EXACT: [[f64; 13]; 5] = [
    [2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3],
    [1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5],
    [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4],
    [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3],
    [5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2],
];

/// Returns the exact solution at a place in the unit cube.
pub(super) fn exact(place: [f64; 3]) -> State {
    EXACT.map(|coefficients| {
        let mut sum = coefficients[0];
        for (axis, x) in place.into_iter().enumerate() {
            let of = |power: usize| coefficients[3 * power + axis - 2];
            sum += x * (of(1) + x * (of(2) + x * (of(3) + x * of(4))));
        }
        sum
    })
}

/// Returns the first guess at a place: interpolated between the exact solutions on the six faces.
pub(super) fn first_guess(place: [f64; 3]) -> State {
    let mut rest = [1.0; 5];
    for (axis, x) in place.into_iter().enumerate() {
        let face = |at: f64| {
            let mut on_face = place;
            on_face[axis] = at;
            exact(on_face)
        };
        let mut guess = [0.0; 5];
        add(&mut guess, 1.0 - x, &face(0.0));
        add(&mut guess, x, &face(1.0));
        rest.iter_mut().zip(guess).for_each(|(rest, guess)| *rest *= 1.0 - guess);
    }
    rest.map(|rest| 1.0 - rest)
}

/// A state with its velocity and pressure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Motion {
    state: State,
    velocity: [f64; 3],
    /// Kinetic energy by mass.
    kinetic: f64,
    pressure: f64,
}

impl Motion {
    pub(super) fn of(state: &State) -> Self {
        let velocity = [1, 2, 3].map(|m| state[m] / state[0]);
        let kinetic = 0.5 * dot(velocity, velocity);
        let pressure = GAS * (state[4] - kinetic * state[0]);
        Self { state: *state, velocity, kinetic, pressure }
    }

    pub(super) const fn pressure(&self) -> f64 {
        self.pressure
    }

    /// Returns the flux along an axis, and the viscous quantities. The second differences of these
    /// are the viscous terms.
    fn terms(&self, axis: usize) -> [State; 2] {
        let along = self.velocity[axis];
        let mut flux = self.state.map(|quantity| along * quantity);
        flux[1 + axis] += self.pressure;
        flux[4] += self.pressure * along;
        let energy = (VISCOSITY - CONDUCTION) * self.kinetic
            + VISCOSITY / 6.0 * along * along
            + CONDUCTION * self.state[4] / self.state[0];
        [flux, viscous(axis, self.velocity, energy)]
    }

    /// Returns the derivative of both terms in the direction `change`: their Jacobian matrices
    /// applied to `change`.
    fn change_of_terms(&self, axis: usize, change: &State) -> [State; 2] {
        let scale = 1.0 / self.state[0];
        let [density, momenta @ .., energy] = *change;
        let velocity_change = |m: usize| (momenta[m] - self.velocity[m] * density) * scale;
        let velocity = [velocity_change(0), velocity_change(1), velocity_change(2)];
        let pressure = GAS * (energy - dot(self.velocity, momenta) + self.kinetic * density);
        let (along, along_change) = (self.velocity[axis], velocity[axis]);
        let mut flux = [0.0; 5];
        add(&mut flux, along_change, &self.state);
        add(&mut flux, along, change);
        flux[1 + axis] += pressure;
        flux[4] += pressure * along + self.pressure * along_change;
        let energy = (VISCOSITY - CONDUCTION) * dot(self.velocity, velocity)
            + VISCOSITY / 3.0 * along * along_change
            + CONDUCTION * scale * (energy - self.state[4] * scale * density);
        [flux, viscous(axis, velocity, energy)]
    }

    /// Solves for x: `right` = x + `weight` × (what a point loses by x along all axes), where the
    /// loss is by second differences, of both neighbours.
    ///
    /// The momenta depend on the density alone, and the energy on all, so x is found in that order.
    pub(super) fn without_own_loss(&self, weight: f64, right: &State) -> State {
        let weight = 2.0 * weight;
        let scale = 1.0 / self.state[0];
        let own = 1.0 + weight * (SMOOTHING[0] + SMOOTHING[1] + SMOOTHING[2]);
        // The velocity along an axis counts by four thirds, so the three axes by ten thirds.
        let shear = weight * VISCOSITY * 10.0 / 3.0 * scale;
        let mut x = [right[0] / own, 0.0, 0.0, 0.0, 0.0];
        let mut velocity = [0.0; 3];
        for axis in 0..3 {
            let carried = self.velocity[axis] * x[0];
            x[1 + axis] = (right[1 + axis] + shear * carried) / (own + shear);
            velocity[axis] = (x[1 + axis] - carried) * scale;
        }
        let work = weight * (3.0 * (VISCOSITY - CONDUCTION) + VISCOSITY / 3.0);
        let heat = weight * 3.0 * CONDUCTION * scale;
        let carried = self.state[4] * scale * x[0];
        x[4] = (right[4] - work * dot(self.velocity, velocity) + heat * carried) / (own + heat);
        x
    }
}

fn dot(one: [f64; 3], other: [f64; 3]) -> f64 {
    one[0] * other[0] + one[1] * other[1] + one[2] * other[2]
}

/// Returns the viscous quantities. The velocity along the axis counts by four thirds.
fn viscous(axis: usize, velocity: [f64; 3], energy: f64) -> State {
    let [x, y, z] = velocity;
    let mut viscous = [0.0, VISCOSITY * x, VISCOSITY * y, VISCOSITY * z, energy];
    viscous[1 + axis] *= 4.0 / 3.0;
    viscous
}

/// The discrete equations along an axis.
///
/// A point's rate of change is the sum of what its two neighbours contribute, less both
/// contributions of its own. This sum has the central differences of the flux, and the second
/// differences of the viscous quantities and of the state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stencil {
    axis: usize,
    /// Factors of first and of second differences.
    first: f64,
    second: f64,
}

impl Stencil {
    /// Makes the stencil of a cube with this number of points along a side.
    pub(super) fn new(axis: usize, points: usize) -> Self {
        let inverse = (points - 1) as f64;
        Self { axis, first: 0.5 * inverse, second: inverse * inverse }
    }

    /// Returns the factor of second differences.
    pub(super) const fn second(&self) -> f64 {
        self.second
    }

    /// Returns what a state contributes to the rates of the point before it and of the one after.
    pub(super) fn contributions(&self, state: &State) -> [State; 2] {
        self.combine(Motion::of(state).terms(self.axis), state)
    }

    /// Returns the derivatives of both contributions in the direction `change`.
    pub(super) fn changes(&self, motion: &Motion, change: &State) -> [State; 2] {
        self.combine(motion.change_of_terms(self.axis, change), change)
    }

    fn combine(&self, [flux, viscous]: [State; 2], state: &State) -> [State; 2] {
        let mut diffusion = [0.0; 5];
        add(&mut diffusion, self.second, &viscous);
        add(&mut diffusion, self.second * SMOOTHING[self.axis], state);
        let mut both = [diffusion; 2];
        add(&mut both[0], -self.first, &flux);
        add(&mut both[1], self.first, &flux);
        both
    }
}

/// Returns the weights of five points along an axis in the fourth-order dissipation of the middle
/// one, which is the point `number` of `points`. Points beyond the boundary have no weight.
pub(super) const fn dissipation(number: usize, points: usize) -> State {
    match (number, points - 1 - number) {
        (1, _) => [0.0, 0.0, 5.0, -4.0, 1.0],
        (2, _) => [0.0, -4.0, 6.0, -4.0, 1.0],
        (_, 1) => [1.0, -4.0, 5.0, 0.0, 0.0],
        (_, 2) => [1.0, -4.0, 6.0, -4.0, 0.0],
        _ => [1.0, -4.0, 6.0, -4.0, 1.0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_of_a_point_is_solved() {
        let motion = Motion::of(&exact([0.3, 0.6, 0.2]));
        let right = [0.4, -0.2, 0.7, 0.1, 1.3];
        let dt = 0.02;
        let stencils = [0, 1, 2].map(|axis| Stencil::new(axis, 12));
        let x = motion.without_own_loss(dt * stencils[0].second(), &right);
        let mut sum = x;
        for [before, after] in stencils.map(|stencil| stencil.changes(&motion, &x)) {
            add(&mut sum, dt, &before);
            add(&mut sum, dt, &after);
        }
        add(&mut sum, -1.0, &right);
        assert!(sum.iter().all(|rest| rest.abs() < 1e-12), "{sum:?}");
    }

    #[test]
    fn derivatives_are_limits_of_differences() {
        let state = exact([0.3, 0.6, 0.2]);
        let step = 1e-6;
        for axis in 0..3 {
            let stencil = Stencil::new(axis, 12);
            for direction in 0..5 {
                let mut change = [0.0; 5];
                change[direction] = 1.0;
                let at = |by: f64| {
                    let mut moved = state;
                    moved[direction] += by;
                    stencil.contributions(&moved)
                };
                let (before, after) = (at(-step), at(step));
                let derivative = stencil.changes(&Motion::of(&state), &change);
                for (side, m) in (0..2).flat_map(|side| (0..5).map(move |m| (side, m))) {
                    let difference = (after[side][m] - before[side][m]) / (2.0 * step);
                    let error = (derivative[side][m] - difference).abs();
                    assert!(error < 1e-5, "axis {axis}, direction {direction}: {error}");
                }
            }
        }
    }
}
