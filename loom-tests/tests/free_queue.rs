//! The free queue: cells return while their owner rewrites those that returned before.

use strait_core::layout::CellIndex;
use strait_loom_tests::{Arc, Owner, Pool, model, thread};

/// The values that returners read and that the owner writes over them.
const OLD: u64 = 1;
const NEW: u64 = 2;

/// Lets `returners` ranks return `each` cells of one owner. Meanwhile the owner polls `looks` times
/// and overwrites the cells that it finds.
fn return_cells(returners: u32, each: u32, looks: u32) {
    let count = (returners * each) as usize;
    let pool = Arc::new(Pool::new(1, returners * each));
    let mut owner = Owner::new(&pool, 0);
    let cells: Vec<CellIndex> = core::iter::from_fn(|| owner.take(&pool)).collect();
    for cell in &cells {
        pool.write(*cell, 0, OLD);
    }
    let threads: Vec<_> = cells
        .chunks(each as usize)
        .map(|share| {
            let (pool, share) = (Arc::clone(&pool), share.to_vec());
            thread::spawn(move || {
                for cell in share {
                    assert_eq!(pool.read(cell), (0, OLD), "overwritten before it was returned");
                    pool.give_back(cell);
                }
            })
        })
        .collect();
    let mut back = Vec::new();
    let mut look = || {
        if let Some(cell) = owner.take(&pool) {
            assert!(!back.contains(&cell), "cell {} came back twice", cell.raw());
            pool.write(cell, 0, NEW);
            back.push(cell);
        }
    };
    for _ in 0..looks {
        look();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    for _ in 0..=count {
        look();
    }
    assert_eq!(back.len(), count, "cells lost");
}

#[test]
fn two_returners_lose_no_cell() {
    model(|| return_cells(2, 2, 2));
}

#[test]
fn three_returners_meet_at_the_top() {
    model(|| return_cells(3, 1, 1));
}
