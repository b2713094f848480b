//! Compares the exported symbols with the declarations of `strait.h`.

use std::collections::{BTreeMap, BTreeSet};

/// The version that every function of the first interface has (`linker/strait.map`).
const VERSION: &str = "STRAIT_1";

/// Returns the functions that a header declares: names that begin with `strait_`, before a
/// parenthesis, outside comments.
pub(super) fn functions(header: &str) -> BTreeSet<String> {
    let code = without_comments(header);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    let mut rest = code.as_str();
    while let Some(at) = rest.find("strait_") {
        let begins = !rest[..at].ends_with(is_word);
        let name = &rest[at..];
        let length = name.find(|c| !is_word(c)).unwrap_or(name.len());
        if begins && name[length..].trim_start().starts_with('(') {
            found.insert(name[..length].to_owned());
        }
        rest = &name[length..];
    }
    found
}

fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        code += before;
        code.push(' ');
        rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
    }
    code + rest
}

/// Lists the differences between the declared functions and the exported symbols with their
/// versions.
pub(super) fn differences(
    declared: &BTreeSet<String>,
    exported: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if declared.is_empty() {
        wrong.push("strait.h declares no function".to_owned());
    }
    for name in declared {
        match exported.get(name).map(String::as_str) {
            None => wrong.push(format!("{name} is declared, but not exported")),
            Some(VERSION) => {}
            Some(version) => wrong.push(format!("{name} has version {version:?}, not {VERSION}")),
        }
    }
    let foreign = exported.keys().filter(|name| !declared.contains(*name));
    wrong.extend(
        foreign.map(|name| format!("{name} is exported, but strait.h does not declare it")),
    );
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "/* strait_old(x) was here */
typedef struct strait_world_ *strait_world;
typedef struct strait_options { void (*log)(void *strait_context); } strait_options;
int strait_send(strait_world world, /* strait_not( */ int x);
const char *strait_error_name (int code);
int not_strait_at_all(void);
";

    #[test]
    fn functions_are_found_and_nothing_else() {
        let found: Vec<String> = functions(HEADER).into_iter().collect();
        assert_eq!(found, ["strait_error_name", "strait_send"]);
    }

    #[test]
    fn every_difference_is_named() {
        let exported = |symbols: &[(&str, &str)]| -> BTreeMap<String, String> {
            symbols.iter().map(|(name, version)| ((*name).into(), (*version).into())).collect()
        };
        let declared = functions(HEADER);
        let good = [("strait_send", VERSION), ("strait_error_name", VERSION)];
        assert_eq!(differences(&declared, &exported(&good)), [""; 0]);
        assert_eq!(differences(&declared, &exported(&good[..1])).len(), 1);
        let more = [good[0], good[1], ("rust_eh_personality", VERSION)];
        assert_eq!(differences(&declared, &exported(&more)).len(), 1);
        assert_eq!(
            differences(&declared, &exported(&[good[0], ("strait_error_name", "")])).len(),
            1
        );
        assert!(!differences(&BTreeSet::new(), &BTreeMap::new()).is_empty());
    }
}
