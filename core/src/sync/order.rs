//! Named orderings: a mutant can weaken each one alone, and a test shows that it matters.

use super::ordering::Ordering;

/// Returns the ordering at `site`, a name of the form `algorithm/number` that
/// `docs/memory-model.md` explains.
///
/// In production it returns `ordering` at no cost. Under loom, the environment variable
/// `STRAIT_WEAKEN=site=Ordering` replaces the ordering at that site alone. The result is a mutant
/// that a named test must detect.
#[inline(always)]
#[must_use]
#[cfg(not(strait_loom))]
pub const fn order(_site: &str, ordering: Ordering) -> Ordering {
    ordering
}

/// Returns the ordering at `site`, weakened if `STRAIT_WEAKEN` names that site.
#[must_use]
#[cfg(strait_loom)]
pub fn order(site: &str, ordering: Ordering) -> Ordering {
    static WEAKENED: std::sync::OnceLock<Option<(String, Ordering)>> = std::sync::OnceLock::new();
    let weakened = WEAKENED.get_or_init(|| {
        let mutant = std::env::var("STRAIT_WEAKEN").ok()?;
        let (site, name) =
            mutant.split_once('=').expect("STRAIT_WEAKEN has the form site=Ordering");
        let ordering = match name {
            "AcqRel" => Ordering::AcqRel,
            "Relaxed" => Ordering::Relaxed,
            "Acquire" => Ordering::Acquire,
            "Release" => Ordering::Release,
            other => panic!("STRAIT_WEAKEN: unknown ordering {other}"),
        };
        Some((site.to_owned(), ordering))
    });
    match weakened {
        Some((mutant, weaker)) if mutant == site => *weaker,
        _ => ordering,
    }
}
