//! Variables with the prefix of Strait that Strait does not know. Most of them are mistyped.

use core::fmt;

use super::VARIABLES;

/// Prefix of the names of Strait's variables.
const PREFIX: &str = "STRAIT_";

/// Prefix of names that tests of programs may use for themselves.
const TESTS: &str = "STRAIT_TEST_";

/// The largest number of edits between an unknown name and the known name that is suggested for it.
const EDITS: usize = 3;

/// An environment variable that begins with `STRAIT_` and that this version does not know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unknown {
    /// Its name.
    pub name: String,
    /// The known variable with the most similar name, if any is similar enough.
    pub nearest: Option<&'static str>,
}

impl Unknown {
    fn new(name: String) -> Self {
        let edits = |known: &str| strsim::damerau_levenshtein(&name, known);
        let known = VARIABLES.iter().map(|known| known.name).filter(|it| it.starts_with(PREFIX));
        let nearest = known.min_by_key(|known| edits(known)).filter(|known| edits(known) <= EDITS);
        Self { name, nearest }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "environment variable {} is unknown and has no effect", self.name)?;
        match self.nearest {
            Some(nearest) => write!(f, ": is {nearest} meant?"),
            None => f.write_str(": `strait info` lists the variables"),
        }
    }
}

/// Returns the unknown variables of the environment, in the order of their names.
#[must_use]
pub fn unknown() -> Vec<Unknown> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    of(names)
}

fn of(names: impl Iterator<Item = String>) -> Vec<Unknown> {
    let is_known = |name: &str| VARIABLES.iter().any(|known| known.name == name);
    let mut names: Vec<_> = names
        .filter(|name| name.starts_with(PREFIX) && !name.starts_with(TESTS) && !is_known(name))
        .collect();
    names.sort_unstable();
    names.into_iter().map(Unknown::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_variable_is_named_with_the_nearest() {
        let names = [
            "STRAIT_EAGR_MAX",
            "STRAIT_HAC",
            "STRAIT_EAGER_MAX",
            "STRAIT_TEST_SEED",
            "PATH",
            "STRAIT_NOTHING_LIKE_IT",
        ];
        let found = of(names.into_iter().map(String::from));
        let found: Vec<_> = found.iter().map(|it| (&*it.name, it.nearest)).collect();
        assert_eq!(
            found,
            [
                ("STRAIT_EAGR_MAX", Some("STRAIT_EAGER_MAX")),
                ("STRAIT_HAC", Some("STRAIT_HCA")),
                ("STRAIT_NOTHING_LIKE_IT", None),
            ]
        );
    }
}
