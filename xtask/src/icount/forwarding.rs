//! Searches calls of the C interface for reads that wait for earlier writes.
//!
//! A processor gives a read the bytes of a write that has not reached the cache yet, if that write
//! has all of them. A read of more than that waits until the write, and every write before it, has
//! reached the cache. After the lines of a message, which are in another core's cache, that takes
//! longer than all instructions of the call. valgrind's lackey shows each access.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use crate::shell::Shell;
use crate::stop::Stop;

/// Number of writes that a processor holds back, as far as the search goes: Zen 3 has 64, and
/// later ones and Intel's a few more.
const WRITES: usize = 64;

/// Number of instructions after which a write has reached the cache.
const INSTRUCTIONS: u64 = 250;

/// Calls in which some reads wait, with the largest number of them. All others have none.
/// A parcel is filled first, and its head is made after that.
const KNOWN: [(&str, f64); 2] = [("send_8192", 2.0), ("isend_8192", 2.0)];

/// A counted function of the program.
#[derive(Debug)]
struct Function {
    name: String,
    begin: u64,
    end: u64,
    calls: u64,
    waits: u64,
}

/// An access to memory.
#[derive(Clone, Copy, Debug)]
struct Access {
    begin: u64,
    end: u64,
}

impl Access {
    /// Parses the text of lackey: an address in hexadecimal, and a number of bytes.
    fn parse(text: &str) -> Option<Self> {
        let (begin, bytes) = text.trim().split_once(',')?;
        let begin = u64::from_str_radix(begin, 16).ok()?;
        Some(Self { begin, end: begin + bytes.parse::<u64>().ok()? })
    }
}

/// Traces `benches/forwarding.c`, and returns an error for a call in which more reads wait than is
/// known.
pub(super) fn check(shell: &Shell, prefix: &Path) -> Result<(), Stop> {
    // Its functions lie where `nm` says.
    let program = super::link_c(shell, prefix, "forwarding", "-no-pie")?;
    let symbols = shell.step("nm", "--print-size --defined-only").arg(&program).stdout()?;
    let trace = prefix.join("forwarding.trace");
    shell
        .step("valgrind", "--tool=lackey --trace-mem=yes")
        .arg(format!("--log-file={}", trace.display()))
        .arg(&program)
        .output()?;
    let file = File::open(&trace).map_err(|error| Stop::io(&trace, &error))?;
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let functions = search(functions(&symbols), lines);
    // The trace has a line for each access.
    let _ = std::fs::remove_file(&trace);
    verdict(&functions)
}

/// Returns the counted functions among the symbols that `nm` prints.
fn functions(symbols: &str) -> Vec<Function> {
    let function = |line: &str| {
        let mut words = line.split(' ');
        let number = |word: Option<&str>| u64::from_str_radix(word?, 16).ok();
        let (begin, size) = (number(words.next())?, number(words.next())?);
        let name = words.nth(1)?;
        let name = if name == "main" { name } else { name.strip_prefix("forwarding_")? };
        // The compiler moves the end of the program after a failure to a function of its own.
        if name.ends_with(".cold") {
            return None;
        }
        Some(Function { name: name.to_owned(), begin, end: begin + size, calls: 0, waits: 0 })
    };
    symbols.lines().filter_map(function).collect()
}

/// Counts the reads that wait in each function, and in what it calls.
fn search(mut functions: Vec<Function>, trace: impl Iterator<Item = String>) -> Vec<Function> {
    let mut writes: VecDeque<(Access, u64)> = VecDeque::with_capacity(WRITES);
    let (mut instruction, mut current) = (0, None);
    for line in trace {
        let Some((kind, text)) = line.split_at_checked(2) else { continue };
        let Some(access) = Access::parse(text) else { continue };
        if kind == "I " {
            instruction += 1;
            let is_here =
                |function: &Function| (function.begin..function.end).contains(&access.begin);
            if let Some(place) = functions.iter().position(is_here) {
                functions[place].calls += u64::from(functions[place].begin == access.begin);
                current = Some(place);
            }
            continue;
        }
        let overlaps =
            |(write, _): &&(Access, u64)| write.begin < access.end && access.begin < write.end;
        if kind != " S"
            && let Some((write, written)) = writes.iter().find(overlaps)
            && instruction - written <= INSTRUCTIONS
            && !(write.begin <= access.begin && access.end <= write.end)
            && let Some(place) = current
        {
            functions[place].waits += 1;
        }
        if kind != " L" {
            writes.truncate(WRITES - 1);
            writes.push_front((access, instruction));
        }
    }
    functions.retain(|function| function.name != "main");
    functions
}

fn verdict(functions: &[Function]) -> Result<(), Stop> {
    if functions.is_empty() || functions.iter().any(|function| function.calls == 0) {
        return Err(Stop::Failed(format!("some calls were not traced: {functions:?}")));
    }
    let mut bad = Vec::new();
    for Function { name, calls, waits, .. } in functions {
        let most = KNOWN.iter().find(|(known, _)| known == name).map_or(0.0, |(_, most)| *most);
        // The first calls take other paths, and so does one in several later ones.
        let each = *waits as f64 / *calls as f64;
        if each > most + 0.5 {
            bad.push(format!("{name}: {each:.1} where {most:.1} are known"));
        }
    }
    if bad.is_empty() {
        return Ok(());
    }
    Err(Stop::Failed(format!(
        "reads of a call that wait for narrower writes (docs/instruction-count.md): {}",
        bad.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "0000000000401000 0000000000000010 T forwarding_send_8\n\
                           0000000000401010 0000000000000020 T main\n\
                           0000000000401030 0000000000000020 t forwarding_send_8.cold\n";

    fn waits(accesses: &str) -> Result<u64, Stop> {
        let trace = format!("I  00401010,4\nI  00401000,4\n{accesses}");
        let functions = search(functions(SYMBOLS), trace.lines().map(str::to_owned));
        verdict(&functions).map(|()| functions[0].waits)
    }

    #[test]
    fn a_read_of_more_than_was_written_waits() {
        assert_eq!(waits(" S 1000,8\nI  05000000,4\n L 1000,8\n").ok(), Some(0));
        assert_eq!(waits(" S 1000,8\n L 1004,4\n L 1010,16\n").ok(), Some(0));
        assert!(waits(" S 1000,8\n S 1008,8\nI  05000000,4\n L 1000,16\n").is_err());
        assert!(waits(" S 1000,1\n M 1000,4\n").is_err());
    }

    #[test]
    fn a_write_long_ago_holds_nothing_up() {
        let between = "I  05000000,4\n".repeat(INSTRUCTIONS as usize + 1);
        assert_eq!(waits(&format!(" S 1000,1\n{between} L 1000,4\n")).ok(), Some(0));
    }

    #[test]
    fn what_the_program_does_itself_is_not_counted() {
        assert_eq!(waits("I  00401014,4\n S 1000,1\n L 1000,4\n").ok(), Some(0));
        assert!(search(functions(SYMBOLS), core::iter::empty()).iter().all(|one| one.calls == 0));
    }
}
