//! The table of variables.

use super::*;

#[test]
fn the_table_states_the_defaults_and_limits_that_hold() {
    assert_eq!(FASTBOX_MAX.default, Tuning::default().fastbox_max.to_string());
    assert_eq!(EAGER_MAX.default, Tuning::default().eager_max.to_string());
    assert_eq!(STREAM_MAX.default, Tuning::default().stream_max.to_string());
    assert!(PARCEL_MAX.default.contains(&Tuning::default().parcel_max.to_string()));
    assert_eq!(UNEXPECTED_MAX.default, Tuning::default().unexpected_max.to_string());
    assert_eq!(LMT.default, Tuning::default().transfer.name());
    assert_eq!(NET_LMT.default, Tuning::default().remote_transfer.name());
    let choices = HCA.expected.replace(" or ", ", ");
    let devices = choices.split(", ").filter(|text| !text.contains('['));
    assert!(devices.map(str::parse::<DeviceChoice>).all(|choice| choice.is_ok()), "{choices}");
    assert_eq!(RENDEZVOUS.default, Tuning::default().rendezvous.name());
    assert!(SoftMode::ALL.iter().all(|mode| HCA.expected.contains(mode.name())));
    assert!(HCA.default.starts_with(SoftMode::default().name()));
    assert_eq!(RING.default, ring().unwrap().name());
    assert_eq!(ACCUMULATE_MAX.default, accumulate_max().unwrap().to_string());
    assert_eq!(PACK_MAX.default, pack_max().unwrap().to_string());
    assert!(Design::ALL.iter().all(|design| RING.expected.contains(design.name())));
    assert!(Transfer::ALL.iter().all(|transfer| LMT.expected.contains(transfer.name())));
    assert!(RemoteTransfer::ALL.iter().all(|way| NET_LMT.expected.contains(way.name())));
    assert_eq!(WINDOW.default, WindowDesign::default().name());
    assert!(WindowDesign::ALL.iter().all(|it| WINDOW.expected.contains(it.name())));
    assert_eq!(WINDOW_LOCK.default, crate::LockDesign::default().name());
    assert!(crate::LockDesign::ALL.iter().all(|it| WINDOW_LOCK.expected.contains(it.name())));
    let names = Rendezvous::ALL.map(Rendezvous::name);
    assert!(names.iter().all(|name| RENDEZVOUS.expected.contains(name)));
    assert!(FASTBOX_MAX.expected.ends_with(&format!(" {FASTBOX_LENGTH_MAX}")));
}

#[test]
fn the_table_names_each_variable_once() {
    for (at, variable) in VARIABLES.iter().enumerate() {
        let owner =
            ["STRAIT_", "PMI_", "PMIX_"].iter().find(|owner| variable.name.starts_with(**owner));
        assert!(owner.is_some(), "{}", variable.name);
        assert!(VARIABLES[..at].iter().all(|earlier| earlier.name != variable.name));
    }
}
