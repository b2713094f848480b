//! `PMI_process_mapping`: which rank is on which node, as launchers say it.
//!
//! `(vector,(0,2,4),(2,1,3))` reads: from node 0 on 2 nodes with 4 ranks each, then from node 2 on 1 node with 3 ranks.
//! When there are more ranks than that, the vector begins again: `(vector,(0,2,1))` deals ranks out to two nodes in turn.

use core::fmt;

use crate::nodes::Nodes;

/// The key under which launchers keep it.
pub(crate) const KEY: &str = "PMI_process_mapping";

/// Reads the mapping of `ranks` ranks.
pub(crate) fn parse(text: &str, ranks: u32) -> Result<Nodes, MappingError> {
    let bad = || MappingError { text: text.into() };
    let blocks = blocks(text).ok_or_else(bad)?;
    let of_block = |&[first, nodes, each]: &[u32; 3]| {
        (0..nodes).flat_map(move |node| (0..each).map(move |_| u64::from(first) + u64::from(node)))
    };
    let dealt = blocks.iter().cycle().flat_map(of_block).take(ranks as usize);
    Ok(Nodes::named(dealt))
}

/// The blocks of the vector, none of which is empty; at least one.
fn blocks(text: &str) -> Option<Vec<[u32; 3]>> {
    let text: String = text.chars().filter(|c| !c.is_ascii_whitespace() && *c != '"').collect();
    let list = text.strip_prefix("(vector,(")?.strip_suffix("))")?;
    list.split("),(").map(block).collect()
}

fn block(text: &str) -> Option<[u32; 3]> {
    let mut numbers = text.split(',').map(str::parse);
    let block = [numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?];
    let [_, nodes, each] = block;
    (numbers.next().is_none() && nodes > 0 && each > 0).then_some(block)
}

/// Writes a mapping of consecutive blocks, such as [`Nodes::blocks`] makes.
pub(crate) fn format(nodes: &Nodes) -> String {
    let sizes: Vec<usize> = (0..nodes.count()).map(|node| nodes.ranks_on(node).count()).collect();
    let mut first = 0;
    let mut text = "(vector".to_owned();
    for run in sizes.chunk_by(|one, next| one == next) {
        text += &format!(",({first},{},{})", run.len(), run[0]);
        first += run.len();
    }
    text + ")"
}

/// A mapping that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MappingError {
    /// What the launcher says.
    pub text: String,
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the launcher's {KEY} is {:?}; expected (vector,(FIRST_NODE,NODES,RANKS_ON_EACH),…)",
            self.text
        )
    }
}

impl core::error::Error for MappingError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, ranks: u32) -> String {
        parse(text, ranks).unwrap().to_string()
    }

    #[test]
    fn blocks_are_dealt_out_in_order() {
        assert_eq!(said("(vector,(0,1,4))", 4), "4 ranks on 1 node: 0-3");
        assert_eq!(said("(vector,(0,2,4),(2,1,3))", 11), "11 ranks on 3 nodes: 0-3, 4-7, 8-10");
        assert_eq!(said("(vector,(5,1,2),(0,1,1))", 3), "3 ranks on 2 nodes: 0-1, 2");
    }

    #[test]
    fn a_vector_begins_again_and_may_come_back_to_a_node() {
        assert_eq!(said("(vector,(0,2,1))", 5), "5 ranks on 2 nodes: 0+2+4, 1+3");
        assert_eq!(said("(vector,(0,1,1),(1,1,2),(0,1,1))", 4), "4 ranks on 2 nodes: 0+3, 1-2");
        assert_eq!(said("(vector,(0,4294967295,4294967295))", 2), "2 ranks on 1 node: 0-1");
        assert_eq!(said("(vector,(4294967295,2,1))", 2), "2 ranks on 2 nodes: 0, 1");
    }

    #[test]
    fn quotes_and_spaces_do_not_matter() {
        assert_eq!(said("\"(vector, (0,1,2))\"", 2), "2 ranks on 1 node: 0-1");
    }

    #[test]
    fn what_is_no_mapping_is_an_error_with_its_text() {
        for text in [
            "",
            "()",
            "(vector)",
            "(vector,)",
            "(vector,(0,1))",
            "(vector,(0,1,1,1))",
            "(vector,(0,0,1))",
            "(vector,(0,1,0))",
            "(vector,(a,1,1))",
            "(vector,(0,1,-1))",
            "(vector,(0,1,1)",
            "(matrix,(0,1,1))",
            "(vector,(0,1,1)(1,1,1))",
        ] {
            let error = parse(text, 2).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (ranks, nodes) in [(1, 1), (4, 2), (5, 2), (7, 7), (256, 3)] {
            let blocks = Nodes::blocks(ranks, nodes).unwrap();
            assert_eq!(parse(&format(&blocks), ranks), Ok(blocks));
        }
        assert_eq!(format(&Nodes::blocks(5, 2).unwrap()), "(vector,(0,1,3),(1,1,2))");
        assert_eq!(format(&Nodes::blocks(4, 2).unwrap()), "(vector,(0,2,2))");
    }
}
