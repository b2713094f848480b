//! Tests that compare the layouts with those of the headers of `libfabric-dev`.

use core::fmt::Write as _;
use core::mem::{offset_of, size_of};
use std::process::Command;

use super::*;

/// Lines that a C program prints, and the expected lines: sizes of structures, offsets of fields.
struct Lines {
    ours: String,
    c: String,
}

impl Lines {
    fn size(&mut self, name: &str, size: usize) {
        writeln!(self.ours, "{name} {size}").unwrap();
        writeln!(self.c, "printf(\"{name} %zu\\n\", sizeof(struct {name}));").unwrap();
    }

    fn offset(&mut self, name: &str, field: &str, offset: usize) {
        writeln!(self.ours, "{name}.{field} {offset}").unwrap();
        let of = format!("offsetof(struct {name}, {field})");
        writeln!(self.c, "printf(\"{name}.{field} %zu\\n\", {of});").unwrap();
    }

    fn number(&mut self, name: &str, number: u64) {
        writeln!(self.ours, "{name} {number}").unwrap();
        let value = format!("(unsigned long long)({name})");
        writeln!(self.c, "printf(\"{name} %llu\\n\", {value});").unwrap();
    }
}

/// Adds a structure and its fields. The C name follows a field if it differs from the Rust name.
macro_rules! structure {
    ($lines:ident, $type:ident = $c:literal, $($field:ident $(= $name:literal)?),*) => {
        $lines.size($c, size_of::<$type>());
        $($lines.offset($c, [$($name,)? stringify!($field)][0], offset_of!($type, $field));)*
    };
}

macro_rules! numbers {
    ($lines:ident, $($path:path = $c:literal),* $(,)?) => {
        $($lines.number($c, $path as u64);)*
    };
}

fn structures(lines: &mut Lines) {
    structure!(lines, Fid = "fid", fclass, context, ops);
    structure!(
        lines,
        FiInfo = "fi_info",
        next,
        caps,
        mode,
        addr_format,
        src_addrlen,
        dest_addrlen,
        src_addr,
        dest_addr,
        handle,
        tx_attr,
        rx_attr,
        ep_attr,
        domain_attr,
        fabric_attr,
        nic
    );
    structure!(
        lines,
        TxAttr = "fi_tx_attr",
        caps,
        mode,
        op_flags,
        msg_order,
        comp_order,
        inject_size,
        size,
        iov_limit,
        rma_iov_limit,
        tclass
    );
    structure!(
        lines,
        RxAttr = "fi_rx_attr",
        caps,
        mode,
        op_flags,
        msg_order,
        comp_order,
        total_buffered_recv,
        size,
        iov_limit
    );
    structure!(
        lines,
        EpAttr = "fi_ep_attr",
        kind = "type",
        protocol,
        protocol_version,
        max_msg_size,
        msg_prefix_size,
        max_order_raw_size,
        max_order_war_size,
        max_order_waw_size,
        mem_tag_format,
        tx_ctx_cnt,
        rx_ctx_cnt,
        auth_key_size,
        auth_key
    );
    structure!(
        lines,
        DomainAttr = "fi_domain_attr",
        domain,
        name,
        threading,
        control_progress,
        data_progress,
        resource_mgmt,
        av_type,
        mr_mode,
        mr_key_size,
        cq_data_size,
        cq_cnt,
        ep_cnt,
        tx_ctx_cnt,
        rx_ctx_cnt,
        max_ep_tx_ctx,
        max_ep_rx_ctx,
        max_ep_stx_ctx,
        max_ep_srx_ctx,
        cntr_cnt,
        mr_iov_limit,
        caps,
        mode,
        auth_key,
        auth_key_size,
        max_err_data,
        mr_cnt,
        tclass
    );
    structure!(
        lines,
        FabricAttr = "fi_fabric_attr",
        fabric,
        name,
        prov_name,
        prov_version,
        api_version
    );
    structure!(
        lines,
        AvAttr = "fi_av_attr",
        kind = "type",
        rx_ctx_bits,
        count,
        ep_per_node,
        name,
        map_addr,
        flags
    );
    structure!(
        lines,
        CqAttr = "fi_cq_attr",
        size,
        flags,
        format,
        wait_obj,
        signaling_vector,
        wait_cond,
        wait_set
    );
    structure!(lines, CntrAttr = "fi_cntr_attr", events, wait_obj, wait_set, flags);
    structure!(
        lines,
        MrAttr = "fi_mr_attr",
        mr_iov,
        iov_count,
        access,
        offset,
        requested_key,
        context,
        auth_key_size,
        auth_key,
        iface,
        device
    );
    structure!(lines, CqEntry = "fi_cq_tagged_entry", op_context, flags, len, buf, data, tag);
    structure!(
        lines,
        CqErrEntry = "fi_cq_err_entry",
        olen,
        err,
        prov_errno,
        err_data,
        err_data_size
    );
    structure!(lines, Msg = "fi_msg", msg_iov, desc, iov_count, addr, context, data);
    structure!(
        lines,
        MsgTagged = "fi_msg_tagged",
        msg_iov,
        desc,
        iov_count,
        addr,
        tag,
        ignore,
        context,
        data
    );
    structure!(lines, RmaIov = "fi_rma_iov", addr, len, key);
    structure!(
        lines,
        MsgRma = "fi_msg_rma",
        msg_iov,
        desc,
        iov_count,
        addr,
        rma_iov,
        rma_iov_count,
        context,
        data
    );
    structure!(lines, Ioc = "fi_ioc", addr, count);
    structure!(lines, RmaIoc = "fi_rma_ioc", addr, count, key);
    structure!(
        lines,
        MsgAtomic = "fi_msg_atomic",
        msg_iov,
        desc,
        iov_count,
        addr,
        rma_iov,
        rma_iov_count,
        datatype,
        op,
        context,
        data
    );
    structure!(lines, AtomicAttr = "fi_atomic_attr", count, size);
}

