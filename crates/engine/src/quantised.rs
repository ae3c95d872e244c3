//! A matrix whose rows stay quantised until they are asked for.

mod encoding;

use crate::error::Error;
pub use encoding::Encoding;
pub(crate) use encoding::foreign_name;
use memmap2::Mmap;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of a file, mapped or in memory.
#[derive(Debug)]
pub(crate) enum Store {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Store {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// In which order the rows of a matrix are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOrder {
    /// As they are numbered.
    Plain,
    /// Within each head, rows `j` and `j + width/2` side by side: the pairs that a rotary
    /// embedding turns.
    Interleaved {
        /// Rows per head; even.
        head_width: usize,
    },
}

impl RowOrder {
    /// Where a row is stored.
    pub(crate) fn place(self, row: usize) -> usize {
        match self {
            Self::Plain => row,
            Self::Interleaved { head_width } => {
                let (head, row) = (row / head_width, row % head_width);
                let half = head_width / 2;
                head * head_width + 2 * (row % half) + row / half
            }
        }
    }
}

/// A matrix `[rows, columns]` in quantised form: rows are a layer's outputs, columns its inputs.
///
/// Copies share the bytes, which stay in the file's map; only rows that are asked for become
/// numbers.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Encoding, Error, QuantisedMatrix};
///
/// // Two rows of one block: the scale 0.5, then 32 bytes.
/// let row = |level: u8| [&[0x00, 0x38][..], &[level; 32]].concat();
/// let matrix = QuantisedMatrix::new(Encoding::Q8_0, [2, 32], [row(3), row(255)].concat())?;
///
/// let mut numbers = [0.0; 32];
/// matrix.dequantise_rows(1..2, &mut numbers)?;
/// assert_eq!(numbers, [-0.5; 32]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct QuantisedMatrix {
    store: Arc<Store>,
    bytes: Range<usize>,
    encoding: Encoding,
    rows: usize,
    columns: usize,
    order: RowOrder,
}

impl QuantisedMatrix {
    /// A matrix from its bytes, row by row.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without rows or columns, and [`Error::SizeMismatch`] unless the columns
    /// are whole blocks and the bytes fill the rows.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Encoding, Error, QuantisedMatrix};
    /// let refused = QuantisedMatrix::new(Encoding::Q4_0, [1, 32], vec![0; 17]);
    /// assert!(matches!(refused, Err(Error::SizeMismatch { found: 17, expected: 18, .. })));
    /// ```
    pub fn new(encoding: Encoding, shape: [usize; 2], bytes: Vec<u8>) -> Result<Self, Error> {
        let [rows, columns] = shape;
        if rows == 0 || columns == 0 {
            return Err(Error::Empty { quantity: "matrix" });
        }
        let block = encoding.block_numbers();
        if !columns.is_multiple_of(block) {
            let expected = (columns / block + 1).saturating_mul(block);
            let quantity = "row of a quantised matrix";
            return Err(Error::SizeMismatch { quantity, found: columns, expected });
        }
        let (found, row) = (bytes.len(), columns / block * encoding.block_bytes());
        if rows.checked_mul(row) != Some(found) {
            let (quantity, expected) = ("quantised matrix", rows.saturating_mul(row));
            return Err(Error::SizeMismatch { quantity, found, expected });
        }
        let store = Arc::new(Store::Owned(bytes));
        Ok(Self::in_store(store, 0..found, encoding, shape, RowOrder::Plain))
    }

    /// A matrix that a reader has found sound within a store.
    pub(crate) fn in_store(
        store: Arc<Store>,
        bytes: Range<usize>,
        encoding: Encoding,
        [rows, columns]: [usize; 2],
        order: RowOrder,
    ) -> Self {
        Self { store, bytes, encoding, rows, columns, order }
    }

    /// Some of its rows, as a matrix of their own.
    pub(crate) fn part(self, rows: Range<usize>) -> Self {
        if rows == (0..self.rows) {
            return self;
        }
        assert!(self.order == RowOrder::Plain && rows.end <= self.rows, "rows lie in order");
        let (row, start) = (self.row_bytes(), self.bytes.start);
        let bytes = start + rows.start * row..start + rows.end * row;
        Self { bytes, rows: rows.len(), ..self }
    }

