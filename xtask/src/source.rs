//! Splits Rust sources into tokens, for rules that must tell code from comments and strings.

use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

/// One Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path from the root of the repository, with `/` between folders.
    pub(crate) path: String,
    /// The text of the file.
    pub(crate) text: String,
}

/// The kinds of tokens that the rules distinguish.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// An identifier or a keyword.
    Word,
    /// A string; the token's text is what stands between the quotes.
    Text,
    /// A comment, with its slashes.
    Comment,
    /// Punctuation (one character each), numbers, lifetimes.
    Sign,
}

/// One token. Whitespace yields no token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// The line, counted from 1.
    pub(crate) line: usize,
}

impl Token<'_> {
    /// Returns whether the token is this word or sign. A string or a comment with the same text is
    /// not.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Sign) && self.text == text
    }
}

impl Source {
    /// Returns comments and code, in order.
    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        let (mut start, mut line) = (0, 1);
        for token in tokenize(&self.text, FrontmatterAllowed::No) {
            let text = &self.text[start..start + token.len as usize];
            let kind = match token.kind {
                TokenKind::Whitespace => None,
                TokenKind::LineComment { .. } | TokenKind::BlockComment { .. } => {
                    Some(Kind::Comment)
                }
                TokenKind::Ident | TokenKind::RawIdent => Some(Kind::Word),
                TokenKind::Literal {
                    kind: LiteralKind::Str { .. } | LiteralKind::RawStr { .. },
                    ..
                } => Some(Kind::Text),
                _ => Some(Kind::Sign),
            };
            if let Some(kind) = kind {
                let text = if kind == Kind::Text { unquoted(text) } else { text };
                tokens.push(Token { kind, text, line });
            }
            line += self.text[start..start + token.len as usize].matches('\n').count();
            start += token.len as usize;
        }
        tokens
    }

    /// Returns only the comments.
    pub(crate) fn comments(&self) -> Vec<Token<'_>> {
        let mut tokens = self.tokens();
        tokens.retain(|token| token.kind == Kind::Comment);
        tokens
    }

    /// Returns only the code.
    pub(crate) fn code(&self) -> Vec<Token<'_>> {
        let mut tokens = self.tokens();
        tokens.retain(|token| token.kind != Kind::Comment);
        tokens
    }

    /// Returns the code that ships: without items under `#[cfg(test)]`, and nothing for a file of
    /// tests.
    pub(crate) fn shipped_code(&self) -> Vec<Token<'_>> {
        if self.path.ends_with("/tests.rs") || self.path.contains("/tests/") {
            return Vec::new();
        }
        let code = self.code();
        let mut shipped = Vec::new();
        let mut at = 0;
        while at < code.len() {
            let end = test_item(&code[at..]);
            if end == 0 {
                shipped.push(code[at]);
            }
            at += end.max(1);
        }
        shipped
    }
}

fn unquoted(literal: &str) -> &str {
    literal.trim_start_matches('r').trim_matches('#').trim_matches('"')
}

/// Returns the length of the item under `#[cfg(test)]` that `code` begins with, or zero if there is
/// none.
fn test_item(code: &[Token<'_>]) -> usize {
    let cfg = ["#", "[", "cfg", "("];
    if !starts_with(code, &cfg) {
        return 0;
    }
    let Some(attribute) = code.iter().position(|token| token.is("]")) else { return 0 };
    let of_tests = (cfg.len()..attribute)
        .any(|at| code[at].is("test") && !(code[at - 1].is("(") && code[at - 2].is("not")));
    if !of_tests {
        return 0;
    }
    let mut depth = 0_usize;
    for (at, token) in code.iter().enumerate().skip(attribute + 1) {
        if token.is("{") {
            depth += 1;
        } else if token.is("}") {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 && (token.is("}") || token.is(";")) {
            return at + 1;
        }
    }
    code.len()
}

/// Returns whether `code` begins with these words and signs.
pub(crate) fn starts_with(code: &[Token<'_>], expected: &[&str]) -> bool {
    code.len() >= expected.len() && expected.iter().zip(code).all(|(text, token)| token.is(text))
}

/// Returns whether `text` contains `name` by itself, not as a part of a longer name.
pub(crate) fn names(text: &str, name: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_' || c == '/';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(inside) && !text[at + name.len()..].starts_with(inside)
    })
}

/// One `order("id", ordering)` of the shipped code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Site {
    /// `algorithm/number`.
    pub(crate) id: String,
    /// `AcqRel` or another ordering; `None` if the argument is not a plain ordering.
    pub(crate) ordering: Option<String>,
    /// The line of the call.
    pub(crate) line: usize,
}

