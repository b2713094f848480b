//! Reads which code a run executed from a callgrind file with instructions (`--dump-instr=yes`).

use std::collections::{BTreeMap, BTreeSet};

/// Sizes of a cache line and of a page, in bytes.
const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// The code that ran at least a given number of times, by object.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Code {
    /// Number of times that each instruction ran, by object and address.
    instructions: BTreeMap<(String, u64), u64>,
    /// Functions with the instructions that ran in each, over the whole run, by object.
    pub(super) functions: BTreeMap<(String, String), u64>,
}

impl Code {
    /// Returns the instructions that ran at least `least` times, or `None` if the text is not in
    /// the format.
    ///
    /// A line of costs is `ADDRESS LINE COUNT`. An address may be given as its distance from the
    /// one before, and is `*` when it is the same. Objects and functions have a number, and a name
    /// where the number first occurs. The line after `calls=` holds costs that are counted
    /// elsewhere.
    pub(super) fn parse(text: &str, least: u64) -> Option<Self> {
        let mut counts: BTreeMap<(String, u64), (u64, String)> = BTreeMap::new();
        let (mut objects, mut functions) = (BTreeMap::new(), BTreeMap::new());
        let (mut object, mut function) = (String::new(), String::new());
        let (mut address, mut is_call) = (0_u64, false);
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("ob=") {
                object = resolve(&mut objects, name);
            } else if let Some(name) = line.strip_prefix("cob=") {
                resolve(&mut objects, name);
            } else if let Some(name) = line.strip_prefix("fn=") {
                function = resolve(&mut functions, name);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                resolve(&mut functions, name);
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if line.starts_with(['+', '-', '*']) || line.starts_with("0x") {
                let mut words = line.split(' ');
                address = follow(address, words.next()?)?;
                let count = words.next_back()?.parse::<u64>().ok()?;
                if !core::mem::take(&mut is_call) {
                    let entry = counts.entry((object.clone(), address)).or_default();
                    entry.0 += count;
                    entry.1.clone_from(&function);
                }
            }
        }
        let mut code = Self::default();
        for ((object, address), (count, function)) in counts {
            if count >= least {
                *code.functions.entry((object.clone(), function)).or_default() += count;
                code.instructions.insert((object, address), count);
            }
        }
        Some(code)
    }

    /// Keeps only the objects with names that `is_ours` accepts.
    pub(super) fn of(mut self, is_ours: impl Fn(&str) -> bool) -> Self {
        self.instructions.retain(|(object, _), _| is_ours(object));
        self.functions.retain(|(object, _), _| is_ours(object));
        self
    }

    /// Returns the number of cache lines in which instructions begin.
    pub(super) fn lines(&self) -> usize {
        self.pieces(LINE)
    }

    /// Returns the number of pages in which instructions begin.
    pub(super) fn pages(&self) -> usize {
        self.pieces(PAGE)
    }

    fn pieces(&self, bytes: u64) -> usize {
        let pieces = self.instructions.keys().map(|(object, address)| (object, address / bytes));
        pieces.collect::<BTreeSet<_>>().len()
    }
}

/// Returns the name that a number stands for: `(7) name` or `(7)`.
fn resolve(names: &mut BTreeMap<String, String>, text: &str) -> String {
    match text.split_once(' ') {
        Some((number, name)) => {
            names.insert(number.to_owned(), name.to_owned());
            name.to_owned()
        }
        None => names.get(text).cloned().unwrap_or_default(),
    }
}

/// Returns the address that `word` gives, relative to the preceding address `before`.
fn follow(before: u64, word: &str) -> Option<u64> {
    let number = |digits: &str| match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    };
    match word.split_at_checked(1)? {
        ("*", "") => Some(before),
        ("+", distance) => before.checked_add(number(distance)?),
        ("-", distance) => before.checked_sub(number(distance)?),
        _ => number(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "events: Ir
ob=(1) /lib/a.so
fn=(1) send
0x103c 0 500
+4 0 500
cob=(2) /lib/libc.so.6
cfn=(2) memcpy
calls=500 0x2000 0
* 0 9000
+3 0 2
0x2000 12 499

ob=(2)
fn=(2)
0x2000 0 800
-1 0 500
";

    #[test]
    fn lines_and_pages_are_those_of_what_ran_often() {
        let code = Code::parse(PROFILE, 500).unwrap();
        assert_eq!((code.lines(), code.pages()), (4, 3));
        assert_eq!(code.functions[&("/lib/a.so".into(), "send".into())], 1000);
        assert_eq!(code.functions[&("/lib/libc.so.6".into(), "memcpy".into())], 1300);
        let ours = code.of(|object| object == "/lib/a.so");
        assert_eq!((ours.lines(), ours.pages()), (2, 1));
        assert_eq!(
            Code::parse(PROFILE, 499).unwrap().of(|object| object == "/lib/a.so").pages(),
            2
        );
    }

    #[test]
    fn a_damaged_file_is_not_taken_for_one_that_touches_nothing() {
        assert_eq!(Code::parse("fn=(1) send\n0xzz 0 1\n", 1), None);
        assert_eq!(Code::parse("fn=(1) send\n+4 0 x\n", 1), None);
    }
}
