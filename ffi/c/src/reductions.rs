//! Collective operations that combine the members' vectors.

use core::ffi::c_int;
use core::ops::Range;

use shim::raw::{Operator, RawBlocks, TypedOperator};
use shim::{Error, Group, Number};

use crate::border::{
    ActOnNumbers, ArrayArg, BufferArg, CReduction, CountArg, DataArg, HandleArg, StructInArg,
    Typed, no_place,
};
use crate::failure::{Called, Failure};
use crate::groups::with;
use crate::windows::numbers::op;

/// How the members share the result.
#[derive(Clone, Copy)]
enum Sharing<'call> {
    /// The root has it.
    Root(u32),
    All,
    /// Each member has as many elements as the call counts.
    Block,
    /// Each member has its number of elements.
    Blocks(&'call [usize]),
    /// Each member has the combination up to its place.
    Scan,
    /// Each member has the combination before its place.
    Exscan,
}

/// A reduction.
struct VectorReduction<'call> {
    group: &'call Group<'static>,
    own: DataArg<'call>,
    result: BufferArg<'call>,
    count: CountArg,
    sharing: Sharing<'call>,
}

/// A reduction of numbers.
struct OfNumbers<'call> {
    reduction: VectorReduction<'call>,
    op: c_int,
}

impl ActOnNumbers for OfNumbers<'_> {
    type Done = ();

    fn act<T: Number>(self, _: Typed<T>) -> Called {
        let op = TypedOperator::<T, _>::new(op(self.op)?).map_err(Error::from)?;
        self.reduction.run(&op, align_of::<T>())
    }
}

impl VectorReduction<'_> {
    fn call(
        call: &'static str,
        group: HandleArg<'_>,
        (own, result): (DataArg<'_>, BufferArg<'_>),
        count: CountArg,
        sharing: Sharing<'_>,
        reduction: StructInArg<'_, CReduction>,
    ) -> c_int {
        with(call, group, |group| {
            VectorReduction { group, own, result, count, sharing }.perform(reduction)
        })
    }

    /// Reduces by the function or the operation that C names.
    fn perform(self, reduction: StructInArg<'_, CReduction>) -> Called {
        let reduction = reduction.read()?.ok_or_else(no_place)?;
        match reduction.function()? {
            Some(function) => self.run(&function, 1),
            None => reduction.r#type.dispatch(OfNumbers { reduction: self, op: reduction.op }),
        }
    }

    /// Reduces vectors that lie on multiples of `align`.
    fn run(self, op: &dyn Operator, align: usize) -> Called {
        let Self { group, own, result, count, sharing } = self;
        let element = op.element();
        let bytes = bytes(count.get(), element)?;
        match sharing {
            Sharing::Root(root) => {
                let at_root = group.place() == root;
                let result = at_root.then(|| result.lend(bytes, align)).transpose()?;
                own.lend(bytes, align)?.reduce(group, result, op, root)?;
            }
            Sharing::All => {
                own.lend(bytes, align)?.allreduce(group, result.lend(bytes, align)?, op)?;
            }
            Sharing::Scan => {
                own.lend(bytes, align)?.scan(group, result.lend(bytes, align)?, op)?;
            }
            Sharing::Exscan => {
                own.lend(bytes, align)?.exscan(group, result.lend(bytes, align)?, op)?;
            }
            Sharing::Block => {
                let counts = vec![count.get(); group.ranks().len()];
                Self { group, own, result, count, sharing }.scatter(&counts, op, align)?;
            }
            Sharing::Blocks(counts) => {
                Self { group, own, result, count, sharing }.scatter(counts, op, align)?;
            }
        }
        Ok(())
    }

    fn scatter(self, counts: &[usize], op: &dyn Operator, align: usize) -> Called {
        let element = op.element();
        let mut end = 0_usize;
        let mut blocks = Vec::<Range<usize>>::new();
        for count in counts {
            let start = end;
            end = start.saturating_add(bytes(*count, element)?.get());
            blocks.push(start..end);
        }
        let own = self.own.lend(CountArg::of(end), align)?;
        let block = blocks[self.group.place() as usize].len();
        let room = if self.own.is_in_place() { end } else { block };
        let result = self.result.lend(CountArg::of(room), align)?;
        Ok(own.reduce_scatter(self.group, result, RawBlocks::Ranges(&blocks), op)?)
    }
}

/// Returns the bytes of `count` elements.
fn bytes(count: usize, element: usize) -> Called<CountArg> {
    let text = || format!("{count} elements of {element} bytes: more than there are addresses");
    let bytes = count.checked_mul(element).filter(|bytes| *bytes <= isize::MAX as usize);
    bytes.map(CountArg::of).ok_or_else(|| Failure::argument(text()))
}

#[unsafe(no_mangle)]
extern "C" fn strait_reduce(
    group: HandleArg<'_>,
    own: DataArg<'_>,
    result: BufferArg<'_>,
    count: CountArg,
    reduction: StructInArg<'_, CReduction>,
    root: u32,
) -> c_int {
    let sharing = Sharing::Root(root);
    VectorReduction::call("strait_reduce", group, (own, result), count, sharing, reduction)
}

#[unsafe(no_mangle)]
extern "C" fn strait_allreduce(
    group: HandleArg<'_>,
    own: DataArg<'_>,
    result: BufferArg<'_>,
    count: CountArg,
    reduction: StructInArg<'_, CReduction>,
) -> c_int {
    let sharing = Sharing::All;
    VectorReduction::call("strait_allreduce", group, (own, result), count, sharing, reduction)
}

#[unsafe(no_mangle)]
extern "C" fn strait_reduce_scatter_block(
    group: HandleArg<'_>,
    own: DataArg<'_>,
    result: BufferArg<'_>,
    count: CountArg,
    reduction: StructInArg<'_, CReduction>,
) -> c_int {
    let sharing = Sharing::Block;
    VectorReduction::call(
        "strait_reduce_scatter_block",
        group,
        (own, result),
        count,
        sharing,
        reduction,
    )
}

#[unsafe(no_mangle)]
extern "C" fn strait_reduce_scatter(
    group: HandleArg<'_>,
    own: DataArg<'_>,
    result: BufferArg<'_>,
    counts: ArrayArg<'_, usize>,
    reduction: StructInArg<'_, CReduction>,
) -> c_int {
    with("strait_reduce_scatter", group, |open| {
        let counts = counts.slice(CountArg::of(open.ranks().len()))?;
        let (sharing, count) = (Sharing::Blocks(counts), CountArg::of(0));
        VectorReduction { group: open, own, result, count, sharing }.perform(reduction)
    })
}

#[unsafe(no_mangle)]
extern "C" fn strait_scan(
    group: HandleArg<'_>,
    own: DataArg<'_>,
    result: BufferArg<'_>,
    count: CountArg,
    reduction: StructInArg<'_, CReduction>,
) -> c_int {
    let sharing = Sharing::Scan;
    VectorReduction::call("strait_scan", group, (own, result), count, sharing, reduction)
}

#[unsafe(no_mangle)]
extern "C" fn strait_exscan(
    group: HandleArg<'_>,
    own: DataArg<'_>,
    result: BufferArg<'_>,
    count: CountArg,
    reduction: StructInArg<'_, CReduction>,
) -> c_int {
    let sharing = Sharing::Exscan;
    VectorReduction::call("strait_exscan", group, (own, result), count, sharing, reduction)
}