    /// Number of rows: the outputs.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Encoding, Error, QuantisedMatrix};
    /// let matrix = QuantisedMatrix::new(Encoding::F16, [3, 2], vec![0; 12])?;
    /// assert_eq!(matrix.rows(), 3);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns: the inputs.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Encoding, Error, QuantisedMatrix};
    /// let matrix = QuantisedMatrix::new(Encoding::F16, [3, 2], vec![0; 12])?;
    /// assert_eq!(matrix.columns(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How the numbers are encoded.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Encoding, Error, QuantisedMatrix};
    /// let matrix = QuantisedMatrix::new(Encoding::F16, [3, 2], vec![0; 12])?;
    /// assert_eq!(matrix.encoding(), Encoding::F16);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The numbers of some rows, row by row.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] for rows that are not there, or unless `numbers` holds exactly as
    /// many as the rows.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Encoding, Error, QuantisedMatrix};
    /// let bytes = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
    /// let matrix = QuantisedMatrix::new(Encoding::F32, [2, 2], bytes)?;
    /// let mut numbers = [0.0; 2];
    /// matrix.dequantise_rows(1..2, &mut numbers)?;
    /// assert_eq!(numbers, [3.0, 4.0]);
    /// assert!(matrix.dequantise_rows(2..3, &mut numbers).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn dequantise_rows(
        &self,
        rows: Range<usize>,
        numbers: &mut [f32],
    ) -> Result<(), Error> {
        if rows.end > self.rows {
            let (found, expected) = (rows.end, self.rows);
            return Err(Error::SizeMismatch { quantity: "end of the rows", found, expected });
        }
        let (found, expected) = (numbers.len(), rows.len() * self.columns);
        if found != expected {
            return Err(Error::SizeMismatch { quantity: "room for rows", found, expected });
        }
        if self.order == RowOrder::Plain {
            let bytes = self.row_bytes();
            let all = &self.bytes()[bytes * rows.start.min(rows.end)..bytes * rows.end];
            self.encoding.dequantise(all, numbers);
            return Ok(());
        }
        for (row, numbers) in rows.zip(numbers.chunks_exact_mut(self.columns)) {
            self.encoding.dequantise(self.row(row), numbers);
        }
        Ok(())
    }

    /// All numbers, row by row.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Encoding, Error, QuantisedMatrix};
    /// let bytes = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
    /// let matrix = QuantisedMatrix::new(Encoding::F32, [2, 2], bytes)?;
    /// assert_eq!(matrix.dequantise(), [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn dequantise(&self) -> Vec<f32> {
        let mut numbers = vec![0.0; self.rows * self.columns];
        self.dequantise_rows(0..self.rows, &mut numbers).expect("there is room for all rows");
        numbers
    }

    /// All numbers, column by column: `[columns, rows]`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Encoding, Error, QuantisedMatrix};
    /// let bytes = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
    /// let matrix = QuantisedMatrix::new(Encoding::F32, [2, 2], bytes)?;
    /// assert_eq!(matrix.dequantise_transposed(), [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn dequantise_transposed(&self) -> Vec<f32> {
        let mut numbers = vec![0.0; self.rows * self.columns];
        let mut values = vec![0.0; self.columns];
        for row in 0..self.rows {
            self.encoding.dequantise(self.row(row), &mut values);
            for (column, &value) in values.iter().enumerate() {
                numbers[column * self.rows + row] = value;
            }
        }
        numbers
    }

    /// The first number that is NaN or infinite, and its position, row by row.
    pub(crate) fn first_not_finite(&self) -> Option<(usize, f32)> {
        let row = (0..self.rows).find(|&row| !self.encoding.finite(self.row(row)))?;
        let mut values = vec![0.0; self.columns];
        self.encoding.dequantise(self.row(row), &mut values);
        let column = values.iter().position(|value| !value.is_finite())?;
        Some((row * self.columns + column, values[column]))
    }

    fn bytes(&self) -> &[u8] {
        &self.store.as_slice()[self.bytes.clone()]
    }

    fn row_bytes(&self) -> usize {
        self.columns / self.encoding.block_numbers() * self.encoding.block_bytes()
    }

    /// The bytes of a row, wherever it is stored.
    fn row(&self, row: usize) -> &[u8] {
        let (place, bytes) = (self.order.place(row), self.row_bytes());
        &self.bytes()[place * bytes..(place + 1) * bytes]
    }
}
