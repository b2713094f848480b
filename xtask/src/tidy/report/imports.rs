//! The paths that a file names: its `use` items, and paths in its code.

use crate::source::{Kind, Token};

/// One path to something that another module may define.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Import {
    /// Its segments: `["crate", "shm", "Fastbox"]`.
    pub(super) path: Vec<String>,
    /// The name under which a `use` item imports it; `None` for a path in the code and for a glob.
    pub(super) name: Option<String>,
    /// Whether the path imports all items of the module.
    pub(super) is_glob: bool,
}

/// Returns all imports of `code`, in order.
pub(super) fn imports(code: &[Token<'_>]) -> Vec<Import> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.len() {
        if code[at].is("use") {
            at += 1;
            tree(code, &mut at, &[], &mut found);
        } else if is_visibility(&code[at..]) {
            // `pub(in crate::a)` takes nothing from `crate::a`.
            at += 3;
            segments(code, &mut at);
        } else if code[at].kind == Kind::Word && is_path(&code[at..]) {
            let path = segments(code, &mut at);
            found.push(Import { path, name: None, is_glob: false });
        } else {
            at += 1;
        }
    }
    found
}

/// Whether `code` begins with `pub(in`.
fn is_visibility(code: &[Token<'_>]) -> bool {
    code.len() > 3 && ["pub", "(", "in"].iter().zip(code).all(|(word, token)| token.is(word))
}

fn is_path(code: &[Token<'_>]) -> bool {
    code.len() > 3 && code[1].is(":") && code[2].is(":") && code[3].kind == Kind::Word
}

/// Reads the segments `a::b::c` from `at` on, and moves `at` behind them.
fn segments(code: &[Token<'_>], at: &mut usize) -> Vec<String> {
    let mut path = vec![code[*at].text.to_owned()];
    while is_path(&code[*at..]) {
        *at += 3;
        path.push(code[*at].text.to_owned());
    }
    *at += 1;
    path
}

/// Reads one tree of a `use` item below `prefix`.
fn tree(code: &[Token<'_>], at: &mut usize, prefix: &[String], found: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    while let Some(token) = code.get(*at) {
        *at += 1;
        if token.is("{") {
            while code.get(*at).is_some_and(|token| !token.is("}")) {
                tree(code, at, &path, found);
                *at += usize::from(code.get(*at).is_some_and(|token| token.is(",")));
            }
            *at += 1;
            return;
        } else if token.is("*") {
            found.push(Import { path, name: None, is_glob: true });
            return;
        } else if token.kind == Kind::Word {
            path.push(token.text.to_owned());
        }
        let next = code.get(*at);
        if next.is_some_and(|token| token.is("as")) {
            let name = code.get(*at + 1).map(|token| token.text.to_owned());
            *at += 2;
            found.push(Import { path, name, is_glob: false });
            return;
        }
        if next.is_none_or(|token| [",", "}", ";"].iter().any(|end| token.is(end))) {
            if path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let name = path.last().cloned();
            found.push(Import { path, name, is_glob: false });
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn paths(text: &str) -> Vec<String> {
        let source = Source { path: "a.rs".into(), text: text.into() };
        let with_glob = |it: &Import| it.path.join("::") + if it.is_glob { "::*" } else { "" };
        imports(&source.code()).iter().map(with_glob).collect()
    }

    #[test]
    fn trees_are_unfolded() {
        let text = "pub use crate::{a::{B, self}, c::*, d as e}; use super::f;";
        assert_eq!(paths(text), ["crate::a::B", "crate::a", "crate::c::*", "crate::d", "super::f"]);
    }

    #[test]
    fn the_reach_of_a_visibility_is_no_import() {
        assert!(paths("pub(in crate::a::b) struct C;").is_empty());
        assert_eq!(paths("pub(in crate::a) fn d() { e::f(); }"), ["e::f"]);
    }

    #[test]
    fn paths_in_code_count() {
        assert_eq!(
            paths("fn a() { peer::find(b); let x: crate::c::D = 1; }"),
            ["peer::find", "crate::c::D"]
        );
    }
}
