//! Receives texts of any length from any rank.

use strait::{ANY_TAG, Error, Source, World};

fn main() -> Result<(), Error> {
    let world = World::init()?;
    let endpoint = world.endpoint();
    if world.rank() == 0 {
        for _ in 1..world.size() {
            let found = endpoint.probe(Source::Any, ANY_TAG)?;
            let mut text = vec![0_u8; found.bytes];
            endpoint.recv(&mut text[..], found.source, found.tag)?;
            println!("tag {}: {}", found.tag, String::from_utf8_lossy(&text));
        }
    } else {
        let text = format!("{} sheep", world.rank() * 100);
        endpoint.send(text.as_bytes(), 0, world.rank())?;
    }
    world.finalize()
}
