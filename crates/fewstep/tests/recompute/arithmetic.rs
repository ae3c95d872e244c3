//! Plain loops over rows: everything that the choices are made again with.

pub(crate) type Rows = Vec<Vec<f64>>;

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(crate) fn multiply(matrix: &Rows, vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| dot(row, vector)).collect()
}

pub(crate) fn add(a: &Rows, b: &Rows) -> Rows {
    let sum = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a + b).collect();
    a.iter().zip(b).map(sum).collect()
}

/// `scale · A + shift · I`.
pub(crate) fn shifted(matrix: &Rows, scale: f64, shift: f64) -> Rows {
    let mut result = matrix.clone();
    for (i, row) in result.iter_mut().enumerate() {
        row.iter_mut().for_each(|x| *x *= scale);
        row[i] += shift;
    }
    result
}

pub(crate) fn zeros(n: usize) -> Rows {
    vec![vec![0.0; n]; n]
}

pub(crate) fn identity(n: usize) -> Rows {
    shifted(&zeros(n), 1.0, 1.0)
}

/// The largest eigenvalue of a kernel, by powers of it applied to its own columns.
pub(crate) fn largest_eigenvalue(kernel: &Rows) -> f64 {
    let mut vector: Vec<f64> =
        kernel.iter().map(|row| row.iter().map(|x| x.abs()).sum()).collect();
    let mut value = 0.0;
    for _ in 0..20_000 {
        let length = dot(&vector, &vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
        let next = multiply(kernel, &vector);
        value = dot(&vector, &next);
        vector = next;
    }
    value
}

/// The eigenvalues of a kernel, largest first, and their vectors, by Jacobi's rotations.
pub(crate) fn eigen(kernel: &Rows) -> Vec<(f64, Vec<f64>)> {
    let n = kernel.len();
    let (mut left, mut vectors) = (kernel.clone(), identity(n));
    // Every sweep squares what is left beside the diagonal.
    for _ in 0..20 {
        for (p, q) in (0..n).flat_map(|p| (p + 1..n).map(move |q| (p, q))) {
            if left[p][q] == 0.0 {
                continue;
            }
            let ratio = (left[q][q] - left[p][p]) / (2.0 * left[p][q]);
            let tangent = 1.0_f64.copysign(ratio) / (ratio.abs() + ratio.hypot(1.0));
            let cosine = 1.0 / tangent.hypot(1.0);
            let sine = tangent * cosine;
            let turned = |a: f64, b: f64| (cosine * a - sine * b, sine * a + cosine * b);
            for row in &mut left {
                (row[p], row[q]) = turned(row[p], row[q]);
            }
            for rows in [&mut left, &mut vectors] {
                let (above, below) = rows.split_at_mut(q);
                for (a, b) in above[p].iter_mut().zip(&mut below[0]) {
                    (*a, *b) = turned(*a, *b);
                }
            }
        }
    }
    let mut modes: Vec<(f64, Vec<f64>)> =
        vectors.into_iter().enumerate().map(|(i, vector)| (left[i][i], vector)).collect();
    modes.sort_by(|a, b| b.0.total_cmp(&a.0));
    modes
}

/// `Σ f(λ) u uᵀ`.
fn rebuilt(modes: &[(f64, Vec<f64>)], function: impl Fn(f64) -> f64) -> Rows {
    let mut sum = zeros(modes.len());
    for (value, vector) in modes {
        let weight = function(*value);
        let product = vector.iter().map(|a| vector.iter().map(|b| weight * a * b).collect());
        sum = add(&sum, &product.collect());
    }
    sum
}

/// A kernel whose negative eigenvalues, which are rounding, are 0.
pub(crate) fn semidefinite(kernel: &Rows) -> Rows {
    rebuilt(&eigen(kernel), |value| value.max(0.0))
}

/// A kernel as it is in its range, with its largest eigenvalue everywhere else, and the projection
/// to that range: solutions there are the kernel's own, and elimination has nothing small to
/// divide by. Modes that are no more than rounding are outside: that of double precision, or the
/// most negative eigenvalue twice.
pub(crate) fn within_range(kernel: &Rows) -> (Rows, Rows) {
    let (modes, n) = (eigen(kernel), kernel.len());
    let (largest, smallest) = (modes[0].0, modes[n - 1].0);
    let least = (64.0 * n as f64 * f64::EPSILON * largest).max(-2.0 * smallest);
    let filled = rebuilt(&modes, |value| if value > least { value } else { largest });
    (filled, rebuilt(&modes, |value| f64::from(u8::from(value > least))))
}

/// Elimination with pivots: `log det A` for a positive determinant, and `A⁻¹ b` for each `b`.
pub(crate) fn eliminate(matrix: &Rows, right: &[Vec<f64>]) -> (f64, Rows) {
    let n = matrix.len();
    let mut left = matrix.clone();
    let mut right = right.to_vec();
    let mut log_determinant = 0.0;
    for column in 0..n {
        let size = |row: &usize| left[*row][column].abs();
        let pivot = (column..n).reduce(|a, b| if size(&b) > size(&a) { b } else { a });
        let pivot = pivot.unwrap_or(column);
        left.swap(column, pivot);
        right.iter_mut().for_each(|b| b.swap(column, pivot));
        log_determinant += left[column][column].abs().ln();
        for row in (0..n).filter(|&row| row != column) {
            let factor = left[row][column] / left[column][column];
            let above = left[column].clone();
            left[row].iter_mut().zip(&above).for_each(|(x, above)| *x -= factor * above);
            right.iter_mut().for_each(|b| b[row] -= factor * b[column]);
        }
    }
    for b in &mut right {
        (0..n).for_each(|row| b[row] /= left[row][row]);
    }
    (log_determinant, right)
}

/// `A⁻¹ b`.
pub(crate) fn solve(matrix: &Rows, right: &[f64]) -> Vec<f64> {
    eliminate(matrix, &[right.to_vec()]).1.remove(0)
}

/// After each of `0, 1, …` steps: what is left of a vector, and what was taken from it by the
/// steps, `(I − ρK)^T v` and `ρ Σ_{t<T} (I − ρK)^t v`.
pub(crate) fn steps(kernel: &Rows, vector: &[f64], size: f64, most: u64) -> (Rows, Rows) {
    let (mut left, mut taken) = (vector.to_vec(), vec![0.0; vector.len()]);
    let (mut all_left, mut all_taken) = (vec![left.clone()], vec![taken.clone()]);
    for _ in 0..most {
        taken.iter_mut().zip(&left).for_each(|(taken, left)| *taken += size * left);
        let change = multiply(kernel, &left);
        left.iter_mut().zip(change).for_each(|(left, change)| *left -= size * change);
        all_left.push(left.clone());
        all_taken.push(taken.clone());
    }
    (all_left, all_taken)
}

/// `count` of the numbers `0..limit` as a seed draws them: a deck is shuffled from its top, with
/// places from the high bits of xoshiro256++ that SplitMix64 has seeded.
pub(crate) fn draw(seed: u64, count: usize, limit: usize) -> Vec<usize> {
    let mut state = [0_u64; 4];
    for (index, word) in (1..).zip(&mut state) {
        let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(index));
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        *word = mixed ^ mixed >> 31;
    }
    let mut deck: Vec<usize> = (0..limit).collect();
    let mut drawn = Vec::new();
    while drawn.len() < count {
        let number = state[0].wrapping_add(state[3]).rotate_left(23).wrapping_add(state[0]);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        // The card on top takes the place of the one that is drawn.
        let place = (u128::from(number) * deck.len() as u128) >> 64;
        deck.swap(0, usize::try_from(place).expect("it is below the number of cards"));
        drawn.push(deck.remove(0));
    }
    drawn
}
