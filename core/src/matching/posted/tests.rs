//! The posted-receive queue alone. `matching/tests.rs` compares it with a model.

use super::*;
use crate::matching::{ANY_SOURCE, ANY_TAG, steps};
use crate::memory::counted::Counted;

const HELLO: Envelope = Envelope { context: 1, source: 2, tag: 3 };
const EXACT: Pattern = Pattern { context: 1, source: 2, tag: 3 };

#[test]
fn the_oldest_of_equal_receives_is_first() {
    Counted::lend(|memory| {
        let mut posted = PostedQueue::new(memory);
        for receive in 10..13 {
            posted.post(EXACT, receive).unwrap();
        }
        assert_eq!([(); 4].map(|()| posted.take(&HELLO)), [Some(10), Some(11), Some(12), None]);
        assert!(posted.is_empty());
    });
}

#[test]
fn the_time_of_posting_decides_between_wildcards() {
    Counted::lend(|memory| {
        let mut posted = PostedQueue::new(memory);
        let patterns = WildcardClass::ALL.map(|class| class.pattern(&HELLO));
        // Whichever class is posted first wins, for each of the four.
        for first in 0..patterns.len() {
            for step in 0..patterns.len() {
                let which = (first + step) % patterns.len();
                posted.post(patterns[which], which as u32).unwrap();
            }
            for step in 0..patterns.len() {
                let which = (first + step) % patterns.len();
                assert_eq!(posted.take(&HELLO), Some(which as u32));
            }
        }
        assert!(posted.is_empty());
    });
}

#[test]
fn other_messages_pass_by() {
    Counted::lend(|memory| {
        let mut posted = PostedQueue::new(memory);
        posted.post(EXACT, 1).unwrap();
        posted.post(Pattern { source: ANY_SOURCE, ..EXACT }, 2).unwrap();
        posted.post(Pattern { tag: ANY_TAG, ..EXACT }, 3).unwrap();
        assert_eq!(posted.take(&Envelope { context: 9, ..HELLO }), None);
        assert_eq!(posted.take(&Envelope { source: 9, tag: 9, ..HELLO }), None);
        assert_eq!(posted.take(&Envelope { tag: 9, ..HELLO }), Some(3));
        assert_eq!(posted.take(&Envelope { source: 9, ..HELLO }), Some(2));
        assert_eq!(posted.len(), 1);
    });
}

#[test]
fn a_cancelled_receive_takes_nothing() {
    Counted::lend(|memory| {
        let mut posted = PostedQueue::new(memory);
        let handles = [10, 11, 12].map(|receive| posted.post(EXACT, receive).unwrap());
        assert_eq!(posted.cancel(handles[1]), Some(11));
        assert_eq!(posted.cancel(handles[1]), None);
        assert_eq!([(); 3].map(|()| posted.take(&HELLO)), [Some(10), Some(12), None]);
    });
}

#[test]
fn a_walk_may_cancel_on_its_way() {
    Counted::lend(|memory| {
        let mut posted = PostedQueue::new(memory);
        for receive in 0..20 {
            posted.post(Pattern { source: receive % 2, ..EXACT }, receive).unwrap();
        }
        let mut from = 0;
        while let Some((handle, pattern, receive)) = posted.next_from(from) {
            from = handle + 1;
            if pattern.source == 1 {
                assert_eq!(posted.cancel(handle), Some(receive));
            }
        }
        assert!(posted.patterns().map(|(_, _, receive)| receive).eq((0..20).step_by(2)));
    });
}

#[test]
fn a_class_that_is_empty_again_costs_no_look_up() {
    Counted::lend(|memory| {
        let (mut fresh, mut used) = (PostedQueue::new(memory.clone()), PostedQueue::new(memory));
        for class in WildcardClass::ALL {
            used.post(class.pattern(&HELLO), 0).unwrap();
            used.take(&HELLO);
        }
        for class in WildcardClass::ALL {
            let handle = used.post(class.pattern(&HELLO), 0).unwrap();
            used.cancel(handle);
        }
        let steps = [&mut fresh, &mut used].map(|posted| {
            posted.post(EXACT, 1).unwrap();
            let (taken, steps) = steps::count(|| posted.take(&HELLO));
            assert_eq!(taken, Some(1));
            steps
        });
        assert_eq!(steps[0], steps[1]);
    });
}

#[test]
fn a_receive_takes_half_a_cache_line() {
    assert_eq!(size_of::<Option<ReceiveNode<Pattern, u32>>>(), crate::sync::CACHE_LINE / 2);
}

#[test]
fn the_first_receive_is_the_oldest_also_after_others_were_posted() {
    Counted::lend(|memory| {
        let mut posted = PostedQueue::new(memory.clone());
        memory.refuse(true);
        let handle = posted.post(EXACT, 1).unwrap();
        memory.refuse(false);
        assert_eq!((posted.first(), posted.len()), (Some((EXACT, 1)), 1));
        let any = Pattern { source: ANY_SOURCE, ..EXACT };
        let others = [(EXACT, 2), (any, 3)].map(|(pattern, it)| posted.post(pattern, it).unwrap());
        assert_eq!(posted.find(&HELLO), Some((handle, 1)));
        assert_eq!(posted.ahead_of(&EXACT), Ahead::Wildcard);
        assert!(posted.youngest_first(&EXACT).eq([(others[0], 2), (handle, 1)]));
        assert!(posted.patterns().map(|(_, _, it)| it).eq([1, 2, 3]));
        assert_eq!(posted.next_from(handle + 1).map(|(at, ..)| at), Some(others[0]));
        assert_eq!(posted.take_with(&HELLO, |_| None::<()>), Some(None), "it stays");
        assert_eq!(posted.cancel(handle), Some(1));
        let second = Some((EXACT, 2));
        assert_eq!((posted.cancel(handle), posted.first(), posted.len()), (None, second, 2));
        assert!(posted.post(EXACT, 4).unwrap() > others[1], "another pattern is in between");
        assert_eq!(posted.ahead_of(&EXACT), Ahead::Wildcard);
        assert!(posted.youngest_first(&EXACT).map(|(_, it)| it).eq([4, 2]));
        assert_eq!([(); 4].map(|()| posted.take(&HELLO)), [Some(2), Some(3), Some(4), None]);
        posted.post(any, 5).unwrap();
        assert_eq!(posted.first(), Some((any, 5)));
        assert_eq!(posted.ahead_of(&EXACT), Ahead::Wildcard);
        posted.take_first();
        assert!(posted.is_empty() && posted.take(&HELLO).is_none());
    });
}

#[test]
fn a_queue_with_a_barred_bypass_is_never_empty() {
    Counted::lend(|memory| {
        let mut posted = PostedQueue::new(memory);
        posted.allow_bypass(false);
        posted.allow_bypass(false);
        assert_eq!((posted.is_empty(), posted.len()), (false, 0));
        posted.post(EXACT, 1).unwrap();
        assert_eq!((posted.len(), posted.take(&HELLO)), (1, Some(1)));
        posted.allow_bypass(true);
        assert_eq!((posted.is_empty(), posted.len()), (true, 0));
        posted.post(EXACT, 2).unwrap();
        posted.allow_bypass(false);
        assert_eq!((posted.first(), posted.len()), (Some((EXACT, 2)), 1));
        posted.take_first();
        assert_eq!((posted.is_empty(), posted.len()), (false, 0));
    });
}
