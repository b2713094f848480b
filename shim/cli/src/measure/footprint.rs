//! The memory of a rank, as the kernel counts it.

use std::fs;
use std::os::unix::fs::MetadataExt;

use strait::World;

/// Memory of a rank, in bytes. A number that the kernel does not show is not a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    /// Memory that no other process has: heap, stacks, data that was written.
    pub(crate) private: f64,
    /// Pages of the segment in this rank's page tables, each divided by the number of processes
    /// that have it.
    pub(crate) mapped_of_segment: f64,
    /// The memory that backs the segment, divided by the ranks of the node. It includes pages that
    /// are reserved and that no rank has touched.
    pub(crate) share_of_segment: f64,
}

impl Footprint {
    /// Returns the memory of the calling rank.
    pub(crate) fn of_rank(world: &World) -> Self {
        let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let size = |name| field(&rollup, name).unwrap_or(f64::NAN);
        let own = world.node();
        let on_node = (0..world.size()).filter(|rank| world.node_of(*rank) == Some(own)).count();
        Self {
            private: size("Pss_Anon:"),
            mapped_of_segment: size("Pss_Shmem:"),
            share_of_segment: segment_bytes().unwrap_or(f64::NAN) / on_node as f64,
        }
    }
}

/// Returns a field of the kernel's list, which has kibibytes, in bytes.
fn field(rollup: &str, name: &str) -> Option<f64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024.0)
}

/// Returns the memory that backs the largest anonymous file of this process: its segment.
fn segment_bytes() -> Option<f64> {
    let files = fs::read_dir("/proc/self/fd").ok()?.flatten();
    let ours = files.filter(|entry| {
        fs::read_link(entry.path())
            .is_ok_and(|target| target.starts_with("/memfd:strait (deleted)"))
    });
    let metadata = ours.filter_map(|entry| fs::metadata(entry.path()).ok());
    // The unit of `st_blocks` is 512 bytes, whatever the file system.
    metadata.max_by_key(MetadataExt::size).map(|file| file.blocks() as f64 * 512.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let rollup = "Pss:   7 kB\nPss_Anon:     12 kB\nPss_Shmem: 3 kB\n";
        assert_eq!(
            [field(rollup, "Pss_Anon:"), field(rollup, "Pss_File:")],
            [Some(12_288.0), None]
        );
    }

    #[test]
    fn a_rank_has_private_memory_and_a_share_of_its_segment() {
        let worlds = World::in_process(2).unwrap();
        let footprint = Footprint::of_rank(&worlds[0]);
        assert!(footprint.private > 0.0 && footprint.mapped_of_segment >= 0.0);
    }
}
