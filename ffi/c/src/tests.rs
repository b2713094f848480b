//! Tests of `strait.h` as the C compiler sees it against the Rust side, and of panics.

mod short;

use core::ffi::CStr;
use core::mem::offset_of;
use std::fs;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::border::{CReduction, HandleArg};
use crate::contexts::CONTEXT_MAX;
use crate::entry::{enter, silence};
use crate::failure::{self, Code};
use crate::handle::Handle;
use crate::handlers::make_room;
use crate::knowledge::{CCounters, CInfo};
use crate::large::Cookie;
use crate::options::{ABI, COptions};
use crate::requests::CStatus;
use crate::store::CExchange;
use crate::transfer_method::{self, CSide, CTransferMethod};
use crate::windows::{
    CMembers, lock::CLockCounters as LockCounters, numbers::OPS, transfer::CRun, transfer::CShape,
};

/// Waits until no other test has worlds. A handle that a fuzzer makes up may lead to any world of
/// the process, and a world of another thread may not be used.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static WORLDS: Mutex<()> = Mutex::new(());
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns C expressions with their values in Rust.
fn expected() -> Vec<(String, i64)> {
    let mut all = Vec::new();
    let mut number = |expression: &str, value: usize| all.push((expression.into(), value as i64));
    macro_rules! structure {
        ($c:literal, $rust:ty, $($field:ident $(as $name:literal)?),*) => {
            number(concat!("sizeof(", $c, ")"), size_of::<$rust>());
            $({
                #[allow(unused_mut, unused_assignments, reason = "most names are the same")]
                let mut name = stringify!($field);
                $(name = $name;)?
                number(&format!("offsetof({}, {name})", $c), offset_of!($rust, $field));
            })*
        };
    }
    structure!("strait_status", CStatus, source, tag, bytes);
    structure!(
        "strait_options",
        COptions,
        size,
        log,
        log_context,
        yield_now as "yield",
        yield_context,
        exchange,
        watch_memory,
        watch_context
    );
    structure!(
        "strait_exchange",
        CExchange,
        size,
        rank,
        ranks,
        nodes,
        context,
        put,
        get,
        fence,
        abort
    );
    structure!("strait_cookie", Cookie, mark, sender, number, receiver, bytes);
    structure!("strait_transfer_side", CSide, id, peer, is_send, bytes, library);
    structure!(
        "strait_transfer_method",
        CTransferMethod,
        size,
        context,
        serves,
        pre_send,
        pre_recv,
        start_send,
        start_recv,
        handle_cookie,
        progress,
        post_send,
        post_recv
    );
    structure!(
        "strait_members",
        CMembers,
        size,
        ranks,
        count,
        context,
        single_accumulates,
        lock_design,
        lock_policy,
        lock_hysteresis,
        lock_backoff,
        lock_remembered,
        lock_cost_suiting,
        lock_cost_other,
        lock_cost_migration
    );
    structure!(
        "strait_lock_counters",
        LockCounters,
        size,
        mode,
        to_network,
        to_cpu,
        accesses,
        requests
    );
    structure!("strait_run", CRun, offset, length);
    structure!(
        "strait_reduction",
        CReduction,
        size,
        r#type as "type",
        op,
        function,
        context,
        element
    );
    structure!("strait_shape", CShape, count, block, stride, runs);
    structure!(
        "strait_info",
        CInfo,
        size,
        rank,
        ranks,
        node,
        nodes,
        fastbox_max,
        eager_max,
        parcel_max,
        unexpected_max,
        stream_max
    );
    structure!(
        "strait_counters",
        CCounters,
        size,
        unexpected_bytes,
        unexpected_peak,
        rtrs_sent,
        rtrs_retracted,
        rtrs_missed,
        rtrs_heard,
        rtrs_used,
        rtrs_stopped,
        registration_hits,
        registration_misses,
        registration_evictions,
        registration_invalidations
    );
    for handle in [
        "strait_world",
        "strait_request",
        "strait_message",
        "strait_window",
        "strait_vc",
        "strait_group",
    ] {
        number(&format!("sizeof({handle})"), size_of::<Handle>());
    }
    number("STRAIT_ABI", ABI as usize);
    number("STRAIT_CONTEXT_MAX", CONTEXT_MAX as usize);
    number("STRAIT_TAG_MAX", shim::TAG_MAX as usize);
    number("STRAIT_ANY_SOURCE", shim::raw::ANY_SOURCE as usize);
    number("STRAIT_ANY_TAG", shim::ANY_TAG as usize);
    for (code, name) in failure::NAMES {
        number(name.to_str().unwrap(), code as usize);
    }
    let names = [
        "SUM", "PROD", "MIN", "MAX", "LAND", "LOR", "LXOR", "BAND", "BOR", "BXOR", "REPLACE",
        "NO_OP",
    ];
    for (place, name) in names.iter().enumerate() {
        number(&format!("STRAIT_{name}"), place);
    }
    assert_eq!(OPS.len(), names.len());
    number("STRAIT_TRANSFER_COOKIE_MAX", shim::transfer_method::COOKIE_MAX);
    number("STRAIT_TRANSFER_OK", transfer_method::OK as usize);
    number("STRAIT_TRANSFER_WITHOUT_CTS", transfer_method::WITHOUT_CTS as usize);
    let names = ["WAITING", "MOVED", "DONE", "DONE_FOR_BOTH"];
    for (name, (answer, _)) in names.iter().zip(transfer_method::STEPS) {
        number(&format!("STRAIT_TRANSFER_{name}"), answer as usize);
    }
    for (place, design) in shim::LockDesign::ALL.iter().enumerate() {
        number(&format!("STRAIT_LOCK_{}", design.name().to_uppercase()), place + 1);
    }
    all
}

#[test]
fn c_and_rust_agree_on_layouts() {
    let expected = expected();
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("abi.c"), directory.path().join("abi"));
    let mut text = String::from("#include <stdio.h>\n#include \"strait.h\"\nint main(void)\n{\n");
    for (expression, _) in &expected {
        text += &format!("    printf(\"%lld\\n\", (long long)({expression}));\n");
    }
    text += "    return 0;\n}\n";
    fs::write(&source, text).unwrap();
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let mut compile = Command::new("cc");
    compile.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", include, "-o"]);
    assert!(compile.arg(&program).arg(&source).status().unwrap().success());
    let output = Command::new(&program).output().unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    let found: Vec<i64> = found.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(found.len(), expected.len());
    for ((expression, expected), found) in expected.iter().zip(found) {
        assert_eq!(found, *expected, "{expression}");
    }
}

#[test]
fn a_panic_is_an_error() {
    silence();
    let code = enter("strait_test", HandleArg::NULL, || panic!("on purpose"));
    assert_eq!(code, Code::Internal as i32);
    // SAFETY: the text belongs to this thread, and it ends with zero.
    let words = unsafe { CStr::from_ptr(failure::strait_error_message()) }.to_str().unwrap();
    assert!(words.starts_with("strait_test: a fault of this library"), "{words}");
    assert!(words.contains("on purpose") && words.contains("tests.rs"), "{words}");
}

#[test]
fn a_packet_that_finds_no_memory_is_an_error() {
    let mut packet = vec![7];
    make_room(&mut packet, 2).unwrap();
    assert_eq!(packet, [0, 0]);
    let failure = make_room(&mut packet, isize::MAX as usize).unwrap_err();
    assert_eq!(failure.code, Code::Memory);
}

#[test]
fn codes_are_numbered_without_gaps() {
    for (place, (code, _)) in failure::NAMES.iter().enumerate() {
        assert_eq!(*code as usize, place + 1);
    }
}
