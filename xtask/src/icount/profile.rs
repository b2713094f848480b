//! Reads the number of calls of a function and their cost from a callgrind file.

/// Calls of a function, with the instructions spent in it and in all functions that it called.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Calls {
    /// Number of calls.
    pub(super) count: u64,
    /// Number of instructions, over all calls.
    pub(super) instructions: u64,
}

/// Returns the calls of `symbol` in the text of a callgrind file. If `caller` is given, only calls
/// by that function count. Returns `None` if the text is not in the format.
///
/// The lines after `fn=(7) name` are that function's own. A call there is written as `cfn=(8)
/// name`, `calls=COUNT …` and a line that ends in its inclusive cost. The name is given where the
/// number first occurs, in either place.
pub(super) fn calls(text: &str, symbol: &str, caller: Option<&str>) -> Option<Calls> {
    let mut total = Calls::default();
    let (mut number, mut caller_number) = (None, None);
    let (mut calling, mut called) = (None, None);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(function) = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn=")) {
            let (id, name) = function.split_once(' ').unwrap_or((function, ""));
            if name == symbol {
                number = Some(id);
            }
            if Some(name) == caller {
                caller_number = Some(id);
            }
            *(if line.starts_with('c') { &mut called } else { &mut calling }) = Some(id);
        } else if let Some(count) = line.strip_prefix("calls=") {
            let cost = lines.next()?;
            let is_by_caller = caller.is_none() || calling == caller_number;
            if called.is_some() && called == number && is_by_caller {
                total.count += count.split(' ').next()?.parse::<u64>().ok()?;
                total.instructions += cost.split(' ').next_back()?.parse::<u64>().ok()?;
            }
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "events: Ir
fn=(1) main
12 4
cfn=(2) send
calls=1000 +83
16 43774
cfn=(3) send_all
calls=5 +2
17 99
cfn=(2)
calls=10 -3
18 440

fn=(3)
20 7
cfn=(4) receive
calls=x
";

    #[test]
    fn every_call_of_the_function_counts_and_no_other() {
        let complete = PROFILE.split("cfn=(4)").next().unwrap();
        let sent = Calls { count: 1010, instructions: 44214 };
        assert_eq!(calls(complete, "send", None), Some(sent));
        assert_eq!(calls(complete, "send_all", None), Some(Calls { count: 5, instructions: 99 }));
        assert_eq!(calls(complete, "main", None), Some(Calls::default()));
    }

    #[test]
    fn of_a_caller_only_its_own_calls_count() {
        let text = "fn=(1) main\ncfn=(2) send\ncalls=1 0\n0 99\n\
                    cfn=(3) counted\ncalls=5 0\n0 300\n\n\
                    fn=(3)\n0 60\ncfn=(2)\ncalls=5 0\n0 240\n";
        let sent = Calls { count: 5, instructions: 240 };
        assert_eq!(calls(text, "send", Some("counted")), Some(sent));
        assert_eq!(calls(text, "send", Some("other")), Some(Calls::default()));
    }

    #[test]
    fn a_damaged_file_is_not_taken_for_an_empty_one() {
        assert_eq!(calls(PROFILE, "receive", None), None);
    }
}
