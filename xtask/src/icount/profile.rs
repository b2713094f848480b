//! The one thing that is read from a callgrind file: how often a function was called, and what that cost.

/// Calls of a function and the instructions spent in it and in everything that it called.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Calls {
    /// Number of calls.
    pub(super) count: u64,
    /// Instructions, over all calls.
    pub(super) instructions: u64,
}

/// The calls of `symbol` in the text of a callgrind file; `None` if the text is not in the format.
///
/// A call is written as `cfn=(7) name`, `calls=COUNT …` and a line that ends in its inclusive cost. The name is given
/// where the number first occurs, which may be where the function is the caller: `fn=(7) name`.
pub(super) fn calls(text: &str, symbol: &str) -> Option<Calls> {
    let mut total = Calls::default();
    let mut number = None;
    let mut called = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(function) = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn=")) {
            let (id, name) = function.split_once(' ').unwrap_or((function, ""));
            if name == symbol {
                number = Some(id);
            }
            if line.starts_with('c') {
                called = Some(id);
            }
        } else if let Some(count) = line.strip_prefix("calls=") {
            let cost = lines.next()?;
            if called.is_some() && called == number {
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
        assert_eq!(calls(complete, "send"), Some(sent));
        assert_eq!(calls(complete, "send_all"), Some(Calls { count: 5, instructions: 99 }));
        assert_eq!(calls(complete, "main"), Some(Calls::default()));
    }

    #[test]
    fn a_damaged_file_is_not_taken_for_an_empty_one() {
        assert_eq!(calls(PROFILE, "receive"), None);
    }
}
