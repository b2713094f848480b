//! `PMI_process_mapping`: the launcher's mapping of ranks to nodes.
//!
//! ```text
//! mapping = "(vector" 1*("," (block / repeat)) ")"
//! block   = number / "(" number "," number "," number ")"
//! repeat  = "[" block *("," block) "]x" number
//! ```
//!
//! The block `(2,3,4)` means the 3 nodes from node 2 on with 4 ranks each; the block `2` means one
//! rank on node 2. Ranks are assigned in order. When there are more ranks than that, the vector
//! starts again. Hydra writes bare numbers and repeats from its version 5 on.
//!
//! Source: MPICH, `mpl_rankmap.c`.

use core::fmt;

use crate::nodes::Nodes;

/// The key of the mapping.
pub(crate) const KEY: &str = "PMI_process_mapping";

/// Parses the mapping of `ranks` ranks.
pub(crate) fn parse(text: &str, ranks: u32) -> Result<Nodes, MappingError> {
    let repeats = repeats(text).ok_or_else(|| MappingError { text: text.into() })?;
    let blocks = repeats.iter().cycle().flat_map(|Repeat { blocks, times }| {
        // The product may exceed every integer type, but no more than `ranks` items are taken.
        (0..*times).flat_map(move |_| blocks)
    });
    let nodes = blocks.flat_map(|&[first, nodes, each]| {
        (0..nodes).flat_map(move |node| (0..each).map(move |_| u64::from(first) + u64::from(node)))
    });
    Ok(Nodes::named(nodes.take(ranks as usize)))
}

/// First node, number of nodes, ranks on each. Neither number is 0.
type NodeBlock = [u32; 3];

/// Blocks, at least one, and the number of times that they are repeated, at least 1.
struct Repeat {
    blocks: Vec<NodeBlock>,
    times: u32,
}

/// Parses the items of the vector, at least one.
fn repeats(text: &str) -> Option<Vec<Repeat>> {
    let text: String = text.chars().filter(|c| !c.is_ascii_whitespace() && *c != '"').collect();
    let mut rest = text.strip_prefix("(vector")?.strip_suffix(')')?;
    let mut repeats = Vec::new();
    while let Some(list) = rest.strip_prefix(',') {
        let (repeat, behind) = repeat(list)?;
        repeats.push(repeat);
        rest = behind;
    }
    (rest.is_empty() && !repeats.is_empty()).then_some(repeats)
}

/// Parses the repeat or the block at the start of `text`, and returns it with the rest of the text.
fn repeat(text: &str) -> Option<(Repeat, &str)> {
    let Some(open) = text.strip_prefix('[') else {
        let (block, behind) = block(text)?;
        return Some((Repeat { blocks: vec![block], times: 1 }, behind));
    };
    let (first, mut rest) = block(open)?;
    let mut blocks = vec![first];
    while let Some(list) = rest.strip_prefix(',') {
        let (block, behind) = block(list)?;
        blocks.push(block);
        rest = behind;
    }
    let (times, behind) = number(rest.strip_prefix("]x")?)?;
    (times > 0).then_some((Repeat { blocks, times }, behind))
}

fn block(text: &str) -> Option<(NodeBlock, &str)> {
    let Some(open) = text.strip_prefix('(') else {
        let (node, behind) = number(text)?;
        return Some(([node, 1, 1], behind));
    };
    let (first, rest) = number(open)?;
    let (nodes, rest) = number(rest.strip_prefix(',')?)?;
    let (each, rest) = number(rest.strip_prefix(',')?)?;
    let behind = rest.strip_prefix(')')?;
    (nodes > 0 && each > 0).then_some(([first, nodes, each], behind))
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, behind) = text.split_at(end);
    Some((digits.parse().ok()?, behind))
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
    /// The launcher's text.
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
        assert_eq!(said("(vector,(0,2,2),0)", 5), "5 ranks on 2 nodes: 0-1+4, 2-3");
        assert_eq!(said("(vector,[(0,2,1)]x2,0)", 5), "5 ranks on 2 nodes: 0+2+4, 1+3");
        assert_eq!(said("(vector,[(0,1,2),1]x2)", 6), "6 ranks on 2 nodes: 0-1+3-4, 2+5");
        assert_eq!(said("(vector,[0]x4294967295,1)", 2), "2 ranks on 1 node: 0-1");
        assert_eq!(said("(vector,0)", 1), "1 rank on 1 node: 0");
        assert_eq!(said("(vector,3,1,(3,1,2))", 4), "4 ranks on 2 nodes: 0+2-3, 1");
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
            "(vector,0,)",
            "(vector,,0)",
            "(vector,0,(0,1,1)",
            "(vector,(0,1,1),x)",
            "(vector0)",
            "(vector,[0,1]x0)",
            "(vector,[]x2)",
            "(vector,[0]2)",
            "(vector,[0,1)",
            "(vector,[[0]x2]x2)",
            "(vector,99999999999)",
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
