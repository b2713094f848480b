//! Tests the client against scripted launchers, line by line, and against Strait's launcher.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use super::*;

/// Plays a launcher: it answers each expected line. Returns the result of `act`.
fn played<T: Send>(script: &[(&str, &str)], act: impl FnOnce(OwnedFd) -> T + Send) -> T {
    let (ours, theirs) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        let acting = scope.spawn(move || act(theirs.into()));
        let mut lines = BufReader::new(&ours).lines();
        for (question, answer) in script {
            assert_eq!(lines.next().unwrap().unwrap(), *question);
            (&ours).write_all(answer.as_bytes()).unwrap();
        }
        drop(lines);
        drop(ours);
        acting.join().unwrap()
    })
}

const INIT: (&str, &str) = (
    "cmd=init pmi_version=1 pmi_subversion=1",
    "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
);
/// Room for two digits behind the count.
const MAXES: (&str, &str) =
    ("cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=10 vallen_max=11\n");
const NAME: (&str, &str) = ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=kvs_1\n");
const FINALIZE: (&str, &str) = ("cmd=finalize", "cmd=finalize_ack rc=0\n");

fn begun<T: Send>(rest: &[(&str, &str)], act: impl FnOnce(&mut Client) -> T + Send) -> T {
    let script = [&[INIT, MAXES, NAME], rest].concat();
    played(&script, |socket| act(&mut Client::new(socket).unwrap()))
}

#[test]
fn fields_may_come_in_any_order_and_lines_in_pieces() {
    let script = [
        (INIT.0, "rc=0 pmi_subversion=1 pmi_version=1 cmd=response_to_init\n"),
        (MAXES.0, "vallen_max=1024 keylen_max=64 cmd=maxes kvsname_max=256\n"),
        (NAME.0, "\nkvsname=4711.0 cmd=my_kvsname\n"),
        ("cmd=barrier_in", "cmd=barrier_out\n"),
    ];
    played(&script, |socket| {
        let mut client = Client::new(socket).unwrap();
        assert_eq!((client.key_max, client.value_max, &*client.space), (63, 1023, "4711.0"));
        client.fence().unwrap();
    });
}

#[test]
fn a_session_may_begin_with_its_first_use() {
    let script = [INIT, MAXES, NAME, ("cmd=barrier_in", "cmd=barrier_out\n"), FINALIZE];
    played(&script, |socket| {
        let mut client = Client::later(socket);
        client.fence().unwrap();
        client.finalize().unwrap();
    });
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut unused = Client::later(theirs.into());
    unused.finalize().unwrap();
    assert_eq!(BufReader::new(ours).lines().count(), 0, "the launcher finds the end alone");
    assert_eq!(unused.fence(), Err(StoreError::Shut));
    assert_eq!(unused.finalize(), Ok(()), "a second call has no effect");
}

#[test]
fn a_missing_key_is_none_in_the_words_of_old_and_new_launchers() {
    let ask = "cmd=get kvsname=kvs_1 key=a";
    let script = [
        (ask, "cmd=get_result rc=1\n"),
        (ask, "cmd=get_result rc=-1 msg=key_a_not_found value=unknown\n"),
    ];
    begun(&script, |client| {
        assert_eq!(client.get("a"), Ok(None));
        assert_eq!(client.get("a"), Ok(None));
    });
}

#[test]
fn the_mapping_is_read_with_and_without_spaces() {
    let ask = "cmd=get kvsname=kvs_1 key=PMI_process_mapping";
    let script = [
        (ask, "cmd=get_result rc=0 msg=success value=(vector,(0,1,4))\n"),
        (ask, "cmd=get_result rc=0 value=(vector, (0,1,4))\n"),
        (ask, "cmd=get_result rc=1\n"),
    ];
    begun(&script, |client| {
        assert_eq!(client.mapping().unwrap().as_deref(), Some("(vector,(0,1,4))"));
        assert_eq!(client.mapping().unwrap().as_deref(), Some("(vector, (0,1,4))"));
        assert_eq!(client.mapping(), Ok(None));
    });
}

