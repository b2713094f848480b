//! Barriers of nodes of several processes in virtual time: the orders of `[Nemesis07]` figure 4.

use strait_sim::barrier::{BarrierDesign, barrier};

#[test]
fn leaders_send_fewer_messages_between_nodes() {
    let times = [1, 2, 4, 8].map(|nodes| {
        let both = [BarrierDesign::Messages, BarrierDesign::Leaders]
            .map(|design| barrier(design, nodes, 4) / 1e3);
        println!("{nodes} nodes of 4  messages, leaders  {both:.2?} µs");
        both
    });
    assert!(times.iter().all(|[messages, leaders]| leaders < messages));
    let [one, .., eight] = times;
    assert!(one[0] > 1.5 * one[1], "four lines, and not two rounds of messages");
    assert!(eight[0] > 1.5 * eight[1], "three rounds, and not five");
    assert!(eight[1] > 2.5 * times[1][1], "each doubling of the nodes adds a round");
}
