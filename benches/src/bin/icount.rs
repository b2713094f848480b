//! The program whose instructions are counted: `docs/instruction-count.md` has the method.
//!
//! Two ranks in one process and one thread, so that a message has always arrived before its receive begins. After a
//! warm-up each operation is called many times through a function of its own, which callgrind counts.

use core::hint::black_box;

use strait::{Endpoint, World};

/// Calls before the counted ones, and counted calls of each operation.
const CALLS: u64 = 1000;

/// Makes a counted function of one line of code. The tags differ, or the compiler would make one function of two.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $call:expr) => {
        $(#[$doc])*
        #[inline(never)]
        #[unsafe(no_mangle)]
        fn $name($($argument: $type),*) {
            if $call.is_err() {
                std::process::abort();
            }
        }
    };
}

counted! {
    /// One blocking send of 8 bytes in a stream of messages one way: through the fastbox.
    strait_icount_send(endpoint: &Endpoint<'_>, data: &[u64; 1]) endpoint.send(data, 1, 7)
}
counted! {
    /// One blocking receive of such a message that has arrived.
    strait_icount_recv(endpoint: &Endpoint<'_>, data: &mut [u64; 1]) endpoint.recv(data, 0, 7)
}
counted! {
    /// One blocking send of 8 bytes between ranks that answer each other: by the baton.
    strait_icount_send_baton(endpoint: &Endpoint<'_>, data: &[u64; 1]) endpoint.send(data, 1, 8)
}
counted! {
    /// One blocking receive of such a message that has arrived.
    strait_icount_recv_baton(endpoint: &Endpoint<'_>, data: &mut [u64; 1]) endpoint.recv(data, 0, 8)
}

counted! {
    /// One blocking send of 64 bytes, which takes two lines.
    strait_icount_send_medium(endpoint: &Endpoint<'_>, data: &[u32; 16]) endpoint.send(data, 1, 10)
}
counted! {
    /// One blocking receive of such a message that has arrived.
    strait_icount_recv_medium(endpoint: &Endpoint<'_>, data: &mut [u32; 16]) endpoint.recv(data, 0, 10)
}

fn main() -> Result<(), strait::Error> {
    let worlds = World::in_process(2)?;
    let [zero, one] = [worlds[0].endpoint(), worlds[1].endpoint()];
    let mut received = [0];
    for number in 0..2 * CALLS {
        if number < CALLS {
            zero.send(&[number], 1, 7)?;
            one.recv(&mut received, 0, 7)?;
        } else {
            strait_icount_send(black_box(&zero), black_box(&[number]));
            strait_icount_recv(black_box(&one), black_box(&mut received));
        }
        assert_eq!(received, [number]);
    }
    for number in 0..2 * CALLS {
        if number < CALLS {
            zero.send(&[number], 1, 8)?;
            one.recv(&mut received, 0, 8)?;
        } else {
            strait_icount_send_baton(black_box(&zero), black_box(&[number]));
            strait_icount_recv_baton(black_box(&one), black_box(&mut received));
        }
        assert_eq!(received, [number]);
        one.send(&received, 0, 9)?;
        zero.recv(&mut received, 1, 9)?;
    }
    let mut received = [0; 16];
    for number in 0..2 * CALLS {
        let data = [number as u32; 16];
        if number < CALLS {
            zero.send(&data, 1, 10)?;
            one.recv(&mut received, 0, 10)?;
        } else {
            strait_icount_send_medium(black_box(&zero), black_box(&data));
            strait_icount_recv_medium(black_box(&one), black_box(&mut received));
        }
        assert_eq!(received, data);
        one.send(&[number as u32], 0, 9)?;
        zero.recv(&mut received[..1], 1, 9)?;
    }
    Ok(())
}
