//! The gate file: the functions that are counted, and the limit on the instructions of each.

use serde::{Deserialize, Serialize};

use crate::stop::Stop;

/// The contents of `benches/icount.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gate {
    /// The counted operations, in the order of the table.
    #[serde(rename = "row")]
    pub(crate) rows: Vec<Row>,
}

/// The program that makes the counted calls.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Program {
    /// `benches/src/bin/icount.rs`.
    #[default]
    Rust,
    /// `benches/icount.c`, through the C interface.
    C,
    /// `ffi/ofi/bench/icount.c`, through libfabric.
    Libfabric,
    /// `ffi/mpi/bench/icount.c`, through MPICH's MPI behind the front.
    Mpi,
}

/// One operation.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// The function that the program calls once for each operation.
    pub(crate) symbol: String,
    /// The function that makes the counted calls, for a function of the C interface that others
    /// call, too.
    pub(crate) caller: Option<String>,
    #[serde(default)]
    pub(crate) program: Program,
    /// The name in the table.
    pub(crate) label: String,
    /// Instructions in `[Nemesis07]`, table 1, where the paper gives them.
    pub(crate) paper: Option<u64>,
    /// Instructions in the best MPI library of today, where they were counted.
    pub(crate) best_mpi: Option<u64>,
    /// The limit, in instructions per operation.
    pub(crate) limit: u64,
}

/// Reads the gate file.
pub(crate) fn parse(text: &str) -> Result<Gate, Stop> {
    let gate: Gate = toml::from_str(text)
        .map_err(|error| Stop::Failed(format!("benches/icount.toml: {error}")))?;
    if gate.rows.is_empty() {
        return Err(Stop::Failed("benches/icount.toml: no [[row]], so nothing is counted".into()));
    }
    Ok(gate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_needs_a_limit() {
        let row = "[[row]]\nsymbol = 'send'\nlabel = 'send, 8 bytes'\npaper = 241\n";
        assert!(parse(row).is_err());
        let gate = parse(&format!("{row}limit = 100\n")).unwrap();
        assert_eq!((gate.rows[0].paper, gate.rows[0].best_mpi), (Some(241), None));
        assert_eq!(gate.rows[0].limit, 100);
        assert!(parse("row = []").is_err(), "an empty gate stops nothing");
    }
}
