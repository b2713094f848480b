//! Checks that the functions of the fast path lie together, and that this reduces the memory they
//! touch.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::profile::Code;
use crate::shell::Shell;
use crate::stop::Stop;

/// Rounds of `linker/hot.c` under callgrind. Code that runs in fewer than half of them does not
/// count.
const ROUNDS: u64 = 1000;

/// The least share of the executed instructions, in percent, that lies in the section of the fast
/// path.
const TOGETHER_MIN: f64 = 90.0;

/// Returns the patterns of a linker script that match none of `functions`.
pub(super) fn stale(script: &str, functions: &BTreeSet<String>) -> Vec<String> {
    let mut patterns = patterns(script).peekable();
    if patterns.peek().is_none() {
        return vec!["anything".into()];
    }
    let is_stale = |pattern: &&str| !functions.iter().any(|function| matches(pattern, function));
    patterns.filter(is_stale).map(str::to_owned).collect()
}

/// Returns the patterns for names of functions: `*(.text.PATTERN)`.
fn patterns(script: &str) -> impl Iterator<Item = &str> {
    script.lines().filter_map(|line| line.trim().strip_prefix("*(.text.")?.strip_suffix(')'))
}

/// Returns whether `name` matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    loop {
        if matches(rest, name) {
            return true;
        }
        let mut letters = name.chars();
        if letters.next().is_none() {
            return false;
        }
        name = letters.as_str();
    }
}

/// The memory that one program touches in one library.
#[derive(Clone, Copy, Debug)]
struct Touched {
    lines: usize,
    pages: usize,
}

/// Runs the programs of the fast path with two libraries: `hot` has the fast path together, `plain`
/// has the compiler's order. Prints what each touches, and fails unless `hot` touches less.
///
/// The lines of all programs count together. A function that starts on any 16 bytes may by chance
/// fit into a line less than one that starts on a line, and few functions run in the first program.
pub(super) fn compare(shell: &Shell, hot: &Path, plain: &Path) -> Result<(), Stop> {
    let program = compile(shell)?;
    let (mut lines_together, mut lines_apart) = (0, 0);
    println!("{:<34} {:>14} {:>14}", "code that 8 bytes run through", "together", "as it comes");
    for (calls, name) in [("pairs", "send, receive"), ("calls", "with isend, irecv, test, wait")] {
        let code = run(shell, &program, hot, calls)?;
        let outside = check_together(&code, calls)?;
        let together = touched(&code);
        let apart = touched(&run(shell, &program, plain, calls)?);
        let figures = |of: fn(Touched) -> usize| (of(together), of(apart));
        for (what, (hot, plain)) in
            [("lines", figures(|code| code.lines)), ("pages", figures(|code| code.pages))]
        {
            println!("{:<34} {hot:>14} {plain:>14}", format!("{name}: {what}"));
        }
        if !outside.is_empty() {
            println!("not in hot.ld: {}", outside.join(", "));
        }
        if together.pages > apart.pages {
            return Err(Stop::Failed(format!(
                "{calls}: with hot.ld {together:?}, without {apart:?}: the layout does not help"
            )));
        }
        lines_together += together.lines;
        lines_apart += apart.lines;
    }
    if lines_together >= lines_apart {
        return Err(Stop::Failed(format!(
            "cache lines: with hot.ld {lines_together}, without {lines_apart}: the layout does not \
             help"
        )));
    }
    Ok(())
}

fn touched(code: &Code) -> Touched {
    Touched { lines: code.lines(), pages: code.pages() }
}

/// Returns the functions that run outside the section of the fast path. Callgrind knows the object
/// of these functions only.
fn check_together(code: &Code, calls: &str) -> Result<Vec<String>, Stop> {
    let is_outside = |object: &str| object.ends_with(super::SONAME);
    let all: u64 = code.functions.values().sum();
    let outside = code.functions.iter().filter(|((object, _), _)| is_outside(object));
    let (names, counts): (Vec<String>, Vec<u64>) =
        outside.map(|((_, function), count)| (function.clone(), *count)).unzip();
    let inside = all - counts.iter().sum::<u64>();
    if all == 0 || inside as f64 * 100.0 < TOGETHER_MIN * all as f64 {
        let names = names.join(", ");
        return Err(Stop::Failed(format!(
            "{calls}: {inside} of {all} instructions lie together, {TOGETHER_MIN} % should: add to \
             linker/hot.ld what runs elsewhere: {names}"
        )));
    }
    Ok(names)
}

fn compile(shell: &Shell) -> Result<PathBuf, Stop> {
    let program = super::folder(shell)?.join("hot-program");
    shell
        .step("cc", "-std=c99 -Wall -Wextra -Werror -O2 -Iffi/c/include linker/hot.c -ldl -o")
        .arg(&program)
        .output()?;
    Ok(program)
}

/// Returns the code of the library that runs in every round.
fn run(shell: &Shell, program: &Path, library: &Path, calls: &str) -> Result<Code, Stop> {
    let file = super::folder(shell)?.join("callgrind.out");
    let arguments = "--tool=callgrind --quiet --demangle=no --dump-instr=yes --collect-atstart=no \
                     --toggle-collect=measured";
    shell
        .step("valgrind", arguments)
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .arg(calls)
        .arg(library)
        .arg("8")
        .output()?;
    let text = std::fs::read_to_string(&file).map_err(|error| Stop::io(&file, &error))?;
    let code = Code::parse(&text, ROUNDS / 2)
        .ok_or_else(|| Stop::Failed("callgrind's file cannot be read".into()))?;
    // Valgrind reports no object for code outside `.text`. The program and the C library have no
    // such code.
    Ok(code.of(|object| object.ends_with(super::SONAME) || object == "???"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_function_is_stale() {
        let script = "/* *(.text.of_a_comment) */\n .text.hot : {\n  \
                      *(.text.strait_send)\n  *(.text.*4core*4send*)\n}";
        let function = |name: &str| name.to_owned();
        let both = BTreeSet::from(["strait_send", "_ZN4core3shm4send17h01E"].map(function));
        assert_eq!(stale(script, &both), [""; 0]);
        let renamed = BTreeSet::from(["strait_send_now", "_ZN4core3shm4sent17h01E"].map(function));
        assert_eq!(stale(script, &renamed), ["strait_send", "*4core*4send*"]);
        assert_eq!(stale("SECTIONS {}", &both).len(), 1, "a script that lays out nothing");
    }

    #[test]
    fn stars_are_for_any_text() {
        assert!(matches("a*b*", "ab") && matches("a*b*", "axxbyy") && matches("*", ""));
        assert!(!matches("a*b", "abc") && !matches("a*b", "ba") && !matches("a", "ab"));
    }
}
