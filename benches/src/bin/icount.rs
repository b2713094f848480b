//! The program with the counted instructions. `docs/instruction-count.md` describes the method.
//!
//! It has two ranks in one process and one thread, so that a message has always arrived before its
//! receive starts. After a warm-up, each operation is called many times through a function of its
//! own, which callgrind counts.

use core::hint::black_box;

use strait::{Endpoint, Error, Tuning, World};

/// Number of warm-up calls, and of counted calls, of each operation.
const CALLS: u64 = 1000;

/// Defines a counted function with one line of code. The tags differ, because the compiler would
/// otherwise merge two equal functions.
macro_rules! counted {
    ($name:ident($($argument:ident: $type:ty),*) $call:expr) => {
        #[inline(never)]
        #[unsafe(no_mangle)]
        fn $name($($argument: $type),*) {
            if $call.is_err() {
                std::process::abort();
            }
        }
    };
}

/// Defines the counted functions for messages of one length, and a function that runs them.
/// `one_way` is a stream in one direction, through the fastbox. `answering` is between ranks that
/// answer each other, by the baton. Each message length has its own type. So the compiler produces
/// the same code for `send` and `recv` as in a program with one kind of message.
macro_rules! length {
    (
        $run:ident, $type:ty, $value:expr,
        one_way $send:ident $recv:ident $tag:literal,
        answering $send_baton:ident $recv_baton:ident $baton_tag:literal
    ) => {
        counted! { $send(endpoint: &Endpoint<'_>, data: &[$type; 1]) endpoint.send(data, 1, $tag) }
        counted! {
            $recv(endpoint: &Endpoint<'_>, data: &mut [$type; 1])
                endpoint.recv(data, 0, $tag)
        }
        counted! {
            $send_baton(endpoint: &Endpoint<'_>, data: &[$type; 1])
                endpoint.send(data, 1, $baton_tag)
        }
        counted! {
            $recv_baton(endpoint: &Endpoint<'_>, data: &mut [$type; 1])
                endpoint.recv(data, 0, $baton_tag)
        }

        fn $run(zero: &Endpoint<'_>, one: &Endpoint<'_>) -> Result<(), Error> {
            let mut received = [($value)(0)];
            for number in 0..2 * CALLS {
                let data = [($value)(number)];
                if number < CALLS {
                    zero.send(&data, 1, $tag)?;
                    one.recv(&mut received, 0, $tag)?;
                } else {
                    $send(black_box(zero), black_box(&data));
                    $recv(black_box(one), black_box(&mut received));
                }
                assert_eq!(received, data);
            }
            for number in 0..2 * CALLS {
                let data = [($value)(number)];
                if number < CALLS {
                    zero.send(&data, 1, $baton_tag)?;
                    one.recv(&mut received, 0, $baton_tag)?;
                } else {
                    $send_baton(black_box(zero), black_box(&data));
                    $recv_baton(black_box(one), black_box(&mut received));
                }
                assert_eq!(received, data);
                answer(zero, one)?;
            }
            Ok(())
        }
    };
}

length! {
    run_4, i32, |number: u64| number as i32,
    one_way strait_icount_send_4 strait_icount_recv_4 20,
    answering strait_icount_send_baton_4 strait_icount_recv_baton_4 21
}
length! {
    run_8, u64, |number: u64| number,
    one_way strait_icount_send_8 strait_icount_recv_8 22,
    answering strait_icount_send_baton_8 strait_icount_recv_baton_8 23
}
length! {
    run_16, u128, |number: u64| u128::from(number) << 60,
    one_way strait_icount_send_16 strait_icount_recv_16 24,
    answering strait_icount_send_baton_16 strait_icount_recv_baton_16 25
}
length! {
    run_48, [u64; 6], |number: u64| [number; 6],
    one_way strait_icount_send_48 strait_icount_recv_48 26,
    answering strait_icount_send_baton_48 strait_icount_recv_baton_48 27
}

counted! {
    // 64 bytes, which take two lines.
    strait_icount_send_medium(endpoint: &Endpoint<'_>, data: &[u32; 16]) endpoint.send(data, 1, 10)
}
counted! {
    strait_icount_recv_medium(endpoint: &Endpoint<'_>, data: &mut [u32; 16])
        endpoint.recv(data, 0, 10)
}

counted! {
    // Without the bypass of the posted-receive queue.
    strait_icount_recv_8_posted(endpoint: &Endpoint<'_>, data: &mut [u64; 1])
        endpoint.recv(data, 0, 28)
}

/// Sends an answer, so that the baton comes back.
fn answer(zero: &Endpoint<'_>, one: &Endpoint<'_>) -> Result<(), Error> {
    one.send(&[0_u64], 0, 9)?;
    zero.recv(&mut [0_u64], 1, 9)?;
    Ok(())
}

fn run_medium(zero: &Endpoint<'_>, one: &Endpoint<'_>) -> Result<(), Error> {
    let mut received = [0; 16];
    for number in 0..2 * CALLS {
        let data = [number as u32; 16];
        if number < CALLS {
            zero.send(&data, 1, 10)?;
            one.recv(&mut received, 0, 10)?;
        } else {
            strait_icount_send_medium(black_box(zero), black_box(&data));
            strait_icount_recv_medium(black_box(one), black_box(&mut received));
        }
        assert_eq!(received, data);
        answer(zero, one)?;
    }
    Ok(())
}

/// `one` receives without the bypass of the posted-receive queue.
fn run_posted(zero: &Endpoint<'_>, one: &Endpoint<'_>) -> Result<(), Error> {
    let mut received = [0];
    for number in 0..2 * CALLS {
        zero.send(&[number], 1, 28)?;
        if number < CALLS {
            one.recv(&mut received, 0, 28)?;
        } else {
            strait_icount_recv_8_posted(black_box(one), black_box(&mut received));
        }
        assert_eq!(received, [number]);
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let worlds = World::in_process(2)?;
    let [zero, one] = [worlds[0].endpoint(), worlds[1].endpoint()];
    run_8(&zero, &one)?;
    run_4(&zero, &one)?;
    run_16(&zero, &one)?;
    run_48(&zero, &one)?;
    run_medium(&zero, &one)?;
    worlds[1].retune(Tuning { bypass: false, ..worlds[1].tuning() });
    run_posted(&zero, &one)
}