fn tables(lines: &mut Lines) {
    structure!(lines, Ops = "fi_ops", close, bind, control, ops_open, tostr, ops_set);
    structure!(
        lines,
        OpsFabric = "fi_ops_fabric",
        domain,
        passive_ep,
        eq_open,
        wait_open,
        trywait,
        domain2
    );
    structure!(
        lines,
        OpsDomain = "fi_ops_domain",
        av_open,
        cq_open,
        endpoint,
        scalable_ep,
        cntr_open,
        poll_open,
        stx_ctx,
        srx_ctx,
        query_atomic,
        query_collective,
        endpoint2
    );
    structure!(lines, OpsMr = "fi_ops_mr", reg, regv, regattr);
    structure!(
        lines,
        OpsAv = "fi_ops_av",
        insert,
        insertsvc,
        insertsym,
        remove,
        lookup,
        straddr,
        av_set
    );
    structure!(
        lines,
        OpsCq = "fi_ops_cq",
        read,
        readfrom,
        readerr,
        sread,
        sreadfrom,
        signal,
        strerror
    );
    structure!(lines, OpsCntr = "fi_ops_cntr", read, readerr, add, set, wait, adderr, seterr);
    structure!(lines, OpsEq = "fi_ops_eq", read, readerr, write, sread, strerror);
    structure!(
        lines,
        OpsEp = "fi_ops_ep",
        cancel,
        getopt,
        setopt,
        tx_ctx,
        rx_ctx,
        rx_size_left,
        tx_size_left
    );
    structure!(
        lines,
        OpsCm = "fi_ops_cm",
        setname,
        getname,
        getpeer,
        connect,
        listen,
        accept,
        reject,
        shutdown,
        join
    );
    structure!(
        lines,
        OpsMsg = "fi_ops_msg",
        recv,
        recvv,
        recvmsg,
        send,
        sendv,
        sendmsg,
        inject,
        senddata,
        injectdata
    );
    structure!(
        lines,
        OpsTagged = "fi_ops_tagged",
        recv,
        recvv,
        recvmsg,
        send,
        sendv,
        sendmsg,
        inject,
        senddata,
        injectdata
    );
    structure!(
        lines,
        OpsRma = "fi_ops_rma",
        read,
        readv,
        readmsg,
        write,
        writev,
        writemsg,
        inject,
        writedata,
        injectdata
    );
    structure!(
        lines,
        Provider = "fi_provider",
        version,
        fi_version,
        context,
        name,
        getinfo,
        fabric,
        cleanup
    );
}