#[test]
fn a_long_value_goes_in_pieces() {
    let script = [
        ("cmd=put kvsname=kvs_1 key=k.1 value=0203040506", "cmd=put_result rc=0\n"),
        ("cmd=put kvsname=kvs_1 key=k.2 value=07", "cmd=put_result rc=0\n"),
        ("cmd=put kvsname=kvs_1 key=k value=3:01", "cmd=put_result rc=0\n"),
        ("cmd=get kvsname=kvs_1 key=k", "cmd=get_result rc=0 value=3:01\n"),
        ("cmd=get kvsname=kvs_1 key=k.1", "cmd=get_result rc=0 value=0203040506\n"),
        ("cmd=get kvsname=kvs_1 key=k.2", "cmd=get_result value=07 rc=0\n"),
        ("cmd=put kvsname=kvs_1 key=e value=1:", "cmd=put_result rc=0\n"),
        ("cmd=get kvsname=kvs_1 key=e", "cmd=get_result rc=0 value=1:\n"),
    ];
    begun(&script, |client| {
        client.put("k", &[1, 2, 3, 4, 5, 6, 7]).unwrap();
        assert_eq!(client.get("k"), Ok(Some(vec![1, 2, 3, 4, 5, 6, 7])));
        client.put("e", &[]).unwrap();
        assert_eq!(client.get("e"), Ok(Some(vec![])));
    });
}

#[test]
fn keys_that_the_launcher_cannot_carry_are_refused_before_any_command() {
    begun(&[], |client| {
        for key in ["", "0123456789", "a b", "a=b", "ä"] {
            let expected = StoreError::Key { key: key.into(), max: 9 };
            assert_eq!(client.put(key, b""), Err(expected.clone()));
            assert_eq!(client.get(key), Err(expected.clone()));
            assert!(expected.to_string().contains("at most 9 bytes"));
        }
        let with_its_number = client.put("01234567", &[0; 7]);
        assert!(matches!(with_its_number, Err(StoreError::Key { .. })), "{with_its_number:?}");
    });
}

#[test]
fn what_makes_no_sense_is_named_with_the_question() {
    let (command, answer) = ("init", "good morning".to_owned());
    let error = played(&[(INIT.0, "good morning\n")], |socket| Client::new(socket).unwrap_err());
    assert_eq!(error, StoreError::Malformed { command, answer });
    let refused = "cmd=response_to_init rc=-1 pmi_version=2 pmi_subversion=0";
    let error =
        played(&[(INIT.0, &format!("{refused}\n"))], |socket| Client::new(socket).unwrap_err());
    assert_eq!(error, StoreError::Refused { command: "init", answer: refused.into() });
    let error =
        played(&[INIT, (MAXES.0, "cmd=maxes rc=0 keylen_max=0 vallen_max=1024\n")], |socket| {
            Client::new(socket).unwrap_err()
        });
    assert!(matches!(error, StoreError::Malformed { command: "get_maxes", .. }), "{error}");
    let endless = "x".repeat(100_000);
    let error = played(&[(INIT.0, &endless)], |socket| Client::new(socket).unwrap_err());
    assert!(matches!(error, StoreError::Malformed { command: "init", .. }), "{error}");
    for value in ["", "1", "x:00", "1:0", "1:0g", "2:00"] {
        let first = format!("cmd=get_result rc=0 value={value}\n");
        let script = [
            ("cmd=get kvsname=kvs_1 key=k", &*first),
            ("cmd=get kvsname=kvs_1 key=k.1", "cmd=get_result rc=1\n"),
        ];
        let script = &script[..if value == "2:00" { 2 } else { 1 }];
        let error = begun(script, |client| client.get("k").unwrap_err());
        assert!(matches!(error, StoreError::Malformed { command: "get", .. }), "{value}: {error}");
    }
}

#[test]
fn a_launcher_that_goes_away_is_an_error() {
    let error = played(&[INIT], |socket| Client::new(socket).unwrap_err());
    assert_eq!(error, StoreError::Closed { command: "get_maxes" });
}

#[test]
fn to_finalize_twice_is_to_finalize_once() {
    begun(&[("cmd=finalize", "cmd=finalize_ack\n")], |client| {
        assert_eq!(client.finalize(), Ok(()));
        assert_eq!(client.finalize(), Ok(()));
        assert_eq!(client.fence(), Err(StoreError::Shut));
    });
}

#[test]
fn an_abort_is_sent_and_not_answered() {
    begun(&[("cmd=abort exitcode=7", "")], |client| client.abort(7));
}

#[test]
fn a_silent_launcher_is_an_error_and_no_hang() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let limit = Duration::from_millis(5);
    let error = Client::with_limit(theirs.into(), limit).unwrap_err();
    assert_eq!(error, StoreError::Silent { command: "init", seconds: 0 });
    drop(ours);
}

/// Other ranks may take any time to come to a barrier.
#[test]
fn a_barrier_is_waited_for_without_an_end() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let begun = Client { begun: true, ..Client::later(theirs.into()) };
            Client { limit: Duration::ZERO, ..begun }.fence()
        });
        let mut line = String::new();
        BufReader::new(&ours).read_line(&mut line).unwrap();
        (&ours).write_all(b"cmd=barrier_out\n").unwrap();
        waiting.join().unwrap().unwrap();
    });
}
