//! Atomic operations on remote memory, and the format of the requests for them.

use core::ffi::c_void;
use core::ptr;

use crate::abi::{CqEntry, flag};
use crate::buffer::UserBuffer;
use crate::numbers::{Form, element_bytes};
use crate::operation::OperationKind;
use crate::wire::ProviderHead;

/// Maximum size of one operand in bytes.
pub(crate) const ATOMIC_MAX: usize = 4096;

/// Size in bytes of the part of a request before its operands.
const REQUEST: usize = 16;

/// Size in bytes of the parts of a request before its operands, with the head of the message.
pub(super) const BEFORE_OPERANDS: usize = ProviderHead::BYTES + REQUEST;

/// Maximum size of a request in bytes.
pub(super) const REQUEST_MAX: usize = BEFORE_OPERANDS + 2 * ATOMIC_MAX;

/// Maximum size of an answer in bytes.
pub(super) const ANSWER_MAX: usize = ProviderHead::BYTES + ATOMIC_MAX;

/// An atomic operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    pub(crate) form: Form,
    pub(crate) datatype: u32,
    pub(crate) operator: u32,
    pub(crate) rank: u32,
    /// The address of the first element in the owner's process.
    pub(crate) address: u64,
    /// The owner's key of the region.
    pub(crate) key: u64,
    pub(crate) context: *mut c_void,
    /// No completion entry is written.
    pub(crate) quiet: bool,
}

/// An operation without its answer yet.
#[derive(Debug)]
pub(super) struct PendingAtomic {
    pub(super) number: u64,
    pub(super) atomic: Atomic,
    pub(super) result: UserBuffer,
}

impl Atomic {
    pub(super) const fn op(&self) -> OperationKind {
        match self.form {
            Form::Write => OperationKind::Write,
            Form::Fetch | Form::Compare => OperationKind::Read,
        }
    }

    /// Returns the completion entry of the operation, which returned `len` bytes.
    pub(super) const fn entry(&self, len: usize) -> CqEntry {
        let direction = match self.form {
            Form::Write => flag::WRITE,
            Form::Fetch | Form::Compare => flag::READ,
        };
        let (op_context, flags) = (self.context, flag::ATOMIC | direction);
        CqEntry { op_context, flags, len, buf: ptr::null_mut(), data: 0, tag: 0 }
    }
}

/// A request for an atomic operation, behind the head of its message.
///
/// | offset | size | field      | meaning                             |
/// |-------:|-----:|------------|-------------------------------------|
/// |      0 |    1 | `datatype` | libfabric's number                  |
/// |      1 |    1 | `operator` | libfabric's number                  |
/// |      2 |    1 | `form`     | [`Form`]                            |
/// |      4 |    4 | `count`    | elements                            |
/// |      8 |    8 | `key`      | the owner's key of the region       |
/// |     16 |      | `operands` | `count` elements                    |
/// |        |      | `compare`  | as many, for [`Form::Compare`] only |
#[derive(Clone, Copy, Debug)]
pub(super) struct AtomicRequest<'a> {
    pub(super) datatype: u32,
    pub(super) operator: u32,
    pub(super) form: Form,
    pub(super) key: u64,
    pub(super) operands: &'a [u8],
    pub(super) compare: &'a [u8],
}

impl<'a> AtomicRequest<'a> {
    /// Writes all but the operands of a request for `count` elements.
    pub(super) fn write(atomic: &Atomic, count: usize, to: &mut [u8; REQUEST]) {
        to[..4].copy_from_slice(&[
            atomic.datatype as u8,
            atomic.operator as u8,
            atomic.form as u8,
            0,
        ]);
        to[4..8].copy_from_slice(&(count as u32).to_le_bytes());
        to[8..].copy_from_slice(&atomic.key.to_le_bytes());
    }

    /// Parses bytes that another process wrote. Returns `None` for a request that no provider
    /// sends.
    pub(super) fn parse(body: &'a [u8]) -> Option<Self> {
        let (&[datatype, operator, form, _], body) = body.split_first_chunk()?;
        let (count, body) = body.split_first_chunk()?;
        let (key, operands) = body.split_first_chunk()?;
        let (datatype, operator) = (u32::from(datatype), u32::from(operator));
        let form = Form::parse(form)?;
        let bytes = usize::try_from(u32::from_le_bytes(*count)).ok()?;
        let bytes = bytes.checked_mul(element_bytes(datatype, operator, form)?)?;
        let expected = if form == Form::Compare { 2 * bytes } else { bytes };
        if bytes > ATOMIC_MAX || operands.len() != expected {
            return None;
        }
        let (operands, compare) = operands.split_at(bytes);
        let key = u64::from_le_bytes(*key);
        Some(Self { datatype, operator, form, key, operands, compare })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_back_and_a_damaged_one_is_refused() {
        let (form, datatype, operator) = (Form::Compare, 7, 12);
        let atomic = Atomic {
            form,
            datatype,
            operator,
            rank: 0,
            address: 0,
            key: 1 << 40,
            context: ptr::null_mut(),
            quiet: false,
        };
        let mut bytes = [0; REQUEST + 32];
        bytes[REQUEST..].copy_from_slice(&core::array::from_fn::<u8, 32, _>(|place| place as u8));
        let mut write = |count| {
            AtomicRequest::write(&atomic, count, bytes.first_chunk_mut().unwrap());
            bytes
        };
        let whole = write(2);
        let request = AtomicRequest::parse(&whole).unwrap();
        assert_eq!((request.form, request.key), (form, 1 << 40));
        assert_eq!((request.operands[15], request.compare[0]), (15, 16));
        for count in [0, 1, 3, u32::MAX as usize] {
            assert!(AtomicRequest::parse(&write(count)).is_none(), "{count} elements");
        }
        assert!(AtomicRequest::parse(&whole[..REQUEST - 1]).is_none());
    }
}
