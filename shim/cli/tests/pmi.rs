//! Tests of `strait run` as a PMI-1 launcher for programs without Strait: shells that speak the
//! protocol line by line, as its transcripts have it.

use core::time::Duration;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// Bash functions for each rank: `ask` sends a line and prints the answer, `field` finds a value in
/// it.
const LANGUAGE: &str = r#"
ask() { echo "$*" >&$PMI_FD; IFS= read -r answer <&$PMI_FD || { echo "hung up at: $*"; exit 9; }; }
field() { for word in $answer; do case $word in "$1="*) echo "${word#*=}";; esac; done; }
expect() {
  test "$(field "$1")" = "$2" || { echo "rank $PMI_RANK: $1 is not $2 in: $answer"; exit 8; }
}
hello() {
  ask cmd=init pmi_version=1 pmi_subversion=1; expect cmd response_to_init; expect rc 0
  ask cmd=get_maxes; expect cmd maxes; expect keylen_max 64; expect vallen_max 1024
  ask cmd=get_my_kvsname; expect rc 0; space=$(field kvsname)
}
put() { ask "cmd=put kvsname=$space key=$1 value=$2"; expect cmd put_result; }
get() { ask "cmd=get kvsname=$space key=$1"; expect cmd get_result; }
barrier() { ask cmd=barrier_in; expect cmd barrier_out; }
goodbye() { ask cmd=finalize; expect cmd finalize_ack; }
"#;

/// Runs `script` as each rank. A job that hangs is killed, and the test fails.
fn ranks(options: &[&str], script: &str) -> Output {
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_strait"))
        .arg("run")
        .args(options)
        .args(["bash", "-c", &format!("{LANGUAGE}\n{script}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while launcher.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            launcher.kill().unwrap();
            let output = launcher.wait_with_output().unwrap();
            panic!("the job hung: {}", String::from_utf8_lossy(&output.stdout));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    launcher.wait_with_output().unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[track_caller]
fn assert_well(output: &Output) {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn ranks_get_the_values_of_other_ranks() {
    let output = ranks(
        &["-n", "3"],
        r#"hello
           put card-$PMI_RANK "business_card:$PMI_RANK=$PMI_SIZE"; expect rc 0
           barrier
           get card-$(( (PMI_RANK + 1) % PMI_SIZE )); expect rc 0
           echo "$PMI_RANK got $(field value)"
           barrier
           goodbye"#,
    );
    assert_well(&output);
    let expected =
        ["0 got business_card:1=3", "1 got business_card:2=3", "2 got business_card:0=3"];
    assert_eq!(lines(&output), expected);
}

#[test]
fn the_nodes_are_in_the_store() {
    let script = "hello; get PMI_process_mapping; field value; goodbye";
    for (nodes, expected) in [("1", "(vector,(0,1,5))"), ("2", "(vector,(0,1,3),(1,1,2))")] {
        let output = ranks(&["-n", "5", "--nodes", nodes], script);
        assert_well(&output);
        assert_eq!(lines(&output), [expected; 5]);
    }
}

#[test]
fn a_missing_key_is_an_answer_and_a_bad_one_too() {
    let output = ranks(
        &["-n", "1"],
        r#"hello
           get nothing; expect rc -1
           put $(printf 'k%.0s' {1..64}) x; expect rc -1
           put k $(printf 'v%.0s' {1..1024}); expect rc -1
           put $(printf 'k%.0s' {1..63}) $(printf 'v%.0s' {1..1023}); expect rc 0
           put twice 1; expect rc 0; put twice 2; expect rc -1
           get twice; expect value 1
           ask cmd=get_universe_size; expect size 1
           ask cmd=get_appnum; expect appnum 0
           ask cmd=dance; expect rc -1
           goodbye"#,
    );
    assert_well(&output);
}

#[test]
fn an_abort_ends_the_job_with_its_code() {
    // Some ranks end themselves with their own code, and some wait to be ended.
    for then in ["exit 3", "exit 0", "sleep 1000"] {
        for options in [&["-n", "3"][..], &["-n", "3", "--keep-going"], &["-n", "2"]] {
            let script = format!(
                "hello
                 test $PMI_RANK = 1 && {{ echo cmd=abort exitcode=7 >&$PMI_FD; {then}; }}
                 barrier; sleep 1000"
            );
            let output = ranks(options, &script);
            assert_eq!(output.status.code(), Some(7), "{then}: {output:?}");
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.contains("rank 1 ") && text.contains("aborted the job"), "{text}");
        }
    }
}

#[test]
fn a_wait_for_a_missing_rank_ends_with_an_error() {
    let output = ranks(
        &["-n", "3"],
        r#"test $PMI_RANK = 2 && exit 0
           hello; barrier; expect rc -1; echo "$PMI_RANK: $(field msg)""#,
    );
    assert_well(&output);
    assert_eq!(lines(&output), ["0: rank_2_has_ended", "1: rank_2_has_ended"]);
}

#[test]
fn nonsense_does_no_harm() {
    let output = ranks(
        &["-n", "2"],
        r#"if test $PMI_RANK = 0; then
             head -c 100000 /dev/zero >&$PMI_FD 2>/dev/null; exit 0
           fi
           echo >&$PMI_FD; echo "rc=0 x" >&$PMI_FD
           hello; goodbye"#,
    );
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn info_says_how_it_was_started() {
    let info = format!("exec {} info --json", env!("CARGO_BIN_EXE_strait"));
    let output = ranks(&["-n", "3", "--nodes", "2"], &info);
    assert_well(&output);
    let said = lines(&output);
    for (name, value, ranks) in [
        ("launcher", "strait run", 3),
        ("node", "0", 2),
        ("node", "1", 1),
        ("rank", "2", 1),
        ("nodes", "3 ranks on 2 nodes: 0-1, 2", 3),
    ] {
        let fact = format!(r#""section":"start","name":"{name}","value":"{value}""#);
        let found = said.iter().filter(|line| line.contains(&fact)).count();
        assert_eq!(found, ranks, "{fact}: {said:?}");
    }
}

#[test]
fn more_nodes_than_ranks_are_refused() {
    let output = ranks(&["-n", "2", "--nodes", "3"], "true");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("2 ranks cannot fill 3 nodes"), "{text}");
}
