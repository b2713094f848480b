//! Orderings with names, so that each can be weakened alone and shown to matter.

use super::Ordering;

/// The ordering at `site`, a name of the form `algorithm/number` that `docs/memory-model.md` explains.
///
/// In production this is `ordering` and costs nothing. Under loom the environment variable
/// `STRAIT_WEAKEN=site=Ordering` replaces it at that one site: the mutant that a named test must kill.
#[inline(always)]
#[must_use]
#[cfg(not(strait_loom))]
pub const fn order(_site: &str, ordering: Ordering) -> Ordering {
    ordering
}

/// See the production twin: this one obeys `STRAIT_WEAKEN`.
#[must_use]
#[cfg(strait_loom)]
pub fn order(site: &str, ordering: Ordering) -> Ordering {
    static WEAKENED: std::sync::OnceLock<Option<(String, Ordering)>> = std::sync::OnceLock::new();
    let weakened = WEAKENED.get_or_init(|| {
        let mutant = std::env::var("STRAIT_WEAKEN").ok()?;
        let (site, name) = mutant.split_once('=').expect("STRAIT_WEAKEN is site=Ordering");
        let ordering = match name {
            "AcqRel" => Ordering::AcqRel,
            "Relaxed" => Ordering::Relaxed,
            "Acquire" => Ordering::Acquire,
            "Release" => Ordering::Release,
            other => panic!("STRAIT_WEAKEN: no ordering is called {other}"),
        };
        Some((site.to_owned(), ordering))
    });
    match weakened {
        Some((mutant, weaker)) if mutant == site => *weaker,
        _ => ordering,
    }
}