fn constants(lines: &mut Lines) {
    numbers!(
        lines,
        flag::MSG = "FI_MSG",
        flag::RMA = "FI_RMA",
        flag::TAGGED = "FI_TAGGED",
        flag::ATOMIC = "FI_ATOMIC",
        flag::FETCH_ATOMIC = "FI_FETCH_ATOMIC",
        flag::COMPARE_ATOMIC = "FI_COMPARE_ATOMIC",
        flag::READ = "FI_READ",
        flag::WRITE = "FI_WRITE",
        flag::RECV = "FI_RECV",
        flag::SEND = "FI_SEND",
        flag::REMOTE_READ = "FI_REMOTE_READ",
        flag::REMOTE_WRITE = "FI_REMOTE_WRITE",
        flag::MULTI_RECV = "FI_MULTI_RECV",
        flag::REMOTE_CQ_DATA = "FI_REMOTE_CQ_DATA",
        flag::PEEK = "FI_PEEK",
        flag::CLAIM = "FI_CLAIM",
        flag::DISCARD = "FI_DISCARD",
        flag::COMPLETION = "FI_COMPLETION",
        flag::INJECT = "FI_INJECT",
        flag::DELIVERY_COMPLETE = "FI_DELIVERY_COMPLETE",
        flag::MATCH_COMPLETE = "FI_MATCH_COMPLETE",
        flag::LOCAL_COMM = "FI_LOCAL_COMM",
        flag::REMOTE_COMM = "FI_REMOTE_COMM",
        flag::PROV_ATTR_ONLY = "FI_PROV_ATTR_ONLY",
        flag::SOURCE = "FI_SOURCE",
        flag::DIRECTED_RECV = "FI_DIRECTED_RECV",
        flag::SELECTIVE_COMPLETION = "FI_SELECTIVE_COMPLETION",
        flag::EVENT = "FI_EVENT",
        errno::ETOOSMALL = "FI_ETOOSMALL",
        errno::EAVAIL = "FI_EAVAIL",
        errno::ETRUNC = "FI_ETRUNC",
        errno::ENOAV = "FI_ENOAV",
        class::FABRIC = "FI_CLASS_FABRIC",
        class::DOMAIN = "FI_CLASS_DOMAIN",
        class::EP = "FI_CLASS_EP",
        class::AV = "FI_CLASS_AV",
        class::MR = "FI_CLASS_MR",
        class::EQ = "FI_CLASS_EQ",
        class::CQ = "FI_CLASS_CQ",
        class::CNTR = "FI_CLASS_CNTR",
        command::SETOPSFLAG = "FI_SETOPSFLAG",
        command::GETOPSFLAG = "FI_GETOPSFLAG",
        command::ENABLE = "FI_ENABLE",
        ADDR_UNSPEC = "FI_ADDR_UNSPEC",
    );
}

/// Needs `libfabric-dev`, which `cargo xtask mpi` provides before it runs this test.
#[test]
#[ignore = "needs the headers of libfabric-dev"]
fn the_layouts_are_those_of_the_headers() {
    let lines = &mut Lines { ours: String::new(), c: String::new() };
    structures(lines);
    tables(lines);
    constants(lines);
    let headers =
        ["fi_atomic", "fi_cm", "fi_domain", "fi_endpoint", "fi_eq", "fi_rma", "fi_tagged"];
    let mut program = "#include <stdio.h>\n#include <stddef.h>\n".to_owned();
    for header in headers.into_iter().chain(["providers/fi_prov"]) {
        writeln!(program, "#include <rdma/{header}.h>").unwrap();
    }
    writeln!(program, "int main(void) {{\n{}return 0;\n}}", lines.c).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&source, program).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let flags = std::env::var("CFLAGS").unwrap_or_default();
    let flags = flags.split_whitespace();
    let compiled =
        Command::new(compiler).args(flags).arg(&source).arg("-o").arg(&binary).status().unwrap();
    assert!(compiled.success(), "the program that prints the layouts does not compile");
    let theirs = String::from_utf8(Command::new(binary).output().unwrap().stdout).unwrap();
    for (ours, theirs) in lines.ours.lines().zip(theirs.lines()) {
        assert_eq!(ours, theirs, "ours is on the left");
    }
    assert_eq!(lines.ours.lines().count(), theirs.lines().count());
}
