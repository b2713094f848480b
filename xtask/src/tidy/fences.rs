//! Allows `SeqCst` only in fences. As the ordering of an access it hides which edge is meant, and
//! loom does not model it.

use super::{Finding, Repository};
use crate::source::{Kind, Token};

pub(super) fn findings(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in repository.core() {
        let code = source.shipped_code();
        for (at, token) in code.iter().enumerate() {
            if token.is("SeqCst") && !is_allowed(&code[..at]) {
                findings.push(Finding {
                    file: source.path.clone(),
                    line: token.line,
                    problem:
                        "SeqCst on an access: name the edge with Acquire and Release, or write \
                              `fence(SeqCst)` with its reason"
                            .into(),
                });
            }
        }
    }
    findings
}

/// Returns whether `SeqCst` may follow this code: in `fence(` or `compiler_fence(`, in
/// `fence(order("id", `, and in a `use`.
fn is_allowed(before: &[Token<'_>]) -> bool {
    let statement = before.iter().rposition(|token| token.is(";")).map_or(0, |at| at + 1);
    if before[statement..].iter().any(|token| token.is("use")) {
        return true;
    }
    let before = match before {
        [rest @ .., ordering, a, b] if ordering.is("Ordering") && a.is(":") && b.is(":") => rest,
        _ => before,
    };
    let before = match before {
        [rest @ .., order, open, id, comma]
            if order.is("order") && open.is("(") && id.kind == Kind::Text && comma.is(",") =>
        {
            rest
        }
        _ => before,
    };
    matches!(before, [.., fence, open]
        if (fence.is("fence") || fence.is("compiler_fence")) && open.is("("))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{file, lines};
    use super::*;

    #[test]
    fn an_access_may_not_be_seq_cst() {
        let text =
            "fn a() {\n    b.load(SeqCst);\n    b.store(1, order(\"b/1\", Ordering::SeqCst));\n}";
        let found = findings(&file("core/src/a.rs", text));
        assert_eq!(lines(&found, "SeqCst on an access"), [2, 3]);
        assert_eq!(findings(&file("shim/strait/src/a.rs", text)), [], "the rule is the core's");
    }

    #[test]
    fn a_fence_may() {
        let text = "use crate::sync::Ordering::{Acquire, SeqCst};\nfn a() { fence(SeqCst); \
                    compiler_fence(Ordering::SeqCst); fence(order(\"a/1\", SeqCst)); }";
        assert_eq!(findings(&file("core/src/a.rs", text)), []);
    }
}