/// Returns every `order("id", ordering)` in `code`.
pub(crate) fn sites(code: &[Token<'_>]) -> Vec<Site> {
    let mut sites = Vec::new();
    for (at, token) in code.iter().enumerate() {
        let rest = &code[at..];
        if !starts_with(rest, &["order", "("]) || rest.get(2).is_none_or(|t| t.kind != Kind::Text) {
            continue;
        }
        let arguments = rest[3..].iter().take_while(|token| !token.is(")"));
        let arguments: Vec<&str> =
            arguments.filter(|token| !token.is(",")).map(|token| token.text).collect();
        let ordering = match arguments[..] {
            [ordering] | ["Ordering", ":", ":", ordering] => Some(ordering.to_owned()),
            _ => None,
        };
        sites.push(Site { id: rest[2].text.to_owned(), ordering, line: token.line });
    }
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { path: "core/src/sample.rs".into(), text: text.into() }
    }

    #[test]
    fn code_comments_and_strings_are_distinguished() {
        let source = source("let a = \"x // y\"; // z\nlet c = '\"'; /* d\n */ e");
        let code = source.code();
        let words = code.iter().filter(|token| token.kind == Kind::Word);
        assert_eq!(words.map(|t| t.text).collect::<Vec<_>>(), ["let", "a", "let", "c", "e"]);
        let text = code.iter().find(|token| token.kind == Kind::Text).unwrap();
        assert_eq!((text.text, text.line), ("x // y", 1));
        let comments = source.comments();
        assert_eq!(comments.iter().map(|t| t.line).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(code.last().map(|token| token.line), Some(3));
    }

    #[test]
    fn tests_do_not_ship() {
        let source = source(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { {} } }\n#[cfg(not(test))] fn c() {}\n\
             #[cfg(all(test, unix))] use d; fn e() {}",
        );
        let code = source.shipped_code();
        let has = |name: &str| code.iter().any(|token| token.is(name));
        assert!(has("a") && has("c") && has("e") && !has("b") && !has("d"));
        let tests = Source { path: "core/src/matching/tests.rs".into(), text: "fn a() {}".into() };
        assert!(tests.shipped_code().is_empty());
    }

    #[test]
    fn a_name_is_not_part_of_a_longer_one() {
        assert!(names("see `queue/1`.", "queue/1"));
        assert!(!names("see queue/10 and sub_queue/1", "queue/1"));
    }

    #[test]
    fn sites_are_found_across_lines() {
        let source = source(
            r#"a.swap(1, order("q/1", Ordering::AcqRel));
b.load(order(
    "q/2",
    Acquire,
));
c.load(order("q/3", pick(x))); fn order(_site: &str) {}"#,
        );
        let found: Vec<_> = sites(&source.code())
            .into_iter()
            .map(|site| (site.id, site.ordering, site.line))
            .collect();
        assert_eq!(
            found,
            [
                ("q/1".to_owned(), Some("AcqRel".to_owned()), 1),
                ("q/2".to_owned(), Some("Acquire".to_owned()), 2),
                ("q/3".to_owned(), None, 6),
            ]
        );
    }
}
