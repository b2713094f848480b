//! What operations need: the world, and the datatypes of the program.

use strait::World;

use super::types::TypeCache;

/// The part of the front that knows no operation.
pub(crate) struct Base {
    pub(crate) types: TypeCache,
    pub(crate) world: World,
}
