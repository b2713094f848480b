//! Tests of the values that are read from variables.

use super::*;

#[test]
fn a_good_value_is_parsed() {
    assert_eq!(RANK.parse::<u32>(OsStr::new("7"), |&rank| rank < 8).unwrap(), 7);
}

#[test]
fn a_bad_value_is_named_with_what_is_expected() {
    for bad in ["", "x", "-1", " 3", "8", "99999999999"] {
        let error = RANK.parse::<u32>(OsStr::new(bad), |&rank| rank < 8).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("STRAIT_RANK"), "{text}");
        assert!(text.contains(&format!("{bad:?}")), "{text}");
        assert!(text.contains(RANK.expected), "{text}");
    }
}

#[test]
fn an_unset_variable_is_none() {
    let unset = Variable { name: "STRAIT_NO_SUCH_VARIABLE", ..RANK };
    assert_eq!(unset.read::<u32>(|_| true).unwrap(), None);
}
