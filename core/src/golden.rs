//! The golden table: the place of every field of every structure in a segment.
//!
//! An assert beside a structure states why a field lies where it does. The table states where all
//! fields lie, so that no field moves unnoticed between two versions. The table itself is in the
//! test and in `layout.golden`.

/// Enters the field offsets of a structure in the golden table. The structure is part of the
/// segment or of a packet.
macro_rules! structure {
    ($name:ident { $($field:ident),+ $(,)? }) => {
        #[cfg(all(test, not(strait_loom)))]
        impl crate::golden::Structure for $name {
            // The pattern must name every field, so the table does too.
            const NAME: &'static str = {
                let _every_field = |$name { $($field: _),+ }: &$name| ();
                stringify!($name)
            };


            fn fields() -> impl IntoIterator<Item = crate::golden::Field> {
                [$((stringify!($field), memoffset::span_of!($name, $field))),+]
            }
        }
    };
}
pub(crate) use structure;

/// A field's name and its byte range.
#[cfg(all(test, not(strait_loom)))]
pub(crate) type Field = (&'static str, core::ops::Range<usize>);

/// The entry that [`structure!`] makes.
#[cfg(all(test, not(strait_loom)))]
pub(crate) trait Structure: Sized {
    const NAME: &'static str;

    fn fields() -> impl IntoIterator<Item = Field>;
}
